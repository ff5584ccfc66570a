//! The table of all locks: takes observations, yields transitions and views, and says which keys to read next.
//!
//! It never speaks to Redis itself. Sources call [`Table::apply`]; the engine takes [`Ticket`](agenda::Ticket)s from
//! [`Table::to_read`], reads those keys, and returns the answers with [`Table::answer`]. Events that are late, repeated
//! or out of order cannot corrupt it: a read sent after the last of them settles the lock. Everything here is bounded
//! by [`Limits`].

pub(in crate::model) mod absent;
pub(in crate::model) mod agenda;
pub(in crate::model) mod markers;
pub(in crate::model) mod narrate;
pub(in crate::model) mod node;
pub(in crate::model) mod ours;
pub(in crate::model) mod resolve;
pub(in crate::model) mod settle;
pub(in crate::model) mod slots;
pub(in crate::model) mod tape;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use crate::base::time::Time;
use crate::dialects::{LeftOut, Recogniser, own};
use crate::lock::{Holder, Key, KeyspaceId, NodeId, RawValue, Token};
use crate::model::held_by::HeldBy;
use crate::model::history::holds::Groups;
use crate::model::lock::Phase;
use crate::model::table::absent::{Departed, Ignored};
use crate::model::table::agenda::Agenda;
use crate::model::table::markers::Markers;
use crate::model::table::node::NodeState;
use crate::model::table::slots::{LockRef, Slots};
use crate::model::table::tape::Tape;
use crate::model::wants::client::Clients;
use crate::model::wants::demand::InDemand;
use crate::model::wants::presence::Roster;
use crate::model::{Asked, Holds, KeyEvent, Lock, Observation, Seen, Source, Transition, Tuning};

/// How much the table may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Locks in total, including those that are gone.
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

/// All locks of a target.
pub struct Table {
    pub(super) recogniser: Arc<Recogniser>,
    limits: Limits,
    slots: Slots,
    /// By node id; `None`: the node left, or was never seen.
    nodes: Vec<Option<NodeState>>,
    seq: u64,
    pub(super) held: usize,
    agenda: Agenda,
    /// Locks that are gone, oldest first, each with its `left` count at that time.
    gone: VecDeque<(LockRef, u32)>,
    ignored: Ignored,
    departed: Departed,
    pub(super) clients: Clients,
    /// The clients of each node, as they were last listed.
    pub(super) rosters: HashMap<NodeId, Roster>,
    pub(super) in_demand: InDemand,
    pub(super) groups: Groups,
    pub(super) tuning: Tuning,
    markers: Markers,
    /// Our test locks with a token that the user chose, so that the token does not identify them.
    tests: VecDeque<(Key, Token)>,
    transitions: VecDeque<Transition>,
    transitions_dropped: u64,
    locks_dropped: u64,
    /// What the last walk read and left out, and the one under way.
    left_out: LeftOut,
    leaving_out: LeftOut,
    /// `None`: nobody records.
    tape: Option<Tape>,
}

/// At most this many expected test locks are kept.
const TESTS: usize = 64;

impl Table {
    pub fn new(recogniser: Arc<Recogniser>, limits: Limits) -> Table {
        Table {
            recogniser,
            limits,
            slots: Slots::default(),
            nodes: Vec::new(),
            seq: 0,
            held: 0,
            agenda: Agenda::default(),
            gone: VecDeque::new(),
            ignored: Ignored::default(),
            departed: Departed::default(),
            clients: Clients::default(),
            rosters: HashMap::new(),
            in_demand: InDemand::default(),
            groups: Groups::default(),
            tuning: Tuning::default(),
            markers: Markers::default(),
            tests: VecDeque::new(),
            transitions: VecDeque::new(),
            transitions_dropped: 0,
            locks_dropped: 0,
            left_out: LeftOut::default(),
            leaving_out: LeftOut::default(),
            tape: None,
        }
    }

    pub fn recogniser(&self) -> &Recogniser {
        &self.recogniser
    }

