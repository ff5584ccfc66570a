//! A sorted set of leases under a name that speaks of a lock: each member is a holder, its score when it ends.
//!
//! The scheme of everybody who wrote a semaphore that way (tasktiger's queue locks among them), in seconds or
//! milliseconds of Unix time. Those past their end are free, and stay until somebody cleans up. A set of times that are
//! all over is a log of something, so one end must be ahead.

use super::{Claim, Dialect, Obstacle, Release, Renewal, Sight, Step, Strength, Waiting, shape};
use crate::base::time::Time;
use crate::lock::{Holder, Mode, RawValue};

pub struct Leases;

/// No lease lasts longer; later times are something else.
const LONGEST_MS: i64 = 31 * 86_400_000;
/// Scores above this are milliseconds.
const MILLIS: f64 = 1e11;

type Members = [(Box<[u8]>, f64)];

/// When a member ends, in milliseconds.
fn end(score: f64) -> Option<Time> {
    (1e9..1e14).contains(&score).then_some(Time(if score < MILLIS { (score * 1_000.0) as i64 } else { score as i64 }))
}

fn holders(members: &Members, now: Time) -> Option<Vec<Holder>> {
    let holder = |(member, score): &(Box<[u8]>, f64)| {
        let until = end(*score).filter(|until| until.0 <= now.0.saturating_add(LONGEST_MS))?;
        shape::could_be_token(member).then(|| Holder { until: Some(until), ..Holder::new(member) })
    };
    let all: Vec<Holder> = members.iter().map(holder).collect::<Option<_>>()?;
    Some(all.into_iter().filter(|holder| holder.until.is_some_and(|until| until > now)).collect())
}

fn in_millis(members: &Members) -> bool {
    members.iter().all(|(_, score)| *score >= MILLIS)
}

fn remove(sight: &Sight<'_>, member: &[u8]) -> Step {
    Step::RemoveScored { key: sight.key.to_vec(), member: member.to_vec() }
}

/// It is put back only while it lasts, and only in a place that is still free.
fn within_limit(sight: &Sight<'_>, members: &Members, release: Release) -> Release {
    let (key, lease_ms) = (|| sight.key.to_vec(), in_millis(members).then_some(0));
    let ended = lease_ms.map(|lease_ms| Obstacle::Ended { key: key(), lease_ms });
    ended.into_iter().chain([Obstacle::Members { key: key(), lease_ms }]).fold(release, Release::unless)
}

impl Dialect for Leases {
    fn name(&self) -> &'static str {
        "leases"
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let RawValue::Zset { members, .. } = sight.value else { return None };
        let holders = holders(members, sight.now).filter(|_| !members.is_empty())?;
        let strength = sight.told_or(|| {
            let some = !holders.is_empty();
            some.then(|| sight.guess(Strength::Possible)).flatten()
        })?;
        Some(Claim::lock(strength, Mode::Permit, holders))
    }

    fn renewal(&self) -> Renewal {
        Renewal::Optional { share: 1.0 / 3.0 }
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: None }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let RawValue::Zset { members, .. } = sight.value else { return Release::default() };
        let seen = holders(members, sight.now).unwrap_or_default();
        let all = seen.iter().map(|holder| remove(sight, holder.token.as_bytes()));
        within_limit(sight, members, all.fold(Release::default(), Release::and))
    }

    fn release_holder(&self, sight: &Sight<'_>, token: &[u8]) -> Release {
        let RawValue::Zset { members, .. } = sight.value else { return Release::default() };
        within_limit(sight, members, Release::default().and(remove(sight, token)))
    }
}

#[cfg(test)]
mod tests {
    use crate::dialects::trial::*;
    use crate::lock::{Mode, RawValue};

    fn set(ends: &[(&str, i64)], unit: f64) -> RawValue {
        RawValue::zset(ends.iter().map(|(member, ms)| (member.as_bytes(), (NOW.0 + ms) as f64 / unit)))
    }

    #[test]
    fn members_with_an_end_ahead_hold_it() {
        for unit in [1.0, 1_000.0] {
            let value = set(&[("worker-1", 9_000), ("worker-2", -4_000)], unit);
            let best = found_value("t:qslock:mails", &value, seconds(60));
            assert!(perhaps(&best, "leases"), "{best:?}");
            let claim = best.unwrap().claim;
            let held: Vec<String> = claim.holders.iter().map(|holder| holder.token.to_string()).collect();
            assert_eq!((claim.mode, held), (Mode::Permit, vec!["worker-1".to_string()]));
            assert_eq!(release("leases", "t:qslock:mails", &value).steps.len(), 1);
        }
    }

    #[test]
    fn other_sorted_sets_are_not_taken() {
        for (key, value) in [
            ("t:qslock:mails", set(&[("worker-1", -9_000)], 1.0)),
            ("t:qslock:mails", RawValue::zset([(&b"worker-1"[..], 17.0)])),
            ("t:qslock:mails", set(&[("worker-1", 9_000), ("next year", 400 * 86_400_000)], 1.0)),
            ("schedule", set(&[("worker-1", 9_000)], 1.0)),
            ("block:list", set(&[("worker-1", 9_000)], 1.0)),
        ] {
            assert_eq!(names(&found_value(key, &value, seconds(60))), ("", ""), "{key} {value:?}");
        }
        assert_no_garbage("leases", "t:qslock:mails");
    }
}
