//! Works out what happened to a lock, from its events and one read of its key.
//!
//! Events say what was done but not by whom; a read says who holds the lock but not how they got it. They arrive on
//! different connections, so either may be ahead of the other. [`resolve`] combines them. If a read shows something
//! that no event explains while events are flowing, it asks for another read in a moment: the event is on its way.

use crate::base::time::Time;
use crate::model::{Ending, KeyEvent};

/// One thing that happened, in order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::model) enum Occurrence {
    /// First seen, already held.
    Find,
    /// Taken. `exact`: at that time; else before it.
    Begin {
        at: Time,
        exact: bool,
    },
    Renew {
        at: Time,
    },
    /// Put back: the hold that was ended continues. `ours`: we did it; else somebody restored the key from a dump.
    PutBack {
        at: Time,
        ours: bool,
    },
    /// The holder changed without an end in between.
    Take {
        at: Time,
    },
    /// Another node owns it from now on; the hold continues.
    Move {
        at: Time,
    },
    End {
        at: Time,
        ending: Ending,
    },
}

impl Occurrence {
    /// The same hold continues.
    pub fn goes_on(&self) -> bool {
        matches!(self, Occurrence::Renew { .. } | Occurrence::Move { .. })
    }

    /// When it was renewed, if that is what happened.
    pub fn renewed(&self) -> Option<Time> {
        if let Occurrence::Renew { at } = self { Some(*at) } else { None }
    }

    /// When its holder did something: it took or renewed it.
    pub fn alive(&self) -> Option<Time> {
        match self {
            Occurrence::Begin { at, exact: true } | Occurrence::Renew { at } | Occurrence::Take { at } => Some(*at),
            _ => None,
        }
    }
}

/// What the read found, compared with what was known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(in crate::model) enum KeyState {
    Absent,
    /// The key is there, and nobody holds it: a writer only waits, or all permits have ended.
    Vacant,
    /// Held by the holder we knew, or shared with one of them.
    Same,
    Other,
}

/// What is known when a read is answered.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Situation<'a> {
    /// It was held, as far as we knew.
    pub held: bool,
    /// We have read it before.
    pub known: bool,
    /// The keyspace was scanned before: a lock first seen now did not exist then.
    pub swept: bool,
    /// When its TTL ends, as far as we knew.
    pub expires: Option<Time>,
    /// Its time was moved ahead since the last look.
    pub extended: bool,
    /// Whether a holder's own end was moved ahead since then; `None` where holders have none.
    pub prolonged: Option<bool>,
    /// When it was taken, if the event of its EXPIRE has not come since.
    pub begun: Option<Time>,
    pub events: &'a [(KeyEvent, Time)],
    pub look: KeyState,
    /// Those who hold it now could have held it beside those who did.
    pub beside: bool,
    /// Each change comes with an event, so a change without one is unexpected.
    pub eventful: bool,
    /// Changes since the last read may have been missed.
    pub missed: bool,
    /// An unexplained read was already put off, and no event has come since.
    pub surprised: bool,
    pub flushed: bool,
    /// When the answer came.
    pub at: Time,
}

/// What happened.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::model) struct Resolved {
    pub steps: Vec<Occurrence>,
    /// It was taken, and the event of its EXPIRE has not come yet.
    pub bare: bool,
}

/// How long after an acquire its EXPIRE still belongs to it (SETNX, then EXPIRE).
const ACQUIRE_MS: i64 = 1_000;

/// The same for one more entry into a lock that is held, and for a second write of one acquire.
const ENTRY_MS: i64 = 100;

