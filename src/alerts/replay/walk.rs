//! Steps the one state machine over a track. Evaluations that can't change its state are passed over: the machine itself
//! says when it would change with the same value, and a block of values is compared with a threshold at once.

use std::ops::Range;

use super::Grid;
use super::track::{Shape, Track};
use crate::alerts::machine::{Change, Condition, Machine, Unseen};
use crate::alerts::mutation::{self, Mutation};
use crate::alerts::{AlertState, Compare};

/// From the first evaluation in which the condition held to the one that ended the alert, as indices of the grid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Run {
    pub(super) from: u32,
    pub(super) fired: Option<u32>,
    /// The evaluation that ended it; the end of the grid if none did.
    pub(super) to: u32,
    /// The value farthest beyond the threshold.
    pub(super) peak: f64,
}

/// All runs of a track, in the order of time.
pub(super) fn walk(track: &Track, grid: &Grid, condition: Condition, mut told: impl FnMut(Run)) {
    walk_until(track, grid, condition, |run| {
        told(run);
        false
    });
}

/// The same until `told` has heard enough.
pub(super) fn walk_until(track: &Track, grid: &Grid, condition: Condition, told: impl FnMut(Run) -> bool) {
    let mut walker =
        Walker { grid, condition, machine: Machine::new(condition), run: None, unseen: false, told, enough: false };
    // The level that keeps a firing alert alive.
    let kept = condition.recover.map_or(condition.compare, |level| condition.compare.with(level));
    for (block, pieces) in track.blocks() {
        if walker.enough {
            return;
        }
        match walker.machine.state() {
            AlertState::Inactive if block.is_calm(condition.compare) => continue,
            AlertState::Firing if walker.machine.changes_at().is_none() && block.is_breach(kept) => {
                walker.see(block.worst(condition.compare));
                continue;
            }
            _ => {}
        }
        for at in pieces {
            let (range, number) = track.piece(at, grid);
            for (range, unseen) in track.cut(range) {
                walker.unseen = unseen;
                match track.shape() {
                    Shape::Level => walker.hold(range, number, Shape::Level),
                    Shape::Age => walker.grow(range, number),
                }
            }
        }
    }
    walker.end();
}

struct Walker<'a, T> {
    grid: &'a Grid,
    condition: Condition,
    machine: Machine,
    run: Option<Run>,
    /// The target is out of sight at these evaluations.
    unseen: bool,
    told: T,
    /// Nothing more is wanted.
    enough: bool,
}

impl<T: FnMut(Run) -> bool> Walker<'_, T> {
    /// An age passes each threshold once: up to there and from there on, its comparison stays the same.
    fn grow(&mut self, range: Range<u32>, number: f64) {
        let Condition { compare, recover, .. } = self.condition;
        let mut cuts = [range.end; 3];
        for (cut, level) in cuts.iter_mut().zip([Some(compare), recover.map(|level| compare.with(level))]) {
            if let Some(level) = level {
                *cut = self.turn(&range, number, level);
            }
        }
        cuts.sort_unstable();
        let mut from = range.start;
        for cut in cuts {
            if from < cut {
                self.hold(from..cut, number, Shape::Age);
                from = cut;
            }
        }
    }

    /// The first evaluation whose comparison is another than that of the first.
    fn turn(&self, range: &Range<u32>, number: f64, compare: Compare) -> u32 {
        let holds = |index: u32| compare.holds(Shape::Age.at(number, self.grid.at(index)));
        let first = holds(range.start);
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if holds(middle) == first { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Evaluations of which each compares alike.
    fn hold(&mut self, range: Range<u32>, number: f64, shape: Shape) {
        let value = |grid: &Grid, index: u32| shape.at(number, grid.at(index));
        let mut index = range.start;
        while index < range.end {
            let known = Some(value(self.grid, index)).filter(|value| !value.is_nan());
            let at = self.grid.at(index);
            let unseen = self.unseen.then_some(Unseen { since: at, stays: true });
            if let Some(change) = self.machine.step(at, known, unseen) {
                self.take(change, index);
            }
            let Some(next) = self.machine.changes_at() else { break };
            index = self.grid.at_or_after(next).max(index + 1) + u32::from(mutation::is(Mutation::Passing));
        }
        if self.run.is_some() {
            self.see(value(self.grid, range.start));
            self.see(value(self.grid, range.end - 1));
        }
    }

    fn take(&mut self, change: Change, index: u32) {
        let indexed = |at| self.grid.at_or_after(at);
        if change.from == AlertState::Inactive {
            self.run = Some(Run { from: indexed(change.active_at), fired: None, to: self.grid.count, peak: f64::NAN });
        }
        let Some(run) = &mut self.run else { return };
        run.fired = change.fired_at.map(indexed);
        if change.to == AlertState::Inactive {
            run.to = index;
            self.end();
        }
    }

    /// A value of the alert that is not over. One that does not hold is never the worst: another held before it.
    fn see(&mut self, value: f64) {
        if let Some(run) = &mut self.run {
            run.peak = match self.condition.compare {
                Compare::Above(_) => run.peak.max(value),
                Compare::Below(_) => run.peak.min(value),
            };
        }
    }

    fn end(&mut self) {
        if let Some(run) = self.run.take() {
            self.enough |= (self.told)(run);
        }
    }
}
