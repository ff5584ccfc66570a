//! One task's connection to a node: opened on first use, and again after a loss.
//!
//! After a failure the next attempt waits, longer each time and with jitter. Callers wait with [`Link::pause`] before
//! they take a turn of the shared budget, so that others do not wait with them.

use std::time::Duration;

use redis::RedisResult;
use tokio::time::Instant;

use super::{Node, ServerConnection};
use crate::base::backoff::{Backoff, chance};

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(2);

pub struct Link {
    node: Node,
    conn: Option<ServerConnection>,
    backoff: Backoff,
    /// Do not connect before this; `None`: connect at once.
    again_at: Option<Instant>,
    lost: bool,
}

impl Link {
    pub fn new(node: &Node) -> Link {
        let backoff = Backoff::new(FIRST, LONGEST);
        Link { node: node.clone(), conn: None, backoff, again_at: None, lost: false }
    }

    /// Waits until the next attempt is due.
    pub async fn pause(&self) {
        if let Some(at) = self.again_at {
            tokio::time::sleep_until(at).await;
        }
    }

    /// The connection; opened now if there is none.
    pub async fn open(&mut self) -> RedisResult<&mut ServerConnection> {
        match &mut self.conn {
            Some(conn) => Ok(conn),
            none => Ok(none.insert(self.node.connect().await?)),
        }
    }

    /// The connection, if there is one.
    pub fn made(&mut self) -> Option<&mut ServerConnection> {
        self.conn.as_mut()
    }

    /// The last use succeeded. Returns whether it was the first since the connection was lost.
    pub fn works(&mut self) -> bool {
        self.backoff.reset();
        self.again_at = None;
        std::mem::take(&mut self.lost)
    }

    /// The last use failed: drops the connection.
    pub fn fails(&mut self) {
        (self.conn, self.lost) = (None, true);
        self.again_at = Some(Instant::now() + self.backoff.next(chance()));
    }
}
