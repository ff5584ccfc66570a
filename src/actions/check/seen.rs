//! The comparisons with what the operator saw: pure.

use super::Check;
use crate::actions::lease::{comes_again, keys_of};
use crate::lock::RawValue;
use crate::model::{LockView, Whole};

/// Checks that only the holders that were seen have the key.
pub fn whole(lock: &LockView) -> Vec<Check> {
    let key = || lock.key.as_bytes().to_vec();
    match &lock.value {
        RawValue::Str { head, .. } if lock.value.is_whole() => {
            vec![Check::Value { key: key(), value: head.to_vec() }]
        }
        RawValue::Str { len, .. } => match &lock.proof.value {
            Whole::Sha1(sha1) => vec![Check::Digest { key: key(), len: *len, sha1: sha1.clone() }],
            Whole::NotAsked | Whole::Unknown(_) => Vec::new(),
        },
        RawValue::Hash { fields, len } => {
            let each = fields.iter().map(|(field, _)| hash_field(lock, field));
            each.chain([Check::Fields { key: key(), count: *len }]).collect()
        }
        RawValue::Zset { members, len } => {
            let each = members.iter().map(|(member, _)| scored(lock, member));
            each.chain([Check::Members { key: key(), count: *len }]).collect()
        }
        RawValue::Set { members, len } => {
            let each = members.iter().map(|member| Check::Element { key: key(), member: member.to_vec() });
            each.chain([Check::Elements { key: key(), count: *len }]).collect()
        }
        RawValue::List { .. } | RawValue::Other(_) | RawValue::Unread { .. } => Vec::new(),
    }
}

/// Checks that the field with the end of a hold is as it was seen, if the holder's name does not distinguish one hold from
/// the next.
pub fn end_field(lock: &LockView, field: &[u8]) -> Check {
    match field_seen(lock, field).filter(|_| comes_again(lock, field)) {
        Some(end) => Check::FieldEnd { key: lock.key.as_bytes().to_vec(), field: field.to_vec(), end: end.to_vec() },
        None => hash_field(lock, field),
    }
}

/// Checks that the field is as it was seen. A count may change while the same holder has the lock, but not where each
/// entry has a lease in a key of its own: that of a new entry was not seen.
pub fn hash_field(lock: &LockView, field: &[u8]) -> Check {
    let key = lock.key.as_bytes().to_vec();
    let counts = lock.holders.iter().any(|holder| holder.token.as_bytes() == field && holder.count.is_some());
    let is_number = |value: &[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let is_holder = lock.holders.iter().any(|holder| holder.token.as_bytes() == field);
    match field_seen(lock, field) {
        Some(value) if !counts && (is_holder || !is_number(value)) => {
            Check::FieldValue { key, field: field.to_vec(), value: value.to_vec() }
        }
        Some(count) if counts && !keys_of(lock, field).is_empty() => {
            Check::Entries { key, field: field.to_vec(), count: count.to_vec() }
        }
        _ => Check::Field { key, field: field.to_vec() },
    }
}

fn field_seen<'a>(lock: &'a LockView, field: &[u8]) -> Option<&'a [u8]> {
    let RawValue::Hash { fields, .. } = &lock.value else { return None };
    fields.iter().find(|(name, _)| **name == *field).map(|(_, value)| &**value)
}

/// Checks that the member exists; with the same lease, if its name does not distinguish one hold from the next.
pub fn scored(lock: &LockView, member: &[u8]) -> Check {
    let (key, holds) = (lock.key.as_bytes().to_vec(), lock.holders.iter().any(|held| held.token.as_bytes() == member));
    let score = match &lock.value {
        RawValue::Zset { members, .. } => members.iter().find(|(name, _)| **name == *member).map(|(_, score)| *score),
        _ => None,
    };
    match score {
        Some(score) if holds && comes_again(lock, member) => Check::Score { key, member: member.to_vec(), score },
        _ => Check::Member { key, member: member.to_vec() },
    }
}
