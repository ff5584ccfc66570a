//! The engine: starts the sources, owns the table, and asks for the looks that the table wants.
//!
//! Whoever holds the [`Engine`] calls [`Engine::next`] in its own loop; between two calls the table stands still and can
//! be read. Any number of [`Reader`]s get the transitions, in that loop or in tasks of their own. Sources run in tasks of
//! their own and speak to the engine through one bounded channel. A source that panics is fatal, and told.

mod clients;
mod counter;
mod facts;
mod inspector;
mod looker;
mod observer;
mod readers;
mod sampler;
mod scanner;
mod status;

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisResult, cmd};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::base::clock::Clock;
use crate::base::text;
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::lock::{Key, NodeId, Token};
use crate::model::{Hazards, Limits, Observation, Seen, Snapshot, Source, Table, Ticket, Tuning};
use crate::scan::Progress;
use crate::server::{self, Flavor, Mode, ServerFacts};
use crate::sources::inspect::{self, Inspection, Subject};
use crate::sources::notify::{self, Follower, Prefixes, Signal};
use crate::sources::pace::{Budget, Pace};
use crate::topology::{Node, Topology};

use readers::Readers;

pub use observer::Observer;
pub use readers::Reader;
pub use sampler::{Duty, Sampled, Sampling};
pub use scanner::ScanReport;
pub use status::{NodeStatus, Stream};

/// What the sources say that waits to be taken in.
const INBOX: usize = 256;
/// Looks asked for at once.
const LOOKS: usize = 256;
/// Whole walks of the keyspace, while events are told and while they are not.
const RESCAN_LIVE: Duration = Duration::from_secs(60);
const RESCAN_BLIND: Duration = Duration::from_secs(10);
/// After a walk that failed.
const RESCAN_FAILED: Duration = Duration::from_secs(2);
/// How often each lock is looked at where nothing tells of changes.
const POLL: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(250);

/// What to do at a target.
pub struct Options {
    pub recogniser: Arc<Recogniser>,
    pub pace: Pace,
    pub limits: Limits,
    /// Follow changes, or only take the inventory once.
    pub follow: bool,
    pub inventory: Inventory,
}

impl Options {
    /// To follow all locks that the recogniser knows, within the usual limits.
    pub fn following(recogniser: Recogniser, pace: Pace) -> Options {
        let (recogniser, limits) = (Arc::new(recogniser), Limits::default());
        Options { recogniser, pace, limits, follow: true, inventory: Inventory::Walk }
    }
}

/// How locks are found.
#[derive(Clone, Debug)]
pub enum Inventory {
    /// The keyspace is walked.
    Walk,
    /// These are looked at, and no others.
    Keys(Vec<Key>),
}

/// What a task says to the engine.
enum Incoming {
    Signal(NodeId, Signal),
    Observed(Vec<Observation>),
    Scanned(NodeId, ScanReport),
    /// A source made its connection anew.
    Reconnected(NodeId),
    Facts(NodeId, Box<ServerFacts>),
    Inspected(NodeId, Key, Box<Inspection>),
    /// A round of asking who wants locks is over.
    Counted(NodeId),
    /// The list of clients was asked for, and why it was refused, where it was.
    Listed(NodeId, Option<String>),
    /// A burst is over, or could not be.
    Sampled(NodeId, Sampling),
    Looked {
        node: NodeId,
        asked: Time,
        answered: Time,
        looks: Vec<(Ticket, Option<Seen>)>,
    },
}

impl Incoming {
    /// Whether a reader may see more of it than time does.
    fn is_news(&self) -> bool {
        match self {
            Incoming::Observed(seen) => !seen.iter().all(|seen| matches!(seen, Observation::Idle { .. })),
            Incoming::Counted(_) | Incoming::Listed(_, None) => false,
            _ => true,
        }
    }
}

struct NodeTasks {
    budget: Arc<Budget>,
    looks: mpsc::Sender<Vec<Ticket>>,
    looking: bool,
    scans: mpsc::Sender<Time>,
    scanning: bool,
    /// The walk under way began before the connection was lost: another one must follow it.
    scan_again: bool,
    rescan_at: Option<Instant>,
    known: watch::Sender<Prefixes>,
    inspections: watch::Sender<Option<Subject>>,
    rounds: counter::Rounds,
    listing: clients::Listing,
    samples: watch::Sender<Option<Duty>>,
}

