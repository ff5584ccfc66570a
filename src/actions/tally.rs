//! Counts the outcomes of several actions: reported at the end, or when they are stopped half-way. Pure.

use std::fmt;

use super::perform::Outcome;
use super::plan::Action;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tally {
    /// How many were asked for.
    pub asked: usize,
    pub done: usize,
    pub refused: usize,
    pub unknown: usize,
    /// The verb for those that were done.
    verb: &'static str,
}

impl Tally {
    /// None of `asked` is done yet.
    pub fn of(asked: usize, action: &Action) -> Tally {
        let verb = match action {
            Action::Free => "freed",
            Action::Extend(_) => "extended",
            Action::Undo(_) => "put back",
        };
        Tally { asked, done: 0, refused: 0, unknown: 0, verb }
    }

    pub fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Done { .. } => self.done += 1,
            Outcome::Refused(_) => self.refused += 1,
            Outcome::Unknown(_) => self.unknown += 1,
        }
    }

    /// How many were not begun.
    pub fn untouched(&self) -> usize {
        self.asked.saturating_sub(self.done + self.refused + self.unknown)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.done, self.verb)?;
        for (count, word) in [(self.refused, "refused"), (self.unknown, "unknown")] {
            if count > 0 {
                write!(f, ", {count} {word}")?;
            }
        }
        write!(f, ", {} not touched", self.untouched())
    }
}
