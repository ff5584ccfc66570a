//! How many wait for each lock, counted where the server shows it: subscribers of the channels on which libraries wake
//! their waiters, and fair queues. A few commands for hundreds of locks; waiters that poll can't be seen this way.

use std::collections::HashMap;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};

use crate::dialects::{self, Claim, DialectId, Sight, Waiting};
use crate::model::{Key, Lock, LockView, Table, Time, Waits, WaitsAt};

/// Locks asked about in one go: short calls, as everybody else waits for them.
pub const BATCH: usize = 200;

/// One lock, and where its waiters can be seen.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    pub key: Key,
    channel: Vec<u8>,
    list: Option<Vec<u8>>,
}

impl Question {
    /// `None` where nothing on the server shows who waits, or the library is a guess.
    pub fn of(lock: &Lock, table: &Table, now: Time) -> Option<Question> {
        let reading = lock.reading().filter(|reading| reading.confidence >= Claim::SURE)?;
        if !dialects::dialect(reading.dialect).shows_waiters() {
            return None;
        }
        Question::ask(&table.view(lock, now)?, reading.dialect, now)
    }

    pub fn of_view(lock: &LockView, now: Time) -> Option<Question> {
        let id = dialects::by_name(lock.dialect).filter(|_| lock.dialect_confidence >= Claim::SURE)?;
        dialects::dialect(id).shows_waiters().then(|| Question::ask(lock, id, now))?
    }

    fn ask(lock: &LockView, id: DialectId, now: Time) -> Option<Question> {
        let key = lock.key.clone();
        match dialects::dialect(id).waiting(&Sight::of(lock, now)) {
            Waiting::Channel(channel) => Some(Question { key, channel, list: None }),
            Waiting::Queue { channel, list, .. } => Some(Question { key, channel, list: Some(list) }),
            _ => None,
        }
    }
}

/// Counts the waiters of at most [`BATCH`] locks. What may not be asked is left out; an error means that the connection
/// is lost. `scattered`: other nodes may have subscribers too.
pub async fn count(
    conn: &mut impl ConnectionLike,
    questions: &[Question],
    scattered: bool,
    now: Time,
) -> RedisResult<Vec<(Key, Waits)>> {
    let mut pipe = redis::pipe();
    for command in ["NUMSUB", "SHARDNUMSUB"] {
        pipe.cmd("PUBSUB").arg(command);
        for question in questions {
            pipe.arg(&question.channel);
        }
    }
    for list in questions.iter().filter_map(|question| question.list.as_ref()) {
        pipe.cmd("LLEN").arg(list);
    }
    let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
    let mut answers = answers.into_iter();
    let plain = answers.next().and_then(subscribers);
    // Servers before Redis 7.0 have no sharded channels.
    let sharded = answers.next().and_then(subscribers).unwrap_or_default();
    let mut counted = Vec::new();
    for question in questions {
        let queued = question.list.as_ref().and_then(|_| answers.next()).and_then(|answer| match answer {
            Ok(Value::Int(length)) => u32::try_from(length).ok(),
            _ => None,
        });
        let here = |counts: &HashMap<Vec<u8>, u32>| counts.get(&question.channel).copied().unwrap_or(0);
        let listening = plain.as_ref().map(|plain| here(plain) + here(&sharded));
        let waits = |count, at, at_least| Waits { count, at, at_least, counted: now, dead_heads: None };
        let found = match (queued, listening) {
            (Some(queued @ 1..), _) => waits(queued, WaitsAt::Queue, false),
            (_, Some(listening)) => waits(listening, WaitsAt::Channel, scattered),
            (_, None) => continue,
        };
        counted.push((question.key.clone(), found));
    }
    Ok(counted)
}

fn subscribers(answer: RedisResult<Value>) -> Option<HashMap<Vec<u8>, u32>> {
    redis::from_redis_value(answer.ok()?).ok()
}
