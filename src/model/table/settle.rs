//! Applies reads of keys to the table: compares each with what was known, and stores the new state.

use crate::base::time::{Time, Ttl};
use crate::dialects::{self, Best, Claim, counter};
use crate::lock::{Holder, Key, Kind, Mode, NodeId, RawValue, Token};
use crate::model::held_by::HeldBy;
use crate::model::history::holds::Mark;
use crate::model::lock::{OwnEnds, Pending, Phase, Reading};
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
        let was_manned = was_held && lock.reading.is_some_and(|reading| !reading.vacant);
        lock.counts |= lock.was_counted(&seen, events_until);
        let holders_at = |lock: &Lock, at: Time| {
            let claim = |reading: Reading| {
                recogniser.claim_as(reading.dialect, lock.key.as_bytes(), &lock.value, lock.ttl(at), at)
            };
            lock.reading
                .filter(|reading| !reading.counts)
                .and_then(claim)
                .map(|claim| claim.holders)
                .unwrap_or_default()
        };
        // Those who held it when it was last looked at, some of whom may have ended since.
        let counts = lock.counts && lock.reading.is_none_or(|reading| reading.confidence < Claim::SURE);
        let before = if was_held && !counts { holders_at(lock, lock.confirmed) } else { Vec::new() };
        let found = match seen {
            Seen::Absent => Found::Nothing,
            Seen::Present { value, ttl } if was_held && lock.value == value && lock.counts == counted => {
                let ended = before.iter().any(|holder| holder.until.is_some_and(|until| until <= answered));
                Found::Unchanged { ttl, left: ended.then(|| holders_at(lock, answered)) }
            }
            Seen::Present { value, ttl } => match recogniser.read(lock.key.as_bytes(), &value, ttl, answered) {
                Some(best) if lock.counts => {
                    let best = recogniser.read_counter(best, lock.key.as_bytes(), &value, ttl, answered);
                    Found::Lock { value, ttl, best: Box::new(best) }
                }
                Some(best) => Found::Lock { value, ttl, best: Box::new(best) },
                None => {
                    self.leave_out(place, &value, source);
                    return self.not_a_lock(place, &before, answered, source);
                }
            },
        };
        let after = found.holders(&before);
        let Some(lock) = self.lock_at(place) else { return };
        let vacant = found.is_vacant(lock, &after);
        let look = found.look(was_manned, vacant, &before, &after);
        // A count that is written again with its TTL is not renewed by anybody.
        let prolonged = prolonged(&before, &after).or(counts.then_some(false));
        let (eventful, missed, swept) = (self.is_eventful(lock), self.missed(lock), self.is_swept(node));
        let test = self.is_test(&lock.key, &after);
        let held_by = HeldBy::of(&after, node, &self.clients);
        // Where each holder has an end of its own, whose was moved ahead has renewed.
        let renewing: Vec<HolderId> =
            ahead(&before, &after).map(|holder| self.clients.holder_id(&holder.token)).collect();
        let Some(lock) = self.at(place) else { return };
        let key_expires = found.ttl().and_then(Ttl::remaining).map(|left| answered + left);
        let own_ends = found.own_ends(lock, &after, key_expires, answered);
        let expires = own_ends.map_or(key_expires, |(_, last)| last);
        let is_lent = |expires| lock.ours.as_ref().is_some_and(|ours| ours.is_lent(expires));
        let lent = is_lent(key_expires);
        let extended = match (lock.key_expires(), key_expires) {
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
            held: was_manned,
            known: lock.phase != Phase::Unread,
            swept,
            expires: lock.expires,
            extended,
            prolonged: prolonged.filter(|_| !lent),
            begun: lock.begun(),
            events: with_ours.as_deref().unwrap_or(heard),
            look,
            eventful,
            missed,
            surprised,
            flushed: lock.flushed,
            at: answered,
        };
        let Some(steps) = resolve(&situation).filter(|_| !wait_for_ours) else {
            lock.surprised.get_or_insert(answered);
            return self.put_off(place, answered);
        };
        let renewal = |step: &Occurrence| if let Occurrence::Renew { at } = step { Some(*at) } else { None };
        let renewed = steps.iter().rev().find_map(renewal);

        lock.pending.take_if(|pending| !pending.take(count));
        if let (Some(ours), Some(unseen)) = (&mut lock.ours, unseen) {
            ours.tell(unseen);
        }
        lock.surprised = None;
        lock.flushed = false;
        lock.asked = asked;
        lock.confirmed = answered;
        let Told { transitions: mut told, marks } = Narrator::new(lock, source, &before, &after).tell(&steps);
        if look == KeyState::Same && was_manned {
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
        let told_when_taken = found.tells_when_taken(lock.reading);
        let is_held = found.ttl().is_some();
        if is_held {
            let first_ttl = was_manned && lock.expires.is_none();
            if !lent || first_ttl {
                let ahead = extended || prolonged == Some(true);
                lock.learn_lease(expires, answered, &steps, ahead || first_ttl);
            }
            lock.learn_age(&after);
            lock.bound_lease(expires, answered, told_when_taken);
            lock.learn_bare(first_ttl && !lent && expires.is_some(), answered);
            lock.expires = expires;
            lock.own_ends = own_ends.map(|(own, _)| Box::new(own));
            lock.phase = Phase::Held;
        }
        let unread = lock.reading.is_none();
        if let Found::Lock { value, best, .. } = found {
            lock.reading = Some(Reading::of(&best, &lock.key, &value, test));
            lock.value = value;
        }
        if let Some(reading) = &mut lock.reading {
            reading.vacant = vacant;
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
        /// Who still holds it, where somebody's own end is over.
        left: Option<Vec<Holder>>,
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
            Found::Unchanged { ttl, .. } | Found::Lock { ttl, .. } => Some(*ttl),
        }
    }

    fn holders(&self, before: &[Holder]) -> Vec<Holder> {
        match self {
            Found::Nothing => Vec::new(),
            Found::Unchanged { left, .. } => left.as_deref().unwrap_or(before).to_vec(),
            Found::Lock { best, .. } => best.claim.holders.clone(),
        }
    }

    /// The key is there, but nobody holds it.
    fn is_vacant(&self, lock: &Lock, after: &[Holder]) -> bool {
        let read = match self {
            Found::Nothing => None,
            Found::Unchanged { .. } => lock.reading.map(|reading| (reading.kind, reading.mode, &lock.value)),
            Found::Lock { best, value, .. } => Some((best.claim.kind, best.claim.mode, value)),
        };
        // A bare counter of permits names nobody, and is held all the same while one is in use.
        let free = |(kind, mode, value): (Kind, Mode, &RawValue)| {
            let counts = mode == Mode::Permit && matches!(value, RawValue::Str { .. });
            let in_use = lock.key_expires().is_some() || self.ttl().is_some_and(|ttl| ttl != Ttl::Never);
            kind == Kind::Lock && (!counts || in_use && counter::is_spent(value))
        };
        after.is_empty() && read.is_some_and(free)
    }

    /// Whether the value says when the lease was given.
    fn tells_when_taken(&self, known: Option<Reading>) -> bool {
        let dialect = match self {
            Found::Lock { best, .. } => Some(best.dialect),
            _ => known.map(|reading| reading.dialect),
        };
        dialect.is_some_and(|id| dialects::dialect(id).tells_when_taken())
    }

    /// Where its holders have ends of their own, those, and when the last of all is over.
    fn own_ends(&self, lock: &Lock, after: &[Holder], key: Option<Time>, now: Time) -> Option<(OwnEnds, Option<Time>)> {
        let value = match self {
            Found::Nothing => return None,
            Found::Unchanged { .. } => &lock.value,
            Found::Lock { value, .. } => value,
        };
        // A time in a bare value ends nothing: the key stays.
        let stored = !matches!(value, RawValue::Str { .. });
        let ends = || after.iter().filter_map(|holder| holder.until).filter(|until| *until > now);
        let first = ends().min().filter(|_| stored)?;
        let last = match after.iter().all(|holder| holder.until.is_some()) {
            true => ends().max().into_iter().chain(key).min(),
            false => key,
        };
        Some((OwnEnds { key, first }, last))
    }

    fn look(&self, was_manned: bool, vacant: bool, before: &[Holder], after: &[Holder]) -> KeyState {
        match self {
            Found::Nothing => KeyState::Absent,
            _ if vacant => KeyState::Vacant,
            Found::Unchanged { .. } => KeyState::Same,
            Found::Lock { .. } if !was_manned => KeyState::Other,
            // A marker has no holder that could change.
            Found::Lock { best, .. } if best.claim.kind == Kind::Marker => KeyState::Same,
            Found::Lock { best, .. } => {
                let dialect = dialects::dialect(best.dialect);
                let is_one = |a: &Holder, b: &Holder| {
                    dialect.holder_of(a.token.as_bytes()) == dialect.holder_of(b.token.as_bytes())
                };
                let shared = |holder: &Holder| after.iter().any(|other| is_one(holder, other));
                let same = before.is_empty() && after.is_empty() || before.iter().any(shared);
                if same { KeyState::Same } else { KeyState::Other }
            }
        }
    }
}

