//! Walks the keyspace when told to, and goes on where it was after a lost connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{ErrorKind, RedisError};
use tokio::sync::mpsc;

use super::{Incoming, Inventory};
use crate::base::clock::Clock;
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::scan::{Pass, Progress, Shortfall, Walk};
use crate::server;
use crate::sources::pace::Budget;
use crate::topology::Node;

const RETRY: Duration = Duration::from_millis(500);
/// A walk that fails this often in a row is given up, and begun anew later.
const TRIES: u32 = 20;

/// How a walk went.
#[derive(Debug)]
pub struct ScanReport {
    pub started: Time,
    pub finished: Time,
    pub walked: u64,
    pub matched: u64,
    pub calls: u64,
    /// COUNT of the last call.
    pub count: u64,
    pub unread: u64,
    /// Those of them that the server refused.
    pub denied: u64,
    /// Why not everything was seen, though the walk did not fail.
    pub shortfall: Option<Shortfall>,
    pub failed: Option<RedisError>,
}

pub(super) struct Scanner {
    pub node: Node,
    pub recogniser: Arc<Recogniser>,
    pub budget: Arc<Budget>,
    pub clock: Clock,
    pub splittable: bool,
    pub inventory: Inventory,
    pub progress: Arc<Progress>,
    /// Whether a lost connection is waited out, or ends the walk.
    pub keep_trying: bool,
}

impl Scanner {
    pub async fn run(self, mut orders: mpsc::Receiver<Time>, out: mpsc::Sender<Incoming>) {
        while let Some(started) = orders.recv().await {
            let report = self.walk(started, &out).await;
            if out.send(Incoming::Scanned(self.node.id, report)).await.is_err() {
                return;
            }
        }
    }

    async fn walk(&self, started: Time, out: &mpsc::Sender<Incoming>) -> ScanReport {
        let (pages, mut observed) = mpsc::channel(4);
        let forward = async {
            while let Some(observations) = observed.recv().await {
                if out.send(Incoming::Observed(observations)).await.is_err() {
                    return;
                }
            }
        };
        let mut pass = Pass::new(self.progress.clone());
        let walking = async {
            let walk = Walk {
                node: &self.node,
                recogniser: &self.recogniser,
                budget: &self.budget,
                clock: self.clock,
                splittable: self.splittable,
                out: pages,
            };
            let (mut tries, mut settled) = (0, 0);
            loop {
                let walked = match &self.inventory {
                    Inventory::Walk => pass.walk(&walk).await,
                    Inventory::Keys(keys) => pass.visit(&walk, keys).await,
                };
                // Failures count in a row: those that let the walk come further do not.
                if pass.settled() > settled {
                    (tries, settled) = (0, pass.settled());
                }
                match walked {
                    Ok(()) => return None,
                    Err(error) if !self.keep_trying || refuses(&error) || tries == TRIES => return Some(error),
                    Err(_) => {
                        tries += 1;
                        tokio::time::sleep(RETRY).await;
                        let _ = out.send(Incoming::Reconnected(self.node.id)).await;
                    }
                }
            }
        };
        let (failed, ()) = futures_util::future::join(walking, forward).await;
        let progress = &self.progress;
        ScanReport {
            started,
            finished: self.clock.now(),
            walked: progress.walked.load(Ordering::Relaxed),
            matched: progress.matched.load(Ordering::Relaxed),
            calls: progress.calls.load(Ordering::Relaxed),
            count: progress.count.load(Ordering::Relaxed),
            unread: progress.unread.load(Ordering::Relaxed),
            denied: progress.denied.load(Ordering::Relaxed),
            shortfall: pass.shortfall(),
            failed,
        }
    }
}

/// The server answered, and would answer the same again.
fn refuses(error: &RedisError) -> bool {
    let nonsense = matches!(error.kind(), ErrorKind::Parse | ErrorKind::UnexpectedReturnType);
    nonsense || error.code().is_some_and(|code| !server::is_passing(code))
}
