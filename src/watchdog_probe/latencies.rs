//! A histogram of latencies, in buckets 3 % wide. Pure.
//!
//! A probe that runs for a day takes no more memory than one that runs for a second.

use std::time::Duration;

use crate::base::histogram::Histogram;

/// In microseconds, up to three days; longer ones count as that.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Histogram<32, 1_120>);

impl Latencies {
    pub fn add(&mut self, took: Duration) {
        self.0.add(took.as_micros().min(u128::from(u64::MAX)) as u64);
    }

    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// The longest, to the microsecond; `None` if there is none.
    pub fn most(&self) -> Option<Duration> {
        self.0.most().map(Duration::from_micros)
    }

    /// A percentile, at most 3 % too long.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        self.0.percentile(percent).map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
