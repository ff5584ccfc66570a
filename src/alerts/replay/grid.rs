//! The times at which a rule is evaluated.

use std::time::Duration;

use crate::base::time::Time;

/// So many evaluations, one every interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grid {
    pub first: Time,
    /// In milliseconds, at least one.
    interval: i64,
    pub count: u32,
}

impl Grid {
    /// Evaluations from that time on.
    pub fn new(first: Time, interval: Duration, count: u32) -> Grid {
        Grid { first, interval: i64::try_from(interval.as_millis()).unwrap_or(i64::MAX).max(1), count }
    }

    /// The multiples of the interval from one time up to and with another, as the daemon evaluates.
    pub fn over(from: Time, to: Time, interval: Duration) -> Grid {
        let Grid { interval: millis, .. } = Grid::new(from, interval, 0);
        let first = from.0.div_euclid(millis) + i64::from(from.0.rem_euclid(millis) != 0);
        let count = (to.0.div_euclid(millis) - first + 1).clamp(0, i64::from(u32::MAX));
        Grid { first: Time(first.saturating_mul(millis)), interval: millis, count: count as u32 }
    }

    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval as u64)
    }

    /// The time of an evaluation.
    pub fn at(&self, index: u32) -> Time {
        Time(self.first.0.saturating_add(i64::from(index).saturating_mul(self.interval)))
    }

    /// The first evaluation at or after that time; `count` if there is none.
    pub fn at_or_after(&self, at: Time) -> u32 {
        let millis = at.0.saturating_sub(self.first.0).max(0);
        self.steps(millis).min(self.count)
    }

    /// How many intervals it takes until so many milliseconds have passed.
    pub fn steps(&self, millis: i64) -> u32 {
        let steps = (millis.max(0) as u64).div_ceil(self.interval as u64);
        u32::try_from(steps).unwrap_or(u32::MAX)
    }

    /// How many intervals fit into that time.
    pub fn steps_within(&self, time: Duration) -> u32 {
        u32::try_from(time.as_millis() / self.interval as u128).unwrap_or(u32::MAX)
    }

    /// How long so many evaluations take.
    pub fn lasts(&self, evaluations: u32) -> Duration {
        self.interval().saturating_mul(evaluations)
    }

    pub fn times(&self) -> impl Iterator<Item = Time> + Clone {
        let grid = *self;
        (0..self.count).map(move |index| grid.at(index))
    }

    /// Only every `step`th evaluation.
    pub fn every(&self, step: u32) -> Grid {
        let step = step.max(1);
        Grid {
            first: self.first,
            interval: self.interval.saturating_mul(i64::from(step)),
            count: self.count.div_ceil(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_has_the_multiples_of_its_interval() {
        let grid = Grid::over(Time(11_000), Time(30_000), Duration::from_secs(5));
        assert_eq!(grid.times().collect::<Vec<_>>(), [15_000, 20_000, 25_000, 30_000].map(Time));
        assert_eq!(grid.every(3).times().collect::<Vec<_>>(), [15_000, 30_000].map(Time));
        assert_eq!([0, 15_001, 20_000, 99_000].map(|at| grid.at_or_after(Time(at))), [0, 1, 1, 4]);
        assert_eq!(Grid::over(Time(10_000), Time(9_000), Duration::from_secs(5)).count, 0);
    }
}
