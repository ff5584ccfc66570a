//! Passes transitions to any number of readers: each gets all of them, and none takes from another.
//!
//! All readers share one bounded log. An entry is removed when every reader has read it, or when the log is full: a
//! reader that was too slow learns how many transitions it missed. One reader gets moved entries, several get copies.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::model::{Snapshot, Transition};

/// One reader of an engine. It may live in its own task, and may be dropped at any time.
pub struct Reader {
    id: u64,
    log: Arc<Mutex<Log>>,
    changed: watch::Receiver<()>,
    snapshots: watch::Receiver<Option<Arc<Snapshot>>>,
    wanted: Arc<Notify>,
}

impl Reader {
    /// The transitions since the last call, oldest first, and how many were missed before the first of them.
    pub fn take(&mut self) -> (Vec<Transition>, u64) {
        locked(&self.log).take(self.id)
    }

    /// Waits until something may have changed since the last wait; `false` when the engine is gone.
    pub async fn changed(&mut self) -> bool {
        self.changed.changed().await.is_ok()
    }

    /// Requests a snapshot, and shares it with all who ask meanwhile; `None` when the engine is gone. The task that
    /// drives the engine must not call this: only its turns answer it.
    pub async fn snapshot(&mut self) -> Option<Arc<Snapshot>> {
        self.snapshots.mark_unchanged();
        self.wanted.notify_one();
        self.snapshots.changed().await.ok()?;
        self.snapshots.borrow_and_update().clone()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        locked(&self.log).leave(self.id);
    }
}

/// The engine's side of its readers.
pub(super) struct Readers {
    log: Arc<Mutex<Log>>,
    changed: watch::Sender<()>,
    snapshots: watch::Sender<Option<Arc<Snapshot>>>,
    wanted: Arc<Notify>,
}

impl Readers {
    /// Keeps `most` transitions for readers that have not read them yet.
    pub fn new(most: usize) -> Readers {
        Readers {
            log: Arc::new(Mutex::new(Log { most, ..Log::default() })),
            changed: watch::Sender::new(()),
            snapshots: watch::Sender::new(None),
            wanted: Arc::default(),
        }
    }

    /// A new reader of everything that happens from now on.
    pub fn add(&self) -> Reader {
        Reader {
            id: locked(&self.log).join(),
            log: self.log.clone(),
            changed: self.changed.subscribe(),
            snapshots: self.snapshots.subscribe(),
            wanted: self.wanted.clone(),
        }
    }

    /// Appends the transitions, after `lost` others that were only counted.
    pub fn tell(&self, transitions: Vec<Transition>, lost: u64) {
        if !transitions.is_empty() || lost > 0 {
            locked(&self.log).push(transitions, lost);
        }
    }

    /// Wakes the readers that wait for changes.
    pub fn wake(&self) {
        self.changed.send_replace(());
    }

    /// Resolves when somebody wants a snapshot.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    pub fn publish(&self, snapshot: Snapshot) {
        self.snapshots.send_replace(Some(Arc::new(snapshot)));
    }
}

fn locked(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Transitions by number, from the first that some reader has not read.
#[derive(Default)]
struct Log {
    most: usize,
    /// The number of the first entry.
    first: u64,
    entries: VecDeque<Transition>,
    /// The number of the entry that each reader reads next.
    next: BTreeMap<u64, u64>,
    last_id: u64,
}

impl Log {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn join(&mut self) -> u64 {
        self.last_id += 1;
        self.next.insert(self.last_id, self.end());
        self.last_id
    }

    fn leave(&mut self, id: u64) {
        self.next.remove(&id);
        // Drop what every other reader has read.
        let until = self.next.values().copied().min().unwrap_or(self.end());
        self.forget_until(until);
    }

    fn push(&mut self, transitions: Vec<Transition>, lost: u64) {
        if lost > 0 {
            // Entries before the gap must go, or readers could not see the gap.
            self.first = self.end() + lost;
            self.entries.clear();
        }
        if self.next.is_empty() {
            self.first += transitions.len() as u64;
            return;
        }
        self.entries.extend(transitions);
        let over = self.entries.len().saturating_sub(self.most);
        self.entries.drain(..over);
        self.first += over as u64;
    }

    fn take(&mut self, id: u64) -> (Vec<Transition>, u64) {
        let end = self.end();
        let Some(next) = self.next.insert(id, end) else { return (Vec::new(), 0) };
        let (missed, unread) = (self.first.saturating_sub(next), next.max(self.first));
        let others = self.next.values().copied().min().unwrap_or(end);
        self.forget_until(others.min(unread));
        // No other reader needs these, so move them out. Copy the rest.
        let alone = others.saturating_sub(self.first);
        let mut taken: Vec<Transition> = self.entries.drain(..alone as usize).collect();
        self.first += alone;
        let shared = unread.saturating_sub(self.first) as usize;
        taken.extend(self.entries.range(shared..).cloned());
        (taken, missed)
    }

    fn forget_until(&mut self, until: u64) {
        let done = until.clamp(self.first, self.end()) - self.first;
        self.entries.drain(..done as usize);
        self.first += done;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Time;
    use crate::lock::{Key, KeyspaceId, NodeId};
    use crate::model::{Change, Source};

    fn change(number: i64) -> Transition {
        let (key, source) = (Key::from("k"), Source::Scan);
        let (space, node, change) = (KeyspaceId::FIRST, NodeId(0), Change::Found);
        Transition { at: Time(number), space, node, key, change, holder: None, previous: None, proven: false, source }
    }

    fn numbers(reader: &mut Reader) -> (Vec<i64>, u64) {
        let (taken, missed) = reader.take();
        (taken.iter().map(|change| change.at.0).collect(), missed)
    }

    #[test]
    fn each_reader_gets_everything_and_a_slow_one_is_told_what_it_missed() {
        let readers = Readers::new(4);
        readers.tell(vec![change(0)], 0);
        let (mut quick, mut slow) = (readers.add(), readers.add());
        readers.tell((1..=3).map(change).collect(), 0);
        assert_eq!(numbers(&mut quick), (vec![1, 2, 3], 0));
        readers.tell((4..=6).map(change).collect(), 0);
        let mut late = readers.add();
        assert_eq!(numbers(&mut quick), (vec![4, 5, 6], 0));
        assert_eq!(numbers(&mut slow), (vec![3, 4, 5, 6], 2), "four are kept");
        assert_eq!(numbers(&mut late), (vec![], 0), "it came after them");
        readers.tell(vec![change(9)], 2);
        assert_eq!((numbers(&mut quick), numbers(&mut slow)), ((vec![9], 2), (vec![9], 2)));
        assert_eq!(numbers(&mut late), (vec![9], 2));
        assert!(locked(&readers.log).entries.is_empty(), "all have read it");
    }

    #[test]
    fn nothing_is_kept_for_a_reader_that_left() {
        let readers = Readers::new(4);
        let (mut stays, leaves) = (readers.add(), readers.add());
        readers.tell(vec![change(1), change(2)], 0);
        assert_eq!(numbers(&mut stays).0, [1, 2]);
        assert_eq!(locked(&readers.log).entries.len(), 2);
        drop(leaves);
        assert!(locked(&readers.log).entries.is_empty());
        readers.tell(vec![change(3)], 0);
        assert_eq!(numbers(&mut stays), (vec![3], 0));
        drop(stays);
        readers.tell(vec![change(4)], 0);
        assert!(locked(&readers.log).entries.is_empty(), "nobody reads");
    }
}
