//! Rates from counts that only grow: two looks at them make one, in which each attempt is. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::time::Time;
use crate::model::{Tries, TriesFrom};

/// Rates are of so long at most: what was counted before says little of now.
const SPAN: Duration = Duration::from_secs(12);
/// Two looks closer than this make no rate.
const SHORTEST: Duration = Duration::from_millis(500);
/// What was not looked at for so long is begun anew.
const OLD: Duration = Duration::from_secs(60);

/// The counts of one lock at one time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Look {
    pub at: Time,
    pub attempts: u64,
    pub failures: u64,
}

/// The last few looks, oldest first.
#[derive(Default)]
pub struct Looks(VecDeque<Look>);

impl Looks {
    /// Whether the next look would still make a rate.
    pub fn is_fresh(&self, now: Time) -> bool {
        self.0.back().is_some_and(|look| now.since(look.at) < OLD)
    }

    /// Adds a look; the rate from the oldest that still counts.
    pub fn take(&mut self, look: Look) -> Option<Tries> {
        if let Some(last) = self.0.back()
            // Counts that went down were begun anew.
            && (look.attempts < last.attempts || look.failures < last.failures || look.at.since(last.at) > OLD)
        {
            self.0.clear();
        }
        while self.0.len() > 1 && look.at.since(self.0[0].at) > SPAN {
            self.0.pop_front();
        }
        self.0.push_back(look);
        let first = self.0[0];
        let span = look.at.since(first.at);
        let (attempts, failures) = (look.attempts - first.attempts, look.failures - first.failures);
        let from = TriesFrom::Counted;
        let tries = Tries { attempts, failures, unjudged: 0, looked: span, span, margin_per_s: 0.0, from, at: look.at };
        (span >= SHORTEST).then_some(tries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(s: i64, attempts: u64, failures: u64) -> Look {
        Look { at: Time(s * 1_000), attempts, failures }
    }

    #[test]
    fn one_look_makes_no_rate_and_two_do() {
        let mut looks = Looks::default();
        assert_eq!(looks.take(look(0, 1_000, 900)), None);
        let tries = looks.take(look(2, 1_010, 908)).unwrap();
        assert_eq!((tries.attempts_per_s(), tries.failures_per_s(), tries.coverage()), (5.0, 4.0, 1.0));
        assert_eq!((tries.from, tries.margin_per_s), (TriesFrom::Counted, 0.0));
    }

    #[test]
    fn counts_that_went_down_begin_anew() {
        let mut looks = Looks::default();
        looks.take(look(0, 1_000, 900));
        assert_eq!(looks.take(look(2, 3, 2)), None);
        assert_eq!(looks.take(look(4, 5, 2)).unwrap().attempts, 2);
    }

    #[test]
    fn a_rate_is_of_the_last_seconds() {
        let mut looks = Looks::default();
        for s in (0..60).step_by(2) {
            looks.take(look(s, 100, 100));
        }
        let tries = looks.take(look(60, 112, 112)).unwrap();
        assert_eq!((tries.failures, tries.span), (12, SPAN));
        assert!(looks.0.len() <= 8, "bounded");
        assert_eq!(looks.take(look(300, 500, 500)), None, "what happened long ago says nothing of now");
    }
}