    fn expect_test(&mut self, key: Key, token: Token) {
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

    /// Judges by these thresholds from now on.
    pub fn tune(&mut self, tuning: Tuning) {
        self.tuning = tuning;
    }

    pub fn apply(&mut self, observation: Observation) {
        if let Some(tape) = &mut self.tape {
            tape.push(observation.clone());
        }
        match observation {
            Observation::Events { node, batch } => {
                let space = self.space(node);
                for (key, event) in batch.iter() {
                    self.take_event((space, node), key, event, batch.at);
                }
            }
            Observation::Touched { node, keys, at } => {
                for key in keys {
                    self.touch(node, key.as_bytes(), at);
                }
            }
            Observation::Read { node, key, asked, answered, seen, source } => {
                self.take_look(node, key, asked, answered, seen, source)
            }
            Observation::Answer { node, key, behind, asked, answered, seen } => {
                self.take_answer(node, &key, behind, asked, answered, seen);
            }
            Observation::Acting { node, key, at } => self.announce_write(node, key, at),
            Observation::Acted { node, key, write, sent, answered } => {
                self.report_write(node, &key, write, sent, answered);
            }
            Observation::Joined { node, space } => self.node(node).space = space,
            Observation::Left { node } => self.forget_node(node),
            Observation::Watched { node, source } => self.node(node).source = Some(source),
            Observation::Hazards { node, hazards } => self.node(node).hazards = hazards,
            Observation::Testing { key, token } => self.expect_test(key, token),
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
            Observation::Connections { node, at, asked, present } => {
                if asked == Asked::All {
                    self.rosters.insert(node, Roster::new(present.clone()));
                }
                self.clients.listed(node, &asked, present, at);
            }
            Observation::Gap { node, at } => {
                self.node(node).gap = Some(at);
                self.forget_contenders(node);
            }
        }
    }

    fn take_event(&mut self, (space, node): (KeyspaceId, NodeId), key: &[u8], event: KeyEvent, at: Time) {
        self.seq += 1;
        let hash = self.slots.hash(space, key);
        let foreign = match event {
            KeyEvent::Foreign => true,
            KeyEvent::Joined | KeyEvent::Left => !self.recogniser.may_be_set(key),
            _ => false,
        };
        let place = match self.slots.find(hash, space, key) {
            // The event's own name says what it is, before anybody has looked.
            Some(place) if foreign && self.at(place).is_some_and(|lock| lock.is_unheard_of()) => {
                return self.ignore(place, at);
            }
            None if foreign => return,
            Some(place) => place,
            // Deleting an unknown key only invalidates earlier reads.
            None if event.ends() => {
                self.ignored.forget(hash);
                return self.departed.note(hash, at);
            }
            None if event != KeyEvent::New && self.ignored.has(hash, node, key, at) => return,
            None if !self.recogniser.may_be_lock(key) => return self.take_lease_event(space, key, event, at),
            None => match self.insert(hash, (space, node), Key::from(key), at) {
                Some(place) => place,
                None => return,
            },
        };
        let seq = self.seq;
        if let Some(lock) = self.at(place) {
            (lock.event_seq, lock.node) = (seq, node);
            let event = lock.ours.as_mut().map_or(event, |ours| ours.claim(event, at));
            // It may explain the read that was put off; the next unexplained read then waits for its own event.
            lock.surprised = None;
            lock.pending.get_or_insert_default().push(event, at, seq);
        }
        self.enqueue(place);
    }

    /// The own lease of one of several holders was given or renewed, in a key beside the lock.
    fn take_lease_event(&mut self, space: KeyspaceId, key: &[u8], event: KeyEvent, at: Time) {
        let lease = if event == KeyEvent::Expire { self.recogniser.lease_of(key) } else { None };
        let Some((name, token)) = lease else { return };
        let holder = self.clients.holder_id(&token);
        if let Some(lock) = self.place_named(space, &name).and_then(|place| self.at(place)) {
            lock.beat(holder, at);
        }
    }

    fn touch(&mut self, node: NodeId, key: &[u8], at: Time) {
        self.seq += 1;
        let seq = self.seq;
        let Some(place) = self.find_or_insert(node, key, at) else { return };
        if let Some(lock) = self.at(place) {
            (lock.event_seq, lock.node) = (seq, node);
        }
        self.enqueue(place);
    }

    /// Where the lock of that name is kept, made if it may be one.
    fn find_or_insert(&mut self, node: NodeId, key: &[u8], at: Time) -> Option<LockRef> {
        let space = self.space(node);
        let hash = self.slots.hash(space, key);
        match self.slots.find(hash, space, key) {
            Some(place) => Some(place),
            None if self.ignored.has(hash, node, key, at) || !self.recogniser.may_be_lock(key) => None,
            None => self.insert(hash, (space, node), Key::from(key), at),
        }
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

    /// A scan of the keyspace is done: reads the locks that it did not meet.
    fn sweep(&mut self, node: NodeId, started: Time) {
        self.node(node).swept = Some(started);
        self.left_out = std::mem::take(&mut self.leaving_out);
        for place in self.held_on(node) {
            if self.at(place).is_some_and(|lock| lock.asked < started) {
                self.enqueue(place);
            }
        }
    }

    /// The transitions since the last call, and how many were dropped.
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

    /// What the last walk read under the patterns that is no lock.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// A key that reads as no lock, and was never one.
    pub(super) fn leave_out(&mut self, place: LockRef, value: &RawValue, source: Source) {
        if let Some(lock) = self.slots.get(place).filter(|lock| lock.phase == Phase::Unread && source == Source::Scan) {
            self.leaving_out.add(lock.key.as_bytes(), value, 1);
        }
    }

    /// All locks that are held, in no order.
    pub fn locks(&self) -> impl Iterator<Item = &Lock> {
        self.slots.held().map(|(_, lock)| lock)
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
        let Some(reading) = lock.reading.filter(|reading| !reading.counts) else { return Vec::new() };
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

    /// The key exists but is not a lock: ignore it for a while.
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
            contention.waits = None;
        }
        (lock.expires, lock.own_ends) = (None, None);
        lock.beats = None;
        lock.held_by = HeldBy::Nobody;
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
