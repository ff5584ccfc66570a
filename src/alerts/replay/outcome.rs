//! What a condition would have done over the tracks of a rule, in numbers and episode by episode.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Grid;
use super::near::near_misses;
use super::track::{Track, Tracks, above_zero};
use super::walk::{Run, walk, walk_until};
use crate::alerts::machine::Condition;
use crate::base::time::Time;

/// At most this many episodes are kept, the newest; all are counted.
pub const MOST_EPISODES: usize = 20_000;
/// An alert that fires again within this time flaps.
const FLAP: Duration = Duration::from_secs(600);

/// What became of an episode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Fired,
    /// It would have fired with a `for` a tenth shorter.
    NearlyLongEnough,
    /// It would have fired with a threshold a tenth nearer.
    NearlyFarEnough,
}

/// From a breach to its end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Episode {
    /// The place of its alert in [`Tracks::tracks`].
    pub track: usize,
    pub kind: Kind,
    /// The first evaluation in which the condition held.
    pub from: Time,
    /// When it fired; of a near miss, when it would have fired.
    pub fired: Time,
    /// The evaluation that ended it, or the end of the history.
    pub to: Time,
    /// It was not over at the end of the history.
    pub lasts: bool,
    /// The value farthest beyond the threshold.
    pub peak: f64,
}

/// How long after the breach it fired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delay {
    pub median: Duration,
    pub longest: Duration,
}

/// All that a condition would have done.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Outcome {
    pub firings: u64,
    /// The time in which at least one alert fired.
    pub firing_time: Duration,
    /// How many different patterns fired; alerts, where there is no label of that name.
    pub patterns: usize,
    /// Firings within ten minutes after the same alert had ended.
    pub flaps: u64,
    pub near_misses: u64,
    /// `None` without firings.
    pub delay: Option<Delay>,
    /// Firings and near misses, oldest first.
    pub episodes: Vec<Episode>,
    /// Older ones that are counted and not kept.
    pub left_out: u64,
}

impl Tracks {
    /// Runs a condition over all alerts.
    pub fn replay(&self, condition: Condition) -> Outcome {
        let mut outcome = Outcome::default();
        let mut changes = vec![0_i32; self.grid.count as usize + 1];
        let (mut delays, mut patterns, mut fired) = (Vec::new(), BTreeSet::new(), Vec::new());
        for (place, track) in self.tracks.iter().enumerate() {
            fired.clear();
            walk(track, &self.grid, condition, |run| {
                if run.fired.is_some() {
                    fired.push(run);
                }
            });
            for run in &fired {
                let began = run.fired.unwrap_or(run.from);
                changes[began as usize] += 1;
                changes[run.to as usize] -= 1;
                delays.push(began - run.from);
                outcome.keep(self.episode(place, run, Kind::Fired));
            }
            if !fired.is_empty() {
                let pattern = track.labels.get("pattern");
                patterns.insert(pattern.map_or_else(|| format!("{:?}", track.labels), Clone::clone));
            }
            outcome.firings += fired.len() as u64;
            let flap = |pair: &&[Run]| self.grid.lasts(pair[1].fired.unwrap_or(0) - pair[0].to) <= FLAP;
            outcome.flaps += fired.windows(2).filter(flap).count() as u64;
            for (run, kind) in near_misses(track, &self.grid, condition, &fired) {
                outcome.near_misses += 1;
                outcome.keep(self.episode(place, &run, kind));
            }
        }
        outcome.patterns = patterns.len();
        outcome.firing_time = self.grid.lasts(above_zero(&changes));
        outcome.delay = self.delay(delays);
        outcome.cut(MOST_EPISODES);
        outcome.episodes.sort_by_key(|episode| (episode.from, episode.track));
        outcome
    }

    /// Only what fires, alert by alert.
    pub fn firings(&self, condition: Condition) -> Vec<Episode> {
        let mut fired = Vec::new();
        for (place, track) in self.tracks.iter().enumerate() {
            walk(track, &self.grid, condition, |run| {
                if run.fired.is_some() {
                    fired.push(self.episode(place, &run, Kind::Fired));
                }
            });
        }
        fired
    }

    fn episode(&self, track: usize, run: &Run, kind: Kind) -> Episode {
        Episode {
            track,
            kind,
            from: self.grid.at(run.from),
            fired: self.grid.at(run.fired.unwrap_or(run.from)),
            to: self.grid.at(run.to.min(self.grid.count.saturating_sub(1))),
            lasts: run.to == self.grid.count,
            peak: run.peak,
        }
    }

    fn delay(&self, mut delays: Vec<u32>) -> Option<Delay> {
        let longest = *delays.iter().max()?;
        let middle = delays.len() / 2;
        let median = *delays.select_nth_unstable(middle).1;
        Some(Delay { median: self.grid.lasts(median), longest: self.grid.lasts(longest) })
    }
}

impl Track {
    /// When it first is in a breach that fires; `None` if it never fires.
    pub fn first(&self, grid: &Grid, condition: Condition) -> Option<Time> {
        let mut first = None;
        walk_until(self, grid, condition, |run| {
            if run.fired.is_some() {
                first.get_or_insert(grid.at(run.from));
            }
            first.is_some()
        });
        first
    }
}

impl Outcome {
    fn keep(&mut self, episode: Episode) {
        if self.episodes.len() >= 2 * MOST_EPISODES {
            self.cut(MOST_EPISODES);
        }
        self.episodes.push(episode);
    }

    /// Forgets the oldest.
    fn cut(&mut self, most: usize) {
        let Some(more) = self.episodes.len().checked_sub(most).filter(|more| *more > 0) else { return };
        self.episodes.select_nth_unstable_by_key(more - 1, |episode| episode.from);
        self.episodes.drain(..more);
        self.left_out += more as u64;
    }

    /// The episodes that fired, oldest first.
    pub fn fired(&self) -> impl Iterator<Item = &Episode> {
        self.episodes.iter().filter(|episode| episode.kind == Kind::Fired)
    }
}
