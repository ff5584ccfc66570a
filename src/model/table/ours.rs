//! Distinguishes our own writes to a lock from what others do to it.
//!
//! A write is announced before it is sent and reported when its outcome is known. In between, nothing is concluded about
//! the lock, because the notification of our write may arrive before the server's answer does. After that, an event is
//! ours only if a confirmed write explains it: of the right kind, not from before the write was sent, and only once.
//! Everything else was done by others.

use std::sync::Arc;
use std::time::Duration;

use crate::base::time::Time;
use crate::lock::{Holder, Key, NodeId, Token};
use crate::model::held_by::HeldBy;
use crate::model::history::holds::Over;
use crate::model::table::Table;
use crate::model::table::resolve::KeyState;
use crate::model::wants::instance::HolderId;
use crate::model::{Act, Beats, HeldIs, KeyEvent, OwnWrite};

/// How long to wait for the outcome of an announced write.
const OUTCOME: Duration = Duration::from_secs(15);
/// How long after the answer a notification can still belong to the write.
const LATE: Duration = Duration::from_secs(5);
/// At most this many writes whose notifications may still come are kept.
const KEPT: usize = 8;
/// At most this many leases beside one lock, and holders that were taken out of it, are kept.
const LEASES: usize = 64;
/// Two readings of the same deadline differ by at most this.
const GRAIN: Duration = Duration::from_millis(250);

/// What we did to one lock.
#[derive(Debug, Default)]
pub(in crate::model) struct Ours {
    /// When a write was announced whose outcome is still unknown.
    announced: Option<Time>,
    done: Vec<Done>,
    /// Events of leases beside the lock, while nobody knows whether they are ours.
    leases: Vec<LeaseEvent>,
    /// The hold that we ended, or that somebody else took away from a silent holder, in case it is put back.
    pub freed: Option<Freed>,
    /// The renewals of those whom we took out of a lock that others hold on, in case they are put back.
    parted: Vec<(HolderId, Box<Beats>)>,
    /// The earliest and the latest possible value of the deadline that we set.
    lent: Option<(Time, Time)>,
    /// The deadline that its holder had given it before.
    given: Option<Time>,
    /// The last release.
    pub forced: Option<Arc<OwnWrite>>,
    /// The last other write to the current hold.
    pub last: Option<(Time, Arc<OwnWrite>)>,
}

/// A hold that was ended, and may be put back.
#[derive(Debug)]
pub(in crate::model) struct Freed {
    pub holder: Option<Token>,
    pub since: Time,
    pub since_is: HeldIs,
    pub beats: Option<Box<Beats>>,
    /// Its holders, where there were several, with the renewals of each.
    pub held_by: HeldBy,
    pub lease: Option<(u64, HeldIs)>,
    /// What it added to the statistics of its name pattern.
    pub counted: Over,
}

/// A confirmed write.
#[derive(Debug)]
struct Done {
    write: Arc<OwnWrite>,
    sent: Time,
    answered: Time,
    /// The change is already part of the lock's history.
    settled: bool,
    /// Holders of a shared lock whose change is not reported yet.
    left: Vec<Token>,
    /// Its events that have not come yet.
    due: Vec<KeyEvent>,
    /// The last event of the key was one of these.
    running: bool,
    /// The leases beside the lock that it extended, as far as events have shown it.
    extended: Vec<Key>,
}

/// The lease of one of several holders, in a key beside the lock, was given or renewed.
#[derive(Debug)]
pub(in crate::model) struct LeaseEvent {
    pub lease: Key,
    pub holder: Token,
    pub at: Time,
}

/// A write that no event has reported yet, as the event that it will cause.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::model) struct Unseen {
    pub event: KeyEvent,
    pub at: Time,
    /// The read confirms it. Otherwise events on their way explain better what happened.
    pub fits: bool,
}

impl Unseen {
    /// Inserts it at its place among the events that were heard.
    pub fn among(self, heard: &[(KeyEvent, Time)]) -> Vec<(KeyEvent, Time)> {
        let mut events = heard.to_vec();
        events.insert(heard.partition_point(|(_, at)| *at <= self.at), (self.event, self.at));
        events
    }
}

impl Ours {
    /// Whether the outcome of a write is still pending.
    pub fn is_open(&self, now: Time) -> bool {
        self.announced.is_some_and(|at| now < at + OUTCOME)
    }

    /// `expires`: when the lock's time was up, as far as was known.
    fn report(&mut self, write: OwnWrite, sent: Time, answered: Time, expires: Option<Time>) {
        if let Act::Extend(by) = write.act {
            self.given = if self.is_lent(expires) { self.given } else { expires };
            self.lent = Some((sent + by, answered + by));
            self.note(answered, Arc::new(write.clone()));
        }
        if self.done.len() == KEPT {
            self.done.remove(0);
        }
        let due = match write.act {
            Act::Free { whole: true } => vec![KeyEvent::Del],
            Act::Free { whole: false } => vec![KeyEvent::Removed],
            Act::Extend(_) => vec![KeyEvent::Expire],
            Act::PutBack { .. } => vec![KeyEvent::New, KeyEvent::Set],
        };
        let whole = matches!(write.act, Act::Free { whole: true } | Act::PutBack { whole: true });
        let left = if whole { Vec::new() } else { write.holders.clone() };
        let settled = matches!(write.act, Act::Extend(_));
        self.done.push(Done {
            write: Arc::new(write),
            sent,
            answered,
            settled,
            left,
            due,
            running: false,
            extended: Vec::new(),
        });
    }

