//! If the library of a lock is a guess: what the other possible libraries need when it is freed.
//!
//! Only what is harmless to all the others: a message on the library's own channel, or a short-lived item in its own
//! list. Pure.

use super::LockView;
use crate::dialects::{Claim, Dialect, Sight, Step, Waiting, all};

/// The wake-ups of all other libraries that the lock may belong to.
pub fn wakes(lock: &LockView) -> Vec<Step> {
    let sight = unmapped(lock);
    let mut steps: Vec<Step> = Vec::new();
    for step in others(lock).flat_map(|dialect| dialect.release(&sight).steps) {
        let wanted = match step {
            Step::Publish { .. } => true,
            // If nobody can be waiting, the item would only be left over.
            Step::Signal { .. } => lock.proof.blocked == Some(true),
            _ => false,
        };
        if wanted && !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

/// Whether waiters may be blocked on a list, by a library that the lock may belong to.
pub fn may_be_popped(lock: &LockView) -> bool {
    others(lock).any(|dialect| matches!(dialect.waiting(&unmapped(lock)), Waiting::BlockedOn(_)))
}

fn others(lock: &LockView) -> impl Iterator<Item = &'static dyn Dialect> {
    let sight = unmapped(lock);
    let guessed = lock.dialect_confidence < Claim::SURE;
    let may_be = move |dialect: &&dyn Dialect| dialect.name() != lock.dialect && dialect.read(&sight).is_some();
    // A client blocked on a list sleeps on if even a sure guess is wrong: a chosen id looks like any token.
    let sleeps = move |dialect: &&dyn Dialect| matches!(dialect.waiting(&sight), Waiting::BlockedOn(_));
    all().iter().copied().filter(move |dialect| guessed || sleeps(dialect)).filter(may_be)
}

/// The lock without the user's mapping to a dialect.
fn unmapped(lock: &LockView) -> Sight<'_> {
    Sight { dialect_given: false, ..lock.sight(lock.at) }
}
