//! What a rule computes from series at one moment: the same as its PromQL, for one set of labels at a time.
//!
//! An [`Expression`] says which series are its terms and how they are combined; an [`Output`] keeps the points of the terms
//! of one set of labels and reads them. `promql.rs` writes the same expression as text.

use std::sync::Arc;
use std::time::Duration;

use crate::alerts::column::{Cursor, Point, Prometheus, Reading};
use crate::alerts::replay::Shape;
use crate::alerts::{Compare, NoData, Rule};
use crate::base::time::Time;
use crate::filter::Selector;
use crate::metrics::{Kind, Metric, MetricId, Part, Series};

/// The values of labels, in the order of their names.
pub(super) type Labels = Box<[Arc<str>]>;

/// How the values of the terms make one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Combine {
    Itself,
    /// How long ago the time was that the term tells.
    Age,
    Ratio,
    /// Expired, where anything was ever released.
    Expired,
    /// Expired of expired and released, where anything was ever released.
    ExpiredRatio,
    /// Not up, or else stale.
    Blind,
}

/// How the values of several sets of labels make one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Join {
    Sum,
    Max,
    Min,
}

/// One of the series that are read.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Term {
    metric: MetricId,
    ending: Option<&'static str>,
    reading: Reading,
}

impl Term {
    fn is(&self, series: &Series) -> bool {
        self.metric == series.metric && self.ending.is_none_or(|ending| series.label("ending") == Some(ending))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Expression {
    terms: Vec<Term>,
    combine: Combine,
    /// The labels of its result.
    labels: &'static [&'static str],
    selector: Selector,
    version: Prometheus,
}

/// The metrics that count things: several of them are added up. Of all others the worst counts.
const COUNTS: [&str; 7] = [
    "lockscope_locks",
    "lockscope_findings",
    "lockscope_waiters",
    "lockscope_attempts_per_second",
    "lockscope_failures_per_second",
    "lockscope_patterns",
    "lockscope_patterns_folded",
];

/// How the values of one metric are joined where a rule names labels with `by`.
pub(super) fn join(metric: &Metric, compare: Compare) -> Join {
    match compare {
        _ if metric.kind == Kind::Counter || COUNTS.contains(&metric.name) => Join::Sum,
        Compare::Above(_) => Join::Max,
        Compare::Below(_) => Join::Min,
    }
}

impl Join {
    pub(super) fn name(self) -> &'static str {
        match self {
            Join::Sum => "sum",
            Join::Max => "max",
            Join::Min => "min",
        }
    }

    /// The same for numbers of that shape: the largest age is the one since the earliest time. Ages are not added up.
    pub(super) fn for_numbers(self, shape: Shape) -> Join {
        match (self, shape) {
            (Join::Max, Shape::Age) => Join::Min,
            (Join::Min, Shape::Age) => Join::Max,
            (join, _) => join,
        }
    }

    pub(super) fn of(self, so_far: Option<f64>, value: f64) -> f64 {
        match (self, so_far) {
            (_, None) => value,
            (Join::Sum, Some(sum)) => sum + value,
            (Join::Max, Some(most)) => most.max(value),
            (Join::Min, Some(least)) => least.min(value),
        }
    }
}

/// A metric that another one is derived from, the ending it is about, and whether its increase is meant.
type Source = (&'static str, Option<&'static str>, bool);

/// From what a metric is derived, and how.
fn derivation(metric: &Metric) -> (Combine, &'static [Source]) {
    const ENDED: &str = "lockscope_holds_ended_total";
    const EXPIRED: Option<&str> = Some("expired");
    const RELEASED: Option<&str> = Some("released");
    match metric.name {
        "lockscope_oldest_hold_age_seconds" => {
            (Combine::Age, &[("lockscope_oldest_hold_timestamp_seconds", None, false)])
        }
        "lockscope_failure_ratio" => (
            Combine::Ratio,
            &[("lockscope_failures_per_second", None, false), ("lockscope_attempts_per_second", None, false)],
        ),
        "lockscope_holds_expired" => (Combine::Expired, &[(ENDED, EXPIRED, true), (ENDED, RELEASED, false)]),
        "lockscope_holds_expired_ratio" => {
            (Combine::ExpiredRatio, &[(ENDED, EXPIRED, true), (ENDED, RELEASED, false), (ENDED, RELEASED, true)])
        }
        "lockscope_blind" => (Combine::Blind, &[("lockscope_up", None, false), ("lockscope_data_stale", None, false)]),
        "lockscope_absent" => (Combine::Itself, &[("lockscope_build_info", None, false)]),
        _ => (Combine::Itself, &[]),
    }
}

