//! What readers ask the table for: locks, how many there are, and who holds them. Nothing here changes it.

use std::ops::Range;

use crate::base::time::Time;
use crate::dialects::{LeftOut, Recogniser};
use crate::lock::{Holder, KeyspaceId};
use crate::model::lock::Phase;
use crate::model::table::Table;
use crate::model::table::slots::LockRef;
use crate::model::{Former, Holds, Lock, Loss};

impl Table {
    pub fn recogniser(&self) -> &Recogniser {
        &self.recogniser
    }

    /// Locks held now.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Locks that were not taken in because the table is full.
    pub fn locks_dropped(&self) -> u64 {
        self.locks_dropped
    }

    /// What the last walk read under the patterns that is no lock.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// All locks that are held, in no order.
    pub fn locks(&self) -> impl Iterator<Item = &Lock> {
        self.slots.held().map(|(_, lock)| lock)
    }

    /// All locks that are held, and those whose holders may not know that they are lost, in no order.
    pub fn listed(&self, now: Time) -> impl Iterator<Item = &Lock> {
        self.places_listed_in(0..self.slots(), now).map(|(_, lock)| lock)
    }

    /// The listed locks in these slots, for callers that walk all slots piece by piece.
    pub fn places_listed_in(&self, slots: Range<usize>, now: Time) -> impl Iterator<Item = (LockRef, &Lock)> {
        self.slots.known_in(slots).filter(move |(_, lock)| self.is_listed(lock, now))
    }

    /// It is held, or its holder may not know that it is lost.
    pub fn is_listed(&self, lock: &Lock, now: Time) -> bool {
        lock.is_held() || self.listed_loss(lock, now).is_some()
    }

    /// How it was lost, if that is listed.
    pub(in crate::model) fn listed_loss<'a>(&self, lock: &'a Lock, now: Time) -> Option<(&'a Former, &'a Loss)> {
        if lock.is_lost() { lock.loss(now) } else { None }
    }

    /// Locks that are gone and still known; some may be held again.
    pub(in crate::model) fn remembered(&self) -> impl Iterator<Item = &Lock> {
        self.gone.iter().filter_map(|(place, _)| self.slots.get(*place))
    }

    /// All locks that are held, with where they are kept, in no order.
    pub fn places(&self) -> impl Iterator<Item = (LockRef, &Lock)> {
        self.slots.held()
    }

    /// How many slots there are for locks. The number never shrinks.
    pub fn slots(&self) -> usize {
        self.slots.room()
    }

    /// The held locks in these slots, for callers that walk all slots piece by piece.
    pub fn places_in(&self, slots: Range<usize>) -> impl Iterator<Item = (LockRef, &Lock)> {
        self.slots.held_in(slots)
    }

    /// The lock at that place, if it is still known.
    pub fn lock_at(&self, place: LockRef) -> Option<&Lock> {
        self.slots.get(place)
    }

    /// Where the lock of that name is kept, held or remembered.
    pub fn place_named(&self, space: KeyspaceId, key: &[u8]) -> Option<LockRef> {
        self.slots.find(self.slots.hash(space, key), space, key)
    }

    /// The lock of that name, held or remembered.
    pub fn lock_named(&self, space: KeyspaceId, key: &[u8]) -> Option<&Lock> {
        self.slots.get(self.place_named(space, key)?).filter(|lock| lock.phase != Phase::Unread)
    }

    /// The holders, decoded from the stored value.
    pub fn holders(&self, lock: &Lock, now: Time) -> Vec<Holder> {
        lock.holders(&self.recogniser, now)
    }

    /// What is usual for locks of its name pattern.
    pub fn holds(&self, lock: &Lock) -> &Holds {
        self.groups.get(lock.group)
    }
}
