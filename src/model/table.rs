//! The table of all locks: takes observations, yields transitions and views, and says which keys to read next.
//!
//! It never speaks to Redis itself. Sources call [`Table::apply`]; the engine takes [`Ticket`](agenda::Ticket)s from
//! [`Table::to_read`], reads those keys, and returns the answers with [`Table::answer`]. Events that are late, repeated
//! or out of order cannot corrupt it: a read sent after the last of them settles the lock. Everything here is bounded
//! by [`Limits`].

pub(in crate::model) mod absent;
pub(in crate::model) mod agenda;
pub(in crate::model) mod comparison;
pub(in crate::model) mod deposed;
pub(in crate::model) mod lease;
pub(in crate::model) mod lookup;
pub(in crate::model) mod losses;
pub(in crate::model) mod markers;
pub(in crate::model) mod narrate;
pub(in crate::model) mod node;
pub(in crate::model) mod ours;
pub(in crate::model) mod owners;
pub(in crate::model) mod patrol;
pub(in crate::model) mod resolve;
pub(in crate::model) mod settle;
pub(in crate::model) mod slots;
pub(in crate::model) mod tape;
pub(in crate::model) mod test_locks;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

// Its hashes are quick: every verdict asks it.
use hashbrown::HashMap as QuickMap;

use crate::base::time::{MaybeTime, Time};
use crate::dialects::{LeftOut, Recogniser};
use crate::lock::{Key, KeyspaceId, NodeId, RawValue};
use crate::model::figures::Figures;
use crate::model::held_by::HeldBy;
use crate::model::history::holds::Groups;
use crate::model::lock::{Phase, Told};
use crate::model::table::absent::{Departed, Ignored};
use crate::model::table::agenda::Agenda;
use crate::model::table::deposed::Deposed;
use crate::model::table::losses::Listed;
use crate::model::table::markers::Markers;
use crate::model::table::node::NodeState;
use crate::model::table::ours::LeaseEvent;
use crate::model::table::owners::Owners;
use crate::model::table::patrol::Patrol;
use crate::model::table::slots::{LockRef, Slots};
use crate::model::table::tape::Tape;
use crate::model::table::test_locks::TestLocks;
use crate::model::wants::client::Clients;
use crate::model::wants::demand::InDemand;
use crate::model::wants::instance::InstanceId;
use crate::model::wants::presence::Roster;
use crate::model::{Asked, KeyEvent, Lock, Observation, Seen, Source, Timeline, Transition, Tuning};

/// How much the table may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Locks in total, including those that are gone.
    pub locks: usize,
    /// Locks that are gone but remembered.
    pub gone: usize,
    /// Locks that are listed although they are lost.
    pub lost: usize,
    /// Transitions not taken yet.
    pub transitions: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { locks: 2_000_000, gone: 10_000, lost: 1_000, transitions: 100_000 }
    }
}

/// All locks of a target.
pub struct Table {
    pub(super) recogniser: Arc<Recogniser>,
    limits: Limits,
    slots: Slots,
    /// By node id; `None`: the node left, or was never seen.
    nodes: Vec<Option<NodeState>>,
    /// Of each keyspace that several nodes serve.
    owners: Vec<Owners>,
    /// Servers that still take writes, which nobody will keep.
    deposed: Vec<Deposed>,
    seq: u64,
    pub(super) held: usize,
    agenda: Agenda,
    /// Locks that are gone, oldest first, each with its `left` count at that time.
    gone: VecDeque<(LockRef, u32)>,
    lost: Listed,
    ignored: Ignored,
    departed: Departed,
    pub(super) clients: Clients,
    /// The clients of each node, as they were last listed.
    pub(super) rosters: HashMap<NodeId, Roster>,
    /// Holders with names in their values whose clients are missing, by the list of a node's clients of that time.
    pub(super) absent: QuickMap<InstanceId, (NodeId, Time)>,
    pub(super) in_demand: InDemand,
    pub(super) groups: Groups,
    pub(super) figures: Figures,
    pub(super) tuning: Tuning,
    markers: Markers,
    tests: TestLocks,
    transitions: VecDeque<Transition>,
    transitions_dropped: u64,
    locks_dropped: u64,
    /// What the last walk read and left out, and the one under way.
    left_out: LeftOut,
    leaving_out: LeftOut,
    /// `None`: nobody records.
    tape: Option<Tape>,
    timeline: Timeline,
    patrol: Patrol,
}