/// The engine of one target.
pub struct Engine {
    pub clock: Clock,
    table: Table,
    status: Vec<NodeStatus>,
    tasks: Vec<NodeTasks>,
    inbox: mpsc::Receiver<Incoming>,
    out: mpsc::Sender<Incoming>,
    running: JoinSet<()>,
    readers: Readers,
    tick: tokio::time::Interval,
    /// The last closer look that was asked for, until somebody takes it.
    inspected: Option<(NodeId, Key, Box<Inspection>)>,
}

impl Engine {
    /// Connects to every node, learns what it is, and starts the sources.
    pub async fn start(topology: &Topology, options: Options) -> RedisResult<Engine> {
        let clock = Clock::start();
        let (out, inbox) = mpsc::channel(INBOX);
        let mut engine = Engine {
            clock,
            table: Table::new(options.recogniser.clone(), options.limits),
            status: Vec::new(),
            tasks: Vec::new(),
            inbox,
            out: out.clone(),
            running: JoinSet::new(),
            readers: Readers::new(options.limits.transitions),
            tick: tokio::time::interval(TICK),
            inspected: None,
        };
        for node in topology.nodes() {
            engine.add(node, &options, out.clone()).await?;
        }
        Ok(engine)
    }

    async fn add(&mut self, node: &Node, options: &Options, out: mpsc::Sender<Incoming>) -> RedisResult<()> {
        let mut conn = node.connect().await?;
        let facts = server::ask(&mut conn, node.db).await?;
        if let Inventory::Walk = options.inventory {
            // Where this is refused, there is nothing to show: better said at once than after a blind start.
            cmd("SCAN").arg(0).arg("COUNT").arg(1).query_async::<redis::Value>(&mut conn).await?;
        }
        let budget = Arc::new(Budget::new(options.pace));
        let (looks, to_look) = mpsc::channel(1);
        let (scans, to_scan) = mpsc::channel(1);
        let (known, known_here) = watch::channel(Prefixes::default());
        let looker = looker::Looker {
            node: node.clone(),
            recogniser: options.recogniser.clone(),
            budget: budget.clone(),
            clock: self.clock,
        };
        self.running.spawn(looker.run(to_look, out.clone()));
        let progress = Arc::new(Progress::default());
        let scanner = scanner::Scanner {
            node: node.clone(),
            recogniser: options.recogniser.clone(),
            budget: budget.clone(),
            clock: self.clock,
            splittable: splittable(&facts),
            inventory: options.inventory.clone(),
            progress: progress.clone(),
            keep_trying: options.follow,
        };
        self.running.spawn(scanner.run(to_scan, out.clone()));
        let (inspections, to_inspect) = watch::channel(None);
        let inspector = inspector::Inspector { node: node.clone(), budget: budget.clone(), clock: self.clock };
        self.running.spawn(inspector.run(to_inspect, out.clone()));
        let (counts, to_count) = mpsc::channel(1);
        let scattered = inspect::is_scattered(&facts);
        let counter = counter::Counter { node: node.clone(), budget: budget.clone(), clock: self.clock, scattered };
        self.running.spawn(counter.run(to_count, out.clone()));
        let (lists, to_list) = mpsc::channel(1);
        let lister = clients::Lister { node: node.clone(), budget: budget.clone(), clock: self.clock };
        self.running.spawn(lister.run(to_list, out.clone()));
        let (samples, to_sample) = watch::channel(None);
        let sampler =
            sampler::Sampler { node: node.clone(), recogniser: options.recogniser.clone(), clock: self.clock };
        self.running.spawn(sampler.run(to_sample, out.clone()));
        let stream = if options.follow { Stream::Starting } else { Stream::Off };
        self.table.hazards(node.id, hazards(&facts));
        self.status.push(NodeStatus {
            name: node.name.clone(),
            db: node.db,
            facts,
            stream,
            note: None,
            clients_note: None,
            events: 0,
            lost: 0,
            reconnects: 0,
            watched_since: None,
            scan: None,
            progress: progress.clone(),
            under_way: false,
            spent: Duration::ZERO,
            sampling: None,
        });
        self.tasks.push(NodeTasks {
            budget,
            looks,
            looking: false,
            scans,
            scanning: false,
            scan_again: false,
            rescan_at: None,
            known,
            inspections,
            rounds: counter::Rounds::new(counts, self.clock.now()),
            listing: clients::Listing::new(lists),
            samples,
        });
        if options.follow {
            let (signals, mut heard) = mpsc::channel(INBOX);
            let follower = Follower {
                node: node.clone(),
                recogniser: options.recogniser.clone(),
                clock: self.clock,
                out: signals,
                known: known_here,
            };
            self.running.spawn(notify::follow(follower));
            self.running.spawn(facts::refresh(node.clone(), out.clone()));
            let id = node.id;
            self.running.spawn(async move {
                while let Some(signal) = heard.recv().await {
                    if out.send(Incoming::Signal(id, signal)).await.is_err() {
                        return;
                    }
                }
            });
        } else {
            self.scan(node.id);
        }
        Ok(())
    }

