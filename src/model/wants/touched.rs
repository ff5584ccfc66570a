//! Finds that a lock is wanted only from the server's record of when its key was last accessed.
//!
//! A failed attempt accesses the key and leaves no other trace. So do our own reads, the holder's renewals and changes
//! with an event, but those are known. The record is exact to a second and events come late, so one unexplained access
//! proves nothing: two of them, clearly apart and with no known cause in between, do.

use std::time::Duration;

use crate::base::time::Time;
use crate::lock::{Key, NodeId};
use crate::model::table::Table;
use crate::model::{Beats, Lock};

/// Two times by the server's record that are further apart than this are two accesses.
const APART: Duration = Duration::from_millis(1_500);
/// Two accesses that are further apart than this are not those of a waiter.
const TOGETHER: Duration = Duration::from_secs(20);
/// A lock that was wanted longer ago may no longer be.
const LATELY_MS: u64 = 10_000;

impl Table {
    /// Applies that the key was last accessed at about `since`.
    pub(in crate::model) fn take_idle(&mut self, node: NodeId, key: &Key, since: Time) {
        let Some(place) = self.place_named(self.space(node), key.as_bytes()) else { return };
        // If changes are not reported, the access may be a renewal.
        let told = self.lock_at(place).is_some_and(|lock| lock.is_held() && self.told_of(lock));
        let Some(lock) = self.at(place) else { return };
        let explained = lock.last_known_touch() + APART;
        let known = lock.contention.as_ref().and_then(|contention| contention.touched);
        let first = known.filter(|first| told && *first > explained);
        let new = told && since > explained;
        match (first, new) {
            (Some(first), true) if since > first + APART && since <= first + TOGETHER => {
                self.take_wanted(node, key, since);
                // The next access is compared with this one.
                if let Some(lock) = self.at(place) {
                    lock.contention.get_or_insert_default().touched = Some(since);
                }
            }
            (Some(first), _) if since <= first + TOGETHER => {}
            (_, true) => lock.contention.get_or_insert_default().touched = Some(since),
            (_, false) => {
                if let Some(contention) = &mut lock.contention {
                    contention.touched = None;
                }
            }
        }
    }
}

impl Lock {
    /// When a client that can't be counted last wanted it, if recently.
    pub fn wanted(&self, now: Time) -> Option<Time> {
        self.contention()?.wanted.filter(|wanted| now.since(*wanted).as_millis() as u64 <= LATELY_MS)
    }

    /// Whether the next read of its access time may show that it is wanted, or still is.
    pub fn may_be_wanted(&self, now: Time) -> bool {
        let touched = self.contention().and_then(|contention| contention.touched);
        touched.is_some_and(|touched| now.since(touched).as_millis() as u64 <= LATELY_MS) || self.wanted(now).is_some()
    }

    /// The last access to its key by us, its holder or a known event.
    fn last_known_touch(&self) -> Time {
        let heard = self.pending.as_ref().and_then(|pending| pending.events.last()).map(|(_, at)| *at);
        let beat = self.beats().and_then(Beats::last);
        self.asked.max(self.confirmed).max(heard.unwrap_or(self.asked)).max(beat.unwrap_or(self.asked))
    }
}

/// As a sentence.
pub(in crate::model) fn sentence(wanted: Time, now: Time) -> String {
    let ago = crate::base::text::short_duration(now.since(wanted).as_millis() as u64);
    format!("somebody tries to take it or looks at it (seen {ago} ago), how often is not known")
}

#[cfg(test)]
mod tests;
