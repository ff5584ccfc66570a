//! The history of a rule from a Prometheus: the values of its left side on the grid of its own evaluations, and the alerts
//! that it recorded.
//!
//! A long time is asked for in parts, each on the same grid, so that no answer has more points than a server gives.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use super::{OwnRule, Prometheus, Range, Tunable, answer};
use crate::alerts::replay::{Grid, Shape, Track, Tracks};
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::tune::{Calibration, Coverage, Hole, Labelled, Logged, Recorded, Subject};

/// Steps of one answer; a Prometheus gives 11,000.
const STEPS: u32 = 10_000;
/// Points of one answer, of all series together.
const POINTS: u32 = 2_000_000;
/// Parts that are asked for at the same time.
const AT_ONCE: usize = 2;
/// More series than this are no single alert any more.
const SERIES: usize = 20_000;
/// Evaluations in all: a year at 15 seconds.
const EVALUATIONS: u32 = 2_200_000;

type Labels = BTreeMap<String, String>;

/// Loads the history of a rule from one time to another. `progress` gets how much of how much is done.
pub async fn load(
    prometheus: &Prometheus,
    rule: &OwnRule,
    (from, to): (Time, Time),
    mut progress: impl FnMut(u32, u32),
) -> Result<Subject, Fault> {
    let shown = prometheus.shown().to_string();
    let Tunable { lhs, written, condition, stay } = match &rule.tunable {
        Ok(tunable) => tunable,
        Err(why) => return Err(Fault::usage(format!("{:?} can't be tuned: {why}", rule.name))),
    };
    let series = prometheus.count(lhs, (from, to)).await?;
    if series > SERIES {
        return Err(Fault::usage(format!(
            "{:?} has {series} series, and more than {SERIES} can't be replayed; make its expression narrower",
            rule.name
        )));
    }
    let alerts = format!("ALERTS{{alertname={}, alertstate=\"firing\"}}", quoted(&rule.name));
    let (phase, exact) = prometheus.phase(rule, &alerts, (from, to)).await?;
    let grid = grid(from, to, rule.interval, phase);
    if grid.count < 2 || grid.count > EVALUATIONS {
        return Err(Fault::usage(format!(
            "from {} to {} there are {} evaluations of {:?}; choose another time with --from and --to",
            from.rfc3339(),
            to.rfc3339(),
            grid.count,
            rule.name
        )));
    }
    let values = Asked { prometheus, grid, series };
    let columns = values.columns(lhs, |done, of| progress(done, of * 3)).await?;
    let fired = values.columns(&alerts, |done, of| progress(of + done, of * 3)).await?;
    let running = values.columns("count(up)", |done, of| progress(of * 2 + done, of * 3)).await?;
    let known: Vec<bool> = match running.is_empty() {
        false => (0..grid.count as usize).map(|index| running.values().any(|column| column[index].is_some())).collect(),
        // One that scrapes nothing itself: its series say when it had them.
        true => (0..grid.count as usize).map(|index| columns.values().any(|column| column[index].is_some())).collect(),
    };
    let blind = match stay {
        Some(stay) => values.columns(&stay.unseen(), |_, _| ()).await?,
        None => Columns::new(),
    };
    let carried = |labels: &Labels| carried(labels, &rule.labels);
    let mut tracks = Vec::new();
    for (labels, numbers) in columns {
        let of = |blind: &Labels| {
            stay.as_ref().is_some_and(|stay| !stay.of_target || blind.get("target") == labels.get("target"))
        };
        let unseen: Vec<&Vec<Option<f64>>> =
            blind.iter().filter(|(blind, _)| of(blind)).map(|(_, column)| column).collect();
        let is_unseen = |index: &u32| unseen.iter().any(|column| column[*index as usize].is_some());
        let unseen = (0..grid.count).filter(is_unseen).map(|index| index..index + 1);
        tracks.push(Track::new(carried(&labels), Shape::Level, grid, numbers).unseen(unseen));
    }
    let tracks = Tracks::new(grid, tracks);
    let recorded = recorded(&fired, &grid, &rule.labels);
    let outcome = tracks.replay(*condition);
    // What was firing or pending when the history begins can't be known.
    let wait = Duration::from_millis((condition.hold_for + condition.keep_firing_for).max(0) as u64);
    let since = grid.first + wait + rule.interval;
    // A sample that is written at the moment of an evaluation is seen by it or not: one evaluation makes no difference.
    let mut calibration = Calibration::of(&recorded, &tracks, &outcome, rule.interval, since);
    if !calibration.is_exact() {
        calibration.reasons = reasons(exact, rule.interval);
    }
    let warning = tracks.tracks.iter().all(Track::is_empty).then(|| {
        format!(
            "{shown} has no series of that expression in that time: that nothing fires does not mean that all was well"
        )
    });
    let severity = rule.labels.get("severity").cloned().unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    Ok(Subject {
        rule: rule.name.clone(),
        severity,
        expression: match written.starts_with(">=") || written.starts_with("<=") {
            true => format!("{lhs} (written {written})"),
            false => lhs.clone(),
        },
        metric: lhs.chars().take_while(|c| is_name(*c)).collect(),
        condition: *condition,
        fixed: None,
        labels: Labelled::default(),
        logged: Logged::default(),
        unscraped: Some("this history was scraped by the Prometheus itself".into()),
        warning,
        coverage: coverage(&known, &grid, (from, to)),
        calibration: Some(calibration),
        tracks,
    })
}

