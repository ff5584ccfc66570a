//! What the table knows about a node: how its changes are observed, and what may have been missed.

use std::collections::HashSet;

use crate::base::time::Time;
use crate::lock::{KeyspaceId, NodeId};
use crate::model::table::Table;
use crate::model::{Hazards, Lock, Observation, Source, Tries};

#[derive(Debug)]
pub(in crate::model) struct NodeState {
    /// The keyspace that it serves.
    pub space: KeyspaceId,
    /// Whatever happened before this may have been missed.
    pub gap: Option<Time>,
    /// When the last walk of the keyspace began that was finished.
    pub swept: Option<Time>,
    /// By which source its changes are learnt.
    pub source: Option<Source>,
    pub hazards: Hazards,
    /// What is known about every lock without a seen attempt.
    pub quiet: Option<Tries>,
}

impl NodeState {
    pub fn new(space: KeyspaceId) -> NodeState {
        NodeState { space, gap: None, swept: None, source: None, hazards: Hazards::default(), quiet: None }
    }

    /// What says all this to another table.
    pub fn observations(&self, node: NodeId) -> impl Iterator<Item = Observation> {
        let joined = Observation::Joined { node, space: self.space };
        let watched = self.source.map(|source| Observation::Watched { node, source });
        let hazards = Observation::Hazards { node, hazards: self.hazards.clone() };
        let gap = self.gap.map(|at| Observation::Gap { node, at });
        [joined, hazards].into_iter().chain(watched).chain(gap)
    }

    /// Named events arrive for each change.
    fn is_eventful(&self) -> bool {
        self.source == Some(Source::Notification)
    }

    /// Something last known at that time may have changed unnoticed.
    pub fn missed(&self, known: Time) -> bool {
        self.gap.is_some_and(|gap| known < gap)
    }

    /// The keyspace was scanned, and nothing was missed since.
    pub fn is_whole(&self) -> bool {
        self.swept.is_some_and(|started| !self.missed(started))
    }
}

impl Table {
    pub(in crate::model) fn hazards_of(&self, lock: &Lock) -> Option<&Hazards> {
        self.known(lock.node).map(|node| &node.hazards)
    }

    /// Not confirmed since events were missed on its node.
    pub fn is_stale(&self, lock: &Lock) -> bool {
        self.missed(lock)
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
        self.known(lock.node).is_some_and(|node| node.missed(lock.asked))
    }

    /// Each change of the lock since it was last read, or first heard of, came with an event.
    pub(in crate::model) fn is_eventful(&self, lock: &Lock) -> bool {
        let heard = lock.pending.as_ref().and_then(|pending| pending.events.first()).map(|(_, at)| *at);
        let followed = heard.map_or(lock.asked, |at| at.max(lock.asked));
        self.known(lock.node).is_some_and(|node| node.is_eventful() && !node.missed(followed))
    }

    /// The node's keyspace was scanned, and nothing was missed since.
    pub(in crate::model) fn is_swept(&self, node: NodeId) -> bool {
        self.known(node).is_some_and(NodeState::is_whole)
    }

    /// Whether a change of the lock would be reported as it happens.
    pub(in crate::model) fn told_of(&self, lock: &Lock) -> bool {
        let told = |node: &NodeState| matches!(node.source, Some(Source::Notification | Source::Tracking));
        self.known(lock.node).is_some_and(|node| told(node) && !node.missed(lock.asked))
    }

    /// Until when the known state of a lock is valid: now, if changes would be reported.
    pub(in crate::model) fn known_until(&self, lock: &Lock, now: Time) -> Time {
        if self.told_of(lock) { now } else { lock.confirmed }
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

    pub(super) fn known(&self, node: NodeId) -> Option<&NodeState> {
        self.nodes.get(node.0 as usize)?.as_ref()
    }
}