impl Expression {
    pub(super) fn of(rule: &Rule, lookback: i64, version: Prometheus) -> Expression {
        let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        let newest = match rule.no_data {
            NoData::Keep(longest) => Reading::Last(millis(longest)),
            NoData::Ok | NoData::Stay(_) | NoData::Alert => Reading::Instant(lookback),
        };
        let increase = rule.window.map(|window| Reading::Increase(millis(window)));
        let metric = rule.metric.metric();
        let (combine, derived) = derivation(metric);
        let mut terms: Vec<Term> = Vec::new();
        for (name, ending, rises) in derived {
            let reading = increase.filter(|_| *rises).unwrap_or(newest);
            terms.extend(MetricId::named(name).map(|metric| Term { metric, ending: *ending, reading }));
        }
        if metric.kind != Kind::Derived {
            terms.push(Term { metric: rule.metric, ending: None, reading: increase.unwrap_or(newest) });
        }
        Expression { terms, combine, labels: metric.labels, selector: rule.selector.clone(), version }
    }

    /// The metrics that it reads.
    pub(super) fn metrics(&self) -> impl Iterator<Item = MetricId> {
        self.terms.iter().map(|term| term.metric)
    }

    /// How far back it looks.
    pub(super) fn reach(&self) -> Duration {
        let reach = self.terms.iter().map(|term| term.reading.reach()).max();
        Duration::from_millis(reach.unwrap_or(0).max(0) as u64)
    }

    /// How far apart points of equal value may be thinned out.
    pub(super) fn slack(&self, metric: MetricId) -> Duration {
        let slack = |term: &Term| match term.reading {
            Reading::Increase(_) => 0,
            Reading::Instant(reach) | Reading::Last(reach) => reach / 5,
        };
        let least = self.terms.iter().filter(|term| term.metric == metric).map(slack).min();
        Duration::from_millis(least.unwrap_or(0).max(0) as u64)
    }

    /// The labels of the result that the series is a term of.
    pub(super) fn takes(&self, series: &Series) -> Option<Labels> {
        if series.part != Part::Value
            || !self.terms.iter().any(|term| term.is(series))
            || !self.selector.matches(|name| series.label(name))
        {
            return None;
        }
        let names = series.metric().labels;
        let value =
            |label: &&str| names.iter().position(|name| name == label).and_then(|at| series.labels.get(at)).cloned();
        self.labels.iter().map(value).collect()
    }

    pub(super) fn output(&self) -> Output {
        let column = |term: &Term| Column::new(term.reading, self.version);
        Output { columns: self.terms.iter().map(column).collect() }
    }

    /// Adds points of a series that it [takes](Expression::takes), in the order of time. One that is not after the last is
    /// left out.
    pub(super) fn add(&self, output: &mut Output, series: &Series, points: &[Point]) {
        for (term, column) in self.terms.iter().zip(&mut output.columns) {
            if !term.is(series) {
                continue;
            }
            column.add(points);
        }
    }

    /// Ends the series that had no point at this time.
    pub(super) fn end_others(&self, output: &mut Output, at: Time) {
        for (term, column) in self.terms.iter().zip(&mut output.columns) {
            // The other ways to read a series do not see that it ended.
            if matches!(term.reading, Reading::Instant(_)) {
                column.end(at);
            }
        }
    }

    /// Forgets what no evaluation at or after `oldest` reads. Whether anything is left.
    pub(super) fn prune(&self, output: &mut Output, oldest: Time) -> bool {
        let mut left = false;
        for (term, column) in self.terms.iter().zip(&mut output.columns) {
            left |= column.prune(term.reading, oldest);
        }
        left
    }