impl Table {
    pub fn new(recogniser: Arc<Recogniser>, limits: Limits) -> Table {
        Table {
            recogniser,
            limits,
            slots: Slots::default(),
            nodes: Vec::new(),
            owners: Vec::new(),
            deposed: Vec::new(),
            seq: 0,
            held: 0,
            agenda: Agenda::default(),
            gone: VecDeque::new(),
            lost: Listed::default(),
            ignored: Ignored::default(),
            departed: Departed::default(),
            clients: Clients::default(),
            rosters: HashMap::new(),
            absent: QuickMap::new(),
            in_demand: InDemand::default(),
            groups: Groups::default(),
            figures: Figures::default(),
            tuning: Tuning::default(),
            markers: Markers::default(),
            tests: TestLocks::default(),
            transitions: VecDeque::new(),
            transitions_dropped: 0,
            locks_dropped: 0,
            left_out: LeftOut::default(),
            leaving_out: LeftOut::default(),
            tape: None,
            timeline: Timeline::default(),
            patrol: Patrol::default(),
        }
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
                let (space, behind) = (self.space(node), self.behind(node, batch.at));
                for (key, event) in batch.iter() {
                    self.take_event((space, node), key, event, (batch.at, behind));
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
            Observation::Answer { node, key, behind, asked, answered, seen, moving } => {
                self.take_answer(node, &key, behind, (asked, answered), seen, moving);
            }
            Observation::Acting { node, key, at } => self.announce_write(node, key, at),
            Observation::Acted { node, key, write, sent, answered } => {
                self.report_write(node, &key, write, sent, answered);
            }
            Observation::Joined { node, space } => self.node(node).space = space,
            Observation::Owners { space, slots, at } => self.take_owners(space, &slots, at),
            Observation::TookOver { node, at } => self.take_over(node, at),
            Observation::Cut { node, since } => self.take_cut(node, since),
            Observation::Deposed { node, told } => self.take_of_deposed(node, told),
            Observation::Emptied { node, at } => self.node(node).emptied = Some(at),
            Observation::Left { node } => self.forget_node(node),
            Observation::Watched { node, source } => {
                let known = self.node(node);
                (known.source, known.heard) = (Some(source), None);
            }
            Observation::Heard { node, until } => self.node(node).heard = Some(until),
            Observation::Hazards { node, hazards } => self.node(node).hazards = hazards,
            Observation::Noted { node, at, what } => self.note(node, at, what),
            Observation::Testing { key, token } => self.tests.expect(key, token),
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
            Observation::Blocked { node, clients } => self.node(node).blocked = clients,
            Observation::Idle { node, key, since } => self.take_idle(node, &key, since),
            Observation::Unused { node, key, asked, idle } => self.take_unused(node, &key, asked, idle),
            Observation::Children { node, children } => self.node(node).children = children,
            Observation::Tried { node, key, tries } => self.take_tries(node, &key, tries),
            Observation::Sampled { node, key, sample } => self.take_sample(node, &key, *sample),
            Observation::Quiet { node, tries } => self.node(node).quiet = tries,
            Observation::Fenced { node, key, token } => self.take_fence(node, &key, token),
            Observation::Connections { node, at, asked, present } => {
                if asked == Asked::All {
                    self.take_roster(node, present.clone(), at);
                }
                self.clients.listed(node, &asked, present, at);
            }
            Observation::Silent { node, since, at } => self.take_silence(node, since, at),
            Observation::Gap { node, at } => {
                let held = self.held;
                // The next round over the table tells whether any of them is on this node.
                (self.node(node).gap, self.node(node).stale) = (Some(at), held > 0);
                self.forget_contenders(node);
            }
        }
    }

