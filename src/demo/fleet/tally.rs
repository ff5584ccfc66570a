//! The workers' own counts for each lock: the truth to compare with what was seen from outside.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts of one lock. Every attempt ends as `acquired` or `refused`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub attempts: u64,
    pub refused: u64,
    pub acquired: u64,
    pub renewed: u64,
    pub released: u64,
    /// Its holder crashed, stalled or left, and the lease ended.
    pub expired: u64,
    /// Its holder came back and found it gone, or held by somebody else.
    pub lost: u64,
    /// Overwritten while another held it.
    pub seized: u64,
}

/// The counts that all workers share.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    tallies: BTreeMap<String, Tally>,
    failures: VecDeque<String>,
}

/// The number of failures kept; the oldest are dropped.
const FAILURES: usize = 16;
/// Many locks have a name of their own, and a demo may run for a day.
const KEYS: usize = 20_000;

impl Ledger {
    pub fn count(&self, key: &str, change: impl FnOnce(&mut Tally)) {
        let mut book = self.book();
        if let Some(tally) = book.tallies.get_mut(key) {
            change(tally);
        } else if book.tallies.len() < KEYS {
            change(book.tallies.entry(key.to_string()).or_default());
        }
    }

    pub fn failed(&self, who: &str, why: &impl std::fmt::Display) {
        let mut book = self.book();
        if book.failures.len() == FAILURES {
            book.failures.pop_front();
        }
        book.failures.push_back(format!("{who}: {why}"));
    }

    pub fn tallies(&self) -> BTreeMap<String, Tally> {
        self.book().tallies.clone()
    }

    pub fn failures(&self) -> Vec<String> {
        self.book().failures.iter().cloned().collect()
    }

    /// A count is never half updated, so it stays valid after a panic elsewhere.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
