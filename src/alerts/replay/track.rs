//! The values of one alert at the times of a grid: only where they change, with the range of each block of them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Grid;
use crate::alerts::Compare;
use crate::base::time::Time;

/// How many pieces have their range together. Whole blocks are passed over when a threshold is moved.
const BLOCK: usize = 64;

/// What the numbers of a track are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The values themselves.
    Level,
    /// Times in seconds; the value is how long ago they were, and so changes with every evaluation.
    Age,
}

impl Shape {
    /// The value at that time.
    pub fn at(self, number: f64, at: Time) -> f64 {
        match self {
            Shape::Level => number,
            Shape::Age => at.0 as f64 / 1_000.0 - number,
        }
    }
}

/// All alerts of one rule over the same grid.
#[derive(Clone, PartialEq, Debug)]
pub struct Tracks {
    pub grid: Grid,
    pub tracks: Vec<Track>,
}

/// The values that one alert's machine is stepped with.
#[derive(Clone, PartialEq, Debug)]
pub struct Track {
    pub labels: BTreeMap<String, String>,
    shape: Shape,
    /// From which evaluation on it has which number; not a number: there is none.
    pieces: Vec<(u32, f64)>,
    blocks: Vec<Block>,
    /// Evaluations at which what fires stays so, because its target is out of sight.
    unseen: Vec<Range<u32>>,
}

/// The range of the values of some pieces.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Block {
    least: f64,
    most: f64,
    /// At some evaluation there is no value.
    gaps: bool,
}

impl Block {
    /// Whether the condition holds nowhere in it.
    pub(super) fn is_calm(&self, compare: Compare) -> bool {
        !match compare {
            Compare::Above(_) => compare.holds(self.most),
            Compare::Below(_) => compare.holds(self.least),
        }
    }

    /// Whether the condition holds at each of its evaluations.
    pub(super) fn is_breach(&self, compare: Compare) -> bool {
        !self.gaps
            && match compare {
                Compare::Above(_) => compare.holds(self.least),
                Compare::Below(_) => compare.holds(self.most),
            }
    }

    /// The value farthest beyond a threshold.
    pub(super) fn worst(&self, compare: Compare) -> f64 {
        match compare {
            Compare::Above(_) => self.most,
            Compare::Below(_) => self.least,
        }
    }
}

impl Track {
    /// From one number for each evaluation of the grid, the first first; `None` where the series has no value.
    pub fn new(
        labels: BTreeMap<String, String>,
        shape: Shape,
        grid: Grid,
        numbers: impl IntoIterator<Item = Option<f64>>,
    ) -> Track {
        let mut pieces: Vec<(u32, f64)> = Vec::new();
        let mut end = 0;
        let mut push = |index: u32, number: f64| {
            let same = |last: f64| last.to_bits() == number.to_bits() || last.is_nan() && number.is_nan();
            if !pieces.last().is_some_and(|(_, last)| same(*last)) {
                pieces.push((index, number));
            }
        };
        for number in numbers.into_iter().take(grid.count as usize) {
            push(end, number.unwrap_or(f64::NAN));
            end += 1;
        }
        if end < grid.count {
            push(end, f64::NAN);
        }
        pieces.shrink_to_fit();
        let mut track = Track { labels, shape, pieces, blocks: Vec::new(), unseen: Vec::new() };
        track.blocks = (0..track.pieces.len().div_ceil(BLOCK)).map(|block| track.range(block, grid)).collect();
        track
    }

    /// The same with the evaluations at which its target is out of sight, the first first.
    pub fn unseen(mut self, unseen: impl IntoIterator<Item = bool>) -> Track {
        self.unseen.clear();
        for (index, unseen) in (0..).zip(unseen) {
            match self.unseen.last_mut() {
                _ if !unseen => {}
                Some(last) if last.end == index => last.end = index + 1,
                _ => self.unseen.push(index..index + 1),
            }
        }
        self
    }

    /// These evaluations, cut where sight is lost or comes back; and whether it is lost.
    pub(super) fn cut(&self, range: Range<u32>) -> impl Iterator<Item = (Range<u32>, bool)> {
        let mut next = self.unseen.partition_point(|unseen| unseen.end <= range.start);
        let mut from = range.start;
        std::iter::from_fn(move || {
            let begun = from;
            if begun >= range.end {
                return None;
            }
            let lost = match self.unseen.get(next) {
                Some(unseen) if unseen.start <= begun => {
                    (from, next) = (unseen.end, next + 1);
                    true
                }
                Some(unseen) => {
                    from = unseen.start;
                    false
                }
                None => {
                    from = range.end;
                    false
                }
            };
            from = from.min(range.end);
            Some((begun..from, lost))
        })
    }

