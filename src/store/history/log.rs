//! What happened: gaps, notable entries, alerts, actions, and what was left out.

use rusqlite::Connection;
use serde_json::Value;

use super::{History, Why};
use crate::alerts::AlertChange;
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::model::Notable;
use crate::model::record::Record;
use crate::store::{Gap, Reason};

/// Entries of one minute that were left out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Omission {
    /// The minute's beginning.
    pub at: Time,
    /// `moments`, `gaps`, `notables`, `alerts`, `actions`, or `damaged` for moments that could not be read any more.
    pub what: String,
    pub count: u64,
}

impl History {
    /// Those that overlap that time, oldest first.
    pub fn gaps(&self, from: Time, to: Time) -> Result<Vec<Gap>, Fault> {
        self.ask(|db| gaps(db, from, to))
    }

    /// Oldest first. What a newer lockscope wrote and this one does not know is left out.
    pub fn notables(&self, from: Time, to: Time) -> Result<Vec<Notable>, Fault> {
        self.ask(|db| {
            let bodies = bodies(db, "SELECT body FROM notables WHERE at BETWEEN ?1 AND ?2 ORDER BY at, id", from, to)?;
            let read = |body: &String| serde_json::from_str::<Record<Notable>>(body).ok();
            Ok(bodies.iter().filter_map(read).map(|record| record.of).collect())
        })
    }

    /// The log of the evaluator, oldest first.
    pub fn alerts(&self, from: Time, to: Time) -> Result<Vec<AlertChange>, Fault> {
        let select = "SELECT body, value, threshold FROM alerts WHERE at BETWEEN ?1 AND ?2 ORDER BY at, id";
        self.ask(|db| {
            let mut changes = Vec::new();
            let mut statement = db.prepare_cached(select)?;
            let mut rows = statement.query([from.0, to.0])?;
            while let Some(row) = rows.next()? {
                let body: String = row.get(0)?;
                changes.extend(change(&body, row.get(1)?, row.get(2)?));
            }
            Ok(changes)
        })
    }

    /// Entries of the audit file, oldest first.
    pub fn actions(&self, from: Time, to: Time) -> Result<Vec<Value>, Fault> {
        self.ask(|db| {
            let bodies = bodies(db, "SELECT body FROM actions WHERE at BETWEEN ?1 AND ?2 ORDER BY at", from, to)?;
            Ok(bodies.iter().filter_map(|body| serde_json::from_str(body).ok()).collect())
        })
    }

    /// What was left out in that time, oldest first.
    pub fn omitted(&self, from: Time, to: Time) -> Result<Vec<Omission>, Fault> {
        let select = "SELECT minute, what, count FROM omitted WHERE minute BETWEEN ?1 AND ?2 ORDER BY minute, what";
        self.ask(|db| {
            let mut statement = db.prepare_cached(select)?;
            let found = statement.query_map([from.0, to.0], |row| {
                let count: i64 = row.get(2)?;
                Ok(Omission { at: Time(row.get(0)?), what: row.get(1)?, count: count.max(0) as u64 })
            })?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }
}

/// One entry of the alert log; `None` if a newer lockscope wrote what this one does not know.
pub fn change(body: &str, value: Option<f64>, threshold: Option<f64>) -> Option<AlertChange> {
    let mut change: AlertChange = serde_json::from_str(body).ok()?;
    // JSON has no infinity, and its readers may be off by the last bit.
    (change.alert.value, change.alert.threshold) = (value, threshold.unwrap_or(f64::NAN));
    Some(change)
}

fn bodies(db: &Connection, select: &str, from: Time, to: Time) -> Result<Vec<String>, Why> {
    let mut statement = db.prepare_cached(select)?;
    let found = statement.query_map([from.0, to.0], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub fn gaps(db: &Connection, from: Time, to: Time) -> Result<Vec<Gap>, Why> {
    let select = "SELECT began, ended, reason, node FROM gaps
        WHERE began <= ?2 AND (ended IS NULL OR ended >= ?1) ORDER BY began, id";
    let mut statement = db.prepare_cached(select)?;
    let mut rows = statement.query([from.0, to.0])?;
    let mut gaps = Vec::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(2)?;
        let ended: Option<i64> = row.get(1)?;
        // A reason of a newer lockscope is a gap all the more.
        let reason = Reason::named(&name).unwrap_or(Reason::NotWritten);
        gaps.push(Gap { from: Time(row.get(0)?), to: ended.map(Time), reason, node: row.get(3)? });
    }
    Ok(gaps)
}
