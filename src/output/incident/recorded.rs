//! What a store has of an incident: the firings of its rules, the story of its locks, the figures over that time, gaps, actions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::alerts::{Compare, Rule, Rules, written};
use crate::base::fault::Fault;
use crate::base::text::{short_duration, visible};
use crate::base::time::Time;
use crate::lock::Key;
use crate::metrics::{MetricId, Series};
use crate::model::{Notable, pattern_name};
use crate::store::{End, Firing, Gap, History};
use crate::tune::{Asked, load};

/// How far back the story of a lock goes.
const DAY: Duration = Duration::from_secs(86_400);
/// Before and after a firing.
const BEFORE: Duration = Duration::from_secs(600);
const AFTER: Duration = Duration::from_secs(120);
/// At most this many firings, entries of the story, and actions: the newest.
const MOST: usize = 200;
/// A figure has at most this many points.
const POINTS: usize = 600;

const WAITERS: MetricId = MetricId::of("lockscope_waiters");

/// What was recorded.
#[derive(Default)]
pub struct Recorded {
    /// The firing that it is about.
    pub firing: Option<Firing>,
    pub firings: Vec<Firing>,
    pub story: Vec<Notable>,
    pub figures: Vec<Value>,
    pub gaps: Vec<Gap>,
    pub actions: Vec<Value>,
    /// The servers of the last run in that time.
    pub server: Option<String>,
    pub target: String,
}

impl Recorded {
    /// What there is of a lock.
    pub fn of_lock(history: &History, key: &Key, now: Time) -> Result<Recorded, Fault> {
        let pattern = pattern_name(key.as_bytes());
        let from = now - DAY;
        let mut recorded = Recorded::between(history, from, now, &pattern, |entry| entry.key.as_ref() == Some(key))?;
        recorded.actions.retain(|entry| is_about(entry, key));
        recorded.figures = vec![waiters(history, &pattern, (now - BEFORE, now))?];
        Ok(recorded)
    }

    /// What there is of a firing, by its number.
    pub fn of_firing(history: &History, number: u64, rules: &Rules) -> Result<Recorded, Fault> {
        let all = history.firings(Time(0), Time(i64::MAX))?;
        let Some(firing) = all.iter().find(|firing| firing.number == number).cloned() else {
            return Err(Fault::usage(match all.last() {
                Some(last) => format!(
                    "there is no episode {number} in {}; the last is {}, and 'lockscope record --store FILE --info' lists them",
                    history.path().display(),
                    last.number
                ),
                None => format!("nothing has fired in {} yet: there is no episode", history.path().display()),
            }));
        };
        let (from, to) = (firing.active_at - BEFORE, firing.end.at() + AFTER);
        let pattern = firing.labels.get("pattern").cloned().unwrap_or_default();
        let own = |entry: &Notable| match &entry.key {
            Some(key) => pattern.is_empty() || pattern_name(key.as_bytes()) == pattern,
            None => true,
        };
        let mut recorded = Recorded::between(history, from, to, &pattern, own)?;
        let keys: Vec<Key> = recorded.story.iter().filter_map(|entry| entry.key.clone()).collect();
        recorded.actions.retain(|entry| keys.iter().any(|key| is_about(entry, key)));
        let mut all = rules.iter().flat_map(|rule| [Some(rule.clone()), rule.companion()]).flatten();
        if let Some(rule) = all.find(|rule| rule.name == firing.rule) {
            // What is too old to be kept has no picture.
            recorded.figures.extend(compared(history, &rule, &firing, (from, to)).ok());
        }
        if !pattern.is_empty() {
            recorded.figures.push(waiters(history, &pattern, (from, to))?);
        }
        recorded.firing = Some(firing);
        Ok(recorded)
    }

    fn between(
        history: &History,
        from: Time,
        to: Time,
        pattern: &str,
        own: impl Fn(&Notable) -> bool,
    ) -> Result<Recorded, Fault> {
        let mut firings = history.firings(from, to)?;
        firings
            .retain(|firing| firing.labels.get("pattern").is_none_or(|other| pattern.is_empty() || other == pattern));
        firings.drain(..firings.len().saturating_sub(MOST));
        let mut story = history.notables(from, to)?;
        story.retain(own);
        story.drain(..story.len().saturating_sub(MOST));
        let mut actions = history.actions(from, to)?;
        actions.drain(..actions.len().saturating_sub(MOST));
        let run = history.runs()?.into_iter().rfind(|run| run.from <= to);
        let (server, target) = run.map(|run| (run.target.server, run.target.name)).unzip();
        Ok(Recorded {
            firing: None,
            firings,
            story,
            figures: Vec::new(),
            gaps: history.gaps(from, to)?,
            actions,
            server: server.filter(|server| !server.is_empty()),
            target: target.unwrap_or_default(),
        })
    }
}

