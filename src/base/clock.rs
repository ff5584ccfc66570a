//! The one clock: wall time that never runs backwards.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::base::time::Time;

/// Reads the wall clock once, then adds what the monotonic clock counts.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch_ms: i64,
    began: Instant,
}

impl Clock {
    pub fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { epoch_ms: since_epoch.as_millis() as i64, began: Instant::now() }
    }

    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// A moment since the start, as a time.
    pub fn at(&self, moment: Instant) -> Time {
        Time(self.epoch_ms + moment.saturating_duration_since(self.began).as_millis() as i64)
    }
}
