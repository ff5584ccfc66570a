//! Near misses: what would have fired with a threshold a tenth nearer, or with a `for` a tenth shorter.

use super::Kind;
use super::track::Tracks;
use super::walk::{Run, walk};
use crate::alerts::Compare;
use crate::alerts::machine::Condition;

/// How near is near.
const SHARE: f64 = 0.1;

/// The condition with a nearer threshold; `None` where a tenth of it is nothing.
fn lower(condition: Condition) -> Option<Condition> {
    let level = condition.compare.threshold();
    let by = level.abs() * SHARE;
    let nearer = match condition.compare {
        Compare::Above(_) => level - by,
        Compare::Below(_) => level + by,
    };
    (by > 0.0 && by.is_finite()).then(|| Condition {
        compare: condition.compare.with(nearer),
        recover: None,
        ..condition
    })
}

/// The condition with a shorter `for`.
pub(super) fn shorter(condition: Condition) -> Option<Condition> {
    let hold_for = condition.hold_for - (condition.hold_for as f64 * SHARE) as i64;
    (hold_for < condition.hold_for).then_some(Condition { hold_for, ..condition })
}

/// The runs of one alert, each in the order of time: those that fired, and the near misses. Made again for each alert, in the
/// same memory.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub(super) fired: Vec<Run>,
    pub(super) near: Vec<(Run, Kind)>,
}

impl Runs {
    pub(super) fn of(&mut self, tracks: &Tracks, place: usize, condition: Condition) {
        let (track, lasted) = (&tracks.tracks[place], tracks.lasted(place, condition));
        let Runs { fired, near } = self;
        fired.clear();
        near.clear();
        let nearly = tracks.grid.steps(shorter(condition).unwrap_or(condition).hold_for);
        walk(track, lasted, &tracks.grid, condition, |run| {
            match run.fired {
                Some(_) => fired.push(run),
                // Of the evaluations from the first to the last that held, one less are between them.
                None if run.to - run.from > nearly => {
                    near.push((Run { fired: Some(run.from + nearly), ..run }, Kind::NearlyLongEnough));
                }
                None => {}
            }
            false
        });
        let long = near.len();
        // With no value between the two, both fire alike.
        if let Some(lower) = lower(condition).filter(|lower| track.tells_apart(lower.compare, condition.compare)) {
            let (mut past_fired, mut past_long) = (0, 0);
            walk(track, lasted, &tracks.grid, lower, |run| {
                // All are in the order of time: what ended before this run is never looked at again.
                past_fired += fired[past_fired..].iter().take_while(|other| other.to <= run.from).count();
                past_long += near[past_long..long].iter().take_while(|(other, _)| other.to <= run.from).count();
                let meets_fired = fired.get(past_fired).is_some_and(|other| other.from < run.to);
                let meets_long = near[past_long..long].first().is_some_and(|(other, _)| other.from < run.to);
                if run.fired.is_some() && !meets_fired && !meets_long {
                    near.push((run, Kind::NearlyFarEnough));
                }
                false
            });
        }
        if long > 0 {
            near.sort_by_key(|(run, _)| run.from);
        }
    }
}
