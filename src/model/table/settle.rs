//! Applies reads of keys to the table: compares each with what was known, and stores the new state.

use crate::base::time::{Time, Ttl};
use crate::dialects::{self, Best, counter};
use crate::lock::{Holder, Key, Kind, Mode, NodeId, RawValue, Token};
use crate::model::held_by::HeldBy;
use crate::model::history::holds::Mark;
use crate::model::lock::{Pending, Phase, Reading};
use crate::model::table::Table;
use crate::model::table::agenda::{GRACE, Ticket};
use crate::model::table::narrate::{Narrator, Told};
use crate::model::table::resolve::{KeyState, Occurrence, Situation, resolve};
use crate::model::table::slots::LockRef;
use crate::model::wants::instance::HolderId;
use crate::model::{Ending, HeldIs, KeyEvent, Lock, Observation, Seen, Source};

/// Answers overtaken by events this often are used all the same: a lock that busy is never quiet.
const OVERTAKEN_MOST: u8 = 3;
/// A deadline that moved by less was not renewed; the difference is measuring error.
const JUMP_MS: i64 = 250;

impl Table {
    /// The answer to a ticket. One that events have overtaken is set aside, and the key looked at again.
    pub fn answer(&mut self, ticket: Ticket, asked: Time, answered: Time, seen: Seen) {
        let Ticket { node, key, place, seq } = ticket;
        if self.slots.get(place).is_none() {
            return;
        }
        if let Some(tape) = &mut self.tape {
            let (behind, seen) = (self.seq - seq, seen.clone());
            tape.push(Observation::Answer { node, key, behind, asked, answered, seen });
        }
        let source = self.source(node).unwrap_or(Source::Scan);
        self.settle_unless_overtaken(place, KeyRead { asked, answered, seen, source, events_until: seq });
    }

    /// The same from a record, where another table asked.
    pub(super) fn take_answer(
        &mut self,
        node: NodeId,
        key: &Key,
        behind: u64,
        asked: Time,
        answered: Time,
        seen: Seen,
    ) {
        let source = self.source(node).unwrap_or(Source::Scan);
        let events_until = self.seq.saturating_sub(behind);
        if let Some(place) = self.find_or_insert(node, key.as_bytes(), asked) {
            self.settle_unless_overtaken(place, KeyRead { asked, answered, seen, source, events_until });
        }
    }

    fn settle_unless_overtaken(&mut self, place: LockRef, read: KeyRead) {
        let Some(lock) = self.at(place) else { return };
        if lock.event_seq > read.events_until && lock.overtaken < OVERTAKEN_MOST {
            lock.overtaken += 1;
            return self.enqueue(place);
        }
        lock.overtaken = 0;
        self.settle(place, read);
    }

    /// The ticket could not be answered: the key goes back into the queue.
    pub fn ask_again(&mut self, ticket: &Ticket) {
        self.enqueue(ticket.place);
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
        let Some(place) = self.place_of(node, &key, asked, &seen) else { return };
        let Some(lock) = self.at(place) else { return };
        if lock.pending.is_none() && asked >= lock.asked {
            lock.node = node;
            self.settle(place, KeyRead { asked, answered, seen, source, events_until: 0 });
        }
    }

