//! Watches beside an event stream for what no event reports.
//!
//! FLUSHDB, FLUSHALL and SWAPDB send no event, but the server counts their calls. Nor does an event report that
//! notifications were turned on or off. The same questions, asked each second, also detect a server that went silent
//! without closing the connection. A refused question is not repeated.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisResult, cmd};
use tokio::sync::{mpsc, watch};

use super::{Ended, Hears, LastAnswer, Standing};
use crate::base::clock::Clock;
use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::Observation;
use crate::server::InfoText;
use crate::topology::ServerConnection;

const EVERY: Duration = Duration::from_secs(1);
/// An answer that takes longer is overdue, and what was known before is not told as if it were known now.
const PATIENCE: Duration = Duration::from_secs(2);
/// After a pause of our own the answer may be there already, and only has to be read.
const READ: Duration = Duration::from_millis(250);
const SETTING: &str = "notify-keyspace-events";

pub(super) struct Guard {
    conn: ServerConnection,
    marks: Marks,
}

/// What a guard tells, and to whom.
pub(super) struct Post<M> {
    pub node: NodeId,
    pub clock: Clock,
    pub out: mpsc::Sender<M>,
    pub answered: Arc<LastAnswer>,
    /// Gets the time at which each question was sent that was answered.
    pub asked: watch::Sender<Option<Time>>,
}

/// What is compared from second to second.
#[derive(Clone, PartialEq, Debug)]
struct Marks {
    flushes: Flushes,
    /// Which events the server sends; `None` if we may not ask.
    events: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Flushes {
    /// Calls of commands that empty or swap databases.
    Calls(u64),
    /// The number of keys, where we may not ask for calls. If half of them are gone at once, we assume a flush.
    Keys(u64),
    Unknown,
}

impl Flushes {
    fn tell_of_one(self, before: Flushes) -> bool {
        match (before, self) {
            (Flushes::Calls(before), Flushes::Calls(now)) => before != now,
            (Flushes::Keys(before), Flushes::Keys(now)) => now < before / 2,
            _ => false,
        }
    }
}

impl Guard {
    /// Reads the first values: later changes are noticed.
    pub async fn post(mut conn: ServerConnection) -> RedisResult<Guard> {
        let flushes = match calls(&mut conn).await? {
            Some(calls) => Flushes::Calls(calls),
            None => keys(&mut conn).await?.map_or(Flushes::Unknown, Flushes::Keys),
        };
        let events = events(&mut conn).await?;
        Ok(Guard { conn, marks: Marks { flushes, events } })
    }

    /// Watches until the connection is lost, nobody listens, or the server sends other events than before.
    pub async fn watch<M: Hears>(mut self, post: Post<M>) -> RedisResult<Ended> {
        let Post { node, clock, out, answered, asked: of_answers } = post;
        loop {
            tokio::time::sleep(EVERY).await;
            let asked = clock.now();
            let now = {
                let answer = self.ask();
                tokio::pin!(answer);
                match in_patience(answer.as_mut()).await {
                    Some(now) => now?,
                    // Only told: the connection and the events on it are worth more than another attempt.
                    None => {
                        let since = answered.at().unwrap_or(asked);
                        if out.send(Standing::Silent { since }.into()).await.is_err() {
                            return Ok(Ended::Unheard);
                        }
                        let now = answer.await?;
                        answered.came(clock.now());
                        if out.send(Standing::Answers.into()).await.is_err() {
                            return Ok(Ended::Unheard);
                        }
                        now
                    }
                }
            };
            answered.came(clock.now());
            of_answers.send_replace(Some(asked));
            let flushed = Observation::Flushed { node, at: clock.now() };
            if now.flushes.tell_of_one(self.marks.flushes) && out.send(flushed.into()).await.is_err() {
                return Ok(Ended::Unheard);
            }
            if now.events != self.marks.events {
                return Ok(Ended::Choose);
            }
            if out.is_closed() {
                return Ok(Ended::Unheard);
            }
            self.marks = now;
        }
    }

    async fn ask(&mut self) -> RedisResult<Marks> {
        let conn = &mut self.conn;
        let flushes = match self.marks.flushes {
            Flushes::Calls(_) => calls(conn).await?.map_or(Flushes::Unknown, Flushes::Calls),
            Flushes::Keys(_) => keys(conn).await?.map_or(Flushes::Unknown, Flushes::Keys),
            Flushes::Unknown => {
                // Nothing to compare, but check that the server answers.
                permitted::<redis::Value>(conn, &cmd("PING")).await?;
                Flushes::Unknown
            }
        };
        let events = match self.marks.events {
            Some(_) => events(conn).await?,
            None => None,
        };
        Ok(Marks { flushes, events })
    }
}

/// What it gives, unless it takes too long.
async fn in_patience<F: Future>(mut doing: Pin<&mut F>) -> Option<F::Output> {
    for limit in [PATIENCE, READ] {
        if let Ok(done) = tokio::time::timeout(limit, doing.as_mut()).await {
            return Some(done);
        }
    }
    None
}

async fn calls(conn: &mut ServerConnection) -> RedisResult<Option<u64>> {
    let stats: Option<String> = permitted(conn, cmd("INFO").arg("commandstats")).await?;
    Ok(stats.map(|stats| flushes(&stats)))
}

async fn keys(conn: &mut ServerConnection) -> RedisResult<Option<u64>> {
    permitted(conn, &cmd("DBSIZE")).await
}

async fn events(conn: &mut ServerConnection) -> RedisResult<Option<String>> {
    let found: Option<HashMap<String, String>> = permitted(conn, cmd("CONFIG").arg("GET").arg(SETTING)).await?;
    Ok(found.and_then(|mut found| found.remove(SETTING)))
}

/// The answer; `None` where the server refuses it.
async fn permitted<T: FromRedisValue>(conn: &mut ServerConnection, question: &Cmd) -> RedisResult<Option<T>> {
    match question.query_async(conn).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code().is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

fn flushes(commandstats: &str) -> u64 {
    let info = InfoText::parse(commandstats);
    let calls = |name: &str| info.part_number::<u64>(name, "calls").unwrap_or(0);
    ["cmdstat_flushall", "cmdstat_flushdb", "cmdstat_swapdb"].into_iter().map(calls).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_of_all_kinds_are_counted() {
        let text = "# Commandstats\r\ncmdstat_flushall:calls=2,usec=9,usec_per_call=4.5\r\ncmdstat_swapdb:calls=1,usec=1\r\ncmdstat_get:calls=7,usec=3\r\n";
        assert_eq!(flushes(text), 3);
        assert!(Flushes::Calls(3).tell_of_one(Flushes::Calls(2)));
        assert!(!Flushes::Calls(3).tell_of_one(Flushes::Calls(3)));
        assert!(Flushes::Keys(1).tell_of_one(Flushes::Keys(10)));
        assert!(!Flushes::Unknown.tell_of_one(Flushes::Unknown));
    }
}
