//! redis-semaphore (Ruby): a hash `SEMAPHORE:<name>:GRABBED` of tokens that are out, with the time each was taken.
//!
//! The tokens that are left wait in the list `…:AVAILABLE`, on which clients block. A token taken out of the hash and
//! not pushed back there is lost for ever. Under redis-namespace the `SEMAPHORE:` in front is missing.

use super::{Claim, Dialect, Release, Renewal, Sight, Step, Strength, Waiting, shape};
use crate::lock::{Holder, Mode, RawValue};

const PREFIX: &[u8] = b"SEMAPHORE:";
const GRABBED: &[u8] = b":GRABBED";
const COMPANIONS: [&[u8]; 4] = [b":AVAILABLE", b":EXISTS", b":VERSION", b":release_locks"];

pub struct RedisSemaphore;

impl Dialect for RedisSemaphore {
    fn name(&self) -> &'static str {
        "redis-semaphore"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["*:GRABBED"]
    }

    fn is_helper(&self, key: &[u8]) -> bool {
        key.starts_with(PREFIX) && COMPANIONS.iter().any(|suffix| key.ends_with(suffix))
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let RawValue::Hash { fields, .. } = sight.value else { return None };
        let name = sight.key.strip_suffix(GRABBED)?;
        let strength = match name {
            name if name.starts_with(PREFIX) => Strength::Certain,
            // Old versions of sidekiq-unique-jobs used the same suffix for something else.
            name if name.starts_with(b"uniquejobs:") && !sight.dialect_given => return None,
            _ => Strength::Likely,
        };
        let holders: Option<Vec<Holder>> = fields
            .iter()
            .map(|(token, taken)| Some(Holder { since: Some(shape::epoch_seconds(taken)?), ..Holder::new(token) }))
            .collect();
        let holders = holders.filter(|holders| !holders.is_empty())?;
        Some(Claim::lock(strength, Mode::Permit, holders))
    }

    fn renewal(&self) -> Renewal {
        Renewal::NoLease
    }

    fn shows_waiters(&self) -> bool {
        true
    }

    fn waiting(&self, sight: &Sight<'_>) -> Waiting {
        Waiting::BlockedOn(available(sight.key))
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let RawValue::Hash { fields, .. } = sight.value else { return Release::default() };
        give_back(sight.key, fields.iter().map(|(token, _)| &**token))
    }

    fn release_holder(&self, sight: &Sight<'_>, token: &[u8]) -> Release {
        give_back(sight.key, [token])
    }

    fn companions(&self, sight: &Sight<'_>) -> Vec<Vec<u8>> {
        let name = sight.key.strip_suffix(GRABBED).unwrap_or(sight.key);
        COMPANIONS.iter().map(|suffix| [name, suffix].concat()).collect()
    }
}

fn available(key: &[u8]) -> Vec<u8> {
    [key.strip_suffix(GRABBED).unwrap_or(key), b":AVAILABLE"].concat()
}

fn give_back<'a>(key: &[u8], tokens: impl IntoIterator<Item = &'a [u8]>) -> Release {
    let mut release = Release::default();
    for token in tokens {
        release = release
            .and(Step::DeleteField { key: key.to_vec(), field: token.to_vec() })
            .and(Step::PushBack { list: available(key), token: token.to_vec() });
    }
    release
        .warn("If its holder lives, it returns the token a second time, and one client too many gets in from then on.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Time;
    use crate::dialects::testing::{hash, recognised, sight};

    const KEY: &[u8] = b"SEMAPHORE:uploads:GRABBED";

    #[test]
    fn tokens_that_are_out_are_permits() {
        let (dialect, claim) = recognised(KEY, &hash(&[("0", "1749999000.25"), ("1", "1749999001")])).unwrap();
        assert_eq!((dialect, claim.mode), ("redis-semaphore", Mode::Permit));
        assert!(claim.strength >= Strength::Sure);
        assert_eq!(claim.holders[0], Holder { since: Some(Time(1_749_999_000_250)), ..Holder::new(b"0") });
        let (dialect, claim) = recognised(b"app:uploads:GRABBED", &hash(&[("0", "1749999000.25")])).unwrap();
        assert_eq!(dialect, "redis-semaphore");
        assert!(claim.strength < Strength::Sure, "without its prefix it is a guess");
    }

    #[test]
    fn a_token_goes_back_where_the_next_one_takes_it() {
        let value = hash(&[("0", "1749999000.25"), ("1", "1749999001")]);
        let sight = sight(KEY, &value);
        assert_eq!(
            RedisSemaphore.release_holder(&sight, b"1").describe(),
            ["HDEL SEMAPHORE:uploads:GRABBED 1", "LPUSH SEMAPHORE:uploads:AVAILABLE 1"]
        );
        assert_eq!(RedisSemaphore.release(&sight).steps.len(), 4);
        assert_eq!(RedisSemaphore.waiting(&sight), Waiting::BlockedOn(b"SEMAPHORE:uploads:AVAILABLE".to_vec()));
    }

    #[test]
    fn companions_are_helpers() {
        assert!(RedisSemaphore.is_helper(b"SEMAPHORE:uploads:AVAILABLE"));
        assert!(RedisSemaphore.is_helper(b"SEMAPHORE:job-lock:EXISTS"));
        assert!(!RedisSemaphore.is_helper(KEY));
        assert!(!RedisSemaphore.is_helper(b"lock:EXISTS"));
    }

    #[test]
    fn other_hashes_are_not_taken() {
        for (key, fields) in [
            (KEY, &[("0", "yes")][..]),
            (KEY, &[("0", "17")]),
            (b"SEMAPHORE:uploads", &[("0", "1749999000.25")]),
            (b"uniquejobs:0123456789abcdef0123456789abcdef:GRABBED", &[("jid", "1749999000.25")]),
        ] {
            assert_eq!(RedisSemaphore.read(&sight(key, &hash(fields))), None, "{fields:?}");
        }
        assert_eq!(RedisSemaphore.read(&sight(KEY, &RawValue::hash([]))), None);
    }
}
