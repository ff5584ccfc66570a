//! Near misses: what would have fired with a threshold a tenth nearer, or with a `for` a tenth shorter.

use super::track::Track;
use super::walk::{Run, walk};
use super::{Grid, Kind};
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
fn shorter(condition: Condition) -> Option<Condition> {
    let hold_for = condition.hold_for - (condition.hold_for as f64 * SHARE) as i64;
    (hold_for < condition.hold_for).then_some(Condition { hold_for, ..condition })
}

/// The near misses of a track, in the order of time. `fired` are the runs that did fire; what overlaps one is no miss.
pub(super) fn near_misses(track: &Track, grid: &Grid, condition: Condition, fired: &[Run]) -> Vec<(Run, Kind)> {
    let mut near: Vec<(Run, Kind)> = Vec::new();
    for (looser, kind) in [(shorter(condition), Kind::NearlyLongEnough), (lower(condition), Kind::NearlyFarEnough)] {
        let Some(looser) = looser else { continue };
        // A block that is calm at the nearer threshold costs one comparison, as in the replay itself.
        walk(track, grid, looser, |run| {
            let after = fired.partition_point(|fired| fired.to <= run.from);
            let is_fired = fired.get(after).is_some_and(|fired| fired.from < run.to);
            if run.fired.is_some() && !is_fired {
                near.push((run, kind));
            }
        });
    }
    near.sort_by_key(|(run, _)| run.from);
    let mut end = 0;
    near.retain(|(run, _)| {
        let again = run.from < end;
        end = end.max(run.to);
        !again
    });
    near
}