    /// What its [numbers](Expression::number) are.
    pub(super) fn shape(&self) -> Shape {
        if self.combine == Combine::Age { Shape::Age } else { Shape::Level }
    }

    /// The number at that moment, which is not before the last one: the value, or of an age the time since when.
    pub(super) fn number(&self, output: &mut Output, at: Time) -> Option<f64> {
        let mut read = |index: usize| output.columns.get_mut(index)?.at(at);
        match self.combine {
            Combine::Itself | Combine::Age => read(0),
            Combine::Ratio => {
                let (part, whole) = (read(0), read(1));
                Some(part? / whole?)
            }
            Combine::Expired => {
                let (expired, released) = (read(0), read(1));
                expired.filter(|_| released.is_some_and(|released| released > 0.0))
            }
            Combine::ExpiredRatio => {
                let (expired, released_ever, released) = (read(0), read(1), read(2));
                let (expired, released) = (expired?, released?);
                released_ever.is_some_and(|ever| ever > 0.0).then(|| expired / (expired + released))
            }
            Combine::Blind => {
                let (up, stale) = (read(0), read(1));
                let down = up.map(|up| if up < 1.0 { 1.0 } else { 0.0 });
                down.filter(|down| *down > 0.0).or(stale).or(down)
            }
        }
    }
}

/// The points of one set of labels.
#[derive(Clone, Debug)]
pub(super) struct Output {
    columns: Vec<Column>,
}

impl Output {
    /// Until when the number of that moment, which was read last, stays.
    pub(super) fn until(&self, at: Time) -> Time {
        self.columns.iter().map(|column| column.until(at)).min().unwrap_or(at)
    }
}

#[cfg(test)]
impl Output {
    pub(super) fn points(&self) -> usize {
        self.columns.iter().map(|column| column.points.len()).sum()
    }
}

/// The points of one series, and how far they were read.
#[derive(Clone, Debug)]
pub(super) struct Column {
    points: Vec<Point>,
    cursor: Cursor,
}

impl Column {
    pub(super) fn new(reading: Reading, version: Prometheus) -> Column {
        Column { points: Vec::new(), cursor: Cursor::new(reading, version) }
    }

    /// Adds points in the order of time. One that is not after the last is left out.
    pub(super) fn add(&mut self, points: &[Point]) {
        for point in points {
            if self.points.last().is_none_or(|last| last.at < point.at) {
                self.points.push(*point);
            }
        }
    }

    /// Ends the series if it had no point at this time.
    pub(super) fn end(&mut self, at: Time) {
        if self.points.last().is_some_and(|last| last.at < at && !last.is_stale()) {
            self.points.push(Point::stale(at));
        }
    }

    pub(super) fn at(&mut self, at: Time) -> Option<f64> {
        self.cursor.at(&self.points, at)
    }

    /// The same with the time it was measured at; of an increase there is none.
    pub(super) fn point(&mut self, at: Time) -> Option<Point> {
        self.at(at)?;
        self.points.get(self.cursor.read()?).copied()
    }

    /// Until when the value of that moment, which was read last, stays.
    pub(super) fn until(&self, at: Time) -> Time {
        self.cursor.until(&self.points, at)
    }

    /// Forgets what no evaluation at or after `oldest` reads. Whether anything is left.
    pub(super) fn prune(&mut self, reading: Reading, oldest: Time) -> bool {
        let out_of_reach = Time(oldest.0.saturating_sub(reading.reach()));
        let until = |limit: Time| self.points.partition_point(|point| point.at < limit);
        let gone = match reading {
            Reading::Increase(_) => until(out_of_reach),
            // Of the points before, only the newest is ever read.
            Reading::Instant(_) | Reading::Last(_) => until(out_of_reach).max(until(oldest).saturating_sub(1)),
        };
        // Many at once: moving the others costs time.
        if gone == self.points.len() || gone > self.points.len() / 4 {
            self.points.drain(..gone);
            self.cursor.forget(gone);
        }
        !self.points.is_empty()
    }
}
