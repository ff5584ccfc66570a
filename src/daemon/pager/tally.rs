//! What became of the notifications of one receiver: counted, and told when it changes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::Sender;

/// What became of one notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Sent,
    Retried,
    Failed,
    Dropped,
}

impl Outcome {
    pub const ALL: [Outcome; 4] = [Outcome::Sent, Outcome::Retried, Outcome::Failed, Outcome::Dropped];

    pub fn name(self) -> &'static str {
        match self {
            Outcome::Sent => "sent",
            Outcome::Retried => "retried",
            Outcome::Failed => "failed",
            Outcome::Dropped => "dropped",
        }
    }
}

/// The numbers of one receiver, shared by the task that sends and the loop that tells.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The receiver's name, without secrets.
    pub receiver: Arc<str>,
    counts: Arc<[AtomicU64; 4]>,
    /// What was said last; the same is not said twice.
    said: Arc<Mutex<Option<String>>>,
    sentences: Sender<String>,
}

impl Tally {
    pub fn new(receiver: &str, sentences: Sender<String>) -> Tally {
        Tally { receiver: receiver.into(), counts: Arc::default(), said: Arc::default(), sentences }
    }

    pub fn count(&self, outcome: Outcome, by: u64) {
        self.counts[outcome as usize].fetch_add(by, Ordering::Relaxed);
    }

    pub fn of(&self, outcome: Outcome) -> u64 {
        self.counts[outcome as usize].load(Ordering::Relaxed)
    }

    /// Says what is wrong, unless that was the last thing said.
    pub fn say(&self, why: String) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.as_ref() != Some(&why) {
            // A full channel has the loop busy with others.
            let _ = self.sentences.try_send(format!("pager {}: {why}", self.receiver));
            *said = Some(why);
        }
    }

    /// Says that all is well, if something was wrong.
    pub fn well(&self, how: &str) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.take().is_some() {
            let _ = self.sentences.try_send(format!("pager {}: {how}", self.receiver));
        }
    }
}
