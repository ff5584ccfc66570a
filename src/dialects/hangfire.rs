//! Hangfire.Redis.StackExchange: string `{hangfire}:<resource>` with a GUID, the same for all locks of a process.
//!
//! 30 seconds, extended every 15. A holder whose key has gone does not notice: its timer asks again without a pause, so
//! a release by force can turn a living process into a busy loop against the server.

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Strength, Waiting, shape};

pub struct Hangfire;

fn is_under_prefix(key: &[u8]) -> bool {
    let start = key.strip_prefix(b"{").unwrap_or(key);
    start.get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"hangfire")) && start.contains(&b':')
}

/// What it keeps beside its locks: jobs, queues, servers, schedules and counters. Some have locks of their own, named so.
const BESIDE: [&[u8]; 14] = [
    b"stats:",
    b"job:",
    b"queue:",
    b"queues",
    b"server:",
    b"servers",
    b"recurring-job:",
    b"recurring-jobs",
    b"schedule",
    b"processing",
    b"succeeded",
    b"failed",
    b"deleted",
    b"retries",
];

impl Dialect for Hangfire {
    fn name(&self) -> &'static str {
        "hangfire"
    }

    fn patterns(&self) -> &'static [&'static str] {
        // A resource may have any name, so no part of the prefix can be left out.
        &["{hangfire}:*"]
    }

    fn is_helper(&self, key: &[u8]) -> bool {
        let resource = key.iter().position(|byte| *byte == b':').map_or(&[][..], |colon| &key[colon + 1..]);
        let beside = |name: &&[u8]| if name.ends_with(b":") { resource.starts_with(name) } else { resource == *name };
        is_under_prefix(key) && BESIDE.iter().any(beside) && !resource.ends_with(b"lock")
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

    fn if_freed(&self) -> IfFreed {
        IfFreed::Harms("asks for its lock again without pause: stop it first, and let the TTL end")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: None }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::trial::*;

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
    fn what_it_keeps_beside_its_locks_is_not_listed_under_a_pattern_of_the_user() {
        for key in [
            "{hangfire}:stats:succeeded:2026-11-18",
            "{hangfire}:job:17",
            "hangfire:queue:default",
            "{hangfire}:schedule",
        ] {
            assert!(Hangfire.is_helper(key.as_bytes()), "{key}");
            assert_eq!(names(&given(key, UUID4, seconds(25))), ("", ""), "{key}");
        }
        for key in [
            "{hangfire}:job:17:state-lock",
            "{hangfire}:queue:default:dequeued:lock",
            "{hangfire}:recurring-jobs:lock",
            "{hangfire}:locks:schedulepoller",
            "{hangfire}:Mailer.Send",
        ] {
            assert!(surely(&given(key, UUID4, seconds(25)), "hangfire"), "{key}");
        }
    }

    #[test]
    fn the_operator_hears_of_the_busy_loop() {
        assert!(Hangfire.if_freed().sentence().contains("without pause"));
    }
}
