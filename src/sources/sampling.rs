//! How hard locks are wanted.
//!
//! Here: who waits for each lock, where the server shows it: subscribers of the channels on which libraries wake their
//! waiters, and fair queues. Below: that somebody touches the key, where waiters only try again and again (`idle.rs`);
//! attempts that our scripts count (`counted.rs`) or a library publishes (`changelog.rs`); and, by consent, attempts and
//! failures from bursts of MONITOR ([`burst`]), judged one by one ([`judge`]).

pub mod burst;
mod call;
mod changelog;
mod counted;
mod dead_heads;
mod gather;
mod habits;
mod idle;
pub mod judge;
pub mod line;
pub mod rates;
mod run;
pub mod wire;

pub use gather::Gathered;
pub use habits::Scripts;

use std::collections::HashMap;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};

use crate::base::time::Time;
use crate::dialects::{self, Claim, DialectId, Sight, Waiting};
use crate::lock::{Key, Kind};
use crate::model::{Lock, Waits, WaitsAt};

pub use changelog::Changelog;
pub use counted::Counts;
pub use idle::{Idle, idle};

/// Locks asked about in one go: short calls, as everybody else waits for them.
pub const BATCH: usize = 200;

/// One lock, and how to see who wants it.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    pub key: Key,
    /// `None` where waiters can't be counted.
    waits: Option<Place>,
    /// Its library tells of attempts in a changelog.
    publishes: bool,
}

/// Where waiters can be counted.
#[derive(Clone, PartialEq, Debug)]
struct Place {
    channel: Vec<u8>,
    queue: Option<Queue>,
}

/// The queue of a fair lock: waiters in order, their deadlines, and what their own channels begin with.
#[derive(Clone, PartialEq, Debug)]
struct Queue {
    list: Vec<u8>,
    deadlines: Vec<u8>,
    channel_prefix: Vec<u8>,
}

impl Question {
    /// `None` where nobody can want it: a marker, or something that nobody holds.
    pub fn of(lock: &Lock, now: Time) -> Option<Question> {
        let reading = lock.reading().filter(|reading| reading.kind == Kind::Lock && !reading.vacant)?;
        let waits = place(reading.dialect, reading.confidence, &lock.sight(now));
        let publishes = dialects::dialect(reading.dialect).publishes_attempts();
        Some(Question { key: lock.key.clone(), waits, publishes })
    }

    /// Whether the server shows who waits for it.
    pub fn counts_waiters(&self) -> bool {
        self.waits.is_some()
    }
}

/// `None` where nothing on the server shows who waits, or the library is a guess.
fn place(id: DialectId, confidence: f32, sight: &Sight<'_>) -> Option<Place> {
    let dialect = dialects::dialect(id);
    if confidence < Claim::SURE || !dialect.shows_waiters() {
        return None;
    }
    match dialect.waiting(sight) {
        Waiting::Channel(channel) => Some(Place { channel, queue: None }),
        Waiting::Queue { channel, list, deadlines, channel_prefix } => {
            Some(Place { channel, queue: Some(Queue { list, deadlines, channel_prefix }) })
        }
        _ => None,
    }
}

/// Counts the waiters of at most [`BATCH`] locks, where they can be counted. What may not be asked is left out; an error
/// means that the connection is lost. `scattered`: other nodes may have subscribers too.
pub async fn count(
    conn: &mut impl ConnectionLike,
    questions: &[Question],
    scattered: bool,
    now: Time,
) -> RedisResult<Vec<(Key, Waits)>> {
    let places: Vec<(&Key, &Place)> =
        questions.iter().filter_map(|question| Some((&question.key, question.waits.as_ref()?))).collect();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipe = redis::pipe();
    for command in ["NUMSUB", "SHARDNUMSUB"] {
        pipe.cmd("PUBSUB").arg(command);
        for (_, place) in &places {
            pipe.arg(&place.channel);
        }
    }
    for queue in places.iter().filter_map(|(_, place)| place.queue.as_ref()) {
        pipe.cmd("LLEN").arg(&queue.list);
    }
    let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
    let mut answers = answers.into_iter();
    let plain = answers.next().and_then(subscribers);
    // Servers before Redis 7.0 have no sharded channels.
    let sharded = answers.next().and_then(subscribers).unwrap_or_default();
    let mut counted = Vec::new();
    let mut queues = Vec::new();
    for (key, place) in places {
        let queued = place.queue.as_ref().and_then(|_| answers.next()).and_then(|answer| match answer {
            Ok(Value::Int(length)) => u32::try_from(length).ok(),
            _ => None,
        });
        let here = |counts: &HashMap<Vec<u8>, u32>| counts.get(&place.channel).copied().unwrap_or(0);
        let listening = plain.as_ref().map(|plain| here(plain) + here(&sharded));
        let waits = |count, at, at_least| Waits { count, at, at_least, dead_heads: None, counted: now };
        let found = match (queued, listening) {
            (Some(queued @ 1..), _) => {
                queues.extend(place.queue.as_ref().map(|queue| (counted.len(), queue)));
                waits(queued, WaitsAt::Queue, false)
            }
            // Those who wait in a queue that may not be read are not on its channel.
            (None, Some(0)) if place.queue.is_some() => continue,
            (None, Some(listening)) if place.queue.is_some() => waits(listening, WaitsAt::Channel, true),
            (_, Some(listening)) => waits(listening, WaitsAt::Channel, scattered),
            (_, None) => continue,
        };
        counted.push((key.clone(), found));
    }
    for (index, dead) in dead_heads::count(conn, &queues, scattered, now).await? {
        counted[index].1.dead_heads = Some(dead);
    }
    Ok(counted)
}

fn subscribers(answer: RedisResult<Value>) -> Option<HashMap<Vec<u8>, u32>> {
    redis::from_redis_value(answer.ok()?).ok()
}
