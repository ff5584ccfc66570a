//! What makes the calm of a rule worth nothing, although it has values: they are only a bound, or those of some patterns.
//!
//! No part of the rule's expression: what fires, fires. It only says when silence is not calm.

use crate::alerts::beside::Beside;
use crate::alerts::column::{Point, Prometheus, Reading};
use crate::base::time::Time;
use crate::filter::Selector;
use crate::metrics::{Metric, MetricId, Series};

/// A metric of rules, the one that is above zero while it is in doubt, and why.
const DOUBTS: [(&str, &str, &str); 3] = [
    ("lockscope_oldest_hold_age_seconds", "lockscope_holds_of_unknown_age", AGE),
    ("lockscope_failure_ratio", "lockscope_failures_unknown", FAILURES),
    ("lockscope_failures_per_second", "lockscope_failures_unknown", FAILURES),
];
const AGE: &str = "locks were held already when lockscope began to watch, so that their age is only a lower bound";
const FAILURES: &str = "attempts were seen whose outcome is not known";

pub(super) struct Doubt {
    why: &'static str,
    by: Beside,
    /// The pattern in doubt at the last evaluation.
    about: Option<String>,
}

impl Doubt {
    /// `None` where values are never in doubt.
    pub(super) fn of(metric: &Metric, lookback: i64, version: Prometheus) -> Option<Doubt> {
        let (_, by, why) = DOUBTS.iter().find(|(of, ..)| *of == metric.name)?;
        let by = Beside::new(MetricId::named(by)?, Reading::Instant(lookback), version);
        Some(Doubt { why, by, about: None })
    }

    pub(super) fn metric(&self) -> MetricId {
        self.by.metric()
    }

    pub(super) fn add(&mut self, series: &Series, selector: &Selector, points: &[Point]) {
        if selector.matches(|name| series.label(name)) {
            self.by.add(series, points);
        }
    }

    pub(super) fn end_others(&mut self, at: Time) {
        self.by.end_others(at);
    }

    pub(super) fn prune(&mut self, oldest: Time) {
        self.by.prune(oldest);
    }

    pub(super) fn forget(&mut self) {
        self.by.forget();
    }

    /// One evaluation.
    pub(super) fn step(&mut self, at: Time) {
        let pattern = self.metric().metric().labels.iter().position(|label| *label == "pattern");
        let mut in_doubt = self.by.at(at).filter(|(_, point)| point.value > 0.0);
        self.about = in_doubt
            .next()
            .map(|(labels, _)| pattern.and_then(|at| labels.get(at)).map(|name| name.to_string()).unwrap_or_default());
    }

    /// Why the rule's calm is none.
    pub(super) fn why(&self) -> Option<String> {
        self.about.as_ref().map(|pattern| format!("{} ({pattern})", self.why))
    }
}
