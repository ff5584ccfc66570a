//! Steps the one state machine over a track. Evaluations that can't change its state are passed over: the machine itself
//! says with which level it compares and when it would change with the same value, and a block of values is compared with
//! a level at once. What lasted leads from one firing to the next. A rule that neither recovers later nor is kept needs no
//! machine: a breach is all there is to it. The property tests hold both to the evaluator.

use super::Grid;
use super::lasting::Lasted;
use super::track::{Shape, Track};
use crate::alerts::machine::{Condition, Machine, Unseen};
use crate::alerts::mutation::{self, Mutation};
use crate::alerts::{AlertState, Compare};

/// From the first evaluation in which the condition held to the one that ended the alert, as indices of the grid.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Run {
    pub(super) from: u32,
    pub(super) fired: Option<u32>,
    /// The evaluation that ended it; the end of the grid if none did.
    pub(super) to: u32,
}

/// The runs of a track, in the order of time, until `told` has heard enough. With `lasted` only those that lasted so long,
/// without it all.
pub(super) fn walk(
    track: &Track,
    lasted: Option<Lasted<'_>>,
    grid: &Grid,
    condition: Condition,
    mut told: impl FnMut(Run) -> bool,
) {
    let ends_at_once = condition.recover.is_none() && condition.keep_firing_for == 0;
    if ends_at_once && track.shape() == Shape::Level {
        return breaches(track, lasted, grid, condition, told);
    }
    let mut here = Scan { track, grid, piece: 0 };
    let mut ahead = lasted.map(|lasted| (Scan { track: lasted.track, grid, piece: 0 }, lasted.steps));
    let mut index = 0;
    while index < grid.count {
        let begins = match &mut ahead {
            Some((ahead, steps)) => ahead.go(index, condition.compare, true).map(|lasted| (lasted - *steps).max(index)),
            None => here.go(index, condition.compare, true),
        };
        let Some(begins) = begins else { return };
        let run = run(condition, &mut here, begins);
        if told(run) {
            return;
        }
        index = run.to;
    }
}

/// An alert that ends with its condition: from where the value goes beyond the level to where it comes back. Where it is
/// known what lasted, that alone says all, so many evaluations later.
fn breaches(
    track: &Track,
    lasted: Option<Lasted<'_>>,
    grid: &Grid,
    condition: Condition,
    mut told: impl FnMut(Run) -> bool,
) {
    let (lane, late) = lasted.map_or((track, 0), |lasted| (lasted.track, lasted.steps));
    let wait = condition.hold_for.saturating_sub(grid.lasts(late).as_millis() as i64).max(0);
    let wait = grid.steps(wait + i64::from(mutation::is(Mutation::For)));
    let wait = wait + u32::from(wait > 0 && mutation::is(Mutation::Passing));
    let mut here = Scan { track, grid, piece: 0 };
    let (mut piece, mut index) = (0, 0);
    while let Some(found) = lane.find(piece, condition.compare, true) {
        piece = lane.find(found + 1, condition.compare, false).unwrap_or(lane.len());
        let (from, to) = (lane.start_of(found, grid), lane.start_of(piece, grid));
        // It belongs to an alert that was told.
        if from < index {
            continue;
        }
        let mut breach = Run { from: from - late, fired: Some(from + wait).filter(|fired| *fired < to), to };
        // One that fires stays so while its target is out of sight.
        if breach.fired.is_some() && track.sight(to, grid).0 {
            breach = run(condition, &mut here, breach.from);
            index = breach.to;
        }
        if told(breach) {
            return;
        }
    }
}

/// Steps from an evaluation in which the condition holds until the alert is over.
fn run(condition: Condition, here: &mut Scan<'_>, from: u32) -> Run {
    let grid = here.grid;
    let mut machine = Machine::new(condition);
    let mut run = Run { from, fired: None, to: grid.count };
    let mut index = from;
    while index < grid.count {
        let (value, at) = (here.value(index), grid.at(index));
        let (unseen, cut) = here.track.sight(index, grid);
        let change = machine.step(at, value, unseen.then_some(Unseen { since: at, stays: true }));
        match machine.state() {
            AlertState::Firing if change.is_some() => run.fired = Some(index),
            AlertState::Inactive => {
                run.to = index.max(from + 1);
                return run;
            }
            _ => {}
        }
        // Up to there the comparison stays as it is, and the machine changes nothing by itself.
        let level = machine.level();
        let turn = here.turn(index + 1, level, !value.is_some_and(|value| level.holds(value)));
        let next = machine
            .changes_at()
            .map_or(grid.count, |at| grid.at_or_after(at).max(index + 1) + u32::from(mutation::is(Mutation::Passing)));
        let next = next.min(cut);
        index = match turn {
            Some((turn, piece)) if turn <= next => {
                here.piece = piece;
                turn
            }
            _ => next,
        };
    }
    run
}

/// A place in a track that only moves forward.
struct Scan<'a> {
    track: &'a Track,
    grid: &'a Grid,
    piece: usize,
}

impl Scan<'_> {
    /// Moves to the piece that has that evaluation.
    fn seek(&mut self, index: u32) {
        // Nearly always it is one of the next.
        for _ in 0..8 {
            if self.track.start_of(self.piece + 1, self.grid) > index {
                return;
            }
            self.piece += 1;
        }
        self.piece = self.track.piece_at(index);
    }

    fn value(&mut self, index: u32) -> Option<f64> {
        self.seek(index);
        let value = self.track.shape().at(self.track.number(self.piece), self.grid.at(index));
        (!value.is_nan()).then_some(value)
    }

    /// Moves to the first evaluation from that one on whose comparison comes out that way.
    fn go(&mut self, index: u32, compare: Compare, holds: bool) -> Option<u32> {
        let (turn, piece) = self.turn(index, compare, holds)?;
        self.piece = piece;
        Some(turn)
    }

    /// The same without moving there: the evaluation, and its piece.
    fn turn(&mut self, index: u32, compare: Compare, holds: bool) -> Option<(u32, usize)> {
        if index >= self.grid.count {
            return None;
        }
        self.seek(index);
        match self.track.shape() {
            Shape::Level => {
                let piece = self.track.find(self.piece, compare, holds)?;
                Some((self.track.start_of(piece, self.grid).max(index), piece))
            }
            Shape::Age => self.turn_of_age(index, compare, holds),
        }
    }

    /// An age passes a level once within a piece, upwards.
    fn turn_of_age(&self, index: u32, compare: Compare, holds: bool) -> Option<(u32, usize)> {
        let mut from = self.piece;
        loop {
            let piece = self.track.find_block(from, compare, holds)?;
            let (range, number) = self.track.piece(piece, self.grid);
            let comes_out = |at: u32| compare.holds(Shape::Age.at(number, self.grid.at(at))) == holds;
            let (mut low, mut high) = (range.start.max(index), range.end);
            if comes_out(low) {
                return Some((low, piece));
            }
            if comes_out(high - 1) {
                while low < high {
                    let middle = low + (high - low) / 2;
                    if comes_out(middle) { high = middle } else { low = middle + 1 }
                }
                return Some((low, piece));
            }
            from = piece + 1;
        }
    }
}
