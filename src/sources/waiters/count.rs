//! Counts the waiters of many locks at once, in short calls: subscribers of the channels on which libraries wake their
//! waiters, the lengths of fair queues, and the clients that are blocked on lists.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::ask::blocked_clients;
use super::{Count, Listeners, dead_heads};
use crate::base::time::Time;
use crate::lock::Key;
use crate::model::{Connection, Waits, WaitsAt};
use crate::sources::query::{LockQuery, Place};
use crate::sources::replies::Replies;

/// Counts the waiters of at most [`BATCH`](crate::sources::query::BATCH) locks, where they can be counted. A refused
/// command leaves its locks out; an error means that the connection is lost. `scattered`: other nodes may have subscribers
/// of their own.
pub async fn count(
    conn: &mut impl ConnectionLike,
    queries: &[LockQuery],
    scattered: bool,
    now: Time,
) -> RedisResult<Vec<(Key, Waits)>> {
    let places: Vec<(&Key, &Place)> =
        queries.iter().filter_map(|query| Some((&query.key, query.waits.as_ref()?))).collect();
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipe = redis::pipe();
    Listeners::ask(&mut pipe, places.iter().map(|(_, place)| place.channel.as_slice()));
    for queue in places.iter().filter_map(|(_, place)| place.queue.as_ref()) {
        pipe.cmd("LLEN").arg(&queue.list);
    }
    let mut replies = Replies::to(conn, pipe).await?;
    let listeners = Listeners::take(&mut replies, scattered);
    let mut counted = Vec::new();
    let mut queues = Vec::new();
    for (index, (key, place)) in places.into_iter().enumerate() {
        let queued = place.queue.as_ref().and_then(|_| replies.read::<u32>().ok());
        let listening = listeners.seen_on(index).map(|(count, more)| (u32::try_from(count).unwrap_or(u32::MAX), more));
        let waits = |count, at, at_least| Waits { count, at, at_least, dead_heads: None, counted: now };
        let found = match (queued, listening) {
            (Some(queued @ 1..), _) => {
                queues.extend(place.queue.as_ref().map(|queue| (counted.len(), queue)));
                waits(queued, WaitsAt::Queue, false)
            }
            // Waiters in a queue that we may not read are not on the lock's channel.
            (None, Some((0, _))) if place.queue.is_some() => continue,
            (None, Some((listening, _))) if place.queue.is_some() => waits(listening, WaitsAt::Channel, true),
            (_, Some((listening, more))) => waits(listening, WaitsAt::Channel, more),
            (_, None) => continue,
        };
        counted.push((key.clone(), found));
    }
    for (index, dead) in dead_heads::count(conn, &queues, scattered, now).await? {
        counted[index].1.dead_heads = Some(dead);
    }
    Ok(counted)
}

/// How many wait at most for each of the locks whose waiters are blocked on lists, and who may: one question, however many
/// locks.
pub async fn count_blocked(
    conn: &mut impl ConnectionLike,
    queries: &[LockQuery],
    db: i64,
    now: Time,
) -> RedisResult<(Vec<(Key, Waits)>, Vec<Connection>)> {
    if !queries.iter().any(|query| query.blocks) {
        return Ok(Default::default());
    }
    let blocked = blocked_clients(conn, db, now).await?;
    let (Count::Exactly(count) | Count::AtMost(count) | Count::AtLeast(count)) = blocked.count else {
        return Ok(Default::default());
    };
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let waits = Waits { count, at: WaitsAt::Blocked, at_least: false, dead_heads: None, counted: now };
    let counted = queries.iter().filter(|query| query.blocks).map(|query| (query.key.clone(), waits)).collect();
    Ok((counted, blocked.clients))
}
