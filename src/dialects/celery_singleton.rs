//! celery-singleton: `SINGLETONLOCK_<md5 of the task and its arguments>` holds the id of the one task that may exist.
//!
//! No TTL unless `lock_expiry` is set, so a worker that is killed leaves the key for ever. A task that comes second is
//! not queued; the caller gets the result of the first.

use super::{Claim, Dialect, IfFreed, Release, Sight, Strength, Waiting, shape};

pub struct CelerySingleton;

const PREFIX: &[u8] = b"SINGLETONLOCK_";

impl Dialect for CelerySingleton {
    fn name(&self) -> &'static str {
        "celery-singleton"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["SINGLETONLOCK_*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            let rest = sight.key.strip_prefix(PREFIX)?;
            match (shape::is_hex(rest, 32), shape::is_uuid(token)) {
                (true, true) => Some(Strength::Certain),
                (true, false) => shape::could_be_token(token).then_some(Strength::Sure),
                (false, task) => task.then_some(Strength::Likely),
            }
        })?;
        Some(Claim::exclusive(strength, token))
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
            .warn("The task may still be queued or running. If you free it, a second one can start beside it.")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;

    const KEY: &str = "SINGLETONLOCK_9e107d9d372bb6826bd81d3542a419d6";

    #[test]
    fn a_task_id_under_the_singleton_prefix() {
        assert!(surely(&found(KEY, UUID4, Ttl::Never), "celery-singleton"));
        assert!(surely(&found(KEY, "nightly-17", Ttl::Never), "celery-singleton"));
        assert!(perhaps(&found("SINGLETONLOCK_mine", UUID4, Ttl::Never), "celery-singleton"));
    }

    #[test]
    fn garbage_under_the_singleton_prefix() {
        assert_no_garbage("celery-singleton", KEY);
    }
}
