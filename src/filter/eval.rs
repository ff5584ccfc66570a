//! Evaluates a filter for one lock.

use super::field::{Measure, Topic};
use super::{Expr, Op, Pattern, Threshold};
use crate::base::time::Ttl;
use crate::lock::{Holder, Key, NodeId, Token};
use crate::model::{LockView, Transition};

/// What a filter tests: a lock or a change of one, with what else is known about it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    key: &'a Key,
    node: NodeId,
    node_name: Option<&'a str>,
    lock: Option<&'a LockView>,
    tokens: [Option<&'a Token>; 2],
    failures_per_s: Option<f64>,
    waiters: Option<f64>,
}

impl<'a> From<&'a LockView> for Subject<'a> {
    fn from(lock: &'a LockView) -> Subject<'a> {
        Subject {
            key: &lock.key,
            node: lock.node,
            node_name: None,
            lock: Some(lock),
            tokens: [None, None],
            failures_per_s: lock.tries.and_then(|tries| tries.known_failures_per_s()),
            waiters: lock.waits.filter(|waits| !waits.is_at_most()).map(|waits| f64::from(waits.count)),
        }
    }
}

impl<'a> Subject<'a> {
    /// A change, with its lock if that is still known.
    pub fn of_change(change: &'a Transition, lock: Option<&'a LockView>) -> Subject<'a> {
        Subject {
            key: &change.key,
            node: change.node,
            node_name: None,
            lock,
            tokens: [change.holder.as_ref(), change.previous.as_ref()],
            failures_per_s: None,
            waiters: None,
        }
    }

    /// With the name of its node.
    pub fn on_node(self, name: &'a str) -> Subject<'a> {
        Subject { node_name: Some(name), ..self }
    }

    /// With failed attempts per second and waiters, if they are known.
    #[cfg(test)]
    pub fn with_rates(self, failures_per_s: Option<f64>, waiters: Option<f64>) -> Subject<'a> {
        Subject { failures_per_s, waiters, ..self }
    }

    fn measure(&self, measure: Measure) -> Option<f64> {
        let renewals = || self.lock.and_then(|lock| lock.renewals.as_ref());
        match measure {
            Measure::Ttl => self.lock?.ttl.remaining().map(|left| left.as_millis() as f64),
            Measure::Lease => self.lock?.lease_ms.map(|ms| ms as f64),
            Measure::Held => self.lock?.held_ms.map(|ms| ms as f64),
            Measure::Renewals => renewals().map(|renewals| renewals.count as f64),
            Measure::Missed => renewals()?.missed.map(|missed| missed as f64),
            Measure::Failures => self.failures_per_s,
            Measure::Waiters => self.waiters,
        }
    }

    fn speaks_of(&self, topic: Topic, pattern: &Pattern) -> bool {
        match topic {
            Topic::Key => pattern.is_in(&self.key.to_string()),
            Topic::State => self.lock.is_some_and(|lock| pattern.is(lock.verdict.state.name())),
            Topic::Library => self.lock.is_some_and(|lock| pattern.is(lock.dialect)),
            Topic::Mode => self.lock.is_some_and(|lock| {
                pattern.is(lock.mode.name())
                    || lock.holders.iter().any(|holder| holder.mode.is_some_and(|mode| pattern.is(mode.name())))
            }),
            Topic::Kind => self.lock.is_some_and(|lock| pattern.is(lock.kind.name())),
            Topic::Finding => {
                self.lock.is_some_and(|lock| lock.findings.iter().any(|finding| pattern.is(finding.name)))
            }
            Topic::Node => {
                self.node_name.is_some_and(|name| pattern.is_in(name)) || pattern.is(&self.node.0.to_string())
            }
            Topic::Holder => {
                let named = self.lock.is_some_and(|lock| lock.holders.iter().any(|holder| names(holder, pattern)));
                named || self.tokens.iter().flatten().any(|token| pattern.is_in(&token.to_string()))
            }
        }
    }
}

fn names(holder: &Holder, pattern: &Pattern) -> bool {
    let texts = [&holder.host, &holder.client, &holder.thread];
    pattern.is_in(&holder.token.to_string())
        || texts.into_iter().flatten().any(|text| pattern.is_in(&text.visible()))
        || holder.pid.is_some_and(|pid| pattern.is_in(&pid.to_string()))
}

impl Expr {
    pub(super) fn holds(&self, subject: &Subject<'_>) -> bool {
        match self {
            Expr::And(parts) => parts.iter().all(|part| part.holds(subject)),
            Expr::Or(parts) => parts.iter().any(|part| part.holds(subject)),
            Expr::Not(inner) => !inner.holds(subject),
            Expr::TtlNone => subject.lock.is_some_and(|lock| lock.ttl == Ttl::Never),
            Expr::Matches(topic, pattern) => subject.speaks_of(*topic, pattern),
            Expr::Compare(measure, op, threshold) => {
                subject.measure(*measure).is_some_and(|known| op.holds(known, threshold.value()))
            }
        }
    }
}

impl Threshold {
    fn value(self) -> f64 {
        match self {
            Threshold::Millis(millis) => millis as f64,
            Threshold::Number(number) => number,
        }
    }
}

impl Op {
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Op::Less => left < right,
            Op::LessOrEqual => left <= right,
            Op::Greater => left > right,
            Op::GreaterOrEqual => left >= right,
            Op::Equal => left == right,
            Op::NotEqual => left != right,
        }
    }
}

impl Pattern {
    /// Matches part of the text, or with a `*` all of it.
    fn is_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        if self.glob { star_matches(&self.text, &text) } else { text.contains(&self.text) }
    }

    /// Matches the whole text.
    fn is(&self, text: &str) -> bool {
        if self.glob { star_matches(&self.text, &text.to_lowercase()) } else { text.eq_ignore_ascii_case(&self.text) }
    }
}

/// A glob with `*` only: the first and the last piece must be at the ends, the others follow in order.
fn star_matches(glob: &str, text: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else { return glob == text };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(first).and_then(|text| text.strip_suffix(last)) else { return false };
    let mut left = text;
    for piece in middle.split('*') {
        match left.find(piece) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    true
}
