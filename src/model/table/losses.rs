//! What a lock that is gone was lost by, where nobody saw its end: a failover, a restart or a slot that moved.
//!
//! A loss is proven where the lock can't have survived, whatever its holder did: its server came back with nothing, or it
//! was taken after the last write that reached the server which took over. Everything else may have been released while
//! nobody watched, and is told so.

use std::time::Duration;

use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::table::Table;
use crate::model::table::resolve::Occurrence;
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

impl Table {
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
    fn loss_of(&self, lock: &Lock) -> (Ending, bool) {
        let since_start = lock.since_is == HeldIs::Exact;
        match self.takeover_of(lock) {
            Some(Takeover { reached: Reached::Until(cut), .. }) => {
                (Ending::Failover, since_start && lock.since > cut + TOLD_LATE)
            }
            Some(_) => (Ending::Failover, false),
            None if self.has_moved(lock) => (Ending::SlotTaken, false),
            None if self.is_before_restart(lock) => (Ending::Restart, self.is_before_loss_of_all(lock)),
            None => (Ending::Unseen, false),
        }
    }

    /// Names the cause of an end that nobody saw. Returns whether the loss is proven.
    pub(super) fn explain_loss(&self, lock: &Lock, steps: &mut [Occurrence]) -> bool {
        let (cause, proven) = self.loss_of(lock);
        let mut found = false;
        for step in steps {
            if let Occurrence::End { ending: ending @ Ending::Unseen, .. } = step {
                (*ending, found) = (cause, true);
            }
        }
        found && proven
    }

    /// Its server came back with nothing since it was last read.
    fn is_before_loss_of_all(&self, lock: &Lock) -> bool {
        self.known(lock.node).and_then(|node| node.emptied).is_some_and(|at| lock.asked < at)
    }
}
