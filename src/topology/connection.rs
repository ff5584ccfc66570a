//! A connection for commands and replies, with a limit on the replies.
//!
//! The client crate's own connection over a [`Bounded`] stream. All clones share it; dropping the last closes it at
//! once, even if replies are missing.

use std::io;
use std::sync::{Arc, OnceLock};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, RedisFuture, RedisResult, Value};
use tokio::task::AbortHandle;

use super::Stream;
use super::bounded::{Bounded, Excess};

#[derive(Clone)]
pub struct ServerConnection {
    inner: MultiplexedConnection,
    excess: Arc<OnceLock<Excess>>,
    _driver: Arc<Driver>,
}

/// The task that reads and writes.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ServerConnection {
    pub(super) async fn over(
        stream: Box<dyn Stream>,
        login: &RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<ServerConnection> {
        let excess = Arc::<OnceLock<Excess>>::default();
        let stream = Bounded::of_answers(stream, excess.clone());
        let (inner, driver) = MultiplexedConnection::new_with_config(login, stream, config).await?;
        let driver = tokio::spawn(driver);
        Ok(ServerConnection { inner, excess, _driver: Arc::new(Driver(driver.abort_handle())) })
    }
}

/// Adds why we ended the connection: the caller learns only that it is closed.
fn with_reason(error: RedisError, excess: &OnceLock<Excess>) -> RedisError {
    match excess.get() {
        Some(excess) if error.code().is_none() => io::Error::new(io::ErrorKind::InvalidData, *excess).into(),
        _ => error,
    }
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let ServerConnection { inner, excess, .. } = self;
        Box::pin(async move { inner.send_packed_command(cmd).await.map_err(|error| with_reason(error, excess)) })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let ServerConnection { inner, excess, .. } = self;
        Box::pin(async move {
            inner.send_packed_commands(pipeline, offset, count).await.map_err(|error| with_reason(error, excess))
        })
    }

    fn get_db(&self) -> i64 {
        self.inner.get_db()
    }
}
