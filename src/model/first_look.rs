//! What a first look shows of the time before it: the server knows for how long nobody had used a key.
//!
//! Taking, renewing and trying to take a lock all use its key. So it was held all that time, and the lease is at least what
//! was left then. While a child of the server runs (BGSAVE, a rewrite of the AOF), it leaves that clock alone: what was
//! renewed meanwhile looks unused.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::time::Time;
use crate::lock::{Key, NodeId};
use crate::model::table::Table;
use crate::model::{HeldIs, Lock};

/// When children of a server ran, as of `at`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Children {
    pub at: Time,
    /// One runs.
    pub running: bool,
    /// When the last snapshot ended; `None`: there was none since the server started.
    pub ended: Option<Time>,
    /// For how long the others ran: the server does not say when.
    pub undated: Duration,
}

/// The server's clock for uses has whole seconds and is updated ten times a second.
const GRAIN: Duration = Duration::from_millis(1_100);

impl Children {
    /// How long a key was certainly not renewed, if the server reported it as unused for `idle` at `asked`; `None` if that is
    /// not known.
    fn trust(&self, idle: Duration, asked: Time) -> Option<Duration> {
        let overlaps = self.ended.is_some_and(|ended| ended + GRAIN >= asked - idle);
        // A child that we have not heard of may have run since.
        let unheard = asked.since(self.at);
        let certain = idle.checked_sub(GRAIN.saturating_add(self.undated).saturating_add(unheard))?;
        (!self.running && !overlaps).then_some(certain)
    }
}

impl Table {
    /// Records how long a key had not been used before our first look at it.
    pub(in crate::model) fn take_unused(&mut self, node: NodeId, key: &Key, asked: Time, idle: Duration) {
        let quiet = self.known(node).and_then(|node| node.children).and_then(|children| children.trust(idle, asked));
        let Some(place) = self.place_named(self.space(node), key.as_bytes()) else { return };
        let is_first = |lock: &&mut Lock| lock.is_held() && lock.first_seen == asked && lock.asked == asked;
        let Some(lock) = self.at(place).filter(is_first).filter(|lock| !lock.value.is_shared()) else { return };
        // Creating the key sets this clock too, even while a child runs.
        if lock.since_is == HeldIs::AtLeast {
            lock.since = lock.since.min(asked - idle.saturating_sub(GRAIN));
        }
        lock.was_quiet(quiet);
    }
}

impl Lock {
    /// It was not renewed for this long before it was read, so its lease is longer by as much.
    fn was_quiet(&mut self, quiet: Option<Duration>) {
        let (Some(expires), Some(quiet)) = (self.expires(), quiet) else { return };
        // A lease in the value is more exact, and the end of a single holder is not the end of the key.
        let known = match self.lease() {
            None => 0,
            Some((ms, HeldIs::AtLeast)) => ms,
            Some(_) => return,
        };
        let least = expires.since(self.confirmed).saturating_add(quiet).as_millis() as u64;
        if self.own_ends.is_none() {
            self.set_lease(Some((least.max(known), HeldIs::AtLeast)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const NOW: Time = Time(1_000_000);

    fn trusted(children: Children) -> Option<u64> {
        children.trust(30 * S, NOW).map(|certain| certain.as_millis() as u64)
    }

    #[test]
    fn an_idle_time_is_worth_what_no_child_can_have_hidden() {
        let none = Children { at: NOW, running: false, ended: None, undated: Duration::ZERO };
        assert_eq!(trusted(none), Some(28_900), "the server counts whole seconds");
        assert_eq!(trusted(Children { running: true, ..none }), None);
        assert_eq!(trusted(Children { ended: Some(NOW - 20 * S), ..none }), None, "it ran within that time");
        assert_eq!(trusted(Children { ended: Some(NOW - 40 * S), ..none }), Some(28_900));
        assert_eq!(trusted(Children { undated: 10 * S, ..none }), Some(18_900), "it may have run then");
        assert_eq!(trusted(Children { at: NOW - 5 * S, ..none }), Some(23_900), "one may have run since");
        assert_eq!(trusted(Children { undated: 40 * S, ..none }), None);
        assert_eq!(trusted(Children { undated: Duration::MAX, ..none }), None);
    }
}
