//! What lasted: at each evaluation the calmest value of it and of so many before it.
//!
//! An alert fires only where that is beyond the threshold, whatever the threshold is. Made once for a `for`, it leads a
//! replay from one firing to the next, past everything that did not last long enough. It only says where to look: what
//! happens there, the state machine says.

use std::collections::VecDeque;

use super::track::{Pieces, Shape, Track, Tracks};
use super::{Grid, near};
use crate::alerts::Compare;
use crate::alerts::machine::Condition;

/// What lasted of all tracks.
#[derive(Clone, PartialEq, Debug)]
pub struct Lasting {
    /// How many evaluations before.
    steps: u32,
    /// Whether a threshold is passed upwards.
    above: bool,
    tracks: Vec<Track>,
}

/// What lasted of one track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasted<'a> {
    pub(super) track: &'a Track,
    pub(super) steps: u32,
}

impl Tracks {
    /// Makes replays with that `for` fast, as long as only levels change.
    pub fn prepare(&mut self, condition: Condition) {
        let wanted = wanted(&self.grid, condition);
        let is_same = |lasting: &Lasting| (lasting.steps, lasting.above) == wanted;
        if self.lasting.as_ref().is_some_and(is_same) {
            return;
        }
        let (steps, above) = wanted;
        // An age lasts until it falls, and falls seldom: there is little to pass over.
        let helps = steps > 0 && self.tracks.iter().all(|track| track.shape() == Shape::Level);
        self.lasting = helps.then(|| {
            let tracks = self.tracks.iter().map(|track| track.lasting(&self.grid, steps, above)).collect();
            Lasting { steps, above, tracks }
        });
    }

    /// What lasted of a track, if it was prepared for such a condition.
    pub(super) fn lasted(&self, place: usize, condition: Condition) -> Option<Lasted<'_>> {
        let (steps, above) = wanted(&self.grid, condition);
        let fits = |lasting: &&Lasting| lasting.steps <= steps && lasting.above == above;
        let lasting = self.lasting.as_ref().filter(fits)?;
        Some(Lasted { track: lasting.tracks.get(place)?, steps: lasting.steps })
    }
}

/// After how many evaluations an alert nearly fires, and on which side of its threshold.
fn wanted(grid: &Grid, condition: Condition) -> (u32, bool) {
    let hold_for = near::shorter(condition).unwrap_or(condition).hold_for;
    (grid.steps(hold_for), matches!(condition.compare, Compare::Above(_)))
}

impl Track {
    fn lasting(&self, grid: &Grid, steps: u32, above: bool) -> Track {
        let sign = if above { 1.0 } else { -1.0 };
        let mut pieces = Pieces::default();
        let mut tell = |index: u32, calm: f64| {
            pieces.push(index, if calm == f64::NEG_INFINITY { f64::NAN } else { sign * calm });
        };
        // Values that are the calmest from some evaluation on, each with the end of its piece, calmest first. Before the
        // history there is nothing.
        let mut calmest: VecDeque<(f64, u32)> = [(f64::NEG_INFINITY, 0)].into();
        for at in 0..self.len() {
            let (range, number) = self.piece(at, grid);
            let number = if number.is_nan() { f64::NEG_INFINITY } else { sign * number };
            while calmest.back().is_some_and(|(other, _)| *other >= number) {
                calmest.pop_back();
            }
            calmest.push_back((number, range.end));
            let mut index = range.start;
            while let Some((calm, end)) = calmest.front().copied() {
                let gone = end.saturating_add(steps);
                if gone > index {
                    tell(index, calm);
                    index = gone;
                }
                if gone >= range.end {
                    break;
                }
                calmest.pop_front();
            }
        }
        Track::of(Default::default(), Shape::Level, *grid, pieces)
    }
}