    /// Waits for the next thing to happen and takes it in. Afterwards something that a reader can see may have changed,
    /// or, where it says no, only time has passed.
    pub async fn next(&mut self) -> bool {
        let news = self.turn().await;
        if news {
            self.readers.wake();
        }
        news
    }

    async fn turn(&mut self) -> bool {
        self.ask_for_looks();
        let due = self.table.next_due().filter(|_| self.can_look()).map(|at| at.since(self.clock.now()));
        tokio::select! {
            biased;
            Some(ended) = self.running.join_next() => {
                if let Err(failed) = ended
                    && failed.is_panic()
                {
                    std::panic::resume_unwind(failed.into_panic());
                }
                true
            }
            _ = self.readers.wanted() => {
                self.readers.publish(self.snapshot());
                false
            }
            Some(incoming) = self.inbox.recv() => {
                let mut news = incoming.is_news();
                self.take(incoming);
                // What has come in meanwhile is taken in one go, up to a limit: the reader wants its turn.
                for _ in 0..INBOX {
                    let Ok(incoming) = self.inbox.try_recv() else { break };
                    news |= incoming.is_news();
                    self.take(incoming);
                }
                news
            }
            _ = tokio::time::sleep(due.unwrap_or(TICK)) => false,
            _ = self.tick.tick() => {
                self.every_tick();
                false
            }
        }
    }

    /// Takes in whatever happens for `how_long`.
    pub async fn run_for(&mut self, how_long: Duration) {
        let _ = tokio::time::timeout(how_long, async {
            loop {
                self.next().await;
            }
        })
        .await;
    }

    /// Runs until every node's keyspace has been walked and every lock met was looked at.
    pub async fn run_until_inventory(&mut self) {
        while !self.has_inventory() {
            self.next().await;
        }
    }

    /// Every keyspace was walked, or could not be.
    pub fn has_inventory(&self) -> bool {
        self.status.iter().all(|status| status.scan.is_some())
    }

    /// Takes in what was seen by somebody who is no source of its own.
    pub fn observe(&mut self, observation: Observation) {
        self.table.apply(observation);
        self.tell_readers();
    }

    /// A new reader of what happens from now on.
    pub fn reader(&self) -> Reader {
        self.readers.add()
    }

    fn tell_readers(&mut self) {
        let (transitions, lost) = self.table.take_transitions();
        self.readers.tell(transitions, lost);
    }

