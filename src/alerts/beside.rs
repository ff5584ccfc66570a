//! One metric that a rule looks at beside what it compares: the series of it, read at one moment after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::alerts::column::{Point, Prometheus, Reading};
use crate::alerts::expression::{Column, Labels};
use crate::base::time::Time;
use crate::metrics::{MetricId, Part, Series};

pub(super) struct Beside {
    metric: MetricId,
    reading: Reading,
    version: Prometheus,
    columns: BTreeMap<Labels, Column>,
}

impl Beside {
    pub(super) fn new(metric: MetricId, reading: Reading, version: Prometheus) -> Beside {
        Beside { metric, reading, version, columns: BTreeMap::new() }
    }

    pub(super) fn metric(&self) -> MetricId {
        self.metric
    }

    pub(super) fn takes(&self, series: &Series) -> bool {
        series.metric == self.metric && series.part == Part::Value
    }

    /// Adds points in the order of time, if the series is one of its own.
    pub(super) fn add(&mut self, series: &Series, points: &[Point]) {
        if self.takes(series) {
            let column = self.columns.entry(series.labels.clone());
            column.or_insert_with(|| Column::new(self.reading, self.version)).add(points);
        }
    }

    /// Ends the series that had no point at this time.
    pub(super) fn end_others(&mut self, at: Time) {
        // Other ways to read a series do not see that it ended.
        if matches!(self.reading, Reading::Instant(_)) {
            self.columns.values_mut().for_each(|column| column.end(at));
        }
    }

    /// Forgets what no evaluation at or after `oldest` reads.
    pub(super) fn prune(&mut self, oldest: Time) {
        self.columns.retain(|_, column| column.prune(self.reading, oldest));
    }

    pub(super) fn forget(&mut self) {
        self.columns.clear();
    }

    /// The values at that moment, which is not before the last one, each with its labels and the time it was measured at.
    pub(super) fn at(&mut self, at: Time) -> impl Iterator<Item = (&Labels, Point)> {
        self.columns.iter_mut().filter_map(move |(labels, column)| Some((labels, column.point(at)?)))
    }

    /// Until when the values of that moment, which were read last, stay.
    pub(super) fn until(&self, at: Time) -> Time {
        self.columns.values().map(|column| column.until(at)).min().unwrap_or(Time(i64::MAX))
    }

    /// How far apart points of equal value may be thinned out.
    pub(super) fn slack(&self) -> Duration {
        Duration::from_millis((self.reading.reach() / 5).max(0) as u64)
    }
}
