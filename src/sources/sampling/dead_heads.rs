//! Who stands first in the queues of fair locks and does not hear when it is called. Only the head may take such a lock,
//! so that all others wait until its deadline has passed.

use redis::RedisResult;
use redis::aio::ConnectionLike;

use super::Queue;
use crate::base::time::Time;
use crate::sources::inspect::ask::{Answers, ask_listeners};
use crate::sources::inspect::{Health, Waiter, Waiters};

/// As many waiters of each queue as are looked at.
const HEADS: usize = 3;
/// As many queues as are looked at in one go: each waiter has a channel of its own to be asked about.
const QUEUES: usize = 100;

/// How many dead waiters stand first in each queue; those of which that can't be told are left out. `queues`: each with
/// a number to tell it by. An error means that the connection is lost.
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
    let mut answers = Answers::to(conn, pipe).await?;
    // Deadlines are the waiters' own times; the server's clock is nearer to theirs than ours.
    let now = answers.read::<(i64, i64)>().ok().and_then(|(s, us)| Time::of_server(s, us)).unwrap_or(now);
    let heads: Vec<(usize, &Queue, Vec<Vec<u8>>)> = queues
        .iter()
        .filter_map(|(index, queue)| {
            Some((*index, *queue, answers.read().ok().filter(|ids: &Vec<_>| !ids.is_empty())?))
        })
        .collect();
    if heads.is_empty() {
        return Ok(Vec::new());
    }
    let mut pipe = redis::pipe();
    let channels = |(_, queue, ids): &(usize, &Queue, Vec<Vec<u8>>)| -> Vec<Vec<u8>> {
        ids.iter().map(|id| [&queue.channel_prefix[..], id].concat()).collect()
    };
    let channels: Vec<Vec<u8>> = heads.iter().flat_map(channels).collect();
    ask_listeners(&mut pipe, &channels.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for (_, queue, ids) in &heads {
        for id in ids {
            pipe.cmd("ZSCORE").arg(&queue.deadlines).arg(id);
        }
    }
    let mut answers = Answers::to(conn, pipe).await?;
    let listeners = answers.listeners(scattered);
    let mut channel = 0;
    let mut found = Vec::new();
    for (index, _, ids) in heads {
        let waiter = |id: Vec<u8>| {
            let deadline: Option<f64> = answers.read().ok().flatten();
            let listens = listeners.anybody_on(channel);
            channel += 1;
            Waiter { id: id.into(), left_ms: deadline.map(|at| (at as i64).saturating_sub(now.0)), listens }
        };
        let queue: Vec<Waiter> = ids.into_iter().map(waiter).collect();
        found.extend(dead_first(&Waiters::queued(queue)).map(|dead| (index, dead)));
    }
    Ok(found)
}

/// How many can't hear before the first who can; whoever's time is over holds up nobody. `None` where it can't be told.
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
    fn what_may_not_be_asked_is_not_nought() {
        assert_eq!(dead(&[(9_000, None), (9_000, Some(false))]), None);
        assert_eq!(dead(&[(9_000, Some(false)), (9_000, None)]), Some(1));
    }
}
