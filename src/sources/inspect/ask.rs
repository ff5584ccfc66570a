//! Asks a node who waits for a lock: at most three short pipelines, whatever the library.

use redis::aio::ConnectionLike;
use redis::{FromRedisValue, Pipeline, RedisError, RedisResult, Value};

use super::Subject;
use super::blocked::{self, Clients};
use super::waiters::{Listeners, Waiter, Waiters};
use crate::base::time::Time;
use crate::dialects::Waiting;
use crate::server::Fact;

/// As many waiters of a queue as are fetched.
const QUEUE: isize = 50;

/// Who waits. An error means that the connection is lost.
pub async fn waiters(conn: &mut impl ConnectionLike, subject: &Subject, now: Time) -> RedisResult<Waiters> {
    let waiters = match &subject.waiting {
        Waiting::Channel(channel) => {
            let mut pipe = redis::pipe();
            ask_listeners(&mut pipe, &[channel]);
            Waiters::of_channel(channel, &Answers::to(conn, pipe).await?.listeners(subject.scattered))
        }
        Waiting::Queue { channel, list, deadlines, channel_prefix } => {
            let fair = Fair { channel, list, deadlines, channel_prefix };
            fair.waiters(conn, subject.scattered, now).await?
        }
        Waiting::BlockedOn(list) => Waiters::of_blocked(list, blocked_clients(conn, subject.db).await?, subject.db),
        waiting => Waiters::without_asking(waiting)
            .unwrap_or_else(|| Waiters::unknown(waiting, "there is nothing to ask".into())),
    };
    Ok(if subject.sure { waiters } else { waiters.in_doubt() })
}

/// Where the waiters of a lock are that may be fair.
struct Fair<'a> {
    channel: &'a [u8],
    list: &'a [u8],
    deadlines: &'a [u8],
    channel_prefix: &'a [u8],
}

impl Fair<'_> {
    async fn waiters(&self, conn: &mut impl ConnectionLike, scattered: bool, now: Time) -> RedisResult<Waiters> {
        let mut pipe = redis::pipe();
        pipe.cmd("TIME");
        pipe.cmd("LLEN").arg(self.list);
        pipe.cmd("LRANGE").arg(self.list).arg(0).arg(QUEUE - 1);
        ask_listeners(&mut pipe, &[self.channel]);
        let mut answers = Answers::to(conn, pipe).await?;
        // Deadlines are the waiters' own times; the server's clock is nearer to theirs than ours.
        let now = answers.read::<(i64, i64)>().ok().and_then(|(s, us)| Time::of_server(s, us)).unwrap_or(now);
        let length = Fact::answered(answers.read::<u64>(), "LLEN");
        let ids = answers.read::<Vec<Vec<u8>>>();
        let unfair = Waiters::of_channel(self.channel, &answers.listeners(scattered));
        let (length, ids) = match ids {
            Ok(ids) => (length, ids),
            Err(error) => (length.and_then(|_| Fact::answered(Err(error), "LRANGE")), Vec::new()),
        };
        let queue = self.queue(conn, ids, scattered, now).await?;
        Ok(Waiters::of_queue(self.list, length, queue, unfair))
    }

    async fn queue(
        &self,
        conn: &mut impl ConnectionLike,
        ids: Vec<Vec<u8>>,
        scattered: bool,
        now: Time,
    ) -> RedisResult<Vec<Waiter>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::pipe();
        for id in &ids {
            pipe.cmd("ZSCORE").arg(self.deadlines).arg(id);
        }
        let channels: Vec<Vec<u8>> = ids.iter().map(|id| [self.channel_prefix, id].concat()).collect();
        ask_listeners(&mut pipe, &channels.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut answers = Answers::to(conn, pipe).await?;
        let deadlines: Vec<Option<f64>> = ids.iter().map(|_| answers.read().unwrap_or(None)).collect();
        let listeners = answers.listeners(scattered);
        let waiter = |(index, (id, deadline)): (usize, (Vec<u8>, Option<f64>))| Waiter {
            id: id.into(),
            left_ms: deadline.map(|deadline| (deadline as i64).saturating_sub(now.0)),
            listens: listeners.anybody_on(index),
        };
        Ok(ids.into_iter().zip(deadlines).enumerate().map(waiter).collect())
    }
}

async fn blocked_clients(conn: &mut impl ConnectionLike, db: i64) -> RedisResult<super::Count> {
    let mut pipe = redis::pipe();
    pipe.cmd("INFO").arg("clients");
    let info = Answers::to(conn, pipe).await?.read::<String>();
    let clients = Fact::answered(info, "INFO").and_then(|info| {
        Clients::parse(&info).map_or_else(|| Fact::Unknown("INFO does not tell of clients".into()), Fact::Known)
    });
    let listed = match clients.known() {
        Some(clients) if !clients.worth_listing() => None,
        _ => {
            let mut pipe = redis::pipe();
            pipe.cmd("CLIENT").arg("LIST");
            Some(Fact::answered(Answers::to(conn, pipe).await?.read::<String>(), "CLIENT LIST"))
        }
    };
    Ok(blocked::bound(&clients, listed, db))
}

pub fn ask_listeners(pipe: &mut Pipeline, channels: &[&[u8]]) {
    for command in ["NUMSUB", "SHARDNUMSUB"] {
        pipe.cmd("PUBSUB").arg(command);
        for channel in channels {
            pipe.arg(*channel);
        }
    }
}

/// Answers one by one; a refusal is one too.
pub struct Answers(std::vec::IntoIter<RedisResult<Value>>);

impl Answers {
    pub async fn to(conn: &mut impl ConnectionLike, mut pipe: Pipeline) -> RedisResult<Answers> {
        let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
        Ok(Answers(answers.into_iter()))
    }

    pub fn value(&mut self) -> RedisResult<Value> {
        self.0.next().unwrap_or(Ok(Value::Nil))
    }

    pub fn read<T: FromRedisValue>(&mut self) -> RedisResult<T> {
        self.value().and_then(|value| T::from_redis_value(value).map_err(RedisError::from))
    }

    pub fn listeners(&mut self, scattered: bool) -> Listeners {
        let (plain, sharded) = (self.value(), self.value());
        Listeners::read(plain, sharded, scattered)
    }
}
