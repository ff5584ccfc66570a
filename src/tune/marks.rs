//! Labels against firings: how many of what fired was real, and how much of what was real fired.

use super::spans::Spans;
use crate::alerts::replay::{Episode, Track};
use crate::store::{Label, Verdict};

/// A share of fewer labels says nothing.
const LEAST: usize = 3;

/// Labelled episodes, and those of them that fire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    pub real: usize,
    pub noise: usize,
    pub real_fired: usize,
    pub noise_fired: usize,
}

/// Labels, each with the place of its alert; `None` if the history has none of it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Labelled(Vec<(Label, Option<usize>)>);

impl Labelled {
    /// Notes without a verdict are left out.
    pub fn new(labels: Vec<Label>, tracks: &[Track]) -> Labelled {
        let place = |label: &Label| tracks.iter().position(|track| track.labels == label.labels);
        let judged = labels.into_iter().filter(|label| label.verdict.is_some());
        Labelled(judged.map(|label| (place(&label), label)).map(|(place, label)| (label, place)).collect())
    }

    /// Which of them fire.
    pub fn marks(&self, fired: &Spans) -> Marks {
        let mut marks = Marks::default();
        for (label, place) in &self.0 {
            let fires = usize::from(place.is_some_and(|track| fired.overlap(track, label.from, label.to)));
            let (count, count_fired) = match label.verdict {
                Some(Verdict::Real) => (&mut marks.real, &mut marks.real_fired),
                _ => (&mut marks.noise, &mut marks.noise_fired),
            };
            (*count, *count_fired) = (*count + 1, *count_fired + fires);
        }
        marks
    }

    /// The label of an episode: of the same alert, and at the same time.
    pub fn of(&self, episode: &Episode) -> Option<&Label> {
        let same = |label: &Label| episode.from <= label.to && label.from <= episode.to;
        self.0.iter().find(|(label, place)| *place == Some(episode.track) && same(label)).map(|(label, _)| label)
    }

    /// The incidents of an alert that were real.
    pub fn incidents(&self, track: usize) -> Vec<(crate::base::time::Time, crate::base::time::Time)> {
        let real = self.0.iter().filter(|(label, place)| *place == Some(track) && label.verdict == Some(Verdict::Real));
        real.map(|(label, _)| (label.from, label.to)).collect()
    }
}

impl Marks {
    pub fn count(&self) -> usize {
        self.real + self.noise
    }

    /// How many of them fire.
    pub fn fired(&self) -> usize {
        self.real_fired + self.noise_fired
    }

    /// Of the labelled episodes that fire, the share that is real.
    pub fn precision(&self) -> Option<f64> {
        let fired = self.fired();
        (self.count() >= LEAST && fired > 0).then(|| self.real_fired as f64 / fired as f64)
    }

    /// Of the episodes that were real, the share that fires.
    pub fn recall(&self) -> Option<f64> {
        (self.count() >= LEAST && self.real > 0).then(|| self.real_fired as f64 / self.real as f64)
    }
}
