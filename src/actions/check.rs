//! What a script compares before it writes, and what to say when it is otherwise.

use redis::Value;
use serde::{Deserialize, Serialize};

use super::lease::{ANEW, Lease, comes_again};
use super::program::Instruction;
use crate::base::text::{self, short_duration};
use crate::dialects::word;
use crate::lock::{Key, RawValue};
use crate::model::{LockView, Whole};

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
    /// A counter that has come to this.
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
    /// A hash with so many fields and no more.
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
    /// A counter that has come to this at least.
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
    /// The lease that was seen: for tokens that do not tell one hold from the next.
    Lease(Lease),
    /// So many milliseconds are left at most.
    TtlAtMost {
        key: Vec<u8>,
        ms: u64,
    },
    /// No client is blocked, on whatever list: nobody sleeps who would have to be woken.
    NobodyBlocked,
    /// Nobody listens on this channel, by which permits are told.
    NobodyListens(Vec<u8>),
    /// By the server's clock, in milliseconds of Unix time.
    Before(i64),
    /// Exactly what was kept for undoing.
    Dump {
        key: Vec<u8>,
        dump: Vec<u8>,
    },
    /// A hash with so many fields at most.
    FieldsAtMost {
        key: Vec<u8>,
        count: u64,
    },
    /// A sorted set with so many members at most that live, by the server's clock: until so long after their score, or
    /// for ever.
    LiveAtMost {
        key: Vec<u8>,
        lease_ms: Option<i64>,
        count: u64,
    },
    /// A counter that each hold moves is what it was, or not there as before.
    Counter {
        key: Vec<u8>,
        value: Vec<u8>,
    },
}

impl Check {
    pub(super) fn instruction(&self) -> Instruction {
        let make = |name, key: &Vec<u8>, rest: &[&[u8]]| {
            Instruction::new(name, vec![key.clone()], rest.iter().map(|operand| operand.to_vec()).collect())
        };
        match self {
            Check::Absent(key) => make("absent", key, &[]),
            Check::Present(key) | Check::Rest(key) => make("present", key, &[]),
            Check::Value { key, value } => make("value", key, &[value]),
            Check::Count { key, count } => make("value", key, &[count]),
            Check::Digest { key, len, sha1 } => make("digest", key, &[len.to_string().as_bytes(), sha1.as_bytes()]),
            Check::Field { key, field } => make("field", key, &[field]),
            Check::FieldValue { key, field, value } => make("field_value", key, &[field, value]),
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
            Check::Lease(lease) => lease.instruction(),
            Check::TtlAtMost { key, ms } => make("ttl_at_most", key, &[ms.to_string().as_bytes()]),
            Check::NobodyBlocked => Instruction::new("nobody_blocked", Vec::new(), Vec::new()),
            Check::NobodyListens(channel) => Instruction::new("nobody_listens", Vec::new(), vec![channel.clone()]),
            Check::Before(moment) => Instruction::new("before", Vec::new(), vec![moment.to_string().into_bytes()]),
            Check::Dump { key, dump } => make("dump", key, &[dump]),
            Check::FieldsAtMost { key, count } => make("fields_at_most", key, &[count.to_string().as_bytes()]),
            Check::LiveAtMost { key, lease_ms, count } => {
                let lease = lease_ms.map(|lease| lease.to_string()).unwrap_or_default();
                make("live_at_most", key, &[lease.as_bytes(), count.to_string().as_bytes()])
            }
            Check::Counter { key, value } => make("counter", key, &[value]),
        }
    }

