//! A column put together from pieces of blocks, and the same in coarser steps. Pure.

use std::ops::Range;
use std::time::Duration;

use crate::base::time::Time;
use crate::store::body::Pair;
use crate::store::bytes::Bytes;
use crate::store::changes::{Changes, decode, push};

/// A column that grows piece by piece. Where a piece is missing, nothing is known.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Joined {
    pub pair: Pair,
    /// Up to which index it was put together.
    end: u32,
}

impl Joined {
    /// Adds the part `range` of a block's column, to begin at index `start`. `None` if it is damaged.
    pub fn add(&mut self, start: u32, range: Range<u32>, last: Bytes, largest: Bytes) -> Option<()> {
        let Pair { last: values, largest: peaks } = &mut self.pair;
        if !largest.is_empty() && peaks.is_empty() {
            peaks.clone_from(values);
        }
        // Where one block has peaks of its own, those of the others are their values.
        let has_peaks = !peaks.is_empty() || !largest.is_empty();
        if self.end < start {
            push(values, self.end, f64::NAN);
            if has_peaks {
                push(peaks, self.end, f64::NAN);
            }
        }
        add(values, start, &range, last)?;
        if has_peaks {
            add(peaks, start, &range, if largest.is_empty() { last } else { largest })?;
        }
        self.end = start + (range.end - range.start);
        Some(())
    }

    /// Begins a piece whose changes follow by [`Joined::set`]: nothing is known until the first.
    pub fn begin(&mut self, start: u32, end: u32) {
        if self.end < start {
            self.set(self.end, f64::NAN);
        }
        self.set(start, f64::NAN);
        self.end = end;
    }

    /// It has that value from that index on, which is none before the last one that was set.
    pub fn set(&mut self, index: u32, value: f64) {
        push(&mut self.pair.last, index, value);
        if !self.pair.largest.is_empty() {
            push(&mut self.pair.largest, index, value);
        }
    }

    /// The whole column of that many times; `None` if nothing in it was ever known.
    pub fn finish(mut self, end: u32) -> Option<Pair> {
        if self.end < end {
            self.set(self.end, f64::NAN);
        }
        let known = |changes: &Changes| changes.iter().any(|(_, value)| !value.is_nan());
        (known(&self.pair.last) || known(&self.pair.largest)).then_some(self.pair)
    }
}

fn add(changes: &mut Changes, start: u32, range: &Range<u32>, mut bytes: Bytes) -> Option<()> {
    let mut before = f64::NAN;
    let mut begun = false;
    let mut take = |index: u32, value: f64| {
        if index <= range.start {
            before = value;
        } else if index < range.end {
            let index = start + (index - range.start);
            if begun {
                // Only changes are kept in a block: no two in a row are equal.
                changes.push((index, value));
            } else {
                push(changes, start, before);
                push(changes, index, value);
                begun = true;
            }
        }
    };
    // A column without changes has no bytes at all: its peaks were known, its last values never.
    if !bytes.is_empty() {
        decode(&mut bytes, 0, &mut take)?;
    }
    if !begun {
        push(changes, start, before);
    }
    Some(())
}

/// How times fall into coarser steps.
pub struct Steps {
    /// The last time of each step.
    pub times: Vec<Time>,
    /// The step of each old time.
    step_of: Vec<u32>,
}

impl Steps {
    pub fn of(times: &[Time], step: Duration) -> Steps {
        let step = step.as_millis().max(1) as i64;
        let mut steps = Steps { times: Vec::new(), step_of: Vec::with_capacity(times.len()) };
        let mut current = None;
        for time in times {
            if current.replace(time.0.div_euclid(step)) == Some(time.0.div_euclid(step)) {
                steps.times.pop();
            }
            steps.times.push(*time);
            steps.step_of.push(steps.times.len() as u32 - 1);
        }
        steps
    }

    /// The last and the largest value of each step. At the end of a step in which a series went away it is not known; its
    /// largest value there still is.
    pub fn coarser(&self, fine: &Pair) -> Pair {
        let mut last = vec![f64::NAN; self.times.len()];
        let mut largest = last.clone();
        for (index, value) in self.dense(&fine.last) {
            last[index] = value;
        }
        let peaks = if fine.largest.is_empty() { &fine.last } else { &fine.largest };
        for (index, value) in self.dense(peaks) {
            largest[index] = if largest[index] >= value { largest[index] } else { nan_loses(largest[index], value) };
        }
        let changes = |values: &[f64]| {
            let mut changes = Changes::new();
            values.iter().enumerate().for_each(|(index, value)| push(&mut changes, index as u32, *value));
            changes
        };
        let (last, mut largest) = (changes(&last), changes(&largest));
        let bits = |changes: &Changes| changes.iter().map(|(i, v)| (*i, v.to_bits())).collect::<Vec<_>>();
        if bits(&last) == bits(&largest) {
            largest.clear();
        }
        Pair { last, largest }
    }

