//! Since when targets are out of sight, for rules whose alerts then stay as they are.
//!
//! In PromQL it is `time() - lockscope_blind_since_timestamp_seconds < longest`: the series is there only while something of
//! its target is not known.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::alerts::column::{Point, Prometheus, Reading};
use crate::alerts::expression::{Column, Labels};
use crate::alerts::machine::Unseen;
use crate::alerts::{NoData, Rule};
use crate::base::time::Time;
use crate::metrics::{MetricId, Part, Series};

pub(super) const SINCE: MetricId = MetricId::of("lockscope_blind_since_timestamp_seconds");

pub(super) struct Blind {
    /// For how long an alert stays, in seconds.
    longest: f64,
    reading: Reading,
    version: Prometheus,
    columns: BTreeMap<Labels, Column>,
}

/// The targets that are out of sight at one time.
#[derive(Default)]
pub(super) struct Sight(BTreeMap<Arc<str>, Unseen>);

impl Sight {
    /// Whether that target is; any target, if none is given.
    pub(super) fn of(&self, target: Option<&str>) -> Option<Unseen> {
        match target {
            Some(target) => self.0.get(target).copied(),
            None => self.0.values().copied().reduce(Unseen::and),
        }
    }
}

impl Unseen {
    /// Of two nodes: since the earlier, and staying if one allows it.
    fn and(self, other: Unseen) -> Unseen {
        Unseen { since: self.since.min(other.since), stays: self.stays || other.stays }
    }
}

impl Blind {
    /// `None` if the rule's alerts do not stay.
    pub(super) fn of(rule: &Rule, lookback: i64, version: Prometheus) -> Option<Blind> {
        let NoData::Stay(longest) = rule.no_data else { return None };
        let reading = Reading::Instant(lookback);
        Some(Blind { longest: longest.as_secs_f64(), reading, version, columns: BTreeMap::new() })
    }

    pub(super) fn takes(&self, series: &Series) -> bool {
        series.metric == SINCE && series.part == Part::Value
    }

    pub(super) fn add(&mut self, series: &Series, points: &[Point]) {
        let column = self.columns.entry(series.labels.clone());
        column.or_insert_with(|| Column::new(self.reading, self.version)).add(points);
    }

    pub(super) fn end_others(&mut self, at: Time) {
        self.columns.values_mut().for_each(|column| column.end(at));
    }

    pub(super) fn prune(&mut self, oldest: Time) {
        self.columns.retain(|_, column| column.prune(self.reading, oldest));
    }

    pub(super) fn forget(&mut self) {
        self.columns.clear();
    }

    /// How far apart points of equal value may be thinned out.
    pub(super) fn slack(&self) -> Duration {
        Duration::from_millis((self.reading.reach() / 5).max(0) as u64)
    }

    /// What is out of sight at that moment, which is not before the last one.
    pub(super) fn at(&mut self, at: Time) -> Sight {
        let mut sight = Sight::default();
        for (labels, column) in &mut self.columns {
            let Some(since) = column.at(at) else { continue };
            let Some(target) = labels.first() else { continue };
            let stays = at.0 as f64 / 1_000.0 - since < self.longest;
            let unseen = Unseen { since: Time((since * 1_000.0).round() as i64), stays };
            let all = sight.0.entry(target.clone()).or_insert(unseen);
            *all = all.and(unseen);
        }
        sight
    }

    /// The same at each of these times.
    pub(super) fn course(&mut self, times: impl Iterator<Item = Time>) -> Vec<Sight> {
        if self.columns.is_empty() {
            return Vec::new();
        }
        times.map(|at| self.at(at)).collect()
    }
}