    /// As a clause: what has to be so.
    pub fn describe(&self) -> String {
        match self {
            Check::Absent(key) => format!("{} is not there", word(key)),
            Check::Present(key) | Check::Rest(key) => format!("{} is there", word(key)),
            Check::Value { key, value } => format!("GET {} is {}", word(key), word(value)),
            Check::Count { key, count } => format!("GET {} is {}", word(key), word(count)),
            Check::Digest { key, len, sha1 } => format!("the {len} bytes of {} have the SHA-1 {sha1}", word(key)),
            Check::Field { key, field } => format!("HEXISTS {} {}", word(key), word(field)),
            Check::FieldValue { key, field, value } => format!("HGET {} {} is {}", word(key), word(field), word(value)),
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
            Check::AtLeast { key, count } => format!("GET {} is {count} at least", word(key)),
            Check::Listed { key, item } => format!("{} is in the list {}", word(item), word(key)),
            Check::NoTtl(key) => format!("PTTL {} is -1", word(key)),
            Check::Lease(lease) => lease.describe(),
            Check::TtlAtMost { key, ms } => format!("PTTL {} is {ms} at most", word(key)),
            Check::NobodyBlocked => "no client is blocked on the server".into(),
            Check::NobodyListens(channel) => format!("nobody listens on {}", word(channel)),
            Check::Before(_) => "its lease has not run out".into(),
            Check::Dump { key, .. } => format!("{} is exactly what was kept for undoing", word(key)),
            Check::FieldsAtMost { key, count } => format!("HLEN {} is {count} at most", word(key)),
            Check::LiveAtMost { key, count, .. } => format!("{} has {count} members at most that live", word(key)),
            Check::Counter { key, value } if value.is_empty() => format!("{} is not there", word(key)),
            Check::Counter { key, value } => format!("GET {} is {} still", word(key), word(value)),
        }
    }

    /// What moved, by what the server found instead: a value, a number, or the key's type in a list.
    pub fn moved(&self, now: &Value) -> String {
        if let Value::Array(kind) = now
            && let Some(Value::SimpleString(_) | Value::BulkString(_)) = kind.first()
        {
            let kind: String = redis::from_redis_value(kind[0].clone()).unwrap_or_default();
            return if kind == "none" { self.moved_away() } else { self.moved_to(&text::visible(kind.as_bytes())) };
        }
        let count = match now {
            Value::Int(count) => Some(*count),
            _ => None,
        };
        match self {
            Check::Absent(key) => format!("somebody has taken {} since", Key::from(&key[..])),
            Check::Present(_) | Check::Rest(_) => self.moved_away(),
            Check::Value { .. } => match now {
                Value::BulkString(value) => format!("it has another holder now: {}", text::visible(value)),
                _ => gone(),
            },
            Check::Count { count, .. } => {
                let now = match now {
                    Value::BulkString(now) => text::visible(now),
                    _ => "not there".into(),
                };
                format!("the counter is {now} now, not the {} that you saw", text::visible(count))
            }
            Check::Digest { .. } => "it has another holder now".into(),
            Check::Field { field: holder, .. }
            | Check::FieldValue { field: holder, .. }
            | Check::Member { member: holder, .. }
            | Check::Element { member: holder, .. } => match now {
                Value::BulkString(value) => {
                    format!("{} holds it in another way now: {}", text::visible(holder), text::visible(value))
                }
                _ => format!("{} does not hold it any more", text::visible(holder)),
            },
            Check::Score { member, .. } if *now == Value::Nil => {
                format!("{} does not hold it any more", text::visible(member))
            }
            Check::Score { member, .. } => {
                format!("{} has another lease now: {}", text::visible(member), ANEW)
            }
            Check::Fields { count: seen, .. }
            | Check::Members { count: seen, .. }
            | Check::Elements { count: seen, .. } => {
                format!("there are {} entries now, not the {seen} that you saw", count.unwrap_or(0))
            }
            Check::NoField { .. } | Check::NoMember { .. } | Check::NoElement { .. } => {
                "somebody holds it in that place now".into()
            }
            Check::HeldAs { .. } => match now {
                Value::BulkString(mode) => format!("it is held in another way now: {}", text::visible(mode)),
                _ => "it is held in another way now".into(),
            },
            Check::Unmarked { .. } => "it is held in another way now".into(),
            Check::AtLeast { .. } => "all permits are in use now".into(),
            Check::Listed { .. } => "somebody has taken the token from the pool since".into(),
            Check::Lease(lease) => lease.moved(count),
            Check::NoTtl(_) | Check::TtlAtMost { .. } => match count {
                None | Some(-2) => gone(),
                Some(-1) => "it has no TTL now".into(),
                Some(left) => {
                    let left = short_duration(left.max(0) as u64);
                    match self {
                        Check::NoTtl(_) => format!("it has {left} left now, and had no TTL when you looked"),
                        _ => format!("it has {left} left now: more than asked for"),
                    }
                }
            },
            Check::NobodyListens(_) => "somebody listens for its permits now: it counts those of a semaphore".into(),
            Check::NobodyBlocked => {
                "clients are blocked on the server now, and none was when you looked: one may wait for this lock; look \
                 again, so that it is woken"
                    .into()
            }
            Check::Before(_) => "its lease would have run out by now".into(),
            Check::Dump { .. } => "it changes too fast to be kept for undoing".into(),
            Check::FieldsAtMost { .. } | Check::LiveAtMost { .. } => {
                "its place was taken since: there may be no free one".into()
            }
            Check::Counter { .. } => match now {
                Value::BulkString(value) => format!(
                    "somebody has held it since it was freed: its fencing counter is {} now",
                    text::visible(value)
                ),
                _ => "somebody has held it since it was freed".into(),
            },
        }
    }

