//! What one read of a key found, compared with what was known of the lock.
//!
//! It knows only the lock and the answer: neither the other locks nor what events have said. What happened follows from
//! both in `resolve.rs`; what of it is kept, in `settle.rs`.

use std::time::Duration;

use crate::base::time::{Time, Ttl};
use crate::dialects::{self, Best, Recogniser, Strength, counter, shape};
use crate::lock::{Holder, Key, Kind, Mode, RawValue, Token};
use crate::model::history::Beats;
use crate::model::lock::{OwnEnds, Pending, Phase, Reading};
use crate::model::table::resolve::{KeyState, Occurrence};
use crate::model::{HeldIs, KeyEvent, Lock, Seen};

/// A deadline that moved by less was not renewed; the difference is measuring error.
const JUMP_MS: i64 = 250;

/// One read of a key beside what was known.
pub(super) struct Comparison {
    found: Found,
    /// Who held it when it was last looked at; some of them may have ended since.
    pub before: Vec<Holder>,
    pub after: Vec<Holder>,
    pub was_held: bool,
    /// It was held, and not vacant.
    pub was_manned: bool,
    vacant: bool,
    pub look: KeyState,
    /// Those who hold it now could have held it beside those before.
    pub beside: bool,
    /// Its time was moved ahead since the last look.
    pub extended: bool,
    /// Whether a holder's own end was; `None` where holders have none.
    pub prolonged: Option<bool>,
    /// Our own write set the deadline that it has now.
    pub lent: bool,
    /// When its time is up now.
    expires: Option<Time>,
    own_ends: Option<OwnEnds>,
}

/// The key exists, and is no lock.
pub(super) struct Foreign {
    pub value: RawValue,
    /// Who held it, if it was one.
    pub before: Vec<Holder>,
}

impl Comparison {
    /// Also decides whether the lock is a counter, by the events up to `events_until`.
    pub fn of(
        lock: &mut Lock,
        seen: Seen,
        answered: Time,
        events_until: u64,
        recogniser: &Recogniser,
    ) -> Result<Comparison, Foreign> {
        let (was_held, counted) = (lock.is_held(), lock.counts);
        let was_manned = was_held && lock.reading.is_some_and(|reading| !reading.vacant);
        lock.counts |= lock.was_counted(&seen, events_until);
        let counts = lock.counts && lock.reading.is_none_or(|reading| reading.strength < Strength::Sure);
        let before = if was_held && !counts { lock.holders(recogniser, lock.confirmed) } else { Vec::new() };
        let found = match seen {
            Seen::Absent => Found::Nothing,
            Seen::Present { value, ttl } if was_held && lock.value == value && lock.counts == counted => {
                let ended = before.iter().any(|holder| holder.until.is_some_and(|until| until <= answered));
                Found::Unchanged { ttl, left: ended.then(|| lock.holders(recogniser, answered)) }
            }
            Seen::Present { value, ttl } => match recogniser.read(lock.key.as_bytes(), &value, ttl, answered) {
                Some(best) if lock.counts => {
                    let best = recogniser.read_counter(best, lock.key.as_bytes(), &value, ttl, answered);
                    Found::Lock { value, ttl, best: Box::new(best) }
                }
                Some(best) => Found::Lock { value, ttl, best: Box::new(best) },
                None => return Err(Foreign { value, before }),
            },
        };
        let mut after = found.holders(&before);
        if let Found::Lock { value, .. } = &found {
            keep_ends(&before, &mut after, &lock.value, value);
        }
        let vacant = found.is_vacant(lock, &after);
        let look = found.look(was_manned, vacant, &before, &after);
        let beside = found.is_beside(lock.reading, &before, &after);
        // A count that is written again with its TTL is not renewed by anybody.
        let prolonged = prolonged(&before, &after).or(counts.then_some(false));
        let key_expires = found.ttl().and_then(Ttl::remaining).map(|left| answered + left);
        let ends = found.own_ends(lock, &after, key_expires, answered);
        let is_lent = |expires| lock.ours.as_ref().is_some_and(|ours| ours.is_lent(expires));
        let lent = is_lent(key_expires);
        let extended = match (lock.key_expires(), key_expires) {
            // A holder that renews sets back the deadline that we gave it.
            (Some(old), Some(new)) if is_lent(Some(old)) && !lent => (new.0 - old.0).abs() > JUMP_MS,
            (Some(old), Some(new)) => !lent && new.0 > old.0 + JUMP_MS,
            _ => false,
        };
        Ok(Comparison {
            expires: ends.map_or(key_expires, |(_, last)| last),
            own_ends: ends.map(|(own, _)| own),
            found,
            before,
            after,
            was_held,
            was_manned,
            vacant,
            look,
            beside,
            extended,
            prolonged,
            lent,
        })
    }

