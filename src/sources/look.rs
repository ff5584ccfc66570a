//! Reads keys: type, value and TTL, many at once, and never more of a value than a lock can have.
//!
//! Three short pipelines: the types; then strings, and the sizes of collections; then the collections (`fetch.rs`). A value
//! and its TTL are read next to each other, so that they belong together. A key may vanish or change its type in between. A
//! key of a hundred megabytes costs as little as any other.

mod fetch;

use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{Pipeline, RedisResult, ServerError, Value};

use fetch::{Fetch, fields_like};

use crate::base::server_text::ServerText;
use crate::base::text;
use crate::base::time::Ttl;
use crate::lock::RawValue;
use crate::model::Seen;
use crate::server;

/// Bytes of a string that we fetch.
pub const STRING_HEAD: usize = 512;
/// Fields or members that we fetch.
pub const ITEMS: u64 = 64;
/// A collection whose items are larger than this in total is not fetched.
const ITEMS_BYTES: f64 = 65_536.0;
/// The reason for not fetching a key that can't be a lock begins with this. Any other reason is a refusal of the server.
pub const TOO_LARGE: &str = "too large for a lock";

/// A key to read. `hint`: it is a hash with other content too; only fields that match this glob matter.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub key: &'a [u8],
    pub hint: Option<&'static str>,
}

/// What a look at one key brought.
#[derive(Clone, PartialEq, Debug)]
pub enum Look {
    Seen(Seen),
    /// It changed while we read it: read it again.
    Changed,
    /// Another node of the cluster has it, or may have it.
    Elsewhere(Redirect),
}

/// Where a node of a cluster sends those who ask it for a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Redirect {
    /// Another node owns its slot; as the server said it.
    Moved(String),
    /// Its slot is on its way to the node at this address, and the key may be there.
    Ask(String),
}

impl Redirect {
    fn of(error: &ServerError) -> Option<Redirect> {
        match error.code() {
            "MOVED" => Some(Redirect::Moved(text::said(error))),
            "ASK" => error.details()?.rsplit(' ').next().map(|place| Redirect::Ask(place.to_string())),
            _ => None,
        }
    }
}

impl Look {
    /// The same where no other node is asked: there, a key that is elsewhere can't be read.
    pub fn here(self) -> Option<Seen> {
        match self {
            Look::Seen(seen) => Some(seen),
            Look::Changed => None,
            Look::Elsewhere(Redirect::Moved(said)) => Some(unread("unknown", &said, Ttl::Never)),
            Look::Elsewhere(Redirect::Ask(place)) => Some(unread("unknown", &format!("ASK {place}"), Ttl::Never)),
        }
    }
}

