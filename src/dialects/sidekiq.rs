//! sidekiq-unique-jobs (Ruby): a hash `<digest>:LOCKED` of job ids, with the time each took the lock.
//!
//! Up to version 8 the value is that time and a string, two lists and an info document stand beside the hash; version 9
//! keeps only the hash, with a JSON document per job. All digests are also listed in global sorted sets: a lock that is
//! only partly freed stays there as a ghost.

use std::time::Duration;

use super::{Claim, Dialect, Obstacle, Release, Renewal, Sight, Step, Strength, Waiting, shape, sight};
use crate::lock::{Holder, Mode, RawValue};

const PREFIX: &[u8] = b"uniquejobs:";
const LOCKED: &[u8] = b":LOCKED";
const COMPANIONS: [&[u8]; 3] = [b":QUEUED", b":PRIMED", b":INFO"];
const DIGESTS: &[u8] = b"uniquejobs:digests";
const EXPIRING: &[u8] = b"uniquejobs:expiring_digests";
const WAKE_FOR: Duration = Duration::from_secs(5);
const RUNS_TWICE: &str =
    "If the job is still queued or running, a second one like it may now be queued and run beside it.";

pub struct UniqueJobs;

impl Dialect for UniqueJobs {
    fn name(&self) -> &'static str {
        "sidekiq-unique-jobs"
    }

    fn facts(&self) -> &'static [&'static str] {
        &[
            "With `lock_ttl` a lock has a TTL, which nothing renews.",
            "Since 8.1 most contenders of a held lock return at once, and a block lasts at most 5s.",
            "Version 9 keeps `uniquejobs:working:*` and `uniquejobs:heartbeat:*` beside its locks; they are hidden.",
        ]
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["uniquejobs:*:LOCKED"]
    }

    fn is_helper(&self, key: &[u8]) -> bool {
        if key.starts_with(PREFIX) {
            return !key.ends_with(LOCKED);
        }
        COMPANIONS.iter().any(|suffix| key.strip_suffix(*suffix).is_some_and(is_digest))
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let RawValue::Hash { fields, .. } = sight.value else { return None };
        let digest = sight.key.strip_suffix(LOCKED)?;
        let strength = match digest {
            _ if sight.dialect_given => Strength::Mapped,
            digest if digest.starts_with(PREFIX) => Strength::Certain,
            digest if is_digest(digest) => Strength::Sure,
            _ => return None,
        };
        let jobs: Option<Vec<Job>> = fields.iter().map(|(jid, value)| Job::read(jid, value)).collect();
        let jobs = jobs.filter(|jobs| !jobs.is_empty())?;
        let shared = jobs.len() > 1 || jobs.iter().any(|job| job.limit.is_some_and(|limit| limit > 1));
        let mode = if shared { Mode::Permit } else { Mode::Exclusive };
        Some(Claim::lock(strength, mode, jobs.into_iter().map(|job| job.holder).collect()))
    }

    /// The process that pushes the job takes it; a worker frees it.
    fn stays(&self, _key: &[u8]) -> bool {
        true
    }

    fn tells_when_taken(&self) -> bool {
        true
    }

    fn renewal(&self) -> Renewal {
        Renewal::NoLease
    }

    fn publishes_attempts(&self) -> bool {
        true
    }

    fn shows_waiters(&self) -> bool {
        true
    }

    fn waiting(&self, sight: &Sight<'_>) -> Waiting {
        if is_version_9(sight.value) {
            return Waiting::Nobody;
        }
        Waiting::BlockedOn(companion(sight.key, b":QUEUED"))
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let mut release = Release::delete(sight.key);
        release.steps.extend(cleanup(sight));
        release.warn(RUNS_TWICE)
    }

    fn release_holder(&self, sight: &Sight<'_>, token: &[u8]) -> Release {
        let key = sight.key.to_vec();
        Release::default()
            .and(Step::DeleteField { key: key.clone(), field: token.to_vec() })
            .and(Step::WhenEmptied { key: key.clone(), besides: None, then: cleanup(sight) })
            .warn(RUNS_TWICE)
            .unless(Obstacle::Fields { key, limit: limit(sight.value, token) })
    }

    fn companions(&self, sight: &Sight<'_>) -> Vec<Vec<u8>> {
        if is_version_9(sight.value) {
            return Vec::new();
        }
        [&b""[..]].iter().chain(&COMPANIONS).map(|suffix| companion(sight.key, suffix)).collect()
    }
}

