//! redis-py's `Lock`, and what is built on it without a key of its own kind, such as django-redis' `cache.lock`.
//!
//! The key is the caller's. The token is a UUIDv1 in hex: it contains when `acquire()` was called, which is earlier than
//! when the lock was got if the caller had to wait, and which machine called. Without `timeout` there is no TTL.

use super::{Claim, Dialect, IfFreed, Sight, Strength, Waiting, shape};
use crate::base::server_text::ServerText;
use crate::base::time::Time;
use crate::lock::{Holder, Mode};

pub struct RedisPy;

/// 2010-01-01: an older time is a coincidence.
const OLDEST: Time = Time(1_262_304_000_000);
const CLOCK_SKEW_MS: i64 = 86_400_000;

/// When the token was made. Only one random hex token in ten thousand contains a plausible time.
pub(super) fn token_time(token: &[u8], now: Time) -> Option<Time> {
    let at = shape::uuid1_hex_time(token)?;
    (at >= OLDEST && at.0 <= now.0.saturating_add(CLOCK_SKEW_MS)).then_some(at)
}

/// The MAC address in the token. A multicast address is not a card's but a random replacement.
fn network_card(token: &[u8]) -> Option<String> {
    let node = std::str::from_utf8(token.get(20..32)?).ok()?;
    let octets: Vec<&str> = (0..6).map(|i| &node[2 * i..2 * i + 2]).collect();
    let first = u8::from_str_radix(octets[0], 16).ok()?;
    (first & 1 == 0 && node != "000000000000").then(|| format!("mac {}", octets.join(":")))
}

/// The holder behind a redis-py token, whatever key it is under.
pub(super) fn holder(token: &[u8], now: Time) -> Holder {
    let since = token_time(token, now);
    let host = since.and_then(|_| network_card(token)).map(ServerText::from);
    Holder { since, host, ..Holder::new(token) }
}

impl Dialect for RedisPy {
    fn name(&self) -> &'static str {
        "redis-py"
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            token_time(token, sight.now)?;
            sight.weigh(Strength::Sure, Strength::Sure)
        })?;
        Some(Claim::lock(strength, Mode::Exclusive, vec![holder(token, sight.now)]))
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its release() raises LockNotOwnedError")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(100)
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::{Time, Ttl};
    use crate::dialects::trial::*;
    use crate::lock::RawValue;

    #[test]
    fn a_redis_py_token_tells_when_acquire_was_called() {
        let best = found("lock:orders", UUID1_HEX, Ttl::Never);
        assert!(surely(&best, "redis-py"));
        assert_eq!(holder(best).since, Some(Time(1_645_557_742_000)));
    }

    #[test]
    fn a_redis_py_token_names_the_network_card_but_not_a_random_number() {
        let host = |token| holder(found("orders.lock", token, Ttl::Never)).host;
        assert_eq!(host("c232ab00941411ecb3c80242ac110002"), Some("mac 02:42:ac:11:00:02".into()));
        assert_eq!(host(UUID1_HEX), None);
    }

    #[test]
    fn a_lock_through_the_django_cache_is_one_of_redis_py() {
        assert!(surely(&found(":1:report-lock", UUID1_HEX, seconds(60)), "redis-py"));
    }

    #[test]
    fn random_hex_is_not_taken_for_a_redis_py_token() {
        for hex in
            ["c232ab00941441ecb3c89f6bdeced846", "c232ab0094141fffb3c89f6bdeced846", "c232ab00941411ec73c89f6bdeced846"]
        {
            assert_ne!(names(&found("lock:orders", hex, seconds(5))).0, "redis-py", "{hex}");
        }
        assert_no_garbage("redis-py", "lock:orders");
    }

    #[test]
    fn a_pattern_by_the_user_makes_up_for_a_name_without_lock() {
        assert!(surely(&given("orders:17", UUID1_HEX, seconds(5)), "redis-py"));
        assert_eq!(names(&found("orders:17", UUID1_HEX, seconds(5))), ("", ""));
    }

    #[test]
    fn a_token_of_the_callers_own_is_taken_where_we_were_told() {
        let claim = mapped("redis-py", "orders", &RawValue::string(b"worker 7")).unwrap();
        assert_eq!(claim.holders[0].since, None);
        assert_eq!(claim.holders[0].token.as_bytes(), b"worker 7");
    }
}
