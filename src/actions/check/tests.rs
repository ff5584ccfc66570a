use redis::Value;

use super::*;
use crate::lock::{Holder, RawValue};
use crate::model::{LockView, Whole};
use crate::testkit::sample;

const KEY: &[u8] = b"lock:a";

fn bytes(text: &str) -> Value {
    Value::BulkString(text.as_bytes().to_vec())
}

/// What the script answers for a key of this type.
fn kind(name: &str) -> Value {
    Value::Array(vec![Value::SimpleString(name.into())])
}

#[test]
fn a_lock_that_changed_hands_is_told_with_its_new_holder() {
    let check = Check::Value { key: KEY.to_vec(), value: b"t1".to_vec() };
    assert_eq!(check.moved(&bytes("t2\x1b[2J")), "it has another holder now: t2\\u{1b}[2J");
    assert_eq!(check.moved(&kind("none")), "the lock is gone: it was freed, or ran out, since you looked");
    assert_eq!(check.moved(&kind("hash")), "the key is a hash now; you saw a string");
}

#[test]
fn a_holder_that_left_is_told_from_a_lock_that_is_gone() {
    let check = Check::Field { key: KEY.to_vec(), field: b"h".to_vec() };
    assert_eq!(check.moved(&Value::Int(0)), "h does not hold it any more");
    assert_eq!(check.moved(&kind("none")), "h does not hold it any more: the lock is gone");
    assert_eq!(check.moved(&kind("zset")), "the key is a zset now; you saw a hash");
}

#[test]
fn a_ttl_that_came_or_grew_is_told_with_what_is_left() {
    let none = Check::NoTtl(KEY.to_vec());
    assert_eq!(none.moved(&Value::Int(5_000)), "it has 5.0s left now, and had no TTL when you looked");
    let most = Check::TtlAtMost { key: KEY.to_vec(), ms: 1_000 };
    assert_eq!(most.moved(&Value::Int(5_000)), "it has 5.0s left now: more than asked for");
    assert_eq!(most.moved(&Value::Int(-1)), "it has no TTL now");
    assert!(most.moved(&Value::Int(-2)).starts_with("the lock is gone"));
}

#[test]
fn the_whole_of_a_lock_is_every_holder_and_no_more() {
    let mut lock = sample::redisson();
    lock.value = RawValue::hash([(&b"a"[..], &b"2"[..]), (b"mode", b"write"), (b"limit", b"7")]);
    lock.holders = vec![Holder { count: Some(2), ..Holder::new(b"a") }];
    let key = || lock.key.as_bytes().to_vec();
    let expected = [
        // A count goes up and down while the same holder has the lock, and so does any other number.
        Check::Field { key: key(), field: b"a".to_vec() },
        Check::FieldValue { key: key(), field: b"mode".to_vec(), value: b"write".to_vec() },
        Check::Field { key: key(), field: b"limit".to_vec() },
        Check::Fields { key: key(), count: 3 },
    ];
    assert_eq!(whole(&lock), expected);
}

#[test]
fn a_value_that_was_not_read_whole_is_compared_by_its_hash_or_not_at_all() {
    let cut = |value| {
        let long = RawValue::Str { head: b"xxx"[..].into(), len: 2_000 };
        let proof = crate::model::Proof { value, ..Default::default() };
        LockView { value: long, proof, ..sample::forever() }
    };
    let sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d".to_string();
    let lock = cut(Whole::Sha1(sha1.clone()));
    assert_eq!(whole(&lock), [Check::Digest { key: lock.key.as_bytes().to_vec(), len: 2_000, sha1 }]);
    assert_eq!(whole(&cut(Whole::NotAsked)), []);
    assert_eq!(whole(&cut(Whole::Unknown("no".into()))), []);
}

#[test]
fn no_name_in_a_condition_moves_the_terminal() {
    let check = Check::FieldValue { key: b"\x1b[2J".to_vec(), field: b"f g".to_vec(), value: b"\xff".to_vec() };
    assert_eq!(check.describe(), r#"HGET "\u{1b}[2J" "f g" is "\xff""#);
}
