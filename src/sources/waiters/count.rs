//! Counts the waiters of many locks at once, in short calls: subscribers of the channels on which libraries wake their
//! waiters, and the lengths of fair queues.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::{Listeners, dead_heads};
use crate::base::time::Time;
use crate::lock::Key;
use crate::model::{Waits, WaitsAt};
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
