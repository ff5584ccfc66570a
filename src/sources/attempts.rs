//! Attempts to take locks, where something on the server counts them: our scripts keep a hash ([`Counts`]), or a library
//! publishes its outcomes ([`Changelog`]). Where neither exists, [`idle`] reads when a key was last used: the
//! only trace of waiters that poll. `sampling` samples attempts with MONITOR.

mod changelog;
mod counted;
mod counter_rate;
mod idle;

use std::collections::HashMap;
use std::hash::Hash;

use redis::RedisResult;

use crate::lock::Key;
use crate::model::Tries;

pub use changelog::Changelog;
pub use counted::Counts;
pub use idle::{Idle, idle};

/// The rates of locks. An error means that the connection is lost.
type Rates = RedisResult<Vec<(Key, Tries)>>;

/// Count at most this many locks.
const MOST: usize = 4_096;

/// Whether there is room to count `key`. Those that are not fresh make room.
fn has_room<K: Eq + Hash, T>(counted: &mut HashMap<K, T>, key: &K, is_fresh: impl Fn(&T) -> bool) -> bool {
    if counted.len() >= MOST && !counted.contains_key(key) {
        counted.retain(|_, one| is_fresh(one));
    }
    counted.len() < MOST || counted.contains_key(key)
}
