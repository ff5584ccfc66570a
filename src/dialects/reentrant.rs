//! A hash with one field, the holder, whose value counts how often it entered.
//!
//! The dialect of hand-written reentrant locks, and the last choice for hashes that no library is recognised in. Hashes
//! of counters look alike, so the name must suggest a lock and there must be one holder.

use super::{Claim, Dialect, Renewal, Sight, Strength, Waiting, own, shape};
use crate::lock::{Holder, Mode};

/// No lock is entered more often without leaving it; other counters soon exceed it.
const MOST_ENTRIES: i64 = 1_000;

pub struct Reentrant;

impl Dialect for Reentrant {
    fn name(&self) -> &'static str {
        "reentrant"
    }

    fn is_helper(&self, key: &[u8]) -> bool {
        own::is_counts_key(key)
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let fields = sight.value.as_hash()?;
        let holders: Option<Vec<Holder>> = fields.iter().map(|(field, value)| holder(field, value)).collect();
        let holders = holders.filter(|holders| !holders.is_empty())?;
        let strength = match holders.len() {
            1 if shape::names_a_lock(sight.key) => Strength::Possible,
            1 if sight.given => Strength::Faint,
            _ if sight.dialect_given => Strength::Mapped,
            _ => return None,
        };
        Some(Claim::lock(strength, Mode::Exclusive, holders))
    }

    fn tokens_come_again(&self) -> bool {
        true
    }

    fn renewal(&self) -> Renewal {
        Renewal::Optional { share: 1.0 / 3.0 }
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: None }
    }
}

fn holder(field: &[u8], value: &[u8]) -> Option<Holder> {
    let count: i64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    let fits = shape::is_decimal(value) && (1..=MOST_ENTRIES).contains(&count) && shape::could_be_token(field);
    fits.then(|| {
        let mut holder = Holder { count: Some(count), ..Holder::new(field) };
        own::tell(&mut holder);
        holder
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::testing::{hash, mapped, recognised, sight};
    use crate::lock::RawValue;

    #[test]
    fn one_holder_that_entered_twice() {
        let (dialect, claim) = recognised(b"lock:import", &hash(&[("worker-7", "2")])).unwrap();
        assert_eq!(dialect, "reentrant");
        assert!(claim.strength < Strength::Sure, "it is a guess");
        assert_eq!(claim.holders[0].token.as_bytes(), b"worker-7");
        assert_eq!(claim.holders[0].count, Some(2));
    }

    #[test]
    fn a_hash_of_counters_is_no_lock() {
        for (key, fields) in [
            (&b"stats:orders"[..], &[("open", "3")][..]),
            (b"clock:ticks", &[("node-1", "3")]),
            (b"lock:stats", &[("acquired", "512"), ("failed", "3")]),
            (b"lock:stats", &[("acquired", "51200")]),
            (b"lock:a", &[("holder", "-1")]),
            (b"lock:a", &[("holder", "+1")]),
            (b"lock:a", &[("owner", "worker-7")]),
        ] {
            assert_eq!(recognised(key, &hash(fields)), None, "{fields:?}");
        }
        assert_eq!(recognised(b"lock:a", &RawValue::hash([])), None);
    }

    #[test]
    fn what_the_user_names_is_taken_with_less_evidence() {
        let one = hash(&[("worker-7", "1")]);
        let given = Sight { given: true, ..sight(b"import", &one) };
        assert!(Reentrant.read(&given).is_some());
        let two = hash(&[("worker-7", "1"), ("worker-8", "1")]);
        assert_eq!(Reentrant.read(&Sight { given: true, ..sight(b"import", &two) }), None);
        assert_eq!(Reentrant.read(&mapped(b"import", &two)).unwrap().holders.len(), 2);
    }

    #[test]
    fn a_hash_that_was_cut_is_no_lock() {
        let RawValue::Hash { fields, .. } = hash(&[("worker-7", "1")]) else { unreachable!() };
        assert_eq!(recognised(b"lock:a", &RawValue::Hash { fields, len: 900 }), None);
    }
}
