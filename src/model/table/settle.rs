//! Applies reads of keys to the table: compares each with what was known, explains the difference by the events, and
//! stores the new state.

use std::time::Duration;

use crate::base::time::{MaybeTime, Time};
use crate::dialects::Strength;
use crate::lock::{Holder, Key, Kind, NodeId};
use crate::model::held_by::HeldBy;
use crate::model::history::holds::Mark;
use crate::model::lock::Phase;
use crate::model::table::Table;
use crate::model::table::agenda::{GRACE, Ticket};
use crate::model::table::comparison::{Comparison, Foreign};
use crate::model::table::losses::Blame;
use crate::model::table::narrate::{Heard, Narrated, Narrator};
use crate::model::table::ours::Unseen;
use crate::model::table::resolve::{KeyState, Occurrence, Resolved, Situation, resolve};
use crate::model::table::slots::LockRef;
use crate::model::wants::instance::HolderId;
use crate::model::{Ending, Lock, Observation, Seen, Source};

/// An event that may be reported this late counts as in time: four times a second we find out how far behind we are.
const IN_TIME: Duration = Duration::from_millis(500);

/// Answers overtaken by events this often are used anyway: a lock that busy is never quiet.
const OVERTAKEN_MOST: u8 = 3;

impl Table {
    /// The answer to a ticket. One that events have overtaken is set aside, and the key looked at again.
    pub fn answer(&mut self, ticket: Ticket, asked: Time, answered: Time, seen: Seen) {
        self.take_ticket(ticket, (asked, answered), seen, false);
    }

    /// The same where the key's slot is on its way from the node that was asked to another, which has answered.
    pub fn answer_on_its_way(&mut self, ticket: Ticket, asked: Time, answered: Time, seen: Seen) {
        self.take_ticket(ticket, (asked, answered), seen, true);
    }

    fn take_ticket(&mut self, ticket: Ticket, (asked, answered): (Time, Time), seen: Seen, moving: bool) {
        let Ticket { node, key, place, seq } = ticket;
        if self.slots.get(place).is_none() {
            return;
        }
        if let Some(tape) = &mut self.tape {
            let (behind, seen) = (self.seq - seq, seen.clone());
            tape.push(Observation::Answer { node, key, behind, asked, answered, seen, moving });
        }
        self.settle_if_current(
            place,
            node,
            seen,
            KeyRead { asked, answered, source: Source::Scan, events_until: seq, moving },
        );
    }

    /// The same from a record, where another table asked.
    pub(super) fn take_answer(
        &mut self,
        node: NodeId,
        key: &Key,
        behind: u64,
        (asked, answered): (Time, Time),
        seen: Seen,
        moving: bool,
    ) {
        let events_until = self.seq.saturating_sub(behind);
        if let Some(place) = self.find_or_insert(node, key.as_bytes(), asked) {
            let read = KeyRead { asked, answered, source: Source::Scan, events_until, moving };
            self.settle_if_current(place, node, seen, read);
        }
    }

    /// Unless another node owns the key by now, or events have overtaken the answer.
    fn settle_if_current(&mut self, place: LockRef, node: NodeId, seen: Seen, read: KeyRead) {
        let source = self.source(node).unwrap_or(Source::Scan);
        let owned = self.lock_at(place).is_none_or(|lock| lock.node == node || !self.is_spread(lock.space));
        if !owned {
            return self.enqueue(place);
        }
        let Some(lock) = self.at(place) else { return };
        if lock.event_seq > read.events_until && lock.overtaken < OVERTAKEN_MOST {
            lock.overtaken += 1;
            return self.enqueue(place);
        }
        lock.overtaken = 0;
        self.settle(place, seen, KeyRead { source, ..read });
    }

    /// The ticket could not be answered: the key goes back into the queue.
    pub fn ask_again(&mut self, ticket: &Ticket) {
        self.enqueue(ticket.place);
    }

    /// Another node was named by the one that was asked: the key is read again in a moment, where the map says then.
    pub fn ask_elsewhere(&mut self, ticket: &Ticket, now: Time) {
        self.put_off(ticket.place, now);
    }

    /// A read without a ticket, as scans make them. It is ignored while events are pending, because the read that they
    /// cause is newer.
    pub(in crate::model) fn take_look(
        &mut self,
        node: NodeId,
        key: Key,
        asked: Time,
        answered: Time,
        seen: Seen,
        source: Source,
    ) {
        if self.owner(self.space(node), key.as_bytes()).is_some_and(|owner| owner != node) {
            // Only its owner knows.
            return self.touch(node, key.as_bytes(), answered);
        }
        let Some(place) = self.place_of(node, &key, asked, &seen) else { return };
        let Some(lock) = self.at(place) else { return };
        if lock.pending.is_none() && asked >= lock.asked {
            lock.node = node;
            self.settle(place, seen, KeyRead { asked, answered, source, events_until: 0, moving: false });
        }
    }

