//! Growing old: blocks become coarser, then go; and the file keeps within its limit, the oldest first.
//!
//! A moment is in one block only, at one step: the fine block goes in the transaction that writes the coarse one.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::Writer;
use super::packing::{BLOCKS, COLUMNS, SECOND_MS, insert_block, insert_body};
use crate::base::time::Time;
use crate::store::body::{Pair, decode_columns, decode_times, encode_columns};
use crate::store::joined::{Joined, Steps};
use crate::store::names::drop_unused;
use crate::store::sealed::place;

const HOUR_MS: i64 = 3_600_000;
const TEN_SECONDS_MS: i64 = 10_000;
const MINUTE_MS: i64 = 60_000;
/// Blocks that are made in one go: the next moment does not wait for more.
const MOST_AT_ONCE: usize = 8;

/// A step that becomes a coarser one.
struct Thinning {
    from: i64,
    to: i64,
    /// How much of one run goes into one coarse block.
    window: i64,
    after: Duration,
}

impl Writer {
    /// What is due after packing.
    pub fn age(&mut self, at: Time) -> rusqlite::Result<()> {
        let now = Time(at.0 - self.lead_ms);
        let thinnings = [
            Thinning { from: SECOND_MS, to: TEN_SECONDS_MS, window: HOUR_MS, after: self.keep.seconds },
            Thinning { from: TEN_SECONDS_MS, to: MINUTE_MS, window: 6 * HOUR_MS, after: self.keep.ten_seconds },
        ];
        for thinning in &thinnings {
            for (run, window) in self.due(thinning, now)? {
                self.begin()?;
                self.thin(thinning, run, window)?;
                self.commit_now()?;
            }
        }
        self.forget_before(now - self.keep.minutes)?;
        self.enforce_limit(0)
    }

