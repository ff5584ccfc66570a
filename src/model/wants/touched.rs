//! Finds that a lock is wanted only from the server's record of when its key was last accessed.
//!
//! A failed attempt accesses the key and leaves no other trace. So do our own reads, the holder's renewals and changes
//! with an event, but those are known. So does anybody who only looks: a person, or another lockscope where the server
//! has no CLIENT NO-TOUCH. The record is exact to a second and events come late. Hence only several unexplained accesses,
//! clearly apart, count, and none while another lockscope is connected; and even they prove only that somebody reads.

use std::time::Duration;

use crate::base::time::Time;
use crate::lock::{Key, NodeId};
use crate::model::table::Table;
use crate::model::{Beats, Lock};

/// Two times by the server's record that are further apart than this are two accesses.
const APART: Duration = Duration::from_millis(1_500);
/// Two accesses that are further apart than this are not those of a waiter.
const TOGETHER: Duration = Duration::from_secs(20);
/// So many accesses: a person who looks once and again is not yet a client that polls.
const ENOUGH: u32 = 3;
/// A lock that was wanted longer ago may no longer be.
const LATELY_MS: u64 = 10_000;

/// Accesses that nothing explains, each soon after the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::model) struct Touched {
    first: Time,
    last: Time,
    count: u32,
}

impl Touched {
    fn once(at: Time) -> Touched {
        Touched { first: at, last: at, count: 1 }
    }

    /// With what the record says now: the same access, another one, or the first after a long time.
    fn and(self, since: Time) -> Touched {
        match since {
            since if since > self.last + TOGETHER => Touched::once(since),
            since if since > self.last + APART => Touched { last: since, count: self.count + 1, ..self },
            _ => self,
        }
    }
}

impl Table {
    /// Applies that the key was last accessed at about `since`.
    pub(in crate::model) fn take_idle(&mut self, node: NodeId, key: &Key, since: Time) {
        let Some(place) = self.place_named(self.space(node), key.as_bytes()) else { return };
        // If changes are not reported, the access may be a renewal; if its value is shared, one to another key.
        let reported = self
            .lock_at(place)
            .is_some_and(|lock| lock.is_held() && self.is_reported(lock) && !lock.value().is_shared());
        let Some(lock) = self.at(place) else { return };
        let cause = lock.last_known_touch();
        let explained = cause + APART;
        let known = lock.contention.as_ref().and_then(|contention| contention.touched);
        // A cause that is told late takes back the access that it explains.
        let before = known.filter(|known| reported && (known.last > explained || known.last + APART < cause));
        let touched = match (before, reported && since > explained) {
            (Some(before), true) => Some(before.and(since)),
            (before, false) => before,
            (None, true) => Some(Touched::once(since)),
        };
        match (touched, &mut lock.contention) {
            (Some(_), contention) => contention.get_or_insert_default().touched = touched,
            (None, Some(contention)) => contention.touched = None,
            (None, None) => {}
        }
        if let Some(touched) = touched.filter(|touched| before != Some(*touched)) {
            self.take_touched(node, key, touched);
        }
    }

    /// One more access that nothing explains: perhaps somebody wants the lock.
    fn take_touched(&mut self, node: NodeId, key: &Key, touched: Touched) {
        match self.another_lockscope(node, touched.first) {
            Some(false) if touched.count >= ENOUGH => self.take_wanted(node, key, touched.last),
            Some(_) => {}
            // Where clients can't be listed, several accesses are all that can be known.
            None if !self.want_list(node, touched.first) && touched.count >= ENOUGH => {
                self.take_wanted(node, key, touched.last);
            }
            None => {}
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
        touched.is_some_and(|touched| now.since(touched.last).as_millis() as u64 <= LATELY_MS)
            || self.wanted(now).is_some()
    }

    /// The last access to its key by us, its holder or a known event.
    fn last_known_touch(&self) -> Time {
        let heard = self.pending.as_ref().and_then(|pending| pending.events.last()).map(|(_, at)| *at);
        let beat = self.beats().and_then(Beats::last);
        self.asked.max(self.confirmed).max(heard.unwrap_or(self.asked)).max(beat.unwrap_or(self.asked))
    }
}

/// All that idle times can show.
pub const SOMEBODY: &str = "somebody reads it, and may poll for it";

/// As a sentence.
pub(in crate::model) fn sentence(wanted: Time, now: Time) -> String {
    let ago = crate::base::text::short_duration(now.since(wanted).as_millis() as u64);
    format!("{SOMEBODY} (last {ago} ago); who, and how often, is not known")
}

#[cfg(test)]
mod tests;
