//! Dead waiters at the head of fair queues. Only the head may take a fair lock, so all others wait until its deadline has
//! passed.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::queue::{self, Queue};
use super::{Health, Waiter, Waiters};
use crate::base::time::Time;
use crate::sources::replies::Replies;

/// Read at most this many waiters of each queue.
const HEADS: usize = 3;
/// Read at most this many queues at once: each waiter has a channel of its own to ask about.
const QUEUES: usize = 100;

/// The number of dead waiters at the head of each queue; queues where it is unknown are left out. `queues`: each with a
/// number that identifies it. An error means that the connection is lost.
pub async fn count(
    conn: &mut impl ConnectionLike,
    queues: &[(usize, &Queue)],
    scattered: bool,
    now: Time,
) -> RedisResult<Vec<(usize, u32)>> {
    let mut dead = Vec::new();
    for part in queues.chunks(QUEUES) {
        dead.extend(count_part(conn, part, scattered, now).await?);
    }
    Ok(dead)
}

async fn count_part(
    conn: &mut impl ConnectionLike,
    queues: &[(usize, &Queue)],
    scattered: bool,
    now: Time,
) -> RedisResult<Vec<(usize, u32)>> {
    let mut pipe = redis::pipe();
    pipe.cmd("TIME");
    for (_, queue) in queues {
        pipe.cmd("LRANGE").arg(&queue.list).arg(0).arg(HEADS - 1);
    }
    let mut replies = Replies::to(conn, pipe).await?;
    let now = replies.time().unwrap_or(now);
    let mut numbers = Vec::new();
    let mut heads = Vec::new();
    for (number, queue) in queues {
        if let Some(ids) = replies.read::<Vec<Vec<u8>>>().ok().filter(|ids| !ids.is_empty()) {
            numbers.push(*number);
            heads.push((*queue, ids));
        }
    }
    let heads = queue::waiters(conn, heads, scattered, now).await?;
    let dead = |(number, queue): (usize, Vec<Waiter>)| Some((number, dead_first(&Waiters::queued(queue))?));
    Ok(numbers.into_iter().zip(heads).filter_map(dead).collect())
}

/// Counts waiters that do not listen, up to the first that does. One whose deadline has passed blocks nobody. `None` where
/// it is not known.
fn dead_first(waiters: &Waiters) -> Option<u32> {
    let mut dead = 0;
    for (_, health) in waiters.in_order(0) {
        match health {
            Health::Deaf { .. } => dead += 1,
            Health::Overdue => {}
            Health::Listening => break,
            Health::Unknown(_) => return (dead > 0).then_some(dead),
        }
    }
    Some(dead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Fact;

    fn dead(queue: &[(i64, Option<bool>)]) -> Option<u32> {
        let listens = |known: Option<bool>| known.map_or(Fact::Unknown("refused".into()), Fact::Known);
        let waiter = |&(left, known): &(i64, Option<bool>)| Waiter {
            id: b"w".as_slice().into(),
            left_ms: Some(left),
            listens: listens(known),
        };
        dead_first(&Waiters::queued(queue.iter().map(waiter).collect()))
    }

    #[test]
    fn only_those_before_the_first_who_hears_hold_up_the_others() {
        let (alive, deaf) = ((9_000, Some(true)), (9_000, Some(false)));
        assert_eq!(dead(&[alive, deaf, deaf]), Some(0));
        assert_eq!(dead(&[deaf, deaf, alive]), Some(2));
        assert_eq!(dead(&[(-5, Some(false)), deaf, alive]), Some(1), "whose time is over is dropped by the next");
    }

    #[test]
    fn what_may_not_be_asked_is_not_zero() {
        assert_eq!(dead(&[(9_000, None), (9_000, Some(false))]), None);
        assert_eq!(dead(&[(9_000, Some(false)), (9_000, None)]), Some(1));
    }
}
