//! What a lock that is gone was lost by, where nobody saw its end: a failover, a restart or a slot that moved; and which
//! of the locks that were lost are still listed.
//!
//! A loss is proven where the lock can't have survived, whatever its holder did: its server came back with nothing, or it
//! was taken after the last write that reached the server which took over. Everything else may have been released while
//! nobody watched, and is told so. A lost lock is listed as long as its old lease would run, so that somebody sees whose
//! work goes on without it. A restart can lose all locks at once: the first ones are listed, the others counted.

use std::time::Duration;

use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::lock::Phase;
use crate::model::table::Table;
use crate::model::table::resolve::Occurrence;
use crate::model::table::slots::LockRef;
use crate::model::{Ending, HeldIs, Lock};

/// How long a missing lock waits for what the new server says about the writes that reached it.
const PATIENCE: Duration = Duration::from_secs(3);

/// An acquire may have been told this late, without us knowing.
const TOLD_LATE: Duration = Duration::from_millis(500);

/// A node took the place of another one.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Takeover {
    at: Time,
    reached: Reached,
}

/// Which writes to the server before it have reached a node.
#[derive(Clone, Copy, Debug)]
enum Reached {
    /// It was not asked yet.
    Unknown,
    /// All, or nobody knows.
    Unproven,
    /// None after this time.
    Until(Time),
}

/// How a lock was lost whose end nobody saw.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Blame {
    by: Ending,
    pub proven: bool,
    /// Nothing that was written after this time reached the new server.
    pub cut: Option<Time>,
}

impl Blame {
    fn unproven(by: Ending) -> Blame {
        Blame { by, proven: false, cut: None }
    }
}

/// The locks that are listed although they are lost.
#[derive(Debug, Default)]
pub(super) struct Listed {
    places: Vec<LockRef>,
    /// More were lost than are listed: how many, and when the last of their leases ends.
    beyond: Option<(u64, Time)>,
}

impl Table {
    /// Keeps a lock that has just gone in the list, if its holder may not know. Returns whether it did.
    pub(super) fn list_lost(&mut self, place: LockRef, at: Time) -> bool {
        let most = self.limits.lost;
        let Some(lock) = self.slots.get_mut(place) else { return false };
        let Some((former, _)) = lock.loss(at) else { return false };
        if self.lost.places.len() >= most {
            let until = former.until.unwrap_or(at);
            let (count, last) = self.lost.beyond.unwrap_or((0, until));
            self.lost.beyond = Some((count + 1, last.max(until)));
            return false;
        }
        lock.phase = Phase::Lost;
        self.lost.places.push(place);
        true
    }

    /// Takes those out of the list whose leases would have ended.
    pub(super) fn forget_lost(&mut self, now: Time) {
        self.lost.beyond = self.lost.beyond.filter(|(_, last)| *last > now);
        let mut places = std::mem::take(&mut self.lost.places);
        places.retain(|place| {
            let Some(lock) = self.slots.get(*place).filter(|lock| lock.is_lost()) else { return false };
            let listed = lock.loss(now).is_some();
            if !listed {
                self.bury(*place);
            }
            listed
        });
        self.lost.places = places;
    }

    /// How many locks were lost whose leases may still run, and that are not listed because there are too many.
    pub fn lost_beyond(&self, now: Time) -> u64 {
        self.lost.beyond.filter(|(_, last)| *last > now).map_or(0, |(count, _)| count)
    }

    pub(super) fn take_over(&mut self, node: NodeId, at: Time) {
        self.node(node).takeover = Some(Takeover { at, reached: Reached::Unknown });
    }

    /// Writes to the node before it reached it up to then; `None`: nothing is known to be missing.
    pub(super) fn take_cut(&mut self, node: NodeId, since: Option<Time>) {
        if let Some(takeover) = &mut self.node(node).takeover {
            takeover.reached = since.map_or(Reached::Unproven, Reached::Until);
        }
    }

    /// The failover that moved the lock since it was last read.
    fn takeover_of(&self, lock: &Lock) -> Option<Takeover> {
        let moved = self.moved_since(lock, lock.asked)?;
        self.known(lock.node)?.takeover.filter(|takeover| takeover.at == moved)
    }

    /// When that was.
    pub(super) fn takeover_at(&self, lock: &Lock) -> Option<Time> {
        self.takeover_of(lock).map(|takeover| takeover.at)
    }

    /// What reached its new node will be known in a moment.
    pub(super) fn awaits_proof(&self, lock: &Lock, now: Time) -> bool {
        let takeover = self.takeover_of(lock);
        takeover.is_some_and(|known| matches!(known.reached, Reached::Unknown) && now < known.at + PATIENCE)
    }

    /// By what a lock was lost whose end nobody saw, and whether that is proven.
    fn blame(&self, lock: &Lock) -> Blame {
        let since_start = lock.since_is == HeldIs::Exact;
        match self.takeover_of(lock) {
            Some(Takeover { reached: Reached::Until(cut), .. }) => {
                let proven = since_start && lock.since > cut + TOLD_LATE;
                Blame { by: Ending::Failover, proven, cut: Some(cut) }
            }
            Some(_) => Blame::unproven(Ending::Failover),
            None if self.has_moved(lock) => Blame::unproven(Ending::SlotTaken),
            None if self.is_before_restart(lock) => {
                Blame { proven: self.is_before_loss_of_all(lock), ..Blame::unproven(Ending::Restart) }
            }
            None => Blame::unproven(Ending::Unseen),
        }
    }

    /// Names the cause of an end that nobody saw, and returns it if there is such an end.
    pub(super) fn explain_loss(&self, lock: &Lock, steps: &mut [Occurrence]) -> Option<Blame> {
        let blame = self.blame(lock);
        let mut found = false;
        for step in steps {
            if let Occurrence::End { ending: ending @ Ending::Unseen, .. } = step {
                (*ending, found) = (blame.by, true);
            }
        }
        found.then_some(blame)
    }

    /// Its server came back with nothing since it was last read.
    fn is_before_loss_of_all(&self, lock: &Lock) -> bool {
        self.known(lock.node).and_then(|node| node.emptied).is_some_and(|at| lock.asked < at)
    }
}
