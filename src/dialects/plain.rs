//! A string that says "taken": `SET key token NX PX ttl`, the same in Lua, `SETNX` with or without `EXPIRE`.
//!
//! The dialect of hand-written locks, and the last choice for strings that no library is recognised in. If the value is
//! a Unix time, as in the oldest recipes, it is when the lock was taken or, if it is in the future, when it ends.

use super::{Claim, Dialect, Renewal, Sight, Strength, Waiting, own, shape};
use crate::base::time::Time;
use crate::lock::{Holder, Mode, RawValue};

pub struct Plain;

/// A holder's clock may be ahead of ours.
const CLOCK_SKEW_MS: i64 = 5_000;

fn holder(value: &[u8], now: Time) -> Holder {
    let mut holder = Holder::new(value);
    match shape::plausible_epoch(value, now) {
        Some(at) if at.0 <= now.0.saturating_add(CLOCK_SKEW_MS) => holder.since = Some(at),
        ahead => holder.until = ahead,
    }
    own::tell(&mut holder);
    holder
}

impl Dialect for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["*[Ll][Oo][Cc][Kk]*", "*[Mm][Uu][Tt][Ee][Xx]*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let RawValue::Str { head, len } = sight.value else { return None };
        let whole = head.len() as u64 == *len;
        let strength = if whole && shape::could_be_token(head) && shape::names_a_lock(sight.key) {
            Strength::Possible
        } else if sight.given || sight.dialect_given {
            // Any string is a lock there; one too long to be read whole is identified by its head.
            Strength::Faint
        } else {
            return None;
        };
        Some(Claim::lock(strength, Mode::Exclusive, vec![holder(head, sight.now)]))
    }

    fn renewal(&self) -> Renewal {
        Renewal::Optional { share: 1.0 / 3.0 }
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: None }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::{Time, Ttl};
    use crate::dialects::trial::*;
    use crate::lock::RawValue;

    #[test]
    fn a_one_under_a_lock_name_is_a_lock_of_nobody_known() {
        let best = found("import-lock", "1", Ttl::Never);
        assert!(perhaps(&best, "plain"));
        let holder = holder(best);
        assert_eq!((holder.since, holder.until, holder.host), (None, None, None));
    }

    #[test]
    fn a_unix_time_tells_when_it_was_taken() {
        let since = |value: &str| holder(found("import-lock", value, Ttl::Never)).since;
        assert_eq!(since("1759999000"), Some(Time(1_759_999_000_000)));
        assert_eq!(since("1759999000.25"), Some(Time(1_759_999_000_250)));
        assert_eq!(since("1759999000123"), Some(Time(1_759_999_000_123)));
        assert_eq!(since("1000000000"), None);
        assert_eq!(since("17599990"), None);
    }

    #[test]
    fn a_unix_time_ahead_tells_when_it_ends() {
        let holder = holder(found("import-lock", "1760000060", Ttl::Never));
        assert_eq!((holder.since, holder.until), (None, Some(Time(1_760_000_060_000))));
    }

    #[test]
    fn documents_are_no_locks_unless_the_user_pointed_at_them() {
        assert_no_garbage("plain", "import-lock");
        assert_eq!(names(&given("import", "{\"a\":1}", Ttl::Never)).0, "plain");
        let cut = RawValue::Str { head: b"abc"[..].into(), len: 5_000 };
        assert!(told("plain", "import", &cut).is_some());
        assert!(told("plain", "import", &RawValue::List { len: 1 }).is_none());
    }
}
