//! The points of one series over time, and the value that PromQL reads from them at one moment.
//!
//! A [`Cursor`] only moves forward, so that a week of evaluations costs one pass over the points. Live watching and
//! replay read with the same cursor.

use std::collections::VecDeque;

use crate::alerts::mutation::{self, Mutation};
use crate::base::time::Time;

/// The value of a series at one time.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub at: Time,
    /// A stale marker says that the series has ended; see [`Point::stale`].
    pub value: f64,
}

/// The bits by which Prometheus marks a series as ended: a NaN that no sum gives.
const STALE: u64 = 0x7ff0_0000_0000_0002;

impl Point {
    pub fn new(at: Time, value: f64) -> Point {
        Point { at, value }
    }

    /// From here on there is no value.
    pub fn stale(at: Time) -> Point {
        Point { at, value: f64::from_bits(STALE) }
    }

    pub fn is_stale(&self) -> bool {
        self.value.to_bits() == STALE
    }
}

/// Which Prometheus is followed. They differ at the border of a window, and in how `increase` extrapolates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Prometheus {
    /// 2.50 and older.
    Before2_51,
    /// 2.51 to 2.55.
    Before3,
    #[default]
    Since3,
}

/// How a series is read at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// The newest point, at most this many milliseconds old, unless the series has ended.
    Instant(i64),
    /// The newest point within so many milliseconds, whether or not the series has ended: `last_over_time`.
    Last(i64),
    /// By how much a counter rose within so many milliseconds: `increase`.
    Increase(i64),
}

impl Reading {
    /// How far it looks back, in milliseconds.
    pub fn reach(self) -> i64 {
        let (Reading::Instant(reach) | Reading::Last(reach) | Reading::Increase(reach)) = self;
        reach
    }
}

/// Reads one column at one moment after the other.
#[derive(Clone, Debug)]
pub struct Cursor {
    reading: Reading,
    version: Prometheus,
    /// How many points are not after the moment.
    end: usize,
    /// The first point inside the window of an increase.
    start: usize,
    /// Points inside the window that are not stale markers.
    count: usize,
    /// The newest point that is not a stale marker, before `end`.
    last: Option<usize>,
    /// Where a counter fell inside the window: the index of the point before.
    resets: VecDeque<usize>,
}

impl Cursor {
    pub fn new(reading: Reading, version: Prometheus) -> Cursor {
        Cursor { reading, version, end: 0, start: 0, count: 0, last: None, resets: VecDeque::new() }
    }

    /// The value at that moment, which is not before the last one. `points` are in the order of time, and only grow at
    /// the end between two calls.
    pub fn at(&mut self, points: &[Point], at: Time) -> Option<f64> {
        match self.reading {
            Reading::Instant(reach) => self.newest(points, at, reach),
            Reading::Last(reach) => self.newest_known(points, at, reach),
            Reading::Increase(reach) => self.increase(points, at, reach),
        }
    }

    /// Until when the value of that moment, which was read last, stays: at that time it may be another. Not after that moment
    /// if it may be another at any.
    pub fn until(&self, points: &[Point], at: Time) -> Time {
        let (newest, reach) = match self.reading {
            Reading::Instant(reach) => (self.end.checked_sub(1), reach),
            Reading::Last(reach) => (self.last, reach),
            Reading::Increase(_) => return at,
        };
        let next = points.get(self.end).map_or(i64::MAX, |point| point.at.0);
        let border = i64::from(self.version != Prometheus::Since3);
        let forgotten =
            newest.and_then(|newest| points.get(newest)).map(|point| point.at.0.saturating_add(reach + border));
        // What is forgotten by now stays so.
        Time(forgotten.filter(|forgotten| *forgotten > at.0).map_or(next, |forgotten| forgotten.min(next)))
    }

    /// The place of the point whose value was read last; of an increase there is none.
    pub(super) fn read(&self) -> Option<usize> {
        match self.reading {
            Reading::Instant(_) => self.end.checked_sub(1),
            Reading::Last(_) => self.last,
            Reading::Increase(_) => None,
        }
    }