    fn settle(&mut self, place: LockRef, answer: KeyRead) {
        let KeyRead { asked, answered, seen, source, events_until } = answer;
        let recogniser = self.recogniser.clone();
        let Some(lock) = self.at(place) else { return };
        if lock.ours.as_ref().is_some_and(|ours| ours.is_open(answered)) {
            // The change may be our own write: wait for its outcome.
            return self.put_off(place, answered);
        }
        let (node, was_held, counted) = (lock.node, lock.is_held(), lock.counts);
        lock.counts |= lock.was_counted(&seen, events_until);
        let decode_before = |lock: &Lock| {
            let reading = lock.reading?;
            recogniser.claim_as(reading.dialect, lock.key.as_bytes(), &lock.value, lock.ttl(answered), answered)
        };
        let before =
            if was_held { decode_before(lock).map(|claim| claim.holders).unwrap_or_default() } else { Vec::new() };
        let found = match seen {
            Seen::Absent => Found::Nothing,
            Seen::Present { value, ttl } if was_held && lock.value == value && lock.counts == counted => {
                Found::Unchanged { ttl }
            }
            Seen::Present { value, ttl } => match recogniser.read(lock.key.as_bytes(), &value, ttl, answered) {
                Some(best) if lock.counts => {
                    let best = recogniser.read_counter(best, lock.key.as_bytes(), &value, ttl, answered);
                    Found::Lock { value, ttl, best: Box::new(best) }
                }
                Some(best) => Found::Lock { value, ttl, best: Box::new(best) },
                None => return self.not_a_lock(place, &before, answered, source),
            },
        };
        let after = found.holders(&before);
        let look = found.look(was_held, &before, &after);
        let Some(lock) = self.lock_at(place) else { return };
        let (eventful, missed, swept) = (self.is_eventful(lock), self.missed(lock), self.is_swept(node));
        let test = self.is_test(&lock.key, &after);
        let held_by = HeldBy::of(&after, node, &self.clients);
        // Where each holder has an end of its own, whose was moved ahead has renewed.
        let renewing: Vec<HolderId> =
            ahead(&before, &after).map(|holder| self.clients.holder_id(&holder.token)).collect();
        let Some(lock) = self.at(place) else { return };
        let expires = found.ttl().and_then(Ttl::remaining).map(|left| answered + left);
        let is_lent = |expires| lock.ours.as_ref().is_some_and(|ours| ours.is_lent(expires));
        let lent = is_lent(expires);
        let extended = match (lock.expires, expires) {
            // A holder that renews sets back the deadline that we gave it.
            (Some(old), Some(new)) if is_lent(Some(old)) && !lent => (new.0 - old.0).abs() > JUMP_MS,
            (Some(old), Some(new)) => !lent && new.0 > old.0 + JUMP_MS,
            _ => false,
        };
        let surprised = lock.surprised.is_some_and(|since| asked >= since + GRACE);
        let count = lock.pending.as_ref().map_or(0, |pending| pending.until(events_until));
        let heard = lock.pending.as_ref().map_or(&[][..], |pending| &pending.events[..count]);
        let unseen = lock.ours.as_ref().and_then(|ours| ours.unseen(asked, look, &before, &after));
        let with_ours = unseen.map(|unseen| unseen.among(heard));
        let wait_for_ours = eventful && !surprised && unseen.is_some_and(|unseen| !unseen.fits);
        let situation = Situation {
            held: was_held,
            known: lock.phase != Phase::Unread,
            swept,
            expires: lock.expires,
            extended,
            begun: lock.begun(),
            events: with_ours.as_deref().unwrap_or(heard),
            look,
            eventful,
            missed,
            surprised,
            flushed: lock.flushed,
            at: answered,
        };
        let written = heard.iter().rev().find(|(event, _)| *event == KeyEvent::Written).map(|(_, at)| *at);
        let Some(mut steps) = resolve(&situation).filter(|_| !wait_for_ours) else {
            lock.surprised.get_or_insert(answered);
            return self.put_off(place, answered);
        };
        let renewed = |steps: &[Occurrence]| {
            steps.iter().rev().find_map(|step| if let Occurrence::Renew { at } = step { Some(*at) } else { None })
        };
        if look == KeyState::Same && !renewing.is_empty() && renewed(&steps).is_none() {
            steps.push(Occurrence::Renew { at: written.unwrap_or(answered) });
        }
        let renewed = renewed(&steps);

        lock.pending.take_if(|pending| !pending.take(count));
        if let (Some(ours), Some(unseen)) = (&mut lock.ours, unseen) {
            ours.tell(unseen);
        }
        lock.surprised = None;
        lock.flushed = false;
        lock.asked = asked;
        lock.confirmed = answered;
        let Told { transitions: mut told, marks } = Narrator::new(lock, source, &before, &after).tell(&steps);
        if look == KeyState::Same && was_held {
            told.extend(Narrator::new(lock, source, &before, &after).tell_shared(&before, &after, answered));
        }
        if let Some(ours) = &mut lock.ours {
            ours.settled(asked);
        }
        lock.keep_holders(held_by);
        if let Some(at) = renewed {
            renewing.iter().for_each(|holder| lock.beat(*holder, at));
        }
        let renewing = lock.held_by.one().zip(renewed);
        if let Some(ttl) = found.ttl() {
            let first_ttl = was_held && lock.expires.is_none();
            if !lent || first_ttl {
                lock.learn_lease(ttl, answered, &steps, extended || first_ttl);
            }
            lock.learn_age(&after);
            lock.learn_bare(first_ttl && !lent && ttl != Ttl::Never, answered);
            lock.expires = expires;
            lock.phase = Phase::Held;
        }
        let is_held = found.ttl().is_some();
        let unread = lock.reading.is_none();
        if let Found::Lock { value, best, .. } = found {
            lock.reading = Some(Reading::of(&best, &lock.key, &value, test));
            lock.value = value;
        }
        lock.keep_period();
        if unread && lock.reading.is_some() {
            self.first_read(place);
        }
        self.count_holds(place, &marks);
        if is_held {
            self.know_clients(place, &after);
        }
        if let Some((instance, at)) = renewing {
            self.clients.renewed(instance, at);
        }
        self.held = self.held + is_held as usize - was_held as usize;
        for transition in told {
            self.report(transition);
        }
        if is_held { self.schedule(place) } else { self.leave(place) }
    }

