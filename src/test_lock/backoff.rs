//! How long to wait between two attempts at a lock. Pure: the random number is an argument.

use std::time::Duration;

use crate::base::backoff;
use crate::base::time::Ttl;

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(250);

/// Grows with each attempt.
#[derive(Clone, Copy, Debug)]
pub struct Backoff(backoff::Backoff);

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff(backoff::Backoff::new(FIRST, LONGEST))
    }
}

impl Backoff {
    /// The pause before the next attempt, not much longer than the lock's remaining time `left`. `chance` is any
    /// number.
    pub fn next(&mut self, left: Ttl, chance: u8) -> Duration {
        let pause = self.0.next(chance);
        match left {
            Ttl::In(left) => pause.min(left + Duration::from_millis(1)),
            Ttl::Never => pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_ends_soon_is_not_slept_past() {
        let mut backoff = Backoff(backoff::Backoff::new(LONGEST, LONGEST));
        assert_eq!(backoff.next(Ttl::In(Duration::from_millis(3)), 0), Duration::from_millis(4));
    }
}