    fn settle(&mut self, place: LockRef, seen: Seen, read: KeyRead) {
        let recogniser = self.recogniser.clone();
        let Some(lock) = self.at(place) else { return };
        if lock.ours.as_ref().is_some_and(|ours| ours.is_open(read.answered)) {
            // The change may be our own write: wait for its outcome.
            return self.put_off(place, read.answered);
        }
        let compared = match Comparison::of(lock, seen, read.answered, read.events_until, &recogniser) {
            Ok(compared) => compared,
            Err(Foreign { value, before }) => {
                self.leave_out(place, &value, read.source);
                return self.not_a_lock(place, &before, read.answered, read.source);
            }
        };
        match self.explain(place, &compared, read) {
            Some(explained) => self.keep(place, compared, explained, read),
            None => {
                if let Some(lock) = self.at(place) {
                    lock.surprised = lock.surprised.get().or(Some(read.answered)).into();
                }
                self.put_off(place, read.answered);
            }
        }
    }

    /// What happened since the last look, by the events that were heard; `None`: look again in a moment.
    fn explain(&self, place: LockRef, compared: &Comparison, read: KeyRead) -> Option<Explained> {
        let lock = self.lock_at(place)?;
        let Comparison { before, after, look, .. } = compared;
        let eventful = self.is_eventful(lock);
        let surprised = lock.surprised.get().is_some_and(|since| read.asked >= since + GRACE);
        let used = lock.pending.as_ref().map_or(0, |pending| pending.until(read.events_until));
        let moved = self.has_moved(lock);
        if (moved || read.moving) && compared.was_manned && *look == KeyState::Same {
            let steps = compared.go_on(moved, read.answered);
            return Some(Explained { steps, used, bare: false, unseen: None, blame: None });
        }
        if moved && compared.was_manned && self.awaits_proof(lock, read.answered) {
            return None;
        }
        // While nobody knows who owns it, what each node told counts.
        let pending = lock.pending.as_deref();
        let of_owner = pending.filter(|_| !moved && !read.moving).and_then(|pending| pending.of_owner(used));
        let heard = pending.map_or(&[][..], |pending| &pending.events[..used]);
        let heard = of_owner.as_deref().unwrap_or(heard);
        let unseen = lock.ours.as_ref().and_then(|ours| ours.unseen(read.asked, *look, before, after));
        let with_ours = unseen.map(|unseen| unseen.among(heard));
        let wait_for_ours = eventful && !surprised && unseen.is_some_and(|unseen| !unseen.fits);
        let situation = Situation {
            held: compared.was_manned,
            known: lock.phase != Phase::Unread,
            swept: self.is_swept(lock.node),
            expires: lock.expires(),
            extended: compared.extended,
            prolonged: compared.prolonged.filter(|_| !compared.lent),
            begun: lock.begun(),
            events: with_ours.as_deref().unwrap_or(heard),
            look: *look,
            beside: compared.beside,
            eventful,
            missed: self.missed(lock),
            surprised,
            flushed: lock.flushed,
            at: read.answered,
        };
        let Resolved { mut steps, bare } = resolve(&situation).filter(|_| !wait_for_ours)?;
        let behind = lock.pending.as_ref().map_or(Duration::ZERO, |pending| pending.behind);
        if behind > IN_TIME {
            compared.tell_when_given(lock, &mut steps, behind);
        }
        let blame = self.explain_loss(lock, &mut steps);
        Some(Explained { steps, bare, used, unseen, blame })
    }

    /// Tells what happened, and stores what is known now.
    fn keep(&mut self, place: LockRef, compared: Comparison, explained: Explained, read: KeyRead) {
        let Explained { steps, bare, used, unseen, blame } = explained;
        let Some(lock) = self.lock_at(place) else { return };
        let told = if lock.phase == Phase::Unread { self.is_eventful(lock) } else { self.is_reported(lock) };
        let heard = Heard { all: told, missed: self.missed(lock), blame };
        let test = self.tests.hold(&lock.key, &compared.after);
        let held_by = HeldBy::of(&compared.after, lock.node, &self.clients);
        let id = |holder: &Holder| self.clients.holder_id(&holder.token);
        let alone = compared.alone().map(id);
        let renewing: Vec<HolderId> = compared.renewing().map(id).collect();
        let renewed = steps.iter().rev().find_map(Occurrence::renewed);
        let outlived = self.takeover_at(lock).filter(|_| compared.was_held && compared.is_held());
        let (was_held, is_held) = (compared.was_held, compared.is_held());
        let after = compared.after.clone();

        let Some(lock) = self.slots.get_mut(place) else { return };
        lock.pending.take_if(|pending| !pending.take(used));
        if let (Some(ours), Some(unseen)) = (&mut lock.ours, unseen) {
            ours.tell(unseen);
        }
        (lock.surprised, lock.flushed, lock.bare) = (MaybeTime::NONE, false, bare);
        (lock.asked, lock.confirmed) = (read.asked, read.answered);
        let (Narrated { transitions, marks }, shared) = lock.narrate(&compared, &steps, read, heard);
        if let Some(ours) = &mut lock.ours {
            ours.settled(read.asked);
        }
        for (holder, at) in shared.taken_out() {
            lock.part(self.clients.holder_id(holder), at);
        }
        lock.keep_holders(held_by, alone);
        for (holder, at) in shared.put_back() {
            lock.rejoin(self.clients.holder_id(holder), at);
        }
        if let Some(at) = renewed {
            renewing.iter().for_each(|holder| lock.beat(*holder, alone, at));
        }
        if let Some(failover) = outlived {
            lock.outlives(failover);
        }
        let unread = lock.reading.is_none();
        compared.store(lock, &steps, read.answered, test);
        let alive = lock.held_by.one().zip(steps.iter().rev().find_map(Occurrence::alive));
        if unread && lock.reading.is_some() {
            self.first_read(place);
        }
        self.count_holds(place, &marks);
        self.count_holds(place, &shared.marks);
        if renewed.is_some() {
            self.learn_period(place);
        }
        if is_held {
            self.know_clients(place, &after);
        }
        if let Some((instance, at)) = alive {
            self.clients.alive(instance, at);
        }
        self.held = self.held + is_held as usize - was_held as usize;
        self.note_changes(place, &transitions);
        for transition in transitions.into_iter().chain(shared.transitions) {
            self.report(transition);
        }
        if is_held { self.schedule(place) } else { self.leave(place, read.answered) }
    }

