//! Labels of episodes: read with the rest, written in a short transaction beside the recorder.

use std::collections::BTreeMap;

use rusqlite::params;

use super::History;
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::store::{Label, Verdict, faults, schema};

impl History {
    /// All labels of a rule, oldest episode first.
    pub fn labels(&self, rule: &str) -> Result<Vec<Label>, Fault> {
        let select =
            "SELECT labels, began, ended, verdict, note, by, at FROM labels WHERE rule = ?1 ORDER BY began, labels";
        self.ask(|db| {
            let mut statement = db.prepare_cached(select)?;
            let mut rows = statement.query([rule])?;
            let mut labels = Vec::new();
            while let Some(row) = rows.next()? {
                let (named, verdict): (String, Option<String>) = (row.get(0)?, row.get(3)?);
                labels.push(Label {
                    rule: rule.to_string(),
                    labels: serde_json::from_str(&named).unwrap_or_default(),
                    from: Time(row.get(1)?),
                    to: Time(row.get(2)?),
                    verdict: verdict.as_deref().and_then(Verdict::named),
                    note: row.get(4)?,
                    by: row.get(5)?,
                    at: Time(row.get(6)?),
                });
            }
            Ok(labels)
        })
    }

    /// Writes a label; one of the same rule, labels and beginning is replaced.
    pub fn label(&self, label: &Label) -> Result<(), Fault> {
        let write = "INSERT OR REPLACE INTO labels(rule, labels, began, ended, verdict, note, by, at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (named, verdict) = (json(&label.labels), label.verdict.map(Verdict::name));
        let values = params![label.rule, named, label.from.0, label.to.0, verdict, label.note, label.by, label.at.0];
        self.write(write, values)
    }

    /// Takes the label of a rule, labels and beginning away.
    pub fn unlabel(&self, rule: &str, labels: &BTreeMap<String, String>, from: Time) -> Result<(), Fault> {
        let write = "DELETE FROM labels WHERE rule = ?1 AND labels = ?2 AND began = ?3";
        self.write(write, params![rule, json(labels), from.0])
    }

    /// Says of an episode what it was; a label of the same alert at the same time is replaced. Without a verdict there is
    /// none any more.
    pub fn judge(&self, label: &Label) -> Result<(), Fault> {
        let same = |old: &&Label| old.labels == label.labels && old.from <= label.to && label.from <= old.to;
        for old in self.labels(&label.rule)?.iter().filter(same) {
            self.unlabel(&old.rule, &old.labels, old.from)?;
        }
        if label.verdict.is_some() { self.label(label) } else { Ok(()) }
    }

    fn write(&self, statement: &str, values: impl rusqlite::Params) -> Result<(), Fault> {
        let db = schema::open_to_label(self.path())?;
        db.execute(statement, values).map(|_| ()).map_err(|why| faults::fault(self.path(), why))
    }
}

fn json(labels: &BTreeMap<String, String>) -> String {
    serde_json::to_string(labels).unwrap_or_default()
}
