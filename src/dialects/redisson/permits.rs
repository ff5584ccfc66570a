//! RPermitExpirableSemaphore: a sorted set `{NAME}:timeout` of permits that are out, beside a counter of those left.
//!
//! A permit is 16 random bytes, written as 32 hex digits in the application; its score is when it runs out. Permits past
//! their time are free: they stay in the set until the next call of anybody reclaims them. If the semaphore has a TTL of
//! its own, so has the set.

use super::names;
use crate::base::time::Time;
use crate::dialects::{Claim, Dialect, Obstacle, Release, Renewal, Sight, Step, Strength, Waiting};
use crate::lock::{Holder, Mode, RawValue};

/// The score of a permit that never runs out.
const NEVER: f64 = 922_337_203_685_477.0;
const SUFFIX: &str = "timeout";

pub struct Permits;

impl Dialect for Permits {
    fn name(&self) -> &'static str {
        "redisson-permits"
    }

    fn facts(&self) -> &'static [&'static str] {
        &[
            "A permit past its end is free, and stays in the set until the next call. The set gets a TTL where the semaphore has one.",
        ]
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["{*}:timeout", "{*}:*:permitexpirablesemaphore:timeout"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let RawValue::Zset { members, .. } = sight.value else { return None };
        let permits = members.iter().all(|(id, score)| id.len() == 16 && *score > 1e12 && *score <= NEVER);
        // Sixteen random bytes are printable only once in ten million times.
        let random = members.iter().any(|(id, _)| !id.iter().all(|byte| byte.is_ascii_graphic()));
        let named = names::without_suffix(sight.key, SUFFIX).is_some();
        if members.is_empty() || !permits || !(named && random || sight.dialect_given) {
            return None;
        }
        let holders = live(members, sight.now).map(|(id, until)| Holder {
            client: Some(id.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()),
            until,
            ..Holder::new(id)
        });
        Some(Claim::lock(Strength::Sure, Mode::Permit, holders.collect()))
    }

    /// The key has none: each permit has a time of its own.
    fn renewal(&self) -> Renewal {
        Renewal::NoLease
    }

    fn shows_waiters(&self) -> bool {
        true
    }

    fn waiting(&self, sight: &Sight<'_>) -> Waiting {
        Waiting::Channel(channel(semaphore(sight.key)))
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let RawValue::Zset { members, .. } = sight.value else { return Release::default() };
        give_back(sight.key, live(members, sight.now).map(|(id, _)| id))
    }

    fn release_holder(&self, sight: &Sight<'_>, token: &[u8]) -> Release {
        give_back(sight.key, [token])
    }

    fn companions(&self, sight: &Sight<'_>) -> Vec<Vec<u8>> {
        vec![semaphore(sight.key).to_vec()]
    }
}

/// The permits that are out, and when each of them runs out.
fn live(members: &[(Box<[u8]>, f64)], now: Time) -> impl Iterator<Item = (&[u8], Option<Time>)> {
    let timed = members.iter().map(|(id, score)| (&**id, (*score < NEVER).then_some(Time(*score as i64))));
    timed.filter(move |(_, until)| until.is_none_or(|until| until > now))
}

/// The channel on which a semaphore notifies its waiters of returned permits.
pub fn channel(name: &[u8]) -> Vec<u8> {
    names::prefixed("redisson_sc", name)
}

fn semaphore(key: &[u8]) -> &[u8] {
    names::without_suffix(key, SUFFIX).unwrap_or(key)
}

fn give_back<'a>(key: &[u8], permits: impl IntoIterator<Item = &'a [u8]>) -> Release {
    let mut release = Release::default();
    for permit in permits {
        release.steps.push(Step::RemoveScored { key: key.to_vec(), member: permit.to_vec() });
    }
    let permits = release.steps.len() as u64;
    let name = semaphore(key);
    release
        .and(Step::ReturnPermits { counter: name.to_vec(), channel: channel(name), permits })
        .warn("The holder of the permit is not notified and goes on: more than allowed may work at once.")
        .unless(Obstacle::Ended { key: key.to_vec(), lease_ms: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::testing::{recognised, sight};

    const ONE: &[u8] = b"\x00\x9f\x13\xfe5678abcdef\xff\x01";
    const TWO: &[u8] = b"\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f";

    #[test]
    fn permits_that_are_out_are_holders() {
        let value = RawValue::zset([(ONE, 1_750_000_060_000.0), (TWO, NEVER)]);
        let (dialect, claim) = recognised(b"{downloads}:timeout", &value).unwrap();
        assert_eq!((dialect, claim.mode), ("redisson-permits", Mode::Permit));
        assert!(claim.strength >= Strength::Sure);
        let untils: Vec<_> = claim.holders.iter().map(|holder| holder.until).collect();
        assert_eq!(untils, [Some(Time(1_750_000_060_000)), None]);
        assert_eq!(
            claim.holders[1].client.as_ref().map(|text| text.visible()).as_deref(),
            Some("808182838485868788898a8b8c8d8e8f")
        );
    }

    #[test]
    fn a_permit_past_its_end_is_free() {
        let value = RawValue::zset([(ONE, 1_749_999_999_000.0), (TWO, 1_750_000_060_000.0)]);
        let sight = sight(b"{downloads}:timeout", &value);
        assert_eq!(sight.now, Time(1_750_000_000_000));
        let claim = Permits.read(&sight).unwrap();
        assert_eq!(claim.holders.iter().map(|holder| holder.token.as_bytes()).collect::<Vec<_>>(), [TWO]);
        assert_eq!(Permits.release(&sight).steps.len(), 2, "nothing is given back twice");
    }

    #[test]
    fn other_sorted_sets_are_not_taken() {
        let text = RawValue::zset([(&b"session-00000017"[..], 1_750_000_060_000.0)]);
        let ranks = RawValue::zset([(ONE, 3.0)]);
        let short = RawValue::zset([(&b"\xff\x00"[..], 1_750_000_060_000.0)]);
        for value in [text, ranks, short, RawValue::zset([]), RawValue::string(ONE)] {
            assert_eq!(Permits.read(&sight(b"{downloads}:timeout", &value)), None);
        }
        let permits = RawValue::zset([(ONE, 1_750_000_060_000.0)]);
        assert_eq!(Permits.read(&sight(b"downloads:timeout", &permits)), None);
    }

    #[test]
    fn one_permit_goes_back_to_its_counter() {
        let value = RawValue::zset([(ONE, NEVER), (TWO, NEVER)]);
        let sight = sight(b"{downloads}:timeout", &value);
        let one = Permits.release_holder(&sight, TWO).describe();
        assert!(one[0].starts_with("ZREM {downloads}:timeout "));
        assert_eq!(one[1], "INCRBY downloads 1; PUBLISH redisson_sc:{downloads} <new value>");
        let all = Permits.release(&sight).describe();
        assert_eq!(all.len(), 3);
        assert_eq!(all[2], "INCRBY downloads 2; PUBLISH redisson_sc:{downloads} <new value>");
        assert_eq!(Permits.waiting(&sight), Waiting::Channel(b"redisson_sc:{downloads}".to_vec()));
    }
}