/// What happened, or `None`: look again in a moment.
pub(in crate::model) fn resolve(q: &Situation<'_>) -> Option<Resolved> {
    let mut walk = Walk::new(q.held, q.begun);
    for &(event, at) in q.events {
        walk.take(event, at);
    }
    let Walk { mut steps, now, boundary, rewritten, removed, fresh, .. } = walk;
    let wait = q.eventful && !q.surprised;
    match (q.look, now) {
        // It came and went unseen, and nothing was written that a lock is made of: a stream, say.
        (KeyState::Absent, Now::Nobody) if !q.known && !q.events.iter().any(|(event, _)| event.writes()) => {
            steps.clear()
        }
        (KeyState::Absent, Now::Nobody) => {}
        (KeyState::Absent, _) => {
            let ending = match q.expires {
                _ if q.flushed => Ending::Flushed,
                _ if wait => return None,
                Some(expires) if expires <= q.at => Ending::Expired,
                _ if q.eventful || q.missed && now == Now::Known => Ending::Unseen,
                _ => Ending::Released,
            };
            let at = if ending == Ending::Expired { q.expires.unwrap_or(q.at) } else { q.at };
            steps.push(Occurrence::End { at, ending });
        }
        // The last writer only waits.
        (KeyState::Vacant, Now::Somebody) => {
            let begun =
                steps.iter().rposition(|step| matches!(step, Occurrence::Begin { .. } | Occurrence::PutBack { .. }));
            steps.truncate(begun.unwrap_or(0));
        }
        (KeyState::Vacant, Now::Nobody) if q.known || !steps.is_empty() => {}
        (KeyState::Vacant, Now::Known) => {
            let (at, ending) = match (q.expires, removed.or(rewritten)) {
                (Some(expires), _) if expires <= q.at => (expires, Ending::Expired),
                (_, Some(at)) => (at, Ending::Released),
                _ if wait => return None,
                _ => (q.at, unexplained(q)),
            };
            steps.retain(|step| step.renewed().is_none());
            steps.push(Occurrence::End { at, ending });
        }
        (_, Now::Somebody) => {}
        (_, Now::Nobody) if !q.known && steps.is_empty() => {
            steps.push(if q.swept { Occurrence::Begin { at: q.at, exact: false } } else { Occurrence::Find });
        }
        (_, Now::Nobody) => {
            if wait {
                return None;
            }
            steps.push(Occurrence::Begin { at: q.at, exact: false });
        }
        (KeyState::Same, Now::Known) => tell_renewal(q, rewritten, &mut steps),
        (KeyState::Other, Now::Known) => {
            steps.retain(|step| step.renewed().is_none());
            match (boundary, rewritten) {
                (Some(at), _) => {
                    steps.push(Occurrence::End { at, ending: unexplained(q) });
                    steps.push(Occurrence::Begin { at, exact: true });
                }
                // One came in and the other left: the events do not show which came first.
                (None, Some(at)) if q.beside => {
                    steps.push(Occurrence::End { at, ending: unexplained(q) });
                    steps.push(Occurrence::Begin { at, exact: true });
                }
                (None, Some(at)) => steps.push(Occurrence::Take { at }),
                (None, None) if wait => return None,
                (None, None) if q.eventful => steps.push(Occurrence::Take { at: q.at }),
                (None, None) => {
                    steps.push(Occurrence::End { at: q.at, ending: unexplained(q) });
                    steps.push(Occurrence::Begin { at: q.at, exact: false });
                }
            }
        }
    }
    Some(Resolved { steps, bare: fresh.is_some() })
}

/// The same holder still holds it: whether the lease was given again, by the deadlines if the events do not show it.
fn tell_renewal(q: &Situation<'_>, rewritten: Option<Time>, steps: &mut Vec<Occurrence>) {
    let renewed = steps.iter().any(|step| step.renewed().is_some());
    match q.prolonged {
        // One more holder came in, or one left.
        Some(false) => steps.retain(|step| step.renewed().is_none()),
        Some(true) if !renewed => steps.push(Occurrence::Renew { at: rewritten.unwrap_or(q.at) }),
        None if q.extended && !q.eventful && !renewed => steps.push(Occurrence::Renew { at: q.at }),
        _ => {}
    }
}

/// The ending of a hold whose end was not seen.
fn unexplained(q: &Situation<'_>) -> Ending {
    match q.expires {
        _ if q.flushed => Ending::Flushed,
        Some(expires) if expires <= q.at => Ending::Expired,
        _ if q.missed => Ending::Unseen,
        _ => Ending::Released,
    }
}

/// Who holds the lock after the events so far.
#[derive(Clone, Copy, PartialEq)]
enum Now {
    Nobody,
    /// The holder known before.
    Known,
    /// A client that took it during these events.
    Somebody,
}

