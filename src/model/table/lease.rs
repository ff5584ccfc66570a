//! What a lock's lease and age are, learnt from the reads of its key.
//!
//! A server reports only the rest of a lease, at each read. Right after the lease was given, the rest is the whole lease.

use crate::base::time::Time;
use crate::lock::Holder;
use crate::model::table::resolve::Occurrence;
use crate::model::{HeldIs, Lock};

impl Lock {
    /// The full lease shows right after it was given: what is left then, plus the little that has passed.
    pub(super) fn learn_lease(&mut self, expires: Option<Time>, answered: Time, steps: &[Occurrence], extended: bool) {
        let given_at = steps.iter().rev().find_map(|step| match step {
            Occurrence::Begin { at, exact: true } | Occurrence::Renew { at } | Occurrence::Take { at } => Some(*at),
            _ => None,
        });
        let Some(expires) = expires else {
            self.set_lease(None);
            return;
        };
        let left = expires.since(answered).as_millis() as u64;
        if let Some(at) = given_at {
            let full = left + answered.since(at).as_millis() as u64;
            // The same lease given again and seen a little later must not look shorter.
            let before = self.lease_ms().unwrap_or(0);
            let full = rounded(full);
            let full = if full < before && full * 10 > before * 9 { before } else { full };
            self.set_lease(Some((full, HeldIs::Exact)));
        } else if extended {
            let full = rounded(left).max(self.lease_ms().unwrap_or(0));
            self.set_lease(Some((full, HeldIs::Exact)));
        }
    }

    /// Of a lease that nobody saw being given it is known that it is at least what is left; where the value says when it
    /// was taken, what has passed belongs to it too.
    pub(super) fn bound_lease(&mut self, expires: Option<Time>, answered: Time, told_when_taken: bool) {
        let (Some(expires), None) = (expires, self.lease_ms()) else { return };
        let estimated = self.since_is == HeldIs::Estimated && told_when_taken && self.beats.is_none();
        let (from, is) = if estimated { (self.since, HeldIs::Estimated) } else { (answered, HeldIs::AtLeast) };
        let least = nearly_round(expires.since(from).as_millis() as u64).max(self.lease().map_or(0, |(ms, _)| ms));
        self.set_lease(Some((least, is)));
    }

    /// A lock that is given its TTL by a second command has none in between.
    pub(super) fn learn_bare(&mut self, got_ttl: bool, answered: Time) {
        if let Some(taken) = self.taken().filter(|_| got_ttl && self.beats().is_none_or(|beats| beats.count <= 1)) {
            let bare = answered.since(taken).as_millis().min(u128::from(u32::MAX)) as u32;
            self.contention.get_or_insert_default().bare_ms = Some(bare);
        }
    }

    /// Learns the age from values that say when they were written.
    pub(super) fn learn_age(&mut self, holders: &[Holder]) {
        if self.since_is == HeldIs::Exact {
            return;
        }
        if let Some(since) = holders.iter().filter_map(|holder| holder.since).min() {
            self.since = since;
            self.since_is = HeldIs::Estimated;
        }
    }
}

/// The next round number, where next to nothing is missing: nobody chooses a lease of 23 h 59 min.
fn nearly_round(ms: u64) -> u64 {
    let up_to = |step: u64| Some(ms.next_multiple_of(step)).filter(|up| (up - ms) * 1_000 <= *up);
    [3_600_000, 60_000, 10_000, 1_000].into_iter().find_map(up_to).unwrap_or(ms)
}

/// Leases are round numbers, and what we see is never more than the lease: the little that passed until the event
/// reached us is missing from it.
fn rounded(ms: u64) -> u64 {
    let up_to = |step: u64| Some(ms.next_multiple_of(step)).filter(|up| up - ms <= step / 10);
    up_to(1_000).or(up_to(500)).or(up_to(100)).unwrap_or(ms)
}
