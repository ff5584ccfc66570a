//! The offset of a server's clock from ours, with the error bar that the round trip leaves, and whether it runs as fast.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::RedisResult;
use redis::aio::ConnectionLike;

/// The server's clock against ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockOffset {
    /// Positive: the server is ahead.
    pub offset_us: i64,
    /// Half the round trip: the true offset is within this distance of the measured one.
    pub error_us: u64,
    /// When it was measured, by a clock of ours that nobody sets, and what the server's clock said then.
    pub reading: Option<(Instant, i64)>,
}

impl ClockOffset {
    /// One measurement: our time at sending, the round trip, and the server's reply.
    pub fn measured(sent_us: i64, round_trip: Duration, server_us: i64) -> ClockOffset {
        let half = (round_trip.as_micros() / 2).min(i64::MAX as u128) as i64;
        let ours = sent_us.saturating_add(half);
        ClockOffset { offset_us: server_us.saturating_sub(ours), error_us: half as u64, reading: None }
    }

    /// How the server's clock went since an earlier measurement; `None`: like ours, as far as can be told.
    pub fn drift_since(&self, before: &ClockOffset) -> Option<Drift> {
        let ((then, was), (now, is)) = (before.reading?, self.reading?);
        let passed = now.saturating_duration_since(then);
        let by_counting = is.saturating_sub(was).saturating_sub(passed.as_micros().min(i64::MAX as u128) as i64);
        let by_the_wall = self.offset_us.saturating_sub(before.offset_us);
        // If our own wall clock was set, or our machine slept, only one of the two has changed.
        if by_counting.signum() != by_the_wall.signum() {
            return None;
        }
        let smaller = by_counting.unsigned_abs().min(by_the_wall.unsigned_abs());
        let certain = smaller.saturating_sub(self.error_us.saturating_add(before.error_us));
        let gained_us = (smaller.min(i64::MAX as u64) as i64) * by_counting.signum();
        (certain >= Drift::LEAST_US).then_some(Drift { gained_us, passed, at: now })
    }

    /// The part of the offset that is certain: zero where the error bar includes zero.
    pub fn certain_us(&self) -> u64 {
        self.offset_us.unsigned_abs().saturating_sub(self.error_us)
    }
}

/// What a server's clock gained against ours in some time: it jumped, or runs at another rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Drift {
    /// Below zero: it lost as much.
    pub gained_us: i64,
    pub passed: Duration,
    /// When that was seen.
    pub at: Instant,
}

impl Drift {
    /// What a clock that is kept by NTP does not do in the time between two measurements.
    const LEAST_US: u64 = 20_000;

    /// How long it is told.
    const TOLD: Duration = Duration::from_secs(600);

    pub fn is_recent(&self) -> bool {
        self.at.elapsed() < Self::TOLD
    }

    pub fn gained_ms(&self) -> i64 {
        self.gained_us / 1_000
    }

    /// In percent of the time that passed.
    pub fn rate(&self) -> f64 {
        self.gained_us as f64 / self.passed.as_micros().max(1) as f64 * 100.0
    }
}

/// Asks a few times and keeps the measurement with the shortest round trip.
pub async fn measure(conn: &mut impl ConnectionLike) -> RedisResult<ClockOffset> {
    let mut best: Option<ClockOffset> = None;
    for _ in 0..5 {
        let sent_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
        let started = Instant::now();
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query_async(conn).await?;
        let server_us = seconds.saturating_mul(1_000_000).saturating_add(micros);
        let took = started.elapsed();
        let one = ClockOffset::measured(sent_us, took, server_us);
        let one = ClockOffset { reading: Some((started + took / 2, server_us)), ..one };
        if best.is_none_or(|best| one.error_us < best.error_us) {
            best = Some(one);
        }
    }
    Ok(best.expect("the loop runs at least once"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_or_runs_fast_is_told_and_ours_is_not_blamed_on_it() {
        let start = Instant::now();
        let at = |ms: u64, server_ms: i64, ours_ms: i64| {
            let one = ClockOffset::measured(ours_ms * 1_000, Duration::from_micros(400), server_ms * 1_000);
            ClockOffset { reading: Some((start + Duration::from_millis(ms), server_ms * 1_000)), ..one }
        };
        let first = at(0, 50_000, 1_000);
        assert_eq!(at(10_000, 60_000, 11_000).drift_since(&first), None, "an offset that stays is no drift");
        assert_eq!(at(10_000, 60_019, 11_000).drift_since(&first), None, "NTP may do as much");
        let fast = at(10_000, 61_000, 11_000).drift_since(&first).unwrap();
        assert_eq!((fast.gained_ms(), fast.rate().round()), (1_000, 10.0));
        let back = at(10_000, 57_000, 11_000).drift_since(&first).unwrap();
        assert_eq!(back.gained_ms(), -3_000);
        assert_eq!(at(10_000, 60_000, 14_000).drift_since(&first), None, "our own clock was set");
        assert_eq!(at(10_000, 3_660_000, 3_611_000).drift_since(&first), None, "our machine slept for an hour");
        let slow = ClockOffset { error_us: 2_000_000, ..at(10_000, 61_000, 11_000) };
        assert_eq!(slow.drift_since(&first), None, "a long way there proves nothing");
    }

    #[test]
    fn the_way_there_is_not_an_offset() {
        let clock = ClockOffset::measured(1_000_000, Duration::from_micros(400), 1_000_200);
        assert_eq!((clock.offset_us, clock.error_us, clock.certain_us()), (0, 200, 0));
        let behind = ClockOffset::measured(10_000_000, Duration::from_millis(2), 9_000_000);
        assert_eq!((behind.offset_us, behind.certain_us()), (-1_001_000, 1_000_000));
    }
}
