//! The columns of one metric and one pattern in one block, as bytes and back; and the times of a block. Pure.
//!
//! Each column has its length in front, so that a reader skips what it does not want.

use crate::base::time::Time;
use crate::store::bytes::{Bytes, put, put_signed};
use crate::store::changes::{Changes, encode};

/// One series in a block.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pair {
    pub last: Changes,
    /// Of a coarser step the largest values; empty if they are the same.
    pub largest: Changes,
}

/// The columns of some series, by the numbers of these.
pub fn encode_columns<'a>(columns: impl ExactSizeIterator<Item = (i64, &'a Pair)>) -> Vec<u8> {
    let (mut out, mut before, mut column) = (Vec::new(), 0, Vec::new());
    put(&mut out, columns.len() as u64);
    for (series, pair) in columns {
        put_signed(&mut out, series - before);
        before = series;
        for changes in [&pair.last, &pair.largest] {
            column.clear();
            if !changes.is_empty() {
                encode(changes, &mut column);
            }
            put(&mut out, column.len() as u64);
            out.extend(&column);
        }
    }
    out
}

/// Hands out each series with the bytes of its two columns, for [`decode`](crate::store::changes::decode).
pub fn decode_columns<'a>(
    plain: &'a [u8],
    mut take: impl FnMut(i64, Bytes<'a>, Bytes<'a>) -> Option<()>,
) -> Option<()> {
    let mut bytes = Bytes(plain);
    let (count, mut series) = (bytes.count()?, 0_i64);
    for _ in 0..count {
        series = series.checked_add(bytes.signed()?)?;
        let mut column = || {
            let length = bytes.count()?;
            bytes.take(length).map(Bytes)
        };
        let (last, largest) = (column()?, column()?);
        take(series, last, largest)?;
    }
    bytes.is_empty().then_some(())
}

/// Ascending times, as differences of differences: a steady second takes next to nothing.
pub fn encode_times(times: &[Time]) -> Vec<u8> {
    let (mut out, mut before, mut step) = (Vec::new(), 0, 0);
    put(&mut out, times.len() as u64);
    for time in times {
        let now = time.0.wrapping_sub(before);
        put_signed(&mut out, now.wrapping_sub(step));
        (before, step) = (time.0, now);
    }
    out
}

pub fn decode_times(plain: &[u8]) -> Option<Vec<Time>> {
    let mut bytes = Bytes(plain);
    let (count, mut before, mut step) = (bytes.count()?, 0_i64, 0_i64);
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        step = step.wrapping_add(bytes.signed()?);
        before = before.wrapping_add(step);
        times.push(Time(before));
    }
    let ascending = times.windows(2).all(|pair| pair[0] < pair[1]);
    (ascending && bytes.is_empty()).then_some(times)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::store::changes::decode;

    #[test]
    fn columns_come_back_and_those_not_wanted_are_skipped() {
        let same = Pair { last: vec![(0, 1.0), (5, 2.0)], largest: Vec::new() };
        let other = Pair { last: vec![(1, 0.5)], largest: vec![(1, 0.75)] };
        let plain = encode_columns([(900, &same), (7, &other)].into_iter());
        let mut found = Vec::new();
        decode_columns(&plain, |series, mut last, mut largest| {
            if series == 7 {
                decode(&mut last, 100, |index, value| found.push((index, value)))?;
                decode(&mut largest, 100, |index, value| found.push((index, value)))?;
            } else {
                assert!(largest.is_empty());
            }
            Some(())
        })
        .expect("it was just made");
        assert_eq!(found, [(101, 0.5), (101, 0.75)]);
    }

    proptest! {
        #[test]
        fn times_come_back(first in any::<i32>(), steps in prop::collection::vec(1_i64..100_000, 0..50)) {
            let mut at = i64::from(first) * 1_000;
            let times: Vec<Time> = steps.into_iter().map(|step| { at += step; Time(at) }).collect();
            prop_assert_eq!(decode_times(&encode_times(&times)), Some(times));
        }

        #[test]
        fn garbage_hurts_nobody(garbage in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode_times(&garbage);
            let _ = decode_columns(&garbage, |_, _, _| Some(()));
        }
    }

    #[test]
    fn ten_minutes_of_steady_seconds_take_a_byte_each_before_compression() {
        let times: Vec<Time> = (0..600).map(|second| Time(1_763_000_000_000 + second * 1_000)).collect();
        assert!(encode_times(&times).len() < 620);
    }
}
