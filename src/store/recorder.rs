//! The recorder: takes what is to be written, hands it to the writer's thread, and never blocks its caller.
//!
//! What finds no room in the channel is left out, counted, and told as a gap. Dropping a recorder writes what it was given,
//! as [`Recorder::close`] does, but nobody learns how it went.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::alerts::AlertChange;
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::metrics::Moment;
use crate::model::Notable;
use crate::store::clocks::{Clocks, Jump};
use crate::store::faults::{Trouble, told};
use crate::store::only::Only;
use crate::store::schema;
use crate::store::writer::{Message, Writer};
use crate::store::{Gap, Keep, Reason, Target, Ticks};

/// Messages that may wait for the writer.
const MESSAGES: usize = 1_024;
/// Samples of the moments among them: about a hundred bytes each.
const SAMPLES: usize = 1_000_000;
/// Below, hardly anything but the tables has room.
const SMALLEST: u64 = 4 << 20;

/// How recording goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Of the file with its log, in bytes.
    pub size: u64,
    /// The time of the newest moment that is on disk.
    pub last_write: Option<Time>,
    /// Writes that failed.
    pub errors: u64,
    /// Moments and entries that were left out because there was no room.
    pub omitted: u64,
    /// A sentence on what is wrong now.
    pub trouble: Option<String>,
}

