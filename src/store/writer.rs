//! The writer: the thread that owns the file while it is recorded.
//!
//! A moment is on disk, as a row of the tail, before the next one is taken. Every ten minutes the tail is packed, what
//! has become old is made coarser, and what is too much goes. A write that fails is counted and told, and changes nothing
//! of what was written before.

mod aging;
mod gaps;
mod log;
mod packing;
mod tail;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, ErrorCode};
use serde_json::Value;

use crate::alerts::AlertChange;
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::metrics::Moment;
use crate::model::Notable;
use crate::store::clocks::Jump;
use crate::store::faults;
use crate::store::names::Names;
use crate::store::only::Only;
use crate::store::recorder::Inbox;
use crate::store::schema::{beside, length};
use crate::store::sealed::{Opener, Seal};
use crate::store::{Gap, Keep, Status, Target};
use gaps::OpenGaps;
use log::Minute;

pub use packing::{BLOCKS, COLUMNS, SECOND_MS};
pub use tail::TAIL;

/// What the writer is told.
pub enum Message {
    Moment {
        moment: Moment,
        jump: Option<Jump>,
    },
    Gap(Gap),
    Notable(Box<Notable>),
    Alert(Box<AlertChange>),
    Action(Time, Value),
    /// Something found no room in the channel.
    Omitted {
        at: Time,
        what: &'static str,
        count: u64,
    },
    /// Answer when everything before this is written.
    Settle(SyncSender<()>),
}

/// The run that is recorded.
struct CurrentRun {
    id: i64,
    began: Time,
    last: Time,
}

pub struct Writer {
    db: Connection,
    path: PathBuf,
    target: Target,
    keep: Keep,
    status: Arc<Mutex<Status>>,
    names: Names,
    seal: Seal,
    opener: Opener,
    run: Option<CurrentRun>,
    gaps: OpenGaps,
    minute: Minute,
    tail: tail::Tail,
    /// By how much the clock was set ahead since this recorder began: what is old is not judged by such a clock.
    lead_ms: i64,
    in_transaction: bool,
    _only: Only,
}

impl Writer {
    pub fn new(
        db: Connection,
        only: Only,
        path: PathBuf,
        target: Target,
        keep: Keep,
        status: Arc<Mutex<Status>>,
    ) -> Result<Writer, Fault> {
        let mut writer = Writer {
            db,
            path,
            target,
            keep,
            status,
            names: Names::default(),
            seal: Seal::new(),
            opener: Opener::new(),
            run: None,
            gaps: OpenGaps::default(),
            minute: Minute::default(),
            tail: tail::Tail::default(),
            lead_ms: 0,
            in_transaction: false,
            _only: only,
        };
        writer.prepare().map_err(|why| faults::fault(&writer.path, why))?;
        writer.measure();
        Ok(writer)
    }

    /// What a recorder before this one left: its tail, and gaps that it could not end.
    fn prepare(&mut self) -> rusqlite::Result<()> {
        let page: i64 = self.db.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        let pages = (self.keep.size_limit / page.max(512) as u64).max(1);
        self.db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))?;
        self.end_gaps_left_open()?;
        self.pack()
    }

    /// Works until everybody who could tell it something is gone.
    pub fn work(mut self, inbox: &Inbox) -> Result<(), Fault> {
        while let Some(message) = inbox.next() {
            self.take(message);
            // What waits goes into the same transaction.
            for message in std::iter::from_fn(|| inbox.next_ready()).take(256) {
                self.take(message);
            }
            self.commit();
        }
        self.finish()
    }

    fn take(&mut self, message: Message) {
        let settled = match message {
            Message::Settle(answer) => {
                self.commit();
                // Nobody waits any more if this fails.
                let _ = answer.try_send(());
                return;
            }
            Message::Moment { moment, jump } => self.moment(moment, jump),
            other => self.begin().and_then(|()| self.entry(other)),
        };
        if let Err(why) = settled {
            self.failed(why);
        }
    }

    fn entry(&mut self, message: Message) -> rusqlite::Result<()> {
        match message {
            Message::Gap(gap) => self.write_gap(&gap),
            Message::Notable(notable) => self.write_notable(&notable),
            Message::Alert(change) => self.write_alert(&change),
            Message::Action(at, entry) => self.write_action(at, &entry),
            Message::Omitted { at, what, count } => self.write_omitted(at, what, count),
            Message::Moment { .. } | Message::Settle(_) => Ok(()),
        }
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        if !self.in_transaction {
            self.db.execute_batch("BEGIN IMMEDIATE")?;
            self.in_transaction = true;
        }
        Ok(())
    }

    /// Whether everything so far is in the file.
    fn commit(&mut self) -> bool {
        if !std::mem::take(&mut self.in_transaction) {
            return true;
        }
        match self.db.execute_batch("COMMIT") {
            Ok(()) => {
                self.measure();
                self.with_status(|status| status.trouble = None);
                true
            }
            Err(why) => {
                self.failed(why);
                false
            }
        }
    }

    /// The same for what must be in the file before anything else is done.
    fn commit_now(&mut self) -> rusqlite::Result<()> {
        self.db.execute_batch("COMMIT")?;
        self.in_transaction = false;
        Ok(())
    }

    /// Takes back what was not committed, and remembers only what is in the file.
    fn failed(&mut self, why: rusqlite::Error) {
        // It may have rolled back by itself already.
        let _ = self.db.execute_batch("ROLLBACK");
        self.in_transaction = false;
        self.names.forget();
        self.gaps.forget();
        if self.tail.failed() {
            self.run = None;
        }
        let full = why.sqlite_error_code() == Some(ErrorCode::DiskFull);
        let fault = faults::fault(&self.path, why);
        self.with_status(|status| {
            status.errors += 1;
            status.trouble = Some(fault.to_string());
        });
        // It may be our own limit: then the oldest makes room for the next moment.
        if full {
            let made = self.make_room();
            if made.is_err() {
                let _ = self.db.execute_batch("ROLLBACK");
                self.in_transaction = false;
            }
        }
    }

    fn finish(mut self) -> Result<(), Fault> {
        let ended = self.end_gaps_left_open();
        // Without it the log stays beside the file, and nothing is lost either.
        let emptied = self.db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
        self.measure();
        ended.and(emptied).map_err(|why| faults::fault(&self.path, why))
    }

    fn with_status(&self, change: impl FnOnce(&mut Status)) {
        change(&mut self.status.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn measure(&self) {
        let size = length(&self.path) + length(&beside(&self.path, "-wal"));
        self.with_status(|status| status.size = size);
    }
}
