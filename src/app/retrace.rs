//! What happened to a lock between its release and now, as far as it was watched. A lock that others have held since
//! then is not put back. Pure: the loop passes in the table.

use crate::actions::{Kept, comparisons};
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::lock::KeyspaceId;
use crate::model::{Hold, Table};

/// What was freed together, and may be put back together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Batch {
    /// Newest first.
    pub kept: Vec<Kept>,
    /// What can't be put back, each with the reason.
    pub left_out: Vec<String>,
}

/// What is known about the time since the release.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Since {
    /// Watched the whole time: nobody held it.
    Nobody,
    /// Somebody held it, in a sentence.
    Held(String),
    /// Unknown, and why, in a sentence.
    Unwatched(String),
}

impl Since {
    /// Checks the time since the release. `watched_since`: since when every change of the lock was observed.
    pub fn of(kept: &Kept, table: &Table, watched_since: Option<Time>, now: Time) -> Since {
        let freed = Time(kept.about.at);
        let lock = table.lock_named(KeyspaceId::FIRST, &kept.key.0);
        // For a lock with several holders, the script itself checks whether a place is free.
        if let Some(lock) = lock.filter(|_| kept.is_whole() && comparisons::is_made("held_since")) {
            let latest = lock.past().rev().find(|hold| hold.since >= freed);
            if let Some(hold) = latest {
                return Since::Held(format!("{}; {}", held(hold, now), kept.freed_when(now)));
            }
        }
        match watched_since {
            Some(since) if since <= freed && lock.is_some() => Since::Nobody,
            _ => Since::Unwatched(format!(
                "{}; it was not watched all the time since then, so others may have held it.",
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
