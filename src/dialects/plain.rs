//! A string that says "taken": `SET key token NX PX ttl`, the same in Lua, `SETNX` with or without `EXPIRE`.
//!
//! The dialect of hand-written locks, and the last choice for strings that no library is recognised in. If the value is
//! a Unix time, as in the oldest recipes, it is when the lock was taken or, if it is in the future, when it ends. An
//! empty value says "taken" too, and a document that names an owner says by whom.

use super::{Claim, Dialect, Renewal, Sight, Strength, Waiting, own, shape, sight};
use crate::base::server_text::ServerText;
use crate::base::time::Time;
use crate::lock::{Holder, Mode, RawValue};

pub struct Plain;

/// A holder's clock may be ahead of ours.
const CLOCK_SKEW_MS: i64 = 5_000;

/// Fields by which documents name who has a lock.
const OWNERS: [&str; 14] = [
    "owner",
    "ownerId",
    "owner_id",
    "holder",
    "holderId",
    "holder_id",
    "lockedBy",
    "locked_by",
    "acquiredBy",
    "acquired_by",
    "worker",
    "workerId",
    "worker_id",
    "hostname",
];
/// Fields by which documents say when the lock ends.
const ENDS: [&str; 10] = [
    "expires",
    "expiresAt",
    "expires_at",
    "expiresOn",
    "until",
    "lockedUntil",
    "locked_until",
    "lockUntil",
    "lock_until",
    "validUntil",
];
/// Longer documents are something else.
const LONGEST_DOCUMENT: usize = 512;

/// Who has the lock, by a document that names an owner, and the time at which it ends if it says that too.
fn owner(value: &[u8], now: Time) -> Option<(ServerText, Option<Time>)> {
    if value.first() != Some(&b'{') || value.len() > LONGEST_DOCUMENT {
        return None;
    }
    let document: serde_json::Value = serde_json::from_slice(value).ok()?;
    let text = |field: &&str| match document.get(*field)? {
        serde_json::Value::String(text) => sight::name(text.as_bytes()),
        serde_json::Value::Number(number) => sight::name(number.to_string().as_bytes()),
        _ => None,
    };
    let end = |field: &&str| match document.get(*field)? {
        serde_json::Value::String(text) => shape::iso_time(text),
        serde_json::Value::Number(number) => shape::plausible_epoch(number.to_string().as_bytes(), now),
        _ => None,
    };
    Some((OWNERS.iter().find_map(text)?, ENDS.iter().find_map(end)))
}

fn holder(value: &[u8], now: Time) -> Holder {
    let mut holder = Holder::new(value);
    if let Some((owner, end)) = owner(value, now) {
        (holder.client, holder.until) = (Some(owner), end);
    }
    match shape::plausible_epoch(value, now) {
        Some(at) if at.0 <= now.0.saturating_add(CLOCK_SKEW_MS) => holder.since = Some(at),
        ahead => holder.until = holder.until.or(ahead),
    }
    own::tell(&mut holder);
    holder
}

impl Dialect for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn facts(&self) -> &'static [&'static str] {
        &[
            "An empty value is a holder without a name, and a JSON document with an `owner`, `holder` or the like tells who holds it. A number that goes up and down with a TTL (dramatiq's limiter) counts permits in use, and 0 is free.",
        ]
    }

    fn patterns(&self) -> &'static [&'static str] {
        &["*[Ll][Oo][Cc][Kk]*", "*[Mm][Uu][Tt][Ee][Xx]*"]
    }

    fn read(&self, sight: &Sight<'_>) -> Option<Claim> {
        let RawValue::Str { head, len } = sight.value else { return None };
        let whole = head.len() as u64 == *len;
        let token = || head.is_empty() || shape::could_be_token(head) || owner(head, sight.now).is_some();
        let strength = if whole && shape::names_a_lock(sight.key) && !shape::names_a_setting(sight.key) && token() {
            Strength::Possible
        } else if sight.given || sight.dialect_given {
            // Any string is a lock there; one too long to be read whole is identified by its head.
            Strength::Faint
        } else {
            return None;
        };
        Some(Claim::lock(strength, Mode::Exclusive, vec![holder(head, sight.now)]))
    }

    fn renewal(&self) -> Renewal {
        Renewal::Optional { share: 1.0 / 3.0 }
    }

    fn waiting(&self, _sight: &Sight<'_>) -> Waiting {
        Waiting::Polls { every: None }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::time::{Time, Ttl};
    use crate::dialects::trial::*;
    use crate::lock::RawValue;

    #[test]
    fn a_one_under_a_lock_name_is_a_lock_of_nobody_known() {
        let best = found("import-lock", "1", Ttl::Never);
        assert!(perhaps(&best, "plain"));
        let holder = holder(best);
        assert_eq!((holder.since, holder.until, holder.host), (None, None, None));
    }

    #[test]
    fn a_unix_time_tells_when_it_was_taken() {
        let since = |value: &str| holder(found("import-lock", value, Ttl::Never)).since;
        assert_eq!(since("1759999000"), Some(Time(1_759_999_000_000)));
        assert_eq!(since("1759999000.25"), Some(Time(1_759_999_000_250)));
        assert_eq!(since("1759999000123"), Some(Time(1_759_999_000_123)));
        assert_eq!(since("1000000000"), None);
        assert_eq!(since("17599990"), None);
    }

    #[test]
    fn a_unix_time_ahead_tells_when_it_ends() {
        let holder = holder(found("import-lock", "1760000060", Ttl::Never));
        assert_eq!((holder.since, holder.until), (None, Some(Time(1_760_000_060_000))));
    }

    #[test]
    fn an_empty_value_says_taken_and_a_document_may_name_its_owner() {
        assert!(perhaps(&found("import-lock", "", seconds(60)), "plain"));
        for document in [r#"{"holder":"worker-7","resources":["a","b"]}"#, r#"{"pid":3,"owner":"worker-7"}"#] {
            let best = found("lock:report", document, seconds(60));
            assert!(perhaps(&best, "plain"), "{document}");
            let holder = holder(best);
            assert_eq!(holder.client.map(|client| client.visible()).as_deref(), Some("worker-7"));
            assert_eq!(holder.token.as_bytes(), document.as_bytes(), "what a release compares");
        }
        for other in [r#"{"owner":{"name":"x"}}"#, r#"{"title":"worker-7"}"#, "{owner}"] {
            assert_eq!(names(&found("lock:report", other, seconds(60))).0, "", "{other}");
        }
    }

    #[test]
    fn switches_and_settings_about_locks_are_no_locks_unless_the_user_pointed_at_them() {
        for (key, value) in
            [("lockdown:status", "on"), ("locks:enabled", "true"), ("lock:order", "off"), ("lock:timeout", "30")]
        {
            assert_eq!(names(&found(key, value, Ttl::Never)).0, "", "{key} {value}");
            assert_eq!(names(&given(key, value, Ttl::Never)).0, "plain", "{key} {value}");
        }
        assert!(perhaps(&found("lock:order", "true", Ttl::Never), "plain"), "it says taken");
    }

    #[test]
    fn documents_are_no_locks_unless_the_user_pointed_at_them() {
        assert_no_garbage("plain", "import-lock");
        assert_eq!(names(&given("import", "{\"a\":1}", Ttl::Never)).0, "plain");
        let cut = RawValue::Str { head: b"abc"[..].into(), len: 5_000 };
        assert!(mapped("plain", "import", &cut).is_some());
        assert!(mapped("plain", "import", &RawValue::List { len: 1 }).is_none());
    }
}
