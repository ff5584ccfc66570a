//! What has happened to the locks of one pattern, counted. No number here ever goes down.
//!
//! A hold is one holder's: a lock that several share counts each of them. A hold that we ended and put back is counted as
//! ended by force and as begun again, so that what began and did not end is what is held.

use super::buckets::{Buckets, HAND_OVER, HOLD, RENEWAL};
use crate::model::Ending;
use crate::model::history::holds::{Holds, Mark};

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Counts {
    /// Holds that were seen to begin. One that was found held is not among them.
    pub started: u64,
    pub renewed: u64,
    /// Renewals that the rhythm before them expected earlier.
    pub late: u64,
    ended: [u64; Ending::ALL.len()],
    /// Of locks that one holds at a time, seen from beginning to end.
    pub held: Buckets<{ HOLD.len() }>,
    pub gaps: Buckets<{ RENEWAL.len() }>,
    pub hand_overs: Buckets<{ HAND_OVER.len() }>,
}

impl Counts {
    pub fn ended(&self, ending: Ending) -> u64 {
        self.ended[ending as usize]
    }

    pub(super) fn add(&mut self, mark: Mark, alone: bool) {
        match mark {
            Mark::Started { holders } => self.started += u64::from(holders),
            Mark::Renewed { gap_ms, late } => {
                self.renewed += 1;
                self.late += u64::from(late);
                if let Some(ms) = gap_ms {
                    self.gaps.add(&RENEWAL, ms);
                }
            }
            Mark::Ended(over) => {
                self.ended[over.ending as usize] += u64::from(over.holders);
                if let Some(ms) = over.timed_ms().filter(|_| alone) {
                    self.held.add(&HOLD, ms);
                }
            }
            Mark::Left(ending) => self.ended[ending as usize] += 1,
            Mark::Resumed(over) => self.started += u64::from(over.holders),
            Mark::HandedOver(ended, taken) => {
                let ms = taken.since(ended).as_millis() as u64;
                if alone && ms <= Holds::HAND_OVER_MS {
                    self.hand_overs.add(&HAND_OVER, ms);
                }
            }
        }
    }
}
