//! Where the library of a lock is a guess: what the other libraries that it may be of need when it is freed.
//!
//! Only what is harmless to all the others: a message on a channel of their own, or an item for a moment in a list of
//! their own. Pure.

use super::LockView;
use crate::dialects::{Claim, Dialect, Sight, Step, Waiting, all};

/// The wake-ups of all libraries that the lock may be of, beside the one that it reads as.
pub fn wakes(lock: &LockView) -> Vec<Step> {
    let sight = untold(lock);
    let mut steps: Vec<Step> = Vec::new();
    for step in others(lock).flat_map(|dialect| dialect.release(&sight).steps) {
        let wanted = match step {
            Step::Publish { .. } => true,
            // The item would lie about where nobody can be waiting for it.
            Step::Signal { .. } => lock.proof.blocked == Some(true),
            _ => false,
        };
        if wanted && !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

/// Whether waiters of the lock may be blocked on a list, by a library that it may be of.
pub fn may_be_popped(lock: &LockView) -> bool {
    others(lock).any(|dialect| matches!(dialect.waiting(&untold(lock)), Waiting::BlockedOn(_)))
}

fn others(lock: &LockView) -> impl Iterator<Item = &'static dyn Dialect> {
    let sight = untold(lock);
    let guessed = lock.dialect_confidence < Claim::SURE;
    let may_be = move |dialect: &&dyn Dialect| dialect.name() != lock.dialect && dialect.read(&sight).is_some();
    // Whoever is blocked on a list sleeps on however sure we were: an id of its own can look like any token.
    let sleeps = move |dialect: &&dyn Dialect| matches!(dialect.waiting(&sight), Waiting::BlockedOn(_));
    all().iter().copied().filter(move |dialect| guessed || sleeps(dialect)).filter(may_be)
}

/// The lock as it was before anybody said what it is.
fn untold(lock: &LockView) -> Sight<'_> {
    Sight { dialect_given: false, ..lock.sight(lock.at) }
}
