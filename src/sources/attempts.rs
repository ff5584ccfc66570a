//! Attempts to take locks, where something on the server counts them: our scripts keep a hash ([`Counts`]), or a library
//! publishes its outcomes ([`Changelog`]). Where neither exists, [`idle`] reads when a key was last used: the
//! only trace of waiters that poll. `sampling` samples attempts with MONITOR.

mod changelog;
mod counted;
mod counter_rate;
mod idle;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use crate::lock::Key;
use crate::model::Tries;

pub use changelog::Changelog;
pub use counted::Counts;
pub use idle::{Idle, idle};

/// What was asked, as far as it is known.
type Rates = Vec<(Key, Tries)>;

/// Count at most this many locks.
const MOST: usize = 4_096;

/// Whether there is room to count `key`. Those that are not fresh make room.
fn has_room<K, Q, T>(counted: &mut HashMap<K, T>, key: &Q, is_fresh: impl Fn(&T) -> bool) -> bool
where
    K: Borrow<Q> + Eq + Hash,
    Q: Eq + Hash + ?Sized,
{
    if counted.len() >= MOST && !counted.contains_key(key) {
        counted.retain(|_, one| is_fresh(one));
    }
    counted.len() < MOST || counted.contains_key(key)
}
