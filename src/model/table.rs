//! The table of all locks: takes observations, yields transitions and views, and says which keys to look at next.
//!
//! It never asks Redis anything itself. Sources call [`Table::apply`]; the engine takes [`Ticket`]s from
//! [`Table::to_read`], looks at those keys, and gives the answers back with [`Table::answer`]. Events that are late,
//! repeated or out of order cannot corrupt it: whatever they made of a lock, a look asked for after the last of them
//! settles it. Everything here is bounded by [`Limits`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::lock::Phase;
use super::{EventBatch, Holder, Key, KeyEvent, Lock, NodeId, Observation, Source, Time, Transition};
use crate::dialects::Recogniser;

/// How much the table may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Locks in all, those that are gone included.
    pub locks: usize,
    /// Locks that are gone but remembered.
    pub gone: usize,
    /// Transitions not taken yet.
    pub transitions: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { locks: 2_000_000, gone: 10_000, transitions: 100_000 }
    }
}

/// A request to look at one key. It remembers how far the events had come when it was handed out.
#[derive(Clone, Debug)]
pub struct Ticket {
    pub node: NodeId,
    pub key: Key,
    pub(super) place: LockRef,
    pub(super) seq: u64,
}

/// A slot and the lock it was given to: stale once the slot has another. Small, for lists of many locks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LockRef {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

#[derive(Debug, Default)]
struct NodeState {
    /// Named events arrive for each change.
    eventful: bool,
    /// Since when events are missing, until a sweep that began later is done.
    gap: Option<Time>,
    /// A walk of the keyspace has been finished.
    swept: Option<Time>,
    source: Option<Source>,
}

/// All locks of a target.
pub struct Table {
    pub(super) recogniser: Arc<Recogniser>,
    limits: Limits,
    hasher: DefaultHashBuilder,
    index: HashTable<u32>,
    slots: Vec<Option<Lock>>,
    free: Vec<u32>,
    nodes: Vec<NodeState>,
    seq: u64,
    generation: u32,
    pub(super) held: usize,
    /// Locks to look at, in order.
    queue: VecDeque<LockRef>,
    /// Locks to look at again, not before the time given.
    later: VecDeque<(Time, LockRef)>,
    deadlines: BinaryHeap<Reverse<(Time, LockRef)>>,
    /// Locks that are gone, oldest first, with the count of their leaving.
    gone: VecDeque<(LockRef, u32)>,
    /// Keys under the patterns that are no locks, by hash, and until when not to look again.
    ignored: HashMap<u64, Time>,
    transitions: VecDeque<Transition>,
    transitions_dropped: u64,
    locks_dropped: u64,
    round_robin: usize,
}

/// How long a look that no event explains waits for its event.
const GRACE: Duration = Duration::from_millis(40);
/// How long a key that is no lock is left alone.
const IGNORE: Duration = Duration::from_secs(10);
const IGNORED_KEPT: usize = 65_536;

impl Table {
    pub fn new(recogniser: Arc<Recogniser>, limits: Limits) -> Table {
        Table {
            recogniser,
            limits,
            hasher: DefaultHashBuilder::default(),
            index: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
            nodes: Vec::new(),
            seq: 0,
            generation: 0,
            held: 0,
            queue: VecDeque::new(),
            later: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            gone: VecDeque::new(),
            ignored: HashMap::new(),
            transitions: VecDeque::new(),
            transitions_dropped: 0,
            locks_dropped: 0,
            round_robin: 0,
        }
    }

    pub fn recogniser(&self) -> &Recogniser {
        &self.recogniser
    }

    /// Says by which source the node's changes are learnt. Only notifications name each change.
    pub fn watch_by(&mut self, node: NodeId, source: Source) {
        let state = self.node(node);
        state.eventful = source == Source::Notification;
        state.source = Some(source);
    }

    pub fn apply(&mut self, observation: Observation) {
        match observation {
            Observation::Events { node, batch } => self.take_events(node, &batch),
            Observation::Touched { node, keys, at } => {
                for key in keys {
                    self.touch(node, key.as_bytes(), at);
                }
            }
            Observation::Read { node, key, asked, answered, seen, source } => {
                self.take_look(node, key, asked, answered, seen, source)
            }
            Observation::Swept { node, started, at } => self.sweep(node, started, at),
            Observation::Flushed { node, at: _ } => {
                for place in self.held_on(node) {
                    if let Some(lock) = self.at(place) {
                        lock.flushed = true;
                    }
                    self.enqueue(place);
                }
            }
            Observation::Gap { node, at } => {
                self.node(node).gap.get_or_insert(at);
            }
        }
    }

