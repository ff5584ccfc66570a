//! How long to wait between two attempts at a lock. Pure: chance is handed in.

use std::time::Duration;

use crate::base::time::Ttl;

const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_millis(250);

/// Grows from attempt to attempt.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pause: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { pause: FIRST }
    }
}

impl Backoff {
    /// The pause before the next attempt: not much longer than what is `left` of the lock, and never the same for two
    /// that wait together. `chance` is any number.
    pub fn next(&mut self, left: Ttl, chance: u8) -> Duration {
        let pause = self.pause.mul_f64(0.5 + f64::from(chance) / 512.0);
        self.pause = (self.pause * 2).min(LONGEST);
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
    fn pauses_grow_up_to_a_limit() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u128> = (0..8).map(|_| backoff.next(Ttl::Never, 0).as_millis()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 125, 125, 125]);
        assert!(Backoff::default().next(Ttl::Never, 255) < FIRST);
    }

    #[test]
    fn a_lock_that_ends_soon_is_not_slept_past() {
        let mut backoff = Backoff { pause: LONGEST };
        assert_eq!(backoff.next(Ttl::In(Duration::from_millis(3)), 0), Duration::from_millis(4));
    }
}
