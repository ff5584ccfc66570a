//! One lock, and how to find out who wants it: where its waiters can be counted, and whether its library publishes
//! attempts. Pure. `waiters` and `attempts` take batches of these.

use super::waiters::Queue;
use crate::base::time::Time;
use crate::dialects::{self, DialectId, Sight, Strength, Waiting};
use crate::lock::{Key, Kind};
use crate::model::Lock;

/// Ask about at most this many locks at once: all other clients wait while a call runs.
pub const BATCH: usize = 200;

/// One lock, and how to find out who wants it.
#[derive(Clone, PartialEq, Debug)]
pub struct LockQuery {
    pub key: Key,
    /// `None` where waiters can't be counted.
    pub(super) waits: Option<Place>,
    /// Its waiters are blocked on a list.
    pub(super) blocks: bool,
    /// Its library publishes attempts in a changelog.
    pub(super) publishes: bool,
}

/// Where waiters can be counted.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Place {
    pub channel: Vec<u8>,
    pub queue: Option<Queue>,
}

impl LockQuery {
    /// `None` where nobody can want it: a marker, or a lock that nobody holds.
    pub fn new(lock: &Lock, now: Time) -> Option<LockQuery> {
        let reading = lock.reading().filter(|reading| reading.kind == Kind::Lock && !reading.vacant)?;
        let (waits, blocks) = place(reading.dialect, reading.strength, &lock.sight(now));
        let publishes = dialects::dialect(reading.dialect).publishes_attempts();
        Some(LockQuery { key: lock.key.clone(), waits, blocks, publishes })
    }

    /// Whether the server shows who waits for it.
    pub fn counts_waiters(&self) -> bool {
        self.waits.is_some() || self.blocks
    }
}

/// Where its waiters are counted, and whether they are blocked on a list. Neither where nothing on the server shows who
/// waits, or the library is a guess.
fn place(id: DialectId, strength: Strength, sight: &Sight<'_>) -> (Option<Place>, bool) {
    let dialect = dialects::dialect(id);
    if strength < Strength::Sure || !dialect.shows_waiters() {
        return (None, false);
    }
    match dialect.waiting(sight) {
        Waiting::Channel(channel) => (Some(Place { channel, queue: None }), false),
        Waiting::Queue { channel, list, deadlines, channel_prefix } => {
            (Some(Place { channel, queue: Some(Queue { list, deadlines, channel_prefix }) }), false)
        }
        Waiting::BlockedOn(_) => (None, true),
        _ => (None, false),
    }
}
