//! The library's connection, and everything that is on the server at one moment.

use std::collections::{BTreeMap, BTreeSet};

use redis::{Connection, FromRedisValue, Value};

/// A client's connection.
pub struct Wire {
    connection: Connection,
}

impl Wire {
    pub fn new(connection: Connection) -> Wire {
        Wire { connection }
    }

    pub fn into_connection(self) -> Connection {
        self.connection
    }

    /// Runs one command.
    pub fn run<T: FromRedisValue>(&mut self, command: &[&[u8]]) -> T {
        let mut line = redis::Cmd::new();
        command.iter().for_each(|part| {
            line.arg(*part);
        });
        line.query(&mut self.connection).unwrap_or_else(|error| panic!("a library's command failed: {error}"))
    }

    /// Runs a script of a model; it answers a number.
    pub fn script(&mut self, text: &str, keys: &[&[u8]], arguments: &[&[u8]]) -> i64 {
        let number = keys.len().to_string();
        let head = [b"EVAL", text.as_bytes(), number.as_bytes()];
        let line: Vec<&[u8]> = head.iter().chain(keys).chain(arguments).copied().collect();
        self.run(&line)
    }

    /// The server's clock, in milliseconds of Unix time.
    pub fn now(&mut self) -> i64 {
        let (seconds, micros): (i64, i64) = self.run(&[b"TIME"]);
        seconds * 1_000 + micros / 1_000
    }

    /// Everything at this moment. Where the clock moved on while it was read, ends would be off: it is read again.
    pub fn snapshot(&mut self) -> Snapshot {
        let mut read = || self.run::<(i64, Vec<Row>, i64)>(&[b"EVAL", EVERYTHING.as_bytes(), b"0"]);
        let at_once = |(now, _, then): &(i64, Vec<Row>, i64)| then - now <= MOMENT_MS;
        let (now, keys, _) = (1..READINGS).map(|_| read()).find(at_once).unwrap_or_else(&mut read);
        let keys = keys.into_iter().map(|(key, kind, value, left)| {
            let until = (left >= 0).then_some(now + left);
            (key, Entry { content: Content::read(&kind, value), until })
        });
        Snapshot { now, keys: keys.collect() }
    }
}

/// The longest that reading everything may take, and how often it is tried.
const MOMENT_MS: i64 = 1;
const READINGS: usize = 100;

/// A key, its type, what it holds, and how long it lives.
type Row = (Vec<u8>, String, Value, i64);

const EVERYTHING: &str = "
local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local now = clock()
local read = { string = { 'GET' }, hash = { 'HGETALL' }, set = { 'SMEMBERS' }, list = { 'LRANGE', 0, -1 },
  zset = { 'ZRANGE', 0, -1, 'WITHSCORES' } }
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local how = read[kind]
  if how then
    all[#all + 1] = { key, kind, redis.call(how[1], key, unpack(how, 2)), redis.call('PTTL', key) }
  end
end
return { now, all, clock() }
";

/// What is on the server.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// By the server's clock, in milliseconds of Unix time.
    pub now: i64,
    pub keys: BTreeMap<Vec<u8>, Entry>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub content: Content,
    pub until: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Str(Vec<u8>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Zset(BTreeMap<Vec<u8>, f64>),
    Set(BTreeSet<Vec<u8>>),
    List(Vec<Vec<u8>>),
}

impl Content {
    fn read(kind: &str, value: Value) -> Content {
        fn of<T: FromRedisValue>(value: Value) -> T {
            redis::from_redis_value(value).expect("what the script sends")
        }
        match kind {
            "hash" => Content::Hash(pairs(of(value)).collect()),
            "zset" => {
                let score = |text: Vec<u8>| String::from_utf8(text).ok().and_then(|text| text.parse().ok());
                Content::Zset(pairs(of(value)).map(|(member, at)| (member, score(at).expect("a score"))).collect())
            }
            "set" => Content::Set(of::<Vec<Vec<u8>>>(value).into_iter().collect()),
            "list" => Content::List(of(value)),
            _ => Content::Str(of(value)),
        }
    }
}

fn pairs(flat: Vec<Vec<u8>>) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut flat = flat.into_iter();
    std::iter::from_fn(move || Some((flat.next()?, flat.next()?)))
}

impl Snapshot {
    pub fn string(&self, key: &[u8]) -> Option<&[u8]> {
        match &self.keys.get(key)?.content {
            Content::Str(value) => Some(value),
            _ => None,
        }
    }

    pub fn hash(&self, key: &[u8]) -> BTreeMap<Vec<u8>, Vec<u8>> {
        match self.keys.get(key).map(|entry| &entry.content) {
            Some(Content::Hash(fields)) => fields.clone(),
            _ => BTreeMap::new(),
        }
    }

    pub fn zset(&self, key: &[u8]) -> BTreeMap<Vec<u8>, f64> {
        match self.keys.get(key).map(|entry| &entry.content) {
            Some(Content::Zset(members)) => members.clone(),
            _ => BTreeMap::new(),
        }
    }

    pub fn set(&self, key: &[u8]) -> BTreeSet<Vec<u8>> {
        match self.keys.get(key).map(|entry| &entry.content) {
            Some(Content::Set(members)) => members.clone(),
            _ => BTreeSet::new(),
        }
    }

    pub fn list(&self, key: &[u8]) -> Vec<Vec<u8>> {
        match self.keys.get(key).map(|entry| &entry.content) {
            Some(Content::List(items)) => items.clone(),
            _ => Vec::new(),
        }
    }

    pub fn until(&self, key: &[u8]) -> Option<i64> {
        self.keys.get(key)?.until
    }

    /// Whether anything differs, to the millisecond.
    pub fn is_same(&self, later: &Snapshot) -> bool {
        self.keys == later.keys
    }

    /// What differs in `later`, but for keys whose time was up by then; `wanted` says which keys count.
    pub fn difference(&self, later: &Snapshot, wanted: impl Fn(&[u8]) -> bool) -> Option<String> {
        let names: BTreeSet<&Vec<u8>> = self.keys.keys().chain(later.keys.keys()).collect();
        names.into_iter().filter(|key| wanted(key)).find_map(|key| {
            let shown = key.escape_ascii();
            match (self.keys.get(key), later.keys.get(key)) {
                (Some(before), None) if before.until.is_some_and(|until| until <= later.now + SLACK_MS) => None,
                (Some(before), None) => Some(format!("{shown} is gone; it was {:?}", before.content)),
                (None, Some(after)) => Some(format!("{shown} is new: {:?}", after.content)),
                (Some(before), Some(after)) if before.content != after.content => {
                    Some(format!("{shown} was {:?} and is {:?}", before.content, after.content))
                }
                (Some(before), Some(after)) if !same_moment(before.until, after.until) => {
                    Some(format!("the end of {shown} was {:?} and is {:?}", before.until, after.until))
                }
                _ => None,
            }
        })
    }
}

/// Ends are read to the millisecond, and older servers' clocks move on inside a script.
pub const SLACK_MS: i64 = 5;

pub fn same_moment(one: Option<i64>, other: Option<i64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => (one - other).abs() <= SLACK_MS,
        (None, None) => true,
        _ => false,
    }
}
