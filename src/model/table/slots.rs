//! Stores locks: one slot each, found by keyspace and key without a second copy of either.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId, NodeId};
use crate::model::Lock;

/// A slot and the generation of its lock: stale once the slot has another lock. Small, for lists of many locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LockRef {
    slot: u32,
    generation: u32,
}

impl LockRef {
    /// For callers that walk all slots piece by piece.
    pub fn slot(self) -> usize {
        self.slot as usize
    }
}

#[derive(Default)]
pub(in crate::model) struct Slots {
    hasher: DefaultHashBuilder,
    index: HashTable<u32>,
    slots: Vec<Option<Lock>>,
    free: Vec<u32>,
    generation: u32,
    /// The slot that was polled last.
    polled: usize,
}

impl Slots {
    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn hash(&self, space: KeyspaceId, key: &[u8]) -> u64 {
        self.hasher.hash_one((space, key))
    }

    pub fn find(&self, hash: u64, space: KeyspaceId, key: &[u8]) -> Option<LockRef> {
        let same =
            |slot: &u32| self.in_slot(*slot).is_some_and(|lock| lock.space == space && lock.key.as_bytes() == key);
        let slot = *self.index.find(hash, same)?;
        Some(LockRef { slot, generation: self.in_slot(slot)?.generation })
    }

    pub fn insert(&mut self, hash: u64, (space, node): (KeyspaceId, NodeId), key: Key, at: Time) -> LockRef {
        self.generation = self.generation.wrapping_add(1);
        let lock = Lock::new((space, node), key, at, self.generation);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(lock);
        let (hasher, slots) = (&self.hasher, &self.slots);
        self.index.insert_unique(hash, slot, |slot| {
            slots[*slot as usize].as_ref().map_or(0, |lock| hasher.hash_one((lock.space, lock.key.as_bytes())))
        });
        LockRef { slot, generation: self.generation }
    }

    /// Takes the lock out, with the hash it was found by.
    pub fn remove(&mut self, place: LockRef) -> Option<(u64, Lock)> {
        self.get(place)?;
        let lock = self.slots[place.slot as usize].take()?;
        let hash = self.hash(lock.space, lock.key.as_bytes());
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == place.slot) {
            entry.remove();
        }
        self.free.push(place.slot);
        Some((hash, lock))
    }

    pub fn get(&self, place: LockRef) -> Option<&Lock> {
        self.in_slot(place.slot).filter(|lock| lock.generation == place.generation)
    }

    pub fn get_mut(&mut self, place: LockRef) -> Option<&mut Lock> {
        self.slots.get_mut(place.slot as usize)?.as_mut().filter(|lock| lock.generation == place.generation)
    }

    /// How many slots there are, taken or free.
    pub fn room(&self) -> usize {
        self.slots.len()
    }

    /// All locks that are held, in no order.
    pub fn held(&self) -> impl Iterator<Item = (LockRef, &Lock)> {
        self.held_in(0..self.slots.len())
    }

    /// The held locks in these slots, which must exist.
    pub fn held_in(&self, slots: Range<usize>) -> impl Iterator<Item = (LockRef, &Lock)> {
        self.known_in(slots).filter(|(_, lock)| lock.is_held())
    }

    /// All locks in these slots, held or remembered.
    pub fn known_in(&self, slots: Range<usize>) -> impl Iterator<Item = (LockRef, &Lock)> {
        let first = slots.start;
        self.slots[slots].iter().enumerate().filter_map(move |(slot, lock)| {
            let lock = lock.as_ref()?;
            Some((LockRef { slot: (first + slot) as u32, generation: lock.generation }, lock))
        })
    }

    /// All locks that `wanted` accepts, held or remembered.
    pub fn places(&self, wanted: impl Fn(&Lock) -> bool) -> Vec<LockRef> {
        let place = |(slot, lock): (usize, &Option<Lock>)| {
            let lock = lock.as_ref().filter(|lock| wanted(lock))?;
            Some(LockRef { slot: slot as u32, generation: lock.generation })
        };
        self.slots.iter().enumerate().filter_map(place).collect()
    }

    /// The next locks that `wanted` accepts, in rotation: up to `most`.
    pub fn next_round(&mut self, most: usize, wanted: impl Fn(&Lock) -> bool) -> Vec<LockRef> {
        let mut found = Vec::new();
        for _ in 0..self.slots.len() {
            if found.len() >= most {
                break;
            }
            self.polled = (self.polled + 1) % self.slots.len();
            if let Some(lock) = self.slots[self.polled].as_ref().filter(|lock| wanted(lock)) {
                found.push(LockRef { slot: self.polled as u32, generation: lock.generation });
            }
        }
        found
    }

    fn in_slot(&self, slot: u32) -> Option<&Lock> {
        self.slots.get(slot as usize)?.as_ref()
    }
}