impl Reading {
    fn of(best: &Best, key: &Key, value: &RawValue, test: bool) -> Reading {
        let holders = &best.claim.holders;
        let another = |holder: &Holder| {
            (&holder.client, &holder.thread) != (&holders[0].client, &holders[0].thread) && holder.until.is_some()
        };
        Reading {
            test,
            counts: best.claim.mode == Mode::Permit && holders.is_empty() && matches!(value, RawValue::Str { .. }),
            several: best.claim.mode == Mode::Exclusive && holders.iter().any(another),
            mixed: holders.len() > 1 && holders.iter().any(|holder| holder.mode.is_some()),
            vacant: false,
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
    /// What is left of the key's time at `now`, by our own deadline.
    pub fn ttl(&self, now: Time) -> Ttl {
        self.key_expires().map_or(Ttl::Never, |expires| Ttl::In(expires.since(now)))
    }

    /// What is left of the lock's own time at `now`: of its key's, or of the last of its holders'.
    pub fn left(&self, now: Time) -> Ttl {
        self.expires.map_or(Ttl::Never, |expires| Ttl::In(expires.since(now)))
    }

    /// Whether it is a number that goes up and down: by INCR or DECR, as the events say that the look is newer than, or
    /// written anew; and whether it can be nothing else.
    fn was_counted(&self, seen: &Seen, events_until: u64) -> bool {
        let is_number = matches!(seen, Seen::Present { value, .. } if counter::number(value).is_some());
        let written = |pending: &Pending| {
            let heard = &pending.events[..pending.until(events_until)];
            heard.iter().any(|(event, _)| *event == KeyEvent::Written)
        };
        let heard =
            |pending: &Pending| pending.events[..pending.until(events_until)].iter().any(|(event, _)| event.ends());
        let over = self.pending.as_deref().is_some_and(heard);
        let stepped = |value: &RawValue| self.is_held() && !over && counter::steps(&self.value, value);
        let counts = |value: &RawValue| counter::is_spent(value) || stepped(value);
        is_number && self.pending.as_deref().is_some_and(written)
            || matches!(seen, Seen::Present { value, .. } if counts(value))
    }

    /// When it was taken, if its TTL has not been set yet (SETNX, then EXPIRE).
    fn begun(&self) -> Option<Time> {
        let waits = self.is_held() && self.expires.is_none() && self.since_is == HeldIs::Exact;
        waits.then_some(self.since)
    }

    /// The full lease shows right after it was given: what is left then, plus the little that has passed.
    fn learn_lease(&mut self, expires: Option<Time>, answered: Time, steps: &[Occurrence], extended: bool) {
        let given_at = steps.iter().rev().find_map(|step| match step {
            Occurrence::Begin { at, exact: true } | Occurrence::Renew { at } | Occurrence::Take { at } => Some(*at),
            _ => None,
        });
        let Some(expires) = expires else {
            self.lease_ms = None;
            return;
        };
        let left = expires.since(answered).as_millis() as u64;
        if let Some(at) = given_at {
            let full = left + answered.since(at).as_millis() as u64;
            // The same lease given again and seen a little later must not look shorter.
            let before = self.lease_ms().unwrap_or(0);
            let full = rounded(full);
            let full = if full < before && full * 10 > before * 9 { before } else { full };
            (self.lease_ms, self.lease_is) = (u32::try_from(full).ok(), HeldIs::Exact);
        } else if extended {
            let full = rounded(left).max(self.lease_ms().unwrap_or(0));
            (self.lease_ms, self.lease_is) = (u32::try_from(full).ok(), HeldIs::Exact);
        }
    }

    /// Of a lease that nobody saw being given it is known that it is at least what is left; where the value says when it
    /// was taken, what has passed belongs to it too.
    fn bound_lease(&mut self, expires: Option<Time>, answered: Time, told_when_taken: bool) {
        let (Some(expires), None) = (expires, self.lease_ms()) else { return };
        let told = self.since_is == HeldIs::Estimated && told_when_taken && self.beats.is_none();
        let (from, is) = if told { (self.since, HeldIs::Estimated) } else { (answered, HeldIs::AtLeast) };
        let least = nearly_round(expires.since(from).as_millis() as u64).max(self.lease_ms.map_or(0, u64::from));
        (self.lease_ms, self.lease_is) = (u32::try_from(least).ok(), is);
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

/// The next round number, where next to nothing is missing: nobody chooses a lease of 23 h 59 min.
fn nearly_round(ms: u64) -> u64 {
    let up_to = |step: u64| Some(ms.next_multiple_of(step)).filter(|up| (up - ms) * 1_000 <= *up);
    [3_600_000, 60_000, 10_000, 1_000].into_iter().find_map(up_to).unwrap_or(ms)
}

/// Whether a holder that stayed had its own end moved ahead; `None` where none of them has one.
fn prolonged(before: &[Holder], after: &[Holder]) -> Option<bool> {
    let ends = |holder: &Holder| holder.until.is_some();
    let stayed = |holder: &Holder| before.iter().any(|old| old.token == holder.token && ends(old));
    after.iter().any(|holder| ends(holder) && stayed(holder)).then(|| ahead(before, after).next().is_some())
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
