//! redlock-rb: the caller's key, a UUIDv4, always a TTL; and activejob-uniqueness, which is built on it.
//!
//! A UUIDv4 says nothing about its library, so without `activejob_uniqueness:` this is only a second choice. Its extend
//! may create a missing key again.

use super::{Claim, Dialect, IfFreed, Release, Sight, Strength, Waiting, shape};

pub struct RedlockRb;

const ACTIVE_JOB: &[u8] = b"activejob_uniqueness:";

impl Dialect for RedlockRb {
    fn name(&self) -> &'static str {
        "redlock-rb"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["activejob_uniqueness:*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            if !shape::is_uuid4(token) || !sight.has_ttl() {
                None
            } else if sight.key.starts_with(ACTIVE_JOB) {
                Some(Strength::Certain)
            } else {
                sight.guess(Strength::Faint)
            }
        })?;
        Some(Claim::exclusive(strength, token))
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Harms("may create the key again when it extends its lease")
    }

    fn waiting(&self, sight: &Sight<'_>) -> Waiting {
        if sight.key.starts_with(ACTIVE_JOB) { Waiting::Nobody } else { Waiting::Polls { every: None } }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let release = Release::delete(sight.key);
        if sight.key.starts_with(ACTIVE_JOB) {
            return release.warn(
                "The job may still be queued or running. If you free it, the same job can be queued a second time.",
            );
        }
        release.warn("A holder that lives may create the key again when it next extends.").warn_of_copies()
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;

    #[test]
    fn a_unique_job_is_known_by_its_prefix() {
        let best = found("activejob_uniqueness:import_job:9e107d9d", UUID4, seconds(86_000));
        assert!(surely(&best, "redlock-rb"));
    }

    #[test]
    fn a_bare_uuid_on_a_lock_is_only_a_second_choice() {
        assert_eq!(names(&found("import_lock", UUID4, seconds(500))), ("plain", "redlock-rb"));
        assert_eq!(names(&found("import_lock", UUID4, Ttl::Never)), ("plain", ""));
    }

    #[test]
    fn garbage_under_its_prefix() {
        assert_no_garbage("redlock-rb", "activejob_uniqueness:import_job:x");
    }
}
