//! The table of all locks: takes observations, yields transitions and views, and says which keys to look at next.
//!
//! It never asks Redis anything itself. Sources call [`Table::apply`]; the engine takes [`Ticket`]s from
//! [`Table::to_read`], looks at those keys, and gives the answers back with [`Table::answer`]. Events that are late,
//! repeated or out of order cannot corrupt it: whatever they made of a lock, a look asked for after the last of them
//! settles it. Everything here is bounded by [`Limits`].

pub(in crate::model) mod absent;
pub(in crate::model) mod narrate;
pub(in crate::model) mod node;
pub(in crate::model) mod ours;
pub(in crate::model) mod resolve;
pub(in crate::model) mod settle;
pub(in crate::model) mod slots;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::base::time::Time;
use crate::dialects::{Recogniser, own};
use crate::lock::{Holder, Key, KeyspaceId, Kind, NodeId, Token};
use crate::model::history::holds::Groups;
use crate::model::lock::Phase;
use crate::model::table::absent::{Departed, Ignored};
use crate::model::table::node::NodeState;
use crate::model::table::slots::{LockRef, Slots};
use crate::model::wants::client::Clients;
use crate::model::wants::strain::Strained;
use crate::model::{EventBatch, Hazards, Holds, KeyEvent, Lock, Observation, Seen, Source, Transition, Tries, Tuning};

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

/// All locks of a target.
pub struct Table {
    pub(super) recogniser: Arc<Recogniser>,
    limits: Limits,
    slots: Slots,
    /// By their ids; `None`: it left, or was never met.
    nodes: Vec<Option<NodeState>>,
    seq: u64,
    pub(super) held: usize,
    /// Locks to look at, in order.
    queue: VecDeque<LockRef>,
    /// Locks to look at again, not before the time given.
    later: VecDeque<(Time, LockRef)>,
    deadlines: BinaryHeap<Reverse<(Time, LockRef)>>,
    /// Locks that are gone, oldest first, with the count of their leaving.
    gone: VecDeque<(LockRef, u32)>,
    ignored: Ignored,
    departed: Departed,
    pub(super) clients: Clients,
    pub(super) strained: Strained,
    pub(super) groups: Groups,
    pub(super) tuning: Tuning,
    /// What stands before the ids of markers: `completed:`.
    marker_prefixes: Vec<Box<[u8]>>,
    /// Test locks that we take with a token of somebody's choice, which does not show whose they are.
    tests: VecDeque<(Key, Token)>,
    transitions: VecDeque<Transition>,
    transitions_dropped: u64,
    locks_dropped: u64,
}

/// As many prefixes of markers as are kept.
const MARKERS: usize = 16;

/// As many expected test locks as are kept.
const TESTS: usize = 64;

/// How long a look that no event explains waits for its event.
pub(super) const GRACE: Duration = Duration::from_millis(40);

impl Table {
    pub fn new(recogniser: Arc<Recogniser>, limits: Limits) -> Table {
        Table {
            recogniser,
            limits,
            slots: Slots::default(),
            nodes: Vec::new(),
            seq: 0,
            held: 0,
            queue: VecDeque::new(),
            later: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            gone: VecDeque::new(),
            ignored: Ignored::default(),
            departed: Departed::default(),
            clients: Clients::default(),
            strained: Strained::default(),
            groups: Groups::default(),
            tuning: Tuning::default(),
            marker_prefixes: Vec::new(),
            tests: VecDeque::new(),
            transitions: VecDeque::new(),
            transitions_dropped: 0,
            locks_dropped: 0,
        }
    }

    pub fn recogniser(&self) -> &Recogniser {
        &self.recogniser
    }

    /// Says that whoever holds the key by this token will be a test of ours, though the token does not show it.
    pub fn expect_test(&mut self, key: Key, token: Token) {
        self.tests.push_back((key, token));
        let over = self.tests.len().saturating_sub(TESTS);
        self.tests.drain(..over);
    }