    /// Its key is not there any more.
    fn moved_away(&self) -> String {
        match self {
            Check::Field { field: holder, .. }
            | Check::FieldValue { field: holder, .. }
            | Check::Member { member: holder, .. }
            | Check::Score { member: holder, .. }
            | Check::Element { member: holder, .. } => {
                format!("{} does not hold it any more: the lock is gone", text::visible(holder))
            }
            Check::Present(key) | Check::AtLeast { key, .. } => format!("{} is not there", Key::from(&key[..])),
            Check::Rest(_) => "the others that held it have let go of it since: it is a free lock now".into(),
            Check::Listed { .. } => "somebody has taken the token from the pool since".into(),
            _ => gone(),
        }
    }

    /// Its key is of another type.
    fn moved_to(&self, kind: &str) -> String {
        match self {
            Check::Value { .. } | Check::Count { .. } | Check::Digest { .. } | Check::AtLeast { .. } => {
                another_type(kind, "string")
            }
            Check::Field { .. }
            | Check::FieldValue { .. }
            | Check::Fields { .. }
            | Check::NoField { .. }
            | Check::HeldAs { .. } => another_type(kind, "hash"),
            Check::Member { .. }
            | Check::Score { .. }
            | Check::Members { .. }
            | Check::Unmarked { .. }
            | Check::NoMember { .. } => another_type(kind, "zset"),
            Check::Element { .. } | Check::Elements { .. } | Check::NoElement { .. } => another_type(kind, "set"),
            Check::Listed { .. } => another_type(kind, "list"),
            _ => format!("the key is a {kind} now"),
        }
    }
}

pub(super) fn gone() -> String {
    "the lock is gone: it was freed, or ran out, since you looked".into()
}

fn another_type(now: &str, before: &str) -> String {
    format!("the key is a {now} now, not the {before} that you saw")
}

/// That nobody but the holders that were seen has the key.
pub(super) fn whole(lock: &LockView) -> Vec<Check> {
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

/// That the field is as it was seen. A count goes up and down while the same holder has the lock.
pub(super) fn hash_field(lock: &LockView, field: &[u8]) -> Check {
    let key = lock.key.as_bytes().to_vec();
    let counts = lock.holders.iter().any(|holder| holder.token.as_bytes() == field && holder.count.is_some());
    let is_number = |value: &[u8]| !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let seen = match &lock.value {
        RawValue::Hash { fields, .. } => fields.iter().find(|(name, _)| **name == *field),
        _ => None,
    };
    let is_holder = lock.holders.iter().any(|holder| holder.token.as_bytes() == field);
    match seen {
        Some((_, value)) if !counts && (is_holder || !is_number(value)) => {
            Check::FieldValue { key, field: field.to_vec(), value: value.to_vec() }
        }
        _ => Check::Field { key, field: field.to_vec() },
    }
}

/// That the member is there; with the same lease, where its name does not tell one hold from the next.
pub(super) fn scored(lock: &LockView, member: &[u8]) -> Check {
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