    /// The key exists.
    pub fn is_held(&self) -> bool {
        self.found.ttl().is_some()
    }

    /// The holders who stay, and whose own end was moved ahead: they have renewed.
    pub fn renewing(&self) -> impl Iterator<Item = &Holder> {
        ahead(&self.before, &self.after)
    }

    /// Who held it alone before several do, or does now after several did.
    pub fn alone(&self) -> Option<&Holder> {
        match (&self.before[..], &self.after[..]) {
            ([one], [_, _, ..]) | ([_, _, ..], [one]) => Some(one),
            _ => None,
        }
    }

    /// The lease was given with the last of these steps, which was reported up to `behind` late. If the whole lease is
    /// known, what is left of it says when; else it is not known when the lock was taken. A renewal is later than the
    /// one before it, whatever the deadlines say to the millisecond.
    pub fn tell_when_given(&self, lock: &Lock, steps: &mut [Occurrence], behind: Duration) {
        let given = self.expires.zip(lock.lease_ms()).map(|(expires, ms)| expires - Duration::from_millis(ms));
        let gives = |step: &&mut Occurrence| {
            matches!(step, Occurrence::Begin { exact: true, .. } | Occurrence::Renew { .. } | Occurrence::Take { .. })
        };
        let after_last = lock.beats().and_then(Beats::last).map(|last| last + Duration::from_millis(1));
        match steps.iter_mut().rev().find(gives) {
            Some(Occurrence::Renew { at }) => {
                let given = given.filter(|given| (*at - behind..=*at).contains(given));
                *at = given.map_or(*at, |given| given.max(after_last.unwrap_or(given)).min(*at));
            }
            Some(Occurrence::Take { at }) => {
                *at = given.filter(|given| (*at - behind..=*at).contains(given)).unwrap_or(*at);
            }
            Some(Occurrence::Begin { at, exact }) => {
                let given = given.filter(|given| (*at - behind..=*at).contains(given));
                (*at, *exact) = (given.unwrap_or(*at), given.is_some());
            }
            _ => {}
        }
    }

    /// What happened to a lock whose holder goes on at another node, or on the way there. Events tell of the move as
    /// of an acquire and a release, so only the deadlines show a renewal.
    pub fn go_on(&self, moved: bool, at: Time) -> Vec<Occurrence> {
        let renewed = self.extended || self.prolonged == Some(true);
        let moved = moved.then_some(Occurrence::Move { at });
        moved.into_iter().chain(renewed.then_some(Occurrence::Renew { at })).collect()
    }

