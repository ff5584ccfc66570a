//! Somebody wants a lock, told by nothing but the server's clock of when its key was last touched.
//!
//! A lost attempt touches the key and leaves no other trace. So do our own looks, the holder's renewals and whatever
//! comes with an event; those are known. The clock has a grain of a second and events come late, so one touch that none
//! of them explains is no proof: two of them, clearly apart, with nothing else known to have happened in between, are.

use std::time::Duration;

use crate::base::time::Time;
use crate::lock::{Key, NodeId};
use crate::model::table::Table;
use crate::model::{Beats, Lock};

/// Two times by the server's clock that are further apart than this are two.
const APART: Duration = Duration::from_millis(1_500);
/// Two that are further apart than this are two visits, and nobody who waits.
const TOGETHER: Duration = Duration::from_secs(20);
/// A lock that was wanted longer ago may not be any more.
const LATELY_MS: u64 = 10_000;

impl Table {
    /// Takes in that the key was last touched at about `since`.
    pub(in crate::model) fn take_idle(&mut self, node: NodeId, key: &Key, since: Time) {
        let Some(place) = self.place_named(self.space(node), key.as_bytes()) else { return };
        // Where changes are not told, a renewal may be what touched it.
        let told = self.lock_at(place).is_some_and(|lock| lock.is_held() && self.told_of(lock));
        let Some(lock) = self.at(place) else { return };
        let explained = lock.last_known_touch() + APART;
        let known = lock.contention.as_ref().and_then(|contention| contention.touched);
        let first = known.filter(|first| told && *first > explained);
        let new = told && since > explained;
        match (first, new) {
            (Some(first), true) if since > first + APART && since <= first + TOGETHER => {
                self.take_wanted(node, key, since);
                // The next one is counted from here on.
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
    /// When it was last wanted by somebody who can't be counted, if that was lately.
    pub fn wanted(&self, now: Time) -> Option<Time> {
        self.contention()?.wanted.filter(|wanted| now.since(*wanted).as_millis() as u64 <= LATELY_MS)
    }

    /// Whether the next look at its clock may show that it is wanted, or still is.
    pub fn may_be_wanted(&self, now: Time) -> bool {
        let touched = self.contention().and_then(|contention| contention.touched);
        touched.is_some_and(|touched| now.since(touched).as_millis() as u64 <= LATELY_MS) || self.wanted(now).is_some()
    }

    /// When we, its holder or an event last touched its key.
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
