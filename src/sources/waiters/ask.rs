//! Asks a node who waits for a lock: at most three short pipelines, whatever the library.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::blocked::{Blocked, ClientCounts};
use super::queue::{self, Queue};
use super::{Listeners, Waiters};
use crate::base::time::Time;
use crate::dialects::Waiting;
use crate::server::Fact;
use crate::sources::replies::Replies;

/// Fetch at most this many waiters of a queue.
const QUEUE: isize = 50;

/// Who waits. An error means that the connection is lost.
///
/// `sure`: the library is recognised beyond doubt. `scattered`: other nodes may have subscribers of their own.
pub async fn ask(
    conn: &mut impl ConnectionLike,
    waiting: &Waiting,
    db: i64,
    sure: bool,
    scattered: bool,
    now: Time,
) -> RedisResult<Waiters> {
    let waiters = match waiting {
        Waiting::Channel(channel) => {
            let mut pipe = redis::pipe();
            Listeners::ask(&mut pipe, [channel.as_slice()].into_iter());
            let mut replies = Replies::to(conn, pipe).await?;
            Waiters::of_channel(channel, &Listeners::take(&mut replies, scattered))
        }
        Waiting::Queue { channel, list, deadlines, channel_prefix } => {
            let (list, deadlines, channel_prefix) = (list.clone(), deadlines.clone(), channel_prefix.clone());
            fair(conn, channel, &Queue { list, deadlines, channel_prefix }, scattered, now).await?
        }
        Waiting::BlockedOn(list) => Waiters::of_blocked(list, blocked_clients(conn, db, now).await?, db),
        waiting => Waiters::without_asking(waiting)
            .unwrap_or_else(|| Waiters::unknown(waiting, "there is nothing to ask".into())),
    };
    Ok(if sure { waiters } else { waiters.in_doubt() })
}

/// A lock that may be fair: its queue, or else the subscribers of its channel.
async fn fair(
    conn: &mut impl ConnectionLike,
    channel: &[u8],
    queue: &Queue,
    scattered: bool,
    now: Time,
) -> RedisResult<Waiters> {
    let mut pipe = redis::pipe();
    pipe.cmd("TIME");
    pipe.cmd("LLEN").arg(&queue.list);
    pipe.cmd("LRANGE").arg(&queue.list).arg(0).arg(QUEUE - 1);
    Listeners::ask(&mut pipe, [channel].into_iter());
    let mut replies = Replies::to(conn, pipe).await?;
    let now = replies.time().unwrap_or(now);
    let length = Fact::answered(replies.read::<u64>(), "LLEN");
    let ids = replies.read::<Vec<Vec<u8>>>();
    let unfair = Waiters::of_channel(channel, &Listeners::take(&mut replies, scattered));
    let (length, ids) = match ids {
        Ok(ids) => (length, ids),
        Err(error) => (length.and_then(|_| Fact::answered(Err(error), "LRANGE")), Vec::new()),
    };
    let waiters = queue::waiters(conn, vec![(queue, ids)], scattered, now).await?.pop().unwrap_or_default();
    Ok(Waiters::of_queue(&queue.list, length, waiters, unfair))
}

pub(super) async fn blocked_clients(conn: &mut impl ConnectionLike, db: i64, now: Time) -> RedisResult<Blocked> {
    let mut pipe = redis::pipe();
    pipe.cmd("INFO").arg("clients");
    let info = Replies::to(conn, pipe).await?.read::<String>();
    let clients = Fact::answered(info, "INFO").and_then(|info| {
        ClientCounts::parse(&info)
            .map_or_else(|| Fact::Unknown("INFO does not contain the client counts".into()), Fact::Known)
    });
    let listed = match clients.known() {
        Some(clients) if !clients.worth_listing() => None,
        _ => {
            let mut pipe = redis::pipe();
            pipe.cmd("CLIENT").arg("LIST");
            Some(Fact::answered(Replies::to(conn, pipe).await?.read::<String>(), "CLIENT LIST"))
        }
    };
    Ok(Blocked::read(&clients, listed, db, now))
}
