//! The firings of the alert log: from when to when each alert fired, as far as it was recorded.

use std::collections::BTreeMap;

use super::{History, Why};
use crate::alerts::{Alert, AlertChange, AlertState, Severity};
use crate::base::fault::Fault;
use crate::base::time::Time;

/// One alert, from when it fired until it was over.
#[derive(Clone, PartialEq, Debug)]
pub struct Firing {
    /// Stays the same as long as the store keeps it.
    pub number: u64,
    pub rule: String,
    pub severity: Severity,
    pub labels: BTreeMap<String, String>,
    /// When it fired.
    pub value: Option<f64>,
    pub threshold: f64,
    /// The first evaluation in which its condition held, and the one in which it fired.
    pub active_at: Time,
    pub from: Time,
    pub end: End,
}

/// How a firing ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Over(Time),
    /// It fired when the recording broke off.
    NotSeen(Time),
    /// It fires at the newest moment, which is this one.
    Still(Time),
}

impl End {
    pub fn at(self) -> Time {
        match self {
            End::Over(at) | End::NotSeen(at) | End::Still(at) => at,
        }
    }
}

impl From<Firing> for Alert {
    /// As it was when it fired.
    fn from(firing: Firing) -> Alert {
        Alert {
            rule: firing.rule,
            severity: firing.severity,
            state: AlertState::Firing,
            labels: firing.labels,
            value: firing.value,
            threshold: firing.threshold,
            active_at: firing.active_at,
            fired_at: Some(firing.from),
            unknown_since: None,
        }
    }
}

impl History {
    /// Those that fired from one time up to and with another, oldest first.
    pub fn firings(&self, from: Time, to: Time) -> Result<Vec<Firing>, Fault> {
        let runs = self.runs()?;
        // What ends a firing may come later.
        let changes = self.numbered_alerts(from)?;
        let mut firings: Vec<Firing> = Vec::new();
        for (number, change) in changes {
            let alert = change.alert;
            let own = |firing: &&mut Firing| firing.rule == alert.rule && firing.labels == alert.labels;
            let last = firings.iter_mut().rev().find(own).filter(|firing| !matches!(firing.end, End::Over(_)));
            if alert.state == AlertState::Firing {
                // The run that it belongs to, and whether another came after it.
                let run = runs.iter().rposition(|run| run.from <= change.at);
                let end = match run.map(|at| (&runs[at], at + 1 == runs.len())) {
                    Some((run, true)) => End::Still(run.to.max(change.at)),
                    Some((run, false)) => End::NotSeen(run.to.max(change.at)),
                    None => End::NotSeen(change.at),
                };
                // One that goes on after a restart of the recorder is the same; if it began before, nobody asked for it.
                let began = match change.from {
                    AlertState::Firing => alert.fired_at.unwrap_or(change.at),
                    _ => change.at,
                };
                match last.filter(|_| change.from == AlertState::Firing) {
                    Some(firing) => firing.end = end,
                    None if began < from => {}
                    None => firings.push(Firing {
                        number,
                        rule: alert.rule,
                        severity: alert.severity,
                        labels: alert.labels,
                        value: alert.value,
                        threshold: alert.threshold,
                        active_at: alert.active_at,
                        from: began,
                        end,
                    }),
                }
            } else if let (AlertState::Firing, Some(firing)) = (change.from, last) {
                firing.end = End::Over(change.at);
            }
        }
        firings.retain(|firing| firing.from <= to);
        Ok(firings)
    }

    /// The changes of the log since then, with their numbers.
    fn numbered_alerts(&self, from: Time) -> Result<Vec<(u64, AlertChange)>, Fault> {
        let select = "SELECT id, body, value, threshold FROM alerts WHERE at >= ?1 ORDER BY at, id";
        self.ask(|db| {
            let mut statement = db.prepare_cached(select)?;
            let mut rows = statement.query([from.0])?;
            let mut changes = Vec::new();
            while let Some(row) = rows.next()? {
                let (id, body): (i64, String) = (row.get(0)?, row.get(1)?);
                let number = u64::try_from(id).map_err(|_| Why::Damaged)?;
                let change = super::log::change(&body, row.get(2)?, row.get(3)?);
                changes.extend(change.map(|change| (number, change)));
            }
            Ok(changes)
        })
    }
}