    /// For whoever writes beside the sources.
    pub fn observer(&self) -> Observer {
        Observer { clock: self.clock, out: self.out.clone() }
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    /// A test lock will be taken here by a token that does not show it.
    pub fn expect_test(&mut self, key: Key, token: Token) {
        self.table.expect_test(key, token);
    }

    /// Judges by these thresholds from now on.
    pub fn tune(&mut self, tuning: Tuning) {
        self.table.tune(tuning);
    }

    pub fn nodes(&self) -> &[NodeStatus] {
        &self.status
    }

    pub fn snapshot(&self) -> Snapshot {
        let incomplete = self.incomplete();
        Snapshot { complete: incomplete.is_none(), incomplete, ..self.table.snapshot(self.clock.now()) }
    }

    /// Why locks may be missing from the table; `None` where none are.
    pub fn incomplete(&self) -> Option<String> {
        let dropped = self.table.locks_dropped();
        if dropped > 0 {
            return Some(format!("{dropped} locks were left out: the table is full; narrow it with --pattern"));
        }
        let short = self.status.iter().find_map(NodeStatus::shortfall);
        short.or_else(|| (!self.table.is_complete()).then(|| self.why_not_whole()))
    }

    fn why_not_whole(&self) -> String {
        let walk = |status: &NodeStatus| match &status.scan {
            None => Some("the keyspace was not walked to its end yet".into()),
            Some(ScanReport { failed: Some(error), .. }) => {
                Some(format!("the last walk of the keyspace failed: {}", text::said(error)))
            }
            Some(_) => None,
        };
        let lost = || "changes were missed since the keyspace was walked, and it was not walked again yet".to_string();
        self.status.iter().find_map(walk).unwrap_or_else(lost)
    }

    /// Has a closer look taken at one lock: its waiters and companions. One that is asked for before the last is there
    /// takes its place in the queue.
    pub fn inspect(&self, node: NodeId, key: &Key) {
        let now = self.clock.now();
        let index = usize::from(node.0);
        let view = self.table.lock_named(node, key.as_bytes()).and_then(|lock| self.table.view(lock, now));
        if let (Some(view), Some(tasks), Some(status)) = (view, self.tasks.get(index), self.status.get(index)) {
            tasks.inspections.send_replace(Some(Subject::new(&view, status.db, &status.facts, now)));
        }
    }

    /// What the last closer look found, once.
    pub fn take_inspected(&mut self) -> Option<(NodeId, Key, Box<Inspection>)> {
        self.inspected.take()
    }

    /// Walks the node's keyspace anew; once more, where it is being walked already.
    pub fn scan(&mut self, node: NodeId) {
        let now = self.clock.now();
        let tasks = &mut self.tasks[node.0 as usize];
        if tasks.scanning {
            tasks.scan_again = true;
        } else if tasks.scans.try_send(now).is_ok() {
            tasks.scanning = true;
            tasks.rescan_at = None;
            self.status[node.0 as usize].under_way = true;
        }
    }

    fn take(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Signal(node, signal) => self.take_signal(node, signal),
            Incoming::Observed(observations) => {
                for observation in observations {
                    self.table.apply(observation);
                }
            }
            Incoming::Scanned(node, report) => self.take_scan(node, report),
            Incoming::Reconnected(node) => self.status[node.0 as usize].reconnects += 1,
            Incoming::Facts(node, facts) => {
                self.table.hazards(node, hazards(&facts));
                self.status[node.0 as usize].facts = *facts;
            }
            Incoming::Inspected(node, key, inspection) => self.inspected = Some((node, key, inspection)),
            Incoming::Counted(node) => self.tasks[node.0 as usize].rounds.done(),
            Incoming::Listed(node, refused) => self.take_listed(node, refused),
            Incoming::Sampled(node, sampling) => self.take_sampling(node, sampling),
            Incoming::Looked { node, asked, answered, looks } => {
                self.tasks[node.0 as usize].looking = false;
                for (ticket, seen) in looks {
                    match seen {
                        Some(seen) => self.table.answer(ticket, asked, answered, seen),
                        None => self.table.ask_again(&ticket),
                    }
                }
            }
        }
        self.tell_readers();
    }

    fn take_signal(&mut self, node: NodeId, signal: Signal) {
        let status = &mut self.status[node.0 as usize];
        match signal {
            Signal::Up { source, note, at } => {
                status.stream = Stream::Live(source);
                // Only notifications tell of each hold, however short.
                status.watched_since = (source == Source::Notification).then_some(at);
                status.note = note;
                self.table.watch_by(node, source);
                // Changes before the subscription were missed.
                self.table.apply(Observation::Gap { node, at });
                self.scan(node);
            }
            Signal::Events(batch) => {
                status.events += batch.len() as u64;
                self.table.apply(Observation::Events { node, batch });
            }
            Signal::Touched { keys, at } => {
                status.events += keys.len() as u64;
                self.table.apply(Observation::Touched { node, keys, at });
            }
            Signal::Flushed { at } => {
                self.table.apply(Observation::Flushed { node, at });
                self.scan(node);
            }
            Signal::Overflow { at, lost } => {
                status.lost += lost;
                status.watched_since = status.watched_since.map(|_| at);
                self.table.apply(Observation::Gap { node, at });
                self.scan(node);
            }
            Signal::Down { why, retry_in: _, at } => {
                let since = match status.stream {
                    Stream::Reconnecting { since, .. } => since,
                    _ => {
                        status.reconnects += 1;
                        at
                    }
                };
                status.stream = Stream::Reconnecting { why, since };
                status.watched_since = None;
                self.table.apply(Observation::Gap { node, at });
            }
        }
    }

