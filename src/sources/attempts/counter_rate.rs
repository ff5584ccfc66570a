//! Exact rates from counters that only grow, by the difference of two readings. Pure.

use std::time::Duration;

use crate::base::rate::Growth;
use crate::base::time::Time;
use crate::model::{Tries, TriesFrom};

/// A rate covers at most this long.
const SPAN: Duration = Duration::from_secs(12);
/// Two readings closer than this make no rate.
const SHORTEST: Duration = Duration::from_millis(500);
/// After a gap this long, readings start again.
const OLD: Duration = Duration::from_secs(60);

/// The counts of one lock at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reading {
    pub at: Time,
    pub attempts: u64,
    pub failures: u64,
}

/// The last few readings of one lock.
pub struct Readings(Growth<2>);

impl Default for Readings {
    fn default() -> Readings {
        Readings(Growth::over(SPAN))
    }
}

impl Readings {
    /// Whether the next reading would make a rate.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.0.last().is_some_and(|last| now.since(last) < OLD)
    }

    /// Adds a reading, and returns the rate since the oldest one in the span.
    pub fn take(&mut self, reading: Reading) -> Option<Tries> {
        if self.0.last().is_some_and(|last| reading.at.since(last) > OLD) {
            *self = Readings::default();
        }
        self.0.note(reading.at, [reading.attempts, reading.failures]);
        let (span, [attempts, failures]) = self.0.added().filter(|(span, _)| *span >= SHORTEST)?;
        let (from, at) = (TriesFrom::Counted, reading.at);
        Some(Tries { attempts, failures, unjudged: 0, unclear: 0, looked: span, span, margin_per_s: 0.0, from, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(s: i64, attempts: u64, failures: u64) -> Reading {
        Reading { at: Time(s * 1_000), attempts, failures }
    }

    #[test]
    fn one_look_makes_no_rate_and_two_do() {
        let mut readings = Readings::default();
        assert_eq!(readings.take(reading(0, 1_000, 900)), None);
        let tries = readings.take(reading(2, 1_010, 908)).unwrap();
        assert_eq!((tries.attempts_per_s(), tries.failures_per_s(), tries.coverage()), (5.0, 4.0, 1.0));
        assert_eq!((tries.from, tries.margin_per_s), (TriesFrom::Counted, 0.0));
    }

    #[test]
    fn counts_that_went_down_begin_anew() {
        let mut readings = Readings::default();
        readings.take(reading(0, 1_000, 900));
        assert_eq!(readings.take(reading(2, 3, 2)), None);
        assert_eq!(readings.take(reading(4, 5, 2)).unwrap().attempts, 2);
    }

    #[test]
    fn a_rate_is_of_the_last_seconds() {
        let mut readings = Readings::default();
        for s in (0..60).step_by(2) {
            readings.take(reading(s, 100, 100));
        }
        let tries = readings.take(reading(60, 112, 112)).unwrap();
        assert_eq!((tries.failures, tries.span), (12, SPAN));
        assert_eq!(readings.take(reading(300, 500, 500)), None, "what happened long ago says nothing of now");
    }
}