/// Why the two can differ.
fn reasons(exact: bool, interval: Duration) -> Vec<String> {
    let mut reasons = vec![
        "the rule may have been another one in that time".to_string(),
        "a restart of Prometheus forgets what was pending for less than ten minutes, and what was kept firing"
            .to_string(),
        "an evaluation that failed or came late changes nothing there, and is replayed here".to_string(),
    ];
    if !exact {
        reasons.push(format!("its phase is not known, so that times are known to within {}s", interval.as_secs()));
    }
    reasons
}

/// The evaluations from one time up to another, with that phase.
fn grid(from: Time, to: Time, interval: Duration, phase: i64) -> Grid {
    let step = interval.as_millis().max(1) as i64;
    let behind = (from.0 - phase).rem_euclid(step);
    let first = if behind == 0 { from.0 } else { from.0 + step - behind };
    let count = if to.0 < first { 0 } else { (to.0 - first) / step + 1 };
    Grid::new(Time(first), interval, u32::try_from(count).unwrap_or(u32::MAX))
}

/// The labels that an alert of the rule carries: those of the series, and over them those of the rule. What a template gives
/// is not known here.
fn carried(series: &Labels, rule: &Labels) -> Labels {
    let mut labels = series.clone();
    labels.remove("__name__");
    for (name, value) in rule {
        match value.contains("{{") {
            true => labels.remove(name),
            false => labels.insert(name.clone(), value.clone()),
        };
    }
    labels
}

/// The alerts that were recorded.
fn recorded(fired: &Columns, grid: &Grid, rule: &Labels) -> Vec<Recorded> {
    let mut all = Vec::new();
    for (labels, column) in fired {
        let mut labels = labels.clone();
        for name in ["__name__", "alertname", "alertstate"] {
            labels.remove(name);
        }
        labels.retain(|name, _| rule.get(name).is_none_or(|value| !value.contains("{{")));
        let mut began = None;
        for (index, value) in column.iter().enumerate() {
            match (value.is_some(), began) {
                (true, None) => began = Some(index as u32),
                (false, Some(from)) => {
                    let (from, to) = (grid.at(from), Some(grid.at(index as u32)));
                    all.push(Recorded { labels: labels.clone(), from, to });
                    began = None;
                }
                _ => {}
            }
        }
        if let Some(from) = began {
            all.push(Recorded { labels, from: grid.at(from), to: None });
        }
    }
    all.sort_by_key(|firing| firing.from);
    all
}

fn coverage(known: &[bool], grid: &Grid, (from, to): (Time, Time)) -> Coverage {
    let mut holes = Vec::new();
    let mut began = None;
    for (index, known) in known.iter().copied().chain([true]).enumerate() {
        match (known, began) {
            (false, None) => began = Some(index as u32),
            (true, Some(first)) => {
                let why = "the Prometheus has nothing of that time".to_string();
                holes.push(Hole { from: grid.at(first), to: grid.at(index as u32).min(to), why });
                began = None;
            }
            _ => {}
        }
    }
    let recorded = grid.lasts(known.iter().filter(|known| **known).count() as u32).min(to.since(from));
    let steps = vec![(from, grid.interval())];
    Coverage { from, to, recorded, holes, steps, measured: None, coarser: false }
}

/// A text in quotes, as PromQL writes it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n"))
}

impl Prometheus {
    /// How many series an expression has, at most, at a few times.
    async fn count(&self, lhs: &str, (from, to): (Time, Time)) -> Result<usize, Fault> {
        let range = Range { from, to, step: (to.since(from) / 20).max(Duration::from_secs(1)) };
        let body = self.range(&format!("count({lhs})"), range).await?;
        let found = answer::series(&body, self.shown())?;
        let counts = found.iter().flat_map(|series| &series.values).filter_map(|(_, text)| text.parse::<f64>().ok());
        Ok(counts.fold(0.0, f64::max) as usize)
    }

