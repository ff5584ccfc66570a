//! Gaps: those that a moment itself tells of, node by node, and those that are over.

use std::collections::BTreeMap;

use rusqlite::params;

use super::Writer;
use crate::base::time::Time;
use crate::metrics::{MetricId, Moment};
use crate::store::{Gap, Reason};

/// The gaps that last, by reason and node, with their rows.
#[derive(Default)]
pub struct OpenGaps(BTreeMap<(Reason, String), i64>);

impl OpenGaps {
    /// Their rows may not be in the file; those that are there are ended by the next run or the end.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

impl Writer {
    pub fn write_gap(&mut self, gap: &Gap) -> rusqlite::Result<()> {
        self.insert_gap(gap).map(|_| ())
    }

    fn insert_gap(&mut self, gap: &Gap) -> rusqlite::Result<i64> {
        self.db.prepare_cached("INSERT INTO gaps(began, ended, reason, node) VALUES (?1, ?2, ?3, ?4)")?.insert(params![
            gap.from.0,
            gap.to.map(|to| to.0),
            gap.reason.name(),
            gap.node
        ])
    }

    /// Begins and ends gaps as `lockscope_up` and `lockscope_data_stale` say, from the last moment that was known.
    pub fn follow_gaps(&mut self, moment: &Moment) -> rusqlite::Result<()> {
        let signs = [("lockscope_up", 0.0, Reason::NotConnected), ("lockscope_data_stale", 1.0, Reason::Stale)];
        let signs = signs.map(|(name, bad, reason)| (MetricId::named(name), bad, reason));
        let blind = MetricId::named("lockscope_blind_since_timestamp_seconds");
        let (mut now, mut since) = (Vec::new(), BTreeMap::new());
        for sample in &moment.samples {
            let sign =
                signs.iter().find(|(metric, bad, _)| *metric == Some(sample.series.metric) && *bad == sample.value);
            if let Some((_, _, reason)) = sign {
                now.push((*reason, sample.series.label("node").unwrap_or_default().to_string()));
            } else if Some(sample.series.metric) == blind {
                let at = Time((sample.value * 1_000.0).round() as i64);
                since.insert(sample.series.label("node").unwrap_or_default().to_string(), at);
            }
        }
        let over: Vec<_> = self.gaps.0.keys().filter(|open| !now.contains(open)).cloned().collect();
        for open in over {
            if let Some(id) = self.gaps.0.remove(&open) {
                self.db.prepare_cached("UPDATE gaps SET ended = ?2 WHERE id = ?1")?.execute([id, moment.at.0])?;
            }
        }
        for (reason, node) in now {
            if !self.gaps.0.contains_key(&(reason, node.clone())) {
                // It is noticed later than it began, and what was told in between was not known.
                let began = self.run.as_ref().map_or(moment.at, |run| run.began);
                let from = since.get(&node).map_or(moment.at, |since| (*since).clamp(began, moment.at.max(began)));
                let gap = Gap { from, to: None, reason, node: Some(node.clone()) };
                let id = self.insert_gap(&gap)?;
                self.gaps.0.insert((reason, node), id);
            }
        }
        Ok(())
    }

    /// Ends all gaps that last.
    pub fn end_open_gaps(&mut self, at: Time) -> rusqlite::Result<()> {
        self.gaps.forget();
        self.db.execute("UPDATE gaps SET ended = max(began, ?1) WHERE ended IS NULL", [at.0]).map(|_| ())
    }

    /// The same with the newest moment there is: what came after it is told by a gap of its own.
    pub fn end_gaps_left_open(&mut self) -> rusqlite::Result<()> {
        let newest = "max(coalesce((SELECT max(at) FROM tail), 0), coalesce((SELECT max(last) FROM blocks), 0))";
        let end = format!("UPDATE gaps SET ended = max(began, {newest}) WHERE ended IS NULL");
        self.db.execute(&end, []).map(|_| ())
    }
}
