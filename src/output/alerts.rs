//! The alerts of `check`, as a list for people and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;

use super::TextStyle;
use crate::alerts::{AlertState, RuleStatus, Severity};
use crate::base::json::write_value;
use crate::base::text::{ascii_only, figure, harmless, short_duration, visible};
use crate::base::time::Time;

/// One alert, or a rule that has none.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    pub rule: String,
    pub severity: Severity,
    pub state: AlertState,
    pub labels: BTreeMap<String, String>,
    pub value: Option<f64>,
    pub threshold: f64,
    /// Since when the condition holds.
    pub since: Option<Time>,
    /// Since when it only stays, because the server is out of sight.
    pub unknown_since: Option<Time>,
    pub why: Option<String>,
    pub note: String,
    pub runbook: String,
}

/// The alerts of a rule, or the rule itself where it has none.
pub fn entries(status: &RuleStatus, now: Time) -> Vec<Entry> {
    let rule = status.rule;
    let entry = Entry {
        rule: rule.name.clone(),
        severity: rule.severity,
        state: status.state,
        labels: BTreeMap::new(),
        value: None,
        threshold: rule.compare.threshold(),
        since: None,
        unknown_since: None,
        why: status.why.clone().or_else(|| status.warning.clone()),
        note: rule.note.clone(),
        runbook: rule.runbook.clone(),
    };
    if status.alerts.is_empty() {
        return vec![entry];
    }
    let of_alert = |alert: &crate::alerts::Alert| {
        let lasts = millis(now.since(alert.active_at));
        let wait = match alert.state {
            AlertState::Pending => format!(", and fires after {}", millis(rule.hold_for)),
            _ => String::new(),
        };
        let unknown = match alert.unknown_since {
            Some(since) => format!("; not known since {}: it stays while the server is out of sight", since.rfc3339()),
            None => String::new(),
        };
        let value = alert.value.map_or("not known".to_string(), figure);
        let (metric, sign, level) = (rule.metric.metric().name, rule.compare.sign(), figure(alert.threshold));
        Entry {
            state: alert.state,
            labels: alert.labels.clone(),
            value: alert.value,
            since: Some(alert.active_at),
            why: Some(format!("{metric} is {value} ({sign} {level}) for {lasts}{wait}{unknown}")),
            unknown_since: alert.unknown_since,
            ..entry.clone()
        }
    };
    status.alerts.iter().map(of_alert).collect()
}

/// The document of `check --json`.
pub fn write_json(out: &mut impl Write, entries: &[Entry]) -> io::Result<()> {
    let alerts: Vec<_> = entries
        .iter()
        .map(|entry| {
            json!({
                "rule": entry.rule,
                "severity": entry.severity,
                "state": entry.state,
                "labels": entry.labels,
                "value": entry.value.filter(|value| value.is_finite()),
                "threshold": entry.threshold,
                "since": entry.since.map(Time::rfc3339),
                "unknown_since": entry.unknown_since.map(Time::rfc3339),
                "why": entry.why,
                "note": entry.note,
                "runbook": entry.runbook,
            })
        })
        .collect();
    write_value(out, &json!({ "schema": "lockscope/1", "alerts": alerts }))?;
    writeln!(out)
}

/// A line for each entry that is not inactive, and the note of what fires below it.
pub fn write(out: &mut impl Write, entries: &[Entry], style: &TextStyle) -> io::Result<()> {
    let shown = |text: String| if style.ascii { ascii_only(&text) } else { text };
    for entry in entries.iter().filter(|entry| entry.state != AlertState::Inactive) {
        let labels = entry.labels.iter().filter(|(name, _)| *name != "target");
        let labels: String = labels.map(|(name, value)| format!(" {name}={}", harmless(value))).collect();
        let why = entry.why.as_deref().unwrap_or("not known");
        let (state, severity) = (name(entry.state), entry.severity.name());
        writeln!(
            out,
            "{state:<8} {severity:<6} {}",
            shown(format!("{}{labels}: {why}", visible(entry.rule.as_bytes())))
        )?;
        if entry.state == AlertState::Firing && !entry.note.is_empty() {
            writeln!(out, "         {}", shown(visible(entry.note.as_bytes())))?;
        }
    }
    Ok(())
}

fn name(state: AlertState) -> &'static str {
    match state {
        AlertState::Firing => "firing",
        AlertState::Pending => "pending",
        AlertState::Inactive => "inactive",
        AlertState::Unknown => "unknown",
    }
}

fn millis(duration: std::time::Duration) -> String {
    short_duration(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
