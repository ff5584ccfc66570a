//! Whether the engine's clock still tells the time of the day.
//!
//! The engine reads the wall clock once and then counts. When the wall clock is set, or the machine sleeps, its times are
//! wrong from then on, and so are the ages that a Prometheus computes from them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::time::Time;

/// From here on a difference is no accident of scheduling.
const APART: Duration = Duration::from_secs(1);

/// By how much the time of day differs from `now`, in a sentence, if that matters.
pub fn apart(now: Time) -> Option<String> {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    sentence(Time(wall.as_millis() as i64), now)
}

fn sentence(wall: Time, now: Time) -> Option<String> {
    let apart = wall.since(now).max(now.since(wall));
    let way = if wall > now { "ahead of" } else { "behind" };
    (apart >= APART).then(|| {
        format!(
            "the clock is {:.1}s {way} the time since the start: it was set, or the machine slept; starting again",
            apart.as_secs_f64()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_is_noticed_and_a_late_turn_is_not() {
        assert_eq!(sentence(Time(10_900), Time(10_000)), None);
        assert_eq!(sentence(Time(10_000), Time(10_999)), None);
        assert!(sentence(Time(20_000), Time(10_000)).unwrap().contains("10.0s ahead"));
        assert!(sentence(Time(10_000), Time(11_000)).unwrap().contains("1.0s behind"));
    }
}
