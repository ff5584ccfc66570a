//! celery-once: one key per task that must not be queued twice, `qo_<task>_<arg>-<value>…`.
//!
//! A redis-py lock taken when the task is queued, for an hour by default. It is freed when the task ends, by
//! a plain deletion that does not ask whose lock it is.

use super::{Claim, Dialect, IfFreed, Release, Sight, Strength, Waiting, redis_py};
use crate::lock::Mode;

pub struct CeleryOnce;

impl Dialect for CeleryOnce {
    fn name(&self) -> &'static str {
        "celery-once"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["qo_*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            redis_py::token_time(token, sight.now)?;
            sight.key.starts_with(b"qo_").then_some(Strength::Certain)
        })?;
        Some(Claim::lock(strength, Mode::Exclusive, vec![redis_py::holder(token, sight.now)]))
    }

    /// The process that queues the task takes it; a worker frees it.
    fn stays(&self, _key: &[u8]) -> bool {
        true
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Harms("deletes the lock of the next one when its task ends")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Nobody
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
            .warn("The task may still be queued or running. If you free it, the same task can be queued a second time.")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Time;
    use crate::dialects::trial::*;

    #[test]
    fn a_task_that_must_not_be_queued_twice() {
        let best = found("qo_reports.daily_day-2025-10-09", UUID1_HEX, seconds(3600));
        assert!(surely(&best, "celery-once"));
        assert_eq!(holder(best).since, Some(Time(1_645_557_742_000)));
    }

    #[test]
    fn the_prefix_alone_is_not_enough() {
        assert_eq!(names(&found("qo_settings", "dark", seconds(3600))), ("", ""));
        assert_no_garbage("celery-once", "qo_task_id-7");
    }
}
