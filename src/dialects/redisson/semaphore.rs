//! RSemaphore: a bare counter of the permits that are left.
//!
//! It stores no holders and looks like any other number, so it is read only if the user says so, with
//! `--dialect redisson-semaphore=GLOB`.

use super::permits;
use crate::dialects::{Claim, Dialect, Release, Renewal, Sight, Step, Strength, Waiting};
use crate::lock::Mode;

pub struct Semaphore;

impl Dialect for Semaphore {
    fn name(&self) -> &'static str {
        "redisson-semaphore"
    }

    fn facts(&self) -> &'static [&'static str] {
        &[
            "Unless you name the library, a number is read as a semaphore only where it is 0 and its name suggests a lock, or where it was seen going up or down without a TTL. Nobody holds it.",
        ]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let left = sight.value.as_string().filter(|_| sight.dialect_given)?;
        std::str::from_utf8(left).ok()?.parse::<i64>().ok()?;
        Some(Claim::lock(Strength::Mapped, Mode::Permit, Vec::new()))
    }

    fn renewal(&self) -> Renewal {
        Renewal::NoLease
    }

    fn shows_waiters(&self) -> bool {
        true
    }

    fn waiting(&self, sight: &Sight<'_>) -> Waiting {
        Waiting::Channel(permits::channel(sight.key))
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let channel = permits::channel(sight.key);
        Release::default().and(Step::ReturnPermits { counter: sight.key.to_vec(), channel, permits: 1 }).warn(
            "The semaphore does not store who has its permits: if you return one that is in use, one client too many gets in.",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::testing::{mapped, recognised, sight};
    use crate::lock::RawValue;

    #[test]
    fn a_number_is_a_semaphore_only_where_the_user_says_so() {
        let value = RawValue::string(b"5");
        assert_eq!(Semaphore.read(&sight(b"uploads-semaphore", &value)), None);
        assert_ne!(recognised(b"uploads-lock", &value).unwrap().0, "redisson-semaphore");
        let claim = Semaphore.read(&mapped(b"uploads", &value)).unwrap();
        assert_eq!((claim.mode, claim.holders.len()), (Mode::Permit, 0));
        assert_eq!(Semaphore.read(&mapped(b"uploads", &RawValue::string(b"five"))), None);
        assert_eq!(Semaphore.read(&mapped(b"uploads", &RawValue::hash([]))), None);
    }

    #[test]
    fn a_leaked_permit_is_returned_aloud() {
        let value = RawValue::string(b"0");
        let release = Semaphore.release(&mapped(b"uploads", &value));
        assert_eq!(release.describe(), ["INCRBY uploads 1; PUBLISH redisson_sc:{uploads} <new value>"]);
    }
}
