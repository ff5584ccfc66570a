//! Counts of durations with fixed upper bounds, as Prometheus' classic histograms want them.

/// Upper bounds in seconds: how long locks are held.
pub const HOLD: [f64; 10] = [0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0];
/// From one lease to its renewal.
pub const RENEWAL: [f64; 9] = [0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0];
/// From the end of a hold to the next acquire.
pub const HAND_OVER: [f64; 9] = [0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0];

/// How many durations were at most as long as each bound and longer than the one before, and their sum.
#[derive(Clone, PartialEq, Debug)]
pub struct Buckets<const N: usize> {
    within: [u64; N],
    count: u64,
    sum_ms: u64,
}

impl<const N: usize> Default for Buckets<N> {
    fn default() -> Buckets<N> {
        Buckets { within: [0; N], count: 0, sum_ms: 0 }
    }
}

impl<const N: usize> Buckets<N> {
    pub(super) fn add(&mut self, bounds: &[f64; N], ms: u64) {
        let seconds = ms as f64 / 1_000.0;
        if let Some(bucket) = self.within.get_mut(bounds.partition_point(|bound| *bound < seconds)) {
            *bucket += 1;
        }
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }

    /// How many were at most as long as each bound.
    pub fn cumulative(&self) -> impl Iterator<Item = u64> {
        self.within.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        })
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn sum_s(&self) -> f64 {
        self.sum_ms as f64 / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_each_bucket_that_is_long_enough() {
        let mut buckets = Buckets::default();
        for ms in [0, 1, 2, 10_000, 10_001] {
            buckets.add(&HAND_OVER, ms);
        }
        assert_eq!(buckets.cumulative().collect::<Vec<u64>>(), [2, 3, 3, 3, 3, 3, 3, 3, 4]);
        assert_eq!((buckets.count(), buckets.sum_s()), (5, 20.004));
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [&HOLD[..], &RENEWAL, &HAND_OVER] {
            assert!(bounds.is_sorted_by(|a, b| a < b));
        }
    }
}
