//! Firings by alert and time, to be asked whether one of them overlaps an episode.

use crate::alerts::replay::Episode;
use crate::base::time::Time;

/// Episodes of which those of one alert do not overlap.
pub struct Spans(Vec<(usize, Time, Time)>);

impl Spans {
    pub fn of<'a>(episodes: impl Iterator<Item = &'a Episode>) -> Spans {
        let mut spans: Vec<_> = episodes.map(|episode| (episode.track, episode.from, episode.to)).collect();
        spans.sort_unstable();
        Spans(spans)
    }

    /// Whether the alert has one at that time.
    pub fn overlap(&self, track: usize, from: Time, to: Time) -> bool {
        let after = self.0.partition_point(|(other, _, end)| (*other, *end) < (track, from));
        self.0.get(after).is_some_and(|(other, start, _)| *other == track && *start <= to)
    }

    pub fn has(&self, episode: &Episode) -> bool {
        self.overlap(episode.track, episode.from, episode.to)
    }
}
