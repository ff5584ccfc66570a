//! A key's value in JSON, as far as it was read, and bytes as JSON text.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use crate::base::text;
use crate::lock::{Bytes, Pair, RawValue};

/// The key's value, as far as it was read.
#[derive(Serialize)]
pub(super) struct Stored<'a> {
    /// Bytes of a string, elements of anything else; `null` if it was not read.
    length: Option<u64>,
    /// Only a part of the value is here.
    cut: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<FieldOf<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    members: Option<Vec<Member<'a>>>,
}

#[derive(Serialize)]
struct FieldOf<'a> {
    field: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field_base64: Option<String>,
    value: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

#[derive(Serialize)]
struct Member<'a> {
    member: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

impl<'a> Member<'a> {
    fn of(bytes: &'a [u8], score: Option<f64>) -> Member<'a> {
        let (member, member_base64) = textual(bytes);
        Member { member, member_base64, score }
    }
}

impl<'a> Stored<'a> {
    pub(super) fn of(value: &'a RawValue) -> Stored<'a> {
        let bare = |length: Option<u64>, kept: usize| Stored {
            length,
            cut: length.is_some_and(|length| length > kept as u64),
            text: None,
            text_base64: None,
            fields: None,
            members: None,
        };
        match value {
            RawValue::Str { head, len } => {
                let (text, text_base64) = textual(head);
                Stored { text: Some(text), text_base64, ..bare(Some(*len), head.len()) }
            }
            RawValue::Hash { fields, len } => {
                let one = |(field, value): &'a Pair<Bytes>| {
                    let ((field, field_base64), (value, value_base64)) = (textual(field), textual(value));
                    FieldOf { field, field_base64, value, value_base64 }
                };
                Stored { fields: Some(fields.iter().map(one).collect()), ..bare(Some(*len), fields.len()) }
            }
            RawValue::Zset { members, len } => {
                let all = members.iter().map(|(member, score)| Member::of(member, Some(*score)));
                Stored { members: Some(all.collect()), ..bare(Some(*len), members.len()) }
            }
            RawValue::Set { members, len } => {
                let all = members.iter().map(|member| Member::of(member, None));
                Stored { members: Some(all.collect()), ..bare(Some(*len), members.len()) }
            }
            RawValue::List { len } => bare(Some(*len), 0),
            // Nobody reads a lock in it.
            RawValue::Other(_) | RawValue::Unread { .. } => bare(None, 0),
        }
    }
}

/// A value: text as it is, or escaped with its base64.
fn textual(bytes: &[u8]) -> (Cow<'_, str>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.into(), None),
        Err(_) => (text::visible(bytes).into(), Some(BASE64_STANDARD.encode(bytes))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stored(value: &RawValue) -> Value {
        serde_json::to_value(Stored::of(value)).unwrap()
    }

    #[test]
    fn every_type_says_how_much_of_it_is_here() {
        let cut = RawValue::Str { head: b"abc"[..].into(), len: 100 << 20 };
        assert_eq!(stored(&cut), json!({"length": 104_857_600, "cut": true, "text": "abc"}));
        assert_eq!(
            stored(&RawValue::zset([(&b"m"[..], 1.5)])),
            json!({"length": 1, "cut": false, "members": [{"member": "m", "score": 1.5}]})
        );
        assert_eq!(
            stored(&RawValue::set([&b"\xff"[..]])),
            json!({"length": 1, "cut": false, "members": [{"member": "\\xff", "member_base64": "/w=="}]})
        );
        assert_eq!(stored(&RawValue::List { len: 3 }), json!({"length": 3, "cut": true}));
    }
}
