//! Evaluates rules live: takes one moment after the other, and tells on a grid of times what changed. No clock, no I/O.
//!
//! A series that was there and is missing from the next moment has ended, as for a Prometheus that scrapes. Only the series
//! that rules name are kept, and of those only what the longest window reads.

use std::time::Duration;

use crate::alerts::column::{Point, Prometheus};
use crate::alerts::status::{self, Sight};
use crate::alerts::watched::Watched;
use crate::alerts::{Alert, AlertChange, AlertState, RuleStatus, Rules};
use crate::base::time::Time;
use crate::metrics::{METRICS, MetricId, Moment};

pub struct Evaluator {
    rules: Vec<Judged>,
    /// The rules that read each metric.
    readers: Vec<Vec<usize>>,
    interval: Duration,
    sight: Sight,
    evaluated: Option<Time>,
}

/// A rule with what it said last.
struct Judged {
    watched: Watched,
    state: AlertState,
    since: Option<Time>,
    /// Why it could not say anything.
    why: Option<String>,
}

impl Evaluator {
    /// For rules that are evaluated every `interval`. `lookback` is how old the newest value of a series may be; Prometheus
    /// takes five minutes.
    pub fn new(rules: Rules, interval: Duration, lookback: Duration) -> Evaluator {
        Evaluator::like(rules, interval, lookback, Prometheus::default())
    }

    /// The same as a Prometheus of that version.
    pub fn like(rules: Rules, interval: Duration, lookback: Duration, version: Prometheus) -> Evaluator {
        let mut all = Vec::new();
        for rule in rules.into_iter() {
            let companion = rule.companion();
            all.extend([Some(rule), companion].into_iter().flatten());
        }
        let judge = |rule| Judged {
            watched: Watched::new(rule, lookback, version),
            state: AlertState::Unknown,
            since: None,
            why: None,
        };
        let rules: Vec<Judged> = all.into_iter().map(judge).collect();
        let mut readers = vec![Vec::new(); METRICS.len()];
        for (index, rule) in rules.iter().enumerate() {
            for metric in rule.watched.metrics().chain(rule.watched.doubted_by()) {
                let readers: &mut Vec<usize> = &mut readers[usize::from(metric.0)];
                if readers.last() != Some(&index) {
                    readers.push(index);
                }
            }
        }
        Evaluator {
            rules,
            readers,
            interval: interval.max(Duration::from_millis(1)),
            sight: Sight::default(),
            evaluated: None,
        }
    }

    /// Forgets which alerts fire, but for some of them.
    pub fn keep_firing(&mut self, mut kept: impl FnMut(&Alert) -> bool) {
        self.rules.iter_mut().for_each(|rule| rule.watched.keep_firing(&mut kept));
    }

    /// These alerts fire since before the first evaluation. Those of other rules are left out.
    pub fn resume<'a>(&mut self, alerts: impl IntoIterator<Item = &'a Alert>) {
        for alert in alerts {
            self.rules.iter_mut().for_each(|rule| rule.watched.resume(alert));
        }
    }

    /// What is known at one moment. Series that were there before and are not here have ended.
    pub fn take(&mut self, moment: &Moment) {
        self.turn_to(moment.at);
        self.sight.take(moment);
        for sample in &moment.samples {
            let MetricId(metric) = sample.series.metric;
            let point = [Point::new(moment.at, sample.value)];
            for index in &self.readers[usize::from(metric)] {
                self.rules[*index].watched.add(&sample.series, &point);
            }
        }
        self.end_others(moment.at);
    }

    /// Nothing could be learnt at this time: every series has ended.
    pub fn gap(&mut self, at: Time) {
        self.turn_to(at);
        self.sight.gap(at);
        self.end_others(at);
    }

    fn end_others(&mut self, at: Time) {
        let oldest = at - self.interval;
        for rule in &mut self.rules {
            rule.watched.end_others(at);
            rule.watched.prune(oldest);
        }
    }

    /// When the clock went back, what was learnt lies in its future: forget it.
    fn turn_to(&mut self, at: Time) {
        if self.sight.last().is_some_and(|last| at < last) {
            self.rules.iter_mut().for_each(|rule| rule.watched.forget());
            self.evaluated = None;
        }
    }

    /// One evaluation of all rules: what changed by it. A time that is not after the last one changes nothing.
    pub fn evaluate(&mut self, at: Time) -> Vec<AlertChange> {
        let mut changes = Vec::new();
        if self.evaluated.is_some_and(|last| at <= last) {
            return changes;
        }
        self.evaluated = Some(at);
        for rule in &mut self.rules {
            rule.watched.step(at, |change| changes.push(change));
            let worst = rule.watched.alerts().map(|alert| alert.state).min();
            rule.why = status::why_unknown(&rule.watched, &self.sight);
            let calm = if rule.why.is_some() { AlertState::Unknown } else { AlertState::Inactive };
            let state = worst.unwrap_or(calm);
            if state != rule.state || rule.since.is_none() {
                (rule.state, rule.since) = (state, Some(at));
            }
        }
        changes
    }

    /// The first time of the grid after this one.
    pub fn next(&self, after: Time) -> Time {
        let interval = i64::try_from(self.interval.as_millis()).unwrap_or(i64::MAX);
        Time(after.0.div_euclid(interval).saturating_add(1).saturating_mul(interval))
    }

    /// Every rule, as it was at the last evaluation.
    pub fn status(&self) -> impl Iterator<Item = RuleStatus<'_>> {
        self.rules.iter().map(|rule| {
            // Before the first evaluation there is no reason yet but that.
            let why = || rule.why.clone().or_else(|| status::why_unknown(&rule.watched, &self.sight));
            RuleStatus {
                rule: rule.watched.rule(),
                state: rule.state,
                since: rule.since,
                alerts: rule.watched.alerts().collect(),
                why: (rule.state == AlertState::Unknown).then(why).flatten(),
                warning: status::warning(&rule.watched, &self.sight),
            }
        })
    }
}

#[cfg(test)]
mod tests;