    /// Adds what happened to a lock to the statistics of its kind.
    fn count_holds(&mut self, place: LockRef, marks: &[Mark]) {
        let counts =
            |lock: &&Lock| lock.reading.is_some_and(|reading| reading.kind == Kind::Lock && reading.is_alone());
        let Some(group) = self.lock_at(place).filter(counts).map(|lock| lock.group) else { return };
        for mark in marks {
            self.groups.mark(group, *mark);
        }
    }

    /// The key exists but is not a lock; if it was one, it was overwritten with something else.
    fn not_a_lock(&mut self, place: LockRef, before: &[Holder], at: Time, source: Source) {
        let Some(lock) = self.at(place) else { return };
        if lock.is_held() {
            let told = Narrator::new(lock, source, before, &[]).tell(&[Occurrence::End { at, ending: Ending::Unseen }]);
            self.held -= 1;
            self.count_holds(place, &told.marks);
            for transition in told.transitions {
                self.report(transition);
            }
        }
        self.ignore(place, at);
    }
}

/// The answer to a read of one key.
struct KeyRead {
    asked: Time,
    answered: Time,
    seen: Seen,
    source: Source,
    /// The events up to here are older than the read; later ones may or may not be part of it.
    events_until: u64,
}

/// What a read found.
enum Found {
    Nothing,
    /// The value we knew.
    Unchanged {
        ttl: Ttl,
    },
    Lock {
        value: RawValue,
        ttl: Ttl,
        best: Box<Best>,
    },
}

impl Found {
    fn ttl(&self) -> Option<Ttl> {
        match self {
            Found::Nothing => None,
            Found::Unchanged { ttl } | Found::Lock { ttl, .. } => Some(*ttl),
        }
    }

    fn holders(&self, before: &[Holder]) -> Vec<Holder> {
        match self {
            Found::Nothing => Vec::new(),
            Found::Unchanged { .. } => before.to_vec(),
            Found::Lock { best, .. } => best.claim.holders.clone(),
        }
    }

    fn look(&self, was_held: bool, before: &[Holder], after: &[Holder]) -> KeyState {
        match self {
            Found::Nothing => KeyState::Absent,
            Found::Unchanged { .. } => KeyState::Same,
            Found::Lock { .. } if !was_held => KeyState::Other,
            // A marker has no holder that could change.
            Found::Lock { best, .. } if best.claim.kind == Kind::Marker => KeyState::Same,
            Found::Lock { .. } => {
                let shared = |holder: &Holder| after.iter().any(|other| other.token == holder.token);
                let same = before.is_empty() && after.is_empty() || before.iter().any(shared);
                if same { KeyState::Same } else { KeyState::Other }
            }
        }
    }
}

