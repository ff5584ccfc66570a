//! How often something happens per second, over the last few seconds, from a count that only grows. Pure.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What a rate is over.
pub const WINDOW: Duration = Duration::from_secs(5);
/// What is watched for less time than this has no rate yet.
const LEAST: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub struct Rate {
    samples: VecDeque<(Instant, u64)>,
}

impl Rate {
    pub fn note(&mut self, now: Instant, count: u64) {
        self.samples.push_back((now, count));
        // The oldest that stays is the last one before the window: what follows it covers the whole.
        while self.samples.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.samples.pop_front();
        }
    }

    /// `None` until it was watched for long enough to say.
    pub fn per_second(&self) -> Option<f64> {
        let ((began, first), (now, last)) = (self.samples.front()?, self.samples.back()?);
        let time = now.duration_since(*began);
        (time >= LEAST).then(|| last.saturating_sub(*first) as f64 / time.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_over_the_last_seconds_only() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), None);
        rate.note(at(0), 0);
        rate.note(at(900), 9);
        assert_eq!(rate.per_second(), None, "too soon to say");
        rate.note(at(1_000), 10);
        assert_eq!(rate.per_second(), Some(10.0));
        for step in 5..=200 {
            rate.note(at(step * 250), 10);
        }
        assert_eq!(rate.per_second(), Some(0.0), "a known zero");
        assert!(rate.samples.len() <= 22, "{}", rate.samples.len());
    }
}
