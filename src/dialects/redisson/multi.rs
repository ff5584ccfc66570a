//! The hash of a group lock (`getMultiLock(group, values)`): many items in one key, each held on its own.
//!
//! An item's field names its holder, and two more carry its lease and its count: `<item>:<holder>:expire_time` and
//! `<item>:<holder>:lock_count`. The latter is there exactly while that holder has that item: it is the token.

use std::collections::HashMap;

use super::lock::{UNLOCKED, count, holder};
use super::{Fields, names};
use crate::base::time::Time;
use crate::dialects::{Claim, Obstacle, Release, Step, Strength};
use crate::lock::{Holder, Mode, Token};

const COUNT: &[u8] = b":lock_count";
const EXPIRY: &[u8] = b":expire_time";

pub fn is_one(fields: Fields<'_>) -> bool {
    fields.iter().any(|(field, _)| field.ends_with(COUNT))
}

/// An item past its end is free, though its fields stay until somebody takes it.
pub fn read(fields: Fields<'_>, now: Time) -> Option<Claim> {
    let values: HashMap<&[u8], &[u8]> = fields.iter().map(|(field, value)| (&**field, &**value)).collect();
    let known = |(field, value): (&&[u8], &&[u8])| {
        if field.ends_with(COUNT) || field.ends_with(EXPIRY) { count(value).is_some() } else { holder(value).is_some() }
    };
    if !values.iter().all(known) {
        return None;
    }
    let (mut holders, mut items) = (Vec::new(), 0);
    for (field, value) in fields {
        let Some((item, id)) = field.strip_suffix(COUNT).and_then(item_and_holder) else { continue };
        let until = values.get([item, b":", id, EXPIRY].concat().as_slice()).and_then(|at| count(at)).map(Time);
        if values.get(item) != Some(&id) {
            // What an earlier holder left behind when its lease ran out is not a hold; one whose lease runs on is, beside
            // that of the one who took the item meanwhile.
            if let Some(until) = until.filter(|until| *until > now) {
                let token = Token::from(&**field);
                let beside = Some(Mode::Exclusive);
                holders.push(Holder { token, count: count(value), until: Some(until), mode: beside, ..holder(id)? });
            }
            continue;
        }
        items += 1;
        if until.is_none_or(|until| until > now) {
            holders.push(Holder { token: Token::from(&**field), count: count(value), until, ..holder(id)? });
        }
    }
    (items > 0).then(|| Claim::lock(Strength::Sure, Mode::Exclusive, holders))
}

pub fn release(name: &[u8], tokens: impl IntoIterator<Item = Token>) -> Release {
    let mut release = Release::default();
    for token in tokens {
        for field in fields_of(token.as_bytes()) {
            let key = name.to_vec();
            if field.ends_with(EXPIRY) {
                release = release.unless(Obstacle::EndField { key: key.clone(), field: field.clone() });
            }
            release = release.and(Step::DeleteField { key, field });
        }
    }
    release.and(Step::Publish { channel: names::channel(name), message: UNLOCKED.to_vec() })
}

/// The fields of one hold.
fn fields_of(token: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let fields = token.strip_suffix(COUNT).and_then(item_and_holder).map(|(item, id)| {
        let lease = [item, b":", id, EXPIRY].concat();
        [item.to_vec(), lease, token.to_vec()]
    });
    fields.into_iter().flatten()
}

/// The item that a hold is of.
pub fn item_of(token: &[u8]) -> Option<&[u8]> {
    token.strip_suffix(COUNT).and_then(item_and_holder).map(|(item, _)| item)
}

/// Splits `<item>:<uuid>:<thread>`.
fn item_and_holder(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let thread = text.iter().rposition(|byte| *byte == b':')?;
    let instance = text[..thread].iter().rposition(|byte| *byte == b':')?;
    let (item, id) = (&text[..instance], &text[instance + 1..]);
    holder(id).is_some().then_some((item, id))
}

#[cfg(test)]
mod tests {
    use super::super::Redisson;
    use super::super::tests::{A57, B9};
    use crate::base::time::Time;
    use crate::dialects::Dialect;
    use crate::dialects::testing::{hash, recognised, sight};
    use crate::lock::RawValue;

    fn group() -> RawValue {
        hash(&[
            ("jack", A57),
            (&format!("jack:{A57}:expire_time"), "1750000020000"),
            (&format!("jack:{A57}:lock_count"), "2"),
            ("mary", B9),
            (&format!("mary:{B9}:expire_time"), "1750000010000"),
            (&format!("mary:{B9}:lock_count"), "1"),
            (&format!("mary:{A57}:lock_count"), "1"),
        ])
    }

    #[test]
    fn each_item_of_a_group_has_its_holder() {
        let (dialect, claim) = recognised(b"class_100_lock", &group()).unwrap();
        assert_eq!(dialect, "redisson");
        let seen: Vec<_> = claim.holders.iter().map(|h| (h.token.to_string(), h.count, h.until)).collect();
        assert_eq!(
            seen,
            [
                (format!("jack:{A57}:lock_count"), Some(2), Some(Time(1_750_000_020_000))),
                (format!("mary:{B9}:lock_count"), Some(1), Some(Time(1_750_000_010_000))),
            ]
        );
    }

    #[test]
    fn two_may_have_got_one_item() {
        let value = hash(&[
            ("jack", B9),
            (&format!("jack:{B9}:expire_time"), "1750000020000"),
            (&format!("jack:{B9}:lock_count"), "1"),
            (&format!("jack:{A57}:expire_time"), "1750000010000"),
            (&format!("jack:{A57}:lock_count"), "1"),
        ]);
        let (_, claim) = recognised(b"class_100_lock", &value).unwrap();
        let beside: Vec<_> = claim.holders.iter().map(|holder| (holder.until, holder.mode.is_some())).collect();
        assert!(beside.contains(&(Some(Time(1_750_000_010_000)), true)) && beside.len() == 2, "{beside:?}");
    }

    #[test]
    fn one_item_goes_without_the_group() {
        let value = group();
        let token = format!("mary:{B9}:lock_count");
        assert_eq!(
            Redisson.release_holder(&sight(b"class_100", &value), token.as_bytes()).describe(),
            [
                "HDEL class_100 mary".into(),
                format!("HDEL class_100 mary:{B9}:expire_time"),
                format!("HDEL class_100 {token}"),
                "PUBLISH redisson_lock__channel:{class_100} 0".into(),
            ]
        );
        assert_eq!(Redisson.release(&sight(b"class_100", &value)).steps.len(), 7);
    }

    #[test]
    fn other_fields_that_end_alike_are_not_taken() {
        for fields in [
            &[("mutex:lock_count", "4")][..],
            &[("jack", "bob"), ("jack:lock_count", "1")],
            &[("mary:2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:9:lock_count", "1")],
        ] {
            assert_eq!(Redisson.read(&sight(b"lock:a", &hash(fields))), None, "{fields:?}");
        }
    }
}
