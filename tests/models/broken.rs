//! What sequences of libraries do not reach: a server that lost its data, and a release of which no answer came.

use lockscope::actions::{Outcome, Performed, Plan};

use super::run::Stage;

const KEY: &[u8] = b"broken-lock";

impl Stage {
    fn free_one(&mut self) -> Result<Performed, String> {
        let taken: Option<String> = self.wire.run(&[b"SET", KEY, b"worker 7 of depot", b"NX", b"PX", b"60000"]);
        taken.ok_or("the lock is taken")?;
        let view = self.runtime.block_on(self.operator.see(KEY, None)).ok_or("it is not shown")?;
        let plan = self.operator.free(&view, None).map_err(|why| why.to_string())?;
        let performed = self.runtime.block_on(self.operator.perform(&plan));
        match performed.outcome {
            Outcome::Done { .. } => Ok(performed),
            other => Err(format!("it is not freed: {other:?}")),
        }
    }

    fn is_put_back(&mut self, plan: &Plan) -> Result<(), String> {
        match self.runtime.block_on(self.operator.perform(plan)).outcome {
            Outcome::Done { .. } => Err("put back".into()),
            _ => Ok(()),
        }
    }

    /// A lock is not put back on a server that began anew since. `Err` where it is.
    pub fn undo_on_another_server(&mut self) -> Result<(), String> {
        let freed = self.free_one()?;
        self.server.restart();
        let plan = self.runtime.block_on(self.operator.undo(&freed.id, true))?;
        self.is_put_back(&plan).map_err(|what| format!("{what} on a server that began anew"))
    }

    /// A release of which it is not known whether it happened is not undone without a word. `Err` where it is.
    pub fn undo_without_an_answer(&mut self) -> Result<(), String> {
        let freed = self.free_one()?;
        self.operator.forget_the_answer(&freed.id)?;
        match self.runtime.block_on(self.operator.undo(&freed.id, true)) {
            Ok(plan) => self.is_put_back(&plan).map_err(|what| format!("{what}, although nobody knows what was freed")),
            Err(_) => Ok(()),
        }
    }
}
