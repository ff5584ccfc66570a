//! What the tests of the dialects share: keys shown to all of them at once, the way the application does it.
//!
//! Also the one test that holds for every dialect: no bytes on a server make any of them panic.

use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;

use super::{Best, Claim, Mapping, Recogniser, Release, Sight, Strength, Waiting, all, by_name, dialect};
use crate::base::glob::Glob;
use crate::base::time::{Time, Ttl};
use crate::lock::{Holder, RawValue};

/// 2025-10-09T08:53:20Z.
pub const NOW: Time = Time(1_760_000_000_000);

pub const UUID4: &str = "0b5e7c1a-94f2-4d3b-8e6a-2f1c9d7b3a50";

/// 2022-02-22T19:22:22Z, from a machine without a network card.
pub const UUID1_HEX: &str = "c232ab00941411ecb3c89f6bdeced846";

pub fn seconds(count: u64) -> Ttl {
    Ttl::In(Duration::from_secs(count))
}

static DEFAULT: LazyLock<Recogniser> = LazyLock::new(|| Recogniser::new(vec![], vec![], vec![]));
static GIVEN: LazyLock<Recogniser> =
    LazyLock::new(|| Recogniser::new(vec![Glob::new("*").expect("a glob")], vec![], vec![]));

fn seen_by(recogniser: &Recogniser, key: &str, value: &RawValue, ttl: Ttl) -> Option<Best> {
    let key = key.as_bytes();
    recogniser.may_be_lock(key).then(|| recogniser.read(key, value, ttl, NOW)).flatten()
}

/// The reading of any value when the user said nothing.
pub fn found_value(key: &str, value: &RawValue, ttl: Ttl) -> Option<Best> {
    seen_by(&DEFAULT, key, value, ttl)
}

/// The reading of a string when the user said nothing.
pub fn found(key: &str, value: impl AsRef<[u8]>, ttl: Ttl) -> Option<Best> {
    found_value(key, &RawValue::string(value.as_ref()), ttl)
}

/// The reading of a string under a pattern that the user gave.
pub fn given(key: &str, value: impl AsRef<[u8]>, ttl: Ttl) -> Option<Best> {
    given_value(key, &RawValue::string(value.as_ref()), ttl)
}

/// The same of any value.
pub fn given_value(key: &str, value: &RawValue, ttl: Ttl) -> Option<Best> {
    seen_by(&GIVEN, key, value, ttl)
}

/// The reading of a value in a keyspace that the user mapped to the dialect `name`.
pub fn mapped(name: &str, key: &str, value: &RawValue) -> Option<Claim> {
    let mapping = Mapping { dialect: by_name(name)?, glob: Glob::new("*").expect("a glob") };
    seen_by(&Recogniser::new(vec![], vec![], vec![mapping]), key, value, Ttl::Never).map(|best| best.claim)
}

/// The names of the best reading and of the second choice.
pub fn names(best: &Option<Best>) -> (&'static str, &'static str) {
    let name = |id| dialect(id).name();
    match best {
        Some(best) => (name(best.dialect), best.second.map_or("", |(id, _)| name(id))),
        None => ("", ""),
    }
}

/// Whether the reading is that dialect and not a guess.
pub fn surely(best: &Option<Best>, name: &str) -> bool {
    names(best).0 == name && best.as_ref().is_some_and(|best| best.claim.strength >= Strength::Sure)
}

/// Whether the reading is that dialect, shown as a guess.
pub fn perhaps(best: &Option<Best>, name: &str) -> bool {
    names(best).0 == name && best.as_ref().is_some_and(|best| best.claim.strength < Strength::Sure)
}

/// The one holder of a reading.
pub fn holder(best: Option<Best>) -> Holder {
    let mut holders = best.expect("a lock").claim.holders;
    assert_eq!(holders.len(), 1);
    holders.remove(0)
}

fn with_sight<T>(key: &str, value: &RawValue, ttl: Ttl, look: impl FnOnce(&Sight<'_>) -> T) -> T {
    look(&Sight { key: key.as_bytes(), value, ttl, now: NOW, given: false, dialect_given: false })
}

pub fn release(name: &str, key: &str, value: &RawValue) -> Release {
    with_sight(key, value, seconds(5), |sight| dialect(by_name(name).expect("a dialect")).release(sight))
}

pub fn release_holder(name: &str, key: &str, value: &RawValue, token: &str) -> Release {
    let dialect = dialect(by_name(name).expect("a dialect"));
    with_sight(key, value, seconds(5), |sight| dialect.release_holder(sight, token.as_bytes()))
}

/// The keys that belong to a lock beside its own.
pub fn companions(name: &str, key: &str, value: &RawValue) -> Vec<String> {
    let dialect = dialect(by_name(name).expect("a dialect"));
    let keys = with_sight(key, value, seconds(5), |sight| dialect.companions(sight));
    keys.into_iter().map(|key| String::from_utf8_lossy(&key).into_owned()).collect()
}

pub fn waiting(name: &str, key: &str) -> Waiting {
    let value = RawValue::string(b"x");
    with_sight(key, &value, seconds(5), |sight| dialect(by_name(name).expect("a dialect")).waiting(sight))
}

/// Values that are not locks, under a name that a dialect knows: none may be read as its lock.
pub fn assert_no_garbage(name: &str, key: &str) {
    let huge = vec![b'a'; 100_000];
    let garbage: [&[u8]; 6] = [
        b"",
        b"{\"user\":17,\"cart\":[1,2,3]}",
        b"\x00\x01\x02\xff\xfe",
        b"<html><body>hello</body></html>",
        b"line one\nline two",
        &huge,
    ];
    // In hand-written locks, an empty value says "taken".
    for value in garbage.into_iter().filter(|value| name != "plain" || !value.is_empty()) {
        let best = found(key, value, seconds(5));
        assert_ne!(names(&best).0, name, "{key} = {}", crate::base::text::visible(&value[..value.len().min(40)]));
    }
    let cut = RawValue::Str { head: UUID4.as_bytes().into(), len: 5_000 };
    assert_ne!(names(&found_value(key, &cut, seconds(5))).0, name, "{key} with a value that was cut");
    for value in [RawValue::List { len: 3 }, RawValue::Other("stream".into()), RawValue::hash([(&b"a"[..], &b"1"[..])])]
    {
        assert_ne!(names(&found_value(key, &value, seconds(5))).0, name, "{key} as {}", value.type_name());
    }
}

#[test]
fn every_dialect_has_its_own_name_and_valid_patterns() {
    let mut seen: Vec<_> = all().iter().map(|dialect| dialect.name()).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all().len());
    assert!(!super::default_patterns().is_empty());
}

