//! Spring Integration's `RedisLockRegistry`: string `<registry>:<path>` with the registry's UUID, 60 s by default.
//!
//! One value for all locks of one process, which one key does not show; so a UUID on a lock of up to a minute is Spring
//! where the first part of the name can be a registry. A first part that says nothing but "lock" is what people write by
//! hand, and Spring a second choice. Waiters poll, or listen to `<registry>-channel:*`; the message that wakes them names
//! the key.

use std::time::Duration;

use super::{Claim, Dialect, IfFreed, Release, Renewal, Sight, Step, Strength, Waiting, shape};

pub struct Spring;

const LEASE: Duration = Duration::from_secs(60);

/// No registry key has more parts.
const MOST_PARTS: usize = 4;

/// The possible registries: the key may be split at any colon, because registry and path may both contain colons.
fn registries(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    let splits = key.iter().enumerate().filter(|(i, byte)| **byte == b':' && *i > 0 && i + 1 < key.len());
    splits.map(|(i, _)| &key[..i]).take(MOST_PARTS)
}

fn channel(registry: &[u8], key: &[u8]) -> Vec<u8> {
    [registry, b"-channel:", key].concat()
}

fn reads_like_a_registry(name: &[u8]) -> bool {
    shape::words(name).iter().any(|word| matches!(word.as_str(), "registry" | "locks" | "spring" | "lockregistry"))
}

fn is_a_bare_word_for_locks(name: &[u8]) -> bool {
    matches!(shape::words(name).as_slice(), [word] if matches!(word.as_str(), "lock" | "mutex" | "lck"))
}

fn judge(sight: &Sight<'_>, token: &[u8]) -> Option<Strength> {
    if !shape::is_uuid4(token) || !sight.has_ttl() {
        return None;
    }
    let registry = registries(sight.key).next()?;
    match (reads_like_a_registry(registry), sight.ttl_within(LEASE)) {
        (true, true) => sight.guess(Strength::Likely),
        (false, true) if is_a_bare_word_for_locks(registry) => sight.guess(Strength::Faint),
        (true, false) | (false, true) => sight.guess(Strength::Possible),
        (false, false) => None,
    }
}

impl Dialect for Spring {
    fn name(&self) -> &'static str {
        "spring"
    }

    fn facts(&self) -> &'static [&'static str] {
        &[
            "On servers with compare-and-set it renews by `SET key id IFEQ id PX`, and a spin lock is freed by a compare-and-delete.",
            "The subscription to `REGISTRY-channel:*` stays open after waiting: it does not say who waits now.",
        ]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let token = sight.token()?;
        let strength = sight.told_or(|| judge(sight, token))?;
        Some(Claim::exclusive(strength, token))
    }

    fn tokens_come_again(&self) -> bool {
        true
    }

    fn renewal(&self) -> Renewal {
        Renewal::Optional { share: 1.0 / 3.0 }
    }

    fn if_freed(&self) -> IfFreed {
        IfFreed::Notices("its unlock() throws ConcurrentModificationException")
    }

    fn waiting(&self, sight: &Sight<'_>) -> Waiting {
        match registries(sight.key).next() {
            Some(registry) => Waiting::ChannelPattern(channel(registry, sight.key)),
            None => Waiting::polls_each(100),
        }
    }

    fn release(&self, sight: &Sight<'_>) -> Release {
        // Messages for a wrong split are harmless: nobody listens on its channel.
        let wake = |registry| Step::Publish { channel: channel(registry, sight.key), message: sight.key.to_vec() };
        registries(sight.key)
            .map(wake)
            .fold(Release::delete(sight.key), Release::and)
            .warn("Threads inside the holder's own process wait on a Java lock: freeing the key does not wake them.")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::Ttl;
    use crate::dialects::trial::*;
    use crate::dialects::{Step, Waiting};
    use crate::lock::RawValue;

    #[test]
    fn a_uuid_in_something_like_a_registry_is_spring_perhaps() {
        let best = found("spring-locks:orders", UUID4, seconds(55));
        assert!(perhaps(&best, "spring"));
        assert_eq!(names(&best).1, "plain");
        assert!(perhaps(&found("OrderLockRegistry:17", UUID4, seconds(55)), "spring"));
    }

    #[test]
    fn a_uuid_of_a_minute_behind_any_prefix_is_read_as_spring_before_plain() {
        assert_eq!(names(&found("order-service:payment-lock-9", UUID4, seconds(55))), ("spring", "plain"));
        assert_eq!(names(&found("order-locks:payment-9", UUID4, seconds(600))), ("spring", "plain"));
        assert_eq!(names(&given("app:orders", UUID4, seconds(55))), ("spring", "plain"));
    }

    #[test]
    fn behind_the_word_lock_alone_or_with_a_long_lease_it_is_the_second_choice() {
        assert_eq!(names(&found("lock:orders", UUID4, seconds(55))), ("plain", "spring"));
        assert_eq!(names(&found("lock:orders", UUID4, seconds(3600))), ("plain", "redlock-rb"));
        assert_eq!(names(&found("order-service:payment-lock-9", UUID4, seconds(600))), ("plain", "redlock-rb"));
    }

    #[test]
    fn a_release_wakes_the_listeners_with_the_key_as_message() {
        let release = release("spring", "app:eu:orders", &RawValue::string(UUID4.as_bytes()));
        let publish = |channel: &[u8]| Step::Publish { channel: channel.to_vec(), message: b"app:eu:orders".to_vec() };
        assert_eq!(release.steps[0], Step::Delete(b"app:eu:orders".to_vec()));
        assert_eq!(release.steps[1], publish(b"app-channel:app:eu:orders"));
        assert_eq!(release.steps[2], publish(b"app:eu-channel:app:eu:orders"));
        assert_eq!(waiting("spring", "app:orders"), Waiting::ChannelPattern(b"app-channel:app:orders".to_vec()));
    }

    #[test]
    fn what_is_no_uuid_or_has_no_path_is_not_spring() {
        assert_ne!(names(&found("locks", UUID4, seconds(55))).0, "spring");
        assert_ne!(names(&found("spring-locks:orders", UUID4, Ttl::Never)).0, "spring");
        assert_ne!(names(&found("spring-locks:orders", UUID1_HEX, seconds(55))).0, "spring");
        assert_no_garbage("spring", "spring-locks:orders");
    }
}
