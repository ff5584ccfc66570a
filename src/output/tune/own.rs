//! The rules of a Prometheus: which of them can be tuned, and why the others can't.

use std::io::{self, Write};

use serde_json::json;

use super::super::json::SCHEMA;
use super::{TextStyle, write_table};
use crate::alerts::written;
use crate::base::json::write_value;
use crate::base::text::visible;
use crate::prometheus::OwnRule;

/// A line for each rule.
pub fn write(out: &mut impl Write, rules: &[OwnRule], style: &TextStyle) -> io::Result<()> {
    let mut table = vec![["RULE", "GROUP", "THRESHOLD", "FOR", "EVERY", "TUNABLE"].map(String::from)];
    for rule in rules {
        let (threshold, tunable) = match &rule.tunable {
            Ok(tunable) => (tunable.written.clone(), "yes".to_string()),
            Err(why) => ("-".into(), format!("no: {}", visible(why.as_bytes()))),
        };
        table.push([
            visible(rule.name.as_bytes()),
            visible(rule.group.as_bytes()),
            threshold,
            written(rule.hold_for),
            written(rule.interval),
            tunable,
        ]);
    }
    write_table(out, &table, style)?;
    writeln!(out, "--rule NAME replays one of them over its history")
}

/// The document of `tune --prometheus URL --json`.
pub fn write_json(out: &mut impl Write, source: &str, rules: &[OwnRule]) -> io::Result<()> {
    let rules = rules.iter().map(|rule| {
        let tunable = rule.tunable.as_ref();
        json!({
            "rule": rule.name,
            "group": rule.group,
            "expression": rule.query,
            "labels": rule.labels,
            "for_ms": rule.hold_for.as_millis() as u64,
            "keep_firing_for_ms": rule.keep_firing_for.as_millis() as u64,
            "interval_ms": rule.interval.as_millis() as u64,
            "tunable": tunable.is_ok(),
            "compares": tunable.ok().map(|tunable| &tunable.lhs),
            "threshold": tunable.ok().map(|tunable| &tunable.written),
            "why_not": tunable.err(),
        })
    });
    write_value(out, &json!({ "schema": SCHEMA, "source": source, "rules": rules.collect::<Vec<_>>() }))?;
    writeln!(out)
}
