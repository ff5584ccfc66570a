//! What a script compares before it writes.
//!
//! `seen` makes the comparisons with what the operator saw; `moved` says what changed when one fails.

mod moved;
mod seen;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::lease::Lease;
use crate::dialects::word;

pub(super) use moved::gone;
pub(super) use seen::{end_field, hash_field, scored, whole};

/// A function of the script, and its operands: the key first, if it needs one.
pub(super) struct Comparison {
    /// Its name in [`comparisons`](super::comparisons).
    pub name: &'static str,
    pub key: Option<Vec<u8>>,
    pub values: Vec<Vec<u8>>,
}

/// One comparison. All of them must hold, or nothing is written.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Check {
    Absent(Vec<u8>),
    Present(Vec<u8>),
    /// A key that others held too when one hold of it was freed.
    Rest(Vec<u8>),
    /// A string with this value.
    Value {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    /// A counter with this value.
    Count {
        key: Vec<u8>,
        count: Vec<u8>,
    },
    /// A string too long to be shown: of this length and with this SHA-1.
    Digest {
        key: Vec<u8>,
        len: u64,
        sha1: String,
    },
    /// A hash with this field.
    Field {
        key: Vec<u8>,
        field: Vec<u8>,
    },
    FieldValue {
        key: Vec<u8>,
        field: Vec<u8>,
        value: Vec<u8>,
    },
    /// A hash with this field, which counts how often the holder has entered.
    Entries {
        key: Vec<u8>,
        field: Vec<u8>,
        count: Vec<u8>,
    },
    /// A hash with this field, which is the end of a lease.
    FieldEnd {
        key: Vec<u8>,
        field: Vec<u8>,
        end: Vec<u8>,
    },
    /// A hash with exactly this many fields.
    Fields {
        key: Vec<u8>,
        count: u64,
    },
    /// A sorted set with this member.
    Member {
        key: Vec<u8>,
        member: Vec<u8>,
    },
    /// A sorted set with this member at this score, which is the end of its lease.
    Score {
        key: Vec<u8>,
        member: Vec<u8>,
        score: f64,
    },
    Members {
        key: Vec<u8>,
        count: u64,
    },
    /// A sorted set without the mark that says that it is held in another way.
    Unmarked {
        key: Vec<u8>,
        mark: Vec<u8>,
    },
    /// A set with this member.
    Element {
        key: Vec<u8>,
        member: Vec<u8>,
    },
    Elements {
        key: Vec<u8>,
        count: u64,
    },
    NoField {
        key: Vec<u8>,
        field: Vec<u8>,
    },
    NoMember {
        key: Vec<u8>,
        member: Vec<u8>,
    },
    NoElement {
        key: Vec<u8>,
        member: Vec<u8>,
    },
    /// The hash is not there, or its field is this.
    HeldAs {
        key: Vec<u8>,
        field: Vec<u8>,
        value: Vec<u8>,
    },
    /// A counter with at least this value.
    AtLeast {
        key: Vec<u8>,
        count: u64,
    },
    /// A list with this item.
    Listed {
        key: Vec<u8>,
        item: Vec<u8>,
    },
    NoTtl(Vec<u8>),
    /// The lease that was seen: for tokens that do not distinguish one hold from the next.
    Lease(Lease),
    /// The key of a holder's lease, which had run out: a holder that has one again has come again.
    Lapsed(Vec<u8>),
    /// At most this many milliseconds are left.
    TtlAtMost {
        key: Vec<u8>,
        ms: u64,
    },
    /// No client is blocked on any list, so nobody needs to be woken.
    NobodyBlocked,
    /// Nobody listens on this channel, which announces permits.
    NobodyListens(Vec<u8>),
    /// By the server's clock, in milliseconds of Unix time.
    Before(i64),
    /// Exactly what was kept for undoing.
    Dump {
        key: Vec<u8>,
        dump: Vec<u8>,
    },
    /// A hash with at most this many fields.
    FieldsAtMost {
        key: Vec<u8>,
        count: u64,
    },
    /// A sorted set with at most this many live members, by the server's clock. A member lives for `lease_ms` after its
    /// score, or for ever.
    LiveAtMost {
        key: Vec<u8>,
        lease_ms: Option<i64>,
        count: u64,
    },
    /// A counter that each hold increments has the same value as before, or is missing as before.
    Counter {
        key: Vec<u8>,
        value: Vec<u8>,
    },
}

