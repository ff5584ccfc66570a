//! The offset of a server's clock from ours, with the error bar that the round trip leaves.

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
}

impl ClockOffset {
    /// One measurement: our time at sending, the round trip, and the server's reply.
    pub fn measured(sent_us: i64, round_trip: Duration, server_us: i64) -> ClockOffset {
        let half = (round_trip.as_micros() / 2).min(i64::MAX as u128) as i64;
        let ours = sent_us.saturating_add(half);
        ClockOffset { offset_us: server_us.saturating_sub(ours), error_us: half as u64 }
    }

    /// The part of the offset that is certain: zero where the error bar includes zero.
    pub fn certain_us(&self) -> u64 {
        self.offset_us.unsigned_abs().saturating_sub(self.error_us)
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
        let one = ClockOffset::measured(sent_us, started.elapsed(), server_us);
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
    fn the_way_there_is_not_an_offset() {
        let clock = ClockOffset::measured(1_000_000, Duration::from_micros(400), 1_000_200);
        assert_eq!((clock.offset_us, clock.error_us, clock.certain_us()), (0, 200, 0));
        let behind = ClockOffset::measured(10_000_000, Duration::from_millis(2), 9_000_000);
        assert_eq!((behind.offset_us, behind.certain_us()), (-1_001_000, 1_000_000));
    }
}
