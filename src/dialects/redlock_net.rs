//! RedLock.net: string `redlock:RESOURCE` with a GUID, kept alive at half of its lease.
//!
//! Its extend creates a missing key again: while the holder lives, a deleted lock soon comes back. pottery writes the
//! same keys with shorter leases, so this is a guess by the TTL.

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Strength, Waiting, pottery};

pub struct RedLockNet;

impl Dialect for RedLockNet {
    fn name(&self) -> &'static str {
        "redlock-net"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["redlock:*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        pottery::read(sight, Strength::Possible, Strength::Likely)
    }

    fn renewal(&self) -> Renewal {
        Renewal::Watchdog { share: 0.5 }
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Harms("creates the key again within half of its lease: stop it first")
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: None }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key).warn_of_copies()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;

    #[test]
    fn beyond_ten_seconds_it_is_redlock_net_or_else_pottery() {
        let best = found("redlock:printer", UUID4, seconds(25));
        assert!(perhaps(&best, "redlock-net"));
        assert_eq!(names(&best), ("redlock-net", "pottery"));
    }

    #[test]
    fn its_holder_may_undo_a_release_and_the_operator_is_told() {
        assert!(RedLockNet.if_freed().sentence().contains("creates the key again"));
    }

    #[test]
    fn other_values_under_the_prefix_are_not_taken() {
        assert_ne!(names(&found("redlock:printer", UUID4, Ttl::Never)).0, "redlock-net");
        assert_ne!(names(&found("redlock:printer", "1", seconds(25))).0, "redlock-net");
        assert_no_garbage("redlock-net", "redlock:printer");
    }
}
