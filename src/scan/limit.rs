//! Ends a walk on a server whose SCAN never returns to cursor 0.
//!
//! A walk visits each key about once, and skips empty slots of the server's hash table, up to ten for each key of COUNT. So
//! the sum of COUNT stays below the number of keys plus a tenth of the table's size. Where many keys were deleted, the table
//! can be far larger than the number of keys; both limits leave room for that.

use std::fmt;
use std::sync::OnceLock;

use redis::{RedisResult, cmd};

use crate::topology::ServerConnection;

/// Every walk may cover this many keys, by COUNT: enough for the empty table of a server that once had 100 million keys.
const ALWAYS: u64 = 1 << 24;
/// Beyond that, a walk may cover this many times the number of keys.
const TIMES: u64 = 8;
/// No server has more keys than this, whatever DBSIZE says.
const MOST_KEYS: u64 = 10_000_000_000;
/// A cursor that returns this often in one walk will return forever.
const ROUNDS: u32 = 8;

/// Why a walk has not seen everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shortfall {
    /// SCAN did not end after this many keys, by COUNT.
    Endless { walked: u64, keys: Option<u64> },
    /// SCAN returned to the same cursor again and again.
    Circling { cursor: u64 },
    /// Keys that could not be read.
    Unseen { keys: u64, why: String },
    /// Keys that this user may not read.
    Denied { keys: u64 },
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortfall::Endless { walked, keys: Some(keys) } => {
                write!(f, "SCAN did not end after {walked} keys, though DBSIZE says {keys}; the scan was stopped")
            }
            Shortfall::Endless { walked, keys: None } => {
                write!(f, "SCAN did not end after {walked} keys; the scan was stopped")
            }
            Shortfall::Circling { cursor } => {
                write!(f, "SCAN goes round in circles: cursor {cursor} came again and again; the scan was stopped")
            }
            Shortfall::Denied { keys } => {
                let things = if *keys == 1 { "key" } else { "keys" };
                write!(f, "{keys} {things} could not be read by this user; 'lockscope doctor' says what is missing")
            }
            Shortfall::Unseen { keys: 1, why } => write!(f, "1 key could not be looked at: {why}"),
            Shortfall::Unseen { keys, why } => write!(f, "{keys} keys could not be looked at: {why}"),
        }
    }
}

/// The limit of one walk, in all of its ranges.
#[derive(Debug, Default)]
pub(super) struct Limit {
    exceeded: OnceLock<Shortfall>,
}

impl Limit {
    pub fn exceeded(&self) -> Option<&Shortfall> {
        self.exceeded.get()
    }

    /// Whether the walk continues. Only long walks ask for the number of keys.
    pub async fn permits(&self, course: &mut Course, walked: u64, conn: &mut ServerConnection) -> RedisResult<bool> {
        if course.circles() {
            let _ = self.exceeded.set(Shortfall::Circling { cursor: course.kept });
        } else if walked > course.may_walk.max(ALWAYS) {
            // Ask each time: there may be more keys by now.
            let keys = match cmd("DBSIZE").query_async::<u64>(conn).await {
                Ok(keys) => Some(keys.min(MOST_KEYS)),
                Err(error) if error.code().is_some() => None,
                Err(error) => return Err(error),
            };
            course.may_walk = keys.unwrap_or(MOST_KEYS).saturating_mul(TIMES).max(ALWAYS);
            if walked > course.may_walk {
                let _ = self.exceeded.set(Shortfall::Endless { walked, keys });
            }
        }
        Ok(self.exceeded.get().is_none())
    }
}

/// Detects a cycle of cursors in one range (Brent's algorithm): one cursor is kept and compared with those that follow, and
/// replaced after twice as many steps each time.
#[derive(Debug, Default)]
pub(super) struct Course {
    kept: u64,
    rounds: u32,
    steps: u64,
    keep_at: u64,
    /// How far the walk may go before we ask for the number of keys again.
    may_walk: u64,
}

impl Course {
    pub fn take(&mut self, cursor: u64) {
        self.steps += 1;
        if cursor == self.kept && cursor != 0 {
            self.rounds += 1;
        } else if self.steps >= self.keep_at {
            (self.kept, self.rounds, self.keep_at) = (cursor, 0, self.steps * 2);
        }
    }

    fn circles(&self) -> bool {
        self.rounds >= ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps_until_circling(cursors: impl Iterator<Item = u64>) -> Option<usize> {
        let mut course = Course::default();
        cursors.take(100_000).position(|cursor| {
            course.take(cursor);
            course.circles()
        })
    }

    #[test]
    fn circles_of_any_length_are_noticed_and_nothing_else_is() {
        assert!(steps_until_circling(std::iter::repeat(7)).unwrap() < 20);
        for length in [2, 3, 100, 1_000] {
            let found = steps_until_circling((1..=length).cycle());
            assert!(found.unwrap() < 40 * length as usize, "{length}: {found:?}");
        }
        // A path into the circle that is not part of it.
        assert!(steps_until_circling((1..5_000).chain((5_000..5_010).cycle())).is_some());
        assert_eq!(steps_until_circling(1..), None);
        assert_eq!(steps_until_circling((1u64 << 50..).map(u64::reverse_bits)), None);
    }
}
