//! Since when targets are out of sight, for rules whose alerts then stay as they are.
//!
//! Either lockscope says so, by `lockscope_blind_since_timestamp_seconds`, which is there only while something of a target is
//! not known; or it says nothing at all, because it does not run: then `lockscope_up` is gone, and was there a while ago. In
//! PromQL: `promql::staying`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::alerts::beside::Beside;
use crate::alerts::column::{Point, Prometheus, Reading};
use crate::alerts::machine::Unseen;
use crate::alerts::{NoData, Rule};
use crate::base::time::Time;
use crate::metrics::{MetricId, Series};

pub(super) const SINCE: MetricId = MetricId::of("lockscope_blind_since_timestamp_seconds");
pub(super) const UP: MetricId = MetricId::of("lockscope_up");

pub(super) struct Blind {
    /// For how long an alert stays, in seconds.
    longest: f64,
    since: Beside,
    /// Whether lockscope says anything of a target, and when it last did.
    up: Beside,
    last_up: Beside,
}

/// The targets that are out of sight at one time.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Sight(BTreeMap<Arc<str>, Unseen>);

/// What is out of sight at some times of a grid: from which index to before which.
pub(super) type Course = Vec<(std::ops::Range<u32>, Sight)>;

impl Sight {
    /// Whether that target is; any target, if none is given.
    pub(super) fn of(&self, target: Option<&str>) -> Option<Unseen> {
        match target {
            Some(target) => self.0.get(target).copied(),
            None => self.0.values().copied().reduce(Unseen::and),
        }
    }

    fn add(&mut self, target: &Arc<str>, unseen: Unseen) {
        let all = self.0.entry(target.clone()).or_insert(unseen);
        *all = all.and(unseen);
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
        let now = Reading::Instant(lookback);
        let back = Reading::Last(i64::try_from(longest.as_millis()).unwrap_or(i64::MAX));
        Some(Blind {
            longest: longest.as_secs_f64(),
            since: Beside::new(SINCE, now, version),
            up: Beside::new(UP, now, version),
            last_up: Beside::new(UP, back, version),
        })
    }

    fn all(&mut self) -> [&mut Beside; 3] {
        [&mut self.since, &mut self.up, &mut self.last_up]
    }

    /// The metrics that it reads.
    pub(super) fn metrics() -> [MetricId; 2] {
        [SINCE, UP]
    }

    pub(super) fn takes(&self, series: &Series) -> bool {
        self.since.takes(series) || self.up.takes(series)
    }

    pub(super) fn add(&mut self, series: &Series, points: &[Point]) {
        self.all().into_iter().for_each(|beside| beside.add(series, points));
    }

    pub(super) fn end_others(&mut self, at: Time) {
        self.all().into_iter().for_each(|beside| beside.end_others(at));
    }

    pub(super) fn prune(&mut self, oldest: Time) {
        self.all().into_iter().for_each(|beside| beside.prune(oldest));
    }

    pub(super) fn forget(&mut self) {
        self.all().into_iter().for_each(Beside::forget);
    }

    /// How far apart points of equal value may be thinned out.
    pub(super) fn slack(&self) -> Duration {
        [&self.since, &self.up, &self.last_up].map(Beside::slack).into_iter().min().unwrap_or_default()
    }

    /// What is out of sight at that moment, which is not before the last one.
    pub(super) fn at(&mut self, at: Time) -> Sight {
        let mut sight = Sight::default();
        for (labels, since) in self.since.at(at) {
            let Some(target) = labels.first() else { continue };
            let stays = at.0 as f64 / 1_000.0 - since.value < self.longest;
            sight.add(target, Unseen { since: Time((since.value * 1_000.0).round() as i64), stays });
        }
        let told: BTreeSet<Arc<str>> = self.up.at(at).filter_map(|(labels, _)| labels.first().cloned()).collect();
        for (labels, last) in self.last_up.at(at) {
            if let Some(target) = labels.first().filter(|target| !told.contains(*target)) {
                sight.add(target, Unseen { since: last.at, stays: true });
            }
        }
        sight
    }

    /// The same at each time of a grid, without those at which all is in sight.
    pub(super) fn course(&mut self, times: impl Iterator<Item = Time>) -> Course {
        let mut course = Course::new();
        // Seen at least until then, and nothing changes before.
        let mut clear_until = Time(i64::MIN);
        for (index, at) in (0..).zip(times) {
            if at < clear_until {
                continue;
            }
            let sight = self.at(at);
            if sight.0.is_empty() {
                let until = [&self.since, &self.up, &self.last_up].map(|beside| beside.until(at));
                clear_until = until.into_iter().min().unwrap_or(at);
                continue;
            }
            match course.last_mut() {
                Some((range, last)) if range.end == index && *last == sight => range.end = index + 1,
                _ => course.push((index..index + 1, sight)),
            }
        }
        course
    }
}
