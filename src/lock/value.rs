//! As much of a key's value as was read. Bounded, however large the value is.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::base::serial::Exact;
use crate::base::server_text::ServerText;

/// Some bytes of a value.
pub type Bytes = Box<[u8]>;
/// A field or member and what belongs to it.
pub type Pair<T> = (Bytes, T);

/// A key's type and the part of its value that we fetch. `len` is the true size: if it is larger than that part, the
/// value was cut.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum RawValue {
    Str {
        head: Box<[u8]>,
        len: u64,
    },
    Hash {
        fields: Box<[Pair<Bytes>]>,
        len: u64,
    },
    Zset {
        #[serde(with = "scores")]
        members: Box<[Pair<f64>]>,
        len: u64,
    },
    Set {
        members: Box<[Box<[u8]>]>,
        len: u64,
    },
    List {
        len: u64,
    },
    /// A type that no lock library uses (a stream, a module's type), by its name.
    Other(ServerText),
    /// The key exists, but its value was not fetched: not permitted, or too large.
    Unread {
        /// Boxed, because it is rare and a value should be small.
        of: Box<ServerText>,
        /// A harmless sentence.
        why: Box<str>,
    },
}

/// Members with their scores, each score exact: they may be infinite, and a release compares them.
mod scores {
    use serde::{Deserializer, Serializer};

    use super::*;

    pub fn serialize<S: Serializer>(members: &[Pair<f64>], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(members.iter().map(|(member, score)| (member, Exact(*score))))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Box<[Pair<f64>]>, D::Error> {
        let members = Vec::<Pair<Exact>>::deserialize(from)?;
        Ok(members.into_iter().map(|(member, score)| (member, score.0)).collect())
    }
}

impl RawValue {
    /// A whole string value.
    pub fn string(bytes: &[u8]) -> RawValue {
        RawValue::Str { head: bytes.into(), len: bytes.len() as u64 }
    }

    /// A whole hash value.
    pub fn hash<'a>(fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> RawValue {
        let fields: Box<[_]> = fields.into_iter().map(|(f, v)| (f.into(), v.into())).collect();
        RawValue::Hash { len: fields.len() as u64, fields }
    }

    /// A whole sorted set.
    pub fn zset<'a>(members: impl IntoIterator<Item = (&'a [u8], f64)>) -> RawValue {
        let members: Box<[_]> = members.into_iter().map(|(m, s)| (m.into(), s)).collect();
        RawValue::Zset { len: members.len() as u64, members }
    }

    /// A whole set.
    pub fn set<'a>(members: impl IntoIterator<Item = &'a [u8]>) -> RawValue {
        let members: Box<[_]> = members.into_iter().map(|m| m.into()).collect();
        RawValue::Set { len: members.len() as u64, members }
    }

    /// A value of this type that was not fetched, and why.
    pub fn unread(of: &str, why: &str) -> RawValue {
        RawValue::Unread { of: Box::new(of.into()), why: why.into() }
    }

    /// The Redis type name, as TYPE answers it, safe to show.
    pub fn type_name(&self) -> Cow<'static, str> {
        match self {
            RawValue::Str { .. } => "string".into(),
            RawValue::Hash { .. } => "hash".into(),
            RawValue::Zset { .. } => "zset".into(),
            RawValue::Set { .. } => "set".into(),
            RawValue::List { .. } => "list".into(),
            RawValue::Other(name) => name.visible().into(),
            RawValue::Unread { of, .. } => of.visible().into(),
        }
    }

    /// Whether the server may keep one object for all keys with this value: it does for numbers below 10,000. The time since
    /// such a key was used is that of any of them.
    pub fn is_shared(&self) -> bool {
        let RawValue::Str { head, .. } = self else { return false };
        let is_number = matches!(head.len(), 1..=4) && head.iter().all(u8::is_ascii_digit);
        is_number && (head.len() == 1 || head[0] != b'0')
    }

    /// Whether nothing of the value was left out.
    pub fn is_whole(&self) -> bool {
        match self {
            RawValue::Str { head, len } => head.len() as u64 == *len,
            RawValue::Hash { fields, len } => fields.len() as u64 == *len,
            RawValue::Zset { members, len } => members.len() as u64 == *len,
            RawValue::Set { members, len } => members.len() as u64 == *len,
            RawValue::List { .. } | RawValue::Other(_) | RawValue::Unread { .. } => false,
        }
    }

    /// The bytes of a string that was fetched whole.
    pub fn as_string(&self) -> Option<&[u8]> {
        match self {
            RawValue::Str { head, len } if head.len() as u64 == *len => Some(head),
            _ => None,
        }
    }

    /// The fields of a hash that was fetched whole.
    pub fn as_hash(&self) -> Option<&[Pair<Bytes>]> {
        match self {
            RawValue::Hash { fields, len } if fields.len() as u64 == *len => Some(fields),
            _ => None,
        }
    }
}
