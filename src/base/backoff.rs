//! How long to wait before the next attempt: longer each time, up to a limit, with jitter so that clients do not retry
//! together. Pure: the random number is an argument.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    pause: Duration,
}

impl Backoff {
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest, pause: first }
    }

    /// The pause before the next attempt: a random part of it, from half to nearly all. `chance` is the random number.
    pub fn next(&mut self, chance: u8) -> Duration {
        let pause = self.pause.mul_f64(0.5 + f64::from(chance) / 512.0);
        self.pause = (self.pause * 2).min(self.longest);
        pause
    }

    /// An attempt succeeded: the next failure starts with the first pause.
    pub fn reset(&mut self) {
        self.pause = self.first;
    }
}

/// A random number. If the system has none, clients may retry together, which does no harm.
pub fn chance() -> u8 {
    let mut byte = [0];
    let _ = getrandom::fill(&mut byte);
    byte[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(250));
        let pauses: Vec<u128> = (0..8).map(|_| backoff.next(0).as_millis()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 125, 125, 125]);
        backoff.reset();
        assert!(backoff.next(255) < Duration::from_millis(10));
    }
}