    /// The event as it counts: ours, if our write explains it. It was reported at `at`, and may have happened up to `behind`
    /// before.
    pub fn claim(&mut self, event: KeyEvent, at: Time, behind: Duration) -> KeyEvent {
        self.done.retain(|done| done.may_be_told(at, behind));
        let mut claimed = None;
        for done in &mut self.done {
            if claimed.is_none() && at >= done.sent {
                claimed = done.claim(event).map(|own| (own, at, done.write.clone()));
                done.running = claimed.is_some();
            } else {
                done.running = false;
            }
        }
        let Some((own, at, write)) = claimed else {
            if event.ends() {
                // That hold is over: later events belong to another one.
                self.done.iter_mut().filter(|done| !matches!(done.write.act, Act::Free { .. })).for_each(Done::close);
            }
            return event;
        };
        if own != KeyEvent::Other {
            self.note(at, write);
        }
        own
    }

    /// A lease beside the lock was given: returns it, unless by our own write, which gives each once. While a write is open
    /// nobody knows: then it is put off.
    pub fn took_lease(&mut self, event: LeaseEvent, behind: Duration) -> Option<LeaseEvent> {
        if self.is_open(event.at) && self.leases.len() < LEASES {
            self.leases.push(event);
            return None;
        }
        let ours = self.claim_lease(&event, behind);
        (!ours).then_some(event)
    }

    fn claim_lease(&mut self, event: &LeaseEvent, behind: Duration) -> bool {
        let extends = |done: &&mut Done| {
            let told = event.at >= done.sent && done.may_be_told(event.at, behind);
            told && matches!(done.write.act, Act::Extend(_)) && done.write.holders.contains(&event.holder)
        };
        let is_new = |done: &&mut Done| done.extended.len() < LEASES && !done.extended.contains(&event.lease);
        let extension = self.done.iter_mut().filter(extends).find(is_new);
        extension.map(|done| done.extended.push(event.lease.clone())).is_some()
    }

    /// A confirmed write that no event has shown yet.
    pub fn unseen(&self, asked: Time, look: KeyState, before: &[Holder], after: &[Holder]) -> Option<Unseen> {
        let done = self.done.iter().find(|done| !done.settled && asked >= done.answered)?;
        let named = |holder: &Holder| done.write.holders.contains(&holder.token);
        let (event, fits) = match done.write.act {
            Act::Free { whole: true } => (KeyEvent::Forced, look == KeyState::Absent),
            // The other holders may have left by themselves.
            Act::Free { whole: false } if !before.iter().all(named) => return None,
            Act::Free { whole: false } => (KeyEvent::Forced, look == KeyState::Absent),
            Act::PutBack { .. } => (KeyEvent::PutBack, after.iter().any(named)),
            Act::Extend(_) => return None,
        };
        Some(Unseen { event, at: done.answered, fits })
    }

    /// The write is part of the lock's history now; its events say nothing new.
    pub fn tell(&mut self, unseen: Unseen) {
        if let Some(done) = self.done.iter_mut().find(|done| !done.settled && done.answered == unseen.at) {
            done.settled = true;
            let write = done.write.clone();
            self.note(unseen.at, write);
        }
    }

    /// A read sent after these writes is settled: nothing about them is left to report.
    pub fn settled(&mut self, asked: Time) {
        for done in self.done.iter_mut().filter(|done| done.answered <= asked) {
            done.settled = true;
            done.left.clear();
        }
    }

    fn note(&mut self, at: Time, write: Arc<OwnWrite>) {
        match write.act {
            Act::Free { .. } => self.forced = Some(write),
            Act::Extend(_) | Act::PutBack { .. } => self.last = Some((at, write)),
        }
    }

    /// Whether we took this holder out of a shared lock.
    pub fn took_out(&mut self, token: &Token) -> bool {
        self.take_part(token, |act| matches!(act, Act::Free { .. })).is_some()
    }

    /// Whether we put this holder back into a shared lock.
    pub fn put_in(&mut self, token: &Token, at: Time) -> bool {
        let write = self.take_part(token, |act| matches!(act, Act::PutBack { .. }));
        let ours = write.is_some();
        self.last = write.map(|write| (at, write)).or(self.last.take());
        ours
    }

    fn take_part(&mut self, token: &Token, is_it: impl Fn(Act) -> bool) -> Option<Arc<OwnWrite>> {
        let mut fitting = self.done.iter_mut().filter(|done| is_it(done.write.act));
        fitting.find_map(|done| {
            let place = done.left.iter().position(|left| left == token)?;
            done.left.remove(place);
            done.settled = true;
            Some(done.write.clone())
        })
    }

