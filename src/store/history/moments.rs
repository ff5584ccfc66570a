//! Moments as they were, one after another: for a rule that is evaluated as if it were then.

use std::collections::VecDeque;

use rusqlite::Connection;

use super::series::{pieces, read, wanted_series};
use super::{History, Why};
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::metrics::{MetricId, Moment, Sample, Series};
use crate::store::sealed::Opener;

/// What is read at once.
const PART_MS: i64 = 600_000;

/// An iterator over moments. It reads ten minutes at a time, so that a long one neither fills the memory nor keeps the
/// writer from clearing its log.
pub struct Moments<'a> {
    history: &'a History,
    metrics: Vec<MetricId>,
    ready: VecDeque<Moment>,
    next: Option<Time>,
    to: Time,
}

impl History {
    /// The moments from one time up to and with another, oldest first, with the samples of those metrics only. Of a
    /// coarser step there is the last moment.
    pub fn moments(&self, metrics: &[MetricId], from: Time, to: Time) -> Moments<'_> {
        Moments { history: self, metrics: metrics.to_vec(), ready: VecDeque::new(), next: Some(from), to }
    }
}

impl Iterator for Moments<'_> {
    type Item = Result<Moment, Fault>;

    fn next(&mut self) -> Option<Result<Moment, Fault>> {
        while self.ready.is_empty() {
            let from = self.next.take().filter(|from| *from <= self.to)?;
            let found = self.history.ask(|db| {
                // Where nothing is recorded nothing is looked for.
                let Some(from) = next_time(db, from)? else { return Ok((Vec::new(), None)) };
                let to = Time(from.0.saturating_add(PART_MS)).min(self.to);
                Ok((part(db, &self.metrics, from, to)?, to.0.checked_add(1).map(Time)))
            });
            match found {
                Ok((moments, next)) => {
                    self.ready = moments.into();
                    self.next = next;
                }
                Err(why) => return Some(Err(why)),
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

/// The first time at or after that one at which there may be a moment.
fn next_time(db: &Connection, from: Time) -> Result<Option<Time>, Why> {
    let next = "SELECT min(t) FROM (SELECT min(max(first, ?1)) AS t FROM blocks WHERE last >= ?1
        UNION ALL SELECT min(at) FROM tail WHERE at >= ?1)";
    let found: Option<i64> = db.prepare_cached(next)?.query_row([from.0], |row| row.get(0))?;
    Ok(found.map(Time))
}

fn part(db: &Connection, metrics: &[MetricId], from: Time, to: Time) -> Result<Vec<Moment>, Why> {
    let mut opener = Opener::new();
    let pieces = pieces(db, &mut opener, from, to)?;
    let times = pieces.iter().flat_map(|piece| &piece.times);
    let mut moments: Vec<Moment> = times.map(|at| Moment { at: *at, samples: Vec::new() }).collect();
    for metric in metrics {
        let Some(wanted) = wanted_series(db, *metric, &|_| true)? else { continue };
        let columns = read(db, &mut opener, &wanted, &pieces)?;
        for (series, column) in wanted.series.iter().zip(columns) {
            let Some(pair) = column.finish(moments.len() as u32) else { continue };
            add(&mut moments, series, &pair.last);
        }
    }
    Ok(moments)
}

fn add(moments: &mut [Moment], series: &Series, changes: &[(u32, f64)]) {
    let ends = changes.iter().skip(1).map(|(index, _)| *index as usize).chain([moments.len()]).collect::<Vec<_>>();
    for ((index, value), end) in changes.iter().zip(ends).filter(|((_, value), _)| !value.is_nan()) {
        for moment in &mut moments[*index as usize..end] {
            moment.samples.push(Sample { series: series.clone(), value: *value });
        }
    }
}
