//! Looks at keys: type, value and TTL, many at a time, never more of a value than a lock can be.
//!
//! Three short pipelines: what type each key has; strings, and how large the rest is; then the rest. A value and its
//! TTL are asked for next to each other, so that they belong together. Keys that vanish or change their type between
//! two questions are normal. A key of a hundred megabytes costs as little as any other.

use redis::aio::ConnectionLike;
use redis::{Pipeline, RedisResult, Value, cmd};

use crate::base::server_text::ServerText;
use crate::base::text;
use crate::base::time::Ttl;
use crate::lock::{Bytes, Pair, RawValue};
use crate::model::Seen;
use crate::server;

/// As much of a string as is fetched.
pub const STRING_HEAD: usize = 512;
/// As many fields or members as are fetched.
pub const ITEMS: u64 = 64;
/// A collection whose items are larger than this together is not fetched.
const ITEMS_BYTES: f64 = 65_536.0;
/// How many times a hash is asked for its next fields that look like locks.
const FIELD_PAGES: usize = 64;
/// How the reason begins why a key was not fetched that no lock can be. Any other reason is a refusal of the server.
pub const TOO_LARGE: &str = "too large for a lock";

/// A key to look at. `hint`: it is a hash of other things too, in which only fields like this matter.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub key: &'a [u8],
    pub hint: Option<&'static str>,
}

/// Looks at each key; the answers are in the same order. `None`: it changed while we looked, look again.
pub async fn look(conn: &mut impl ConnectionLike, wanted: &[Wanted<'_>]) -> RedisResult<Vec<Option<Seen>>> {
    let mut types = redis::pipe();
    for want in wanted {
        types.cmd("TYPE").arg(want.key);
    }
    let types: Vec<Asked> = ask(conn, types).await?.into_iter().map(Asked::of_type).collect();
    let mut seen: Vec<Option<Seen>> = vec![None; wanted.len()];

    let mut sizes = redis::pipe();
    for (want, kind) in wanted.iter().zip(&types) {
        kind.ask_first(&mut sizes, want.key);
    }
    let mut answers = ask(conn, sizes).await?.into_iter();
    let mut rest = redis::pipe();
    let mut waiting: Vec<(usize, Second)> = Vec::new();
    for (index, (want, kind)) in wanted.iter().zip(&types).enumerate() {
        match kind.take_first(&mut answers, want.hint) {
            First::Seen(done) => seen[index] = done,
            First::Ask(second) => {
                second.ask(&mut rest, want.key);
                waiting.push((index, second));
            }
        }
    }
    if waiting.is_empty() {
        return Ok(seen);
    }
    let mut answers = ask(conn, rest).await?.into_iter();
    for (index, second) in waiting {
        seen[index] = second.take(&mut answers);
        if let Second::Fields { hint, .. } = second
            && seen[index].is_some()
        {
            seen[index] = fields_like(conn, wanted[index].key, hint, seen[index].take()).await?;
        }
    }
    Ok(seen)
}

async fn ask(conn: &mut impl ConnectionLike, mut pipe: Pipeline) -> RedisResult<Vec<Value>> {
    if pipe.is_empty() {
        return Ok(Vec::new());
    }
    pipe.ignore_errors();
    // Errors of single commands stay values; a lost connection, or a server that serves nobody, is an error of the whole.
    let answers: Vec<Value> = pipe.query_async(conn).await?;
    let passing = |answer: &Value| match answer {
        Value::ServerError(error) if server::is_passing(error.code()) => Some(error.clone()),
        _ => None,
    };
    match answers.iter().find_map(passing) {
        Some(error) => Err(error.into()),
        None => Ok(answers),
    }
}

/// What TYPE said.
enum Asked {
    Gone,
    Str,
    Hash,
    Zset,
    Set,
    List,
    Other(ServerText),
    Denied(String),
}

enum First {
    Seen(Option<Seen>),
    Ask(Second),
}

/// What is asked for once the size is known.
#[derive(Clone, Copy)]
enum Second {
    Length { head_len: usize },
    Hash { len: u64 },
    HashPage { len: u64 },
    Fields { len: u64, hint: &'static str },
    Zset { len: u64 },
    Set { len: u64 },
    SetPage { len: u64 },
}

impl Asked {
    fn of_type(answer: Value) -> Asked {
        match answer {
            Value::SimpleString(name) => match name.as_str() {
                "none" => Asked::Gone,
                "string" => Asked::Str,
                "hash" => Asked::Hash,
                "zset" => Asked::Zset,
                "set" => Asked::Set,
                "list" => Asked::List,
                _ => Asked::Other(name.into()),
            },
            Value::ServerError(error) => Asked::Denied(text::said(&error)),
            _ => Asked::Other("unknown".into()),
        }
    }

    fn ask_first(&self, pipe: &mut Pipeline, key: &[u8]) {
        match self {
            Asked::Gone | Asked::Denied(_) => return,
            Asked::Str => pipe.cmd("GETRANGE").arg(key).arg(0).arg(STRING_HEAD - 1),
            Asked::Hash => sized(pipe, "HLEN", key),
            Asked::Zset => sized(pipe, "ZCARD", key),
            Asked::Set => sized(pipe, "SCARD", key),
            Asked::List => pipe.cmd("LLEN").arg(key),
            Asked::Other(_) => pipe,
        };
        pipe.cmd("PTTL").arg(key);
    }

    fn take_first(&self, answers: &mut impl Iterator<Item = Value>, hint: Option<&'static str>) -> First {
        let mut next = || answers.next().unwrap_or(Value::Nil);
        match self {
            Asked::Gone => First::Seen(Some(Seen::Absent)),
            Asked::Denied(why) => First::Seen(Some(unread("unknown", why, Ttl::Never))),
            Asked::Str => {
                let (head, ttl) = (next(), next());
                match head {
                    Value::BulkString(head) if head.len() == STRING_HEAD => {
                        First::Ask(Second::Length { head_len: head.len() })
                    }
                    Value::BulkString(head) => First::Seen(present(RawValue::string(&head), ttl)),
                    refused => First::Seen(refusal("string", refused, ttl)),
                }
            }
            Asked::List => {
                let (len, ttl) = (next(), next());
                match len {
                    Value::Int(len) => First::Seen(present(RawValue::List { len: len as u64 }, ttl)),
                    refused => First::Seen(refusal("list", refused, ttl)),
                }
            }
            Asked::Other(name) => First::Seen(present(RawValue::Other(name.clone()), next())),
            Asked::Hash => {
                let size = Size::take(next(), next(), next());
                match hint {
                    Some(hint) if size.len > ITEMS || !size.is_small() => {
                        First::Ask(Second::Fields { len: size.len, hint })
                    }
                    _ => size
                        .then("hash", |len, whole| if whole { Second::Hash { len } } else { Second::HashPage { len } }),
                }
            }
            Asked::Zset => Size::take(next(), next(), next()).then("zset", |len, _| Second::Zset { len }),
            Asked::Set => Size::take(next(), next(), next())
                .then("set", |len, whole| if whole { Second::Set { len } } else { Second::SetPage { len } }),
        }
    }
}

fn sized<'a>(pipe: &'a mut Pipeline, length: &str, key: &[u8]) -> &'a mut Pipeline {
    // With as many samples as we would fetch, the figure is exact for what we would fetch.
    pipe.cmd(length).arg(key).cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(ITEMS)
}

