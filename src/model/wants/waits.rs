//! How many wait for a lock, as it was last counted.

use serde::{Deserialize, Serialize};

use crate::base::text::short_duration;
use crate::base::time::Time;

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WaitsAt {
    /// Subscribers of the channel on which the library wakes its waiters.
    Channel,
    /// Entries of the lock's own queue.
    Queue,
    /// Clients blocked on any list of the database: at most this many wait for this lock.
    Blocked,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Waits {
    pub count: u32,
    pub at: WaitsAt,
    /// There may be more of them, on other nodes or in a queue that may not be read.
    pub at_least: bool,
    /// How many of the first waiters in a queue can't receive their wake-up, and so block the others; `None` if there
    /// is no queue, or if it is unknown.
    pub dead_heads: Option<u32>,
    pub counted: Time,
}

impl Waits {
    /// An older count says nothing about the present.
    const FRESH_MS: u64 = 15_000;

    pub fn is_fresh(&self, now: Time) -> bool {
        now.ms_since(self.counted) <= Self::FRESH_MS
    }

    /// No more than these wait, and perhaps nobody.
    pub fn is_at_most(&self) -> bool {
        self.at == WaitsAt::Blocked && self.count > 0
    }

    /// The word of the JSON contract.
    pub fn source(&self) -> &'static str {
        match self.at {
            WaitsAt::Channel => "subscribers",
            WaitsAt::Queue => "queue",
            WaitsAt::Blocked => "blocked-clients",
        }
    }

    /// As a sentence with its numbers.
    pub fn sentence(&self, now: Time) -> String {
        let least = if self.at_least { "at least " } else { "" };
        let who = match (self.at, self.count) {
            (WaitsAt::Channel, 1) => format!("{least}1 process is subscribed to its channel"),
            (WaitsAt::Channel, count) => format!("{least}{count} processes are subscribed to its channel"),
            (WaitsAt::Blocked, 1) => {
                "at most 1 waits: 1 client is blocked on a list; the server does not say on which, so each lock with such waiters counts it".into()
            }
            (WaitsAt::Blocked, count) => {
                format!(
                    "at most {count} wait: that many clients are blocked on lists; the server does not say on which, so each lock with such waiters counts them all"
                )
            }
            (WaitsAt::Queue, 1) => format!("{least}1 waiter is in its queue"),
            (WaitsAt::Queue, count) => format!("{least}{count} waiters are in its queue"),
        };
        match now.since(self.counted).as_millis() as u64 {
            0..4_000 => who,
            ago => format!("{who}, {} ago", short_duration(ago)),
        }
    }
}
