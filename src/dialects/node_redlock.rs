//! node-redlock: the caller's key, 32 random hex digits, always a TTL.
//!
//! One acquire may lock several keys with the same value, and each key on several servers. Many other things are 32
//! hex digits, so this is a guess; a UUID in hex is more likely somebody's own code, or redis-py's.

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Strength, Waiting, redis_py, shape};

pub struct NodeRedlock;

fn is_uuid4_hex(hex: &[u8]) -> bool {
    hex[12] == b'4' && matches!(hex[16], b'8' | b'9' | b'a' | b'b')
}

impl Dialect for NodeRedlock {
    fn name(&self) -> &'static str {
        "redlock"
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            if !shape::is_hex(token, 32) || !sight.has_ttl() || redis_py::token_time(token, sight.now).is_some() {
                None
            } else if is_uuid4_hex(token) {
                sight.guess(Strength::Faint)
            } else {
                sight.guess(Strength::Likely)
            }
        })?;
        Some(Claim::exclusive(strength, token))
    }

    fn renewal(&self) -> Renewal {
        // `using()` extends shortly before the end, for any lease.
        Renewal::Optional { share: 0.9 }
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its release() rejects")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(200)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
            .warn("One acquire can lock several keys with the same value: free those too.")
            .warn_of_copies()
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;

    const RANDOM: &str = "f3a9c07be15d28466cb1709e5ad2488f";

    #[test]
    fn random_hex_on_a_lock_is_a_guess_with_plain_behind_it() {
        let best = found("locks:account:9", RANDOM, seconds(5));
        assert!(perhaps(&best, "redlock"));
        assert_eq!(names(&best).1, "plain");
        assert!(perhaps(&given("account:9", RANDOM, seconds(5)), "redlock"));
    }

    #[test]
    fn it_never_locks_without_a_ttl() {
        assert_eq!(names(&found("locks:account:9", RANDOM, Ttl::Never)).0, "plain");
    }

    #[test]
    fn a_uuid_in_hex_is_more_likely_somebody_elses() {
        assert_eq!(
            names(&found("locks:account:9", "0b5e7c1a94f24d3b8e6a2f1c9d7b3a50", seconds(5))),
            ("plain", "redlock")
        );
        assert!(surely(&found("locks:account:9", UUID1_HEX, seconds(5)), "redis-py"));
    }

    #[test]
    fn other_hex_is_not_taken() {
        for value in ["F3A9C07BE15D28466CB1709E5AD2488F", "f3a9c07b", "f3a9c07be15d28466cb1709e5ad2488ff"] {
            assert_ne!(names(&found("locks:account:9", value, seconds(5))).0, "redlock", "{value}");
        }
        assert_no_garbage("redlock", "locks:account:9");
    }
}
