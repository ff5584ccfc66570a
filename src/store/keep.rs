//! How long the store keeps what, and how large its file may become.

use std::time::Duration;

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// What is older goes to the next coarser step, and after the last one away. Beyond the size limit the oldest go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// Every second.
    pub seconds: Duration,
    /// Of every ten seconds the last and the largest value.
    pub ten_seconds: Duration,
    /// Of every minute the last and the largest value.
    pub minutes: Duration,
    /// Of the file, in bytes.
    pub size_limit: u64,
}

impl Default for Keep {
    fn default() -> Keep {
        Keep {
            seconds: Duration::from_secs(48 * HOUR),
            ten_seconds: Duration::from_secs(14 * DAY),
            minutes: Duration::from_secs(90 * DAY),
            size_limit: 2 << 30,
        }
    }
}