/// The number of items of a collection and what they weigh.
struct Size {
    len: u64,
    bytes: Result<f64, String>,
    ttl: Value,
    refused: Option<Value>,
}

impl Size {
    fn take(len: Value, bytes: Value, ttl: Value) -> Size {
        let bytes = match bytes {
            Value::Int(bytes) => Ok(bytes as f64),
            Value::ServerError(error) => Err(format!("its size is not known: {}", text::said(&error))),
            _ => Err("its size is not known".into()),
        };
        match len {
            Value::Int(len) => Size { len: len as u64, bytes, ttl, refused: None },
            refused => Size { len: 0, bytes, ttl, refused: Some(refused) },
        }
    }

    /// The items that would be fetched are small together.
    fn is_small(&self) -> bool {
        let share = (ITEMS as f64 / self.len.max(1) as f64).min(1.0);
        self.bytes.as_ref().is_ok_and(|bytes| bytes * share <= ITEMS_BYTES)
    }

    fn then(self, of: &str, second: impl FnOnce(u64, bool) -> Second) -> First {
        if let Some(refused) = self.refused {
            return First::Seen(refusal(of, refused, self.ttl));
        }
        if self.len == 0 {
            return First::Seen(Some(Seen::Absent));
        }
        if self.is_small() {
            return First::Ask(second(self.len, self.len <= ITEMS));
        }
        let why = match self.bytes {
            Ok(bytes) => format!("{TOO_LARGE}: {} items in {bytes} bytes", self.len),
            Err(why) => why,
        };
        First::Seen(ttl_of(&self.ttl).map(|ttl| unread(of, &why, ttl)))
    }
}

