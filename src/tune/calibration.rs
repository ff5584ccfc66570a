//! Whether the replay can be believed: what another evaluator recorded, beside what the replay of the same rule gives. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::alerts::replay::{Outcome, Tracks};
use crate::base::time::Time;

/// Differences that are kept; all are counted.
const KEPT: usize = 20;

/// An alert that was recorded while it fired.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Recorded {
    pub labels: BTreeMap<String, String>,
    pub from: Time,
    /// `None`: to the end of the history.
    pub to: Option<Time>,
}

/// A firing of one side that the other has not.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    pub firing: Recorded,
    /// It was recorded and the replay has it not; else the other way.
    pub was_recorded: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Calibration {
    pub recorded: u64,
    pub reproduced: u64,
    /// Firings of the replay that nobody recorded.
    pub extra: u64,
    /// Recorded firings that may have begun before the history did.
    pub cut: u64,
    pub differences: Vec<Difference>,
    /// Why the two can differ, a sentence each.
    pub reasons: Vec<String>,
}

impl Calibration {
    /// Compares. Times may be `apart` from each other; what began before `since` is left out.
    pub fn of(recorded: &[Recorded], tracks: &Tracks, outcome: &Outcome, apart: Duration, since: Time) -> Calibration {
        let replayed = outcome.fired().map(|episode| Recorded {
            labels: tracks.tracks[episode.track].labels.clone(),
            from: episode.fired,
            to: (!episode.lasts).then_some(episode.to),
        });
        let mut replayed: Vec<Option<Recorded>> = replayed.map(Some).collect();
        let mut found =
            Calibration { recorded: 0, reproduced: 0, extra: 0, cut: 0, differences: Vec::new(), reasons: Vec::new() };
        for firing in recorded {
            let same =
                replayed.iter_mut().find(|other| other.as_ref().is_some_and(|other| is_same(firing, other, apart)));
            let taken = same.and_then(Option::take);
            if firing.from < since {
                found.cut += 1;
                continue;
            }
            found.recorded += 1;
            match taken {
                Some(_) => found.reproduced += 1,
                None => found.differ(firing.clone(), true),
            }
        }
        for firing in replayed.into_iter().flatten().filter(|firing| firing.from >= since) {
            found.extra += 1;
            found.differ(firing, false);
        }
        found.differences.sort_by_key(|difference| difference.firing.from);
        found
    }

    fn differ(&mut self, firing: Recorded, was_recorded: bool) {
        if self.differences.len() < KEPT {
            self.differences.push(Difference { firing, was_recorded });
        }
    }

    /// Whether every firing is the same on both sides.
    pub fn is_exact(&self) -> bool {
        self.reproduced == self.recorded && self.extra == 0
    }
}

fn is_same(one: &Recorded, other: &Recorded, apart: Duration) -> bool {
    let near = |a: Time, b: Time| a.since(b).max(b.since(a)) <= apart;
    let ends = match (one.to, other.to) {
        (Some(a), Some(b)) => near(a, b),
        (None, None) => true,
        _ => false,
    };
    one.labels == other.labels && near(one.from, other.from) && ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alerts::replay::{Grid, Shape, Track};
    use crate::alerts::{Compare, Condition};

    fn firing(from: i64, to: Option<i64>) -> Recorded {
        Recorded { labels: [("a".to_string(), "b".to_string())].into(), from: Time(from), to: to.map(Time) }
    }

    #[test]
    fn what_is_the_same_is_reproduced_and_what_differs_is_named() {
        let grid = Grid::new(Time(0), Duration::from_millis(10), 20);
        let over = |index: usize| (3..6).contains(&index) || (10..12).contains(&index) || index >= 18;
        let numbers = (0..20).map(|index| Some(f64::from(u8::from(over(index)))));
        let tracks = Tracks::new(grid, vec![Track::new(firing(0, None).labels, Shape::Level, grid, numbers)]);
        let outcome =
            tracks.replay(Condition { compare: Compare::Above(0.5), recover: None, hold_for: 0, keep_firing_for: 0 });
        let all = [firing(30, Some(60)), firing(100, Some(120)), firing(180, None)];
        let of = |recorded: &[Recorded], since: i64| {
            Calibration::of(recorded, &tracks, &outcome, Duration::from_millis(1), Time(since))
        };
        let exact = of(&all, 0);
        assert!(exact.is_exact() && exact.recorded == 3 && exact.differences.is_empty());
        let other = of(&[firing(30, Some(70)), firing(100, Some(120))], 0);
        assert_eq!((other.recorded, other.reproduced, other.extra), (2, 1, 2));
        let told: Vec<(i64, bool)> = other.differences.iter().map(|d| (d.firing.from.0, d.was_recorded)).collect();
        assert_eq!(told, [(30, true), (30, false), (180, false)]);
        let later = of(&all, 50);
        assert!(later.is_exact() && (later.recorded, later.cut) == (2, 1), "what began before is left out");
    }
}
