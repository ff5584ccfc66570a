//! Our evaluation of a story, and promtool's: the alerts after every step, side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use lockscope::alerts::{self, AlertChange, AlertState, Evaluator, Point, Prometheus, Rules, Watched, exported};
use lockscope::base::time::Time;
use lockscope::metrics::{Moment, Sample};

use crate::common::promtool;
use crate::story::{LENGTH, STEP, Story};

const LOOKBACK: Duration = Duration::from_secs(300);

/// An alert after one step.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Seen {
    pub rule: String,
    pub state: &'static str,
    severity: &'static str,
    labels: BTreeMap<String, String>,
    /// The second in which it became active.
    active_at: i64,
}

/// The alerts after each step.
pub type Course = Vec<BTreeSet<Seen>>;

pub fn rules(story: &Story) -> Rules {
    Rules::parse(&story.rules).unwrap_or_else(|fault| panic!("{fault}\n{}", story.rules))
}

fn steps() -> impl Iterator<Item = i64> + Clone {
    (0..=LENGTH / STEP).map(|step| step * STEP)
}

/// As it is done live: moments are taken as they come, and old ones forgotten. The alerts after each step, and the changes.
pub fn live(story: &Story, version: Prometheus) -> (Course, Vec<AlertChange>) {
    let interval = Duration::from_secs(STEP as u64);
    let mut evaluator = Evaluator::like(rules(story), interval, LOOKBACK, version);
    let mut scrapes = story.scrapes.iter().enumerate().peekable();
    let (mut course, mut changes) = (Vec::new(), Vec::new());
    for second in steps() {
        while let Some((index, scrape)) = scrapes.next_if(|(_, scrape)| scrape.at <= second) {
            let at = Time(scrape.at * 1_000);
            match scrape.failed {
                true => evaluator.gap(at),
                false => evaluator.take(&moment(story, index, at)),
            }
        }
        changes.extend(evaluator.evaluate(Time(second * 1_000)));
        course.push(evaluator.status().flat_map(|rule| rule.alerts).map(seen).collect());
    }
    (course, in_order(changes))
}

/// By time, rule and labels.
fn in_order(mut changes: Vec<AlertChange>) -> Vec<AlertChange> {
    changes.sort_by(|one, other| {
        let key = |change: &AlertChange| (change.at, change.alert.rule.clone(), change.alert.labels.clone());
        key(one).cmp(&key(other))
    });
    changes
}

fn moment(story: &Story, scrape: usize, at: Time) -> Moment {
    let known =
        |told: &crate::story::Told| told.values[scrape].map(|value| Sample { series: told.series.clone(), value });
    Moment { at, samples: story.series.iter().filter_map(known).collect() }
}

fn seen(alert: lockscope::alerts::Alert) -> Seen {
    let state = if alert.state == AlertState::Firing { "firing" } else { "pending" };
    let (severity, active_at) = (alert.severity.name(), alert.active_at.0 / 1_000);
    Seen { rule: alert.rule, state, severity, labels: alert.labels, active_at }
}

/// As a replay does it: all points are there from the beginning, and one alert is followed after the other.
pub fn replayed(story: &Story, version: Prometheus) -> Vec<AlertChange> {
    let mut changes = Vec::new();
    for rule in rules(story) {
        let companion = rule.companion();
        for rule in [Some(rule), companion].into_iter().flatten() {
            let mut watched = Watched::new(rule, LOOKBACK, version);
            for told in &story.series {
                watched.add(&told.series, &points(story, &told.values));
            }
            watched.replay(steps().map(|second| Time(second * 1_000)), |change| changes.push(change));
        }
    }
    in_order(changes)
}

/// The points of a series, with a stale marker where it was there before and is missing.
fn points(story: &Story, values: &[Option<f64>]) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for (scrape, value) in story.scrapes.iter().zip(values) {
        let at = Time(scrape.at * 1_000);
        match value {
            Some(value) => points.push(Point::new(at, *value)),
            None if points.last().is_some_and(|last| !last.is_stale()) => points.push(Point::stale(at)),
            None => {}
        }
    }
    points
}

/// Has promtool compare the course with its own. The error is what it printed.
pub fn promtool_agrees(program: &Path, story: &Story, course: &Course) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("rules.yml"), exported(&rules(story), "lockscope")).expect("the rules");
    std::fs::write(folder.path().join("test.yml"), test_file(story, course)).expect("the test");
    let output = promtool::run(program, folder.path(), &["test", "rules", "test.yml"]);
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(()) } else { Err(told) }
}

fn test_file(story: &Story, course: &Course) -> String {
    let mut out =
        format!("rule_files: [rules.yml]\nevaluation_interval: {STEP}s\ntests:\n  - interval: 1s\n    input_series:\n");
    for told in &story.series {
        let _ = writeln!(out, "      - series: {}", single(&alerts::selector(&told.series)));
        let _ = writeln!(out, "        values: '{}'", alerts::values(&points(story, &told.values)));
    }
    out += "    promql_expr_test:\n";
    for (second, alerts) in steps().zip(course) {
        for (name, with_state) in [("ALERTS", true), ("ALERTS_FOR_STATE", false)] {
            let _ = writeln!(out, "      - expr: {name}\n        eval_time: {second}s\n        exp_samples:");
            for Seen { rule, state, severity, labels, active_at } in alerts {
                let mut all = vec![("alertname", rule.as_str()), ("severity", severity)];
                all.extend(labels.iter().map(|(name, value)| (name.as_str(), value.as_str())));
                all.extend(with_state.then_some(("alertstate", *state)));
                let value = if with_state { 1 } else { *active_at };
                let _ = writeln!(out, "          - {{labels: {}, value: {value}}}", single(&selector(name, &all)));
            }
        }
    }
    out
}

fn selector(name: &str, labels: &[(&str, &str)]) -> String {
    let quoted = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"");
    let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", quoted(value))).collect();
    format!("{name}{{{}}}", labels.join(","))
}

/// In single quotes of YAML.
fn single(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
