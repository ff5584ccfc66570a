//! A lock that its holder enters again and again while it is freed: what is kept for undo must be what was taken away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lockscope::actions::Outcome;

use super::run::Stage;
use super::snapshot::Wire;

const KEY: &[u8] = b"entered-lock";
const HOLDER: &[u8] = b"0242ac11-0000-4000-8000-000000000001:57";
const SHADOW: &[u8] = b"entered";

/// Takes it where nobody has it: the first count, and beside it the same.
const TAKE: &str = "
if redis.call('HSETNX', KEYS[1], ARGV[1], 1) == 1 then redis.call('SET', KEYS[2], 1) end
return redis.call('PEXPIRE', KEYS[1], 30000)";

/// The holder's count, and beside it what it was last.
const ENTER: &str = "
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('SET', KEYS[2], redis.call('HINCRBY', KEYS[1], ARGV[1], 1))
return 1";

const AGREES: &str = "
local count = redis.call('HGET', KEYS[1], ARGV[1])
return count == redis.call('GET', KEYS[2]) and 1 or 0";

impl Stage {
    /// Frees it and puts it back so many times; `Err` where what came back is not what was taken away. How often it was
    /// freed, since a lock that changes too fast is left alone.
    pub fn free_what_changes(&mut self, times: usize) -> Result<usize, String> {
        let running = AtomicBool::new(true);
        let mut clients = Wire::new(self.server.connection());
        std::thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let mut pause = 0;
                while running.load(Ordering::Relaxed) {
                    clients.script(ENTER, &[KEY, SHADOW], &[HOLDER]);
                    pause = (pause * 7 + 13) % 400;
                    std::thread::sleep(Duration::from_micros(50 + pause));
                }
            });
            let result = (0..times).try_fold(0, |freed, _| Ok(freed + self.free_once()? as usize));
            running.store(false, Ordering::Relaxed);
            holder.join().expect("the holder does not panic");
            result
        })
    }

    fn free_once(&mut self) -> Result<bool, String> {
        self.wire.script(TAKE, &[KEY, SHADOW], &[HOLDER]);
        let view = self.runtime.block_on(self.operator.see(KEY, None)).ok_or("it is not shown")?;
        let plan = self.operator.free(&view, None).map_err(|why| why.to_string())?;
        let performed = self.runtime.block_on(self.operator.perform(&plan));
        let Outcome::Done { .. } = performed.outcome else { return Ok(false) };
        let plan = self.runtime.block_on(self.operator.undo(&performed.id, true))?;
        let undone = self.runtime.block_on(self.operator.perform(&plan));
        let Outcome::Done { .. } = undone.outcome else { return Err(format!("it is not put back: {undone:?}")) };
        match self.wire.script(AGREES, &[KEY, SHADOW], &[HOLDER]) {
            1 => Ok(true),
            _ => Err("what was put back is not what was taken away".into()),
        }
    }
}
