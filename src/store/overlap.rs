//! Which of several runs counts for a time that more than one has. Pure.
//!
//! A clock that was set back makes a new run cover times that an older one already has. The newer one counts from its
//! first to its last moment, so that each time is read once; nothing is deleted.

use std::ops::Range;

use crate::base::time::Time;

/// From the first to the last moment of a run, and its number. A greater number is newer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    pub run: i64,
    pub first: Time,
    pub last: Time,
}

/// The indices of a run's times that count, from one time up to and with another.
pub fn counting(times: &[Time], run: i64, extents: &[Extent], from: Time, to: Time) -> Vec<Range<usize>> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let index = |at: Time| times.partition_point(|time| *time < at);
    let after = |at: Time| times.partition_point(|time| *time <= at);
    let asked = index(from)..after(to);
    let mut parts = vec![asked];
    let newer = extents.iter().filter(|extent| extent.run > run && extent.first <= *last && extent.last >= *first);
    for extent in newer {
        let cut = index(extent.first)..after(extent.last);
        let around = |part: &Range<usize>| [part.start..part.end.min(cut.start), part.start.max(cut.end)..part.end];
        parts = parts.iter().flat_map(around).collect();
    }
    parts.retain(|part| part.start < part.end);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(range: Range<i64>) -> Vec<Time> {
        range.map(Time).collect()
    }

    fn extent(run: i64, first: i64, last: i64) -> Extent {
        Extent { run, first: Time(first), last: Time(last) }
    }

    fn pairs(times: &[Time], run: i64, extents: &[Extent], from: Time, to: Time) -> Vec<(usize, usize)> {
        counting(times, run, extents, from, to).into_iter().map(|part| (part.start, part.end)).collect()
    }

    const ALL: [Time; 2] = [Time(i64::MIN), Time(i64::MAX)];

    #[test]
    fn a_run_that_nobody_overlaps_counts_whole() {
        let extents = [extent(1, 0, 9), extent(2, 10, 19)];
        assert_eq!(pairs(&times(0..10), 1, &extents, ALL[0], ALL[1]), [(0, 10)]);
        assert_eq!(pairs(&times(0..10), 1, &extents, Time(3), Time(5)), [(3, 6)]);
        assert_eq!(pairs(&times(0..10), 1, &extents, Time(10), Time(50)), [(0, 0); 0]);
    }

    #[test]
    fn the_newer_run_counts_where_two_have_the_same_time() {
        let extents = [extent(1, 0, 9), extent(2, 4, 6)];
        assert_eq!(pairs(&times(0..10), 1, &extents, ALL[0], ALL[1]), [(0, 4), (7, 10)]);
        assert_eq!(pairs(&times(4..7), 2, &extents, ALL[0], ALL[1]), [(0, 3)]);
        let extents = [extent(1, 0, 9), extent(2, -5, 2), extent(3, 8, 20)];
        assert_eq!(pairs(&times(0..10), 1, &extents, ALL[0], ALL[1]), [(3, 8)]);
    }

    #[test]
    fn no_times_count_for_nothing() {
        assert_eq!(pairs(&[], 1, &[], ALL[0], ALL[1]), [(0, 0); 0]);
    }
}
