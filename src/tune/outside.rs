//! The highest value outside incidents that lasted for as long as the rule waits.

use super::Labelled;
use crate::alerts::replay::{Track, Tracks};
use crate::alerts::{Compare, Condition};
use crate::base::time::Time;

/// Where the worst value outside incidents was.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Worst {
    pub value: f64,
    /// The place of its alert in [`Tracks::tracks`].
    pub track: usize,
    pub from: Time,
}

/// Halvings until a threshold is known as well as a float can tell it.
const HALVINGS: usize = 64;

/// The level at which nothing outside real incidents fires any more. `None`: nothing has a value there for long enough.
pub fn worst(tracks: &Tracks, condition: Condition, labels: &Labelled) -> Option<Worst> {
    let condition = Condition { recover: None, keep_firing_for: 0, ..condition };
    let mut found: Option<Worst> = None;
    for (place, track) in tracks.tracks.iter().enumerate() {
        let incidents = labels.incidents(place);
        let rest = (!incidents.is_empty()).then(|| track.without(&tracks.grid, &incidents));
        let fires = |level: f64| {
            let condition = Condition { compare: condition.compare.with(level), ..condition };
            match &rest {
                Some(rest) => rest.first(&tracks.grid, condition),
                None => tracks.first(place, condition),
            }
        };
        let track = rest.as_ref().unwrap_or(track);
        // Most alerts are no worse than the worst so far, and that takes one look.
        let Some((mut calm, mut breach)) = range(track, condition.compare) else { continue };
        if let Some(worst) = &found {
            if fires(worst.value).is_none() {
                continue;
            }
            breach = worst.value;
        } else if fires(breach).is_none() {
            continue;
        }
        for _ in 0..HALVINGS {
            let middle = calm / 2.0 + breach / 2.0;
            if middle == calm || middle == breach {
                break;
            }
            if fires(middle).is_some() { breach = middle } else { calm = middle }
        }
        let from = fires(breach).unwrap_or(tracks.grid.first);
        found = Some(Worst { value: calm, track: place, from });
    }
    found
}

/// A level at which nothing can fire, and one at which everything does that has a value.
fn range(track: &Track, compare: Compare) -> Option<(f64, f64)> {
    let (least, most) = track.extremes()?;
    let below = |value: f64| value - (value.abs() * 0.01).max(1.0);
    match compare {
        Compare::Above(_) => Some((most, below(least))),
        Compare::Below(_) => Some((least, -below(-most))),
    }
}
