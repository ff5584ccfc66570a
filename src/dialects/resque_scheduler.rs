//! resque-scheduler: `…resque_scheduler_master_lock`, a string `<host>:<pid>` of the scheduler that is the master.
//!
//! 180 seconds, put back to its full length on every poll; the others try on every poll of their own. The namespace
//! before the name may be there twice.

use super::{Claim, Dialect, Release, Renewal, Sight, Strength, Waiting, shape, sight};
use crate::lock::{Holder, Mode};

pub struct ResqueScheduler;

const NAME: &[u8] = b"resque_scheduler_master_lock";

/// A poll each 5 of 180 seconds.
const POLL_SHARE: f32 = 5.0 / 180.0;

fn host_and_pid(value: &[u8]) -> Option<(&[u8], u64)> {
    let at = value.iter().rposition(|byte| *byte == b':')?;
    (at > 0).then_some((&value[..at], sight::pid(&value[at + 1..])?))
}

impl Dialect for ResqueScheduler {
    fn name(&self) -> &'static str {
        "resque-scheduler"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["*resque_scheduler_master_lock*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let value = sight.token()?;
        let parsed = host_and_pid(value);
        let strength = sight.told_or(|| {
            let named = sight.key.windows(NAME.len()).any(|window| window == NAME);
            (named && shape::could_be_token(value)).then_some(if parsed.is_some() {
                Strength::Certain
            } else {
                Strength::Sure
            })
        })?;
        let mut holder = Holder::new(value);
        if let Some((host, pid)) = parsed {
            holder.host = sight::name(host);
            holder.pid = Some(pid);
        }
        Some(Claim::lock(strength, Mode::Exclusive, vec![holder]))
    }

    fn renewal(&self) -> Renewal {
        Renewal::Watchdog { share: POLL_SHARE }
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(5_000)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key).warn(
            "Another scheduler becomes the master at its next poll; while both believe it, a job may be queued twice.",
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::dialects::trial::*;

    const KEY: &str = "resque:resque:resque_scheduler_master_lock";

    #[test]
    fn the_master_tells_host_and_pid() {
        let best = found(KEY, "worker-3.example.org:8123", seconds(170));
        assert!(surely(&best, "resque-scheduler"));
        let holder = holder(best);
        assert_eq!(
            (holder.host.as_ref().map(|text| text.visible()).as_deref(), holder.pid),
            (Some("worker-3.example.org"), Some(8123))
        );
    }

    #[test]
    fn host_and_pid_elsewhere_are_not_taken() {
        assert_eq!(names(&found("import-lock", "worker-3:8123", seconds(170))).0, "plain");
        assert_no_garbage("resque-scheduler", KEY);
    }
}
