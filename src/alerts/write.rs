//! Writes a rule as TOML, as a file of rules has it.

use std::fmt::Write;
use std::time::Duration;

use crate::alerts::read::written;
use crate::alerts::{Compare, NoData, Rule};

/// One `[[rules]]` table. What a rule has by itself is left out.
pub fn toml(rule: &Rule) -> String {
    let mut out = "[[rules]]\n".to_string();
    let mut line = |key: &str, value: String| {
        let _ = writeln!(out, "{key} = {value}");
    };
    line("name", text(&rule.name));
    line("metric", text(rule.metric.metric().name));
    if !rule.selector.as_str().is_empty() {
        line("selector", text(rule.selector.as_str()));
    }
    if let Some(by) = &rule.by {
        line("by", format!("[{}]", by.iter().map(|label| text(label)).collect::<Vec<_>>().join(", ")));
    }
    let side = match rule.compare {
        Compare::Above(_) => "above",
        Compare::Below(_) => "below",
    };
    line(side, number(rule.compare.threshold()));
    if let Some(recover) = rule.recover {
        line("recover", number(recover));
    }
    let durations = [("for", rule.hold_for), ("keep_firing_for", rule.keep_firing_for)];
    let given = durations.into_iter().filter(|(_, duration)| *duration > Duration::ZERO);
    for (key, duration) in given.chain(rule.window.map(|window| ("window", window))) {
        line(key, text(&written(duration)));
    }
    if rule.no_data != NoData::usual(rule.metric) {
        let policy = match rule.no_data {
            NoData::Ok => "ok".to_string(),
            NoData::Stay(longest) => format!("stay {}", written(longest)),
            NoData::Keep(longest) => format!("keep {}", written(longest)),
            NoData::Alert => "alert".to_string(),
        };
        line("no_data", text(&policy));
    }
    line("severity", text(rule.severity.name()));
    for (key, value) in [("note", &rule.note), ("runbook", &rule.runbook)] {
        if !value.is_empty() {
            line(key, text(value));
        }
    }
    out
}

fn text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn number(value: f64) -> String {
    // A float of TOML needs its point or exponent; a whole number is nicer without.
    if value.fract() == 0.0 && value.abs() < 1e15 { format!("{value:.0}") } else { format!("{value:?}") }
}