    fn take_scan(&mut self, node: NodeId, report: ScanReport) {
        let tasks = &mut self.tasks[node.0 as usize];
        tasks.scanning = false;
        let status = &mut self.status[node.0 as usize];
        status.under_way = false;
        let pause = match status.stream {
            _ if report.failed.is_some() => RESCAN_FAILED,
            _ if report.shortfall.is_some() => RESCAN_LIVE,
            Stream::Live(Source::Notification) => RESCAN_LIVE,
            _ => RESCAN_BLIND,
        };
        tasks.rescan_at = Some(Instant::now() + pause);
        // After a walk that has not seen all, what was not met may still be there.
        if report.failed.is_none() && report.shortfall.is_none() {
            self.table.apply(Observation::Swept { node, started: report.started });
            self.tell_prefixes(node);
        }
        self.status[node.0 as usize].scan = Some(report);
        if std::mem::take(&mut self.tasks[node.0 as usize].scan_again) {
            self.scan(node);
        }
    }

    /// Lets tracking know under which names locks were found, now or earlier: they will be taken again.
    fn tell_prefixes(&self, node: NodeId) {
        self.tasks[node.0 as usize].known.send_if_modified(|known| {
            let before = known.clone();
            for lock in self.table.locks().filter(|lock| lock.node == node) {
                known.add_of_key(lock.key.as_bytes());
            }
            *known != before
        });
    }

    /// Whether a look that falls due could be asked for; where not, its answer or a signal will wake us.
    fn can_look(&self) -> bool {
        let mut nodes = self.tasks.iter().zip(&self.status);
        nodes.any(|(tasks, status)| !tasks.looking && !matches!(status.stream, Stream::Reconnecting { .. }))
    }

    fn ask_for_looks(&mut self) {
        let now = self.clock.now();
        for (index, tasks) in self.tasks.iter_mut().enumerate() {
            if tasks.looking || matches!(self.status[index].stream, Stream::Reconnecting { .. }) {
                continue;
            }
            let tickets = self.table.to_read(NodeId(index as u16), LOOKS, now);
            if !tickets.is_empty() {
                tasks.looking = tasks.looks.try_send(tickets).is_ok();
            }
        }
    }

    fn every_tick(&mut self) {
        let now = self.clock.now();
        for index in 0..self.tasks.len() {
            let node = NodeId(index as u16);
            self.status[index].spent = self.tasks[index].budget.spent();
            match self.status[index].stream {
                Stream::Live(Source::Notification) => {}
                Stream::Live(_) => {
                    self.table.poll(node, LOOKS * 8, now - POLL);
                }
                _ => continue,
            }
            self.count_waiters(node);
            self.list_clients(node);
            let due = self.tasks[index].rescan_at.is_some_and(|at| at <= Instant::now());
            if due && !self.tasks[index].scanning {
                self.scan(node);
            }
        }
    }
}

/// What of this can cost a lock.
fn hazards(facts: &ServerFacts) -> Hazards {
    let memory = facts.memory.known();
    memory.map(|memory| Hazards::of_memory(&memory.policy, memory.used, memory.max)).unwrap_or_default()
}

/// Only servers known to number cursors by reversed bits, and only outside a cluster.
fn splittable(facts: &ServerFacts) -> bool {
    let known = facts.product.known().is_some_and(|product| matches!(product.flavor, Flavor::Redis | Flavor::Valkey));
    known && facts.mode.known() == Some(&Mode::Standalone)
}