    fn take_events(&mut self, node: NodeId, batch: &EventBatch) {
        for (key, event) in batch.iter() {
            self.take_event(node, key, event, batch.at);
        }
    }

    fn take_event(&mut self, node: NodeId, key: &[u8], event: KeyEvent, at: Time) {
        self.seq += 1;
        let hash = self.hash(node, key);
        let place = match self.find(hash, node, key) {
            Some(place) => place,
            // An end of something never seen tells nothing.
            None if event.ends() || self.is_ignored(hash, at) || !self.recogniser.may_be_lock(key) => return,
            None => match self.insert(hash, node, Key::from(key), at) {
                Some(place) => place,
                None => return,
            },
        };
        let seq = self.seq;
        if let Some(lock) = self.at(place) {
            lock.event_seq = seq;
            lock.pending.get_or_insert_default().push(event, at);
        }
        self.enqueue(place);
    }

    fn touch(&mut self, node: NodeId, key: &[u8], at: Time) {
        self.seq += 1;
        let hash = self.hash(node, key);
        let place = match self.find(hash, node, key) {
            Some(place) => Some(place),
            None if self.is_ignored(hash, at) || !self.recogniser.may_be_lock(key) => None,
            None => self.insert(hash, node, Key::from(key), at),
        };
        let seq = self.seq;
        let Some(place) = place else { return };
        if let Some(lock) = self.at(place) {
            lock.event_seq = seq;
        }
        self.enqueue(place);
    }

    /// Where the lock of that name is kept, made if it is not there and may be.
    pub(super) fn place_of(&mut self, node: NodeId, key: &Key, at: Time, make: bool) -> Option<LockRef> {
        let hash = self.hash(node, key.as_bytes());
        match self.find(hash, node, key.as_bytes()) {
            None if make => self.insert(hash, node, key.clone(), at),
            found => found,
        }
    }

    /// A walk of the keyspace is done: whoever it did not meet has to be asked for.
    fn sweep(&mut self, node: NodeId, started: Time, at: Time) {
        let state = self.node(node);
        state.swept = Some(at);
        let healed = state.gap.is_none_or(|gap| gap <= started);
        for place in self.held_on(node) {
            if self.at(place).is_some_and(|lock| lock.asked < started) {
                self.enqueue(place);
            }
        }
        if healed {
            self.node(node).gap = None;
        }
    }

    /// Up to `most` keys of the node that need a look now: changed ones, then those whose time is up.
    pub fn to_read(&mut self, node: NodeId, most: usize, now: Time) -> Vec<Ticket> {
        while let Some(&(at, place)) = self.later.front()
            && at <= now
        {
            self.later.pop_front();
            self.enqueue(place);
        }
        while let Some(&Reverse((at, place))) = self.deadlines.peek()
            && at <= now
        {
            self.deadlines.pop();
            let Some(lock) = self.at(place) else { continue };
            lock.scheduled = false;
            match lock.expires {
                Some(expires) if lock.is_held() && expires <= now => self.enqueue(place),
                _ => self.schedule(place),
            }
        }
        let mut tickets = Vec::new();
        for _ in 0..self.queue.len() {
            if tickets.len() >= most {
                break;
            }
            let Some(place) = self.queue.pop_front() else { break };
            let seq = self.seq;
            let Some(lock) = self.at(place) else { continue };
            if lock.node != node {
                self.queue.push_back(place);
                continue;
            }
            lock.queued = false;
            tickets.push(Ticket { node, key: lock.key.clone(), place, seq });
        }
        tickets
    }

    /// Puts up to `most` held locks of the node in the queue that were not confirmed since `before`: the next ones,
    /// round and round. For sources that don't say when something changes.
    pub fn poll(&mut self, node: NodeId, most: usize, before: Time) -> usize {
        let mut found = 0;
        for _ in 0..self.slots.len() {
            if found >= most {
                break;
            }
            self.round_robin = (self.round_robin + 1) % self.slots.len();
            let Some(lock) = &self.slots[self.round_robin] else { continue };
            if lock.node == node && lock.is_held() && lock.confirmed < before && !lock.queued {
                let place = LockRef { slot: self.round_robin as u32, generation: lock.generation };
                self.enqueue(place);
                found += 1;
            }
        }
        found
    }

    /// When [`Table::to_read`] will next have something that it does not have now.
    pub fn next_due(&self) -> Option<Time> {
        let later = self.later.front().map(|(at, _)| *at);
        let deadline = self.deadlines.peek().map(|Reverse((at, _))| *at);
        [later, deadline].into_iter().flatten().min()
    }

