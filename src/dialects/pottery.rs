//! pottery's `Redlock` (Python): string `redlock:KEY` with a UUIDv4, for 10 seconds by default.
//!
//! RedLock.net writes the same. Up to 10 seconds pottery is more likely, but still a guess.

use std::time::Duration;

use super::{Claim, Dialect, IfFreed, Release, Sight, Strength, Waiting, shape};

pub struct Pottery;

/// The usual lease; RedLock.net's are mostly longer, and renewed at half of it.
const LEASE: Duration = Duration::from_secs(10);

/// Reads a key as both libraries write it: how likely it is with up to the usual lease, and with a longer one.
pub(super) fn read(sight: &Sight<'_>, usual: Strength, longer: Strength) -> Option<Claim> {
    let token = sight.token()?;
    let strength = sight.told_or(|| {
        let written = sight.key.starts_with(b"redlock:") && shape::is_uuid4(token) && sight.has_ttl();
        written.then(|| if sight.ttl_within(LEASE) { usual } else { longer })
    })?;
    Some(Claim::exclusive(strength, token))
}

impl Dialect for Pottery {
    fn name(&self) -> &'static str {
        "pottery"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["redlock:*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        read(sight, Strength::Likely, Strength::Possible)
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its release() raises ReleaseUnlockedLock")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::polls_each(100)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let release = Release::delete(sight.key).warn_of_copies();
        if sight.dialect_given {
            return release;
        }
        release
            .warn("RedLock.net uses the same keys: if this is one of its locks, a holder that lives creates it again.")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;

    #[test]
    fn up_to_ten_seconds_it_is_pottery_or_else_redlock_net() {
        let best = found("redlock:printer", UUID4, seconds(9));
        assert!(perhaps(&best, "pottery"));
        assert_eq!(names(&best), ("pottery", "redlock-net"));
    }

    #[test]
    fn a_hex_token_under_the_prefix_is_neither() {
        assert_eq!(names(&found("redlock:printer", "f3a9c07be15d28466cb1709e5ad2488f", seconds(9))).0, "redlock");
        assert_ne!(names(&found("redlock:printer", UUID4, Ttl::Never)).0, "pottery");
        assert_no_garbage("pottery", "redlock:printer");
    }
}
