//! Moments as rows of the tail, and the runs that they belong to.

use std::time::Duration;

use rusqlite::params;

use super::{CurrentRun, Writer};
use crate::base::time::Time;
use crate::metrics::Moment;
use crate::store::clocks::Jump;
use crate::store::row::encode_row;
use crate::store::sealed::place;
use crate::store::{Gap, Reason};

/// The table, for the checksum.
pub const TAIL: u8 = 1;
/// Moments this far apart have something missing between them.
const APART_MS: i64 = 2_500;
/// How often a row has everything.
const WHOLE_EVERY: u32 = 60;
/// Packing is for ten minutes, less when this many changes have come: they are put into memory then.
const MOST_CHANGES: usize = 4_000_000;
const BLOCK_MS: i64 = 600_000;
/// After packing failed.
const RETRY: Duration = Duration::from_secs(60);

/// What is in the tail.
#[derive(Default)]
pub struct Tail {
    /// The ten minutes that its rows belong to.
    window: Option<i64>,
    changes: usize,
    pub bytes: u64,
    rows: u32,
    /// A write failed, and nothing was written since.
    has_failed: bool,
    /// The run itself may not be in the file yet.
    is_new_run: bool,
    jump: Option<Jump>,
    /// When packing may be tried again after it failed.
    pack_after: Option<Time>,
}

impl Tail {
    /// A write failed; returns whether the run that was begun with it is not in the file.
    pub fn failed(&mut self) -> bool {
        self.has_failed = true;
        self.is_new_run
    }

    pub fn emptied(&mut self) {
        (self.window, self.changes, self.bytes, self.rows, self.pack_after) = (None, 0, 0, 0, None);
    }
}

impl Writer {
    pub fn moment(&mut self, moment: Moment, jump: Option<Jump>) -> rusqlite::Result<()> {
        self.lead_ms = (self.lead_ms + jump.map_or(0, |jump| jump.set_ms)).max(0);
        // One that was told with a moment that could not be written still counts.
        self.tail.jump = jump.or(self.tail.jump);
        let jump = self.tail.jump;
        let window = moment.at.0.div_euclid(BLOCK_MS);
        let is_full = self.tail.changes > MOST_CHANGES || self.tail.bytes > self.keep.size_limit / 8;
        let is_over = is_full || jump.is_some() || self.tail.window.is_some_and(|current| current != window);
        if is_over && self.tail.pack_after.is_none_or(|after| moment.at > after) {
            self.commit();
            self.tail.pack_after = Some(moment.at + RETRY);
            if let Err(why) = self.pack().and_then(|()| self.age(moment.at)) {
                // The tail takes the moment all the more.
                self.failed(why);
            }
        }
        self.begin()?;
        match (&self.run, jump) {
            (Some(run), None) if moment.at <= run.last => {
                return self.write_omitted(moment.at, "moments", 1);
            }
            (Some(run), None) => {
                let last = run.last;
                self.gap_since(last, moment.at)?;
            }
            (before, jump) => {
                let otherwise = if self.tail.has_failed { Reason::NotWritten } else { Reason::NotRunning };
                let reason = jump.map_or(otherwise, |jump| jump.reason);
                let last = before.as_ref().map(|run| run.last);
                self.begin_run(moment.at, last, reason)?;
            }
        }
        self.follow_gaps(&moment)?;
        self.write_row(&moment)?;
        self.tail.window = Some(window);
        if self.commit() {
            (self.tail.has_failed, self.tail.is_new_run, self.tail.jump) = (false, false, None);
            if let Some(run) = &mut self.run {
                run.last = moment.at;
            }
            self.with_status(|status| status.last_write = Some(moment.at));
        }
        Ok(())
    }

    fn write_row(&mut self, moment: &Moment) -> rusqlite::Result<()> {
        let Some(run) = self.run.as_ref().map(|run| run.id) else { return Ok(()) };
        let asked = self.tail.rows.is_multiple_of(WHOLE_EVERY);
        let (whole, changed) = self.names.changes(&self.db, moment, asked)?;
        let body = self.seal.seal(place(TAIL, [run, moment.at.0, 0]), &encode_row(whole, &changed));
        self.db.prepare_cached("INSERT INTO tail(run, at, body) VALUES (?1, ?2, ?3)")?.execute(params![
            run,
            moment.at.0,
            body
        ])?;
        self.tail.rows += 1;
        self.tail.changes += changed.len();
        self.tail.bytes += body.len() as u64;
        Ok(())
    }

    /// What is missing between two moments of a run.
    fn gap_since(&mut self, last: Time, at: Time) -> rusqlite::Result<()> {
        if at.0 - last.0 <= APART_MS {
            return Ok(());
        }
        let reason = if self.tail.has_failed { Reason::NotWritten } else { Reason::Overload };
        self.write_gap(&Gap { from: last, to: Some(at), reason, node: None })
    }

    fn begin_run(&mut self, at: Time, last: Option<Time>, reason: Reason) -> rusqlite::Result<()> {
        let newest = "SELECT max(t) FROM (SELECT max(at) AS t FROM tail UNION ALL SELECT max(last) FROM blocks)";
        let last = match last {
            Some(last) => Some(last),
            None => self.db.query_row(newest, [], |row| row.get(0)).map(|at: Option<i64>| at.map(Time))?,
        };
        self.end_open_gaps(last.unwrap_or(at))?;
        if let Some(last) = last.filter(|last| *last != at) {
            // A clock that was set back makes the time between doubtful.
            let gap = Gap { from: last.min(at), to: Some(last.max(at)), reason, node: None };
            self.write_gap(&gap)?;
        }
        let version = env!("CARGO_PKG_VERSION");
        let id = self
            .db
            .prepare_cached("INSERT INTO runs(began, after, version, target, server) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .insert(params![at.0, reason.name(), version, self.target.name, self.target.server])?;
        self.run = Some(CurrentRun { id, began: at, last: at });
        self.tail.is_new_run = true;
        self.names.begin();
        Ok(())
    }
}
