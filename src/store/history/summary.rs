//! What is in a store as a whole: its runs, and what `record --info` tells.

use std::time::Duration;

use rusqlite::Connection;

use super::{History, Why};
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::store::faults::{Trouble, told};
use crate::store::only::Only;
use crate::store::schema::{self, beside};
use crate::store::writer::SECOND_MS;
use crate::store::{Gap, Reason, Run, Target};

/// How far one step reaches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    pub step: Duration,
    pub from: Time,
    pub to: Time,
}

/// What is in a store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    pub target: String,
    /// Of the file with its log, in bytes.
    pub size: u64,
    pub oldest: Option<Time>,
    pub newest: Option<Time>,
    /// The pid of the recorder, if one is at work.
    pub recorder: Option<u32>,
    pub runs: u64,
    /// The time between the oldest and the newest moment of which nothing is missing.
    pub covered: Duration,
    pub gaps: u64,
    /// The finest first.
    pub steps: Vec<Reach>,
    pub series: u64,
    pub patterns: u64,
    pub notables: u64,
    pub alerts: u64,
    pub actions: u64,
    pub labels: u64,
    /// Moments and entries that were left out.
    pub omitted: u64,
}

impl History {
    pub fn summary(&self) -> Result<Summary, Fault> {
        let size = schema::length(self.path()) + schema::length(&beside(self.path(), "-wal"));
        let recorder = Only::at_work(self.path());
        self.ask(|db| {
            let count = |select: &str| {
                db.query_row(&format!("SELECT {select}"), [], |row| row.get::<_, Option<i64>>(0))
                    .map(|number| number.unwrap_or(0).max(0) as u64)
            };
            let steps = steps(db)?;
            let oldest = steps.iter().map(|step| step.from).min();
            let newest = steps.iter().map(|step| step.to).max();
            let gaps = super::log::gaps(db, Time(i64::MIN), Time(i64::MAX))?;
            Ok(Summary {
                target: db.query_row("SELECT name FROM target", [], |row| row.get(0))?,
                size,
                oldest,
                newest,
                recorder,
                runs: count("count(*) FROM runs")?,
                covered: oldest.zip(newest).map_or(Duration::ZERO, |(from, to)| covered(&gaps, from, to)),
                gaps: gaps.len() as u64,
                steps,
                series: count("count(*) FROM series")?,
                patterns: count(
                    "count(DISTINCT pattern) FROM series JOIN names ON names.id = pattern WHERE name <> ''",
                )?,
                notables: count("count(*) FROM notables")?,
                alerts: count("count(*) FROM alerts")?,
                actions: count("count(*) FROM actions")?,
                labels: count("count(*) FROM labels")?,
                omitted: count("sum(count) FROM omitted")?,
            })
        })
    }

    /// Refuses a store of another target.
    pub fn check_target(&self, ours: &str) -> Result<(), Fault> {
        let theirs: String = self.ask(|db| Ok(db.query_row("SELECT name FROM target", [], |row| row.get(0))?))?;
        match theirs == ours {
            true => Ok(()),
            false => Err(told(self.path(), Trouble::OfAnother { theirs: &theirs, ours })),
        }
    }

    /// Oldest first.
    pub fn runs(&self) -> Result<Vec<Run>, Fault> {
        let select =
            "SELECT id, began, after, version, target, server, coalesce(max(b.last, t.last), b.last, t.last, began),
                coalesce(b.moments, 0) + coalesce(t.moments, 0)
            FROM runs
            LEFT JOIN (SELECT run, max(last) AS last, sum(moments) AS moments FROM blocks GROUP BY run) b ON b.run = id
            LEFT JOIN (SELECT run, max(at) AS last, count(*) AS moments FROM tail GROUP BY run) t ON t.run = id
            ORDER BY id";
        self.ask(|db| {
            let mut statement = db.prepare_cached(select)?;
            let found = statement.query_map([], |row| {
                let (after, number, moments): (String, i64, i64) = (row.get(2)?, row.get(0)?, row.get(7)?);
                Ok(Run {
                    number: number.max(0) as u64,
                    from: Time(row.get(1)?),
                    to: Time(row.get(6)?),
                    moments: moments.max(0) as u64,
                    after: Reason::named(&after).unwrap_or(Reason::NotRunning),
                    version: row.get(3)?,
                    target: Target { name: row.get(4)?, server: row.get(5)? },
                })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }
}

fn steps(db: &Connection) -> Result<Vec<Reach>, Why> {
    let select = "SELECT step, min(first), max(last) FROM (SELECT step, first, last FROM blocks
        UNION ALL SELECT ?1, at, at FROM tail) GROUP BY step ORDER BY step";
    let mut statement = db.prepare_cached(select)?;
    let found = statement.query_map([SECOND_MS], |row| {
        let step: i64 = row.get(0)?;
        Ok(Reach { step: Duration::from_millis(step.max(0) as u64), from: Time(row.get(1)?), to: Time(row.get(2)?) })
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}

/// The part of that time in which there was no gap. The gaps are sorted by their beginnings.
pub fn covered(gaps: &[Gap], from: Time, to: Time) -> Duration {
    let (mut missing, mut until) = (Duration::ZERO, from);
    for gap in gaps {
        let end = gap.to.unwrap_or(to).min(to);
        missing += end.since(gap.from.max(until));
        until = until.max(end);
    }
    to.since(from).saturating_sub(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_overlap_count_once() {
        let gap = |from, to: Option<i64>| Gap { from: Time(from), to: to.map(Time), reason: Reason::Stale, node: None };
        let gaps = [gap(-50, Some(10)), gap(20, Some(40)), gap(30, Some(35)), gap(90, None)];
        assert_eq!(covered(&gaps, Time(0), Time(100)), Duration::from_millis(100 - 10 - 20 - 10));
        assert_eq!(covered(&[], Time(0), Time(100)), Duration::from_millis(100));
    }
}
