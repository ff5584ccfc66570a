//! Episodes by alert and time, to be asked whether one of them overlaps another.

use crate::alerts::replay::Episode;
use crate::base::time::Time;

/// Episodes of which those of one alert do not overlap.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Spans {
    /// Where those of each alert begin in `spans`, and where the last ones end.
    firsts: Vec<u32>,
    /// From when to when, oldest first.
    spans: Vec<(Time, Time)>,
}

impl Spans {
    /// Of episodes in the order of time.
    pub fn of<'a>(episodes: impl Iterator<Item = &'a Episode> + Clone) -> Spans {
        Spans::new(episodes.map(|episode| (episode.track, episode.from, episode.to)))
    }

    /// The same of an alert's place and two times each.
    pub fn new(all: impl Iterator<Item = (usize, Time, Time)> + Clone) -> Spans {
        let mut firsts = Vec::new();
        for (track, ..) in all.clone() {
            if firsts.len() < track + 2 {
                firsts.resize(track + 2, 0);
            }
            firsts[track + 1] += 1;
        }
        for track in 1..firsts.len() {
            firsts[track] += firsts[track - 1];
        }
        let mut next = firsts.clone();
        let mut spans = vec![(Time(0), Time(0)); firsts.last().map_or(0, |count| *count as usize)];
        for (track, from, to) in all {
            spans[next[track] as usize] = (from, to);
            next[track] += 1;
        }
        Spans { firsts, spans }
    }

    /// Those of an alert.
    pub fn track(&self, track: usize) -> &[(Time, Time)] {
        match self.firsts.get(track..track + 2) {
            Some([first, end]) => &self.spans[*first as usize..*end as usize],
            _ => &[],
        }
    }

    /// Whether the alert has one at that time.
    pub fn overlap(&self, track: usize, from: Time, to: Time) -> bool {
        let spans = self.track(track);
        let after = spans.partition_point(|(_, end)| *end < from);
        spans.get(after).is_some_and(|(start, _)| *start <= to)
    }

    /// Whether the alert of an episode has one at its time; asked for episodes in the order of their beginnings.
    pub fn forward(&self) -> impl FnMut(&Episode) -> bool {
        let mut next = self.firsts.clone();
        move |episode| {
            let (Some(at), Some(end)) = (next.get_mut(episode.track), self.firsts.get(episode.track + 1)) else {
                return false;
            };
            while *at < *end && self.spans[*at as usize].1 < episode.from {
                *at += 1;
            }
            *at < *end && self.spans[*at as usize].0 <= episode.to
        }
    }
}
