//! Fetches the values of collections, and of strings longer than their head, once their size is known to be small.

use redis::aio::ConnectionLike;
use redis::{Pipeline, RedisResult, Value, cmd};

use super::{ITEMS, STRING_HEAD, present};
use crate::lock::{Bytes, Pair, RawValue};
use crate::model::Seen;

/// Pages of a large hash that we scan for fields that match the hint.
const FIELD_PAGES: usize = 64;

/// What to fetch once the size is known.
#[derive(Clone, Copy)]
pub(super) enum Fetch {
    Length { head_len: usize },
    Hash { len: u64 },
    HashPage { len: u64 },
    Fields { len: u64, hint: &'static str },
    Zset { len: u64 },
    Set { len: u64 },
    SetPage { len: u64 },
}

impl Fetch {
    pub fn ask(&self, pipe: &mut Pipeline, key: &[u8]) {
        match self {
            Fetch::Length { .. } => pipe.cmd("STRLEN").arg(key).cmd("GETRANGE").arg(key).arg(0).arg(STRING_HEAD - 1),
            Fetch::Hash { .. } => pipe.cmd("HGETALL").arg(key),
            Fetch::HashPage { .. } => pipe.cmd("HSCAN").arg(key).arg(0).arg("COUNT").arg(ITEMS),
            Fetch::Fields { .. } => pipe,
            Fetch::Zset { .. } => pipe.cmd("ZRANGE").arg(key).arg(0).arg(ITEMS - 1).arg("WITHSCORES"),
            Fetch::Set { .. } => pipe.cmd("SMEMBERS").arg(key),
            Fetch::SetPage { .. } => pipe.cmd("SSCAN").arg(key).arg(0).arg("COUNT").arg(ITEMS),
        };
        pipe.cmd("PTTL").arg(key);
    }

    pub fn take(&self, answers: &mut impl Iterator<Item = Value>) -> Option<Seen> {
        let mut next = || answers.next().unwrap_or(Value::Nil);
        let value = match *self {
            Fetch::Length { head_len } => {
                let (len, head) = (next(), next());
                match (len, head) {
                    (Value::Int(len), Value::BulkString(head)) if len as usize >= head_len => {
                        RawValue::Str { head: head.into(), len: len as u64 }
                    }
                    _ => {
                        next();
                        return None;
                    }
                }
            }
            Fetch::Fields { len, .. } => RawValue::Hash { fields: Box::default(), len },
            Fetch::Hash { .. }
            | Fetch::HashPage { .. }
            | Fetch::Zset { .. }
            | Fetch::Set { .. }
            | Fetch::SetPage { .. } => {
                let Some(items) = items(next()) else {
                    next();
                    return None;
                };
                self.collect(items)
            }
        };
        present(value, next())
    }

    fn collect(&self, items: Vec<Bytes>) -> RawValue {
        let limit = ITEMS as usize;
        // A page may have a few more items than COUNT; a whole reply has the current size.
        let size = |len: u64, got: usize, whole: bool| if whole { got as u64 } else { len.max(got as u64) };
        match *self {
            Fetch::Hash { len } | Fetch::HashPage { len } => {
                let whole = matches!(self, Fetch::Hash { .. });
                let fields: Vec<_> = pairs(items).collect();
                let len = size(len, fields.len(), whole);
                RawValue::Hash {
                    fields: fields.into_iter().take(limit.max(len as usize * whole as usize)).collect(),
                    len,
                }
            }
            Fetch::Zset { len } => {
                let members: Box<[_]> = pairs(items)
                    .map(|(member, score)| {
                        let score = std::str::from_utf8(&score).ok().and_then(|score| score.parse().ok());
                        (member, score.unwrap_or(f64::NAN))
                    })
                    .collect();
                let len = size(len, members.len(), (members.len() as u64) < ITEMS);
                RawValue::Zset { members, len }
            }
            Fetch::Set { len } | Fetch::SetPage { len } => {
                let whole = matches!(self, Fetch::Set { .. });
                let len = size(len, items.len(), whole);
                RawValue::Set {
                    members: items.into_iter().take(limit.max(len as usize * whole as usize)).collect(),
                    len,
                }
            }
            Fetch::Length { .. } | Fetch::Fields { .. } => RawValue::Other("none".into()),
        }
    }
}

/// The fields of a large hash whose names match, page by page.
pub(super) async fn fields_like(
    conn: &mut impl ConnectionLike,
    key: &[u8],
    hint: &str,
    seen: Option<Seen>,
) -> RedisResult<Option<Seen>> {
    let Some(Seen::Present { value: RawValue::Hash { len, .. }, ttl }) = seen else { return Ok(seen) };
    let mut found: Vec<Pair<Bytes>> = Vec::new();
    let mut cursor = 0u64;
    for _ in 0..FIELD_PAGES {
        let mut page = cmd("HSCAN");
        page.arg(key).arg(cursor).arg("MATCH").arg(hint).arg("COUNT").arg(500);
        let (next, fields): (u64, Vec<Vec<u8>>) = match page.query_async(conn).await {
            Ok(page) => page,
            Err(error) if error.code().is_some() => return Ok(None),
            Err(error) => return Err(error),
        };
        found.extend(pairs(fields.into_iter().map(Vec::into_boxed_slice).collect()));
        cursor = next;
        if cursor == 0 || found.len() as u64 >= ITEMS {
            break;
        }
    }
    Ok(Some(Seen::Present { value: RawValue::Hash { fields: found.into(), len }, ttl }))
}

/// The flat items of a reply: a list, a map (RESP3), or a page with its cursor.
fn items(answer: Value) -> Option<Vec<Bytes>> {
    let bytes = |value: Value| match value {
        Value::BulkString(bytes) => Some(bytes.into_boxed_slice()),
        Value::Double(number) => Some(number.to_string().into_bytes().into()),
        _ => None,
    };
    match answer {
        Value::Array(list) | Value::Set(list) => match <[Value; 2]>::try_from(list) {
            Ok([_cursor, Value::Array(page)]) => page.into_iter().map(bytes).collect(),
            Ok(two) => two.into_iter().map(bytes).collect(),
            Err(list) => list.into_iter().map(bytes).collect(),
        },
        Value::Map(pairs) => pairs.into_iter().flat_map(|(field, value)| [field, value]).map(bytes).collect(),
        _ => None,
    }
}

fn pairs(items: Vec<Bytes>) -> impl Iterator<Item = Pair<Bytes>> {
    let mut items = items.into_iter();
    std::iter::from_fn(move || Some((items.next()?, items.next()?)))
}