    /// How many pieces it keeps in memory.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(|(_, number)| number.is_nan())
    }

    /// The value at an evaluation of the grid.
    pub fn value(&self, grid: &Grid, index: u32) -> Option<f64> {
        let at = self.pieces.partition_point(|(from, _)| *from <= index).checked_sub(1)?;
        Some(self.pieces[at].1).filter(|number| !number.is_nan()).map(|number| self.shape.at(number, grid.at(index)))
    }

    /// The least and the most of its values; `None` without any.
    pub fn extremes(&self) -> Option<(f64, f64)> {
        let least = self.blocks.iter().map(|block| block.least).fold(f64::INFINITY, f64::min);
        let most = self.blocks.iter().map(|block| block.most).fold(f64::NEG_INFINITY, f64::max);
        (least <= most).then_some((least, most))
    }

    /// The same without the values of these times.
    pub fn without(&self, grid: &Grid, times: &[(Time, Time)]) -> Track {
        let hidden = |index: u32| times.iter().any(|(from, to)| (*from..=*to).contains(&grid.at(index)));
        let numbers =
            self.pieces(grid, 0).flat_map(|(range, number)| range.map(move |index| number.filter(|_| !hidden(index))));
        Track { unseen: self.unseen.clone(), ..Track::new(self.labels.clone(), self.shape, *grid, numbers) }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn blocks(&self) -> impl Iterator<Item = (Block, Range<usize>)> {
        let range = |at: usize| at * BLOCK..(at * BLOCK + BLOCK).min(self.pieces.len());
        self.blocks.iter().enumerate().map(move |(at, block)| (*block, range(at)))
    }

    /// The evaluations of a piece, and its number.
    pub(super) fn piece(&self, at: usize, grid: &Grid) -> (Range<u32>, f64) {
        let (from, number) = self.pieces[at];
        let to = self.pieces.get(at + 1).map_or(grid.count, |(to, _)| *to);
        (from..to, number)
    }

    /// The pieces with their evaluations, from the one that has that evaluation on.
    pub fn pieces(&self, grid: &Grid, from: u32) -> impl Iterator<Item = (Range<u32>, Option<f64>)> {
        let first = self.pieces.partition_point(|(start, _)| *start <= from).saturating_sub(1);
        let grid = *grid;
        (first..self.pieces.len()).map(move |at| {
            let (range, number) = self.piece(at, &grid);
            (range, Some(number).filter(|number| !number.is_nan()))
        })
    }

    fn range(&self, block: usize, grid: Grid) -> Block {
        let mut found = Block { least: f64::INFINITY, most: f64::NEG_INFINITY, gaps: false };
        for at in block * BLOCK..(block * BLOCK + BLOCK).min(self.pieces.len()) {
            let (range, number) = self.piece(at, &grid);
            found.gaps |= number.is_nan();
            // An age grows from the first of its evaluations to the last.
            for index in [range.start, range.end - 1] {
                let value = self.shape.at(number, grid.at(index));
                found.least = found.least.min(value);
                found.most = found.most.max(value);
            }
        }
        found
    }
}

impl Tracks {
    /// As if only every `step`th evaluation had been made, with the values of those times.
    pub fn every(&self, step: u32) -> Tracks {
        let grid = self.grid.every(step);
        let thin = |track: &Track| {
            let mut at = 0;
            let numbers = (0..grid.count).map(|index| {
                let index = index * step.max(1);
                while track.pieces.get(at + 1).is_some_and(|(from, _)| *from <= index) {
                    at += 1;
                }
                track.pieces.get(at).map(|(_, number)| *number)
            });
            let step = step.max(1);
            let thinner = |unseen: &Range<u32>| unseen.start.div_ceil(step)..unseen.end.div_ceil(step);
            let unseen = track.unseen.iter().map(thinner).filter(|unseen| !unseen.is_empty()).collect();
            Track { unseen, ..Track::new(track.labels.clone(), track.shape, grid, numbers) }
        };
        Tracks { grid, tracks: self.tracks.iter().map(thin).collect() }
    }

    /// How many evaluations have a value of any alert.
    pub fn known(&self) -> u32 {
        let mut changes = vec![0_i32; self.grid.count as usize + 1];
        for track in &self.tracks {
            for (range, number) in track.pieces(&self.grid, 0) {
                if number.is_some() {
                    changes[range.start as usize] += 1;
                    changes[range.end as usize] -= 1;
                }
            }
        }
        above_zero(&changes)
    }
}

/// How many indices have a positive sum of the changes up to them.
pub(super) fn above_zero(changes: &[i32]) -> u32 {
    let mut sum = 0;
    changes
        .iter()
        .filter(|change| {
            sum += **change;
            sum > 0
        })
        .count() as u32
}