    /// Each value with its step, once for each step that it reaches into.
    fn dense<'a>(&'a self, changes: &'a [(u32, f64)]) -> impl Iterator<Item = (usize, f64)> + 'a {
        let ends = changes.iter().skip(1).map(|(index, _)| *index as usize).chain([self.step_of.len()]);
        changes.iter().zip(ends).flat_map(|((index, value), end)| {
            let touched = match self.step_of.get(*index as usize..end.min(self.step_of.len())) {
                Some([first, .., last]) => *first as usize..*last as usize + 1,
                Some([only]) => *only as usize..*only as usize + 1,
                _ => 0..0,
            };
            touched.map(|step| (step, *value))
        })
    }
}

/// What is known beats what is not.
fn nan_loses(one: f64, other: f64) -> f64 {
    if other.is_nan() { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::changes::encode;

    fn bytes(changes: &[(u32, f64)]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(changes, &mut out);
        out
    }

    fn shown(changes: &Changes) -> Vec<(u32, Option<f64>)> {
        changes.iter().map(|(index, value)| (*index, (!value.is_nan()).then_some(*value))).collect()
    }

    #[test]
    fn a_block_in_which_a_series_is_missing_leaves_it_unknown() {
        let mut joined = Joined::default();
        let (first, third) = (bytes(&[(0, 1.0)]), bytes(&[(2, 1.0)]));
        joined.add(0, 0..10, Bytes(&first), Bytes(&[])).unwrap();
        joined.add(20, 0..10, Bytes(&third), Bytes(&[])).unwrap();
        let pair = joined.finish(40).unwrap();
        assert_eq!(shown(&pair.last), [(0, Some(1.0)), (10, None), (22, Some(1.0)), (30, None)]);
    }

    #[test]
    fn a_part_of_a_block_begins_with_the_value_that_held_then() {
        let mut joined = Joined::default();
        let block = bytes(&[(0, 1.0), (3, 2.0), (6, 3.0), (9, 4.0)]);
        joined.add(100, 4..9, Bytes(&block), Bytes(&[])).unwrap();
        assert_eq!(shown(&joined.pair.last), [(0, None), (100, Some(2.0)), (102, Some(3.0))]);
        let mut joined = Joined::default();
        joined.add(0, 6..9, Bytes(&block), Bytes(&[])).unwrap();
        assert_eq!(shown(&joined.pair.last), [(0, Some(3.0))]);
    }

    #[test]
    fn peaks_of_one_block_are_beside_values_of_the_others() {
        let mut joined = Joined::default();
        let (plain, last, peaks) = (bytes(&[(0, 1.0)]), bytes(&[(0, 2.0)]), bytes(&[(0, 9.0)]));
        joined.add(0, 0..5, Bytes(&plain), Bytes(&[])).unwrap();
        joined.add(5, 0..5, Bytes(&last), Bytes(&peaks)).unwrap();
        joined.add(10, 0..5, Bytes(&plain), Bytes(&[])).unwrap();
        let pair = joined.finish(15).unwrap();
        assert_eq!(shown(&pair.last), [(0, Some(1.0)), (5, Some(2.0)), (10, Some(1.0))]);
        assert_eq!(shown(&pair.largest), [(0, Some(1.0)), (5, Some(9.0)), (10, Some(1.0))]);
    }

    #[test]
    fn a_spike_of_a_second_is_in_the_largest_value_of_its_ten_seconds() {
        let times: Vec<Time> = (0..30).map(|second| Time(second * 1_000 + 300)).collect();
        let steps = Steps::of(&times, Duration::from_secs(10));
        assert_eq!(steps.times, [9_300, 19_300, 29_300].map(Time));
        let fine = Pair { last: vec![(0, 1.0), (12, 50.0), (13, 1.0), (25, f64::NAN)], largest: Vec::new() };
        let coarse = steps.coarser(&fine);
        assert_eq!(shown(&coarse.last), [(0, Some(1.0)), (2, None)]);
        assert_eq!(shown(&coarse.largest), [(0, Some(1.0)), (1, Some(50.0)), (2, Some(1.0))]);
        let again = Steps::of(&steps.times, Duration::from_secs(60)).coarser(&coarse);
        assert_eq!((shown(&again.last), shown(&again.largest)), (vec![(0, None)], vec![(0, Some(50.0))]));
    }

    #[test]
    fn a_counter_has_no_peaks_of_its_own() {
        let times: Vec<Time> = (0..30).map(|second| Time(second * 1_000)).collect();
        let counter = Pair { last: (0..30).map(|second| (second, f64::from(second))).collect(), largest: Vec::new() };
        let coarse = Steps::of(&times, Duration::from_secs(10)).coarser(&counter);
        assert_eq!(
            (shown(&coarse.last), coarse.largest.len()),
            (vec![(0, Some(9.0)), (1, Some(19.0)), (2, Some(29.0))], 0)
        );
    }
}
