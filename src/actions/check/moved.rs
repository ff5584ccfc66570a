//! What to say when a comparison fails: what moved since the operator looked.

use redis::Value;

use super::Check;
use crate::actions::lease::AGAIN;
use crate::base::text::{self, short_duration};
use crate::lock::Key;

impl Check {
    /// The holder that was seen has the lock, for another lease: a person who looks again may still free it.
    pub fn is_another_lease(&self, now: &Value) -> bool {
        match self {
            Check::Lease(_) => matches!(now, Value::Int(-1..)),
            Check::Score { .. } | Check::FieldEnd { .. } => matches!(now, Value::BulkString(_)),
            Check::Lapsed(_) => true,
            _ => false,
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
            Check::Lapsed(_) => format!("it has a lease now, and had none when you looked: {AGAIN}"),
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
                format!("the counter is {now} now; you saw {}", text::visible(count))
            }
            Check::Digest { .. } => "it has another holder now".into(),
            Check::Field { field: holder, .. }
            | Check::FieldValue { field: holder, .. }
            | Check::FieldEnd { field: holder, .. }
            | Check::Entries { field: holder, .. }
            | Check::Member { member: holder, .. }
            | Check::Score { member: holder, .. }
            | Check::Element { member: holder, .. } => self.holder_moved(&text::visible(holder), now),
            Check::Fields { count: seen, .. }
            | Check::Members { count: seen, .. }
            | Check::Elements { count: seen, .. } => {
                format!("there are {} entries now; you saw {seen}", count.unwrap_or(0))
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
            Check::NoTtl(_) => ttl_moved(count, ", and had no TTL when you looked"),
            Check::TtlAtMost { .. } => ttl_moved(count, ": more than asked for"),
            Check::NobodyListens(_) => "somebody listens for its permits now, so it is a semaphore".into(),
            Check::NobodyBlocked if count.is_none() => {
                "the server no longer says whether clients are blocked; one may wait for this lock".into()
            }
            Check::NobodyBlocked => {
                "clients are blocked on the server now, and none was when you looked: one may wait for this lock; look \
                 again to have it woken"
                    .into()
            }
            Check::Before(_) => "its lease would have run out by now".into(),
            Check::Dump { .. } => "it changes too fast to be kept for undoing".into(),
            Check::FieldsAtMost { .. } | Check::LiveAtMost { .. } => {
                "its place was taken since; there may be no other".into()
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

    /// What one holder has now in place of what was seen.
    fn holder_moved(&self, holder: &str, now: &Value) -> String {
        match (self, now) {
            (Check::Entries { count, .. }, Value::BulkString(now)) => {
                format!("{holder} has entered it {} times now, not {}", text::visible(now), text::visible(count))
            }
            (Check::Score { .. } | Check::FieldEnd { .. }, now) if *now != Value::Nil => {
                format!("{holder} has another lease now: {AGAIN}")
            }
            (_, Value::BulkString(value)) => format!("{holder} holds it in another way now: {}", text::visible(value)),
            _ => format!("{holder} does not hold it any more"),
        }
    }

    /// Its key is not there any more.
    fn moved_away(&self) -> String {
        match self {
            Check::Field { field: holder, .. }
            | Check::FieldValue { field: holder, .. }
            | Check::FieldEnd { field: holder, .. }
            | Check::Entries { field: holder, .. }
            | Check::Member { member: holder, .. }
            | Check::Score { member: holder, .. }
            | Check::Element { member: holder, .. } => {
                format!("{} does not hold it any more: the lock is gone", text::visible(holder))
            }
            Check::Present(key) | Check::AtLeast { key, .. } => format!("{} is not there", Key::from(&key[..])),
            Check::Rest(_) => "the other holders have released it since: the lock is free now".into(),
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
            | Check::FieldEnd { .. }
            | Check::Entries { .. }
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

/// By what PTTL says now; `unlike`: how that differs from what was seen.
fn ttl_moved(now: Option<i64>, unlike: &str) -> String {
    match now {
        None | Some(-2) => gone(),
        Some(-1) => "it has no TTL now".into(),
        Some(left) => format!("it has {} left now{unlike}", short_duration(left.max(0) as u64)),
    }
}

pub fn gone() -> String {
    "the lock is gone: it was freed, or ran out, since you looked".into()
}

fn another_type(now: &str, before: &str) -> String {
    format!("the key is a {now} now; you saw a {before}")
}
