//! Which locks got worse or better in the last seconds, read from the timeline: pure.
//!
//! A lock that got worse rises at the next sort. One that got better or was freed keeps its place for a moment
//! ([`STAYS`]), dimmed and with what it was, so that an operator sees what became of it; then it leaves.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::app::LockId;
use crate::base::time::Time;
use crate::model::{Act, LockRef, LockView, Severity, State, Table, Timeline, What};

/// A change is marked for so long.
const MARKED: Duration = Duration::from_secs(10);
/// A lock that got better, or is free, keeps its place for so long, and so long after a key.
pub(super) const STAYS: Duration = Duration::from_secs(5);
/// At most so many changes are marked at once.
const MOST: usize = 1_000;

/// What a lock was, and until when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Was {
    pub state: State,
    pub until: Time,
}

impl Was {
    /// Whether the lock is better now.
    pub fn is_worse_than(self, lock: &LockView) -> bool {
        self.state < lock.verdict.state
    }
}

#[derive(Default)]
pub struct Changes {
    /// The first entry of the timeline that was not read.
    unread: u64,
    recent: BTreeMap<LockId, Was>,
}

impl Changes {
    pub(super) fn read(&mut self, timeline: &Timeline, now: Time) {
        for (_, entry) in timeline.from(self.unread) {
            let Some(key) = &entry.key else { continue };
            let from = match &entry.what {
                What::State { from, .. } => *from,
                What::Wrote { from, write } if matches!(write.act, Act::Free { .. }) => *from,
                _ => continue,
            };
            let id = LockId { space: entry.space, key: key.clone() };
            self.recent.insert(id, Was { state: from, until: entry.at });
        }
        self.unread = timeline.end();
        self.recent.retain(|_, was| now.since(was.until) < MARKED);
        while self.recent.len() > MOST {
            self.recent.pop_last();
        }
    }

    /// What the lock was, if it changed in the last seconds and is not the same again.
    pub fn of(&self, lock: &LockView, now: Time) -> Option<Was> {
        let was = *self.recent.get(&LockId::of(lock))?;
        (was.state != lock.verdict.state && now.since(was.until) < MARKED).then_some(was)
    }

    /// The locks that keep their place although they are better, with what they were.
    pub(super) fn staying(&self, table: &Table, now: Time) -> BTreeMap<LockRef, Severity> {
        let recent = self.recent.iter().filter(|(_, was)| now.since(was.until) < STAYS);
        let place = |(id, was): (&LockId, &Was)| {
            let place = table.place_named(id.space, id.key.as_bytes())?;
            let is_better = was.state < table.state(table.lock_at(place)?, now);
            is_better.then_some((place, Severity::new(was.state, false)))
        };
        recent.filter_map(place).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }
}