#[test]
fn a_cached_value_does_not_become_a_lock_by_its_shape() {
    let values = [UUID4, UUID1_HEX, "AAAAAAAAAAAAAAAAAAAAAA==", "Zk3pQ9xLr7TnV2bYwC5mAg", "aZ3kP0qLmN8rTx5V", "web-1"];
    for key in ["session:17", "user_cache:17", "block:17", "clock:now", "blocked-users:9"] {
        for value in values {
            assert_eq!(names(&found(key, value, seconds(5))), ("", ""), "{key} = {value}");
        }
    }
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "lock:",
        "lock-signal:",
        "redlock:",
        "mutex:",
        "semaphore:",
        "qo_",
        "redbeat:",
        "job-lock:default:",
        "bull:",
        "{hangfire}:",
        "SINGLETONLOCK_",
        "framework/schedule-",
        "laravel_unique_job:",
        "laravel-queue-overlap:",
        "activejob_uniqueness:",
        "completed:",
        "app_database_app_cache_",
        ":1:",
        "::",
        "",
    ]);
    let ending =
        prop::sample::select(vec!["", ":lock", ".writer", ".readers", ":", "1200", "resque_scheduler_master_lock"]);
    (known, prop::collection::vec(any::<u8>(), 0..24), ending)
        .prop_map(|(start, middle, end)| [start.as_bytes(), &middle, end.as_bytes()].concat())
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(:[0-9]*|_[0-9]*)?"
            .prop_map(String::into_bytes),
        "[0-9a-f]{12}1[0-9a-f]{3}[89ab][0-9a-f]{15}".prop_map(String::into_bytes),
        "[A-Za-z0-9_-]{16,30}(==)?".prop_map(String::into_bytes),
        "ADDED:[0-9TZ:.-]{0,30}@?.{0,20}".prop_map(String::into_bytes),
        ".{0,8}_[0-9]{0,24}_[0-9a-f]{32}(_WRITERWAITING)?".prop_map(String::into_bytes),
        ".{0,12}:[0-9]{0,24}".prop_map(String::into_bytes),
        "[0-9]{0,24}(\\.[0-9]{0,24})?".prop_map(String::into_bytes),
    ]
}

fn any_value() -> impl Strategy<Value = RawValue> {
    let few = 0..5_usize;
    prop_oneof![
        4 => (any_bytes(), 0..3_u64).prop_map(|(bytes, more)| {
            RawValue::Str { len: bytes.len() as u64 + more, head: bytes.into() }
        }),
        1 => prop::collection::vec((any_bytes(), any_bytes()), few.clone()).prop_map(|fields| {
            RawValue::hash(fields.iter().map(|(field, value)| (&field[..], &value[..])))
        }),
        1 => prop::collection::vec((any_bytes(), any::<f64>()), few.clone()).prop_map(|members| {
            RawValue::zset(members.iter().map(|(member, score)| (&member[..], *score)))
        }),
        1 => prop::collection::vec(any_bytes(), few).prop_map(|members| {
            RawValue::set(members.iter().map(|member| &member[..]))
        }),
        1 => any::<u64>().prop_map(|len| RawValue::List { len }),
        1 => Just(RawValue::Other("stream".into())),
        1 => Just(RawValue::unread("string", "NOPERM")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn no_dialect_panics_on_any_bytes(
        key in any_key(), value in any_value(), left in prop::option::of(any::<u64>()), now in any::<i64>(),
        given in any::<bool>(), mapped in any::<bool>(),
    ) {
        let ttl = left.map_or(Ttl::Never, |left| Ttl::In(Duration::from_millis(left)));
        let sight = Sight { key: &key, value: &value, ttl, now: Time(now), given, dialect_given: mapped };
        for dialect in all() {
            if let Some(claim) = dialect.read(&sight) {
                prop_assert!(mapped || claim.strength < Strength::Mapped, "{} was not mapped", dialect.name());
            }
            dialect.is_helper(&key);
            dialect.renewal();
            dialect.waiting(&sight);
            dialect.release(&sight);
            dialect.release_holder(&sight, &key);
            dialect.fencing_key(&key);
        }
    }
}