    /// Keys that wait for a look right now.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// What happened since the last call, and how many of it had to be left out.
    pub fn take_transitions(&mut self) -> (Vec<Transition>, u64) {
        (self.transitions.drain(..).collect(), std::mem::take(&mut self.transitions_dropped))
    }

    /// Locks held now.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Locks that were not taken in because the table is full.
    pub fn locks_dropped(&self) -> u64 {
        self.locks_dropped
    }

    /// All locks that are held, in no order.
    pub fn locks(&self) -> impl Iterator<Item = &Lock> {
        self.slots.iter().flatten().filter(|lock| lock.is_held())
    }

    /// All locks that are held, with where they are kept, in no order.
    pub fn places(&self) -> impl Iterator<Item = (LockRef, &Lock)> {
        self.slots.iter().enumerate().filter_map(|(slot, lock)| {
            let lock = lock.as_ref().filter(|lock| lock.is_held())?;
            Some((LockRef { slot: slot as u32, generation: lock.generation }, lock))
        })
    }

    /// The lock at that place, if it is still known.
    pub fn lock_at(&self, place: LockRef) -> Option<&Lock> {
        self.lock_in(place.slot).filter(|lock| lock.generation == place.generation)
    }

    /// Where the lock of that name is kept, held or remembered.
    pub fn place_named(&self, node: NodeId, key: &[u8]) -> Option<LockRef> {
        self.find(self.hash(node, key), node, key)
    }

    /// The lock of that name, held or remembered.
    pub fn lock_named(&self, node: NodeId, key: &[u8]) -> Option<&Lock> {
        let place = self.find(self.hash(node, key), node, key)?;
        self.lock_in(place.slot).filter(|lock| lock.phase != Phase::Unread)
    }

    /// The holders, decoded from the stored value.
    pub fn holders(&self, lock: &Lock, now: Time) -> Vec<Holder> {
        let Some(reading) = lock.reading else { return Vec::new() };
        let ttl = lock.ttl(now);
        self.recogniser
            .claim_as(reading.dialect, lock.key.as_bytes(), &lock.value, ttl, now)
            .map(|claim| claim.holders)
            .unwrap_or_default()
    }

    /// Not confirmed since events went missing on its node.
    pub fn is_stale(&self, lock: &Lock) -> bool {
        self.nodes.get(lock.node.0 as usize).and_then(|node| node.gap).is_some_and(|gap| lock.confirmed < gap)
    }

    /// By which source the node's changes are learnt.
    pub fn source(&self, node: NodeId) -> Option<Source> {
        self.nodes.get(node.0 as usize)?.source
    }

    /// Whether each node was walked to the end and nothing was left out.
    pub fn is_complete(&self) -> bool {
        self.locks_dropped == 0 && self.nodes.iter().all(|node| node.swept.is_some() && node.gap.is_none())
    }

    pub(super) fn is_eventful(&self, node: NodeId) -> bool {
        self.nodes.get(node.0 as usize).is_some_and(|node| node.eventful && node.gap.is_none())
    }

    /// The node's keyspace was walked, and nothing went missing since.
    pub(super) fn is_swept(&self, node: NodeId) -> bool {
        self.nodes.get(node.0 as usize).is_some_and(|node| node.swept.is_some() && node.gap.is_none())
    }

    /// Whether a change of the lock would be told as it happens.
    pub(super) fn told_of(&self, lock: &Lock) -> bool {
        let told = |node: &NodeState| matches!(node.source, Some(Source::Notification | Source::Tracking));
        self.nodes.get(lock.node.0 as usize).is_some_and(|node| told(node) && node.gap.is_none())
    }

    /// Until when a lock is known to be as it is shown: now, where changes would be told.
    pub(super) fn known_until(&self, lock: &Lock, now: Time) -> Time {
        if self.told_of(lock) { now } else { lock.confirmed }
    }

    fn node(&mut self, node: NodeId) -> &mut NodeState {
        let index = node.0 as usize;
        if self.nodes.len() <= index {
            self.nodes.resize_with(index + 1, NodeState::default);
        }
        &mut self.nodes[index]
    }

    fn held_on(&self, node: NodeId) -> Vec<LockRef> {
        let held = |(slot, lock): (usize, &Option<Lock>)| {
            let lock = lock.as_ref().filter(|lock| lock.node == node && lock.is_held())?;
            Some(LockRef { slot: slot as u32, generation: lock.generation })
        };
        self.slots.iter().enumerate().filter_map(held).collect()
    }

