//! How many locks of each pattern have which finding. Findings cost more than verdicts: they are counted every ten
//! seconds, a few locks with each tick.

use std::time::Duration;

use super::Figures;
use crate::base::time::Time;
use crate::model::findings::ALL;
use crate::model::table::Table;

/// From the beginning of one round to that of the next.
const EVERY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(in crate::model) struct Inquiry {
    /// The first slot that this round has not visited.
    slot: usize,
    began: Option<Time>,
    /// By the place of the pattern.
    found: Vec<[u32; ALL.len()]>,
}

impl Table {
    /// Looks for findings at up to `most` locks.
    pub(in crate::model) fn inquire(&mut self, most: usize, now: Time) {
        let mut inquiry = std::mem::take(&mut self.figures.inquiry);
        let idle = inquiry.slot == 0 && inquiry.began.is_some_and(|began| now.since(began) < EVERY);
        if !idle {
            self.inquire_slice(&mut inquiry, most, now);
        }
        self.figures.inquiry = inquiry;
    }

    fn inquire_slice(&mut self, inquiry: &mut Inquiry, most: usize, now: Time) {
        if inquiry.slot == 0 {
            inquiry.began = Some(now);
            inquiry.found.clear();
        }
        let slots = inquiry.slot..inquiry.slot.saturating_add(most).min(self.slots());
        inquiry.slot = if slots.end < self.slots() { slots.end } else { 0 };
        for (_, lock) in self.places_in(slots).filter(|(_, lock)| !self.is_stale(lock)) {
            let id = self.figures.places.of(lock.group).index();
            if inquiry.found.len() <= id {
                inquiry.found.resize(id + 1, [0; ALL.len()]);
            }
            for name in self.finding_names(lock, now) {
                if let Some(kind) = ALL.iter().position(|lint| lint.name == name) {
                    inquiry.found[id][kind] += 1;
                }
            }
        }
        if inquiry.slot == 0 {
            self.figures.keep_findings(&inquiry.found);
        }
    }
}

impl Figures {
    fn keep_findings(&mut self, found: &[[u32; ALL.len()]]) {
        for (id, pattern) in self.patterns.iter_mut().enumerate() {
            let Some(pattern) = pattern else { continue };
            let counts = found.get(id).copied().unwrap_or_default();
            for (known, count) in pattern.findings.iter_mut().zip(counts) {
                *known = (count > 0 || known.is_some()).then_some(count);
            }
        }
    }
}
