//! What the table knows about a node: how its changes are observed, and what may have been missed.

use std::collections::HashSet;
use std::time::Duration;

use crate::base::time::Time;
use crate::lock::{KeyspaceId, NodeId};
use crate::model::table::Table;
use crate::model::table::losses::Takeover;
use crate::model::{Children, Connection, Hazards, Lock, Observation, Source, Tries};

#[derive(Debug)]
pub(in crate::model) struct NodeState {
    /// The keyspace that it serves.
    pub space: KeyspaceId,
    /// Whatever happened before this may have been missed.
    pub gap: Option<Time>,
    /// Locks there were not confirmed since.
    pub stale: bool,
    /// Since when it owes an answer: what is known of it may be over.
    pub silent: Option<Time>,
    /// When it last got slots of a cluster from another node.
    pub gained: Option<Time>,
    /// When it last took the place of another node.
    pub takeover: Option<Takeover>,
    /// When it was last found to have been restarted.
    pub restarted: Option<Time>,
    /// When it was last found to have come back with nothing.
    pub emptied: Option<Time>,
    /// When the last walk of the keyspace began that was finished.
    pub swept: Option<Time>,
    /// By which source its changes are learnt.
    pub source: Option<Source>,
    /// Every change up to this time was reported; `None`: the source does not say how far it is.
    pub heard: Option<Time>,
    pub hazards: Hazards,
    /// When children of the server last ran.
    pub children: Option<Children>,
    /// What is known about every lock without a seen attempt.
    pub quiet: Option<Tries>,
    /// Clients blocked where waiters of some libraries are, as last listed.
    pub blocked: Vec<Connection>,
}

/// How far the changes of a lock are known. A verdict asks for it in several places, so it is found once.
#[derive(Clone, Copy)]
pub(in crate::model) struct Followed {
    /// A change would be reported as it happens.
    pub is_reported: bool,
    /// Until when what is known of the lock is valid.
    pub known: Time,
    /// Until when its changes were reported; the time of the question if they are not reported at all.
    pub reported: Time,
}

impl NodeState {
    pub fn new(space: KeyspaceId) -> NodeState {
        let (gap, swept, source, heard, hazards) = (None, None, None, None, Hazards::default());
        let (stale, silent, gained, takeover, restarted, emptied) = (false, None, None, None, None, None);
        let (children, quiet, blocked) = (None, None, Vec::new());
        NodeState {
            space,
            gap,
            stale,
            silent,
            gained,
            takeover,
            restarted,
            emptied,
            swept,
            source,
            heard,
            hazards,
            children,
            quiet,
            blocked,
        }
    }

    /// What says all this to another table.
    pub fn observations(&self, node: NodeId) -> impl Iterator<Item = Observation> {
        let joined = Observation::Joined { node, space: self.space };
        let watched = self.source.map(|source| Observation::Watched { node, source });
        let hazards = Observation::Hazards { node, hazards: self.hazards.clone() };
        let gap = self.gap.map(|at| Observation::Gap { node, at });
        let children = self.children.map(|known| Observation::Children { node, children: Some(known) });
        let heard = self.heard.map(|until| Observation::Heard { node, until });
        [joined, hazards].into_iter().chain(children).chain(watched).chain(gap).chain(heard)
    }

    /// Named events arrive for each change.
    fn is_eventful(&self) -> bool {
        self.source == Some(Source::Notification)
    }

    /// Each change of a key is reported as it happens.
    fn reports(&self) -> bool {
        matches!(self.source, Some(Source::Notification | Source::Tracking))
    }

    /// Something last known at that time may have changed unnoticed.
    pub fn missed(&self, known: Time) -> bool {
        self.gap.is_some_and(|gap| known < gap)
    }

    /// The keyspace was scanned, and nothing was missed since.
    pub fn is_whole(&self) -> bool {
        self.swept.is_some_and(|started| !self.missed(started) && self.gained.is_none_or(|at| at <= started))
    }
}

impl Table {
    pub(in crate::model) fn hazards_of(&self, lock: &Lock) -> Option<&Hazards> {
        self.known(lock.node).map(|node| &node.hazards)
    }

    /// Held, and not confirmed since events were missed on its node, or since the node does not answer. Nobody looks again
    /// at what is gone.
    pub fn is_stale(&self, lock: &Lock) -> bool {
        lock.is_held() && (self.missed(lock) || self.known(lock.node).is_some_and(|node| node.silent.is_some()))
    }

    /// It answers for no key since then, or does again at that time: meanwhile nobody could renew there.
    pub(super) fn take_silence(&mut self, node: NodeId, since: Option<Time>, at: Time) {
        let held = self.held;
        let state = self.node(node);
        let before = std::mem::replace(&mut state.silent, since);
        state.stale |= since.is_some() && held > 0;
        let Some(began) = before.filter(|_| since.is_none()) else { return };
        for place in self.slots.places(|lock| lock.node == node && lock.is_held()) {
            self.slots.get_mut(place).into_iter().for_each(|lock| lock.outlasts(began, at));
        }
    }

    /// Locks of the node were not confirmed since events were missed there.
    pub fn has_stale(&self, node: NodeId) -> bool {
        self.known(node).is_some_and(|known| known.stale)
    }

