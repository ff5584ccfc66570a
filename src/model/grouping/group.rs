//! One group: how many locks, the worst of them, the oldest hold, and who waits.

use std::cmp::Reverse;

use super::name::GroupName;
use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId, Kind};
use crate::model::{HeldIs, Lock, LockView, Severity, State, Table, Tries, TriesFrom, Waits};

/// At most this many of the worst locks are named.
const NAMED: usize = 10;

/// What one lock adds to its groups.
pub(super) struct Member<'a> {
    space: KeyspaceId,
    key: &'a Key,
    severity: Severity,
    held: Option<(u64, HeldIs)>,
    /// Somebody may hold it and wait for it; nobody does for a marker.
    is_used: bool,
    waits: Option<Waits>,
    /// As many wait at least, as far as they were counted or seen.
    waiting: u32,
    tries: Option<Tries>,
}

impl<'a> Member<'a> {
    /// `None`: it was not read as a lock.
    pub fn kept(table: &Table, lock: &'a Lock, now: Time) -> Option<Member<'a>> {
        let kind = lock.reading()?.kind;
        let severity = table.severity(lock, now);
        Some(Member {
            space: lock.space,
            key: &lock.key,
            severity,
            held: table.held_for(lock, now),
            is_used: kind == Kind::Lock && !severity.state.is_free(),
            waits: lock.waits(now),
            waiting: lock.demand(now).waiting,
            tries: table.tries(lock, now),
        })
    }

    pub fn view(lock: &'a LockView) -> Member<'a> {
        Member {
            space: lock.space,
            key: &lock.key,
            severity: lock.severity(),
            held: lock.held_ms.zip(lock.held_is),
            is_used: lock.kind == Kind::Lock && !lock.verdict.state.is_free(),
            waits: lock.waits,
            waiting: lock.demand.waiting,
            tries: lock.tries,
        }
    }
}

/// A sum over locks of which not all may be known.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sum {
    known: f64,
    of: usize,
    unknown: usize,
    sampled: bool,
}

impl Sum {
    fn add(&mut self, value: Option<f64>, at_least: f64) {
        self.known += value.unwrap_or(at_least);
        match value {
            Some(_) => self.of += 1,
            None => self.unknown += 1,
        }
    }

    /// `None` unless all are known.
    pub fn exact(&self) -> Option<f64> {
        (self.unknown == 0 && self.of > 0).then_some(self.known)
    }

    /// What is known of the sum where it is not exact; `None` if that is nothing.
    pub fn at_least(&self) -> Option<f64> {
        (self.unknown > 0 && self.known > 0.0).then_some(self.known)
    }

    /// Where the numbers come from: sampled if any of them is.
    pub fn from(&self) -> TriesFrom {
        if self.sampled { TriesFrom::Sampled } else { TriesFrom::Counted }
    }
}

/// One of the worst locks.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Worst {
    held_ms: Option<u64>,
    space: KeyspaceId,
    key: Key,
}

/// Locks that have something in common.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    pub name: GroupName,
    /// Those that are lost are not among them: nobody holds them.
    pub locks: usize,
    /// By [`State`].
    counts: [usize; State::ALL.len()],
    pub worst: Severity,
    /// How many are as bad as the worst.
    pub as_bad: usize,
    /// The first of those, the longest held first.
    named: Vec<Worst>,
    /// The oldest hold in milliseconds, as far as it is known.
    oldest: Option<(u64, HeldIs)>,
    /// A hold of unknown age may be older.
    older: bool,
    pub waiters: Sum,
    pub failures_per_s: Sum,
}

impl Group {
    pub(super) fn new(name: GroupName) -> Group {
        Group {
            name,
            locks: 0,
            counts: [0; State::ALL.len()],
            worst: Severity::new(State::Free, false),
            as_bad: 0,
            named: Vec::new(),
            oldest: None,
            older: false,
            waiters: Sum::default(),
            failures_per_s: Sum::default(),
        }
    }

    pub(super) fn add(&mut self, member: &Member<'_>) {
        let severity = member.severity;
        if self.all() == 0 || severity < self.worst {
            (self.worst, self.as_bad) = (severity, 0);
            self.named.clear();
        }
        self.counts[severity.state as usize] += 1;
        self.locks += usize::from(severity.state != State::Lost);
        if severity == self.worst {
            self.as_bad += 1;
            self.name_it(member);
        }
        if !member.is_used {
            return;
        }
        match member.held {
            Some(held) => {
                self.oldest = self.oldest.filter(|(ms, _)| *ms >= held.0).or(Some(held));
                self.older |= held.1 == HeldIs::AtLeast;
            }
            None => self.older = true,
        }
        let exact = member.waits.filter(|waits| !waits.at_least && !waits.is_at_most());
        let exact = exact.map(|waits| f64::from(waits.count.max(member.waiting)));
        self.waiters.add(exact, f64::from(member.waiting));
        self.failures_per_s.add(member.tries.and_then(|tries| tries.known_failures_per_s()), 0.0);
        self.failures_per_s.sampled |= member.tries.is_some_and(|tries| tries.from == TriesFrom::Sampled);
    }

    fn name_it(&mut self, member: &Member<'_>) {
        let held_ms = member.held.map(|(ms, _)| ms);
        let rank = |held_ms: Option<u64>, key: &Key| (Reverse(held_ms), key.clone());
        // Most locks are not among the first: no name is copied for them.
        let is_last = |last: &Worst| (Reverse(last.held_ms), &last.key) <= (Reverse(held_ms), member.key);
        if self.named.len() == NAMED && self.named.last().is_some_and(is_last) {
            return;
        }
        let mine = rank(held_ms, member.key);
        let at = self.named.partition_point(|one| rank(one.held_ms, &one.key) < mine);
        self.named.insert(at, Worst { held_ms, space: member.space, key: member.key.clone() });
        self.named.truncate(NAMED);
    }

    /// How many there are in all states.
    fn all(&self) -> usize {
        self.counts.iter().sum()
    }

    pub fn count(&self, state: State) -> usize {
        self.counts[state as usize]
    }

    /// How many there are in each state that any has, the worst first.
    pub fn states(&self) -> impl Iterator<Item = (State, usize)> {
        State::ALL.into_iter().map(|state| (state, self.count(state))).filter(|(_, count)| *count > 0)
    }

    /// The worst locks, the longest held first; at most ten of them.
    pub fn worst_keys(&self) -> impl Iterator<Item = &Key> {
        self.named.iter().map(|one| &one.key)
    }

    /// The worst lock of all.
    pub fn worst_lock(&self) -> Option<(KeyspaceId, &Key)> {
        self.named.first().map(|one| (one.space, &one.key))
    }

    /// The age of the oldest hold, and how well it is known.
    pub fn oldest(&self) -> Option<(u64, HeldIs)> {
        self.oldest.map(|(ms, is)| (ms, if self.older { HeldIs::AtLeast } else { is }))
    }

    /// Whether some are worse than the others.
    pub fn has_odd_ones(&self) -> bool {
        self.as_bad < self.all() && (!self.worst.state.is_usual() || self.worst.is_suspected())
    }
}
