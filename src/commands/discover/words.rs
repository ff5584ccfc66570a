//! Words in names that suggest a lock, and words that suggest something else.

use crate::dialects::shape;

/// Words that people use for locks other than "lock".
const FOR: [&str; 26] = [
    "guard",
    "guards",
    "lease",
    "leases",
    "leader",
    "election",
    "singleton",
    "exclusive",
    "exclusion",
    "running",
    "processing",
    "inprogress",
    "progress",
    "inflight",
    "claim",
    "claims",
    "claimed",
    "owner",
    "owned",
    "holder",
    "held",
    "busy",
    "gate",
    "semaphore",
    "sem",
    "critical",
];

/// Words of keyspaces whose values look like a lock's tokens but are not.
const AGAINST: [&str; 76] = [
    "session",
    "sessions",
    "sess",
    "sid",
    "token",
    "tokens",
    "csrf",
    "xsrf",
    "otp",
    "totp",
    "nonce",
    "auth",
    "oauth",
    "login",
    "logins",
    "jwt",
    "refresh",
    "access",
    "password",
    "reset",
    "verify",
    "verification",
    "confirm",
    "captcha",
    "code",
    "codes",
    "invite",
    "pin",
    "apikey",
    "secret",
    "cookie",
    "cache",
    "cached",
    "caches",
    "page",
    "pages",
    "html",
    "fragment",
    "view",
    "views",
    "etag",
    "hash",
    "digest",
    "checksum",
    "fingerprint",
    "rate",
    "ratelimit",
    "limit",
    "limiter",
    "throttle",
    "quota",
    "counter",
    "counters",
    "count",
    "hits",
    "stats",
    "metric",
    "metrics",
    "seq",
    "sequence",
    "queue",
    "queues",
    "stream",
    "result",
    "results",
    "heartbeat",
    "presence",
    "online",
    "alive",
    "seen",
    "url",
    "short",
    "id",
    "ids",
    "index",
    "idx",
];

/// The first word of a name that suggests a lock.
pub fn of_a_lock(text: &str) -> Option<String> {
    let words = shape::words(text.as_bytes());
    words.into_iter().find(|word| shape::names_a_lock(word.as_bytes()) || FOR.contains(&word.as_str()))
}

/// The first word of a name that suggests something else.
pub fn of_something_else(text: &str) -> Option<String> {
    shape::words(text.as_bytes()).into_iter().find(|word| AGAINST.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_speak() {
        assert_eq!(of_a_lock("billingGuard").as_deref(), Some("guard"));
        assert_eq!(of_a_lock("redlock").as_deref(), Some("redlock"));
        assert_eq!(of_a_lock("blocks"), None);
        assert_eq!(of_something_else("user-session").as_deref(), Some("session"));
        assert_eq!(of_something_else("orders"), None);
    }
}