impl Check {
    /// What the script runs for it.
    pub(super) fn comparison(&self) -> Comparison {
        let make = |name, key: &Vec<u8>, rest: &[&[u8]]| Comparison {
            name,
            key: Some(key.clone()),
            values: rest.iter().map(|operand| operand.to_vec()).collect(),
        };
        let server = |name, values| Comparison { name, key: None, values };
        match self {
            Check::Absent(key) | Check::Lapsed(key) => make("absent", key, &[]),
            Check::Present(key) | Check::Rest(key) => make("present", key, &[]),
            Check::Value { key, value } => make("value", key, &[value]),
            Check::Count { key, count } => make("value", key, &[count]),
            Check::Digest { key, len, sha1 } => make("digest", key, &[len.to_string().as_bytes(), sha1.as_bytes()]),
            Check::Field { key, field } => make("field", key, &[field]),
            Check::FieldValue { key, field, value }
            | Check::FieldEnd { key, field, end: value }
            | Check::Entries { key, field, count: value } => make("field_value", key, &[field, value]),
            Check::Fields { key, count } => make("fields", key, &[count.to_string().as_bytes()]),
            Check::Member { key, member } => make("member", key, &[member]),
            Check::Score { key, member, score } => make("score", key, &[member, score.to_string().as_bytes()]),
            Check::Unmarked { key, mark } => make("no_member", key, &[mark]),
            Check::Members { key, count } => make("members", key, &[count.to_string().as_bytes()]),
            Check::Element { key, member } => make("element", key, &[member]),
            Check::Elements { key, count } => make("elements", key, &[count.to_string().as_bytes()]),
            Check::NoField { key, field } => make("no_field", key, &[field]),
            Check::NoMember { key, member } => make("no_member", key, &[member]),
            Check::NoElement { key, member } => make("no_element", key, &[member]),
            Check::HeldAs { key, field, value } => make("held_as", key, &[field, value]),
            Check::AtLeast { key, count } => make("at_least", key, &[count.to_string().as_bytes()]),
            Check::Listed { key, item } => make("listed", key, &[item]),
            Check::NoTtl(key) => make("no_ttl", key, &[]),
            Check::Lease(lease) => lease.comparison(),
            Check::TtlAtMost { key, ms } => make("ttl_at_most", key, &[ms.to_string().as_bytes()]),
            Check::NobodyBlocked => server("nobody_blocked", Vec::new()),
            Check::NobodyListens(channel) => server("nobody_listens", vec![channel.clone()]),
            Check::Before(moment) => server("before", vec![moment.to_string().into_bytes()]),
            Check::Dump { key, dump } => make("dump", key, &[dump]),
            Check::FieldsAtMost { key, count } => make("fields_at_most", key, &[count.to_string().as_bytes()]),
            Check::LiveAtMost { key, lease_ms, count } => {
                let lease = lease_ms.map(|lease| lease.to_string()).unwrap_or_default();
                make("live_at_most", key, &[lease.as_bytes(), count.to_string().as_bytes()])
            }
            Check::Counter { key, value } => make("counter", key, &[value]),
        }
    }

    /// The condition, as a clause.
    pub fn describe(&self) -> String {
        match self {
            Check::Absent(key) | Check::Lapsed(key) => format!("{} is not there", word(key)),
            Check::Present(key) | Check::Rest(key) => format!("{} is there", word(key)),
            Check::Value { key, value } => format!("GET {} is {}", word(key), word(value)),
            Check::Count { key, count } => format!("GET {} is {}", word(key), word(count)),
            Check::Digest { key, len, sha1 } => format!("the {len} bytes of {} have the SHA-1 {sha1}", word(key)),
            Check::Field { key, field } => format!("HEXISTS {} {}", word(key), word(field)),
            Check::FieldValue { key, field, value }
            | Check::FieldEnd { key, field, end: value }
            | Check::Entries { key, field, count: value } => {
                format!("HGET {} {} is {}", word(key), word(field), word(value))
            }
            Check::Fields { key, count } => format!("HLEN {} is {count}", word(key)),
            Check::Member { key, member } => format!("ZSCORE {} {} is there", word(key), word(member)),
            Check::Score { key, member, score } => format!("ZSCORE {} {} is {score}", word(key), word(member)),
            Check::Unmarked { key, mark } => format!("{} is not in {}", word(mark), word(key)),
            Check::Members { key, count } => format!("ZCARD {} is {count}", word(key)),
            Check::Element { key, member } => format!("SISMEMBER {} {}", word(key), word(member)),
            Check::Elements { key, count } => format!("SCARD {} is {count}", word(key)),
            Check::NoField { key, field } => format!("{} is not in {}", word(field), word(key)),
            Check::NoMember { key, member } | Check::NoElement { key, member } => {
                format!("{} is not in {}", word(member), word(key))
            }
            Check::HeldAs { key, field, value } => {
                format!("HGET {} {} is {}, or nobody holds it", word(key), word(field), word(value))
            }
            Check::AtLeast { key, count } => format!("GET {} is at least {count}", word(key)),
            Check::Listed { key, item } => format!("{} is in the list {}", word(item), word(key)),
            Check::NoTtl(key) => format!("PTTL {} is -1", word(key)),
            Check::Lease(lease) => lease.describe(),
            Check::TtlAtMost { key, ms } => format!("PTTL {} is at most {ms}", word(key)),
            Check::NobodyBlocked => "no client is blocked on the server".into(),
            Check::NobodyListens(channel) => format!("nobody listens on {}", word(channel)),
            Check::Before(_) => "its lease has not run out".into(),
            Check::Dump { key, .. } => format!("{} is exactly what was kept for undoing", word(key)),
            Check::FieldsAtMost { key, count } => format!("HLEN {} is at most {count}", word(key)),
            Check::LiveAtMost { key, count, .. } => format!("{} has at most {count} live members", word(key)),
            Check::Counter { key, value } if value.is_empty() => format!("{} is not there", word(key)),
            Check::Counter { key, value } => format!("GET {} is still {}", word(key), word(value)),
        }
    }
}
