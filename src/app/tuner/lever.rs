//! What up and down move: the threshold, `for`, or the recovery level; and by how much.

use super::{Stage, Tuner};
use crate::alerts::{Compare, Condition};

/// What is moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lever {
    Threshold,
    For,
    Recover,
}

/// The steps of `for`, in seconds.
const WAITS: [i64; 20] =
    [0, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1_200, 1_800, 2_700, 3_600, 7_200, 14_400];
/// A page of steps.
const PAGE: isize = 10;

impl Lever {
    pub fn next(self) -> Lever {
        match self {
            Lever::Threshold => Lever::For,
            Lever::For => Lever::Recover,
            Lever::Recover => Lever::Threshold,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Lever::Threshold => "threshold",
            Lever::For => "for",
            Lever::Recover => "recover",
        }
    }
}

impl Tuner {
    /// Moves it; up is more.
    pub(super) fn pull(&mut self, by: isize) {
        let steps = -by.signum() * if by.abs() > 1 { PAGE } else { 1 };
        let lever = self.lever;
        let Stage::Ready(trial) = &mut self.stage else { return };
        let step = step(trial.profile.extremes(), trial.current.condition.compare);
        let condition = trial.candidate.condition;
        let moved = match lever {
            Lever::Threshold => threshold(condition, steps as f64 * step),
            Lever::For => Condition { hold_for: wait(condition.hold_for, steps), ..condition },
            Lever::Recover => recovery(condition, steps as f64 * step),
        };
        if moved.wrong_recovery().is_none() {
            trial.set(moved);
        }
        self.list();
    }
}

/// A hundredth of what there is to see, as 1, 2 or 5 of something; counts move by whole numbers.
fn step(extremes: Option<(f64, f64)>, compare: Compare) -> f64 {
    let (least, most) = extremes.unwrap_or((0.0, 1.0));
    let whole = least.fract() == 0.0 && most.fract() == 0.0 && compare.threshold().fract() == 0.0;
    let reach = most.abs().max(least.abs()).max(compare.threshold().abs());
    let wanted = if reach > 0.0 && reach.is_finite() { reach / 100.0 } else { 0.01 };
    let ten = 10_f64.powi(wanted.log10().floor() as i32);
    let nice = [1.0, 2.0, 5.0, 10.0].map(|times| times * ten).into_iter().find(|step| *step >= wanted * 0.999);
    let nice = nice.unwrap_or(wanted);
    if whole { nice.max(1.0).round() } else { nice }
}

/// Rounded to the step, so that it reads well.
fn moved(level: f64, by: f64) -> f64 {
    let step = by.abs().max(f64::MIN_POSITIVE);
    let places = (1.0 / step).log10().ceil().clamp(0.0, 12.0);
    let scale = 10_f64.powf(places);
    ((level + by) * scale).round() / scale
}

fn threshold(condition: Condition, by: f64) -> Condition {
    Condition { compare: condition.compare.with(moved(condition.compare.threshold(), by)), ..condition }
}

/// From nothing it begins at the threshold, and back there it is nothing again.
fn recovery(condition: Condition, by: f64) -> Condition {
    let level = moved(condition.recover.unwrap_or(condition.compare.threshold()), by);
    let recover = Condition { recover: Some(level), ..condition };
    match recover.wrong_recovery() {
        Some(_) => Condition { recover: None, ..condition },
        None => recover,
    }
}

fn wait(now: i64, steps: isize) -> i64 {
    let at = WAITS.partition_point(|seconds| seconds * 1_000 < now);
    let exact = WAITS.get(at).is_some_and(|seconds| seconds * 1_000 == now);
    // Between two steps, the one below is a step down.
    let at = if exact || steps < 0 { at as isize + steps } else { at as isize + steps - 1 };
    let at = usize::try_from(at).unwrap_or(0).min(WAITS.len() - 1);
    WAITS[at] * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_fit_what_there_is_to_see() {
        let step = |most, level| step(Some((0.0, most)), Compare::Above(level));
        assert_eq!([step(9.0, 4.0), step(9_000.0, 900.0), step(0.37, 0.1)], [1.0, 100.0, 0.005]);
        assert_eq!(moved(0.1, 0.005), 0.105);
    }

    #[test]
    fn for_goes_through_its_steps() {
        assert_eq!([wait(120_000, 1), wait(120_000, -1), wait(0, -1), wait(100_000, 1)], [180_000, 90_000, 0, 120_000]);
        assert_eq!(wait(100_000, -1), 90_000);
    }

    #[test]
    fn a_recovery_level_begins_below_the_threshold_and_ends_there() {
        let condition = Condition { compare: Compare::Above(4.0), recover: None, hold_for: 0, keep_firing_for: 0 };
        let lower = recovery(condition, -1.0);
        assert_eq!(lower.recover, Some(3.0));
        assert_eq!(recovery(lower, 1.0).recover, None);
        assert_eq!(recovery(condition, 1.0).recover, None);
    }
}
