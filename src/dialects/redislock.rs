//! bsm/redislock (Go): the caller's key, 16 random bytes in 22 characters of URL-safe base64, always a TTL.
//!
//! What the application gave as metadata is appended to the token, and may name the holder. One acquire may lock
//! several keys with the same value, and its release wants them all.

use super::{Claim, Dialect, IfFreed, Release, Sight, Strength, Waiting, shape, sight};
use crate::lock::{Holder, Mode};

pub struct RedisLock;

const TOKEN_LEN: usize = 22;
const LONGEST_METADATA: usize = 1000;

fn judge(sight: &Sight<'_>, value: &[u8]) -> Option<Strength> {
    let (token, metadata) = value.split_at_checked(TOKEN_LEN)?;
    let random =
        shape::is_base64_url(token, TOKEN_LEN) && shape::ends_as_16_bytes(token) && shape::is_mixed_case(token);
    if !random || !sight.has_ttl() {
        return None;
    }
    if metadata.is_empty() {
        // redlock-py has 22 characters too, but only one in fifteen of its tokens ends like this.
        return sight.guess(Strength::Likely);
    }
    let text = std::str::from_utf8(metadata).ok()?;
    let plain = !text.chars().any(char::is_control) && metadata.len() <= LONGEST_METADATA;
    if plain && token.iter().any(u8::is_ascii_digit) { sight.guess(Strength::Likely) } else { None }
}

impl Dialect for RedisLock {
    fn name(&self) -> &'static str {
        "redislock"
    }

    fn facts(&self) -> &'static [&'static str] {
        &["Since 0.10 one script takes several keys at once: MSETNX, then PEXPIRE of each."]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let value = sight.token()?;
        let strength = sight.told_or(|| judge(sight, value))?;
        let client = value.get(TOKEN_LEN..).and_then(sight::name);
        Some(Claim::lock(strength, Mode::Exclusive, vec![Holder { client, ..Holder::new(value) }]))
    }

    fn made_for_each_hold<'a>(&self, token: &'a [u8]) -> &'a [u8] {
        token.get(..TOKEN_LEN).unwrap_or(token)
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its Release() returns ErrLockNotHeld")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: None }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key).warn("One acquire can lock several keys with the same value: free those too.")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;
    use crate::lock::RawValue;

    #[test]
    fn metadata_after_the_token_names_the_holder() {
        let best = found("lock.invoice.9", "q83kL-0pZt_1xYbW7mNcRgbilling-7f4d", seconds(30));
        assert!(perhaps(&best, "redislock"));
        assert_eq!(holder(best).client.as_ref().map(|text| text.visible()).as_deref(), Some("billing-7f4d"));
    }

    #[test]
    fn metadata_does_not_hide_that_the_token_is_random() {
        use crate::dialects::{Dialect, unique};
        let own = |token: &'static str| super::RedisLock.made_for_each_hold(token.as_bytes());
        let (random, host) = ("q-oZ5RVloZeU_-BgegCzVgpacker@depot-2", "worker-at-the-packing-depot-2");
        assert!(!unique::is_unique(random.as_bytes()), "the whole of it looks like words");
        assert!(unique::is_unique(own(random)));
        assert!(!unique::is_unique(own(host)) && !unique::is_unique(own("1")));
    }

    #[test]
    fn a_token_without_metadata_names_nobody() {
        let best = found("lock.invoice.9", "q83kL-0pZt_1xYbW7mNcRg", seconds(30));
        assert_eq!(names(&best), ("redislock", "plain"));
        assert_eq!(holder(best).client, None);
    }

    #[test]
    fn without_dash_and_underscore_it_may_be_redlock_py() {
        assert_eq!(names(&found("lock.invoice.9", "q83kLX0pZtY1xYbW7mNcRg", seconds(30))), ("redislock", "plain"));
        assert_eq!(names(&found("lock.invoice.9", "q83kLX0pZtY1xYbW7mNcRz", seconds(30))).0, "redlock-py");
    }

    #[test]
    fn sentences_and_names_are_no_tokens() {
        for value in ["production-web-server-g01.eu", "q83kL-0pZt_1xYbW7mNcRz", "Some words that are a text"] {
            assert_ne!(names(&found("lock.invoice.9", value, seconds(30))).0, "redislock", "{value}");
        }
        assert_ne!(names(&found("lock.invoice.9", "q83kL-0pZt_1xYbW7mNcRg", Ttl::Never)).0, "redislock");
        assert_no_garbage("redislock", "lock.invoice.9");
    }

    #[test]
    fn metadata_cannot_drive_the_terminal() {
        let claim = mapped("redislock", "x", &RawValue::string(b"q83kL-0pZt_1xYbW7mNcRg\x1b[2J")).unwrap();
        assert_eq!(claim.holders[0].client.as_ref().map(|text| text.visible()).as_deref(), Some("\\u{1b}[2J"));
    }
}
