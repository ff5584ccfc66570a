//! One lock as the table keeps it: small, since there may be a million of them.

use std::sync::Arc;
use std::time::Duration;

use crate::base::time::{MaybeTime, Time, Ttl};
use crate::dialects::{self, DialectId, Recogniser, Renewal, Sight, Strength};
use crate::lock::{Holder, Key, KeyspaceId, Kind, Mode, NodeId, RawValue};
use crate::model::held_by::HeldBy;
use crate::model::history::cadence::{self, Cadence, Rhythm};
use crate::model::history::holds::GroupId;
use crate::model::history::{Beats, Hold, Past};
use crate::model::table::ours::Ours;
use crate::model::verdict::judge::is_watchdog;
use crate::model::{Contention, Former, HeldIs, KeyEvent, Loss, OwnWrite, Waits};

/// Whether somebody holds it, as far as we know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// An event named it; nothing was read yet.
    Unread,
    Held,
    Gone,
    /// Gone, and listed: the server lost it, and its holder may not know.
    Lost,
}

/// How the value was read, without the holders: those are decoded again when they are needed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reading {
    pub dialect: DialectId,
    pub kind: Kind,
    pub mode: Mode,
    pub strength: Strength,
    pub second: Option<(DialectId, Strength)>,
    /// The key is there, but nobody holds it: a semaphore with all permits back, a writer that only waits.
    pub vacant: bool,
    /// All its holders are test locks of lockscope.
    pub test: bool,
    /// It has holders that shut each other out: a reader beside a writer.
    pub mixed: bool,
    /// It is a number that counts permits: nobody is named by it.
    pub counts: bool,
    /// It has items, each with a holder of its own.
    pub several: bool,
    /// It stays on purpose when the work is done, or the one who took it need not be the one who works.
    pub stays: bool,
    /// Its value may contain a time. Kept here because every verdict asks, and the value itself lies elsewhere in memory.
    pub dated: bool,
}

impl Reading {
    /// Held by one at a time.
    pub fn is_alone(&self) -> bool {
        matches!(self.mode, Mode::Exclusive | Mode::Write) && !self.several
    }
}

/// Events that can be understood only after the key is read.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub events: Vec<(KeyEvent, Time)>,
    told: Vec<Told>,
    /// Events dropped because too many came between two reads.
    pub skipped: u32,
    /// Each may have happened at most this long before it was reported.
    pub behind: Duration,
}

/// How an event came.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Told {
    /// The sequence of the table.
    pub seq: u64,
    /// By a node that did not own the key, as far as was known.
    pub beside: bool,
}

impl Pending {
    const KEPT: usize = 48;

    pub fn push(&mut self, event: KeyEvent, at: Time, told: Told, behind: Duration) {
        self.behind = self.behind.max(behind);
        if self.events.len() == Self::KEPT {
            // The newest events say how it ended; a flood between two reads loses its middle, and the loss is counted.
            self.events.drain(8..24);
            self.told.drain(8..24);
            self.skipped += 16;
        }
        self.events.push((event, at));
        self.told.push(told);
    }

    /// How many of the events had come when the table was at `seq`.
    pub fn until(&self, seq: u64) -> usize {
        self.told.partition_point(|told| told.seq <= seq)
    }

    /// Those of the first `count` that the owner of the key told; `None`: all of them.
    pub fn of_owner(&self, count: usize) -> Option<Vec<(KeyEvent, Time)>> {
        let told = &self.told[..count];
        let by_owner = |(event, told): (&(KeyEvent, Time), &Told)| (!told.beside).then_some(*event);
        told.iter().any(|told| told.beside).then(|| self.events.iter().zip(told).filter_map(by_owner).collect())
    }

    /// Removes the first `count`; returns whether any are left.
    pub fn take(&mut self, count: usize) -> bool {
        self.events.drain(..count);
        self.told.drain(..count);
        !self.events.is_empty()
    }
}

/// What else ends where the holders of a lock have ends of their own.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct OwnEnds {
    /// When the key's time is up; `None`: it has no TTL.
    pub key: Option<Time>,
    /// When the first of the holders ends.
    pub first: Time,
}

