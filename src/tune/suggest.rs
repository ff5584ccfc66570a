//! A threshold that can be believed: beyond everything that was not an incident, by a margin, with its reason and with what
//! follows from it. Nothing is suggested from too little.

use std::time::Duration;

use super::Marks;
use super::outside::{Worst, worst};
use super::spans::Spans;
use super::trial::Subject;
use crate::alerts::replay::Shape;
use crate::alerts::{Compare, Condition};

/// How far beyond the worst calm value.
const MARGIN: f64 = 0.1;
/// From this much history on it is told how many pages a week it makes.
const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// A threshold, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct Suggestion {
    pub level: f64,
    pub worst: Worst,
    /// There is room for a margin: no real episode is lost by it.
    pub margin: bool,
    /// What it would have done.
    pub firings: u64,
    pub marks: Marks,
    /// Firings a week; `None` if the history is shorter.
    pub a_week: Option<f64>,
}

impl Suggestion {
    /// For a rule that waits as long as that condition does; or why there is none.
    pub fn of(subject: &Subject, condition: Condition) -> Result<Suggestion, String> {
        if let Some(why) = &subject.fixed {
            return Err(why.clone());
        }
        if let Some(why) = subject.coverage.is_too_little() {
            return Err(why);
        }
        let Some(worst) = worst(&subject.tracks, condition, &subject.labels) else {
            return Err(match subject.tracks.tracks.is_empty() {
                true => "nothing that the rule looks at was recorded".into(),
                false => "outside the incidents nothing has a value for as long as the rule waits".into(),
            });
        };
        if rises(subject, &worst) {
            return Err("the highest age still rises at the end of the history, and so would the suggestion: wait until that hold is over, or label it".into());
        }
        let tried = |level: f64| {
            let condition = Condition { compare: condition.compare.with(level), recover: None, ..condition };
            let mut fired = Vec::new();
            subject.tracks.firings(condition, |track, from, to| fired.push((track, from, to)));
            (level, fired.len() as u64, subject.labels.marks(&Spans::new(fired.iter().copied())))
        };
        let (with, without) = (tried(beyond(worst.value, condition.compare)), tried(worst.value));
        // A margin that costs a real episode is no help.
        let margin = with.2.real_fired == without.2.real_fired;
        let (level, firings, marks) = if margin { with } else { without };
        if marks.real > 0 && marks.real_fired == 0 {
            return Err("no threshold tells the real episodes from the rest: outside them the value was as far".into());
        }
        let recorded = subject.coverage.recorded;
        let a_week = (recorded >= WEEK).then(|| firings as f64 * WEEK.as_secs_f64() / recorded.as_secs_f64());
        Ok(Suggestion { level, worst, margin, firings, marks, a_week })
    }
}

/// Whether the worst value is the age of a hold that is not over.
fn rises(subject: &Subject, worst: &Worst) -> bool {
    let (grid, track) = (&subject.tracks.grid, &subject.tracks.tracks[worst.track]);
    let last = grid.count.checked_sub(1).and_then(|last| track.value(last, grid));
    track.shape() == Shape::Age && last.is_some_and(|last| last >= worst.value)
}

/// The value with the margin, rounded to two digits, away from calm.
fn beyond(value: f64, compare: Compare) -> f64 {
    let away = if matches!(compare, Compare::Above(_)) { 1.0 } else { -1.0 };
    let level = value + away * value.abs() * MARGIN;
    if level == 0.0 || !level.is_finite() {
        return value;
    }
    let digits = 10_f64.powi(level.abs().log10().floor() as i32 - 1);
    // What is counted has no tenths.
    let unit = if value.fract() == 0.0 { digits.max(1.0) } else { digits };
    let steps = level / unit;
    // A sum of tenths is off by the last bit.
    let steps = if (steps - steps.round()).abs() < 1e-9 {
        steps.round()
    } else if away > 0.0 {
        steps.ceil()
    } else {
        steps.floor()
    };
    let rounded = steps * unit;
    // Tenths and hundredths as they are written.
    if unit < 1.0 { (steps / (1.0 / unit).round()).clamp(f64::MIN, f64::MAX) } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_lies_a_tenth_beyond_and_is_round() {
        let above = |value| beyond(value, Compare::Above(0.0));
        assert_eq!(
            [0.0, 1.0, 4.0, 7.0, 10.0, 912.0, 0.05, 0.123, 14.73].map(above),
            [0.0, 2.0, 5.0, 8.0, 11.0, 1_100.0, 0.055, 0.14, 17.0]
        );
        let below = |value| beyond(value, Compare::Below(0.0));
        assert_eq!([1.0, 10.0, 0.5].map(below), [0.0, 9.0, 0.45]);
    }
}