    /// Clients blocked there, as last listed.
    pub(in crate::model) fn blocked(&self, node: NodeId) -> &[Connection] {
        self.known(node).map_or(&[], |known| &known.blocked)
    }

    /// The source of the node's changes.
    pub fn source(&self, node: NodeId) -> Option<Source> {
        self.known(node)?.source
    }

    /// Whether each node was scanned to the end and nothing was left out.
    pub fn is_complete(&self) -> bool {
        self.locks_dropped == 0 && self.nodes.iter().flatten().all(NodeState::is_whole)
    }

    /// Events were missed on its node since it was last read.
    pub(in crate::model) fn missed(&self, lock: &Lock) -> bool {
        self.known(lock.node).is_some_and(|node| node.missed(lock.asked)) || self.has_moved(lock)
    }

    /// Its server was restarted since it was last read.
    pub(in crate::model) fn is_before_restart(&self, lock: &Lock) -> bool {
        let restarted = self.known(lock.node).and_then(|node| node.restarted);
        restarted.is_some_and(|at| lock.asked < at)
    }

    /// Each change of the lock since it was last read, or first heard of, came with an event.
    pub(in crate::model) fn is_eventful(&self, lock: &Lock) -> bool {
        let heard = lock.pending.as_ref().and_then(|pending| pending.events.first()).map(|(_, at)| *at);
        let followed = heard.map_or(lock.asked, |at| at.max(lock.asked));
        self.known(lock.node).is_some_and(|node| node.is_eventful() && !node.missed(followed))
            && self.moved_since(lock, followed).is_none()
    }

    /// The node's keyspace was scanned, and nothing was missed since.
    pub(in crate::model) fn is_swept(&self, node: NodeId) -> bool {
        self.known(node).is_some_and(NodeState::is_whole)
    }

    /// Whether a change of the lock would be reported as it happens.
    pub(in crate::model) fn is_reported(&self, lock: &Lock) -> bool {
        self.reporting(lock).is_some()
    }

    /// Its node, if a change of the lock would be reported as it happens.
    fn reporting(&self, lock: &Lock) -> Option<&NodeState> {
        let node = self.known(lock.node).filter(|node| node.reports() && !node.missed(lock.asked))?;
        (!self.has_moved(lock)).then_some(node)
    }

    /// How far its changes are known.
    pub(in crate::model) fn followed(&self, lock: &Lock, now: Time) -> Followed {
        let Some(node) = self.reporting(lock) else {
            return Followed { is_reported: false, known: lock.confirmed, reported: now };
        };
        // A server that answers for no key lets nobody renew.
        let heard = node.heard.unwrap_or(now).min(node.silent.unwrap_or(now));
        let until = heard.max(lock.confirmed).min(now);
        Followed { is_reported: true, known: until, reported: until }
    }

    /// Until when the known state of a lock is valid: if changes are reported, as far as all of them were.
    pub(in crate::model) fn known_until(&self, lock: &Lock, now: Time) -> Time {
        self.followed(lock, now).known
    }

    /// A change that is reported at `at` may have happened this long before: the reader may be behind.
    pub(super) fn behind(&self, node: NodeId, at: Time) -> Duration {
        self.known(node).and_then(|node| node.heard).map_or(Duration::ZERO, |heard| at.since(heard))
    }

    /// Until when a renewal would have been reported: until the connection was lost, if it is.
    pub(in crate::model) fn heard_until(&self, lock: &Lock, now: Time) -> Time {
        let gap = self.known(lock.node).and_then(|node| node.gap);
        let known = self.known_until(lock, now);
        gap.map_or(known, |gap| gap.max(known)).min(now)
    }

    pub(in crate::model) fn quiet(&self, node: NodeId) -> Option<Tries> {
        self.known(node)?.quiet
    }

    pub(super) fn forget_node(&mut self, node: NodeId) {
        for place in self.slots.places(|lock| lock.node == node) {
            if let Some((_, lock)) = self.slots.remove(place) {
                self.held -= usize::from(lock.is_held());
            }
        }
        self.clients.keep(node, &HashSet::new(), Time(i64::MAX));
        self.rosters.remove(&node);
        self.absent.retain(|_, (of, _)| *of != node);
        if let Some(state) = self.nodes.get_mut(node.0 as usize) {
            *state = None;
        }
    }

    /// The keyspace that the node serves.
    pub(in crate::model) fn space(&self, node: NodeId) -> KeyspaceId {
        self.known(node).map_or(KeyspaceId(node.0), |known| known.space)
    }

    pub(super) fn node(&mut self, node: NodeId) -> &mut NodeState {
        let index = node.0 as usize;
        if self.nodes.len() <= index {
            self.nodes.resize_with(index + 1, || None);
        }
        // A standalone server is a keyspace of one node.
        self.nodes[index].get_or_insert_with(|| NodeState::new(KeyspaceId(node.0)))
    }

    pub(in crate::model) fn known(&self, node: NodeId) -> Option<&NodeState> {
        self.nodes.get(node.0 as usize)?.as_ref()
    }
}