    /// Keeps the renewals of a holder whom we took out, in case it is put back.
    pub fn part(&mut self, holder: HolderId, beats: Box<Beats>) {
        if self.parted.len() == LEASES {
            self.parted.remove(0);
        }
        self.parted.push((holder, beats));
    }

    /// The renewals of a holder whom we put back.
    pub fn rejoin(&mut self, holder: HolderId) -> Option<Box<Beats>> {
        let place = self.parted.iter().position(|(parted, _)| *parted == holder)?;
        Some(self.parted.remove(place).1)
    }

    /// The deadline that its holder gave it, if this one is ours; `None`: not known.
    pub fn given_instead(&self, expires: Option<Time>) -> Option<Option<Time>> {
        self.is_lent(expires).then_some(self.given)
    }

    /// Whether we set this deadline.
    pub fn is_lent(&self, expires: Option<Time>) -> bool {
        let ours = |at: Time, (earliest, latest): (Time, Time)| at + GRAIN >= earliest && at <= latest + GRAIN;
        expires.zip(self.lent).is_some_and(|(at, lent)| ours(at, lent))
    }

    /// Another hold begins.
    pub fn begin(&mut self) {
        (self.freed, self.forced, self.lent, self.last) = (None, None, None, None);
        (self.given, self.parted) = (None, Vec::new());
    }
}

impl Done {
    /// Whether an event that is reported at `at` may still be one of this write.
    fn may_be_told(&self, at: Time, behind: Duration) -> bool {
        at - behind <= self.answered + LATE
    }

    fn claim(&mut self, event: KeyEvent) -> Option<KeyEvent> {
        // Libraries use different types; both events mean one write of the hold.
        let kind = match event {
            KeyEvent::Written | KeyEvent::Joined | KeyEvent::Restored => KeyEvent::Set,
            KeyEvent::Left => KeyEvent::Removed,
            event => event,
        };
        let place = self.due.iter().position(|due| *due == kind)?;
        let follows = match self.write.act {
            Act::Free { whole: false } => matches!(event, KeyEvent::Del | KeyEvent::Expire),
            Act::PutBack { whole: false } => event == KeyEvent::Expire,
            _ => false,
        };
        if follows && !self.running {
            // A key that loses its last member is deleted at once, and one that keeps some, or gets one back, gets its TTL
            // at once: later, it is not ours.
            self.due.clear();
            return None;
        }
        self.due.remove(place);
        match (self.write.act, kind) {
            (Act::Free { whole: false }, KeyEvent::Removed) => self.due.extend([KeyEvent::Del, KeyEvent::Expire]),
            (Act::PutBack { whole: false }, KeyEvent::Set) => self.due.push(KeyEvent::Expire),
            _ => {}
        }
        let own = match self.write.act {
            Act::Free { .. } if event == KeyEvent::Del => KeyEvent::Forced,
            Act::PutBack { .. } => KeyEvent::PutBack,
            _ => return Some(KeyEvent::Other),
        };
        Some(if std::mem::replace(&mut self.settled, true) { KeyEvent::Other } else { own })
    }

    fn close(&mut self) {
        self.due.clear();
        self.settled = true;
    }
}

impl Table {
    /// A write of ours is about to be sent.
    pub(super) fn announce_write(&mut self, node: NodeId, key: Key, at: Time) {
        let space = self.space(node);
        let hash = self.slots.hash(space, key.as_bytes());
        let place = self.slots.find(hash, space, key.as_bytes()).or_else(|| self.insert(hash, (space, node), key, at));
        if let Some(lock) = place.and_then(|place| self.at(place)) {
            lock.ours.get_or_insert_default().announced = Some(at);
        }
    }

    /// The write is over. `None`: nothing was written, or the outcome is unknown, so no change is claimed.
    pub(super) fn report_write(
        &mut self,
        node: NodeId,
        key: &Key,
        write: Option<OwnWrite>,
        sent: Time,
        answered: Time,
    ) {
        let Some(place) = self.place_named(self.space(node), key.as_bytes()) else { return };
        let Some(lock) = self.slots.get_mut(place) else { return };
        let expires = lock.expires();
        let mut ours = lock.ours.take().unwrap_or_default();
        ours.announced = None;
        if let Some(write) = write.clone() {
            ours.report(write, sent, answered, expires);
            if let Some(pending) = &mut lock.pending {
                for (event, at) in &mut pending.events {
                    *event = ours.claim(*event, *at, pending.behind);
                }
            }
        }
        // What was put off until it was known whose it is.
        for event in std::mem::take(&mut ours.leases) {
            if !ours.claim_lease(&event, Duration::ZERO) {
                lock.beat(self.clients.holder_id(&event.holder), None, event.at);
            }
        }
        lock.ours = Some(ours);
        if let Some(write) = write {
            self.note_write(place, &write, answered);
        }
        self.enqueue(place);
    }
}