    /// Adds what happened to a lock to the statistics of its kind, and to the figures of its pattern.
    fn count_holds(&mut self, place: LockRef, marks: &[Mark]) {
        let unread = self.lock_at(place).is_some_and(|lock| lock.reading.is_none());
        if unread && !marks.is_empty() {
            // It came and went before it was read.
            self.find_group(place);
        }
        let Some(lock) = self.slots.get(place) else { return };
        let is_lock = lock.reading.is_none_or(|reading| reading.kind == Kind::Lock);
        let alone = lock.reading.is_none_or(|reading| reading.is_alone());
        for mark in marks.iter().filter(|_| is_lock) {
            let pattern = self.groups.get(lock.group).pattern();
            self.figures.count(lock.group, pattern, *mark, alone, lock.confirmed);
            if alone && !unread {
                self.groups.mark(lock.group, *mark);
            }
        }
    }

    /// What is learnt of one lock's renewals is expected of all others of its library and pattern.
    fn learn_period(&mut self, place: LockRef) {
        let Some(lock) = self.lock_at(place).filter(|lock| lock.has_one_holder()) else { return };
        let Some(reading) = lock.reading.filter(|reading| !reading.stays && !reading.test) else { return };
        let by_library = || lock.expected_ms().filter(|_| reading.strength >= Strength::Sure);
        let period_ms = lock.beats().and_then(|beats| beats.period_ms).or_else(by_library);
        let group = lock.group;
        if let (Some(period_ms), Some(lease_ms)) = (period_ms, lock.lease_ms()) {
            self.groups.renewed(group, reading.dialect, period_ms, lease_ms);
        }
    }

    /// The key exists but is not a lock; if it was one, it was overwritten with something else.
    fn not_a_lock(&mut self, place: LockRef, before: &[Holder], at: Time, source: Source) {
        let Some(lock) = self.at(place) else { return };
        if lock.is_held() {
            let narrated =
                Narrator::new(lock, source, before, &[]).tell(&[Occurrence::End { at, ending: Ending::Unseen }]);
            self.held -= 1;
            self.count_holds(place, &narrated.marks);
            self.note_changes(place, &narrated.transitions);
            for transition in narrated.transitions {
                self.report(transition);
            }
        }
        self.ignore(place, at);
    }
}

/// When a key was read, and how.
#[derive(Clone, Copy)]
struct KeyRead {
    asked: Time,
    answered: Time,
    source: Source,
    /// The events up to here are older than the read; later ones may or may not be part of it.
    events_until: u64,
    /// Its slot is on its way from one node to another.
    moving: bool,
}

/// What happened between two looks.
struct Explained {
    steps: Vec<Occurrence>,
    /// It was taken, and the event of its EXPIRE has not come yet.
    bare: bool,
    /// This many of the pending events are used up.
    used: usize,
    /// The write of ours among the steps that no event has shown.
    unseen: Option<Unseen>,
    /// How it was lost, where nobody saw an end among the steps.
    blame: Option<Blame>,
}

impl Lock {
    /// What happened to it, and who joined or left while it was held.
    fn narrate(
        &mut self,
        compared: &Comparison,
        steps: &[Occurrence],
        read: KeyRead,
        heard: Heard,
    ) -> (Narrated, Narrated) {
        let Comparison { before, after, .. } = compared;
        let told = Narrator::new(self, read.source, before, after).having(heard).tell(steps);
        if compared.look != KeyState::Same || !compared.was_manned {
            return (told, Narrated::default());
        }
        let mut shared = Narrator::new(self, read.source, before, after).tell_shared(before, after, read.answered);
        if steps.iter().any(|step| !step.goes_on()) {
            // The steps count who held it and who holds it.
            shared.marks.clear();
        }
        (told, shared)
    }

    /// When it was taken, or first seen, if the event of its EXPIRE has not come yet: a look may be ahead of it, or it is a
    /// command of its own (SETNX, then EXPIRE).
    fn begun(&self) -> Option<Time> {
        Some(self.since).filter(|_| self.is_held() && self.bare)
    }
}
