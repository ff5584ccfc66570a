//! The values of one alert at the times of a grid: only where they change, with the range of each block of them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Grid;
use super::lasting::Lasting;
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
    /// Where an alert can begin, for one `for`. Replay is right without it, and slower.
    pub(super) lasting: Option<Lasting>,
}

/// The values that one alert's machine is stepped with.
#[derive(Clone, PartialEq, Debug)]
pub struct Track {
    pub labels: BTreeMap<String, String>,
    shape: Shape,
    /// From which evaluation on it has the number at the same place of `numbers`.
    starts: Vec<u32>,
    /// Not a number: there is none.
    numbers: Vec<f64>,
    blocks: Vec<Block>,
    /// The different numbers of a level, the least first, if they are few: counts have few.
    different: Option<Vec<f64>>,
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
    /// Whether the comparison comes out that way somewhere in it.
    pub(super) fn has(&self, compare: Compare, holds: bool) -> bool {
        let (worst, calmest) = match compare {
            Compare::Above(_) => (self.most, self.least),
            Compare::Below(_) => (self.least, self.most),
        };
        if holds { compare.holds(worst) } else { self.gaps || !compare.holds(calmest) }
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
        let mut end = 0;
        let counted = numbers.into_iter().take(grid.count as usize).map(|number| {
            end += 1;
            (end - 1, number)
        });
        let mut pieces = Pieces::default();
        counted.for_each(|(index, number)| pieces.push(index, number.unwrap_or(f64::NAN)));
        if end < grid.count {
            pieces.push(end, f64::NAN);
        }
        Track::of(labels, shape, grid, pieces)
    }

    pub(in crate::alerts) fn of(labels: BTreeMap<String, String>, shape: Shape, grid: Grid, pieces: Pieces) -> Track {
        let Pieces { mut starts, mut numbers } = pieces;
        starts.shrink_to_fit();
        numbers.shrink_to_fit();
        let mut track =
            Track { labels, shape, starts, numbers, blocks: Vec::new(), different: None, unseen: Vec::new() };
        track.different = (shape == Shape::Level).then(|| different(&track.numbers)).flatten();
        track.blocks = (0..track.starts.len().div_ceil(BLOCK)).map(|block| track.range(block, grid)).collect();
        track
    }

    /// The same with the evaluations at which its target is out of sight, the first first.
    pub fn unseen(mut self, unseen: impl IntoIterator<Item = Range<u32>>) -> Track {
        self.unseen.clear();
        for range in unseen {
            match self.unseen.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => self.unseen.push(range),
            }
        }
        self
    }

    /// Whether some value is beyond one level and not beyond the other. `true` where it would take long to find out.
    pub(super) fn tells_apart(&self, one: Compare, other: Compare) -> bool {
        let apart = |number: &f64| one.holds(*number) != other.holds(*number);
        self.different.as_ref().is_none_or(|different| different.iter().any(apart))
    }

    /// Whether its target is out of sight at that evaluation, and the first one after it at which that may change.
    pub(super) fn sight(&self, index: u32, grid: &Grid) -> (bool, u32) {
        let next = self.unseen.partition_point(|unseen| unseen.end <= index);
        match self.unseen.get(next) {
            Some(unseen) if unseen.start <= index => (true, unseen.end),
            Some(unseen) => (false, unseen.start),
            None => (false, grid.count),
        }
    }

    /// How many pieces it keeps in memory.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// `None`: it has no value then.
    pub fn value(&self, index: u32, grid: &Grid) -> Option<f64> {
        let number = self.numbers.get(self.piece_at(index)).filter(|number| !number.is_nan())?;
        Some(self.shape.at(*number, grid.at(index)))
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.iter().all(|number| number.is_nan())
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
            self.pieces(grid).flat_map(|(range, number)| range.map(move |index| number.filter(|_| !hidden(index))));
        Track { unseen: self.unseen.clone(), ..Track::new(self.labels.clone(), self.shape, *grid, numbers) }
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The piece that has that evaluation.
    pub(super) fn piece_at(&self, index: u32) -> usize {
        self.starts.partition_point(|start| *start <= index).saturating_sub(1)
    }

    /// The evaluations of a piece, and its number.
    pub(super) fn piece(&self, at: usize, grid: &Grid) -> (Range<u32>, f64) {
        (self.starts[at]..self.start_of(at + 1, grid), self.numbers[at])
    }

    /// Where a piece begins; the end of the grid after the last.
    pub(super) fn start_of(&self, piece: usize, grid: &Grid) -> u32 {
        self.starts.get(piece).copied().unwrap_or(grid.count)
    }

    pub(super) fn number(&self, piece: usize) -> f64 {
        self.numbers[piece]
    }

    /// The first piece from that one on with a number that compares that way; passes over blocks that have none.
    pub(super) fn find(&self, from: usize, compare: Compare, holds: bool) -> Option<usize> {
        let mut at = from;
        while at < self.numbers.len() {
            let block = at / BLOCK;
            let end = (block * BLOCK + BLOCK).min(self.numbers.len());
            if self.blocks[block].has(compare, holds)
                && let Some(found) = position(&self.numbers[at..end], compare, holds)
            {
                return Some(at + found);
            }
            at = end;
        }
        None
    }

    /// The first piece from that one on in whose block the comparison comes out that way; of ages.
    pub(super) fn find_block(&self, from: usize, compare: Compare, holds: bool) -> Option<usize> {
        let first = from / BLOCK;
        let found = self.blocks.get(first..)?.iter().position(|block| block.has(compare, holds))?;
        Some(from.max((first + found) * BLOCK)).filter(|piece| *piece < self.starts.len())
    }

    /// The value farthest beyond a threshold, of some evaluations.
    pub(super) fn worst(&self, grid: &Grid, range: Range<u32>, compare: Compare) -> f64 {
        let worse = |one: f64, other: f64| match compare {
            Compare::Above(_) => one.max(other),
            Compare::Below(_) => one.min(other),
        };
        let first = self.piece_at(range.start);
        let pieces = (first..self.starts.len()).take_while(|at| self.starts[*at] < range.end);
        pieces.fold(f64::NAN, |worst, at| {
            let (piece, number) = self.piece(at, grid);
            // An age grows from the first of its evaluations to the last.
            let ends = [piece.start.max(range.start), piece.end.min(range.end) - 1];
            ends.into_iter().fold(worst, |worst, index| worse(worst, self.shape.at(number, grid.at(index))))
        })
    }

    /// The pieces with their evaluations.
    pub fn pieces(&self, grid: &Grid) -> impl Iterator<Item = (Range<u32>, Option<f64>)> {
        let grid = *grid;
        (0..self.starts.len()).map(move |at| {
            let (range, number) = self.piece(at, &grid);
            (range, Some(number).filter(|number| !number.is_nan()))
        })
    }

    fn range(&self, block: usize, grid: Grid) -> Block {
        let mut found = Block { least: f64::INFINITY, most: f64::NEG_INFINITY, gaps: false };
        for at in block * BLOCK..(block * BLOCK + BLOCK).min(self.starts.len()) {
            let (range, number) = self.piece(at, &grid);
            found.gaps |= number.is_nan();
            for index in [range.start, range.end - 1] {
                let value = self.shape.at(number, grid.at(index));
                found.least = found.least.min(value);
                found.most = found.most.max(value);
            }
        }
        found
    }

    /// As if only every `step`th evaluation had been made.
    fn every(&self, step: u32, grid: Grid) -> Track {
        let mut pieces = Pieces::default();
        for (start, number) in self.starts.iter().zip(&self.numbers) {
            let index = start.div_ceil(step);
            if index < grid.count {
                pieces.set(index, *number);
            }
        }
        let thinner = |unseen: &Range<u32>| unseen.start.div_ceil(step)..unseen.end.div_ceil(step);
        let unseen = self.unseen.iter().map(thinner).filter(|unseen| !unseen.is_empty()).collect();
        Track { unseen, ..Track::of(self.labels.clone(), self.shape, grid, pieces) }
    }
}

