//! What a filter tests: a lock as the table keeps it or as a view of it, or a change of one.
//!
//! A hundred thousand locks are tested while a filter is typed. So of a lock in the table only what the filter asks
//! about is looked up; both ways give the same answer.

use super::Pattern;
use super::field::{Measure, Topic};
use crate::base::time::{Time, Ttl};
use crate::dialects;
use crate::lock::{Holder, Key, Mode, NodeId, Token};
use crate::model::{Lock, LockView, Notable, State, Table, Transition};

/// What a filter tests, with what else is known about it.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    key: &'a Key,
    node: NodeId,
    node_name: Option<&'a str>,
    of: Of<'a>,
    tokens: [Option<&'a Token>; 2],
    /// States that it had, instead of the lock's own.
    states: [Option<State>; 2],
    #[cfg(test)]
    rates: Option<(Option<f64>, Option<f64>)>,
}

/// Where the lock itself is looked up.
#[derive(Clone, Copy)]
enum Of<'a> {
    Nothing,
    View(&'a LockView),
    Kept(&'a Table, &'a Lock, Time),
}

impl<'a> From<&'a LockView> for Subject<'a> {
    fn from(lock: &'a LockView) -> Subject<'a> {
        Subject { of: Of::View(lock), ..Subject::new(&lock.key, lock.node) }
    }
}

impl<'a> Subject<'a> {
    fn new(key: &'a Key, node: NodeId) -> Subject<'a> {
        Subject {
            key,
            node,
            node_name: None,
            of: Of::Nothing,
            tokens: [None, None],
            states: [None, None],
            #[cfg(test)]
            rates: None,
        }
    }

    /// A lock as the table keeps it. `None`: it was not read as a lock.
    pub fn of_kept(table: &'a Table, lock: &'a Lock, now: Time) -> Option<Subject<'a>> {
        lock.reading()?;
        Some(Subject { of: Of::Kept(table, lock, now), ..Subject::new(&lock.key, lock.node) })
    }

    /// A change of a lock.
    pub fn of_change(change: &'a Transition, lock: Option<&'a LockView>) -> Subject<'a> {
        let of = lock.map_or(Of::Nothing, Of::View);
        let tokens = [change.holder.as_ref(), change.previous.as_ref()];
        Subject { of, tokens, ..Subject::new(&change.key, change.node) }
    }

    /// An entry of the timeline, with its lock if that is still known. `None`: it concerns a whole server, and no filter
    /// for locks may hide it.
    pub fn of_notable(entry: &'a Notable, table: &'a Table, now: Time) -> Option<Subject<'a>> {
        let key = entry.key.as_ref()?;
        let lock = table.lock_named(entry.space, key.as_bytes()).filter(|lock| lock.reading().is_some());
        let of = lock.map_or(Of::Nothing, |lock| Of::Kept(table, lock, now));
        let (tokens, states) = (entry.what.tokens(), entry.what.states());
        Some(Subject { of, tokens, states, ..Subject::new(key, entry.node) })
    }

    /// With the name of its node.
    pub fn on_node(self, name: &'a str) -> Subject<'a> {
        Subject { node_name: Some(name), ..self }
    }

    /// With failed attempts per second and waiters, if they are known.
    #[cfg(test)]
    pub fn with_rates(self, failures_per_s: Option<f64>, waiters: Option<f64>) -> Subject<'a> {
        Subject { rates: Some((failures_per_s, waiters)), ..self }
    }

    pub(super) fn never_expires(&self) -> bool {
        match self.of {
            Of::Nothing => false,
            Of::View(lock) => lock.ttl == Ttl::Never && !lock.verdict.state.is_free(),
            Of::Kept(_, lock, now) => lock.is_held() && lock.left(now) == Ttl::Never,
        }
    }

    pub(super) fn measure(&self, measure: Measure) -> Option<f64> {
        #[cfg(test)]
        if let (Some((failures, waiters)), Measure::Failures | Measure::Waiters) = (self.rates, measure) {
            return if measure == Measure::Failures { failures } else { waiters };
        }
        match self.of {
            Of::Nothing => None,
            Of::View(lock) => of_view(lock, measure),
            Of::Kept(table, lock, now) => of_kept(table, lock, now, measure),
        }
    }

    pub(super) fn speaks_of(&self, topic: Topic, pattern: &Pattern) -> bool {
        match topic {
            // A filter of locks can't ask for these.
            Topic::Ending | Topic::Target | Topic::Source => false,
            Topic::Key => pattern.is_in_bytes(self.key.as_bytes(), || self.key.to_string()),
            Topic::State if self.states != [None, None] => {
                self.states.iter().flatten().any(|state| pattern.is(state.name()))
            }
            Topic::State => match self.of {
                Of::Nothing => false,
                Of::View(lock) => pattern.is(lock.verdict.state.name()),
                Of::Kept(table, lock, now) => pattern.is(table.state(lock, now).name()),
            },
            Topic::Library => match self.of {
                Of::Nothing => false,
                Of::View(lock) => pattern.is(lock.dialect),
                Of::Kept(_, lock, _) => {
                    lock.reading().is_some_and(|reading| pattern.is(dialects::dialect(reading.dialect).name()))
                }
            },
            Topic::Mode => {
                self.mode().is_some_and(|mode| pattern.is(mode.name()))
                    || self.any_holder(|holder| holder.mode.is_some_and(|mode| pattern.is(mode.name())))
            }
            Topic::Kind => match self.of {
                Of::Nothing => false,
                Of::View(lock) => pattern.is(lock.kind.name()),
                Of::Kept(_, lock, _) => lock.reading().is_some_and(|reading| pattern.is(reading.kind.name())),
            },
            Topic::Finding => match self.of {
                Of::Nothing => false,
                Of::View(lock) => lock.findings.iter().any(|finding| pattern.is(finding.name)),
                Of::Kept(table, lock, now) => table.finding_names(lock, now).any(|name| pattern.is(name)),
            },
            Topic::Node => {
                self.node_name.is_some_and(|name| pattern.is_in(name)) || pattern.is(&self.node.0.to_string())
            }
            Topic::Holder => {
                self.tokens.iter().flatten().any(|token| pattern.is_in(&token.to_string()))
                    || self.any_holder(|holder| names(holder, pattern))
            }
        }
    }

    fn mode(&self) -> Option<Mode> {
        match self.of {
            Of::Nothing => None,
            Of::View(lock) => Some(lock.mode),
            Of::Kept(_, lock, _) => lock.reading().map(|reading| reading.mode),
        }
    }

    fn any_holder(&self, is_it: impl Fn(&Holder) -> bool) -> bool {
        match self.of {
            Of::View(lock) => lock.holders.iter().any(is_it),
            Of::Kept(table, lock, now) if lock.is_held() => table.holders(lock, now).iter().any(is_it),
            Of::Nothing | Of::Kept(..) => false,
        }
    }
}

