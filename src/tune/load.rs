//! A rule's history from a store: each series is read once, put on the grid of the daemon, and forgotten.
//!
//! Some patterns at a time, so that a thousand of them fit into memory and progress can be told. A history that changes too
//! often to be kept is evaluated less often, and that is told.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Coverage, Hole, Labelled, Logged, Subject};
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
/// How many evaluations become one where there are too many changes: from every 5 seconds to every 15, 60, 300, 1,200.
const COARSER: [u32; 3] = [3, 4, 5];
const STILL_COARSER: u32 = 4;
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
    let tracks = Source { history, rule, from, to }.tracks(&mut progress)?;
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
        coarser: tracks.grid.interval() != EVERY,
    };
    let metric = rule.metric.metric().name;
    let selector = rule.selector.as_str();
    let absence = watched.is_of_absence();
    let mut logged = history.firings(Time(i64::MIN), to)?;
    logged.retain(|firing| firing.rule == rule.name);
    Ok(Subject {
        rule: rule.name.clone(),
        severity: rule.severity.name().to_string(),
        expression: if selector.is_empty() { metric.to_string() } else { format!("{metric} of {selector}") },
        metric: metric.to_string(),
        condition: Condition::from(rule),
        fixed: absence.then(|| "it fires where something is missing, and compares no number".into()),
        labels: Labelled::new(history.labels(&rule.name)?, &tracks.tracks),
        logged: Logged::new(&logged, &tracks.tracks),
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
    /// The values on the grid of the daemon, or on a coarser one if they are too many.
    fn tracks(&self, progress: &mut impl FnMut(usize, usize)) -> Result<Tracks, Fault> {
        let watched = || Watched::new(self.rule.clone(), LOOKBACK, Default::default());
        let reader = watched();
        let metrics: BTreeSet<MetricId> = reader.metrics().collect();
        let batches = self.batches(&reader, &metrics)?;
        let mut all = Tracks::new(Grid::over(self.from, self.to, EVERY), Vec::new());
        let mut coarser = COARSER.into_iter();
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
            all.tracks.extend(watched.tracks(all.grid));
            while all.tracks.iter().map(Track::len).sum::<usize>() > MOST_PIECES && all.grid.count > 1 {
                all = all.every(coarser.next().unwrap_or(STILL_COARSER));
            }
        }
        progress(batches.len(), batches.len());
        Ok(all)
    }

    /// The series that are read together: all of an alert's at least.
    fn batches(&self, reader: &Watched, metrics: &BTreeSet<MetricId>) -> Result<Vec<Batch>, Fault> {
        let apart = self.rule.labels().contains(&"pattern") && !reader.is_of_absence();
        if !apart {
            return Ok(vec![Batch(None)]);
        }
        // In the order of the store, where those that came one after the other lie together.
        let (mut patterns, mut known) = (Vec::new(), BTreeSet::new());
        for metric in metrics {
            for series in self.history.series_of(*metric)?.iter().filter(|series| reader.reads(series)) {
                let pattern = series.label("pattern").unwrap_or_default();
                if known.insert(pattern.to_string()) {
                    patterns.push(pattern.to_string());
                }
            }
        }
        let every_point = metrics.iter().any(|metric| reader.slack(*metric).is_zero());
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
    let mut stretches = column.stretches(times).peekable();
    while let Some((range, value)) = stretches.next() {
        let goes_on = stretches.peek().is_some_and(|(_, next)| next.is_some());
        let mut from = range.start;
        while from < range.end {
            while let Some((_, at)) = breaks.next_if(|(before, _)| *before <= from) {
                end(&mut points, *at);
            }
            let to = breaks.peek().map_or(range.end, |(before, _)| range.end.min(*before));
            let broken = breaks.peek().is_some_and(|(before, _)| *before == to);
            match value {
                Some(value) => {
                    let next = times.get(to).filter(|_| !broken && (to < range.end || goes_on));
                    thinned(&times[from..to], next, slack, |at| points.push(Point::new(at, value)));
                }
                None => end(&mut points, times[from]),
            }
            from = to;
        }
    }
    breaks.for_each(|(_, at)| end(&mut points, *at));
    points
}

/// Marks that the series ended, if it has not already.
fn end(points: &mut Vec<Point>, at: Time) {
    if points.last().is_some_and(|last| !last.is_stale() && last.at < at) {
        points.push(Point::stale(at));
    }
}

/// Keeps the first of some times, and so many of the others that each is at most `slack` after the one before. `next` is the
/// time of the next value, if it follows at once; else the last is kept too.
fn thinned(times: &[Time], next: Option<&Time>, slack: Duration, mut keep: impl FnMut(Time)) {
    let Some((first, mut rest)) = times.split_first() else { return };
    let mut kept = *first;
    keep(kept);
    let is_near = |kept: Time, next: Option<&Time>| next.is_some_and(|next| next.since(kept) <= slack);
    // Mostly the next value is near, and nothing else is needed.
    while !is_near(kept, next) && !rest.is_empty() {
        let spare = (1..=rest.len()).take_while(|at| is_near(kept, rest.get(*at).or(next))).count();
        let Some(at) = rest.get(spare) else { return };
        kept = *at;
        keep(kept);
        rest = &rest[spare + 1..];
    }
}

#[cfg(test)]
mod tests;
