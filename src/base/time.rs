//! Time in the model: milliseconds since the Unix epoch. It is always an argument; nothing here reads a clock.

use std::ops::{Add, Sub};
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// A point in time, in milliseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Time(pub i64);

impl Time {
    /// The time since `earlier`; zero if it lies ahead.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0) as u64)
    }

    /// The same in milliseconds: cheaper, for what every lock is asked.
    pub fn ms_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0).max(0) as u64
    }

    /// From a server's reply to TIME. `None` after the year 9999: no real clock says that, and sums could overflow.
    pub fn of_server(seconds: i64, micros: i64) -> Option<Time> {
        const LAST: i64 = 253_402_300_799;
        (0..=LAST).contains(&seconds).then(|| Time(seconds * 1_000 + micros.clamp(0, 999_999) / 1_000))
    }

    /// From a text as [`Time::rfc3339`] writes it.
    pub fn of_rfc3339(text: &str) -> Option<Time> {
        DateTime::parse_from_rfc3339(text).ok().map(|at| Time(at.timestamp_millis()))
    }

    /// RFC 3339 in UTC with milliseconds, as the JSON output writes it.
    pub fn rfc3339(self) -> String {
        DateTime::<Utc>::from_timestamp_millis(self.0)
            .map(|at| at.to_rfc3339_opts(SecondsFormat::Millis, true))
            .unwrap_or_else(|| format!("{}ms", self.0))
    }
}

/// An `Option<Time>` that takes no more room than a `Time`, for what is kept a million times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaybeTime(i64);

impl MaybeTime {
    pub const NONE: MaybeTime = MaybeTime(i64::MIN);

    pub fn get(self) -> Option<Time> {
        (self != MaybeTime::NONE).then_some(Time(self.0))
    }
}

impl From<Option<Time>> for MaybeTime {
    fn from(time: Option<Time>) -> MaybeTime {
        time.map_or(MaybeTime::NONE, |time| MaybeTime(time.0.max(i64::MIN + 1)))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, rhs: Duration) -> Time {
        Time(self.0.saturating_add(rhs.as_millis().min(i64::MAX as u128) as i64))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, rhs: Duration) -> Time {
        Time(self.0.saturating_sub(rhs.as_millis().min(i64::MAX as u128) as i64))
    }
}

/// What is left of a key's life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ttl {
    /// The key has no expiry at all.
    Never,
    In(Duration),
}

impl Ttl {
    /// From the reply to PTTL, in milliseconds, capped so that sums can't overflow. `None` if there is no key.
    pub fn of_pttl(ms: i64) -> Option<Ttl> {
        const LONGEST: i64 = i64::MAX / 4;
        match ms {
            -1 => Some(Ttl::Never),
            0.. => Some(Ttl::In(Duration::from_millis(ms.min(LONGEST) as u64))),
            _ => None,
        }
    }

    pub fn remaining(self) -> Option<Duration> {
        match self {
            Ttl::Never => None,
            Ttl::In(left) => Some(left),
        }
    }
}

/// The longest duration that is accepted; a longer one is a typing mistake.
const LONGEST: Duration = Duration::from_secs(100 * 366 * 86_400);

/// A duration such as `500ms`, `30s`, `5m` or `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if duration > LONGEST => Err("a duration is 100 years at most".into()),
        Ok(duration) => Ok(duration),
        Err(_) => Err("a duration is written 500ms, 30s, 5m or 2h".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_after_the_year_9999_is_none() {
        assert_eq!(Time::of_server(1_763_000_000, 999_999), Some(Time(1_763_000_000_999)));
        assert_eq!(Time::of_server(0, i64::MAX), Some(Time(999)));
        assert_eq!([i64::MAX, 253_402_300_800, -1].map(|seconds| Time::of_server(seconds, 0)), [None; 3]);
    }

    #[test]
    fn a_time_is_read_as_it_was_written() {
        let at = Time(1_763_000_000_123);
        assert_eq!(Time::of_rfc3339(&at.rfc3339()), Some(at));
        assert_eq!(["", "yesterday", "99ms"].map(Time::of_rfc3339), [None; 3]);
    }

    #[test]
    fn a_time_that_may_be_missing_comes_back_as_it_was_and_the_first_of_all_is_not_missing() {
        for time in [None, Some(Time(i64::MIN + 1)), Some(Time(0)), Some(Time(i64::MAX))] {
            assert_eq!(MaybeTime::from(time).get(), time);
        }
        assert!(MaybeTime::from(Some(Time(i64::MIN))).get().is_some());
        assert_eq!(size_of::<MaybeTime>(), size_of::<Time>());
    }

    #[test]
    fn what_a_lying_server_says_of_a_ttl_can_be_added_up() {
        let left = Ttl::of_pttl(i64::MAX).and_then(Ttl::remaining).expect("a TTL");
        let now = Time(4_102_444_800_000);
        assert!((now + left + left).0 < i64::MAX, "no sum of two is cut off");
        assert_eq!((Ttl::of_pttl(-1), Ttl::of_pttl(-2), Ttl::of_pttl(i64::MIN)), (Some(Ttl::Never), None, None));
    }
}
