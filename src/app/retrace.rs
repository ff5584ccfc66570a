//! What became of a lock between its release and now, as far as it was watched: a lock that others held since is not
//! free of history, and is not put back. Pure: the loop hands in the table.

use crate::actions::{Kept, comparisons};
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::lock::KeyspaceId;
use crate::model::{Hold, Table};

/// What is known of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Since {
    /// Watched all the while: nobody had it.
    Nobody,
    /// Somebody had it, in a sentence.
    Held(String),
    /// It can't be known, in a sentence.
    Unwatched(String),
}

impl Since {
    /// Looks back to the moment when it was freed. `watched_since`: from when on each change of it was told.
    pub fn of(kept: &Kept, table: &Table, watched_since: Option<Time>, now: Time) -> Since {
        let freed = Time(kept.about.at);
        let lock = table.lock_named(KeyspaceId::FIRST, &kept.key.0);
        // Of a lock that several hold at once, the script counts the places that are taken.
        if let Some(lock) = lock.filter(|_| kept.is_whole() && comparisons::is_made("held_since")) {
            let latest = lock.past().rev().find(|hold| hold.since >= freed);
            if let Some(hold) = latest {
                return Since::Held(format!("{}; {}", held(hold, now), kept.freed_when(now)));
            }
        }
        match watched_since {
            Some(since) if since <= freed && lock.is_some() => Since::Nobody,
            _ => Since::Unwatched(format!(
                "{}; it was not watched all the while since, so that others may have held it in between.",
                kept.freed_when(now)
            )),
        }
    }
}

fn ago(moment: Time, now: Time) -> String {
    short_duration(now.since(moment).as_millis() as u64)
}

fn held(hold: &Hold, now: Time) -> String {
    let who = hold.holder.as_ref().map_or("somebody".to_string(), |token| token.to_string());
    let (from, until) = (ago(hold.since, now), ago(hold.until, now));
    format!("{who} has held it since, from {from} ago to {until} ago ({})", hold.ending.name())
}
