//! The alerting rules of a Prometheus, and what of them can be tuned.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Prometheus, answer};
use crate::alerts::{Condition, Split, Stay, split};
use crate::base::fault::Fault;
use crate::base::time::Time;

/// One alerting rule.
#[derive(Clone, PartialEq, Debug)]
pub struct OwnRule {
    pub name: String,
    pub group: String,
    pub query: String,
    pub interval: Duration,
    pub labels: BTreeMap<String, String>,
    pub hold_for: Duration,
    pub keep_firing_for: Duration,
    pub last_evaluation: Option<Time>,
    /// Why it can't be tuned, if it can't.
    pub tunable: Result<Tunable, String>,
}

/// A rule that compares an expression with a number.
#[derive(Clone, PartialEq, Debug)]
pub struct Tunable {
    /// What is compared.
    pub lhs: String,
    /// The comparison as it is written: `>= 5`.
    pub written: String,
    pub condition: Condition,
    /// It stays while its target is out of sight.
    pub stay: Option<Stay>,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    #[serde(default)]
    interval: f64,
    #[serde(default)]
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    name: String,
    #[serde(default)]
    query: String,
    #[serde(default)]
    duration: f64,
    #[serde(default)]
    keep_firing_for: f64,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    last_evaluation: String,
    #[serde(default, rename = "type")]
    kind: String,
}

impl Prometheus {
    /// All alerting rules, as they are listed there.
    pub async fn rules(&self) -> Result<Vec<OwnRule>, Fault> {
        let body = self.ask("/api/v1/rules?type=alert", &[]).await?;
        let Groups { groups } = answer::read(&body, self.shown())?;
        let rules = groups.into_iter().flat_map(|group| {
            let (name, interval) = (group.name, length(group.interval));
            group.rules.into_iter().filter(|rule| rule.kind != "recording").map(move |rule| own(rule, &name, interval))
        });
        Ok(rules.collect())
    }
}

fn length(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

fn own(rule: Rule, group: &str, interval: Duration) -> OwnRule {
    let (hold_for, keep_firing_for) = (length(rule.duration), length(rule.keep_firing_for));
    OwnRule {
        tunable: tunable(&rule, hold_for, keep_firing_for, interval),
        group: group.to_string(),
        interval,
        labels: rule.labels,
        hold_for,
        keep_firing_for,
        last_evaluation: Time::of_rfc3339(&rule.last_evaluation).filter(|at| at.0 > 0),
        name: rule.name,
        query: rule.query,
    }
}

fn tunable(rule: &Rule, hold_for: Duration, keep: Duration, interval: Duration) -> Result<Tunable, String> {
    if interval.is_zero() {
        return Err("its group has no interval".into());
    }
    let Split { lhs, op, threshold, recovery, stay } = split(&rule.query)?;
    if recovery.as_ref().is_some_and(|recovery| recovery.alert != rule.name) {
        return Err("it recovers by another alert than its own".into());
    }
    if stay.as_ref().is_some_and(|stay| stay.alert != rule.name) {
        return Err("it stays with another alert than its own".into());
    }
    let millis = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    let condition = Condition {
        compare: op.compare(threshold),
        recover: recovery.map(|recovery| op.compare(recovery.level).threshold()),
        hold_for: millis(hold_for),
        keep_firing_for: millis(keep),
    };
    if let Some(why) = condition.wrong_recovery() {
        return Err(why);
    }
    Ok(Tunable { lhs, written: format!("{} {threshold}", op.sign()), condition, stay })
}
