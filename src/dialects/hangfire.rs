//! Hangfire.Redis.StackExchange: string `{hangfire}:<resource>` with a GUID, the same for all locks of a process.
//!
//! 30 seconds, extended every 15. A holder whose key has gone does not notice: its timer asks again without a pause, so
//! a release by force can turn a living process into a busy loop against the server.

use super::{Claim, Dialect, Release, Renewal, Sight, Strength, Waiting, shape};

pub struct Hangfire;

fn is_under_prefix(key: &[u8]) -> bool {
    let start = key.strip_prefix(b"{").unwrap_or(key);
    start.get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"hangfire")) && start.contains(&b':')
}

impl Dialect for Hangfire {
    fn name(&self) -> &'static str {
        "hangfire"
    }

    fn patterns(&self) -> &'static [&'static str] {
        // A resource may have any name, so no part of the prefix can be left out.
        &["{hangfire}:*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength =
            sight.told_or(|| (is_under_prefix(sight.key) && shape::is_uuid(token)).then_some(Strength::Certain))?;
        Some(Claim::exclusive(strength, token))
    }

    fn tokens_come_again(&self) -> bool {
        true
    }

    fn renewal(&self) -> Renewal {
        Renewal::Watchdog { share: 0.5 }
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: None }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
            .warn("A holder that lives then asks for its lock again without pause: stop it first, and let the TTL end.")
    }
}

#[cfg(test)]
mod tests {
    use crate::dialects::trial::*;
    use crate::lock::RawValue;

    #[test]
    fn a_guid_under_the_prefix_whatever_the_resource() {
        for key in ["{hangfire}:lock:recurring-job:mail", "{hangfire}:job:17:state-lock", "{hangfire}:Mailer.Send"] {
            assert!(surely(&found(key, UUID4, seconds(25)), "hangfire"), "{key}");
        }
    }

    #[test]
    fn counters_and_jobs_beside_the_locks_are_not_taken() {
        assert_eq!(names(&found("{hangfire}:stats:succeeded", "17", seconds(25))), ("", ""));
        assert_eq!(names(&found("hangfiredepartment:note", UUID4, seconds(25))), ("", ""));
        assert_no_garbage("hangfire", "{hangfire}:lock:recurring-job:mail");
    }

    #[test]
    fn the_operator_hears_of_the_busy_loop() {
        let release = release("hangfire", "{hangfire}:locks:schedulepoller", &RawValue::string(UUID4.as_bytes()));
        assert!(release.hazards[0].contains("without pause"));
    }
}