/// The one that records into a file.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    inbox: Option<SyncSender<Message>>,
    writer: Option<JoinHandle<Result<(), Fault>>>,
    /// Shared with the writer, and never waited for: while the writer changes it, what was read last counts.
    status: Arc<Mutex<Status>>,
    known: RefCell<Status>,
    waiting: Arc<AtomicUsize>,
    clocks: Clocks,
    /// One that the writer was not told of yet, because its moment was left out.
    jump: Option<Jump>,
    /// Left out, and not yet told to the writer: by what it was.
    omitted: [(&'static str, u64); 5],
}

impl Recorder {
    /// Opens the file, or makes it; the first moment begins a run. Fails if another process records into it, or if the file
    /// belongs to another target.
    pub fn open(path: &Path, target: &Target, keep: Keep) -> Result<Recorder, Fault> {
        if keep.size_limit < SMALLEST {
            return Err(told(path, Trouble::TooSmall { least: SMALLEST }));
        }
        schema::make_private(path)?;
        let only = Only::take(path)?;
        let db = schema::open_to_record(path, &target.name)?;
        let status = Arc::new(Mutex::new(Status::default()));
        let writer = Writer::new(db, only, path.to_path_buf(), target.clone(), keep, status.clone())?;
        let (inbox, messages) = sync_channel(MESSAGES);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counted = waiting.clone();
        let work = move || writer.work(&Inbox { messages, waiting: counted });
        let thread = std::thread::Builder::new().name("store".into()).spawn(work);
        let writer = thread.map_err(|why| Fault::server(format!("could not start a thread to record: {why}")))?;
        Ok(Recorder {
            path: path.to_path_buf(),
            inbox: Some(inbox),
            writer: Some(writer),
            status,
            known: RefCell::default(),
            waiting,
            clocks: Clocks::default(),
            jump: None,
            omitted: ["moments", "gaps", "notables", "alerts", "actions"].map(|what| (what, 0)),
        })
    }

    /// Records everything that is known at one time. If the wall clock and the time that passed came apart, a new run begins
    /// after a gap, and its reason is returned: the caller's clock is off and should be started again with what depends on
    /// it. Until it is, the times of what comes are corrected.
    pub fn moment(&mut self, moment: Moment) -> Option<Reason> {
        self.moment_at(moment, Ticks::now())
    }

    /// The same with clocks of the caller's.
    pub fn moment_at(&mut self, mut moment: Moment, ticks: Ticks) -> Option<Reason> {
        let told = self.clocks.step(moment.at, ticks);
        let jump = Jump::both(self.jump.take(), told);
        moment.at = self.clocks.corrected(moment.at);
        let (at, samples) = (moment.at, moment.samples.len());
        if self.waiting.load(Ordering::Relaxed) > SAMPLES {
            self.omit(at, 0);
            self.jump = jump;
        } else {
            self.waiting.fetch_add(samples, Ordering::Relaxed);
            if !self.send(at, 0, Message::Moment { moment, jump }) {
                self.waiting.fetch_sub(samples, Ordering::Relaxed);
                self.jump = jump;
            }
        }
        told.map(|jump| jump.reason)
    }

    /// A gap that the caller knows of. Those by `lockscope_up` and `lockscope_data_stale` of the moments are found here.
    pub fn gap(&mut self, gap: &Gap) {
        let to = gap.to.map(|to| self.clocks.corrected(to));
        let gap = Gap { from: self.clocks.corrected(gap.from), to, ..gap.clone() };
        self.send(gap.from, 1, Message::Gap(gap));
    }

    /// An entry of the timeline. At most 600 in a minute; the rest are counted.
    pub fn notable(&mut self, notable: &Notable) {
        let at = self.clocks.corrected(notable.at);
        self.send(at, 2, Message::Notable(Box::new(Notable { at, ..notable.clone() })));
    }

    pub fn alert(&mut self, change: &AlertChange) {
        let at = self.clocks.corrected(change.at);
        self.send(at, 3, Message::Alert(Box::new(AlertChange { at, ..change.clone() })));
    }

    /// An entry of the audit file, which has its own time. The same entry again changes nothing.
    pub fn action(&mut self, at: Time, entry: &Value) {
        self.send(at, 4, Message::Action(at, entry.clone()));
    }

    pub fn status(&self) -> Status {
        let mut known = self.known.borrow_mut();
        match self.status.try_lock() {
            Ok(status) => known.clone_from(&status),
            Err(TryLockError::Poisoned(status)) => known.clone_from(&status.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
        let mut status = known.clone();
        status.omitted += self.omitted.iter().map(|(_, count)| count).sum::<u64>();
        status
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until everything that it was given is on disk. Blocks: not for the loop.
    pub fn settle(&self) {
        let (answer, answered) = sync_channel(1);
        if let Some(inbox) = &self.inbox
            && inbox.send(Message::Settle(answer)).is_ok()
        {
            // An error means that the writer has ended; close() tells why.
            let _ = answered.recv();
        }
    }

    /// Writes what it was given, and ends the run.
    pub fn close(mut self) -> Result<Status, Fault> {
        self.end()?;
        Ok(self.status())
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.inbox = None;
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(self.broke_off()),
            None => Ok(()),
        }
    }

    fn send(&mut self, at: Time, kind: usize, message: Message) -> bool {
        self.tell_omitted(at);
        let sent = self.inbox.as_ref().map(|inbox| inbox.try_send(message));
        if let Some(Err(TrySendError::Disconnected(_))) = sent {
            let trouble = self.broke_off().to_string();
            self.status.lock().unwrap_or_else(PoisonError::into_inner).trouble = Some(trouble);
        }
        let is_sent = matches!(sent, Some(Ok(())));
        if !is_sent {
            self.omit(at, kind);
        }
        is_sent
    }

    /// The writer's thread panicked.
    fn broke_off(&self) -> Fault {
        let file = self.path.display();
        Fault::server(format!("recording into {file} broke off by a mistake of ours: start again, and report it"))
    }

    fn omit(&mut self, at: Time, kind: usize) {
        self.omitted[kind].1 += 1;
        self.tell_omitted(at);
    }

    /// Tells the writer what was left out, as soon as there is room for that.
    fn tell_omitted(&mut self, at: Time) {
        let Some(inbox) = &self.inbox else { return };
        for (what, count) in self.omitted.iter_mut().filter(|(_, count)| *count > 0) {
            if inbox.try_send(Message::Omitted { at, what, count: *count }).is_ok() {
                *count = 0;
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // close() is for those who want to know.
        let _ = self.end();
    }
}

/// The writer's end of the channel: counts what it takes out.
pub struct Inbox {
    messages: Receiver<Message>,
    waiting: Arc<AtomicUsize>,
}

impl Inbox {
    /// The next message; `None` when nobody is left who could send one.
    pub fn next(&self) -> Option<Message> {
        self.messages.recv().ok().inspect(|message| self.count(message))
    }

    /// The next message, if it is there already.
    pub fn next_ready(&self) -> Option<Message> {
        self.messages.try_recv().ok().inspect(|message| self.count(message))
    }

    fn count(&self, message: &Message) {
        if let Message::Moment { moment, .. } = message {
            self.waiting.fetch_sub(moment.samples.len(), Ordering::Relaxed);
        }
    }
}
