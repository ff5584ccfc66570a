//! What a rule says now, for screens and for `check`: its state, its alerts, and why it can't say anything.

use crate::alerts::watched::Watched;
use crate::alerts::{Alert, AlertState, Rule};
use crate::base::text::counted;
use crate::base::time::Time;
use crate::metrics::{MetricId, Moment};

/// One rule at the last evaluation.
#[derive(Clone, PartialEq, Debug)]
pub struct RuleStatus<'a> {
    pub rule: &'a Rule,
    /// The worst state of its alerts; inactive or unknown without any.
    pub state: AlertState,
    /// Since when it has been in this state; `None` before the first evaluation.
    pub since: Option<Time>,
    /// Firing and pending alerts, by their labels.
    pub alerts: Vec<Alert>,
    /// Why it is unknown.
    pub why: Option<String>,
    /// What makes its silence worth less: its selector matches nothing.
    pub warning: Option<String>,
}

/// What is known about how much was measured at all.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    last: Option<Time>,
    /// The last reading failed, since this time.
    failed: Option<Time>,
    /// Nodes whose changes are learnt, of those that there are.
    up: (usize, usize),
}

impl Sight {
    pub(super) fn take(&mut self, moment: &Moment) {
        let nodes = moment.samples.iter().filter(|sample| sample.series.metric().name == "lockscope_up");
        self.up = nodes.fold((0, 0), |(up, all), sample| (up + usize::from(sample.value >= 1.0), all + 1));
        (self.last, self.failed) = (Some(moment.at), None);
    }

    pub(super) fn gap(&mut self, at: Time) {
        self.last = Some(at);
        self.failed.get_or_insert(at);
    }

    pub(super) fn last(&self) -> Option<Time> {
        self.last
    }
}

/// What must be measured for some metrics, which is not measured on every server or without consent.
const COVERAGE: [(&str, &str); 5] = [
    ("lockscope_attempts_per_second", "failure rates need MONITOR or counted attempts"),
    ("lockscope_failures_per_second", "failure rates need MONITOR or counted attempts"),
    ("lockscope_sampling_coverage_ratio", "it is measured only while MONITOR is read"),
    ("lockscope_waiters", "waiters are counted only for libraries that show them, or with MONITOR"),
    ("lockscope_waiters_max", "waiters are counted only for libraries that show them, or with MONITOR"),
];

/// What must be measured for a rule, and is not always.
pub(super) fn needs(mut metrics: impl Iterator<Item = MetricId>) -> Option<&'static str> {
    let needs = |metric: MetricId| COVERAGE.iter().find(|(name, _)| *name == metric.metric().name);
    metrics.find_map(needs).map(|(_, needs)| *needs)
}

/// Why the rule can't say whether all is well. `None` where it can.
pub(super) fn why_unknown(watched: &Watched, sight: &Sight) -> Option<String> {
    let rule = watched.rule();
    if sight.last.is_none() {
        return Some("nothing was measured yet".into());
    }
    // What was counted before is no sight of what happens now.
    if let (None, (0, nodes @ 1..)) = (sight.failed, sight.up)
        && rule.metric.metric().labels.contains(&"pattern")
    {
        return Some(format!("no sight: none of {} answers", counted(nodes as u64, "node")));
    }
    if rule.fires_without_data() {
        return None;
    }
    // What still counts within a window was measured before.
    if let Some(failed) = sight.failed {
        return Some(format!("nothing could be measured since {}", failed.rfc3339()));
    }
    if let Some(why) = watched.doubt() {
        return Some(why);
    }
    if watched.has_value() {
        return None;
    }
    if let Some(needs) = watched.needs() {
        return Some(format!("no coverage: {needs}"));
    }
    match sight.up {
        (0, nodes @ 1..) => Some(format!("no sight: none of {} answers", counted(nodes as u64, "node"))),
        _ => None,
    }
}

/// Why it says little that no alert fires.
pub(super) fn warning(watched: &Watched, sight: &Sight) -> Option<String> {
    let rule = watched.rule();
    if rule.begins_when_found() {
        return None;
    }
    if sight.last.is_none() || rule.fires_without_data() || watched.has_series() || rule.selector.as_str().is_empty() {
        return None;
    }
    let (metric, selector) = (rule.metric.metric().name, rule.selector.as_str());
    Some(format!("no series of {metric} matches {selector:?}: that nothing fires does not mean that all is well"))
}