    /// When the rule is evaluated within its interval, in milliseconds; and whether that is exact. An alert that was recorded
    /// has the time of its evaluation; else it is known from the last one, a little late.
    async fn phase(&self, rule: &OwnRule, alerts: &str, (from, to): (Time, Time)) -> Result<(i64, bool), Fault> {
        let step = rule.interval.as_millis().max(1) as i64;
        let rough = Range { from, to, step: rule.interval.max(to.since(from) / (STEPS - 1)) };
        let body = self.range(&format!("count({alerts})"), rough).await?;
        let found = answer::series(&body, self.shown())?;
        if let Some((seconds, _)) = found.iter().flat_map(|series| series.values.last()).next() {
            let at = Time((*seconds * 1_000.0).round() as i64);
            let one = Range { from: at, to: at, step: rule.interval };
            let body = self.range(&format!("max(timestamp({alerts}))"), one).await?;
            let found = answer::series(&body, self.shown())?;
            let time = found.iter().flat_map(|series| series.values.last()).next();
            if let Some(seconds) = time.and_then(|(_, text)| text.parse::<f64>().ok()) {
                return Ok((((seconds * 1_000.0).round() as i64).rem_euclid(step), true));
            }
        }
        Ok((rule.last_evaluation.map_or(0, |at| at.0.rem_euclid(step)), false))
    }
}

/// The values of one expression on the whole grid, by labels.
type Columns = BTreeMap<Labels, Vec<Option<f64>>>;

struct Asked<'a> {
    prometheus: &'a Prometheus,
    grid: Grid,
    /// How many series the rule has, about.
    series: usize,
}

impl Asked<'_> {
    /// Asks part by part.
    async fn columns(&self, query: &str, mut progress: impl FnMut(u32, u32)) -> Result<Columns, Fault> {
        let grid = self.grid;
        let most = (POINTS / u32::try_from(self.series.max(1)).unwrap_or(u32::MAX)).clamp(10, STEPS);
        let mut columns = Columns::new();
        let part = |first: u32| {
            let last = (first + most - 1).min(grid.count - 1);
            self.prometheus.range(query, Range { from: grid.at(first), to: grid.at(last), step: grid.interval() })
        };
        // While one part is read, the server already works at the next.
        let firsts = (0..grid.count).step_by(most as usize);
        let mut parts = stream::iter(firsts.clone().map(part)).buffered(AT_ONCE);
        for first in firsts {
            progress(first, grid.count);
            let Some(body) = parts.next().await.transpose()? else { break };
            for series in answer::series(&body, self.prometheus.shown())? {
                let column = columns.entry(series.metric).or_insert_with(|| vec![None; grid.count as usize]);
                for (seconds, text) in &series.values {
                    let at = Time((seconds * 1_000.0).round() as i64);
                    let index = grid.at_or_after(at) as usize;
                    // What is not a number is a value that is compared with nothing.
                    let value = text.parse::<f64>().ok().filter(|value| !value.is_nan());
                    if let (Some(place), Some(value)) = (column.get_mut(index), value) {
                        *place = Some(value);
                    }
                }
            }
            if columns.len() > SERIES {
                return Err(Fault::usage(format!(
                    "the rule has more than {SERIES} series, which can't be replayed; make its expression narrower"
                )));
            }
        }
        progress(grid.count, grid.count);
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn evaluations_keep_their_phase() {
        let grid = grid(Time(100_000), Time(160_000), Duration::from_secs(15), 7_123);
        assert_eq!(grid.first.0.rem_euclid(15_000), 7_123);
        assert!(grid.first >= Time(100_000) && grid.at(grid.count - 1) <= Time(160_000));
        assert!(grid.at(grid.count) > Time(160_000));
    }

    #[test]
    fn an_alert_carries_the_labels_of_its_series_and_of_its_rule() {
        let series = labels(&[("__name__", "up"), ("job", "a"), ("severity", "none")]);
        let rule = labels(&[("severity", "page"), ("value", "{{ $value }}")]);
        assert_eq!(carried(&series, &rule), labels(&[("job", "a"), ("severity", "page")]));
        let grid = Grid::new(Time(0), Duration::from_secs(1), 5);
        let fired = [(
            labels(&[
                ("__name__", "ALERTS"),
                ("alertname", "A"),
                ("alertstate", "firing"),
                ("job", "a"),
                ("severity", "page"),
                ("value", "3"),
            ]),
            vec![None, Some(1.0), Some(1.0), None, Some(1.0)],
        )];
        let all = recorded(&fired.into(), &grid, &rule);
        assert_eq!(all[0], Recorded { labels: carried(&series, &rule), from: Time(1_000), to: Some(Time(3_000)) });
        assert_eq!((all.len(), all[1].to), (2, None));
    }

    #[test]
    fn what_a_prometheus_does_not_have_is_a_gap() {
        let grid = Grid::new(Time(0), Duration::from_secs(1), 10);
        let known: Vec<bool> = (0..10).map(|index| !(3..6).contains(&index)).collect();
        let coverage = coverage(&known, &grid, (Time(0), Time(10_000)));
        assert_eq!((coverage.holes.len(), coverage.recorded), (1, Duration::from_secs(7)));
        assert_eq!((coverage.holes[0].from, coverage.holes[0].to), (Time(3_000), Time(6_000)));
    }
}
