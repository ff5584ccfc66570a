//! Walks the keyspace on request, and continues where it was after a lost connection. [`Walks`] says when that is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redis::{ErrorKind, RedisError};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::driver::Driver;
use super::names::{self, NamesFrom};
use super::task::{Incoming, Task};
use super::{Inventory, Stream};
use crate::base::time::Time;
use crate::model::{Observation, Source, Table};
use crate::scan::{Pass, Progress, Shortfall, Walk};
use crate::server::{self, Flavor, Mode, ServerFacts};
use crate::sources::notify::Prefixes;
use crate::topology::{Node, Shared};

const RETRY: Duration = Duration::from_millis(500);
/// A walk that fails this often in a row is abandoned, and restarted later.
const TRIES: u32 = 20;

/// The interval of full walks, with events and without.
const PAUSE_LIVE: Duration = Duration::from_secs(60);
const PAUSE_BLIND: Duration = Duration::from_secs(10);
/// The pause after a failed walk.
const PAUSE_FAILED: Duration = Duration::from_secs(2);

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
    /// Where the names came from, if replicas were to be scanned.
    pub names: Option<NamesFrom>,
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
    /// Where to find replicas to scan; `None`: the node itself is scanned.
    pub replicas: Option<Shared>,
    pub progress: Arc<Progress>,
    /// Whether to retry after a lost connection, or end the walk.
    pub keep_trying: bool,
}

impl Scanner {
    pub async fn run(self, mut orders: mpsc::Receiver<Order>) {
        let mut first = true;
        while let Some(order) = orders.recv().await {
            let report = self.walk(order, first).await;
            first &= report.failed.is_some();
            if !self.task.tell(Incoming::Scanned(report)).await {
                return;
            }
        }
    }

    /// The replica to scan now, if one was asked for and there is one.
    async fn replica(&self) -> Option<(Node, Option<u64>)> {
        match (&self.replicas, &self.inventory) {
            (Some(shared), Inventory::Walk) => names::replica_of(&self.task.node, shared).await,
            _ => None,
        }
    }

    async fn walk(&self, Order { started, splittable }: Order, first: bool) -> ScanReport {
        let task = &self.task;
        let progress = self.progress.clone();
        let another = |first| if first { Pass::first(progress.clone()) } else { Pass::new(progress.clone()) };
        let (mut pass, mut beside) = (another(first), self.replica().await);
        let (mut tries, mut settled) = (0, 0);
        let failed = loop {
            let walk = Walk {
                node: &task.node,
                names: beside.as_ref().map_or(&task.node, |(replica, _)| replica),
                recogniser: &task.recogniser,
                budget: &task.budget,
                clock: task.clock,
                splittable: splittable && beside.is_none(),
                out: task.out.clone(),
            };
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
                    if beside.is_some() {
                        // A cursor belongs to one process, and this may be another.
                        (pass, settled) = (another(first), 0);
                        beside = self.replica().await;
                    }
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
            names: self.replicas.is_some().then_some(match beside {
                Some((replica, behind)) => NamesFrom::Replica { name: replica.name, behind },
                None => NamesFrom::Master,
            }),
        }
    }
}

/// The walks of one node, as its driver requests them.
pub(super) struct Walks {
    orders: mpsc::Sender<Order>,
    /// The walk in progress began too early: another must follow it.
    again: bool,
    next_at: Option<Instant>,
    known: watch::Sender<Prefixes>,
}

impl Walks {
    /// `known` gets the prefixes of the locks that walks found.
    pub fn new(orders: mpsc::Sender<Order>, known: watch::Sender<Prefixes>) -> Walks {
        Walks { orders, again: false, next_at: None, known }
    }
}

impl Driver {
    /// Walks the keyspace again. If a walk is in progress, another follows it.
    pub(super) fn scan(&mut self) {
        let order = Order { started: self.clock.now(), splittable: splittable(&self.status.facts) };
        if self.status.under_way {
            self.walks.again = true;
        } else if self.walks.orders.try_send(order).is_ok() {
            (self.status.under_way, self.walks.next_at) = (true, None);
        }
    }

    pub(super) fn scan_if_due(&mut self) {
        if !self.status.under_way && self.walks.next_at.is_some_and(|at| at <= Instant::now()) {
            self.scan();
        }
    }

    pub(super) fn scanned(&mut self, report: ScanReport, table: &mut Table) {
        self.status.under_way = false;
        let pause = match self.status.stream {
            _ if report.failed.is_some() => PAUSE_FAILED,
            _ if report.shortfall.is_some() => PAUSE_LIVE,
            Stream::Live(Source::Notification) => PAUSE_LIVE,
            _ => PAUSE_BLIND,
        };
        self.walks.next_at = Some(Instant::now() + pause);
        // After an incomplete walk, a lock that was not seen may still exist.
        if report.failed.is_none() && report.shortfall.is_none() {
            table.apply(Observation::Swept { node: self.status.id, started: report.started });
            self.tell_prefixes(table);
        }
        if self.status.scan.is_none() {
            // Which of the holders that it met are connected?
            self.listing.ask_now();
        }
        self.status.scan = Some(report);
        if std::mem::take(&mut self.walks.again) {
            self.scan();
        }
    }

    /// Gives tracking the prefixes of all locks in the table, held or not: they will be taken again.
    fn tell_prefixes(&self, table: &Table) {
        self.walks.known.send_if_modified(|known| {
            let before = known.clone();
            for lock in table.locks().filter(|lock| lock.node == self.status.id) {
                known.add_of_key(lock.key.as_bytes());
            }
            *known != before
        });
    }
}

/// Only for servers known to number cursors by reversed bits, and only outside a cluster.
fn splittable(facts: &ServerFacts) -> bool {
    let known = facts.product.known().is_some_and(|product| matches!(product.flavor, Flavor::Redis | Flavor::Valkey));
    known && facts.mode.known() == Some(&Mode::Standalone)
}

/// The server answered with an error or nonsense, and would do so again.
fn refuses(error: &RedisError) -> bool {
    let nonsense = matches!(error.kind(), ErrorKind::Parse | ErrorKind::UnexpectedReturnType);
    nonsense || error.code().is_some_and(|code| !server::is_passing(code))
}