    /// The first so many points were taken away.
    pub fn forget(&mut self, points: usize) {
        if points > self.start {
            // Points that it had counted: what is left is read again.
            *self = Cursor::new(self.reading, self.version);
            return;
        }
        self.end -= points;
        self.start -= points;
        self.last = self.last.and_then(|last| last.checked_sub(points));
        self.resets.iter_mut().for_each(|before| *before -= points);
    }

    fn is_inside(&self, point: &Point, at: Time, reach: i64) -> bool {
        let age = at.0.saturating_sub(point.at.0);
        if self.version == Prometheus::Since3 { age < reach } else { age <= reach }
    }

    fn newest(&mut self, points: &[Point], at: Time, reach: i64) -> Option<f64> {
        if mutation::is(Mutation::Stale) {
            return self.newest_known(points, at, reach);
        }
        while points.get(self.end).is_some_and(|point| point.at <= at) {
            self.end += 1;
        }
        let newest = self.end.checked_sub(1).and_then(|last| points.get(last))?;
        (!newest.is_stale() && self.is_inside(newest, at, reach)).then_some(newest.value)
    }

    fn newest_known(&mut self, points: &[Point], at: Time, reach: i64) -> Option<f64> {
        while let Some(point) = points.get(self.end).filter(|point| point.at <= at) {
            if !point.is_stale() {
                self.last = Some(self.end);
            }
            self.end += 1;
        }
        let newest = points.get(self.last?)?;
        self.is_inside(newest, at, reach).then_some(newest.value)
    }

    fn increase(&mut self, points: &[Point], at: Time, reach: i64) -> Option<f64> {
        while let Some(point) = points.get(self.end).filter(|point| point.at <= at) {
            if !point.is_stale() {
                self.count += 1;
                let before = self.last.filter(|last| *last >= self.start);
                if let Some(before) = before
                    && point.value < points[before].value
                    && !mutation::is(Mutation::Reset)
                {
                    self.resets.push_back(before);
                }
                self.last = Some(self.end);
            }
            self.end += 1;
        }
        while self.start < self.end {
            let point = &points[self.start];
            if !point.is_stale() {
                if self.is_inside(point, at, reach) {
                    break;
                }
                self.count -= 1;
                if self.resets.front() == Some(&self.start) {
                    self.resets.pop_front();
                }
            }
            self.start += 1;
        }
        if self.count < 2 {
            return None;
        }
        let (first, last) = (points[self.start], points[self.last?]);
        let fallen = self.resets.iter().map(|before| points[*before].value);
        let rise = fallen.fold(last.value - first.value, |sum, value| sum + value);
        // Nothing extrapolated is nothing: most counters of troubles stand still.
        if rise == 0.0 || mutation::is(Mutation::Extrapolation) {
            return Some(rise);
        }
        Some(self.extrapolated(rise, first, last, at, reach))
    }

    /// The rise between the first and the last point, as if it went on to the borders of the window. Operation by
    /// operation as Prometheus does it, so that the sums are equal to the last bit.
    fn extrapolated(&self, rise: f64, first: Point, last: Point, at: Time, reach: i64) -> f64 {
        let seconds = |millis: i64| millis as f64 / 1_000.0;
        let mut to_start = seconds(first.at.0 - (at.0 - reach));
        let mut to_end = seconds(at.0 - last.at.0);
        let sampled = seconds(last.at.0 - first.at.0);
        let average = sampled / (self.count - 1) as f64;
        let threshold = average * 1.1;
        // A counter was not below zero before its first point.
        let to_zero = (rise > 0.0 && first.value >= 0.0).then(|| sampled * (first.value / rise));
        let nearer = |to_start: f64| to_zero.filter(|to_zero| *to_zero < to_start).unwrap_or(to_start);
        let cut = |gap: f64| if gap >= threshold { average / 2.0 } else { gap };
        to_start = if self.version == Prometheus::Before2_51 { cut(nearer(to_start)) } else { nearer(cut(to_start)) };
        to_end = cut(to_end);
        rise * ((sampled + to_start + to_end) / sampled)
    }
}

#[cfg(test)]
mod tests;