/// Removes what is left of a lock once its hash is gone. The locks of the run and of the queue are separate: one is
/// freed without the other.
fn cleanup(sight: &Sight<'_>) -> Vec<Step> {
    let digest = companion(sight.key, b"");
    let mut steps = Vec::new();
    if !is_version_9(sight.value) {
        steps.push(Step::Delete(digest.clone()));
        steps.extend(COMPANIONS.iter().map(|suffix| Step::Delete(companion(sight.key, suffix))));
    }
    for key in [DIGESTS, EXPIRING] {
        steps.push(Step::RemoveScored { key: key.to_vec(), member: digest.clone() });
    }
    if !is_version_9(sight.value) {
        steps.push(Step::Signal { list: companion(sight.key, b":QUEUED"), expires: WAKE_FOR });
    }
    steps
}

fn companion(key: &[u8], suffix: &[u8]) -> Vec<u8> {
    [key.strip_suffix(LOCKED).unwrap_or(key), suffix].concat()
}

/// `<prefix>:<MD5 or SHA3-256 in hex>`, with or without `:RUN`.
fn is_digest(text: &[u8]) -> bool {
    let text = text.strip_suffix(b":RUN").unwrap_or(text);
    let Some(colon) = text.iter().rposition(|byte| *byte == b':') else { return false };
    let hash = &text[colon + 1..];
    colon > 0 && (shape::is_hex(hash, 32) || shape::is_hex(hash, 64))
}

/// How many may hold it, if stored.
fn limit(value: &RawValue, token: &[u8]) -> Option<u64> {
    let RawValue::Hash { fields, .. } = value else { return None };
    let (jid, value) = fields.iter().find(|(jid, _)| **jid == *token)?;
    Job::read(jid, value)?.limit
}

fn is_version_9(value: &RawValue) -> bool {
    matches!(value, RawValue::Hash { fields, .. } if fields.iter().any(|(_, value)| value.starts_with(b"{")))
}

struct Job {
    holder: Holder,
    /// How many jobs may have the lock at once, if stored.
    limit: Option<u64>,
}

