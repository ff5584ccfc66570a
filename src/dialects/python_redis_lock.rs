//! python-redis-lock: string `lock:NAME` with a random id, and list `lock-signal:NAME` to wake one waiter.
//!
//! Waiters block in a pop on the list, for ever if the lock has no TTL: deleting the lock alone leaves them hanging, so
//! a release leaves one item there, as the library's own `reset()` does.

use std::time::Duration;

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Step, Strength, Waiting, shape};

pub struct PythonRedisLock;

const SIGNAL_LIVES: Duration = Duration::from_millis(1000);

fn signal_list(key: &[u8]) -> Option<Vec<u8>> {
    let name = key.strip_prefix(b"lock:")?;
    Some([b"lock-signal:", name].concat())
}

impl Dialect for PythonRedisLock {
    fn name(&self) -> &'static str {
        "python-redis-lock"
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["lock:*"]
    }

    fn is_helper(&self, key: &[u8]) -> bool {
        key.starts_with(b"lock-signal:")
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| {
            if !sight.key.starts_with(b"lock:") {
                None
            } else if shape::is_base64(token, 18) && shape::is_mixed_case(token) {
                Some(Strength::Sure)
            } else {
                // The caller may choose the id.
                shape::could_be_token(token).then_some(Strength::Remote)
            }
        })?;
        Some(Claim::exclusive(strength, token))
    }

    /// The id is made with the object, and each acquire of that object uses it.
    fn tokens_come_again(&self) -> bool {
        true
    }

    fn renewal(&self) -> Renewal {
        Renewal::Optional { share: 2.0 / 3.0 }
    }

    fn shows_waiters(&self) -> bool {
        true
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its release() raises NotAcquired")
    }

    fn waiting(&self, sight: &Sight<'_>) -> Waiting {
        signal_list(sight.key).map_or(Waiting::Polls { every: None }, Waiting::BlockedOn)
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        let release = Release::delete(sight.key);
        match signal_list(sight.key) {
            Some(list) => release.and(Step::Signal { list, expires: SIGNAL_LIVES }),
            None => release,
        }
    }

    fn companions(&self, sight: &Sight<'_>) -> Vec<Vec<u8>> {
        signal_list(sight.key).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;
    use crate::dialects::{Step, Waiting, by_name, dialect};
    use crate::lock::RawValue;

    const TOKEN: &str = "q83kL+0pZt/1xYbW7mNcR2vH";

    #[test]
    fn eighteen_random_bytes_under_the_prefix() {
        assert!(surely(&found("lock:orders", TOKEN, Ttl::Never), "python-redis-lock"));
    }

    #[test]
    fn near_neighbours_under_the_same_prefix_are_not_taken() {
        for value in ["q83kL+0pZt/1xYbW7mNcRg==", "507f1f77bcf86cd799439011", "web-1", UUID4, UUID1_HEX] {
            assert_ne!(names(&found("lock:orders", value, seconds(5))).0, "python-redis-lock", "{value}");
        }
        assert_ne!(names(&found("orders-lock", TOKEN, seconds(5))).0, "python-redis-lock");
        assert_no_garbage("python-redis-lock", "lock:orders");
    }

    #[test]
    fn its_signal_list_is_no_lock() {
        assert!(dialect(by_name("python-redis-lock").unwrap()).is_helper(b"lock-signal:orders"));
        assert_eq!(names(&found("lock-signal:orders", "1", seconds(1))), ("", ""));
    }

    #[test]
    fn a_release_wakes_one_waiter_that_would_hang_for_ever() {
        let release = release("python-redis-lock", "lock:orders", &RawValue::string(TOKEN.as_bytes()));
        assert!(release.steps.contains(&Step::Delete(b"lock:orders".to_vec())));
        assert!(matches!(&release.steps[1], Step::Signal { list, .. } if list == b"lock-signal:orders"));
        assert_eq!(waiting("python-redis-lock", "lock:orders"), Waiting::BlockedOn(b"lock-signal:orders".to_vec()));
    }
}
