//! One alert rule: which series it looks at, when it fires, and what it tells the on-call. Pure data; `read.rs` reads it
//! from TOML and refuses what makes no sense.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::alerts::Severity;
use crate::filter::Selector;
use crate::metrics::{Kind, MetricId};

/// How long an alert stays without sight, where nothing is said.
const STAY: Duration = Duration::from_secs(3_600);

/// When the condition holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Compare {
    Above(f64),
    Below(f64),
}

/// What a rule does without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoData {
    /// No data, no alert.
    Ok,
    /// What fires stays so while its target is out of sight, at most this long.
    Stay(Duration),
    /// The last value counts for this long.
    Keep(Duration),
    /// A second rule fires where there is no series at all; see [`Rule::companion`].
    Alert,
}

/// One rule, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    pub name: String,
    pub metric: MetricId,
    pub selector: Selector,
    /// There is one alert for each value of these labels; of all labels of the series if not given.
    pub by: Option<Vec<&'static str>>,
    pub compare: Compare,
    /// For how long the condition must hold before the alert fires: `for` in TOML.
    pub hold_for: Duration,
    pub keep_firing_for: Duration,
    /// The level at which a firing alert ends, if it is another than the one at which it fires.
    pub recover: Option<f64>,
    /// The time in which counters are counted.
    pub window: Option<Duration>,
    pub no_data: NoData,
    pub severity: Severity,
    /// What the on-call should know and do.
    pub note: String,
    pub runbook: String,
    /// It fires where the series of the rule are absent, instead of comparing them.
    pub(super) of_absence: bool,
}

impl Compare {
    pub fn threshold(self) -> f64 {
        match self {
            Compare::Above(level) | Compare::Below(level) => level,
        }
    }

    /// The same comparison with another level.
    pub fn with(self, level: f64) -> Compare {
        match self {
            Compare::Above(_) => Compare::Above(level),
            Compare::Below(_) => Compare::Below(level),
        }
    }

    /// Whether the value lies beyond the level. What is not a number lies nowhere.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Compare::Above(level) => value > level,
            Compare::Below(level) => value < level,
        }
    }

    pub fn sign(self) -> &'static str {
        match self {
            Compare::Above(_) => ">",
            Compare::Below(_) => "<",
        }
    }
}

impl NoData {
    /// What holds of rules on that metric where nothing is said: an outage does not end what fires about locks.
    pub fn usual(metric: MetricId) -> NoData {
        match metric.metric().labels.contains(&"pattern") {
            true => NoData::Stay(STAY),
            false => NoData::Ok,
        }
    }
}

impl Rule {
    /// The labels that its alerts carry, in the order of the metric.
    pub fn labels(&self) -> Vec<&'static str> {
        match &self.by {
            _ if self.of_absence => Vec::new(),
            Some(by) => by.clone(),
            None => self.metric.metric().labels.to_vec(),
        }
    }

    /// Whether its series begin only when something is found: that there are none is calm.
    pub fn begins_when_found(&self) -> bool {
        self.metric == MetricId::of("lockscope_findings")
    }

    /// Whether it fires where there is no series, and not where a series has a value.
    pub(super) fn fires_without_data(&self) -> bool {
        self.of_absence || self.metric.metric().name == "lockscope_absent"
    }

    /// The labels of an alert about series that are not there: those that can only have one value.
    pub(super) fn labels_of_absence(&self) -> BTreeMap<String, String> {
        let certain = match self.metric.metric().kind {
            Kind::Derived => Vec::new(),
            _ => self.selector.certain(),
        };
        certain.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// The rule that fires where there is no data, if this one asks for that.
    pub fn companion(&self) -> Option<Rule> {
        let wanted = self.no_data == NoData::Alert && !self.of_absence;
        wanted.then(|| Rule {
            name: format!("{}NoData", self.name),
            compare: Compare::Above(0.0),
            recover: None,
            by: None,
            window: self.window.filter(|_| self.metric.metric().kind != Kind::Counter),
            of_absence: true,
            ..self.clone()
        })
    }
}
