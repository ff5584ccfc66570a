//! A rule as Prometheus evaluates it: the expression in PromQL, and the file of rules. It means the same as our evaluator;
//! `tests/promtool.rs` compares the two.

mod split;
mod tokens;

use std::fmt::Write;

use crate::alerts::blind;
use crate::alerts::expression::join;
use crate::alerts::read::written;
use crate::alerts::{NoData, Rule, Rules};
use crate::metrics::{Kind, Metric};
pub(super) use split::stripped;
pub use split::{Op, Recovery, Split, Stay, split};
pub(super) use tokens::{Placed, Token, duration, tokens};

/// One alerting rule of Prometheus.
#[derive(Clone, PartialEq, Debug)]
pub struct Exported {
    pub alert: String,
    pub expr: String,
    /// As Prometheus writes durations.
    pub hold_for: String,
    pub keep_firing_for: String,
    pub labels: Vec<(&'static str, String)>,
    pub annotations: Vec<(&'static str, String)>,
}

/// The rule in PromQL, and the one that fires without data if there is one.
pub fn promql(rule: &Rule) -> Vec<Exported> {
    let all = [Some(rule.clone()), rule.companion()];
    all.into_iter().flatten().map(|rule| one(&rule)).collect()
}

/// A file of rules for Prometheus, in one group.
pub fn exported(rules: &Rules, group: &str) -> String {
    let mut out = format!("groups:\n  - name: {}\n    rules:\n", yaml(group));
    for rule in rules.iter().flat_map(promql) {
        rule.write(&mut out);
    }
    if rules.is_empty() {
        out.truncate(out.len() - 1);
        out.push_str(" []\n");
    }
    out
}

impl Exported {
    fn write(&self, out: &mut String) {
        let mut line = |depth: usize, key: &str, value: &str| {
            let _ = writeln!(out, "{:depth$}{key}: {}", "", yaml(value));
        };
        line(6, "- alert", &self.alert);
        line(8, "expr", &self.expr);
        for (key, duration) in [("for", &self.hold_for), ("keep_firing_for", &self.keep_firing_for)] {
            if duration != "0s" {
                line(8, key, duration);
            }
        }
        for (key, pairs) in [("labels", &self.labels), ("annotations", &self.annotations)] {
            if pairs.is_empty() {
                continue;
            }
            let _ = writeln!(out, "        {key}:");
            for (name, value) in pairs {
                let _ = writeln!(out, "          {name}: {}", yaml(value));
            }
        }
    }
}

/// One rule without its companion.
pub(super) fn one(rule: &Rule) -> Exported {
    let annotations = [("description", &rule.note), (runbook_key(&rule.runbook), &rule.runbook)];
    Exported {
        alert: rule.name.clone(),
        expr: expression(rule),
        hold_for: written(rule.hold_for),
        keep_firing_for: written(rule.keep_firing_for),
        labels: vec![("severity", rule.severity.name().to_string())],
        annotations: annotations
            .into_iter()
            .filter(|(_, text)| !text.is_empty())
            .map(|(name, text)| (name, literal_template(text)))
            .collect(),
    }
}

/// The annotation of a runbook: only a link is one of those that pagers make clickable.
pub fn runbook_key(runbook: &str) -> &'static str {
    match runbook.contains("://") {
        true => "runbook_url",
        false => "runbook",
    }
}

fn expression(rule: &Rule) -> String {
    let metric = rule.metric.metric();
    let value = value(rule, metric);
    if rule.of_absence {
        return format!("absent({value})");
    }
    if rule.fires_without_data() {
        return value;
    }
    let value = compared(rule, &value);
    let (sign, level) = (rule.compare.sign(), rule.compare.threshold());
    let condition = match rule.recover {
        None => format!("{value} {sign} {level}"),
        Some(recover) => format!(
            "{value} {sign} {level} or ({value} {sign} {recover} and on ({}) ALERTS{{alertname={}, alertstate=\"firing\"}})",
            rule.labels().join(", "),
            quoted(&rule.name)
        ),
    };
    match rule.no_data {
        NoData::Stay(longest) => {
            let stay = Stay { alert: rule.name.clone(), of_target: rule.labels().contains(&"target"), longest };
            format!("{condition} or ({})", staying(&stay))
        }
        NoData::Ok | NoData::Keep(_) | NoData::Alert => condition,
    }
}

/// The alerts of that name that fire, while their target is out of sight. They keep their labels, so that they are the same
/// alerts.
pub(super) fn staying(stay: &Stay) -> String {
    let firing = format!("ALERTS{{alertname={}, alertstate=\"firing\"}}", quoted(&stay.alert));
    let target = if stay.of_target { "target" } else { "" };
    format!("max without (alertname, alertstate, severity) ({firing}) and on ({target}) ({})", stay.unseen())
}

impl Stay {
    /// What is there for each target out of sight, but not for too long: lockscope says that it does not see all of it, or
    /// says nothing of it any more.
    pub fn unseen(&self) -> String {
        let (since, up) = (blind::SINCE.metric().name, blind::UP.metric().name);
        let (seconds, range) = (self.longest.as_secs_f64(), written(self.longest));
        format!("time() - {since} < {seconds} or last_over_time({up}[{range}]) unless on (target) {up}")
    }
}

/// The left side of the comparison.
fn compared(rule: &Rule, value: &str) -> String {
    let metric = rule.metric.metric();
    match &rule.by {
        Some(by) => format!("{} by ({}) ({value})", join(metric, rule.compare).name(), by.join(", ")),
        None if metric.kind == Kind::Derived => format!("({value})"),
        None => value.to_string(),
    }
}

/// The value that is compared. The selector goes into each `{}` of the metric's PromQL and the window into each `[w]`; a
/// value that is kept is the last one over that time.
fn value(rule: &Rule, metric: &Metric) -> String {
    let template = match metric.kind {
        Kind::Derived => metric.promql.to_string(),
        Kind::Counter if rule.window.is_some() => format!("increase({}{{}}[w])", metric.name),
        _ => format!("{}{{}}", metric.name),
    };
    let matchers = rule.selector.promql().join(", ");
    let window = rule.window.map(written).unwrap_or_default();
    let mut out = String::new();
    let mut rest = template.as_str();
    while let Some((before, fixed, after)) = braces(rest) {
        let name_at = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
        let (before, name) = before.split_at(name_at);
        let comma = if fixed.is_empty() || matchers.is_empty() { "" } else { ", " };
        let inside = format!("{fixed}{comma}{matchers}");
        let series = if inside.is_empty() { name.to_string() } else { format!("{name}{{{inside}}}") };
        out.push_str(before);
        match (after.strip_prefix("[w]"), rule.no_data) {
            (Some(after), _) => {
                let _ = write!(out, "{series}[{window}]");
                rest = after;
            }
            (None, NoData::Keep(longest)) => {
                let _ = write!(out, "last_over_time({series}[{}])", written(longest));
                rest = after;
            }
            (None, NoData::Ok | NoData::Stay(_) | NoData::Alert) => {
                out.push_str(&series);
                rest = after;
            }
        }
    }
    out + rest
}

fn braces(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (inside, after) = rest.split_once('}')?;
    Some((before, inside, after))
}

/// A text in quotes, as PromQL writes it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

/// A text that Prometheus takes for a template, so that it comes out as it is.
fn literal_template(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}

/// A text in YAML: in single quotes, and in double quotes where it has several lines.
pub(super) fn yaml(text: &str) -> String {
    if text.chars().any(char::is_control) {
        return serde_json::Value::from(text).to_string();
    }
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests;