impl Job {
    fn read(jid: &[u8], value: &[u8]) -> Option<Job> {
        let holder = Holder::new(jid);
        if let Some(since) = shape::epoch_seconds(value) {
            return Some(Job { holder: Holder { since: Some(since), ..holder }, limit: None });
        }
        let document: serde_json::Value = serde_json::from_slice(value).ok()?;
        let document = document.as_object()?;
        let since = document.get("time").and_then(|time| shape::epoch_seconds(time.to_string().as_bytes()));
        Some(Job {
            holder: Holder {
                since,
                client: document.get("worker").and_then(|worker| sight::name(worker.as_str()?.as_bytes())),
                ..holder
            },
            limit: document.get("limit").and_then(|limit| limit.as_u64()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Time;
    use crate::dialects::testing::{hash, recognised, sight};

    const JID: &str = "b4a577edbccf1d805744efa9";
    const KEY: &[u8] = b"uniquejobs:0123456789abcdef0123456789abcdef:LOCKED";

    #[test]
    fn a_job_holds_its_digest_since_the_time_stored() {
        let (dialect, claim) = recognised(KEY, &hash(&[(JID, "1749999000.5")])).unwrap();
        assert_eq!((dialect, claim.mode), ("sidekiq-unique-jobs", Mode::Exclusive));
        assert!(claim.strength >= Strength::Sure);
        assert_eq!(claim.holders, [Holder { since: Some(Time(1_749_999_000_500)), ..Holder::new(JID.as_bytes()) }]);
    }

    #[test]
    fn version_9_tells_the_worker_and_the_limit() {
        let document = r#"{"worker":"ImportJob","queue":"default","limit":2,"time":1749999000.5,"at":null}"#;
        let value = hash(&[(JID, document)]);
        let (_, claim) = recognised(KEY, &value).unwrap();
        assert_eq!(claim.mode, Mode::Permit);
        assert_eq!(claim.holders[0].client.as_ref().map(|text| text.visible()).as_deref(), Some("ImportJob"));
        assert_eq!(claim.holders[0].since, Some(Time(1_749_999_000_500)));
        let digest = "uniquejobs:0123456789abcdef0123456789abcdef";
        assert_eq!(
            UniqueJobs.release(&sight(KEY, &value)).describe(),
            [
                format!("DEL {digest}:LOCKED"),
                format!("ZREM uniquejobs:digests {digest}"),
                format!("ZREM uniquejobs:expiring_digests {digest}"),
            ]
        );
    }

    #[test]
    fn freeing_leaves_no_ghost_digest() {
        let value = hash(&[(JID, "1749999000.5")]);
        let run = b"uniquejobs:0123456789abcdef0123456789abcdef:RUN:LOCKED";
        let digest = "uniquejobs:0123456789abcdef0123456789abcdef:RUN";
        let lines = UniqueJobs.release(&sight(run, &value)).describe();
        assert_eq!(
            lines[..7],
            [
                format!("DEL {digest}:LOCKED"),
                format!("DEL {digest}"),
                format!("DEL {digest}:QUEUED"),
                format!("DEL {digest}:PRIMED"),
                format!("DEL {digest}:INFO"),
                format!("ZREM uniquejobs:digests {digest}"),
                format!("ZREM uniquejobs:expiring_digests {digest}"),
            ]
        );
        assert!(lines[7].ends_with(&format!("PEXPIRE {digest}:QUEUED 5000")));
        let one = UniqueJobs.release_holder(&sight(run, &value), JID.as_bytes()).describe();
        assert_eq!(one[0], format!("HDEL {digest}:LOCKED {JID}"));
        assert!(one[1].starts_with(&format!("if nothing is left in {digest}:LOCKED: DEL {digest};")));
    }

    #[test]
    fn five_keys_make_a_lock_until_version_9() {
        let keys = UniqueJobs.companions(&sight(KEY, &hash(&[(JID, "1749999000.5")])));
        assert_eq!(keys.len(), 4, "beside its own");
        assert!(keys.iter().all(|key| UniqueJobs.is_helper(key)));
        assert_eq!(UniqueJobs.companions(&sight(KEY, &hash(&[(JID, "{}")]))), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn companions_are_helpers_and_both_locks_are_not() {
        for helper in [
            &b"uniquejobs:0123456789abcdef0123456789abcdef"[..],
            b"uniquejobs:0123456789abcdef0123456789abcdef:QUEUED",
            b"uniquejobs:0123456789abcdef0123456789abcdef:RUN:PRIMED",
            b"uniquejobs:0123456789abcdef0123456789abcdef:RUN",
            b"uniquejobs:digests",
            b"uniquejobs:reaper",
            b"uniquejobs:working:host:17",
            b"app:0123456789abcdef0123456789abcdef:INFO",
        ] {
            assert!(UniqueJobs.is_helper(helper), "{}", crate::base::text::visible(helper));
        }
        let run = b"uniquejobs:0123456789abcdef0123456789abcdef:RUN:LOCKED";
        for lock in [KEY, run, b"app:0123456789abcdef0123456789abcdef", b"lock:INFO"] {
            assert!(!UniqueJobs.is_helper(lock), "{}", crate::base::text::visible(lock));
        }
    }

    #[test]
    fn other_hashes_are_not_taken() {
        for (key, fields) in [
            (KEY, &[("a", "b")][..]),
            (KEY, &[("a", "[1]")]),
            (b"doors:LOCKED", &[(JID, "1749999000.5")]),
            (b"uniquejobs:digests", &[(JID, "1749999000.5")]),
        ] {
            assert_eq!(UniqueJobs.read(&sight(key, &hash(fields))), None, "{fields:?}");
        }
        assert_eq!(UniqueJobs.read(&sight(KEY, &RawValue::hash([]))), None);
        let (dialect, _) =
            recognised(b"app:0123456789abcdef0123456789abcdef:LOCKED", &hash(&[(JID, "1749999000.5")])).unwrap();
        assert_eq!(dialect, "sidekiq-unique-jobs", "another prefix with a digest");
    }
}
