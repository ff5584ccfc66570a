//! The queues of fair locks: the waiters at the front of each, their deadlines, and whether they still listen.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::{Listeners, Waiter};
use crate::base::time::Time;
use crate::sources::replies::Replies;

/// The queue of a fair lock: waiters in order, their deadlines, and what their own channels begin with.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::sources) struct Queue {
    pub list: Vec<u8>,
    pub deadlines: Vec<u8>,
    pub channel_prefix: Vec<u8>,
}

/// The waiters with these ids in each queue, in one pipeline. `now`: by the server's clock, which is nearer to the
/// waiters' clocks than ours. An error means that the connection is lost.
pub(super) async fn waiters(
    conn: &mut impl ConnectionLike,
    queues: Vec<(&Queue, Vec<Vec<u8>>)>,
    scattered: bool,
    now: Time,
) -> RedisResult<Vec<Vec<Waiter>>> {
    let mut pipe = redis::pipe();
    let mut channels = Vec::new();
    for (queue, ids) in &queues {
        for id in ids {
            pipe.cmd("ZSCORE").arg(&queue.deadlines).arg(id);
            channels.push([&queue.channel_prefix[..], id].concat());
        }
    }
    if channels.is_empty() {
        return Ok(queues.iter().map(|_| Vec::new()).collect());
    }
    Listeners::ask(&mut pipe, channels.iter().map(Vec::as_slice));
    let mut replies = Replies::to(conn, pipe).await?;
    let deadlines: Vec<Option<f64>> = channels.iter().map(|_| replies.read().unwrap_or(None)).collect();
    let listeners = Listeners::take(&mut replies, scattered);
    let mut next = deadlines.into_iter().enumerate();
    let mut waiter = |id: Vec<u8>| {
        let (index, deadline) = next.next().expect("one deadline for each id");
        let left_ms = deadline.map(|deadline| (deadline as i64).saturating_sub(now.0));
        Waiter { id: id.into(), left_ms, listens: listeners.anybody_on(index) }
    };
    Ok(queues.into_iter().map(|(_, ids)| ids.into_iter().map(&mut waiter).collect()).collect())
}
