//! The figures of each name pattern: what has happened to its locks so far, and what the last round of the patrol saw.
//!
//! One folding for all readers: the list grouped by pattern, the store and `/metrics` ask [`Table::pattern_of`] and
//! [`Table::patterns`]. A bounded number of patterns have figures of their own, the others share [`OTHER`]. Those that
//! rules name come first, then the first come. A pattern without a lock and without an event for an hour is forgotten, and
//! so are its counters.

mod buckets;
mod counts;
mod findings;
mod folding;
mod round;
#[cfg(test)]
mod tests;

pub use buckets::{Buckets, HAND_OVER, HOLD, RENEWAL};
pub use counts::Counts;
pub use folding::{Folding, OTHER};
pub use round::{Rates, Tally};

use std::sync::Arc;

use crate::base::time::Time;
use crate::model::history::holds::{GroupId, Mark};
use crate::model::table::Table;
use crate::model::{Lock, findings as lints};

use findings::Inquiry;
use folding::Places;
use round::Round;

/// One pattern with figures of its own, or what shares those of the others.
#[derive(Debug)]
pub struct Pattern {
    /// As every reader shows it: visible text, at most a few hundred characters.
    pub name: Arc<str>,
    pub counts: Counts,
    /// What the last whole round saw of its locks; `None` until there was one.
    pub tally: Option<Tally>,
    /// How many locks have each finding that was ever seen here, in the order of [`lints::ALL`]; `None`: never seen.
    pub findings: [Option<u32>; lints::ALL.len()],
    since: Time,
}

impl Pattern {
    /// It is shared by all that have no figures of their own.
    pub fn is_other(&self) -> bool {
        *self.name == *OTHER
    }

    fn new(name: Arc<str>, at: Time) -> Pattern {
        let findings = [None; lints::ALL.len()];
        Pattern { name, counts: Counts::default(), tally: None, findings, since: at }
    }
}

/// The figures of all patterns.
#[derive(Debug)]
pub(in crate::model) struct Figures {
    /// By [`PatternId`]; the first is shared. `None`: nobody has that place.
    patterns: Vec<Option<Pattern>>,
    places: Places,
    round: Round,
    inquiry: Inquiry,
}

impl Default for Figures {
    fn default() -> Figures {
        let other = Pattern::new(OTHER.into(), Time(0));
        Figures {
            patterns: vec![Some(other)],
            places: Places::default(),
            round: Round::default(),
            inquiry: Inquiry::default(),
        }
    }
}

impl Figures {
    /// Counts what happened to a lock of this group. `alone`: it is held by one at a time.
    pub fn count(&mut self, group: GroupId, name: &[u8], mark: Mark, alone: bool, at: Time) {
        let id = self.admit(group, name, at);
        if let Some(pattern) = &mut self.patterns[id.index()] {
            pattern.counts.add(mark, alone);
        }
    }
}

impl Table {
    /// From now on patterns are folded like this. Called before the first lock is read: what has a place keeps it.
    pub fn fold(&mut self, folding: Folding) {
        self.figures.places.fold(folding);
    }

    /// The pattern under which the lock is counted: its own, or [`OTHER`].
    pub fn pattern_of(&self, lock: &Lock) -> &Arc<str> {
        let id = self.figures.places.of(lock.group);
        let known = self.figures.patterns.get(id.index()).and_then(Option::as_ref);
        &known.or(self.figures.patterns[0].as_ref()).expect("the first place is never given away").name
    }

    /// The patterns with figures of their own, and then, where locks share it, [`OTHER`].
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        let (other, own) = self.figures.patterns.split_first().expect("the first place is never given away");
        let shared = other.as_ref().filter(|other| self.patterns_folded() > 0 || other.counts != Counts::default());
        own.iter().flatten().chain(shared)
    }

    /// How many patterns are counted under [`OTHER`]; beyond some thousands, at least this many.
    pub fn patterns_folded(&self) -> usize {
        self.figures.places.folded()
    }

    /// When the last whole round over the table began: what [`Pattern::tally`] says is not older.
    pub fn rounded(&self) -> Option<Time> {
        self.figures.round.finished()
    }
}