impl Reading {
    fn of(best: &Best, key: &Key, value: &RawValue, test: bool) -> Reading {
        // A bare counter of permits names nobody, and is held all the same.
        let counter = best.claim.mode == Mode::Permit && matches!(value, RawValue::Str { .. });
        Reading {
            test,
            mixed: best.claim.holders.len() > 1 && best.claim.holders.iter().any(|holder| holder.mode.is_some()),
            vacant: best.claim.holders.is_empty() && best.claim.kind == Kind::Lock && !counter,
            dialect: best.dialect,
            kind: best.claim.kind,
            mode: best.claim.mode,
            confidence: best.claim.strength.number(),
            second: best.second.map(|(id, strength)| (id, strength.number())),
            stays: dialects::dialect(best.dialect).stays(key.as_bytes()),
        }
    }
}

impl Lock {
    /// What is left of the lease at `now`, by our own deadline.
    pub fn ttl(&self, now: Time) -> Ttl {
        self.expires.map_or(Ttl::Never, |expires| Ttl::In(expires.since(now)))
    }

    /// Whether it is a number that INCR or DECR has changed, by the events older than the read.
    fn was_counted(&self, seen: &Seen, events_until: u64) -> bool {
        let is_number = matches!(seen, Seen::Present { value, .. } if counter::number(value).is_some());
        let written = |pending: &Pending| {
            let heard = &pending.events[..pending.until(events_until)];
            heard.iter().any(|(event, _)| *event == KeyEvent::Written)
        };
        is_number && self.pending.as_deref().is_some_and(written)
    }

    /// When it was taken, if its TTL has not been set yet (SETNX, then EXPIRE).
    fn begun(&self) -> Option<Time> {
        let waits = self.is_held() && self.expires.is_none() && self.since_is == HeldIs::Exact;
        waits.then_some(self.since)
    }

    /// The full lease shows right after it was given: what is left then, plus the little that has passed.
    fn learn_lease(&mut self, ttl: Ttl, answered: Time, steps: &[Occurrence], extended: bool) {
        let given_at = steps.iter().rev().find_map(|step| match step {
            Occurrence::Begin { at, exact: true } | Occurrence::Renew { at } | Occurrence::Take { at } => Some(*at),
            _ => None,
        });
        let Some(left) = ttl.remaining() else {
            self.lease_ms = None;
            return;
        };
        let left = left.as_millis() as u64;
        if let Some(at) = given_at {
            let full = left + answered.since(at).as_millis() as u64;
            // The same lease given again and seen a little later must not look shorter.
            let before = u64::from(self.lease_ms.unwrap_or(0));
            let full = rounded(full);
            let full = if full < before && full * 10 > before * 9 { before } else { full };
            self.lease_ms = u32::try_from(full).ok();
        } else if extended {
            self.lease_ms = u32::try_from(rounded(left).max(self.lease_ms.unwrap_or(0) as u64)).ok();
        }
    }

    /// A lock that is given its TTL by a second command has none in between.
    fn learn_bare(&mut self, got_ttl: bool, answered: Time) {
        if let Some(taken) = self.taken().filter(|_| got_ttl && self.beats().is_none_or(|beats| beats.count <= 1)) {
            let bare = answered.since(taken).as_millis().min(u128::from(u32::MAX)) as u32;
            self.contention.get_or_insert_default().bare_ms = Some(bare);
        }
    }

    /// Learns the age from values that say when they were written.
    fn learn_age(&mut self, holders: &[Holder]) {
        if self.since_is == HeldIs::Exact {
            return;
        }
        if let Some(since) = holders.iter().filter_map(|holder| holder.since).min() {
            self.since = since;
            self.since_is = HeldIs::Estimated;
        }
    }
}

/// The holders who stay, and whose own end was moved ahead.
fn ahead<'a>(before: &'a [Holder], after: &'a [Holder]) -> impl Iterator<Item = &'a Holder> {
    let end = |token: &Token| before.iter().find(|holder| holder.token == *token).and_then(|holder| holder.until);
    let moved = move |holder: &&Holder| match (end(&holder.token), holder.until) {
        (Some(old), Some(new)) => new.0 > old.0 + JUMP_MS,
        _ => false,
    };
    after.iter().filter(moved)
}

/// Leases are round numbers, and what we see is never more than the lease: the little that passed until the event
/// reached us is missing from it.
fn rounded(ms: u64) -> u64 {
    let up_to = |step: u64| Some(ms.next_multiple_of(step)).filter(|up| up - ms <= step / 10);
    up_to(1_000).or(up_to(500)).or(up_to(100)).unwrap_or(ms)
}
