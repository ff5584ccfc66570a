//! Walks the keyspace on request, and continues where it was after a lost connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{ErrorKind, RedisError};
use tokio::sync::mpsc;

use super::Inventory;
use super::driver::{Incoming, Task};
use crate::base::time::Time;
use crate::scan::{Pass, Progress, Shortfall, Walk};
use crate::server;

const RETRY: Duration = Duration::from_millis(500);
/// A walk that fails this often in a row is abandoned, and restarted later.
const TRIES: u32 = 20;

/// How a walk went.
#[derive(Debug)]
pub struct ScanReport {
    pub started: Time,
    pub finished: Time,
    pub walked: u64,
    pub matched: u64,
    /// Keys under the patterns that only belong to locks, by their names.
    pub helpers: u64,
    pub calls: u64,
    /// COUNT of the last call.
    pub count: u64,
    pub unread: u64,
    /// The part of them that the server refused.
    pub denied: u64,
    /// Why not everything was seen, though the walk did not fail.
    pub shortfall: Option<Shortfall>,
    pub failed: Option<RedisError>,
}

/// One walk.
pub(super) struct Order {
    pub started: Time,
    /// The server's cursors allow a walk to be split.
    pub splittable: bool,
}

pub(super) struct Scanner {
    pub task: Task,
    pub inventory: Inventory,
    pub progress: Arc<Progress>,
    /// Whether to retry after a lost connection, or end the walk.
    pub keep_trying: bool,
}

impl Scanner {
    pub async fn run(self, mut orders: mpsc::Receiver<Order>) {
        while let Some(order) = orders.recv().await {
            let report = self.walk(order).await;
            if !self.task.tell(Incoming::Scanned(report)).await {
                return;
            }
        }
    }

    async fn walk(&self, Order { started, splittable }: Order) -> ScanReport {
        let task = &self.task;
        let mut pass = Pass::new(self.progress.clone());
        let walk = Walk {
            node: &task.node,
            recogniser: &task.recogniser,
            budget: &task.budget,
            clock: task.clock,
            splittable,
            out: task.out.clone(),
        };
        let (mut tries, mut settled) = (0, 0);
        let failed = loop {
            let walked = match &self.inventory {
                Inventory::Walk => pass.walk(&walk).await,
                Inventory::Keys(keys) => pass.visit(&walk, keys).await,
            };
            // Only failures in a row count: progress resets them.
            if pass.settled() > settled {
                (tries, settled) = (0, pass.settled());
            }
            match walked {
                Ok(()) => break None,
                Err(error) if !self.keep_trying || refuses(&error) || tries == TRIES => break Some(error),
                Err(_) => {
                    tries += 1;
                    tokio::time::sleep(RETRY).await;
                    task.tell(Incoming::Reconnected).await;
                }
            }
        };
        let progress = &self.progress;
        ScanReport {
            started,
            finished: task.clock.now(),
            walked: progress.walked.load(Ordering::Relaxed),
            matched: progress.matched.load(Ordering::Relaxed),
            helpers: progress.helpers.load(Ordering::Relaxed),
            calls: progress.calls.load(Ordering::Relaxed),
            count: progress.count.load(Ordering::Relaxed),
            unread: progress.unread.load(Ordering::Relaxed),
            denied: progress.denied.load(Ordering::Relaxed),
            shortfall: pass.shortfall(),
            failed,
        }
    }
}

/// The server answered with an error or nonsense, and would do so again.
fn refuses(error: &RedisError) -> bool {
    let nonsense = matches!(error.kind(), ErrorKind::Parse | ErrorKind::UnexpectedReturnType);
    nonsense || error.code().is_some_and(|code| !server::is_passing(code))
}
