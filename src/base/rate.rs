//! How much monotonic counters grew over the last few seconds. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::time::Time;

/// Readings of the counters, oldest first.
#[derive(Clone, Debug)]
pub struct Growth<const COUNTS: usize> {
    window: Duration,
    looks: VecDeque<(Time, [u64; COUNTS])>,
}

impl<const COUNTS: usize> Growth<COUNTS> {
    pub fn over(window: Duration) -> Growth<COUNTS> {
        Growth { window, looks: VecDeque::new() }
    }

    /// When the counters were last read.
    pub fn last(&self) -> Option<Time> {
        self.looks.back().map(|(at, _)| *at)
    }

    pub fn note(&mut self, at: Time, counts: [u64; COUNTS]) {
        let before = self.looks.back().map_or(counts, |(_, before)| *before);
        // A counter that went down was reset.
        if counts.iter().zip(before).any(|(now, before)| *now < before) {
            self.looks.clear();
        }
        self.looks.push_back((at, counts));
        // Keep one reading from before the window, so that the readings cover all of it.
        while self.looks.get(1).is_some_and(|(second, _)| at.since(*second) >= self.window) {
            self.looks.pop_front();
        }
    }

    /// The growth since the oldest reading kept, and the time since then.
    pub fn added(&self) -> Option<(Duration, [u64; COUNTS])> {
        let ((began, first), (now, last)) = (self.looks.front()?, self.looks.back()?);
        Some((now.since(*began), std::array::from_fn(|index| last[index] - first[index])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(5);

    #[test]
    fn growth_is_over_the_last_seconds_only() {
        let mut growth = Growth::over(WINDOW);
        assert_eq!(growth.added(), None);
        growth.note(Time(0), [0]);
        growth.note(Time(1_000), [10]);
        assert_eq!(growth.added(), Some((Duration::from_secs(1), [10])));
        for step in 5..=200 {
            growth.note(Time(step * 250), [10]);
        }
        assert_eq!(growth.added(), Some((WINDOW, [0])), "a known zero");
        assert!(growth.looks.len() <= 22, "{}", growth.looks.len());
    }

    #[test]
    fn counts_that_went_down_begin_anew() {
        let mut growth = Growth::over(WINDOW);
        growth.note(Time(0), [1_000, 900]);
        growth.note(Time(2_000), [3, 2]);
        assert_eq!(growth.added(), Some((Duration::ZERO, [0, 0])));
        growth.note(Time(4_000), [5, 2]);
        assert_eq!(growth.added(), Some((Duration::from_secs(2), [2, 0])));
    }
}