/// A lock and what is known of it.
#[derive(Debug)]
pub struct Lock {
    pub space: KeyspaceId,
    /// Where it was last seen.
    pub node: NodeId,
    pub key: Key,
    pub(super) phase: Phase,
    pub(super) reading: Option<Reading>,
    pub(super) value: RawValue,
    /// When its time is up: that of its key, or the end of the last of its holders where each has one; `None`: never.
    pub(super) expires: MaybeTime,
    /// Where holders have ends of their own.
    pub(super) own_ends: Option<Box<OwnEnds>>,
    lease_ms: u32,
    /// How well the lease is known; `None`: not at all.
    lease_is: Option<HeldIs>,
    pub(super) first_seen: Time,
    /// When the current hold began, or was first seen.
    pub(super) since: Time,
    pub(super) since_is: HeldIs,
    /// When the read was sent whose answer is stored here.
    pub(super) asked: Time,
    pub(super) confirmed: Time,
    /// Table sequence of the newest event.
    pub(super) event_seq: u64,
    pub(super) pending: Option<Box<Pending>>,
    pub(super) beats: Option<Box<Beats>>,
    pub(super) held_by: HeldBy,
    pub(super) past: Option<Box<Past>>,
    pub(super) contention: Option<Box<Contention>>,
    /// What we wrote to it ourselves.
    pub(super) ours: Option<Box<Ours>>,
    /// When a read that no event explains was put off, so that its event can arrive.
    pub(super) surprised: MaybeTime,
    /// It is in the queue of keys to read.
    pub(super) queued: bool,
    /// When its entry in the deadline heap is due.
    pub(super) scheduled: MaybeTime,
    /// How many answers in a row were dropped because events overtook them.
    pub(super) overtaken: u8,
    pub(super) flushed: bool,
    /// It was taken, and the event of its EXPIRE has not come yet.
    pub(super) bare: bool,
    /// It is a number that was seen to go up or down: a counter, which nobody holds.
    pub(super) counts: bool,
    /// The group whose statistics it shares.
    pub(super) group: GroupId,
    /// How often its key has gone; outdated entries of the queue of gone locks do not match it.
    pub(super) left: u32,
    /// Incremented when the slot gets another lock, so that old tickets no longer match.
    pub(super) generation: u32,
}

impl Lock {
    pub(super) fn new((space, node): (KeyspaceId, NodeId), key: Key, at: Time, generation: u32) -> Lock {
        Lock {
            space,
            node,
            key,
            phase: Phase::Unread,
            reading: None,
            value: RawValue::Other("none".into()),
            expires: MaybeTime::NONE,
            own_ends: None,
            lease_ms: 0,
            lease_is: None,
            first_seen: at,
            since: at,
            since_is: HeldIs::AtLeast,
            asked: Time(i64::MIN),
            confirmed: Time(i64::MIN),
            event_seq: 0,
            pending: None,
            beats: None,
            held_by: HeldBy::Nobody,
            past: None,
            contention: None,
            ours: None,
            surprised: MaybeTime::NONE,
            queued: false,
            scheduled: MaybeTime::NONE,
            overtaken: 0,
            flushed: false,
            bare: false,
            counts: false,
            group: GroupId::default(),
            left: 0,
            generation,
        }
    }

    /// Only events have named it so far, and nothing of it was ever read.
    pub(super) fn is_unheard_of(&self) -> bool {
        self.phase == Phase::Unread && self.reading.is_none() && self.ours.is_none()
    }

    pub fn is_held(&self) -> bool {
        self.phase == Phase::Held
    }

    /// Nobody holds it on the server, and it is listed nevertheless: its holder may not know.
    pub fn is_lost(&self) -> bool {
        self.phase == Phase::Lost
    }

    /// How the server lost it, and whose hold that was, as long as that one may believe in it.
    pub(in crate::model) fn loss(&self, now: Time) -> Option<(&Former, &Loss)> {
        let former =
            self.contention()?.former.as_ref().filter(|former| former.until.is_none_or(|until| until > now))?;
        former.lost.as_ref().map(|loss| (former, loss))
    }

