//! Sorts all locks in slices: pure.
//!
//! A hundred thousand locks take tens of milliseconds, and no key may wait that long. So locks are judged and sorted in
//! runs of a few thousand, then the runs are merged, a bounded piece with each [`Sorting::step`]. The table changes in
//! between: the merge leaves out locks that are no longer held, and places that a lock has left.

use std::collections::{BTreeMap, BTreeSet};

use super::rank::Rank;
use crate::app::Order;
use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId};
use crate::model::Column;
use crate::model::{LockRef, Severity, State, Table};

/// The size of a slice, in locks.
#[derive(Clone, Copy)]
pub(super) struct Portion {
    /// A table this small is sorted in one go; a quarter of that if each lock must be decoded.
    pub at_once: usize,
    /// Locks judged or filtered per slice; the second applies if each lock must be decoded.
    pub judged: usize,
    pub decoded: usize,
    /// Locks sorted per slice.
    pub run: usize,
    pub merged: usize,
}

impl Default for Portion {
    /// A slice takes about a millisecond.
    fn default() -> Portion {
        Portion { at_once: 5_000, judged: 4_000, decoded: 400, run: 2_000, merged: 2_000 }
    }
}

/// A sort under way.
pub(super) struct Sorting {
    /// As of this moment.
    at: Time,
    order: Order,
    portion: Portion,
    /// Each lock must be decoded to be judged.
    decodes: bool,
    /// Free locks are listed like the others.
    shows_free: bool,
    /// Locks that keep their place for a moment, although they are better or gone.
    staying: BTreeMap<LockRef, Severity>,
    /// The first slot of the table that was not read yet.
    slot: usize,
    /// Judged and not sorted.
    judged: Vec<Rank<LockRef>>,
    /// Sorted runs, each with its first lock at the end. While merging, they form a heap by that lock.
    runs: Vec<Vec<Rank<LockRef>>>,
    merging: bool,
    sorted: Sorted,
}

/// The result.
#[derive(Default)]
pub(super) struct Sorted {
    pub places: Vec<LockRef>,
    /// Number of locks that are there, and how many are in each state, also of those that are lost.
    pub total: usize,
    pub counts: [usize; State::ALL.len()],
}

impl Sorting {
    pub fn new(order: Order, portion: Portion, at: Time) -> Sorting {
        Sorting {
            at,
            order,
            portion,
            decodes: order.column == Column::Holder,
            shows_free: false,
            staying: BTreeMap::new(),
            slot: 0,
            judged: Vec::new(),
            runs: Vec::new(),
            merging: false,
            sorted: Sorted::default(),
        }
    }

    /// Lists free locks too.
    pub fn showing_free(self, shows_free: bool) -> Sorting {
        Sorting { shows_free, ..self }
    }

    pub fn keeping(self, staying: BTreeMap<LockRef, Severity>) -> Sorting {
        Sorting { staying, ..self }
    }

    /// Whether the whole sort costs no more than a few slices.
    pub fn is_small(&self, table: &Table, costly: bool) -> bool {
        let locks = table.held() * if self.decodes || costly { 4 } else { 1 };
        locks <= self.portion.at_once && table.slots() <= 4 * self.portion.at_once
    }

    /// Does one slice; returns the order once it is complete.
    pub fn step(&mut self, table: &Table) -> Option<Sorted> {
        let walked = self.slot >= table.slots();
        if self.merging {
            self.merge(table);
        } else if self.judged.len() >= self.portion.run || walked && !self.judged.is_empty() {
            self.sort_run(table);
        } else if !walked {
            self.judge(table);
        } else {
            self.merging = true;
            for at in (0..self.runs.len() / 2).rev() {
                self.sink(at, table);
            }
        }
        (self.merging && self.runs.is_empty()).then(|| self.taken())
    }

    fn judge(&mut self, table: &Table) {
        let most = if self.decodes { self.portion.decoded } else { self.portion.judged };
        let slots = self.slot..(self.slot + most.max(1)).min(table.slots());
        if self.slot == 0 {
            self.judge_freed(table);
        }
        self.slot = slots.end;
        for (place, lock) in table.places_listed_in(slots, self.at) {
            let severity = table.severity(lock, self.at);
            self.sorted.total += usize::from(lock.is_held());
            self.sorted.counts[severity.state as usize] += 1;
            let was = self.staying.get(&place);
            if severity.state != State::Free || self.shows_free || was.is_some() {
                let rank = Rank::new(place, lock, severity, table, self.order, self.at);
                self.judged.push(was.into_iter().fold(rank, |rank, was| rank.at_least(*was)));
            }
        }
    }

    /// Locks that are gone and stay for a moment. If one is taken again meanwhile, it is judged as it is then.
    fn judge_freed(&mut self, table: &Table) {
        for (place, was) in &self.staying {
            if let Some(lock) = table.lock_at(*place).filter(|lock| !table.is_listed(lock, self.at)) {
                let rank = Rank::new(*place, lock, table.severity(lock, self.at), table, self.order, self.at);
                self.judged.push(rank.at_least(*was));
            }
        }
    }

    /// A lock that was gone, and was taken again during the sorting, is there twice.
    fn taken(&mut self) -> Sorted {
        let mut sorted = std::mem::take(&mut self.sorted);
        let mut seen = BTreeSet::new();
        sorted.places.retain(|place| !self.staying.contains_key(place) || seen.insert(*place));
        sorted
    }

    fn sort_run(&mut self, table: &Table) {
        let rest = self.judged.split_off(self.judged.len().min(self.portion.run.max(1)));
        let mut run = std::mem::replace(&mut self.judged, rest);
        run.sort_unstable_by(|a, b| b.compare(a, self.order, |place| name(table, *place)));
        self.runs.push(run);
    }

    fn merge(&mut self, table: &Table) {
        for _ in 0..self.portion.merged.max(1) {
            let Some(first) = self.runs.first_mut() else { return };
            let place = first.pop().map(|rank| rank.place);
            if first.is_empty() {
                self.runs.swap_remove(0);
            }
            self.sink(0, table);
            let listed = |place: &LockRef| {
                let is_listed = |lock| table.is_listed(lock, self.at) || self.staying.contains_key(place);
                table.lock_at(*place).is_some_and(is_listed)
            };
            self.sorted.places.extend(place.filter(listed));
        }
    }

    /// Moves the run down the heap to where it belongs. Locks that are gone since are harmless: they come up early and
    /// are left out.
    fn sink(&mut self, mut at: usize, table: &Table) {
        let before = |runs: &[Vec<Rank<LockRef>>], a: usize, b: usize| match (runs[a].last(), runs[b].last()) {
            (Some(a), Some(b)) => a.compare(b, self.order, |place| name(table, *place)).is_lt(),
            (first, _) => first.is_none(),
        };
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.runs.len() && before(&self.runs, child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.runs.swap(at, least);
            at = least;
        }
    }
}

fn name(table: &Table, place: LockRef) -> Option<(&Key, KeyspaceId)> {
    table.lock_at(place).map(|lock| (&lock.key, lock.space))
}
