//! What a condition would have done over the tracks of a rule, in numbers and episode by episode.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Grid;
use super::lasting::Lasted;
use super::near::Runs;
use super::track::{Track, Tracks, above_zero};
use super::walk::{Run, walk};
use crate::alerts::Compare;
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
        let flap = self.grid.steps_within(FLAP);
        let (mut delays, mut patterns) = (BTreeMap::new(), BTreeSet::new());
        // Most are alike: they are counted before they are looked up.
        let (mut delay, mut alike) = (0, 0);
        let (mut runs, mut newest) = (Runs::default(), Newest::default());
        for (place, track) in self.tracks.iter().enumerate() {
            runs.of(self, place, condition);
            let mut ended = None;
            for run in &runs.fired {
                let began = run.fired.unwrap_or(run.from);
                changes[began as usize] += 1;
                changes[run.to as usize] -= 1;
                if began - run.from != delay {
                    *delays.entry(delay).or_insert(0) += std::mem::take(&mut alike);
                    delay = began - run.from;
                }
                alike += 1;
                outcome.flaps += u64::from(ended.replace(run.to).is_some_and(|ended| began - ended <= flap));
                newest.keep(place, run, Kind::Fired);
            }
            if !runs.fired.is_empty() {
                let pattern = track.labels.get("pattern").map(|pattern| Cow::Borrowed(pattern.as_str()));
                patterns.insert(pattern.unwrap_or_else(|| format!("{:?}", track.labels).into()));
            }
            outcome.firings += runs.fired.len() as u64;
            outcome.near_misses += runs.near.len() as u64;
            runs.near.iter().for_each(|(run, kind)| newest.keep(place, run, *kind));
        }
        outcome.patterns = patterns.len();
        outcome.firing_time = self.grid.lasts(above_zero(&changes));
        *delays.entry(delay).or_insert(0) += alike;
        delays.retain(|_, count| *count > 0);
        outcome.delay = self.delay(&delays);
        newest.cut();
        newest.kept.sort_unstable_by_key(|kept| (kept.run.from, kept.track));
        outcome.left_out = newest.left_out;
        outcome.episodes = newest.kept.iter().map(|kept| self.episode(kept)).collect();
        outcome
    }

    /// Only what fires, alert by alert, each from its breach to its end.
    pub fn firings(&self, condition: Condition, mut told: impl FnMut(usize, Time, Time)) {
        for (place, track) in self.tracks.iter().enumerate() {
            walk(track, self.lasted(place, condition), &self.grid, condition, |run| {
                if run.fired.is_some() {
                    told(place, self.grid.at(run.from), self.grid.at(run.to.min(self.grid.count.saturating_sub(1))));
                }
                false
            });
        }
    }

    /// When an alert is first in a breach that fires; `None` if it never fires.
    pub fn first(&self, place: usize, condition: Condition) -> Option<Time> {
        first(&self.tracks[place], self.lasted(place, condition), &self.grid, condition)
    }

    /// The value of an episode that is farthest beyond a threshold.
    pub fn peak(&self, episode: &Episode, compare: Compare) -> f64 {
        let to = if episode.lasts { self.grid.count } else { self.grid.at_or_after(episode.to) };
        self.tracks[episode.track].worst(&self.grid, self.grid.at_or_after(episode.from)..to, compare)
    }

    fn episode(&self, kept: &Kept) -> Episode {
        let Kept { track, run, kind } = kept;
        Episode {
            track: *track as usize,
            kind: *kind,
            from: self.grid.at(run.from),
            fired: self.grid.at(run.fired.unwrap_or(run.from)),
            to: self.grid.at(run.to.min(self.grid.count.saturating_sub(1))),
            lasts: run.to == self.grid.count,
        }
    }

    /// From how many firings came after so many evaluations.
    fn delay(&self, delays: &BTreeMap<u32, u64>) -> Option<Delay> {
        let longest = *delays.last_key_value()?.0;
        let mut before = delays.values().sum::<u64>() / 2;
        let median = delays.iter().find(|(_, count)| match before.checked_sub(**count) {
            Some(left) => {
                before = left;
                false
            }
            None => true,
        });
        let median = median.map_or(longest, |(steps, _)| *steps);
        Some(Delay { median: self.grid.lasts(median), longest: self.grid.lasts(longest) })
    }
}

impl Track {
    /// When it first is in a breach that fires; `None` if it never fires.
    pub fn first(&self, grid: &Grid, condition: Condition) -> Option<Time> {
        first(self, None, grid, condition)
    }
}

fn first(track: &Track, lasted: Option<Lasted<'_>>, grid: &Grid, condition: Condition) -> Option<Time> {
    let mut first = None;
    walk(track, lasted, grid, condition, |run| {
        first = run.fired.map(|_| grid.at(run.from));
        first.is_some()
    });
    first
}

/// The newest episodes, before they are told.
#[derive(Debug, Default)]
struct Newest {
    kept: Vec<Kept>,
    /// There are enough that began at this evaluation or later.
    since: u32,
    left_out: u64,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    track: u32,
    run: Run,
    kind: Kind,
}

impl Newest {
    fn keep(&mut self, track: usize, run: &Run, kind: Kind) {
        if run.from < self.since {
            self.left_out += 1;
            return;
        }
        if self.kept.len() >= 2 * MOST_EPISODES {
            self.cut();
        }
        self.kept.push(Kept { track: track as u32, run: *run, kind });
    }

    /// Forgets the oldest.
    fn cut(&mut self) {
        let Some(more) = self.kept.len().checked_sub(MOST_EPISODES).filter(|more| *more > 0) else { return };
        self.since = self.kept.select_nth_unstable_by_key(more, |kept| kept.run.from).1.run.from;
        self.kept.drain(..more);
        self.left_out += more as u64;
    }
}

impl Outcome {
    /// The episodes that fired, oldest first.
    pub fn fired(&self) -> impl Iterator<Item = &Episode> + Clone {
        self.episodes.iter().filter(|episode| episode.kind == Kind::Fired)
    }
}