impl Second {
    fn ask(&self, pipe: &mut Pipeline, key: &[u8]) {
        match self {
            Second::Length { .. } => pipe.cmd("STRLEN").arg(key).cmd("GETRANGE").arg(key).arg(0).arg(STRING_HEAD - 1),
            Second::Hash { .. } => pipe.cmd("HGETALL").arg(key),
            Second::HashPage { .. } => pipe.cmd("HSCAN").arg(key).arg(0).arg("COUNT").arg(ITEMS),
            Second::Fields { .. } => pipe,
            Second::Zset { .. } => pipe.cmd("ZRANGE").arg(key).arg(0).arg(ITEMS - 1).arg("WITHSCORES"),
            Second::Set { .. } => pipe.cmd("SMEMBERS").arg(key),
            Second::SetPage { .. } => pipe.cmd("SSCAN").arg(key).arg(0).arg("COUNT").arg(ITEMS),
        };
        pipe.cmd("PTTL").arg(key);
    }

    fn take(&self, answers: &mut impl Iterator<Item = Value>) -> Option<Seen> {
        let mut next = || answers.next().unwrap_or(Value::Nil);
        let value = match *self {
            Second::Length { head_len } => {
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
            Second::Fields { len, .. } => RawValue::Hash { fields: Box::default(), len },
            Second::Hash { .. }
            | Second::HashPage { .. }
            | Second::Zset { .. }
            | Second::Set { .. }
            | Second::SetPage { .. } => {
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
        // A page may hold a few more than was asked for; a whole answer has the size it has now.
        let size = |len: u64, got: usize, whole: bool| if whole { got as u64 } else { len.max(got as u64) };
        match *self {
            Second::Hash { len } | Second::HashPage { len } => {
                let whole = matches!(self, Second::Hash { .. });
                let fields: Vec<_> = pairs(items).collect();
                let len = size(len, fields.len(), whole);
                RawValue::Hash {
                    fields: fields.into_iter().take(limit.max(len as usize * whole as usize)).collect(),
                    len,
                }
            }
            Second::Zset { len } => {
                let members: Box<[_]> = pairs(items)
                    .map(|(member, score)| {
                        let score = std::str::from_utf8(&score).ok().and_then(|score| score.parse().ok());
                        (member, score.unwrap_or(f64::NAN))
                    })
                    .collect();
                let len = size(len, members.len(), (members.len() as u64) < ITEMS);
                RawValue::Zset { members, len }
            }
            Second::Set { len } | Second::SetPage { len } => {
                let whole = matches!(self, Second::Set { .. });
                let len = size(len, items.len(), whole);
                RawValue::Set {
                    members: items.into_iter().take(limit.max(len as usize * whole as usize)).collect(),
                    len,
                }
            }
            Second::Length { .. } | Second::Fields { .. } => RawValue::Other("none".into()),
        }
    }
}

/// The fields of a large hash whose names match, page by page.
async fn fields_like(
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

fn present(value: RawValue, ttl: Value) -> Option<Seen> {
    match ttl {
        // A lock whose end is not known can't be judged.
        Value::ServerError(error) => Some(unread(&value.type_name(), &text::said(&error), Ttl::Never)),
        ttl => ttl_of(&ttl).map(|ttl| Seen::Present { value, ttl }),
    }
}

fn unread(of: &str, why: &str, ttl: Ttl) -> Seen {
    Seen::Present { value: RawValue::Unread { of: of.into(), why: why.into() }, ttl }
}

/// A command was refused: the type changed meanwhile (look again), or it is not permitted.
fn refusal(of: &str, refused: Value, ttl: Value) -> Option<Seen> {
    match refused {
        Value::ServerError(error) if error.code() != "WRONGTYPE" => {
            Some(unread(of, &text::said(&error), ttl_of(&ttl).unwrap_or(Ttl::Never)))
        }
        _ => None,
    }
}

/// `None`: the key was gone by the time its TTL was asked for.
fn ttl_of(answer: &Value) -> Option<Ttl> {
    match answer {
        Value::Int(ms) => Ttl::of_pttl(*ms),
        _ => None,
    }
}

/// The flat items of an answer, whether it is a list, a map (RESP3), or a page with its cursor.
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