    /// Stores in the lock what was found.
    pub fn store(self, lock: &mut Lock, steps: &[Occurrence], answered: Time, test: bool) {
        let told_when_taken = self.found.tells_when_taken(lock.reading);
        if self.is_held() {
            let begins = |step: &Occurrence| matches!(step, Occurrence::Begin { .. } | Occurrence::Take { .. });
            let first_ttl = self.was_manned && lock.expires().is_none() && !steps.iter().any(begins);
            let shortened = |old: Time| self.expires.is_some_and(|new| new.0 + JUMP_MS < old.0);
            if !self.lent && lock.has_one_holder() && lock.expires().is_some_and(shortened) {
                // Another lease was given, which nobody saw: the old one says nothing of it.
                lock.set_lease(None);
            }
            // The holder with the most time left is gone. That shows nothing about the leases of those who stay.
            let is_bound = lock.lease().is_some_and(|(_, is)| is == HeldIs::AtLeast);
            if is_bound && self.own_ends.is_some() && self.expires < lock.expires() {
                lock.set_lease(None);
            }
            if !self.lent || first_ttl {
                let ahead = self.extended || self.prolonged == Some(true);
                lock.learn_lease(self.expires, answered, steps, ahead || first_ttl);
            }
            lock.learn_age(&self.after);
            lock.bound_lease(self.expires, answered, told_when_taken);
            lock.learn_bare(first_ttl && !self.lent && self.expires.is_some(), answered);
            lock.expires = self.expires.into();
            lock.own_ends = self.own_ends.map(Box::new);
            lock.phase = Phase::Held;
        }
        if let Found::Lock { value, best, .. } = self.found {
            lock.reading = Some(Reading::of(&best, &lock.key, &value, test));
            lock.value = value;
        }
        if let Some(reading) = &mut lock.reading {
            reading.vacant = self.vacant;
        }
        lock.keep_period();
    }
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
        // A bare counter of permits names nobody, but it is held while a permit is in use.
        let free = |(kind, mode, value): (Kind, Mode, &RawValue)| {
            let counts = mode == Mode::Permit && matches!(value, RawValue::Str { .. });
            let in_use = lock.key_expires().is_some() || self.ttl().is_some_and(|ttl| ttl != Ttl::Never);
            kind == Kind::Lock && (!counts || in_use && counter::is_spent(value))
        };
        after.is_empty() && read.is_some_and(free)
    }

    /// Whether the value is a string: a time in it ends nothing, the key stays.
    fn is_bare(&self, known: &RawValue) -> bool {
        match self {
            Found::Nothing => false,
            Found::Unchanged { .. } => matches!(known, RawValue::Str { .. }),
            Found::Lock { value, .. } => matches!(value, RawValue::Str { .. }),
        }
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
        if matches!(self, Found::Nothing) || self.is_bare(&lock.value) {
            return None;
        }
        let ends = || after.iter().filter_map(|holder| holder.until).filter(|until| *until > now);
        let first = ends().min()?;
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

    fn is_beside(&self, was: Option<Reading>, before: &[Holder], after: &[Holder]) -> bool {
        let (Found::Lock { best, .. }, Some(was)) = (self, was) else { return false };
        let shared = |mode: Mode| matches!(mode, Mode::Read | Mode::Permit);
        let dialect = dialects::dialect(best.dialect);
        let item = |holder: &Holder| dialect.item_of(holder.token.as_bytes()).map(<[u8]>::to_vec);
        let apart = |one: &Holder| item(one).is_some() && after.iter().all(|other| item(one) != item(other));
        shared(was.mode) && shared(best.claim.mode) || before.iter().all(apart)
    }
}

impl Reading {
    fn of(best: &Best, key: &Key, value: &RawValue, test: bool) -> Reading {
        let holders = &best.claim.holders;
        let another = |holder: &Holder| {
            (&holder.client, &holder.thread) != (&holders[0].client, &holders[0].thread) && holder.until.is_some()
        };
        let dialect = dialects::dialect(best.dialect);
        let is_item = |holder: &Holder| dialect.item_of(holder.token.as_bytes()).is_some();
        Reading {
            test,
            counts: best.claim.mode == Mode::Permit && holders.is_empty() && matches!(value, RawValue::Str { .. }),
            several: best.claim.mode == Mode::Exclusive && holders.iter().any(|one| another(one) || is_item(one)),
            mixed: holders.len() > 1 && holders.iter().any(|holder| holder.mode.is_some()),
            vacant: false,
            dialect: best.dialect,
            kind: best.claim.kind,
            mode: best.claim.mode,
            strength: best.claim.strength,
            second: best.second,
            stays: dialect.stays(key.as_bytes()),
            dated: shape::may_tell_a_time(value),
        }
    }
}

impl Lock {
    /// Whether it is a number that goes up and down: by INCR or DECR, as the events say that the look is newer than, or
    /// written again; and whether it can be nothing else.
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
}

/// A holder whose entry in a sorted set is unchanged was given nothing: where its end follows from the TTL of the whole,
/// which another one has set, that reads later than it is, and never earlier.
fn keep_ends(before: &[Holder], after: &mut [Holder], was: &RawValue, is: &RawValue) {
    let (RawValue::Zset { members: was, .. }, RawValue::Zset { members: is, .. }) = (was, is) else { return };
    let score = |members: &[(Box<[u8]>, f64)], token: &Token| {
        members.iter().find(|(member, _)| **member == *token.as_bytes()).map(|(_, score)| *score)
    };
    for holder in after {
        let Some(old) = before.iter().find(|old| old.token == holder.token) else { continue };
        if score(was, &holder.token).is_some() && score(was, &holder.token) == score(is, &holder.token) {
            holder.until = [old.until, holder.until].into_iter().flatten().min();
        }
    }
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