/// More than this are many.
const FEW: usize = 32;

/// The different ones of some numbers, the least first; `None` if they are many.
fn different(numbers: &[f64]) -> Option<Vec<f64>> {
    let mut all: Vec<f64> = Vec::new();
    for number in numbers.iter().filter(|number| !number.is_nan()) {
        if let Err(place) = all.binary_search_by(|other| other.total_cmp(number)) {
            if all.len() == FEW {
                return None;
            }
            all.insert(place, *number);
        }
    }
    Some(all)
}

/// Where one of them compares that way.
fn position(numbers: &[f64], compare: Compare, holds: bool) -> Option<usize> {
    match (compare, holds) {
        (Compare::Above(level), true) => numbers.iter().position(|number| *number > level),
        (Compare::Below(level), true) => numbers.iter().position(|number| *number < level),
        (compare, false) => numbers.iter().position(|number| !compare.holds(*number)),
    }
}

/// A track in the making.
#[derive(Debug, Default)]
pub(in crate::alerts) struct Pieces {
    starts: Vec<u32>,
    numbers: Vec<f64>,
}

impl Pieces {
    /// It has that number from that evaluation on, which is after all before.
    pub(in crate::alerts) fn push(&mut self, index: u32, number: f64) {
        let same = |last: f64| last.to_bits() == number.to_bits() || last.is_nan() && number.is_nan();
        if !self.numbers.last().is_some_and(|last| same(*last)) {
            self.starts.push(index);
            self.numbers.push(number);
        }
    }

    /// The same, or at the last of them: then the later counts.
    fn set(&mut self, index: u32, number: f64) {
        if self.starts.last() == Some(&index) {
            self.starts.pop();
            self.numbers.pop();
        }
        self.push(index, number);
    }
}

impl Tracks {
    pub fn new(grid: Grid, tracks: Vec<Track>) -> Tracks {
        Tracks { grid, tracks, lasting: None }
    }

    /// As if only every `step`th evaluation had been made, with the values of those times.
    pub fn every(&self, step: u32) -> Tracks {
        let step = step.max(1);
        let grid = self.grid.every(step);
        Tracks::new(grid, self.tracks.iter().map(|track| track.every(step, grid)).collect())
    }

    /// How many evaluations have a value of any alert.
    pub fn known(&self) -> u32 {
        let mut changes = vec![0_i32; self.grid.count as usize + 1];
        for track in &self.tracks {
            for (range, number) in track.pieces(&self.grid) {
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
    let positive = changes.iter().filter(|change| {
        sum += **change;
        sum > 0
    });
    positive.count() as u32
}