    /// One alone holds it right now, though others could beside it. Of a lock that several hold, what is seen of one hides
    /// what the others do.
    pub fn has_one_holder(&self) -> bool {
        self.held_by.one().is_some() || self.reading.is_some_and(|reading| reading.is_alone())
    }

    /// It has an end and is not renewed, and its library is used by processes that are short and leave it.
    pub(super) fn is_left_by_processes(&self) -> bool {
        let left = self.reading.is_some_and(|reading| dialects::dialect(reading.dialect).is_left_by_processes());
        left && self.beats.is_none() && self.expires().is_some()
    }

    /// What a dialect gets to see of it: what it was when it was read, it is still.
    pub fn sight(&self, now: Time) -> Sight<'_> {
        Sight {
            key: self.key.as_bytes(),
            value: &self.value,
            ttl: self.ttl(now),
            now,
            given: true,
            dialect_given: true,
        }
    }

    /// The holders at `now`, decoded from the stored value.
    pub(super) fn holders(&self, recogniser: &Recogniser, now: Time) -> Vec<Holder> {
        let claim = |reading: Reading| {
            recogniser.claim_as(reading.dialect, self.key.as_bytes(), &self.value, self.ttl(now), now)
        };
        let claim = self.reading.filter(|reading| !reading.counts).and_then(claim);
        claim.map(|claim| claim.holders).unwrap_or_default()
    }

    pub fn value(&self) -> &RawValue {
        &self.value
    }

    pub fn reading(&self) -> Option<Reading> {
        self.reading
    }

    /// When its time is up; `None`: it has no end.
    pub fn expires(&self) -> Option<Time> {
        self.expires.get()
    }

    /// When the time is up that its holder gave it: what an operator added does not count. `None`: not known, or never.
    pub(in crate::model) fn given_until(&self) -> Option<Time> {
        let instead = self.ours.as_ref().and_then(|ours| ours.given_instead(self.key_expires()));
        instead.unwrap_or(self.expires())
    }

    /// When the time of its key is up; `None`: that has no TTL.
    pub(in crate::model) fn key_expires(&self) -> Option<Time> {
        self.own_ends.as_ref().map_or(self.expires(), |own| own.key)
    }

    /// What is left of the key's time at `now`, by our own deadline.
    pub fn ttl(&self, now: Time) -> Ttl {
        self.key_expires().map_or(Ttl::Never, |expires| Ttl::In(expires.since(now)))
    }

    /// What is left of the lock's own time at `now`: of its key's, or of the last of its holders'.
    pub fn left(&self, now: Time) -> Ttl {
        self.expires().map_or(Ttl::Never, |expires| Ttl::In(expires.since(now)))
    }

    /// When something of it ends next: its key, or one of its holders.
    pub(super) fn next_end(&self) -> Option<Time> {
        let first = self.own_ends.as_ref().map(|own| own.first);
        [first, self.key_expires()].into_iter().flatten().min()
    }

    /// The whole lease, where it was seen being given.
    pub fn lease_ms(&self) -> Option<u64> {
        self.lease().filter(|(_, is)| *is == HeldIs::Exact).map(|(ms, _)| ms)
    }

    /// The lease, and how well it is known: it is at least what was left at the first look.
    pub fn lease(&self) -> Option<(u64, HeldIs)> {
        self.lease_is.map(|is| (u64::from(self.lease_ms), is))
    }

    /// Keeps a lease; one of more than seven weeks counts as unknown.
    pub(super) fn set_lease(&mut self, lease: Option<(u64, HeldIs)>) {
        let kept = lease.and_then(|(ms, is)| Some((u32::try_from(ms).ok()?, is)));
        (self.lease_ms, self.lease_is) = (kept.map_or(0, |(ms, _)| ms), kept.map(|(_, is)| is));
    }

    /// The holds before the current one, oldest first.
    pub fn past(&self) -> impl DoubleEndedIterator<Item = &Hold> {
        self.past.iter().flat_map(|past| past.iter())
    }

    /// How many wait for it, if counted recently.
    pub fn waits(&self, now: Time) -> Option<Waits> {
        self.contention()?.waits.filter(|waits| waits.is_fresh(now))
    }

    /// What is known about those who want it; `None` if nothing is.
    pub fn contention(&self) -> Option<&Contention> {
        self.contention.as_deref()
    }

    /// The period that its library is known for, if it renews.
    pub fn expected_ms(&self) -> Option<u64> {
        let share = match dialects::dialect(self.reading?.dialect).renewal() {
            Renewal::Watchdog { share } => share,
            Renewal::Optional { share } if self.beats.is_some() => share,
            _ => return None,
        };
        Some((self.lease_ms()? as f64 * f64::from(share)) as u64)
    }

    /// The rhythm of the renewals of the current hold; `None` until there is one.
    pub fn cadence(&self, now: Time) -> Option<Cadence> {
        let beats = self.beats()?;
        let cadence = cadence::judge(beats.given(self.taken()), self.expected_ms(), self.expires(), now)?;
        let cadence = match self.latest_ms() {
            Some(latest) => cadence.at_the_latest(latest, now),
            None => cadence,
        };
        Some(match beats.resumed {
            Some(resumed) => cadence.resumed(resumed, now),
            None => cadence,
        })
    }

    /// The part of the cadence that every verdict needs.
    pub fn rhythm(&self, now: Time) -> Option<Rhythm> {
        let beats = self.beats()?;
        debug_assert_eq!(beats.period_ms, self.period_ms(), "the period was not kept in step");
        self.rhythm_by(beats, now)
    }

    /// Whether a renewal at that time is later than the rhythm before it lets expect.
    pub(super) fn is_late(&self, at: Time) -> bool {
        let rhythm = self.beats().and_then(|beats| self.rhythm_by(beats, at));
        rhythm.is_some_and(|rhythm| rhythm.missed > 0 && is_watchdog(self, rhythm.period_ms))
    }

    fn rhythm_by(&self, beats: &Beats, now: Time) -> Option<Rhythm> {
        let rhythm = Rhythm::at(beats.period_ms?, beats.last()?, now);
        // Nearly all have missed nothing: only the others are asked what their library permits.
        let latest = if rhythm.missed > 0 { self.latest_ms() } else { None };
        let rhythm = latest.map_or(rhythm, |latest| rhythm.at_the_latest(latest, now));
        Some(match beats.resumed {
            Some(resumed) => rhythm.resumed(resumed, now),
            None => rhythm,
        })
    }

    /// How many renewals it had missed at that time.
    pub(super) fn missed_at(&self, at: Time) -> u64 {
        self.beats().and_then(|beats| self.rhythm_by(beats, at)).map_or(0, |rhythm| rhythm.missed)
    }

    /// When its next renewal must come at the latest, where the library may leave one out.
    fn latest_ms(&self) -> Option<u64> {
        let may_skip = self.reading.is_some_and(|reading| dialects::dialect(reading.dialect).may_skip_a_beat());
        if may_skip { self.expected_ms() } else { None }
    }

    /// Computes the cached period again, after something that it depends on has changed.
    pub(super) fn keep_period(&mut self) {
        let period_ms = self.period_ms();
        if let Some(beats) = &mut self.beats {
            beats.period_ms = period_ms;
        }
    }

    fn period_ms(&self) -> Option<u64> {
        cadence::period_ms(self.beats()?.given(self.taken()), self.expected_ms())
    }

    /// Who held it when it was freed and may be put back, as long as it is free.
    pub(super) fn freed_holders(&self) -> Option<&HeldBy> {
        let freed = self.ours.as_ref().filter(|_| self.phase == Phase::Gone)?.freed.as_ref()?;
        Some(&freed.held_by)
    }

    /// Our last write to the current hold.
    pub fn own_write(&self) -> Option<&(Time, Arc<OwnWrite>)> {
        self.ours.as_ref()?.last.as_ref()
    }

    /// When it was taken, if that was seen.
    pub fn taken(&self) -> Option<Time> {
        Some(self.since).filter(|_| self.since_is == HeldIs::Exact)
    }

    /// The renewals of the current hold.
    pub fn beats(&self) -> Option<&Beats> {
        self.beats.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_stays_small() {
        // The figure `memory` of the benchmark rises by what this does, for each of a million locks.
        assert!(size_of::<Option<Lock>>() <= 216, "{} bytes", size_of::<Option<Lock>>());
    }
}
