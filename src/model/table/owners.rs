//! Which node of a cluster owns a key, and since when.
//!
//! Only the owner's answers and events count: a replica, an importing node and a deposed master tell of keys too. What
//! another node tells only prompts a look at the owner; its events are kept beside, in case it turns out to own the slot.
//! A keyspace without a map (a server on its own) has no owners, and everything its node says counts.

use crate::base::time::Time;
use crate::lock::{KeyspaceId, NodeId, SLOTS, slot_of};
use crate::model::table::Table;
use crate::model::table::slots::LockRef;
use crate::model::{Lock, Observation};

/// Slots of one owner: the first, the last and the node.
pub type SlotRange = (u16, u16, NodeId);

/// The owners of all slots of one keyspace.
#[derive(Debug)]
pub(in crate::model) struct Owners {
    space: KeyspaceId,
    /// The owner of each slot; `None`: nobody owns it now.
    nodes: Box<[Option<NodeId>]>,
    /// When each slot last changed hands; the beginning of time if it did not since we look.
    since: Box<[Time]>,
}

impl Owners {
    fn new(space: KeyspaceId) -> Owners {
        let slots = usize::from(SLOTS);
        Owners { space, nodes: vec![None; slots].into(), since: vec![Time(i64::MIN); slots].into() }
    }

    /// What says all this to another table. When slots changed hands is not told: it concerns reads before that.
    pub fn observation(&self, at: Time) -> Observation {
        let mut slots: Vec<SlotRange> = Vec::new();
        for (slot, node) in (0..SLOTS).zip(&self.nodes) {
            match (slots.last_mut(), node) {
                (Some((_, last, owner)), Some(node)) if *last + 1 == slot && owner == node => *last = slot,
                (_, Some(node)) => slots.push((slot, slot, *node)),
                (_, None) => {}
            }
        }
        Observation::Owners { space: self.space, slots, at }
    }
}

impl Table {
    /// Its nodes share the slots of a cluster.
    pub(in crate::model) fn is_clustered(&self, space: KeyspaceId) -> bool {
        self.owners.iter().any(|owners| owners.space == space)
    }

    /// The owner of a key, in a keyspace of several nodes.
    pub(super) fn owner(&self, space: KeyspaceId, key: &[u8]) -> Option<NodeId> {
        let owners = self.owners.iter().find(|owners| owners.space == space)?;
        owners.nodes[usize::from(slot_of(key))]
    }

    /// Where to look at a key that this node told of.
    pub(super) fn home(&self, space: KeyspaceId, node: NodeId, key: &[u8]) -> NodeId {
        self.owner(space, key).unwrap_or(node)
    }

    /// When the lock's slot last changed hands, if that was after `known`.
    pub(in crate::model) fn moved_since(&self, lock: &Lock, known: Time) -> Option<Time> {
        let owners = self.owners.iter().find(|owners| owners.space == lock.space)?;
        Some(owners.since[usize::from(slot_of(lock.key.as_bytes()))]).filter(|since| known < *since)
    }

    /// Whether the lock has moved since it was last read.
    pub(in crate::model) fn has_moved(&self, lock: &Lock) -> bool {
        self.moved_since(lock, lock.asked).is_some()
    }

    /// Several nodes serve the keyspace.
    pub(in crate::model) fn is_spread(&self, space: KeyspaceId) -> bool {
        self.owners.iter().any(|owners| owners.space == space)
    }

    /// How many slots the node owns; `None`: the keyspace has no slots.
    pub fn slots_of(&self, node: NodeId) -> Option<usize> {
        let owners = self.owners.iter().find(|owners| owners.space == self.space(node))?;
        Some(owners.nodes.iter().filter(|owner| **owner == Some(node)).count())
    }

    /// How many locks are held in these slots: the first and the last of each range.
    pub fn held_in(&self, space: KeyspaceId, ranges: &[(u16, u16)]) -> u64 {
        let inside = |slot: u16| ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot));
        let held = |lock: &&Lock| lock.space == space && lock.is_held() && inside(slot_of(lock.key.as_bytes()));
        self.locks().filter(held).count() as u64
    }

    /// The slots changed hands: the locks in them are looked at where they are now.
    pub(super) fn take_owners(&mut self, space: KeyspaceId, slots: &[SlotRange], at: Time) {
        let mut owned = Owners::new(space);
        for (first, last, node) in slots {
            // What a record says may be anything.
            let range = usize::from(*first)..usize::from((*last).min(SLOTS - 1)) + 1;
            owned.nodes.get_mut(range).into_iter().for_each(|slots| slots.fill(Some(*node)));
        }
        let known = self.owners.iter().position(|owners| owners.space == space);
        if let Some(known) = known {
            let before = self.owners.swap_remove(known);
            let mut gained: Vec<NodeId> = Vec::new();
            for (slot, node) in owned.nodes.iter().enumerate() {
                let changed = *node != before.nodes[slot];
                owned.since[slot] = if changed { at } else { before.since[slot] };
                gained.extend(node.filter(|_| changed));
            }
            gained.sort_unstable();
            gained.dedup();
            gained.into_iter().for_each(|node| self.node(node).gained = Some(at));
        }
        self.owners.push(owned);
        self.bring_home(space);
    }

    fn bring_home(&mut self, space: KeyspaceId) {
        let elsewhere = |lock: &Lock| self.owner(space, lock.key.as_bytes()).is_some_and(|owner| owner != lock.node);
        let away: Vec<LockRef> = self.slots.places(|lock| lock.space == space && elsewhere(lock));
        for place in away {
            let node = self.slots.get(place).and_then(|lock| self.owner(space, lock.key.as_bytes()));
            let (Some(node), Some(lock)) = (node, self.at(place)) else { continue };
            lock.node = node;
            if lock.is_held() || lock.pending.is_some() {
                self.enqueue(place);
            }
        }
    }
}
