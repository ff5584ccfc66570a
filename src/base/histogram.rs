//! A histogram in little memory: counts in buckets whose width grows with the number. Pure.
//!
//! Each doubling has `FINE` buckets, so a bucket is at most 1/`FINE` of its number wide. There are `ROOM` buckets; larger
//! numbers count in the last one. No bucket is allocated before the first number. The caller chooses the unit.

#[derive(Clone, Debug, Default)]
pub struct Histogram<const FINE: u64, const ROOM: usize> {
    counts: Option<Box<[u32; ROOM]>>,
    count: u64,
    most: u64,
}

impl<const FINE: u64, const ROOM: usize> Histogram<FINE, ROOM> {
    pub fn add(&mut self, number: u64) {
        let counts = self.counts.get_or_insert_with(|| Box::new([0; ROOM]));
        let bucket = &mut counts[bucket::<FINE>(number).min(ROOM - 1)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
        self.most = self.most.max(number);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The exact maximum; `None` if the histogram is empty.
    pub fn most(&self) -> Option<u64> {
        (self.count > 0).then_some(self.most)
    }

    /// A percentile, too large by at most the width of a bucket.
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let wanted = (self.count as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let within = self.counts.as_ref()?.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        })?;
        Some(end::<FINE>(within).min(self.most))
    }
}

/// Exact up to twice `FINE`, then `FINE` buckets for each doubling.
fn bucket<const FINE: u64>(number: u64) -> usize {
    if number < 2 * FINE {
        return number as usize;
    }
    let shift = u64::from(number.ilog2() - FINE.ilog2());
    (shift * FINE + (number >> shift)) as usize
}

/// The largest number in a bucket.
fn end<const FINE: u64>(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * FINE {
        return bucket;
    }
    let shift = bucket / FINE - 1;
    ((bucket - shift * FINE + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_order<const FINE: u64>(room: usize) -> u64 {
        for index in 1..room {
            let before = end::<FINE>(index - 1);
            assert!(end::<FINE>(index) > before);
            assert_eq!((bucket::<FINE>(before + 1), bucket::<FINE>(end::<FINE>(index))), (index, index));
            assert!(end::<FINE>(index) - before <= 1 + before / FINE, "{index}");
        }
        end::<FINE>(room - 1)
    }

    #[test]
    fn buckets_follow_each_other_and_are_no_wider_than_they_should_be() {
        assert!(in_order::<32>(1_120) > 24 * 3600 * 1_000_000, "a day of microseconds has a bucket of its own");
        assert!(in_order::<8>(216) > 5 * 24 * 3600 * 1_000, "five days of milliseconds");
    }

    #[test]
    fn percentiles_are_close_to_the_truth() {
        let mut spread: Histogram<8, 216> = Histogram::default();
        (1..=10_000_u64).for_each(|number| spread.add(number * 7));
        for percent in [1.0, 50.0, 90.0, 99.0, 100.0] {
            let truth = percent * 100.0 * 7.0;
            let found = spread.percentile(percent).unwrap() as f64;
            assert!((truth..=truth * 1.125).contains(&found), "p{percent}: {found}, not {truth}");
        }
        assert_eq!((spread.count(), spread.most()), (10_000, Some(70_000)));
    }

    #[test]
    fn none_has_no_percentile_and_what_is_beyond_all_buckets_is_counted() {
        let mut spread: Histogram<8, 16> = Histogram::default();
        assert_eq!((spread.percentile(50.0), spread.most()), (None, None));
        spread.add(u64::MAX);
        assert_eq!((spread.percentile(50.0), spread.most()), (Some(15), Some(u64::MAX)));
    }
}