    /// Whether everybody who holds the key is a test lock of lockscope.
    pub(super) fn is_test(&self, key: &Key, holders: &[Holder]) -> bool {
        let expected = |token: &Token| self.tests.iter().any(|(of, by)| of == key && by == token);
        let ours = |token: &Token| own::test_holder(token.as_bytes()).is_some() || expected(token);
        !holders.is_empty() && holders.iter().all(|holder| ours(&holder.token))
    }

    /// Says by which source the node's changes are learnt. Only notifications name each change.
    pub fn watch_by(&mut self, node: NodeId, source: Source) {
        let state = self.node(node);
        state.eventful = source == Source::Notification;
        state.source = Some(source);
    }

    /// Judges by these thresholds from now on.
    pub fn tune(&mut self, tuning: Tuning) {
        self.tuning = tuning;
    }

    /// Says which keyspace a node serves.
    pub fn join(&mut self, node: NodeId, space: KeyspaceId) {
        self.node(node).space = space;
    }

    /// Says what of a node's settings can cost a lock.
    pub fn hazards(&mut self, node: NodeId, hazards: Hazards) {
        self.node(node).hazards = hazards;
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
            Observation::Acting { node, key, at } => self.announce_write(node, key, at),
            Observation::Acted { node, key, write, sent, answered } => {
                self.report_write(node, &key, write, sent, answered);
            }
            Observation::Swept { node, started } => self.sweep(node, started),
            Observation::Flushed { node, at } => {
                self.node(node).gap = Some(at);
                for place in self.held_on(node) {
                    if let Some(lock) = self.at(place) {
                        lock.flushed = true;
                    }
                    self.enqueue(place);
                }
            }
            Observation::Counted { node, key, waits } => self.take_count(node, &key, waits),
            Observation::Idle { node, key, since } => self.take_idle(node, &key, since),
            Observation::Tried { node, key, tries } => self.take_tries(node, &key, tries),
            Observation::Sampled { node, key, sample } => self.take_sample(node, &key, *sample),
            Observation::Quiet { node, tries } => self.node(node).quiet = tries,
            Observation::Fenced { node, key, token } => self.take_fence(node, &key, token),
            Observation::Connections { node, at, asked, present } => self.clients.listed(node, &asked, present, at),
            Observation::Gap { node, at } => {
                self.node(node).gap = Some(at);
                self.forget_contenders(node);
            }
        }
    }

    fn take_events(&mut self, node: NodeId, batch: &EventBatch) {
        let space = self.space(node);
        for (key, event) in batch.iter() {
            self.take_event((space, node), key, event, batch.at);
        }
    }

    fn take_event(&mut self, (space, node): (KeyspaceId, NodeId), key: &[u8], event: KeyEvent, at: Time) {
        self.seq += 1;
        let hash = self.slots.hash(space, key);
        let place = match self.slots.find(hash, space, key) {
            Some(place) => place,
            // Deleting an unknown key only invalidates earlier reads.
            None if event.ends() => {
                self.ignored.forget(hash);
                return self.departed.note(hash, at);
            }
            None if event != KeyEvent::New && self.ignored.has(hash, node, key) => return,
            None if !self.recogniser.may_be_lock(key) => return,
            None => match self.insert(hash, (space, node), Key::from(key), at) {
                Some(place) => place,
                None => return,
            },
        };
        let seq = self.seq;
        if let Some(lock) = self.at(place) {
            (lock.event_seq, lock.node) = (seq, node);
            let event = lock.ours.as_mut().map_or(event, |ours| ours.claim(event, at));
            // It may be the one that an odd look waits for, and the next look be odd for another reason.
            lock.surprised = None;
            lock.pending.get_or_insert_default().push(event, at, seq);
        }
        self.enqueue(place);
    }

    fn touch(&mut self, node: NodeId, key: &[u8], at: Time) {
        self.seq += 1;
        let space = self.space(node);
        let hash = self.slots.hash(space, key);
        let place = match self.slots.find(hash, space, key) {
            Some(place) => Some(place),
            None if self.ignored.has(hash, node, key) || !self.recogniser.may_be_lock(key) => None,
            None => self.insert(hash, (space, node), Key::from(key), at),
        };
        let seq = self.seq;
        let Some(place) = place else { return };
        if let Some(lock) = self.at(place) {
            (lock.event_seq, lock.node) = (seq, node);
        }
        self.enqueue(place);
    }

    /// Where the lock is kept that was looked at, made if it is not there and may be. `None` where there is nothing to
    /// keep, or the key is gone or another one since, so that a new look is needed first.
    pub(super) fn place_of(&mut self, node: NodeId, key: &Key, asked: Time, seen: &Seen) -> Option<LockRef> {
        let space = self.space(node);
        let hash = self.slots.hash(space, key.as_bytes());
        let found = self.slots.find(hash, space, key.as_bytes());
        if found.is_some() || *seen == Seen::Absent {
            return found;
        }
        let place = self.insert(hash, (space, node), key.clone(), asked)?;
        if self.departed.since(hash, asked) {
            self.enqueue(place);
            return None;
        }
        Some(place)
    }

    /// A walk of the keyspace is done: whoever it did not meet has to be asked for.
    fn sweep(&mut self, node: NodeId, started: Time) {
        self.node(node).swept = Some(started);
        for place in self.held_on(node) {
            if self.at(place).is_some_and(|lock| lock.asked < started) {
                self.enqueue(place);
            }
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
            let Some(lock) = self.at(place).filter(|lock| lock.scheduled == Some(at)) else { continue };
            lock.scheduled = None;
            match lock.expires {
                Some(expires) if lock.is_held() && expires <= now => self.enqueue(place),
                _ => self.schedule(place),
            }
        }
        while let Some((node, key)) = self.ignored.next_changed(now) {
            // Its node may have left meanwhile.
            if self.known(node).is_some() {
                self.touch(node, key.as_bytes(), now);
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
        let due = |lock: &Lock| lock.node == node && lock.is_held() && lock.confirmed < before && !lock.queued;
        let places = self.slots.next_round(most, due);
        for place in &places {
            self.enqueue(*place);
        }
        places.len()
    }

    /// When [`Table::to_read`] will next have something that it does not have now.
    pub fn next_due(&self) -> Option<Time> {
        let later = self.later.front().map(|(at, _)| *at);
        let deadline = self.deadlines.peek().map(|Reverse((at, _))| *at);
        [later, deadline, self.ignored.next_due()].into_iter().flatten().min()
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
        self.slots.held().map(|(_, lock)| lock)
    }

    /// All locks that are held, with where they are kept, in no order.
    pub fn places(&self) -> impl Iterator<Item = (LockRef, &Lock)> {
        self.slots.held()
    }

    /// How many slots there are for locks. There are never fewer later on.
    pub fn slots(&self) -> usize {
        self.slots.room()
    }

    /// The locks in these slots that are held, for whoever goes through all of them bit by bit.
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
        let Some(reading) = lock.reading else { return Vec::new() };
        let ttl = lock.ttl(now);
        self.recogniser
            .claim_as(reading.dialect, lock.key.as_bytes(), &lock.value, ttl, now)
            .map(|claim| claim.holders)
            .unwrap_or_default()
    }

    /// What is usual for locks of its name pattern.
    pub fn holds(&self, lock: &Lock) -> &Holds {
        self.groups.get(lock.group)
    }

    /// The key that marks the work of this lock as done, where it is there: `completed:17` for `lock:17`.
    pub(super) fn marker_of(&self, lock: &Lock) -> Option<&Lock> {
        let a_lock = lock.reading.is_some_and(|reading| reading.kind == Kind::Lock);
        let id = id_of(&lock.key).filter(|_| a_lock && !self.marker_prefixes.is_empty())?;
        let mut key = Vec::new();
        self.marker_prefixes.iter().find_map(|prefix| {
            key.clear();
            key.extend_from_slice(prefix);
            key.extend_from_slice(id);
            let marks = |lock: &&Lock| lock.reading.is_some_and(|reading| reading.kind == Kind::Marker);
            self.lock_named(lock.space, &key).filter(|lock| lock.is_held()).filter(marks)
        })
    }

    /// What depends on its name and never changes.
    pub(super) fn first_read(&mut self, place: LockRef) {
        let Some(lock) = self.slots.get_mut(place) else { return };
        lock.group = self.groups.of(lock.key.as_bytes());
        if lock.reading.is_some_and(|reading| reading.kind == Kind::Marker)
            && let Some(id) = id_of(&lock.key)
        {
            let prefix = &lock.key.as_bytes()[..lock.key.as_bytes().len() - id.len()];
            if self.marker_prefixes.len() < MARKERS && !self.marker_prefixes.iter().any(|known| **known == *prefix) {
                self.marker_prefixes.push(prefix.into());
            }
        }
    }

    pub(super) fn hazards_of(&self, lock: &Lock) -> Option<&Hazards> {
        self.known(lock.node).map(|node| &node.hazards)
    }

    /// Not confirmed since events went missing on its node.
    pub fn is_stale(&self, lock: &Lock) -> bool {
        self.missed(lock)
    }

    /// By which source the node's changes are learnt.
    pub fn source(&self, node: NodeId) -> Option<Source> {
        self.known(node)?.source
    }

    /// Whether each node was walked to the end and nothing was left out.
    pub fn is_complete(&self) -> bool {
        self.locks_dropped == 0 && self.nodes.iter().flatten().all(NodeState::is_whole)
    }

    /// Events went missing on its node since it was last looked at.
    pub(super) fn missed(&self, lock: &Lock) -> bool {
        self.known(lock.node).is_some_and(|node| node.missed(lock.asked))
    }

    /// Each change of the lock since it was last looked at, or first heard of, came with an event.
    pub(super) fn is_eventful(&self, lock: &Lock) -> bool {
        let heard = lock.pending.as_ref().and_then(|pending| pending.events.first()).map(|(_, at)| *at);
        let followed = heard.map_or(lock.asked, |at| at.max(lock.asked));
        self.known(lock.node).is_some_and(|node| node.eventful && !node.missed(followed))
    }

    /// The node's keyspace was walked, and nothing went missing since.
    pub(super) fn is_swept(&self, node: NodeId) -> bool {
        self.known(node).is_some_and(NodeState::is_whole)
    }

    /// Whether a change of the lock would be told as it happens.
    pub(super) fn told_of(&self, lock: &Lock) -> bool {
        let told = |node: &NodeState| matches!(node.source, Some(Source::Notification | Source::Tracking));
        self.known(lock.node).is_some_and(|node| told(node) && !node.missed(lock.asked))
    }

    /// Until when a lock is known to be as it is shown: now, where changes would be told.
    pub(super) fn known_until(&self, lock: &Lock, now: Time) -> Time {
        if self.told_of(lock) { now } else { lock.confirmed }
    }

    /// Until when a renewal of the lock would have been told: until the connection was lost, where it is.
    pub(super) fn heard_until(&self, lock: &Lock, now: Time) -> Time {
        let gap = self.known(lock.node).and_then(|node| node.gap);
        let known = self.known_until(lock, now);
        gap.map_or(known, |gap| gap.max(known)).min(now)
    }

    pub(super) fn quiet(&self, node: NodeId) -> Option<Tries> {
        self.known(node)?.quiet
    }

    fn node(&mut self, node: NodeId) -> &mut NodeState {
        let index = node.0 as usize;
        if self.nodes.len() <= index {
            self.nodes.resize_with(index + 1, || None);
        }
        // A server on its own is a keyspace of one node.
        self.nodes[index].get_or_insert_with(|| NodeState::new(KeyspaceId(node.0)))
    }

    /// The keyspace that the node serves.
    pub(super) fn space(&self, node: NodeId) -> KeyspaceId {
        self.known(node).map_or(KeyspaceId(node.0), |known| known.space)
    }

    fn known(&self, node: NodeId) -> Option<&NodeState> {
        self.nodes.get(node.0 as usize)?.as_ref()
    }

    /// The node left: what it held is not known any more.
    pub fn forget_node(&mut self, node: NodeId) {
        for place in self.slots.places(|lock| lock.node == node) {
            if let Some((_, lock)) = self.slots.remove(place) {
                self.held -= usize::from(lock.is_held());
            }
        }
        self.clients.keep(node, &HashSet::new(), Time(i64::MAX));
        if let Some(state) = self.nodes.get_mut(node.0 as usize) {
            *state = None;
        }
    }

    fn held_on(&self, node: NodeId) -> Vec<LockRef> {
        self.slots.held().filter(|(_, lock)| lock.node == node).map(|(place, _)| place).collect()
    }

    fn insert(&mut self, hash: u64, (space, node): (KeyspaceId, NodeId), key: Key, at: Time) -> Option<LockRef> {
        if self.slots.len() >= self.limits.locks {
            self.forget_oldest();
        }
        if self.slots.len() >= self.limits.locks {
            self.locks_dropped += 1;
            return None;
        }
        self.node(node);
        Some(self.slots.insert(hash, (space, node), key, at))
    }

    fn remove(&mut self, place: LockRef) {
        if let Some((hash, lock)) = self.slots.remove(place) {
            self.departed.note(hash, lock.asked);
        }
    }

    /// The key is there but is no lock: leave it alone for a while.
    pub(super) fn ignore(&mut self, place: LockRef, at: Time) {
        if let Some((hash, lock)) = self.slots.remove(place) {
            self.departed.note(hash, lock.asked);
            self.ignored.add(hash, at);
        }
    }

    /// The key is gone: remember the lock for a while.
    pub(super) fn leave(&mut self, place: LockRef) {
        let Some(lock) = self.at(place) else { return };
        if lock.phase == Phase::Unread && lock.past.is_none() {
            return self.remove(place);
        }
        lock.phase = Phase::Gone;
        if let Some(contention) = &mut lock.contention {
            (contention.waits, contention.client) = (None, None);
        }
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
        let Some(lock) = self.at(place).filter(|lock| lock.is_held()) else { return };
        let Some(due) = lock.expires.map(|expires| expires + Duration::from_millis(2)) else { return };
        // A deadline that moved ahead is found when the entry comes up; one that moved closer needs its own.
        if lock.scheduled.is_none_or(|scheduled| due < scheduled) {
            lock.scheduled = Some(due);
            self.deadlines.push(Reverse((due, place)));
            if self.deadlines.len() > 2 * self.slots.len() + 64 {
                self.drop_old_deadlines();
            }
        }
    }

    /// Leases that keep getting shorter leave entries behind that mean nothing any more.
    fn drop_old_deadlines(&mut self) {
        let mut deadlines = std::mem::take(&mut self.deadlines);
        deadlines.retain(|Reverse((at, place))| self.at(*place).is_some_and(|lock| lock.scheduled == Some(*at)));
        self.deadlines = deadlines;
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
        self.slots.get_mut(place)
    }
}

/// What stands behind the first colon.
pub(super) fn id_of(key: &Key) -> Option<&[u8]> {
    let bytes = key.as_bytes();
    let colon = bytes.iter().position(|byte| *byte == b':')?;
    Some(&bytes[colon + 1..]).filter(|id| !id.is_empty())
}