fn of_view(lock: &LockView, measure: Measure) -> Option<f64> {
    let renewals = lock.renewals.as_ref();
    match measure {
        Measure::Ttl => lock.ttl.remaining().map(|left| left.as_millis() as f64),
        Measure::Lease => lock.lease_ms.map(|ms| ms as f64),
        Measure::Held => lock.held_ms.map(|ms| ms as f64),
        Measure::Renewals => renewals.map(|renewals| renewals.count as f64),
        Measure::Missed => renewals?.missed.map(|missed| missed as f64),
        Measure::Failures => lock.tries.and_then(|tries| tries.known_failures_per_s()),
        Measure::Waiters => lock.waits.filter(|waits| !waits.is_at_most()).map(|waits| f64::from(waits.count)),
    }
}

fn of_kept(table: &Table, lock: &Lock, now: Time, measure: Measure) -> Option<f64> {
    match measure {
        Measure::Ttl => lock.left(now).remaining().map(|left| left.as_millis() as f64),
        Measure::Lease => lock.lease().map(|(ms, _)| ms as f64),
        Measure::Held => table.held_for(lock, now).map(|(ms, _)| ms as f64),
        Measure::Renewals => table.renewals(lock, now).map(|renewals| renewals.count as f64),
        Measure::Missed => table.renewals(lock, now)?.missed.map(|missed| missed as f64),
        Measure::Failures => table.tries(lock, now).and_then(|tries| tries.known_failures_per_s()),
        Measure::Waiters => {
            let waits = lock.waits(now).filter(|waits| lock.is_held() && !waits.is_at_most());
            waits.map(|waits| f64::from(waits.count))
        }
    }
}

fn names(holder: &Holder, pattern: &Pattern) -> bool {
    let texts = [&holder.host, &holder.client, &holder.thread];
    pattern.is_in(&holder.token.to_string())
        || texts.into_iter().flatten().any(|text| pattern.is_in(&text.visible()))
        || holder.pid.is_some_and(|pid| pattern.is_in(&pid.to_string()))
}