struct Walk {
    now: Now,
    steps: Vec<Occurrence>,
    /// The acquire whose EXPIRE has not come yet.
    fresh: Option<Time>,
    /// "New" while we thought it held: either a late event of a known acquire, or an end that we missed.
    boundary: Option<Time>,
    /// Written over without an end.
    rewritten: Option<Time>,
    /// A holder was taken out.
    removed: Option<Time>,
    /// When it was taken during these events.
    taken: Option<Time>,
    /// One more entry or reader came in; its EXPIRE is no renewal.
    entered: Option<Time>,
}

impl Walk {
    fn new(held: bool, begun: Option<Time>) -> Walk {
        let now = if held { Now::Known } else { Now::Nobody };
        let steps = Vec::new();
        Walk { now, steps, fresh: begun, boundary: None, rewritten: None, removed: None, taken: None, entered: None }
    }

    fn take(&mut self, event: KeyEvent, at: Time) {
        match event {
            KeyEvent::Del => self.end(at, Ending::Released),
            KeyEvent::Expired => self.end(at, Ending::Expired),
            KeyEvent::Forced => self.end(at, Ending::Forced),
            KeyEvent::Evicted => self.end(at, Ending::Evicted),
            KeyEvent::RenamedFrom => self.end(at, Ending::Renamed),
            KeyEvent::PutBack => {
                if self.now == Now::Nobody {
                    self.steps.push(Occurrence::PutBack { at, ours: true });
                    self.now = Now::Somebody;
                }
            }
            KeyEvent::Restored => self.restored(at),
            KeyEvent::New | KeyEvent::RenamedTo => match self.now {
                Now::Nobody => self.begin(at),
                Now::Known => {
                    self.boundary = Some(at);
                    self.fresh = Some(at);
                }
                Now::Somebody => {}
            },
            KeyEvent::Set | KeyEvent::Written | KeyEvent::Joined => match self.now {
                Now::Nobody => self.begin(at),
                _ if self.is_fresh(at) => {}
                _ => {
                    self.rewritten = Some(at);
                    // Two writes of one acquire are one: a library may take a lock and set it once more at once.
                    let twice = self.taken.is_some_and(|taken| at.0 - taken.0 <= ENTRY_MS);
                    self.entered = Some(at).filter(|_| twice || event != KeyEvent::Set);
                }
            },
            KeyEvent::Expire => match self.now {
                Now::Nobody => {}
                _ if self.is_fresh(at) => self.fresh = None,
                _ if self.entered.take().is_some_and(|entered| at.0 - entered.0 <= ENTRY_MS) => {}
                _ => self.steps.push(Occurrence::Renew { at }),
            },
            KeyEvent::Removed | KeyEvent::Left => self.removed = Some(at),
            KeyEvent::Persist | KeyEvent::Foreign | KeyEvent::Other => {}
        }
    }

    fn is_fresh(&self, at: Time) -> bool {
        self.fresh.is_some_and(|begun| at.0 - begun.0 <= ACQUIRE_MS)
    }

    fn begin(&mut self, at: Time) {
        self.steps.push(Occurrence::Begin { at, exact: true });
        self.now = Now::Somebody;
        self.fresh = Some(at);
        self.taken = Some(at);
    }

    /// Nobody took it: what was there before is there again.
    fn restored(&mut self, at: Time) {
        let back = Occurrence::PutBack { at, ours: false };
        match (self.now, self.steps.last_mut()) {
            (Now::Nobody, _) => self.steps.push(back),
            // The server tells first that the key is new.
            (Now::Somebody, Some(begun @ Occurrence::Begin { .. })) if self.fresh.is_some() => *begun = back,
            _ => return self.rewritten = Some(at),
        }
        (self.now, self.fresh, self.taken) = (Now::Somebody, None, None);
    }

    fn end(&mut self, at: Time, ending: Ending) {
        if self.now != Now::Nobody {
            self.steps.push(Occurrence::End { at, ending });
        }
        self.now = Now::Nobody;
        self.fresh = None;
        self.boundary = None;
        self.rewritten = None;
        self.removed = None;
        self.taken = None;
    }
}

#[cfg(test)]
mod tests;
