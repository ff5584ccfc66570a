//! A rule's history from a store: each series is read once, put on the grid of the daemon, and forgotten.
//!
//! Some patterns at a time, so that a thousand of them fit into memory and progress can be told. A history that changes too
//! often to be kept is evaluated less often, and that is told.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Coverage, Hole, Labelled, Subject};
use crate::alerts::replay::{Grid, Track, Tracks};
use crate::alerts::{Condition, Point, Rule, Watched};
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::daemon::{EVERY, LOOKBACK, SECOND};
use crate::metrics::{MetricId, Series};
use crate::store::{Column, Columns, Gap, History, covered};

/// The time that was asked for; what is not said is that of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asked {
    pub from: Option<Time>,
    pub to: Option<Time>,
}

/// Changes that are kept in memory, of all alerts together: 128 MiB.
const MOST_PIECES: usize = 8 << 20;
/// Patterns that are read at once; fewer if every single point counts.
const AT_ONCE: usize = 64;
const FEW_AT_ONCE: usize = 8;
/// How often a rule is evaluated, if it can't be as often as by the daemon.
const COARSER: [Duration; 3] = [Duration::from_secs(15), Duration::from_secs(60), Duration::from_secs(300)];
/// The last moment before a time.
const TICK: Duration = Duration::from_millis(1);

/// Loads the history of a rule. `progress` gets how much of how much is done.
pub fn load(
    history: &History,
    rule: &Rule,
    asked: Asked,
    mut progress: impl FnMut(usize, usize),
) -> Result<Subject, Fault> {
    let summary = history.summary()?;
    let (from, to) = overlap(history, asked, summary.oldest.zip(summary.newest))?;
    let (asked_from, asked_to) = (asked.from.unwrap_or(from), asked.to.unwrap_or(to));
    let gaps = history.gaps(from, to)?;
    let outside = asked_to.since(asked_from).saturating_sub(to.since(from));
    let mut every = EVERY;
    let mut coarser = COARSER.into_iter();
    let source = Source { history, rule, from, to };
    let tracks = loop {
        match source.tracks(Grid::over(from, to, every), &mut progress)? {
            Some(tracks) => break tracks,
            None => every = coarser.next().unwrap_or(every * 4),
        }
    };
    let known = f64::from(tracks.known()) / f64::from(tracks.grid.count.max(1));
    let watched = Watched::new(rule.clone(), LOOKBACK, Default::default());
    let steps = summary.steps.iter().rev().filter(|step| step.to >= from && step.from <= to);
    let coverage = Coverage {
        from: asked_from,
        to: asked_to,
        recorded: covered(&gaps, from, to).min(asked_to.since(asked_from).saturating_sub(outside)),
        holes: gaps.iter().map(|gap| hole(gap, from, to)).collect(),
        steps: steps.map(|step| (step.from.max(from), step.step)).collect(),
        measured: watched.needs().map(|needs| (known, needs)),
        coarser: every != EVERY,
    };
    let metric = rule.metric.metric().name;
    let selector = rule.selector.as_str();
    let absence = watched.is_of_absence();
    Ok(Subject {
        rule: rule.name.clone(),
        severity: rule.severity.name().to_string(),
        expression: if selector.is_empty() { metric.to_string() } else { format!("{metric} of {selector}") },
        metric: metric.to_string(),
        condition: Condition::from(rule),
        fixed: absence.then(|| "it fires where something is missing, and compares no number".into()),
        labels: Labelled::new(history.labels(&rule.name)?, &tracks.tracks),
        unscraped: rule.window.map(|_| "what is counted within a window does not depend on when it is read".into()),
        warning: (tracks.tracks.iter().all(Track::is_empty) && !absence && !rule.begins_when_found()).then(|| {
            "no series that the rule looks at was recorded: that nothing fires does not mean that all was well".into()
        }),
        tracks,
        coverage,
        calibration: None,
    })
}

/// What the store has of the time that was asked for.
fn overlap(history: &History, asked: Asked, has: Option<(Time, Time)>) -> Result<(Time, Time), Fault> {
    let file = history.path().display();
    let Some((oldest, newest)) = has else {
        return Err(Fault::usage(format!("nothing was recorded into {file} yet; record for a while first")));
    };
    let (from, to) = (asked.from.unwrap_or(oldest).max(oldest), asked.to.unwrap_or(newest).min(newest));
    match from <= to {
        true => Ok((from, to)),
        false => Err(Fault::usage(format!(
            "{file} has nothing of that time: it goes from {} to {}; ask for a time between them",
            oldest.rfc3339(),
            newest.rfc3339()
        ))),
    }
}

fn hole(gap: &Gap, from: Time, to: Time) -> Hole {
    let node = gap.node.as_ref().map_or(String::new(), |node| format!(" ({node})"));
    let why = format!("{}{node}", gap.reason.words());
    Hole { from: gap.from.max(from), to: gap.to.unwrap_or(to).min(to), why }
}

