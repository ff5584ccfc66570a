//! redsync (Go): the caller's key, 16 random bytes in base64 with padding, always a TTL (8 s by default).
//!
//! The same 24 characters come out of anybody's `base64(random 16 bytes)`, so it is a guess.

use super::{Claim, Dialect, IfFreed, Release, Sight, Strength, Waiting, shape};

pub struct Redsync;

impl Dialect for Redsync {
    fn name(&self) -> &'static str {
        "redsync"
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            let random = shape::is_base64(token, 16) && shape::ends_as_16_bytes(token) && shape::is_mixed_case(token);
            if random && sight.has_ttl() { sight.guess(Strength::Likely) } else { None }
        })?;
        Some(Claim::exclusive(strength, token))
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its Unlock() returns false; with SetNXOnExtend it creates the key again when it next extends")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(150)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key).warn_of_copies()
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;

    #[test]
    fn sixteen_bytes_in_padded_base64_are_a_guess() {
        let best = found("mutex/orders", "q83kL+0pZt/1xYbW7mNcRg==", seconds(8));
        assert!(perhaps(&best, "redsync"));
        assert_eq!(names(&best).1, "plain");
    }

    #[test]
    fn other_base64_is_not_taken() {
        for value in [
            "q83kL+0pZt/1xYbW7mNcR2vH",
            "q83kL+0pZt/1xYbW7mNcRz==",
            "q83kL-0pZt_1xYbW7mNcRg==",
            "q83kL+0pZt/1xYbW7mNcRg",
        ] {
            assert_ne!(names(&found("orders:lock", value, seconds(8))).0, "redsync", "{value}");
        }
        assert_ne!(names(&found("orders:lock", "q83kL+0pZt/1xYbW7mNcRg==", Ttl::Never)).0, "redsync");
        assert_no_garbage("redsync", "orders:lock");
    }
}
