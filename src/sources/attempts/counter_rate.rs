//! Exact rates from counters that only grow, by the difference of two readings. Pure.

use std::collections::VecDeque;
use std::time::Duration;

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

/// The last few readings, oldest first.
#[derive(Default)]
pub struct Readings(VecDeque<Reading>);

impl Readings {
    /// Whether the next reading would make a rate.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.0.back().is_some_and(|reading| now.since(reading.at) < OLD)
    }

    /// Adds a reading, and returns the rate since the oldest one in the span.
    pub fn take(&mut self, reading: Reading) -> Option<Tries> {
        if let Some(last) = self.0.back()
            // Counters that went down were reset.
            && (reading.attempts < last.attempts || reading.failures < last.failures || reading.at.since(last.at) > OLD)
        {
            self.0.clear();
        }
        while self.0.len() > 1 && reading.at.since(self.0[0].at) > SPAN {
            self.0.pop_front();
        }
        self.0.push_back(reading);
        let first = self.0[0];
        let span = reading.at.since(first.at);
        let (attempts, failures) = (reading.attempts - first.attempts, reading.failures - first.failures);
        let from = TriesFrom::Counted;
        let tries =
            Tries { attempts, failures, unjudged: 0, looked: span, span, margin_per_s: 0.0, from, at: reading.at };
        (span >= SHORTEST).then_some(tries)
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
        assert!(readings.0.len() <= 8, "bounded");
        assert_eq!(readings.take(reading(300, 500, 500)), None, "what happened long ago says nothing of now");
    }
}