    fn hash(&self, node: NodeId, key: &[u8]) -> u64 {
        self.hasher.hash_one((node, key))
    }

    fn find(&self, hash: u64, node: NodeId, key: &[u8]) -> Option<LockRef> {
        let same = |slot: &u32| self.lock_in(*slot).is_some_and(|lock| lock.node == node && lock.key.as_bytes() == key);
        let slot = *self.index.find(hash, same)?;
        Some(LockRef { slot, generation: self.lock_in(slot)?.generation })
    }

    fn insert(&mut self, hash: u64, node: NodeId, key: Key, at: Time) -> Option<LockRef> {
        if self.index.len() >= self.limits.locks {
            self.forget_oldest();
        }
        if self.index.len() >= self.limits.locks {
            self.locks_dropped += 1;
            return None;
        }
        self.node(node);
        self.generation = self.generation.wrapping_add(1);
        let lock = Lock::new(node, key, at, self.generation);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(lock);
        let (hasher, slots) = (&self.hasher, &self.slots);
        self.index.insert_unique(hash, slot, |slot| {
            slots[*slot as usize].as_ref().map_or(0, |lock| hasher.hash_one((lock.node, lock.key.as_bytes())))
        });
        Some(LockRef { slot, generation: self.generation })
    }

    fn remove(&mut self, place: LockRef) {
        let Some(lock) = self.at(place) else { return };
        let (node, key) = (lock.node, lock.key.clone());
        let hash = self.hash(node, key.as_bytes());
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == place.slot) {
            entry.remove();
        }
        self.slots[place.slot as usize] = None;
        self.free.push(place.slot);
    }

    /// The key is there but is no lock: leave it alone for a while.
    pub(super) fn ignore(&mut self, place: LockRef, at: Time) {
        let Some(lock) = self.at(place) else { return };
        let (node, key) = (lock.node, lock.key.clone());
        let hash = self.hash(node, key.as_bytes());
        if self.ignored.len() >= IGNORED_KEPT {
            self.ignored.clear();
        }
        self.ignored.insert(hash, at + IGNORE);
        self.remove(place);
    }

    fn is_ignored(&mut self, hash: u64, now: Time) -> bool {
        match self.ignored.get(&hash) {
            Some(until) if *until > now => true,
            Some(_) => {
                self.ignored.remove(&hash);
                false
            }
            None => false,
        }
    }

    /// The key is gone: remember the lock for a while.
    pub(super) fn leave(&mut self, place: LockRef) {
        let Some(lock) = self.at(place) else { return };
        if lock.phase == Phase::Unread && lock.past.is_none() {
            return self.remove(place);
        }
        lock.phase = Phase::Gone;
        lock.expires = None;
        lock.beats = None;
        lock.left = lock.left.wrapping_add(1);
        let left = lock.left;
        self.gone.push_back((place, left));
        while self.gone.len() > self.limits.gone {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((place, left)) = self.gone.pop_front() else { return };
        if self.at(place).is_some_and(|lock| lock.phase == Phase::Gone && lock.left == left && lock.pending.is_none()) {
            self.remove(place);
        }
    }

    pub(super) fn enqueue(&mut self, place: LockRef) {
        if let Some(lock) = self.at(place)
            && !lock.queued
        {
            lock.queued = true;
            self.queue.push_back(place);
        }
    }

    /// Looks again in a moment.
    pub(super) fn put_off(&mut self, place: LockRef, now: Time) {
        self.later.push_back((now + GRACE, place));
    }

    /// Watches the lock's deadline: `expired` may come minutes late.
    pub(super) fn schedule(&mut self, place: LockRef) {
        let Some(lock) = self.at(place) else { return };
        if let Some(expires) = lock.expires
            && !lock.scheduled
            && lock.is_held()
        {
            lock.scheduled = true;
            self.deadlines.push(Reverse((expires + Duration::from_millis(2), place)));
        }
    }

    pub(super) fn report(&mut self, transition: Transition) {
        if self.transitions.len() >= self.limits.transitions {
            self.transitions.pop_front();
            self.transitions_dropped += 1;
        }
        self.transitions.push_back(transition);
    }

    /// The lock at that place, if the slot still has it.
    pub(super) fn at(&mut self, place: LockRef) -> Option<&mut Lock> {
        self.slots.get_mut(place.slot as usize)?.as_mut().filter(|lock| lock.generation == place.generation)
    }

    fn lock_in(&self, slot: u32) -> Option<&Lock> {
        self.slots.get(slot as usize)?.as_ref()
    }
}
