//! Stands guard beside an event stream: notices what no event tells.
//!
//! FLUSHDB, FLUSHALL and SWAPDB fire no event, but the server counts their calls. The same question, asked each second,
//! also notices a server that went silent without closing the connection.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, cmd};
use tokio::sync::mpsc;

use super::{Ended, Signal};
use crate::clock::Clock;
use crate::servers::InfoText;

const EVERY: Duration = Duration::from_secs(1);

/// What is compared from second to second.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mark {
    /// Calls of commands that empty or swap databases.
    Calls(u64),
    /// Where calls may not be asked for: the number of keys. Half of them gone at once is worth a look.
    Keys(u64),
}

impl Mark {
    fn tells_of_a_flush(self, before: Mark) -> bool {
        match (before, self) {
            (Mark::Calls(before), Mark::Calls(now)) => before != now,
            (Mark::Keys(before), Mark::Keys(now)) => now < before / 2,
            _ => false,
        }
    }
}

/// Watches until the connection is lost or nobody listens.
pub(super) async fn watch(
    mut conn: MultiplexedConnection,
    clock: Clock,
    out: mpsc::Sender<Signal>,
) -> RedisResult<Ended> {
    let mut before = mark(&mut conn).await?;
    loop {
        tokio::time::sleep(EVERY).await;
        let now = mark(&mut conn).await?;
        if now.tells_of_a_flush(before) && out.send(Signal::Flushed { at: clock.now() }).await.is_err() {
            return Ok(Ended::Unheard);
        }
        if out.is_closed() {
            return Ok(Ended::Unheard);
        }
        before = now;
    }
}

async fn mark(conn: &mut MultiplexedConnection) -> RedisResult<Mark> {
    match cmd("INFO").arg("commandstats").query_async::<String>(conn).await {
        Ok(text) => Ok(Mark::Calls(flushes(&text))),
        Err(error) if error.code().is_some() => match cmd("DBSIZE").query_async(conn).await {
            Ok(keys) => Ok(Mark::Keys(keys)),
            Err(error) if error.code().is_some() => Ok(Mark::Keys(0)),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

fn flushes(commandstats: &str) -> u64 {
    let info = InfoText::parse(commandstats);
    let calls = |name: &str| info.part(name, "calls").and_then(|calls| calls.parse::<u64>().ok()).unwrap_or(0);
    ["cmdstat_flushall", "cmdstat_flushdb", "cmdstat_swapdb"].into_iter().map(calls).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_of_all_kinds_are_counted() {
        let text = "# Commandstats\r\ncmdstat_flushall:calls=2,usec=9,usec_per_call=4.5\r\ncmdstat_swapdb:calls=1,usec=1\r\ncmdstat_get:calls=7,usec=3\r\n";
        assert_eq!(flushes(text), 3);
        assert!(Mark::Calls(3).tells_of_a_flush(Mark::Calls(2)));
        assert!(!Mark::Calls(3).tells_of_a_flush(Mark::Calls(3)));
        assert!(Mark::Keys(1).tells_of_a_flush(Mark::Keys(10)));
    }
}
