//! What is written to the store: moments, alerts, what was notable, and what operators did. The daemon records by it, and so
//! does the console.
//!
//! Nothing here waits: the store has a thread of its own, and the audit file is read on another.

use std::path::Path;
use std::thread::JoinHandle;

use serde_json::Value;

use crate::actions::audit;
use crate::alerts::AlertChange;
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::engine::{Engine, NodeStatus};
use crate::metrics::{MetricId, Moment};
use crate::store::{Keep, Recorder, Status, Target};

const SIZE: MetricId = MetricId::of("lockscope_store_size_bytes");
const LAST_WRITE: MetricId = MetricId::of("lockscope_store_last_write_timestamp_seconds");
const ERRORS: MetricId = MetricId::of("lockscope_store_errors_total");
/// Every so many moments the audit file is looked at.
const AUDIT: u64 = 30;

pub struct Archive {
    recorder: Recorder,
    /// The next entry of the timeline.
    next: u64,
    moments: u64,
    /// The target as the audit file names it.
    address: String,
    /// Entries of the audit file that were looked at.
    actions: usize,
    /// The audit file is being read.
    reading: Option<JoinHandle<Vec<Value>>>,
    /// What was said about the state of the store.
    trouble: Option<String>,
}

impl Archive {
    /// What is recorded: a target of that name, as the engine knows its servers.
    pub fn target(name: &str, engine: &Engine) -> Target {
        let product = |node: &NodeStatus| {
            let product = node.facts.product.known()?;
            Some(format!("{} {} at {}", product.flavor.name(), product.version, node.name))
        };
        let servers: Vec<String> = engine.nodes().filter_map(product).collect();
        Target { name: name.to_string(), server: servers.join(", ") }
    }

    /// Opens the file to record into. It may wait for the disk.
    pub fn open(path: &Path, target: &Target, address: &str) -> Result<Archive, Fault> {
        let recorder = Recorder::open(path, target, Keep::default())?;
        let address = address.into();
        Ok(Archive { recorder, next: 0, moments: 0, address, actions: 0, reading: None, trouble: None })
    }

    pub fn path(&self) -> &Path {
        self.recorder.path()
    }

    /// What is wrong with the store, as far as it was said.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Adds how recording goes.
    pub fn add(&self, moment: &mut Moment) {
        let status = self.recorder.status();
        moment.push(SIZE, &[], status.size as f64);
        if let Some(at) = status.last_write {
            moment.push(LAST_WRITE, &[], at.0 as f64 / 1_000.0);
        }
        moment.push(ERRORS, &[], status.errors as f64);
    }

    /// Writes a moment, and what happened since the last one. Returns what is wrong with the store, when that changed.
    pub fn write(&mut self, engine: &Engine, moment: Moment, changes: &[AlertChange]) -> Option<String> {
        self.recorder.moment(moment);
        changes.iter().for_each(|change| self.recorder.alert(change));
        let timeline = engine.table().timeline();
        timeline.from(self.next).for_each(|(_, entry)| self.recorder.notable(entry));
        self.next = timeline.end();
        if self.reading.as_ref().is_some_and(JoinHandle::is_finished) {
            self.write_actions();
        } else if self.reading.is_none() && self.moments.is_multiple_of(AUDIT) {
            self.reading = read_audit();
        }
        self.moments += 1;
        let trouble = self.recorder.status().trouble;
        if trouble == self.trouble {
            return None;
        }
        self.trouble = trouble;
        Some(self.trouble.clone().unwrap_or_else(|| "the store is written again".into()))
    }

    /// Writes what was read of the audit file. Waits until it is.
    fn write_actions(&mut self) {
        let Some(Ok(entries)) = self.reading.take().map(JoinHandle::join) else { return };
        let ours = |entry: &&Value| entry.get("target").and_then(Value::as_str) == Some(&self.address);
        for entry in entries.iter().skip(self.actions).filter(ours) {
            if let Some(at) = entry.get("at").and_then(Value::as_str).and_then(Time::of_rfc3339) {
                self.recorder.action(at, entry);
            }
        }
        self.actions = entries.len();
    }

    /// Writes what was done up to now, and ends the run. Waits for the disk.
    pub fn close(mut self) -> Result<Status, Fault> {
        self.write_actions();
        self.reading = read_audit();
        self.write_actions();
        self.recorder.close()
    }
}

fn read_audit() -> Option<JoinHandle<Vec<Value>>> {
    // A file that can't be read is reported by the commands that are about it.
    let read =
        || audit::state_directory().and_then(|directory| audit::read(&directory)).map_or(Vec::new(), |read| read.0);
    std::thread::Builder::new().name("audit".into()).spawn(read).ok()
}