    /// It was reported at `at`, and may have happened up to `behind` before.
    fn take_event(
        &mut self,
        (space, node): (KeyspaceId, NodeId),
        key: &[u8],
        event: KeyEvent,
        (at, behind): (Time, Duration),
    ) {
        self.seq += 1;
        let (hash, home) = (self.slots.hash(space, key), self.home(space, node, key));
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
            None if !self.recogniser.may_be_lock(key) => return self.take_lease_event(space, key, event, (at, behind)),
            None => match self.insert(hash, (space, home), Key::from(key), at) {
                Some(place) => place,
                None => return,
            },
        };
        let (seq, beside) = (self.seq, home != node);
        if let Some(lock) = self.at(place) {
            (lock.event_seq, lock.node) = (seq, home);
            let event = lock.ours.as_mut().map_or(event, |ours| ours.claim(event, at, behind));
            // It may explain the read that was put off; the next unexplained read then waits for its own event.
            lock.surprised = MaybeTime::NONE;
            lock.pending.get_or_insert_default().push(event, at, Told { seq, beside }, behind);
        }
        self.enqueue(place);
    }

    /// The own lease of one of several holders was given or renewed, in a key beside the lock.
    fn take_lease_event(&mut self, space: KeyspaceId, key: &[u8], event: KeyEvent, (at, behind): (Time, Duration)) {
        let lease = if event == KeyEvent::Expire { self.recogniser.lease_of(key) } else { None };
        let Some((name, token)) = lease else { return };
        let id = self.clients.holder_id(&token);
        let Some(lock) = self.place_named(space, &name).and_then(|place| self.at(place)) else { return };
        let event = LeaseEvent { lease: Key::from(key), holder: token, at };
        let event = match &mut lock.ours {
            Some(ours) => ours.took_lease(event, behind),
            None => Some(event),
        };
        if event.is_some() {
            lock.beat(id, None, at);
        }
    }

    pub(super) fn touch(&mut self, node: NodeId, key: &[u8], at: Time) {
        self.seq += 1;
        let seq = self.seq;
        let Some(place) = self.find_or_insert(node, key, at) else { return };
        let home = self.home(self.space(node), node, key);
        if let Some(lock) = self.at(place) {
            (lock.event_seq, lock.node) = (seq, home);
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
            None => self.insert(hash, (space, self.home(space, node, key)), Key::from(key), at),
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

    /// A key that reads as no lock, and was never one.
    pub(super) fn leave_out(&mut self, place: LockRef, value: &RawValue, source: Source) {
        if let Some(lock) = self.slots.get(place).filter(|lock| lock.phase == Phase::Unread && source == Source::Scan) {
            self.leaving_out.add(lock.key.as_bytes(), value, 1);
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
        let place = self.slots.insert(hash, (space, node), key, at);
        self.patrol.note(place, None);
        Some(place)
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
    pub(super) fn leave(&mut self, place: LockRef, at: Time) {
        let Some(lock) = self.at(place) else { return };
        if lock.phase == Phase::Unread && lock.past.is_none() {
            return self.remove(place);
        }
        if lock.is_lost() && lock.loss(at).is_some() {
            // It was looked at again, and is still not there.
            return;
        }
        let was_held = lock.is_held();
        if let Some(contention) = &mut lock.contention {
            contention.waits = None;
        }
        (lock.expires, lock.own_ends) = (MaybeTime::NONE, None);
        lock.beats = None;
        lock.held_by = HeldBy::Nobody;
        if !was_held || !self.list_lost(place, at) {
            self.bury(place);
        }
    }

    /// Remembers it like all others that are gone.
    fn bury(&mut self, place: LockRef) {
        let Some(lock) = self.at(place) else { return };
        lock.phase = Phase::Gone;
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
