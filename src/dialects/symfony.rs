//! Symfony Lock (PHP, since 5.2): a sorted set of tokens, base64 of 32 random bytes, scored by when they run out.
//!
//! The member `__write__` marks the lock as exclusive; without it all members are readers. Members past their time stay
//! until the next attempt removes them. Before 5.2 it was a plain string, and reads as one.

use std::time::Duration;

use super::{Claim, Dialect, IfFreed, Obstacle, Premise, Release, Sight, Step, Strength, Waiting, shape};
use crate::base::time::Time;
use crate::lock::{Holder, Mode, RawValue};

const EXCLUSIVE: &[u8] = b"__write__";
const LEFT_OVER: &str = "Nobody holds it: the mark of a writer was left without its token, and keeps everybody out until \
    it expires.";

pub struct Symfony;

impl Dialect for Symfony {
    fn name(&self) -> &'static str {
        "symfony"
    }

    fn is_left_by_processes(&self) -> bool {
        true
    }

    fn is_helper(&self, key: &[u8]) -> bool {
        key.ends_with(b"symfony_check_support_time")
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let RawValue::Zset { members, .. } = sight.value else { return None };
        let exclusive = is_exclusive(members);
        let is_token = |(member, score): &(Box<[u8]>, f64)| {
            (shape::is_base64(member, 32) || sight.dialect_given) && (1e12..1e14).contains(score)
        };
        let tokens: Vec<_> = members.iter().filter(|(member, _)| **member != *EXCLUSIVE).collect();
        if let [(mark, score)] = &**members
            && **mark == *EXCLUSIVE
            && (1e12..1e14).contains(score)
        {
            // Its token was removed by hand. Nobody holds it, but it blocks everybody.
            let left_over = Holder { until: Some(Time(*score as i64)), ..Holder::new(mark) };
            return Some(Claim::lock(Strength::Sure, Mode::Exclusive, vec![left_over]));
        }
        if tokens.is_empty() || !tokens.iter().all(|token| is_token(token)) {
            return None;
        }
        let (strength, mode) =
            if exclusive { (Strength::Certain, Mode::Exclusive) } else { (Strength::Sure, Mode::Read) };
        // The next attempt removes the readers whose time is up.
        let reads = |(_, score): &&(Box<[u8]>, f64)| exclusive || Time(*score as i64) > sight.now;
        let holders = tokens
            .into_iter()
            .filter(|token| reads(token))
            .map(|(member, score)| Holder { until: Some(Time(*score as i64)), ..Holder::new(member) })
            .collect();
        Some(Claim::lock(strength, mode, holders))
    }

    /// The token stays with the key object, and each acquire of that object uses it.
    fn tokens_come_again(&self) -> bool {
        true
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its next refresh() fails")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: Some(Duration::from_millis(100)) }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        match sight.value {
            RawValue::Zset { members, .. } if members.len() == 1 && is_exclusive(members) => {
                Release::delete(sight.key).warn(LEFT_OVER)
            }
            value => Release::delete(sight.key).warn_of_unread(value),
        }
    }

    fn release_holder(&self, sight: &Sight<'_>, token: &[u8]) -> Release {
        match sight.value {
            RawValue::Zset { members, .. } if !is_exclusive(members) => {
                let step = Step::RemoveScored { key: sight.key.to_vec(), member: token.to_vec() };
                let writer = Obstacle::Scored { key: sight.key.to_vec(), member: EXCLUSIVE.to_vec() };
                let reads = Premise::Unmarked { key: sight.key.to_vec(), mark: EXCLUSIVE.to_vec() };
                let ended = Obstacle::Ended { key: sight.key.to_vec(), lease_ms: 0 };
                Release::default().and(step).while_so(reads).unless(writer).unless(ended)
            }
            _ => self.release(sight),
        }
    }
}

fn is_exclusive(members: &[(Box<[u8]>, f64)]) -> bool {
    members.iter().any(|(member, _)| **member == *EXCLUSIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::testing::{mapped, recognised, sight};

    const ONE: &[u8] = b"q6bGZ0cQ1m3yq8Vb0h9s5kXo2n7Jr4tLw1eUzPaYdcA=";
    const TWO: &[u8] = b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const END: f64 = 1_750_000_300_000.0;

    #[test]
    fn a_writer_is_one_holder_and_its_mark_is_none() {
        let value = RawValue::zset([(ONE, END), (EXCLUSIVE, END)]);
        let (dialect, claim) = recognised(b"invoice-lock", &value).unwrap();
        assert_eq!((dialect, claim.mode), ("symfony", Mode::Exclusive));
        assert!(claim.strength >= Strength::Sure);
        assert_eq!(claim.holders, [Holder { until: Some(Time(1_750_000_300_000)), ..Holder::new(ONE) }]);
    }

    #[test]
    fn readers_go_one_by_one() {
        let value = RawValue::zset([(ONE, END), (TWO, END)]);
        let sight = sight(b"invoice", &value);
        let claim = Symfony.read(&sight).unwrap();
        assert_eq!((claim.mode, claim.holders.len()), (Mode::Read, 2));
        let expected = format!("ZREM invoice {}", String::from_utf8_lossy(TWO));
        assert_eq!(Symfony.release_holder(&sight, TWO).describe(), [expected]);
        assert_eq!(Symfony.release(&sight).describe(), ["DEL invoice"]);
    }

    #[test]
    fn a_writer_goes_with_its_mark() {
        let value = RawValue::zset([(ONE, END), (EXCLUSIVE, END)]);
        assert_eq!(Symfony.release_holder(&sight(b"invoice", &value), ONE).describe(), ["DEL invoice"]);
    }

    #[test]
    fn other_sorted_sets_are_not_taken() {
        let ranking = RawValue::zset([(ONE, 17.0)]);
        let names = RawValue::zset([(&b"alice"[..], END)]);
        let mixed = RawValue::zset([(ONE, END), (&b"alice"[..], END)]);
        for value in [ranking, names.clone(), mixed, RawValue::zset([]), RawValue::string(ONE)] {
            assert_eq!(Symfony.read(&sight(b"lock:a", &value)), None);
        }
        assert!(Symfony.read(&mapped(b"lock:a", &names)).is_some());
    }

    #[test]
    fn the_mark_of_a_writer_alone_keeps_everybody_out() {
        let mark = RawValue::zset([(EXCLUSIVE, END)]);
        let (dialect, claim) = recognised(b"invoice-lock", &mark).unwrap();
        assert_eq!((dialect, claim.mode, claim.holders.len()), ("symfony", Mode::Exclusive, 1));
        let release = Symfony.release_holder(&sight(b"invoice", &mark), EXCLUSIVE);
        assert_eq!((release.describe(), release.hazards), (vec!["DEL invoice".to_string()], vec![LEFT_OVER]));
        assert_eq!(Symfony.read(&sight(b"lock:a", &RawValue::zset([(EXCLUSIVE, 17.0)]))), None);
    }

    #[test]
    fn readers_beyond_those_read_are_warned_of() {
        let RawValue::Zset { members, .. } = RawValue::zset([(ONE, END)]) else { unreachable!() };
        let value = RawValue::Zset { members, len: 500 };
        let hazards = Symfony.release(&sight(b"a", &value)).hazards;
        assert!(hazards.iter().any(|hazard| hazard.contains("more holders than were read")));
    }
}