    /// Runs and windows that are wholly older than their step is kept.
    fn due(&self, thinning: &Thinning, now: Time) -> rusqlite::Result<Vec<(i64, i64)>> {
        let mut statement = self.db.prepare_cached(
            "SELECT DISTINCT run, first / ?2 FROM blocks WHERE step = ?1 AND (first / ?2 + 1) * ?2 <= ?3
             ORDER BY first / ?2, run LIMIT ?4",
        )?;
        let limit = (now - thinning.after).0;
        let numbers = [thinning.from, thinning.window, limit, MOST_AT_ONCE as i64];
        statement.query_map(numbers, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    }

    /// Makes one coarse block of all fine ones of a run in a window.
    fn thin(&mut self, thinning: &Thinning, run: i64, window: i64) -> rusqlite::Result<()> {
        let fine = self.fine_blocks(thinning, run, window)?;
        let times: Vec<Time> = fine.iter().flat_map(|block| &block.times).copied().collect();
        let steps = Steps::of(&times, Duration::from_millis(thinning.to as u64));
        let moments = fine.iter().map(|block| block.moments).sum();
        if !times.is_empty() {
            let id = insert_block(&self.db, &mut self.seal, thinning.to, run, &steps.times, moments)?;
            for metric in metrics(&self.db)? {
                for (pattern, columns) in self.joined(metric, &fine)? {
                    let finished = columns.into_iter().filter_map(|(series, joined)| {
                        Some((series, steps.coarser(&joined.finish(times.len() as u32)?)))
                    });
                    let mut coarse: Vec<(i64, Pair)> = finished.collect();
                    coarse.sort_unstable_by_key(|(series, _)| *series);
                    let plain = encode_columns(coarse.iter().map(|(series, pair)| (*series, pair)));
                    insert_body(&self.db, &mut self.seal, [metric, id, pattern], &plain)?;
                }
            }
        }
        for block in &fine {
            delete_block(&self.db, block.id)?;
        }
        Ok(())
    }

    fn fine_blocks(&mut self, thinning: &Thinning, run: i64, window: i64) -> rusqlite::Result<Vec<Fine>> {
        let mut statement = self.db.prepare_cached(
            "SELECT id, first, last, moments, times FROM blocks
             WHERE step = ?1 AND run = ?2 AND first / ?3 = ?4 ORDER BY first",
        )?;
        let mut rows = statement.query([thinning.from, run, thinning.window, window])?;
        let mut fine: Vec<Fine> = Vec::new();
        while let Some(row) = rows.next()? {
            let (first, last): (i64, i64) = (row.get(1)?, row.get(2)?);
            let sealed = row.get_ref(4)?.as_blob()?;
            let plain = self.opener.open(place(BLOCKS, [thinning.from, first, last]), sealed);
            // Without its times a block says nothing: it goes with the others.
            let times = plain.and_then(decode_times).unwrap_or_default();
            let start = fine.last().map_or(0, |before| before.start + before.times.len() as u32);
            fine.push(Fine { id: row.get(0)?, moments: row.get(3)?, start, times });
        }
        Ok(fine)
    }

    /// The columns of a metric over several blocks, by pattern and series.
    fn joined(&mut self, metric: i64, fine: &[Fine]) -> rusqlite::Result<HashMap<i64, HashMap<i64, Joined>>> {
        let mut found: HashMap<i64, HashMap<i64, Joined>> = HashMap::new();
        let mut statement =
            self.db.prepare_cached("SELECT pattern, body FROM columns WHERE metric = ?1 AND block = ?2")?;
        for block in fine {
            let mut rows = statement.query([metric, block.id])?;
            while let Some(row) = rows.next()? {
                let pattern: i64 = row.get(0)?;
                let sealed = row.get_ref(1)?.as_blob()?;
                let Some(plain) = self.opener.open(place(COLUMNS, [metric, block.id, pattern]), sealed) else {
                    continue;
                };
                let columns = found.entry(pattern).or_default();
                // What is damaged is not known from there on.
                let _ = decode_columns(plain, |series, last, largest| {
                    let joined = columns.entry(series).or_default();
                    joined.add(block.start, 0..block.times.len() as u32, last, largest)
                });
            }
        }
        Ok(found)
    }

    fn forget_before(&mut self, oldest: Time) -> rusqlite::Result<()> {
        let old = "SELECT id FROM blocks WHERE last < ?1 LIMIT 64";
        let ids: Vec<i64> =
            self.db.prepare_cached(old)?.query_map([oldest.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
        self.drop_blocks(&ids, oldest)
    }

    /// Drops the oldest blocks until the file has room again, for that many bytes and the next ones.
    pub fn enforce_limit(&mut self, bytes: u64) -> rusqlite::Result<()> {
        let most = (self.keep.size_limit / 8 * 7).saturating_sub(bytes);
        while self.used()? > most && self.drop_oldest()? {}
        let (pages, page) = (self.pragma("page_count")?, self.pragma("page_size")?);
        // Only if the limit is lower than it was: usually free pages are used again.
        if pages * page > self.keep.size_limit {
            self.db.execute_batch("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")?;
        }
        Ok(())
    }

    /// Drops one block if the file is anywhere near its limit.
    pub fn make_room(&mut self) -> rusqlite::Result<()> {
        if self.used()? > self.keep.size_limit / 2 {
            self.drop_oldest()?;
        }
        Ok(())
    }

    fn drop_oldest(&mut self) -> rusqlite::Result<bool> {
        let oldest = "SELECT id, last FROM blocks ORDER BY first, last LIMIT 1";
        let found: Option<(i64, i64)> =
            self.db.query_row(oldest, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match found {
            Some((id, last)) => self.drop_blocks(&[id], Time(last)).map(|()| true),
            None => Ok(false),
        }
    }

    /// Drops blocks, and with them what happened before that time.
    fn drop_blocks(&mut self, ids: &[i64], before: Time) -> rusqlite::Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        self.begin()?;
        for id in ids {
            delete_block(&self.db, *id)?;
        }
        for (table, time) in
            [("notables", "at"), ("alerts", "at"), ("actions", "at"), ("omitted", "minute"), ("gaps", "ended")]
        {
            self.db.execute(&format!("DELETE FROM {table} WHERE {time} < ?1"), [before.0])?;
        }
        let current = self.run.as_ref().map_or(-1, |run| run.id);
        let unused = "DELETE FROM runs WHERE id <> ?1 AND id NOT IN (SELECT run FROM blocks)
            AND id NOT IN (SELECT run FROM tail)";
        self.db.execute(unused, [current])?;
        let oldest: Option<i64> = self.db.query_row("SELECT min(first) FROM blocks", [], |row| row.get(0))?;
        drop_unused(&self.db, Time(oldest.unwrap_or(before.0)))?;
        // Names that are gone may come back with another number.
        self.names.forget();
        self.commit_now()?;
        Ok(())
    }

    fn used(&self) -> rusqlite::Result<u64> {
        let used = self.pragma("page_count")?.saturating_sub(self.pragma("freelist_count")?);
        Ok(used * self.pragma("page_size")?)
    }

    fn pragma(&self, name: &str) -> rusqlite::Result<u64> {
        self.db.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).map(|number| number.max(0) as u64)
    }
}

/// A block that becomes part of a coarser one.
struct Fine {
    id: i64,
    moments: i64,
    /// The index of its first time among all.
    start: u32,
    times: Vec<Time>,
}

fn metrics(db: &Connection) -> rusqlite::Result<Vec<i64>> {
    db.prepare_cached("SELECT DISTINCT metric FROM series")?.query_map([], |row| row.get(0))?.collect()
}

fn delete_block(db: &Connection, id: i64) -> rusqlite::Result<()> {
    for metric in metrics(db)? {
        db.prepare_cached("DELETE FROM columns WHERE metric = ?1 AND block = ?2")?.execute([metric, id])?;
    }
    db.prepare_cached("DELETE FROM blocks WHERE id = ?1")?.execute([id]).map(|_| ())
}
