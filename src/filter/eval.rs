//! Evaluates a filter for one lock.

use super::field::{Measure, Topic};
use super::subject::Subject;
use super::{Expr, Op, Pattern, Threshold};
use crate::model::State;

impl Expr {
    pub(super) fn holds(&self, subject: &Subject<'_>) -> bool {
        match self {
            Expr::And(parts) => parts.iter().all(|part| part.holds(subject)),
            Expr::Or(parts) => parts.iter().any(|part| part.holds(subject)),
            Expr::Not(inner) => !inner.holds(subject),
            Expr::TtlNone => subject.never_expires(),
            Expr::Matches(topic, pattern) => subject.speaks_of(*topic, pattern),
            Expr::Compare(measure, op, threshold) => {
                subject.measure(*measure).is_some_and(|known| op.holds(known, threshold.value()))
            }
        }
    }

    /// Whether any of its parts is like that.
    pub(super) fn has(&self, is_it: &dyn Fn(&Expr) -> bool) -> bool {
        let inner = match self {
            Expr::And(parts) | Expr::Or(parts) => parts.iter().any(|part| part.has(is_it)),
            Expr::Not(inner) => inner.has(is_it),
            Expr::TtlNone | Expr::Matches(..) | Expr::Compare(..) => false,
        };
        inner || is_it(self)
    }

    /// It decodes or judges the lock in full.
    pub(super) fn is_costly(&self) -> bool {
        matches!(self, Expr::Matches(Topic::Finding | Topic::Holder | Topic::Mode, _))
    }

    /// It asks for what only watching tells.
    pub(super) fn needs_watching(&self) -> bool {
        matches!(self, Expr::Compare(Measure::Held | Measure::Renewals | Measure::Missed, ..))
    }

    pub(super) fn names_state(&self, state: State) -> bool {
        matches!(self, Expr::Matches(Topic::State, pattern) if pattern.is(state.name()))
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
    /// The same as [`Pattern::is_in`] of the text, which is made only where the bytes are not already that text.
    pub(super) fn is_in_bytes(&self, bytes: &[u8], text: impl Fn() -> String) -> bool {
        let as_it_is = bytes.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\');
        if self.glob || !as_it_is {
            return self.is_in(&text());
        }
        let wanted = self.text.as_bytes();
        wanted.is_empty() || bytes.windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted))
    }

    /// Matches part of the text, or with a `*` all of it.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        if self.glob { star_matches(&self.text, &text) } else { text.contains(&self.text) }
    }

    /// Matches the whole text.
    pub(super) fn is(&self, text: &str) -> bool {
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
