//! lockscope's side of a sequence: the one place where the models touch its interface.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lockscope::actions::{Context, Freeing, Gate, Journal, Performed, Plan, Refusal, perform, plan};
use lockscope::model::LockView;
use serde_json::Value;

use crate::common::Server;
use crate::common::acting::Acting;
use crate::common::process::scratch;

pub struct Operator {
    acting: Acting,
    /// Of the audit file, what has been read.
    place: PathBuf,
}

impl Operator {
    pub async fn on(server: &Server, number: usize) -> Operator {
        let place = records(number);
        let acting = Acting::on(server).await;
        let journal = Journal::open_in(&place).expect("a place for the records");
        Operator { acting: Acting { journal, place: place.clone(), ..acting }, place }
    }

    pub async fn see(&self, key: &[u8], told: Option<&str>) -> Option<LockView> {
        self.acting.see(key, told).await
    }

    pub fn free(&self, lock: &LockView, holder: Option<&[u8]>) -> Result<Plan, Refusal> {
        let asked = Freeing { holder, dead_waiters: &[], force: true };
        plan::free(lock, asked, self.acting.clock.now())
    }

    /// One permit back to a semaphore that counts them.
    pub fn give_back(&self, lock: &LockView) -> Result<Plan, Refusal> {
        plan::give_back(lock, 1, self.acting.clock.now())
    }

    pub fn extend(&self, lock: &LockView, holder: Option<&[u8]>, by: Duration) -> Result<Plan, Refusal> {
        plan::extend(lock, holder, by, self.acting.clock.now())
    }

    /// `unwatched`: the operator consents although nobody watched the lock since it was freed; without that the command
    /// refuses.
    pub async fn undo(&self, id: &str, unwatched: bool) -> Result<Plan, String> {
        if !unwatched {
            return Err("nobody watched it since".into());
        }
        let kept = self.acting.journal.kept(id).map_err(|why| why.to_string())?;
        let kept = kept.ok_or("nothing is kept")?;
        kept.plan(self.acting.clock.now()).map_err(|why| why.to_string())
    }

    pub async fn perform(&mut self, plan: &Plan) -> Performed {
        self.acting.perform(plan).await
    }

    /// The record of a release as it would be if lockscope had ended before the answer came.
    pub fn forget_the_answer(&self, id: &str) -> Result<(), String> {
        let path = self.place.join("undo").join(format!("{id}.json"));
        let text = std::fs::read_to_string(&path).map_err(|why| why.to_string())?;
        let mut record: Value = serde_json::from_str(&text).map_err(|why| why.to_string())?;
        if record["state"] != "confirmed" {
            return Err(format!("the record of a release that was done says {}", record["state"]));
        }
        record["state"] = "begun".into();
        std::fs::write(&path, record.to_string()).map_err(|why| why.to_string())
    }

    /// Every action that was begun has an end on record. Empties the records for the next sequence.
    pub fn close_the_books(&mut self) -> Result<(), String> {
        let audit = self.place.join("audit.jsonl");
        let text = std::fs::read_to_string(&audit).map_err(|why| format!("the audit file: {why}"))?;
        let entries: Vec<Value> =
            text.lines().map(serde_json::from_str).collect::<Result<_, _>>().map_err(|why| why.to_string())?;
        let of = |phase: &'static str| entries.iter().filter(move |entry| entry["phase"] == phase);
        let open = of("intent").find(|begun| !of("outcome").any(|end| end["id"] == begun["id"]));
        if let Some(open) = open {
            return Err(format!("the audit file has no end of {open}"));
        }
        // It is open for appending: what comes next begins at the start again.
        let file = std::fs::OpenOptions::new().write(true).open(&audit).and_then(|file| file.set_len(0));
        file.map_err(|why| format!("the audit file: {why}"))?;
        let kept = std::fs::read_dir(self.place.join("undo")).into_iter().flatten().flatten();
        kept.for_each(|entry| {
            let _ = std::fs::remove_file(entry.path());
        });
        Ok(())
    }
}

/// In memory where there is such a place: each line of the audit file waits for the disk.
fn records(number: usize) -> PathBuf {
    // Tests of one process do not share records.
    static PLACES: AtomicUsize = AtomicUsize::new(0);
    let unique = PLACES.fetch_add(1, Ordering::Relaxed);
    let memory = PathBuf::from("/dev/shm");
    let name = format!("lockscope-sequences-{}-{number}-{unique}", std::process::id());
    let place = memory.join(&name);
    match std::fs::create_dir_all(&place) {
        Ok(()) => place,
        Err(_) => scratch(&name),
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.place);
    }
}
