//! Commands to the node that imports a slot: each with ASKING before it, which holds for one command.

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, Value, cmd, pipe};

use super::super::ServerConnection;

/// Asks for keys that are on their way to this node.
pub struct Asking<'a>(pub &'a mut ServerConnection);

impl ConnectionLike for Asking<'_> {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let mut both = pipe();
            both.add_command(cmd("ASKING")).add_command(command.clone());
            let answers = self.0.req_packed_commands(&both, 0, 2).await?;
            answers.into_iter().nth(1).unwrap_or(Value::Nil).extract_error()
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let mut asking = pipe();
            for command in pipeline.cmd_iter() {
                asking.add_command(cmd("ASKING")).add_command(command.clone());
            }
            let answers = self.0.req_packed_commands(&asking, 0, asking.len()).await?;
            Ok(answers.into_iter().skip(1).step_by(2).skip(offset).take(count).collect())
        })
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}
