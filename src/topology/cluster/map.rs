//! The map of a cluster: which nodes there are, and which of them owns a key. Of a Sentinel service the master owns every
//! slot. Pure but for the nodes' connections.

use std::collections::{BTreeMap, BTreeSet};

use super::super::Node;
use crate::base::text::{counted, visible};
use crate::lock::{Key, NodeId, SLOTS, slot_of};
use crate::model::SlotRange;

/// A cluster or service at one time.
#[derive(Clone, Default)]
pub struct Map {
    /// Grows with each change.
    pub version: u64,
    /// The newest epoch among the nodes.
    pub epoch: u64,
    pub members: Vec<Member>,
    pub slots: Vec<SlotRange>,
}

/// One node of a cluster.
#[derive(Clone)]
pub struct Member {
    pub node: Node,
    pub role: MemberRole,
    /// The cluster agrees that it is down.
    pub failed: bool,
    pub epoch: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberRole {
    Master,
    /// Of this node, where that is known.
    Replica(Option<NodeId>),
}

/// One node took the place of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failover {
    pub from: NodeId,
    pub to: NodeId,
    /// The names of both.
    pub names: (String, String),
    pub slots: u16,
}

impl Map {
    /// The nodes that are read: those that own slots, and the masters that may get some.
    pub fn masters(&self) -> impl Iterator<Item = &Node> {
        let owns = |node: &Node| self.slots.iter().any(|(.., owner)| *owner == node.id);
        let is_read = move |member: &&Member| member.role == MemberRole::Master && !member.failed || owns(&member.node);
        self.members.iter().filter(is_read).map(|member| &member.node)
    }

    /// The node that owns a key; `None`: nobody does now.
    pub fn owner(&self, key: &Key) -> Option<&Node> {
        let slot = slot_of(key.as_bytes());
        let (.., owner) = self.slots.iter().find(|(first, last, _)| (*first..=*last).contains(&slot))?;
        self.members.iter().map(|member| &member.node).find(|node| node.id == *owner)
    }

    /// How many slots nobody owns.
    pub fn unowned(&self) -> u16 {
        let owned: u32 = self.slots.iter().map(|(first, last, _)| u32::from(last - first) + 1).sum();
        u32::from(SLOTS).saturating_sub(owned) as u16
    }

    /// Slots that nobody serves, and the masters that the other nodes gave up: `5461 slots are not served: cache-2:7000 failed`.
    pub fn unserved(&self) -> Option<String> {
        let failed = |member: &&Member| member.failed && member.role == MemberRole::Master;
        let given_up: Vec<&Node> = self.members.iter().filter(failed).map(|member| &member.node).collect();
        let lost = self.slots.iter().filter(|(.., owner)| given_up.iter().any(|node| node.id == *owner));
        let slots = lost.map(|(first, last, _)| u64::from(last - first) + 1).sum::<u64>() + u64::from(self.unowned());
        let names: Vec<String> = given_up.iter().map(|node| visible(node.name.as_bytes())).collect();
        let who =
            if names.is_empty() { "no node has them".to_string() } else { format!("{} failed", names.join(", ")) };
        let are = if slots == 1 { "is" } else { "are" };
        (slots > 0).then(|| format!("{} {are} not served: {who}", counted(slots, "slot")))
    }

    /// The nodes that own slots which they did not own before.
    pub fn gainers(&self, before: &Map) -> BTreeSet<NodeId> {
        let had = |slot: u16, node: NodeId| {
            before.slots.iter().any(|(first, last, owner)| *owner == node && (*first..=*last).contains(&slot))
        };
        let gained = |(first, last, node): &&SlotRange| (*first..=*last).any(|slot| !had(slot, *node));
        self.slots.iter().filter(gained).map(|(.., node)| *node).collect()
    }

    /// Whether a node has the place of another now, rather than some of its slots. A replica that takes over is a master
    /// with slots before its old master says that it is one no more.
    pub fn replaces(&self, before: &Map, old: NodeId, new: NodeId) -> bool {
        let followed = |member: &Member| member.node.id == new && member.role == MemberRole::Replica(Some(old));
        before.members.iter().any(followed) || !self.masters().any(|node| node.id == old)
    }

    /// Who took over how many slots from the node whose place it has now.
    pub fn failovers(&self, before: &Map) -> Vec<Failover> {
        let name = |map: &Map, id: NodeId| {
            map.members.iter().find(|member| member.node.id == id).map(|member| member.node.name.clone())
        };
        let mut taken: BTreeMap<(NodeId, NodeId), u16> = BTreeMap::new();
        for (first, last, old) in &before.slots {
            for (from, to, new) in self.slots.iter().filter(|(.., new)| new != old) {
                let (from, to) = ((*from).max(*first), (*to).min(*last));
                if from <= to && self.replaces(before, *old, *new) {
                    *taken.entry((*old, *new)).or_default() += to - from + 1;
                }
            }
        }
        let told = |((from, to), slots): ((NodeId, NodeId), u16)| {
            Some(Failover { from, to, names: (name(before, from)?, name(self, to)?), slots })
        };
        taken.into_iter().filter_map(told).collect()
    }

    /// Whether readers would notice a difference.
    pub(in crate::topology) fn differs(&self, other: &Map) -> bool {
        let members = |map: &Map| -> Vec<(NodeId, MemberRole, bool)> {
            map.members.iter().map(|member| (member.node.id, member.role, member.failed)).collect()
        };
        self.slots != other.slots || members(self) != members(other)
    }
}
