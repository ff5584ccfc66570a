//! rslock (Rust): the caller's key, 20 random bytes as they are, always a TTL.
//!
//! Nobody else among the known libraries writes raw bytes, and hardly any 20 of them are text by chance.

use super::{Claim, Dialect, Release, Sight, Strength, Waiting};

pub struct RsLock;

impl Dialect for RsLock {
    fn name(&self) -> &'static str {
        "rslock"
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            let random = token.len() == 20 && std::str::from_utf8(token).is_err();
            if random && sight.has_ttl() { sight.weigh(Strength::Sure, Strength::Likely) } else { None }
        })?;
        Some(Claim::exclusive(strength, token))
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(100)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key).warn_of_copies()
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;

    const RAW: &[u8] = b"\x9f\x02\xa1\xffabc\x00\xfe\x81\x13\x37\xc0\xde\xd0\x0d\x99\x88\x77\x66";

    #[test]
    fn twenty_raw_bytes_are_rslock() {
        assert!(surely(&found("mutex-orders", RAW, seconds(10)), "rslock"));
        assert!(perhaps(&given("orders", RAW, seconds(10)), "rslock"));
    }

    #[test]
    fn other_bytes_are_not() {
        assert_ne!(names(&found("mutex-orders", &RAW[..19], seconds(10))).0, "rslock");
        assert_ne!(names(&found("mutex-orders", "twenty-characters-ok", seconds(10))).0, "rslock");
        assert_ne!(names(&found("mutex-orders", RAW, Ttl::Never)).0, "rslock");
        assert_no_garbage("rslock", "mutex-orders");
    }
}
