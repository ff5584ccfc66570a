//! The values of a rule over time, as few as a picture needs: of each part of the time the least and the most of all alerts.

use crate::alerts::replay::Tracks;
use crate::base::time::Time;

/// More than any terminal has columns.
pub const PARTS: usize = 512;

/// A picture of some tracks.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Profile {
    /// `None` where nothing is known.
    parts: Vec<Option<(f64, f64)>>,
    from: Time,
    to: Time,
}

impl Profile {
    pub fn of(tracks: &Tracks) -> Profile {
        let grid = tracks.grid;
        let count = PARTS.min(grid.count as usize).max(1);
        let firsts: Vec<u32> = (0..=count).map(|part| first_of(part, count, grid.count)).collect();
        let mut parts: Vec<(f64, f64)> = vec![(f64::INFINITY, f64::NEG_INFINITY); count];
        for track in &tracks.tracks {
            let mut at = 0;
            for (range, number) in track.pieces(&grid) {
                while firsts.get(at + 1).is_some_and(|next| *next <= range.start) {
                    at += 1;
                }
                let Some(number) = number else { continue };
                let reached = firsts[at..count].iter().take_while(|first| **first < range.end).count();
                for (part, (least, most)) in parts.iter_mut().enumerate().skip(at).take(reached) {
                    // The evaluations of this part that the piece has.
                    for index in [firsts[part].max(range.start), firsts[part + 1].min(range.end) - 1] {
                        let value = track.shape().at(number, grid.at(index));
                        (*least, *most) = (least.min(value), most.max(value));
                    }
                }
            }
        }
        let known = |(least, most): (f64, f64)| (least <= most).then_some((least, most));
        let parts = parts.into_iter().map(known).collect();
        Profile { parts, from: grid.first, to: grid.at(grid.count.saturating_sub(1)) }
    }

    /// The same in so many parts.
    pub fn in_parts(&self, count: usize) -> Vec<Option<(f64, f64)>> {
        let of = |at: usize| {
            let first = at * self.parts.len() / count.max(1);
            let end = ((at + 1) * self.parts.len()).div_ceil(count.max(1)).min(self.parts.len());
            let known = self.parts.get(first..end).unwrap_or_default().iter().flatten();
            known.copied().reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
        };
        (0..count).map(of).collect()
    }

    /// The part of so many that a time falls into.
    pub fn part(&self, at: Time, count: usize) -> usize {
        let (all, since) = (self.to.ms_since(self.from).max(1), at.ms_since(self.from));
        (since.saturating_mul(count as u64) / all).min(count.saturating_sub(1) as u64) as usize
    }

    pub fn span(&self) -> (Time, Time) {
        (self.from, self.to)
    }

    /// The least and the most of all.
    pub fn extremes(&self) -> Option<(f64, f64)> {
        self.in_parts(1).pop().flatten()
    }
}

/// The first evaluation of a part.
fn first_of(part: usize, parts: usize, evaluations: u32) -> u32 {
    ((part as u64 * u64::from(evaluations)).div_ceil(parts as u64)) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::alerts::replay::{Grid, Shape, Track};

    fn tracks(shape: Shape, numbers: &[Option<f64>]) -> Tracks {
        let grid = Grid::new(Time(10_000), Duration::from_secs(5), numbers.len() as u32);
        Tracks::new(grid, vec![Track::new(BTreeMap::new(), shape, grid, numbers.iter().copied())])
    }

    #[test]
    fn a_short_spike_is_in_the_picture_of_a_long_time_and_a_gap_is_a_gap() {
        let mut numbers = vec![Some(1.0); 5_000];
        numbers[3_123] = Some(9.0);
        numbers[3_900..4_600].fill(None);
        let profile = Profile::of(&tracks(Shape::Level, &numbers));
        let ten = profile.in_parts(10);
        assert_eq!((ten[6], ten[5], ten[8]), (Some((1.0, 9.0)), Some((1.0, 1.0)), None), "{ten:?}");
        assert_eq!(profile.part(Time(10_000 + 3_123 * 5_000), 10), 6);
    }

    #[test]
    fn an_age_grows_within_its_picture() {
        let profile = Profile::of(&tracks(Shape::Age, &[Some(10.0); 100]));
        assert_eq!(profile.extremes(), Some((0.0, 495.0)));
        assert_eq!(profile.in_parts(2)[0], Some((0.0, 245.0)));
    }
}
