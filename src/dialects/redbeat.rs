//! RedBeat: the one lock by which only one Celery beat schedules, `redbeat::lock`.
//!
//! A redis-py lock. The beat that holds it puts it back to its full length on every tick, at least five times within
//! it; the others ask again once per longest tick. A beat that finds its lock gone dies.

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Strength, Waiting, redis_py, shape};
use crate::lock::Mode;

pub struct RedBeat;

impl Dialect for RedBeat {
    fn name(&self) -> &'static str {
        "redbeat"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["redbeat*:lock"]
    }

    /// The schedule, the names of the static entries, and the entries themselves.
    fn is_helper(&self, key: &[u8]) -> bool {
        let beside = |suffix: &[u8]| key.ends_with(suffix);
        key.starts_with(b"redbeat") && key.contains(&b':') && (beside(b":schedule") || beside(b":statics"))
            || key.starts_with(b"redbeat:") && !key.ends_with(b":lock")
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            if !sight.key.starts_with(b"redbeat") || !sight.key.ends_with(b":lock") {
                None
            } else if redis_py::token_time(token, sight.now).is_some() {
                Some(Strength::Certain)
            } else {
                shape::could_be_token(token).then_some(Strength::Sure)
            }
        })?;
        Some(Claim::lock(strength, Mode::Exclusive, vec![redis_py::holder(token, sight.now)]))
    }

    fn renewal(&self) -> Renewal {
        Renewal::Watchdog { share: 0.2 }
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its beat ends with an error when it extends the lock")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(300_000)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
            .warn(
                "A beat that still holds it dies at its next tick: make sure that it is restarted, or that another one is running.",
            )
            .warn("A standby beat asks only every few minutes; nothing is scheduled until then.")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;
    use crate::lock::RawValue;

    #[test]
    fn the_lock_of_the_beat_is_not_just_any_redis_py_lock() {
        assert!(surely(&found("redbeat::lock", UUID1_HEX, seconds(1500)), "redbeat"));
        assert!(surely(&found("redbeat-eu:lock", UUID1_HEX, seconds(1500)), "redbeat"));
        assert!(surely(&found("beat:lock", UUID1_HEX, seconds(1500)), "redis-py"));
    }

    #[test]
    fn the_schedule_beside_it_is_no_lock() {
        // As RedBeat stores it: a sorted set of entries by due time, and each entry as a hash.
        let schedule = RawValue::zset([(&b"redbeat:nightly"[..], 1_760_000_060.0)]);
        let entry = RawValue::hash([(&b"definition"[..], &br#"{"name": "nightly", "task": "shop.nightly"}"#[..])]);
        for (key, value) in [("redbeat::schedule", schedule), ("redbeat:nightly", entry)] {
            assert!(found_value(key, &value, Ttl::Never).is_none(), "{key}");
            assert!(mapped("redbeat", key, &value).is_none(), "{key}");
        }
        assert_no_garbage("redbeat", "redbeat::lock");
    }

    #[test]
    fn what_it_keeps_beside_its_lock_is_not_listed_under_a_pattern_of_the_user() {
        // An entry that is due in a minute looks like a lease that ends then.
        let schedule = RawValue::zset([(&b"redbeat:nightly"[..], NOW.0 as f64 / 1_000.0 + 60.0)]);
        for key in ["redbeat::schedule", "redbeat-eu::schedule", "redbeat::statics", "redbeat:nightly"] {
            assert!(given_value(key, &schedule, Ttl::Never).is_none(), "{key}");
            assert_eq!(names(&given(key, "17", Ttl::Never)), ("", ""), "{key}");
        }
        assert!(surely(&given("redbeat::lock", UUID1_HEX, seconds(1500)), "redbeat"));
    }
}
