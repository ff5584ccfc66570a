//! BullMQ, and Bull before it: `bull:<queue>:<job>:lock` says which worker has the job.
//!
//! 30 seconds, renewed by setting it again: every 15 by Bull; BullMQ looks every 7.5 and renews what is older than that, so
//! that one that is a moment too young has to wait for the next look, 15 after the last. The lock is the worker's claim on
//! a job, not a mutex: without it the job counts as stalled and runs a second time, so it is not to be freed by hand.

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Strength, Waiting, shape, sight};
use crate::lock::{Holder, Mode};

pub struct BullMq;

const UUID_LEN: usize = 36;

/// The worker in `<uuid>:<count>`.
fn worker(token: &[u8]) -> Option<&[u8]> {
    let (worker, rest) = token.split_at_checked(UUID_LEN)?;
    (shape::is_uuid(worker) && shape::is_decimal(rest.strip_prefix(b":")?)).then_some(worker)
}

fn is_job_lock(key: &[u8]) -> bool {
    key.starts_with(b"bull:") && key.ends_with(b":lock") && key.iter().filter(|byte| **byte == b':').count() >= 3
}

fn judge(sight: &Sight<'_>, token: &[u8]) -> Option<Strength> {
    match (is_job_lock(sight.key), worker(token).is_some()) {
        (true, true) => Some(Strength::Certain),
        (true, false) if shape::is_uuid(token) => Some(Strength::Sure),
        (true, false) => shape::could_be_token(token).then_some(Strength::Sure),
        // The prefix can be changed.
        (false, true) if sight.key.ends_with(b":lock") && sight.has_ttl() => Some(Strength::Likely),
        _ => None,
    }
}

impl Dialect for BullMq {
    fn name(&self) -> &'static str {
        "bullmq"
    }

    fn facts(&self) -> &'static [&'static str] {
        &[
            "BullMQ looks after its locks each quarter of the lease and renews those that are older than that: one that is a moment too young is renewed after half of the lease, as all of Bull are.",
        ]
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["bull:*:*:lock"]
    }

    /// Strings that a queue keeps beside its jobs: the last id, pauses and throttles.
    fn is_helper(&self, key: &[u8]) -> bool {
        let suffixes: [&[u8]; 7] =
            [b":id", b":meta", b":meta-paused", b":stalled-check", b":limiter", b":pc", b":priority"];
        let names = |suffix: &&[u8]| key.ends_with(suffix) && key.iter().filter(|byte| **byte == b':').count() == 2;
        key.starts_with(b"bull:") && suffixes.iter().any(names)
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| judge(sight, token))?;
        let client = worker(token).and_then(sight::name);
        Some(Claim::lock(strength, Mode::Exclusive, vec![Holder { client, ..Holder::new(token) }]))
    }

    fn renewal(&self) -> Renewal {
        Renewal::Watchdog { share: 0.5 }
    }

    fn may_skip_a_beat(&self) -> bool {
        true
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Harms("loses its job, which counts as stalled and runs twice")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Nobody
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
            .warn("Do not free it: without its lock the job counts as stalled, goes back to the queue and runs twice.")
            .only_by_force("A BullMQ job without its lock counts as stalled, goes back to the queue and runs twice.")
    }
}

#[cfg(test)]
mod tests {
    use crate::dialects::trial::*;
    use crate::lock::RawValue;

    const KEY: &str = "bull:mail:1742:lock";

    #[test]
    fn a_job_lock_names_its_worker() {
        let best = found(KEY, format!("{UUID4}:12"), seconds(28));
        assert!(surely(&best, "bullmq"));
        assert_eq!(holder(best).client.as_ref().map(|text| text.visible()).as_deref(), Some(UUID4));
        assert!(surely(&found(KEY, UUID4, seconds(28)), "bullmq"));
    }

    #[test]
    fn another_prefix_makes_it_a_guess() {
        let best = found("{shop}:mail:1742:lock", format!("{UUID4}:12"), seconds(28));
        assert!(perhaps(&best, "bullmq"));
        assert_eq!(names(&best).1, "plain");
    }

    #[test]
    fn other_keys_of_the_queue_are_not_taken() {
        assert_eq!(names(&found("bull:mail:id", "1742", seconds(28))), ("", ""));
        assert_ne!(names(&found("bull:lock", UUID4, seconds(28))).0, "bullmq");
        assert_no_garbage("bullmq", KEY);
    }

    #[test]
    fn the_operator_hears_that_the_job_would_run_twice() {
        assert!(release("bullmq", KEY, &RawValue::string(b"x")).hazards[0].contains("runs twice"));
    }
}
