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
    /// Put back by us: the hold that we ended continues.
    PutBack {
        at: Time,
    },
    /// The holder changed without an end in between.
    Take {
        at: Time,
    },
    End {
        at: Time,
        ending: Ending,
    },
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
    /// When it was taken, if it has got no TTL since.
    pub begun: Option<Time>,
    pub events: &'a [(KeyEvent, Time)],
    pub look: KeyState,
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

/// How long after an acquire its EXPIRE still belongs to it (SETNX, then EXPIRE).
const ACQUIRE_MS: i64 = 1_000;

/// The same for one more entry into a lock that is held, and for a second write of one acquire.
const ENTRY_MS: i64 = 100;

/// What happened, or `None`: look again in a moment.
pub(in crate::model) fn resolve(q: &Situation<'_>) -> Option<Vec<Occurrence>> {
    let mut walk = Walk::new(q.held, q.begun);
    for &(event, at) in q.events {
        walk.take(event, at);
    }
    let Walk { mut steps, now, boundary, rewritten, removed, .. } = walk;
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
        // Whoever wrote it last only waits.
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
            steps.retain(|step| !matches!(step, Occurrence::Renew { .. }));
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
        (KeyState::Same, Now::Known) => {
            let is_beat = |step: &Occurrence| matches!(step, Occurrence::Renew { .. });
            match q.prolonged {
                // One more holder came in, or one left.
                Some(false) => steps.retain(|step| !is_beat(step)),
                Some(true) if !steps.iter().any(is_beat) => {
                    steps.push(Occurrence::Renew { at: rewritten.unwrap_or(q.at) });
                }
                None if q.extended && !q.eventful && !steps.iter().any(is_beat) => {
                    steps.push(Occurrence::Renew { at: q.at });
                }
                _ => {}
            }
        }
        (KeyState::Other, Now::Known) => {
            steps.retain(|step| !matches!(step, Occurrence::Renew { .. }));
            match (boundary, rewritten) {
                (Some(at), _) => {
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
    Some(steps)
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
                    self.steps.push(Occurrence::PutBack { at });
                    self.now = Now::Somebody;
                }
            }
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
mod tests {
    use super::*;
    use KeyEvent::*;

    const AT: Time = Time(10_000);

    fn ask<'a>(held: bool, events: &'a [(KeyEvent, Time)], look: KeyState) -> Situation<'a> {
        let expires = held.then_some(Time(20_000));
        Situation {
            held,
            known: true,
            swept: true,
            expires,
            extended: false,
            prolonged: None,
            begun: None,
            events,
            look,
            eventful: true,
            missed: false,
            surprised: false,
            flushed: false,
            at: AT,
        }
    }

    fn at(ms: i64, event: KeyEvent) -> (KeyEvent, Time) {
        (event, Time(ms))
    }

    #[test]
    fn a_won_set_nx_px_is_one_acquire() {
        let events = [at(1, New), at(1, Set), at(1, Expire)];
        assert_eq!(
            resolve(&ask(false, &events, KeyState::Other)),
            Some(vec![Occurrence::Begin { at: Time(1), exact: true }])
        );
        let old_server = [at(1, Set), at(1, Expire)];
        assert_eq!(
            resolve(&ask(false, &old_server, KeyState::Other)),
            Some(vec![Occurrence::Begin { at: Time(1), exact: true }])
        );
    }

    #[test]
    fn a_renewal_that_sets_again_is_no_acquire() {
        let events = [at(5, Set), at(5, Expire)];
        assert_eq!(resolve(&ask(true, &events, KeyState::Same)), Some(vec![Occurrence::Renew { at: Time(5) }]));
    }

    #[test]
    fn one_more_reader_or_entry_is_no_renewal() {
        let events = [at(5, Written), at(5, Expire), at(500, Expire)];
        assert_eq!(resolve(&ask(true, &events, KeyState::Same)), Some(vec![Occurrence::Renew { at: Time(500) }]));
    }

    #[test]
    fn another_holder_without_an_end_took_it_over() {
        let events = [at(5, Set), at(5, Expire)];
        assert_eq!(resolve(&ask(true, &events, KeyState::Other)), Some(vec![Occurrence::Take { at: Time(5) }]));
    }

    #[test]
    fn released_and_taken_between_two_looks() {
        let events = [at(5, Del), at(6, New), at(6, Set), at(6, Expire)];
        let steps = resolve(&ask(true, &events, KeyState::Other)).unwrap();
        assert_eq!(
            steps,
            [Occurrence::End { at: Time(5), ending: Ending::Released }, Occurrence::Begin { at: Time(6), exact: true }]
        );
    }

    #[test]
    fn taken_and_released_before_we_could_look() {
        let events = [at(5, New), at(5, Set), at(5, Expire), at(7, Del)];
        let steps = resolve(&ask(false, &events, KeyState::Absent)).unwrap();
        assert_eq!(
            steps,
            [Occurrence::Begin { at: Time(5), exact: true }, Occurrence::End { at: Time(7), ending: Ending::Released }]
        );
    }

    #[test]
    fn what_came_and_went_without_a_write_was_no_lock() {
        let events = [at(5, New), at(7, Del)];
        let strange = Situation { known: false, ..ask(false, &events, KeyState::Absent) };
        assert_eq!(resolve(&strange), Some(vec![]));
        let written = [at(5, New), at(5, Set), at(7, Del)];
        assert_eq!(resolve(&Situation { events: &written, ..strange }).map(|steps| steps.len()), Some(2));
    }

    #[test]
    fn a_lock_first_seen_between_two_holds_was_not_there_before_them() {
        let events = [at(5, New), at(5, Set), at(7, Del)];
        let early = Situation { known: false, swept: false, ..ask(false, &events, KeyState::Other) };
        assert_eq!(resolve(&early), None, "the events of the next hold are on their way");
        let alone = Situation { events: &[], ..early };
        assert_eq!(resolve(&alone), Some(vec![Occurrence::Find]));
    }

    #[test]
    fn expired_and_evicted_are_told_from_released() {
        for (event, ending) in [(Expired, Ending::Expired), (Evicted, Ending::Evicted), (RenamedFrom, Ending::Renamed)]
        {
            let events = [at(5, event)];
            assert_eq!(
                resolve(&ask(true, &events, KeyState::Absent)),
                Some(vec![Occurrence::End { at: Time(5), ending }])
            );
        }
    }

    #[test]
    fn a_look_ahead_of_its_event_waits_for_it() {
        assert_eq!(resolve(&ask(true, &[], KeyState::Absent)), None);
        assert_eq!(resolve(&ask(true, &[], KeyState::Other)), None);
        assert_eq!(resolve(&ask(false, &[], KeyState::Other)), None);
        let again = Situation { surprised: true, ..ask(true, &[], KeyState::Absent) };
        assert_eq!(resolve(&again), Some(vec![Occurrence::End { at: AT, ending: Ending::Unseen }]));
    }

    #[test]
    fn a_late_word_of_a_known_acquire_changes_nothing() {
        let events = [at(5, New), at(5, Set), at(5, Expire)];
        assert_eq!(resolve(&ask(true, &events, KeyState::Same)), Some(vec![]));
    }

    #[test]
    fn a_flush_is_told_from_a_release() {
        let q = Situation { flushed: true, ..ask(true, &[], KeyState::Absent) };
        assert_eq!(resolve(&q), Some(vec![Occurrence::End { at: AT, ending: Ending::Flushed }]));
    }

    #[test]
    fn what_went_by_unseen_is_not_called_a_release() {
        let blind = Situation { eventful: false, missed: true, ..ask(true, &[], KeyState::Absent) };
        assert_eq!(resolve(&blind), Some(vec![Occurrence::End { at: AT, ending: Ending::Unseen }]));
        let blind = Situation { look: KeyState::Other, ..blind };
        assert_eq!(
            resolve(&blind),
            Some(vec![Occurrence::End { at: AT, ending: Ending::Unseen }, Occurrence::Begin { at: AT, exact: false }])
        );
    }

    #[test]
    fn the_first_ttl_soon_after_a_setnx_is_no_renewal() {
        let events = [at(9_500, Expire)];
        let q = Situation { begun: Some(Time(9_000)), ..ask(true, &events, KeyState::Same) };
        assert_eq!(resolve(&q), Some(vec![]));
        let q = Situation { begun: Some(Time(1_000)), ..q };
        assert_eq!(resolve(&q), Some(vec![Occurrence::Renew { at: Time(9_500) }]));
    }

    #[test]
    fn polling_sees_a_renewal_by_its_deadline() {
        let q = Situation { eventful: false, extended: true, ..ask(true, &[], KeyState::Same) };
        assert_eq!(resolve(&q), Some(vec![Occurrence::Renew { at: AT }]));
    }
}