/// Reads each key at this server; the results are in the same order. `None`: it changed while we read it, so read it again.
pub async fn look(conn: &mut impl ConnectionLike, wanted: &[Wanted<'_>]) -> RedisResult<Vec<Option<Seen>>> {
    Ok(look_around(conn, wanted).await?.into_iter().map(Look::here).collect())
}

/// The same for a node of a cluster, where other nodes may have some of the keys.
pub async fn look_around(conn: &mut impl ConnectionLike, wanted: &[Wanted<'_>]) -> RedisResult<Vec<Look>> {
    let types = ask_each(conn, wanted, |pipe, key| {
        pipe.cmd("TYPE").arg(key);
    })
    .await?;
    read(conn, wanted, types).await
}

/// The same, and for how long nobody had used each key. That is asked before the value is read, since reading resets it;
/// `None` if the server does not say (an LFU policy, a user who may not ask).
pub async fn first_look(
    conn: &mut impl ConnectionLike,
    wanted: &[Wanted<'_>],
) -> RedisResult<Vec<(Look, Option<Duration>)>> {
    let ask = |pipe: &mut Pipeline, key: &[u8]| {
        pipe.cmd("TYPE").arg(key).cmd("OBJECT").arg("IDLETIME").arg(key);
    };
    let mut answers = ask_each(conn, wanted, ask).await?.into_iter();
    let (mut types, mut idle) = (Vec::with_capacity(wanted.len()), Vec::with_capacity(wanted.len()));
    while let (Some(of_type), Some(of_idle)) = (answers.next(), answers.next()) {
        types.push(of_type);
        idle.push(match of_idle {
            Value::Int(seconds) => u64::try_from(seconds).ok().map(Duration::from_secs),
            _ => None,
        });
    }
    Ok(read(conn, wanted, types).await?.into_iter().zip(idle).collect())
}

async fn ask_each(
    conn: &mut impl ConnectionLike,
    wanted: &[Wanted<'_>],
    add: impl Fn(&mut Pipeline, &[u8]),
) -> RedisResult<Vec<Value>> {
    let mut pipe = redis::pipe();
    for want in wanted {
        add(&mut pipe, want.key);
    }
    ask(conn, pipe).await
}

async fn read(conn: &mut impl ConnectionLike, wanted: &[Wanted<'_>], types: Vec<Value>) -> RedisResult<Vec<Look>> {
    let types: Vec<Type> = types.into_iter().map(Type::of_type).collect();
    let seen = read_types(conn, wanted, &types).await?;
    let looks = types.into_iter().zip(seen).map(|looked| match looked {
        (Type::Elsewhere(redirect), _) => Look::Elsewhere(redirect),
        (_, Some(seen)) => Look::Seen(seen),
        (_, None) => Look::Changed,
    });
    Ok(looks.collect())
}

async fn read_types(
    conn: &mut impl ConnectionLike,
    wanted: &[Wanted<'_>],
    types: &[Type],
) -> RedisResult<Vec<Option<Seen>>> {
    let mut seen: Vec<Option<Seen>> = vec![None; wanted.len()];

    let mut sizes = redis::pipe();
    for (want, kind) in wanted.iter().zip(types) {
        kind.ask_first(&mut sizes, want.key);
    }
    let mut answers = ask(conn, sizes).await?.into_iter();
    let mut rest = redis::pipe();
    let mut waiting: Vec<(usize, Fetch)> = Vec::new();
    for (index, (want, kind)) in wanted.iter().zip(types).enumerate() {
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
        if let Fetch::Fields { hint, .. } = second
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
    // Errors of single commands stay values. A lost connection, or a server that serves nobody now, fails the whole.
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

/// The reply to TYPE.
enum Type {
    Gone,
    Str,
    Hash,
    Zset,
    Set,
    List,
    Other(ServerText),
    Denied(String),
    Elsewhere(Redirect),
}

enum First {
    Seen(Option<Seen>),
    Ask(Fetch),
}

impl Type {
    fn of_type(answer: Value) -> Type {
        match answer {
            Value::SimpleString(name) => match name.as_str() {
                "none" => Type::Gone,
                "string" => Type::Str,
                "hash" => Type::Hash,
                "zset" => Type::Zset,
                "set" => Type::Set,
                "list" => Type::List,
                _ => Type::Other(name.into()),
            },
            Value::ServerError(error) => match Redirect::of(&error) {
                Some(redirect) => Type::Elsewhere(redirect),
                None => Type::Denied(text::said(&error)),
            },
            _ => Type::Other("unknown".into()),
        }
    }

    fn ask_first(&self, pipe: &mut Pipeline, key: &[u8]) {
        match self {
            Type::Gone | Type::Denied(_) | Type::Elsewhere(_) => return,
            Type::Str => pipe.cmd("GETRANGE").arg(key).arg(0).arg(STRING_HEAD - 1),
            Type::Hash => sized(pipe, "HLEN", key),
            Type::Zset => sized(pipe, "ZCARD", key),
            Type::Set => sized(pipe, "SCARD", key),
            Type::List => pipe.cmd("LLEN").arg(key),
            Type::Other(_) => pipe,
        };
        pipe.cmd("PTTL").arg(key);
    }

    fn take_first(&self, answers: &mut impl Iterator<Item = Value>, hint: Option<&'static str>) -> First {
        let mut next = || answers.next().unwrap_or(Value::Nil);
        match self {
            Type::Gone => First::Seen(Some(Seen::Absent)),
            Type::Elsewhere(_) => First::Seen(None),
            Type::Denied(why) => First::Seen(Some(unread("unknown", why, Ttl::Never))),
            Type::Str => {
                let (head, ttl) = (next(), next());
                match head {
                    Value::BulkString(head) if head.len() == STRING_HEAD => {
                        First::Ask(Fetch::Length { head_len: head.len() })
                    }
                    Value::BulkString(head) => First::Seen(present(RawValue::string(&head), ttl)),
                    refused => First::Seen(refusal("string", refused, ttl)),
                }
            }
            Type::List => {
                let (len, ttl) = (next(), next());
                match len {
                    Value::Int(len) => First::Seen(present(RawValue::List { len: len as u64 }, ttl)),
                    refused => First::Seen(refusal("list", refused, ttl)),
                }
            }
            Type::Other(name) => First::Seen(present(RawValue::Other(name.clone()), next())),
            Type::Hash => {
                let size = Size::take(next(), next(), next());
                match hint {
                    Some(hint) if size.len > ITEMS || !size.is_small() => {
                        First::Ask(Fetch::Fields { len: size.len, hint })
                    }
                    _ => size
                        .then("hash", |len, whole| if whole { Fetch::Hash { len } } else { Fetch::HashPage { len } }),
                }
            }
            Type::Zset => Size::take(next(), next(), next()).then("zset", |len, _| Fetch::Zset { len }),
            Type::Set => Size::take(next(), next(), next())
                .then("set", |len, whole| if whole { Fetch::Set { len } } else { Fetch::SetPage { len } }),
        }
    }
}

fn sized<'a>(pipe: &'a mut Pipeline, length: &str, key: &[u8]) -> &'a mut Pipeline {
    // With this many samples the figure is exact for the items that we would fetch.
    pipe.cmd(length).arg(key).cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(ITEMS)
}

/// The number of items of a collection, and their size in bytes.
struct Size {
    len: u64,
    bytes: Result<f64, String>,
    ttl: Value,
    refused: Option<Value>,
}

impl Size {
    fn take(len: Value, bytes: Value, ttl: Value) -> Size {
        let len = if has_left(&bytes) { bytes.clone() } else { len };
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

    /// Whether the items that we would fetch are small in total.
    fn is_small(&self) -> bool {
        let share = (ITEMS as f64 / self.len.max(1) as f64).min(1.0);
        self.bytes.as_ref().is_ok_and(|bytes| bytes * share <= ITEMS_BYTES)
    }

    fn then(self, of: &str, second: impl FnOnce(u64, bool) -> Fetch) -> First {
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

fn present(value: RawValue, ttl: Value) -> Option<Seen> {
    match ttl {
        ttl if has_left(&ttl) => None,
        // A lock without a known TTL can't be judged.
        Value::ServerError(error) => Some(unread(&value.type_name(), &text::said(&error), Ttl::Never)),
        ttl => ttl_of(&ttl).map(|ttl| Seen::Present { value, ttl }),
    }
}

fn unread(of: &str, why: &str, ttl: Ttl) -> Seen {
    Seen::Present { value: RawValue::unread(of, why), ttl }
}

/// A command was refused: the type changed meanwhile (`None`: read again), or it is not permitted.
fn refusal(of: &str, refused: Value, ttl: Value) -> Option<Seen> {
    match refused {
        refused if has_left(&refused) => None,
        Value::ServerError(error) if error.code() != "WRONGTYPE" => {
            Some(unread(of, &text::said(&error), ttl_of(&ttl).unwrap_or(Ttl::Never)))
        }
        _ => None,
    }
}

/// The key went to another node while we read it.
fn has_left(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if Redirect::of(error).is_some())
}

/// `None`: the key was gone when its TTL was read.
fn ttl_of(answer: &Value) -> Option<Ttl> {
    match answer {
        Value::Int(ms) => Ttl::of_pttl(*ms),
        _ => None,
    }
}