/// Whether an entry of the audit file is about this lock.
pub fn is_about(entry: &Value, key: &Key) -> bool {
    entry.get("key").and_then(Value::as_str) == Some(&visible(key.as_bytes()))
}

/// Who waited for the locks of a pattern, over time. What is not known is `null`.
fn waiters(history: &History, pattern: &str, (from, to): (Time, Time)) -> Result<Value, Fault> {
    let own = |series: &Series| series.label("pattern").is_none_or(|other| pattern.is_empty() || other == pattern);
    let found = history.series(WAITERS, &own, from, to)?;
    let mut sums: Vec<Option<f64>> = vec![None; found.times.len()];
    for column in &found.columns {
        for (range, value) in column.stretches(&found.times) {
            let Some(value) = value else { continue };
            sums[range].iter_mut().for_each(|sum| *sum = Some(sum.unwrap_or(0.0) + value));
        }
    }
    let values: Vec<(Time, Option<f64>)> = found.times.iter().copied().zip(sums).collect();
    let points = drawn(&values, f64::max);
    let name = WAITERS.metric().name;
    Ok(json!({ "metric": name, "pattern": pattern, "window": null, "threshold": null, "points": points }))
}

/// What the rule compared with its threshold, at each evaluation.
fn compared(history: &History, rule: &Rule, firing: &Firing, (from, to): (Time, Time)) -> Result<Value, Fault> {
    let asked = Asked { from: Some(from), to: Some(to) };
    let tracks = load(history, rule, asked, |_, _| ())?.tracks;
    let track = tracks.tracks.iter().find(|track| track.labels == firing.labels);
    let value = |index: u32| track.and_then(|track| track.value(index, &tracks.grid));
    let values: Vec<(Time, Option<f64>)> =
        (0..tracks.grid.count).map(|index| (tracks.grid.at(index), value(index))).collect();
    let worse = match rule.compare {
        Compare::Above(_) => f64::max,
        Compare::Below(_) => f64::min,
    };
    Ok(json!({
        "metric": rule.metric.metric().name,
        "pattern": firing.labels.get("pattern"),
        "window": rule.window.map(written),
        "threshold": Some(firing.threshold).filter(|level| level.is_finite()),
        "points": drawn(&values, worse),
    }))
}

/// The worst of each part: a picture has only so many columns.
fn drawn(values: &[(Time, Option<f64>)], worse: fn(f64, f64) -> f64) -> Vec<Value> {
    let part = values.len().div_ceil(POINTS).max(1);
    let point = |part: &[(Time, Option<f64>)]| {
        let worst = part.iter().filter_map(|(_, value)| *value).reduce(worse);
        json!([part[0].0.0, worst])
    };
    values.chunks(part).map(point).collect()
}

/// A firing in JSON.
pub fn episode(firing: &Firing) -> Value {
    let (end, to) = match firing.end {
        End::Over(at) => ("over", at),
        End::NotSeen(at) => ("not-seen", at),
        End::Still(at) => ("firing", at),
    };
    json!({
        "number": firing.number,
        "rule": firing.rule,
        "severity": firing.severity.name(),
        "labels": firing.labels,
        "value": firing.value.filter(|value| value.is_finite()),
        "threshold": Some(firing.threshold).filter(|level| level.is_finite()),
        "active": firing.active_at.rfc3339(),
        "fired": firing.from.rfc3339(),
        "until": to.rfc3339(),
        "end": end,
    })
}

/// How a firing ended, in a sentence.
pub fn ended(firing: &Firing) -> String {
    let lasted = short_duration(firing.end.at().since(firing.from).as_millis() as u64);
    match firing.end {
        End::Over(at) => format!("it was over at {}, after {lasted}", at.rfc3339()),
        End::NotSeen(at) => {
            format!("its end was not seen: the recording broke off at {}, after {lasted}", at.rfc3339())
        }
        End::Still(at) => format!("it still fired at {}, after {lasted}", at.rfc3339()),
    }
}
