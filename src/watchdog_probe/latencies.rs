//! How long many answers took, in little room: counts in buckets, each 3 % wide. Pure.
//!
//! A probe that runs for a day keeps no more than one that runs for a second.

use std::time::Duration;

/// Buckets for each doubling.
const FINE: u64 = 32;
/// Up to 2^38 microseconds, three days; what is longer counts as that.
const DOUBLINGS: u64 = 38;
const BUCKETS: usize = (FINE * (DOUBLINGS - 3)) as usize;

#[derive(Clone, Debug)]
pub struct Latencies {
    counts: Box<[u32; BUCKETS]>,
    count: u64,
    most: Duration,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { counts: Box::new([0; BUCKETS]), count: 0, most: Duration::ZERO }
    }
}

impl Latencies {
    pub fn add(&mut self, took: Duration) {
        let bucket = &mut self.counts[bucket(took.as_micros().min(u128::from(u64::MAX)) as u64)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
        self.most = self.most.max(took);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exactly; `None` of none.
    pub fn most(&self) -> Option<Duration> {
        (self.count > 0).then_some(self.most)
    }

    /// What so many of a hundred stayed within, at most 3 % too long.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let wanted = (self.count as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let within = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        })?;
        Some(Duration::from_micros(end(within)).min(self.most))
    }
}

/// Exact up to `FINE` microseconds, then `FINE` buckets for each doubling.
fn bucket(micros: u64) -> usize {
    if micros < 2 * FINE {
        return micros as usize;
    }
    let shift = u64::from(micros.ilog2() - FINE.ilog2());
    let bucket = shift * FINE + (micros >> shift);
    (bucket as usize).min(BUCKETS - 1)
}

/// The largest number of microseconds in a bucket.
fn end(bucket: usize) -> u64 {
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

    #[test]
    fn buckets_follow_each_other_and_are_three_percent_wide() {
        let mut before = 0;
        for index in 1..BUCKETS {
            assert!(end(index) > end(index - 1));
            assert_eq!((bucket(end(index - 1) + 1), bucket(end(index))), (index, index));
            before = end(index - 1);
            assert!(end(index) - before <= 1 + before / FINE, "{index}");
        }
        assert!(before > 24 * 3600 * 1_000_000, "a day has a bucket of its own");
    }

    #[test]
    fn percentiles_are_close_to_the_truth() {
        let mut latencies = Latencies::default();
        (1..=10_000_u64).for_each(|number| latencies.add(Duration::from_micros(number * 7)));
        for percent in [1.0, 50.0, 90.0, 99.0, 100.0] {
            let truth = percent * 100.0 * 7.0;
            let found = latencies.percentile(percent).unwrap().as_micros() as f64;
            assert!((truth..=truth * 1.032).contains(&found), "p{percent}: {found}, not {truth}");
        }
        assert_eq!((latencies.count(), latencies.most()), (10_000, Some(Duration::from_micros(70_000))));
    }

    #[test]
    fn one_is_all_percentiles_and_none_has_no_percentile() {
        let mut latencies = Latencies::default();
        assert_eq!((latencies.percentile(50.0), latencies.most()), (None, None));
        latencies.add(Duration::from_millis(100));
        assert_eq!(latencies.percentile(50.0), Some(Duration::from_millis(100)));
        assert_eq!(latencies.percentile(99.0), latencies.most());
    }

    #[test]
    fn what_is_beyond_all_buckets_is_counted() {
        let mut latencies = Latencies::default();
        latencies.add(Duration::MAX);
        assert!(latencies.percentile(50.0).unwrap() > Duration::from_secs(86_400));
    }
}