/// Where the values come from.
struct Source<'a> {
    history: &'a History,
    rule: &'a Rule,
    from: Time,
    to: Time,
}

impl Source<'_> {
    /// The values on that grid; `None` if they are too many.
    fn tracks(&self, grid: Grid, progress: &mut impl FnMut(usize, usize)) -> Result<Option<Tracks>, Fault> {
        let watched = || Watched::new(self.rule.clone(), LOOKBACK, Default::default());
        let reader = watched();
        let metrics: BTreeSet<MetricId> = reader.metrics().collect();
        let batches = self.batches(&reader, &metrics)?;
        let (mut tracks, mut pieces) = (Vec::new(), 0);
        for (done, batch) in batches.iter().enumerate() {
            progress(done, batches.len());
            let mut watched = watched();
            for metric in &metrics {
                let wanted = |series: &Series| reader.reads(series) && batch.has(series);
                let reach = watched.reach();
                let columns = self.history.series(*metric, &wanted, self.from - reach, self.to)?;
                let breaks = breaks(&columns);
                let slack = watched.slack(*metric);
                for column in &columns.columns {
                    watched.add(&column.series, &points(column, &columns.times, &breaks, slack));
                }
            }
            let found = watched.tracks(grid);
            pieces += found.iter().map(Track::len).sum::<usize>();
            if pieces > MOST_PIECES && grid.count > 1 {
                return Ok(None);
            }
            tracks.extend(found);
        }
        progress(batches.len(), batches.len());
        Ok(Some(Tracks { grid, tracks }))
    }

    /// The series that are read together: all of an alert's at least.
    fn batches(&self, reader: &Watched, metrics: &BTreeSet<MetricId>) -> Result<Vec<Batch>, Fault> {
        let apart = self.rule.labels().contains(&"pattern") && !reader.is_of_absence();
        if !apart {
            return Ok(vec![Batch(None)]);
        }
        let mut patterns = BTreeSet::new();
        for metric in metrics {
            let all = self.history.series_of(*metric)?;
            let read = all.iter().filter(|series| reader.reads(series));
            patterns.extend(read.filter_map(|series| series.label("pattern").map(str::to_string)));
        }
        let every_point = metrics.iter().any(|metric| reader.slack(*metric).is_zero());
        let patterns: Vec<String> = patterns.into_iter().collect();
        let batches = patterns.chunks(if every_point { FEW_AT_ONCE } else { AT_ONCE });
        Ok(batches.map(|batch| Batch(Some(batch.iter().cloned().collect()))).collect())
    }
}

/// Patterns; `None`: all.
struct Batch(Option<BTreeSet<String>>);

impl Batch {
    fn has(&self, series: &Series) -> bool {
        self.0.as_ref().is_none_or(|patterns| series.label("pattern").is_none_or(|pattern| patterns.contains(pattern)))
    }
}

/// The gaps of everything: before which index of the times, and when all series ended.
fn breaks(columns: &Columns) -> Vec<(usize, Time)> {
    let times = &columns.times;
    let whole = columns.gaps.iter().filter(|gap| gap.node.is_none());
    whole
        .filter_map(|gap| {
            let after = times.partition_point(|at| *at <= gap.from);
            let before = *times.get(after.checked_sub(1)?)?;
            let at = gap.from.max(before + SECOND);
            Some((after, times.get(after).map_or(at, |next| at.min(*next - TICK))))
        })
        .collect()
}

/// The points of a column, with a marker wherever it ends. Of equal values only so many as make no difference to any
/// evaluation: one that is left out has another of the same value at most `slack` before it and before the next.
fn points(column: &Column, times: &[Time], breaks: &[(usize, Time)], slack: Duration) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    let mut breaks = breaks.iter().peekable();
    for (range, value) in column.stretches(times) {
        for index in range.clone() {
            while let Some((_, at)) = breaks.next_if(|(before, _)| *before <= index) {
                if points.last().is_some_and(|last| !last.is_stale() && last.at < *at) {
                    points.push(Point::stale(*at));
                }
            }
            let Some(value) = value else {
                if points.last().is_some_and(|last| !last.is_stale()) {
                    points.push(Point::stale(times[index]));
                }
                continue;
            };
            let broken = breaks.peek().is_some_and(|(before, _)| *before == index + 1);
            let kept = points.last().filter(|last| index > range.start && !last.is_stale());
            let spare =
                kept.is_some_and(|last| index + 1 < range.end && !broken && times[index + 1].since(last.at) <= slack);
            if !spare {
                points.push(Point::new(times[index], value));
            }
        }
    }
    for (_, at) in breaks {
        if points.last().is_some_and(|last| !last.is_stale() && last.at < *at) {
            points.push(Point::stale(*at));
        }
    }
    points
}

#[cfg(test)]
mod tests;
