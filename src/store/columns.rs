//! Series as they are read back: shared times, and of each series only where its value changes.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::base::time::Time;
use crate::metrics::Series;
use crate::store::Gap;

/// Some series over the same times.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Columns {
    /// Ascending; of a coarser step the last moment in it.
    pub times: Arc<[Time]>,
    /// How fine each part of `times` is.
    pub spans: Vec<Span>,
    pub columns: Vec<Column>,
    /// Those that overlap what was asked for, oldest first.
    pub gaps: Vec<Gap>,
}

/// A part of the times with the same step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Indices of [`Columns::times`].
    pub range: Range<usize>,
    pub step: Duration,
}

/// One series.
#[derive(Clone, PartialEq, Debug)]
pub struct Column {
    pub series: Series,
    /// From which index on it has which value, ascending; not a number: not known.
    pub(in crate::store) last: Vec<(u32, f64)>,
    /// The same of the largest value in each step; empty: nowhere another than the last.
    pub(in crate::store) largest: Vec<(u32, f64)>,
}

impl Column {
    /// The stretches of equal value, with the indices of the times that they cover. `None`: not known.
    pub fn stretches<'a>(&'a self, times: &'a [Time]) -> impl Iterator<Item = (Range<usize>, Option<f64>)> + 'a {
        stretches(&self.last, times.len())
    }

    /// The same of the largest value in each step; of single seconds it is the value itself.
    pub fn peaks<'a>(&'a self, times: &'a [Time]) -> impl Iterator<Item = (Range<usize>, Option<f64>)> + 'a {
        stretches(if self.largest.is_empty() { &self.last } else { &self.largest }, times.len())
    }

    /// Every time at which it is known, with the value.
    pub fn points<'a>(&'a self, times: &'a [Time]) -> impl Iterator<Item = (Time, f64)> + 'a {
        let known = self.stretches(times).filter_map(|(range, value)| Some((range, value?)));
        known.flat_map(|(range, value)| times[range].iter().map(move |at| (*at, value)))
    }
}

fn stretches(changes: &[(u32, f64)], end: usize) -> impl Iterator<Item = (Range<usize>, Option<f64>)> {
    let ends = changes.iter().skip(1).map(|(index, _)| *index as usize).chain([end]);
    changes.iter().zip(ends).map(|((index, value), end)| (*index as usize..end, Some(*value).filter(|v| !v.is_nan())))
}
