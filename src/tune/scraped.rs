//! What rarer readings would have seen of what fires: how much fires there, and what would be missed.

use std::time::Duration;

use super::spans::Spans;
use crate::alerts::Condition;
use crate::alerts::replay::{Episode, Outcome, Tracks};

/// What rarer readings would have seen.
#[derive(Clone, PartialEq, Debug)]
pub struct Scraped {
    pub every: Duration,
    pub firings: u64,
    /// The firings that it would have missed.
    pub missed: Vec<Episode>,
}

impl Scraped {
    /// Of tracks with rarer readings; `fired` are the firings of the outcome.
    pub(super) fn of(rarer: &Tracks, condition: Condition, outcome: &Outcome, fired: &Spans) -> Scraped {
        let mut firings = 0;
        let mut seen: Vec<Vec<bool>> = Vec::new();
        // Both go alert by alert and forward in time, so that each firing is looked at once.
        let mut place = (0, 0);
        rarer.firings(condition, |track, from, to| {
            firings += 1;
            if place.0 != track {
                place = (track, 0);
            }
            let spans = fired.track(track);
            if seen.len() <= track {
                seen.resize_with(track + 1, Vec::new);
            }
            seen[track].resize(spans.len(), false);
            while spans.get(place.1).is_some_and(|(_, end)| *end < from) {
                place.1 += 1;
            }
            for (at, (start, _)) in spans.iter().enumerate().skip(place.1) {
                if *start > to {
                    break;
                }
                seen[track][at] = true;
            }
        });
        let mut next = vec![0; seen.len()];
        let is_missed = |episode: &&Episode| {
            let Some(seen) = seen.get(episode.track) else { return true };
            next[episode.track] += 1;
            !seen.get(next[episode.track] - 1).copied().unwrap_or(false)
        };
        let missed = outcome.fired().filter(is_missed).copied().collect();
        Scraped { every: rarer.grid.interval(), firings, missed }
    }
}
