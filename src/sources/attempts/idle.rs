//! When keys were last used, by the server's own clock: the only trace of waiters that poll. The table judges it, since it
//! knows who else used them.

use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{RedisResult, Value};

use crate::base::time::Time;
use crate::lock::Key;
use crate::sources::query::LockQuery;

/// What the server said.
pub enum Idle {
    /// About when each key was last used.
    Since(Vec<(Key, Time)>),
    /// The server keeps no idle times (an LFU policy), or this user may not ask. The same for every key.
    Unknown,
}

/// Asks about the locks whose waiters can't be counted. An error means that the connection is lost. `now`: taken before the
/// command is sent.
pub async fn idle(conn: &mut impl ConnectionLike, queries: &[LockQuery], now: Time) -> RedisResult<Idle> {
    let keys: Vec<&Key> = queries.iter().filter(|query| query.waits.is_none()).map(|asked| &asked.key).collect();
    if keys.is_empty() {
        return Ok(Idle::Since(Vec::new()));
    }
    let mut pipe = redis::pipe();
    for key in &keys {
        pipe.cmd("OBJECT").arg("IDLETIME").arg(key.as_bytes());
    }
    let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
    if answers.iter().all(Result::is_err) {
        return Ok(Idle::Unknown);
    }
    let since = |(key, answer): (&Key, RedisResult<Value>)| match answer {
        Ok(Value::Int(seconds)) => {
            Some((key.clone(), now - Duration::from_secs(u64::try_from(seconds).unwrap_or_default())))
        }
        // It is gone, or may not be asked about.
        _ => None,
    };
    Ok(Idle::Since(keys.into_iter().zip(answers).filter_map(since).collect()))
}
