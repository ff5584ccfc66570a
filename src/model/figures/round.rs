//! What one round over the table sees of each pattern. The patrol visits every lock anyway and judges it; this adds up.
//!
//! A lock that was not confirmed since events went missing is not counted, only that there are such locks: what is shown
//! of it may be over long since.

use super::folding::PatternId;
use super::{Figures, Pattern};
use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::history::holds::GroupId;
use crate::model::table::Table;
use crate::model::{HeldIs, Lock, State, Tries, TriesFrom};

/// The locks of one pattern, as the last whole round saw them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    states: [u32; State::ALL.len()],
    /// Locks that were not confirmed since events went missing, and are counted nowhere else: every other number here is
    /// then a lower bound.
    pub unconfirmed: u32,
    /// When the oldest hold began, as far as it is known.
    pub oldest: Option<Time>,
    /// Locks that were held before anybody watched.
    pub unknown_age: u32,
    /// Waiters in all, and of the most waited-for lock; `None`: not counted lately.
    pub waiters: Option<(u64, u32)>,
    /// The most renewals that one lock has missed; `None`: none of them has a rhythm.
    pub missed: Option<u64>,
    /// `None`: not counted.
    pub counted: Option<Rates>,
    /// `None`: not sampled.
    pub sampled: Option<Rates>,
}

/// Attempts to take the locks of one pattern and how many failed, per second; `None`: some could not be judged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rates {
    pub attempts: Option<f64>,
    pub failures: Option<f64>,
}

impl Tally {
    /// How many are in that state.
    pub fn locks(&self, state: State) -> u32 {
        self.states[state as usize]
    }

    /// How many are counted here.
    pub fn all(&self) -> u32 {
        self.states.iter().sum()
    }

    fn add_tries(&mut self, tries: Tries) {
        let rates = match tries.from {
            TriesFrom::Counted => &mut self.counted,
            TriesFrom::Sampled => &mut self.sampled,
        };
        let sum = rates.get_or_insert(Rates { attempts: Some(0.0), failures: Some(0.0) });
        let add = |sum: Option<f64>, more: Option<f64>| Some(sum? + more?);
        sum.attempts = add(sum.attempts, tries.known_attempts_per_s());
        sum.failures = add(sum.failures, tries.known_failures_per_s());
    }
}

/// A round under way.
#[derive(Debug, Default)]
pub(in crate::model) struct Round {
    began: Option<Time>,
    /// When the last whole one began.
    finished: Option<Time>,
    /// By the place of the pattern.
    tallies: Vec<Tally>,
    /// Groups with a listed lock, by their numbers.
    groups: Vec<bool>,
    /// Nodes with a lock that was not confirmed.
    stale: Vec<NodeId>,
}

impl Round {
    fn begin(&mut self, now: Time) {
        self.began = Some(now);
        self.tallies.iter_mut().for_each(|tally| *tally = Tally::default());
        self.groups.fill(false);
        self.stale.clear();
    }

    pub fn finished(&self) -> Option<Time> {
        self.finished
    }

    /// What was seen of the pattern in this place is void: another one gets it.
    pub fn drop(&mut self, id: PatternId) {
        if let Some(tally) = self.tallies.get_mut(id.index()) {
            *tally = Tally::default();
        }
    }

    /// Adds a lock that is held, and in this state.
    pub fn see(&mut self, table: &Table, lock: &Lock, state: State, now: Time) {
        self.use_group(lock);
        if table.is_stale(lock) {
            if !self.stale.contains(&lock.node) {
                self.stale.push(lock.node);
            }
            self.tally(table, lock).unconfirmed += 1;
            return;
        }
        let has_age = !matches!(state, State::Done | State::Free);
        let held = table.held_for(lock, now).filter(|_| has_age);
        let begun = held.map(|_| lock.since);
        let is_seen = matches!(held, Some((_, HeldIs::Exact | HeldIs::Estimated)));
        let waits = lock.waits(now).filter(|waits| !waits.is_at_most());
        let missed = table.missed_renewals(lock, now);
        let tries = table.tries(lock, now);
        let tally = self.tally(table, lock);
        tally.states[state as usize] += 1;
        tally.unknown_age += u32::from(has_age && !is_seen);
        tally.oldest = [tally.oldest, begun].into_iter().flatten().min();
        tally.missed = tally.missed.max(missed);
        if let Some(waits) = waits {
            let (sum, most) = tally.waiters.unwrap_or_default();
            tally.waiters = Some((sum + u64::from(waits.count), most.max(waits.count)));
        }
        tries.into_iter().for_each(|tries| tally.add_tries(tries));
    }

    /// Adds a lock that nobody holds any more: it may be listed as lost, and somebody may have tried to take it lately.
    pub fn see_gone(&mut self, table: &Table, lock: &Lock, now: Time) {
        if table.is_listed(lock, now) {
            self.use_group(lock);
            self.tally(table, lock).states[State::Lost as usize] += 1;
        }
        if let Some(tries) = lock.reading.and_then(|_| table.tries(lock, now)) {
            self.tally(table, lock).add_tries(tries);
        }
    }

    fn use_group(&mut self, lock: &Lock) {
        let group = lock.group.index();
        if self.groups.len() <= group {
            self.groups.resize(group + 1, false);
        }
        self.groups[group] = true;
    }

    fn tally(&mut self, table: &Table, lock: &Lock) -> &mut Tally {
        let id = table.figures.places.of(lock.group).index();
        if self.tallies.len() <= id {
            self.tallies.resize(id + 1, Tally::default());
        }
        &mut self.tallies[id]
    }
}

impl Figures {
    pub fn begin_round(&mut self, now: Time) {
        self.round.begin(now);
    }

    pub fn take_round(&mut self) -> Round {
        std::mem::take(&mut self.round)
    }

    pub fn keep_round(&mut self, round: Round) {
        self.round = round;
    }

    /// The round has seen every lock. Returns the nodes with locks that were not confirmed.
    pub fn finish_round(&mut self, now: Time) -> Vec<NodeId> {
        let Some(began) = self.round.began else { return Vec::new() };
        let tallies = &mut self.round.tallies;
        tallies.resize(self.patterns.len().max(tallies.len()), Tally::default());
        // A pattern that came during the round has not been seen whole.
        let whole = |pattern: &&mut Pattern| pattern.since <= began;
        for (pattern, tally) in self.patterns.iter_mut().zip(tallies) {
            if let Some(pattern) = pattern.as_mut().filter(whole) {
                pattern.tally = Some(tally.clone());
            }
        }
        self.round.finished = Some(began);
        for group in 0..self.round.groups.len() {
            if self.round.groups[group] {
                self.note_used(GroupId::at(group), now);
            }
        }
        self.forget_unused(now);
        std::mem::take(&mut self.round.stale)
    }

    /// Groups with a held lock whose pattern has no place of its own, though there may be one.
    pub fn to_admit(&self) -> Vec<GroupId> {
        let held = self.round.groups.iter().enumerate().filter(|(_, held)| **held).map(|(group, _)| GroupId::at(group));
        held.filter(|group| self.places.may_be_admitted(*group)).collect()
    }
}
