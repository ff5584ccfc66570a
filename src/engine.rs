//! The engine: drives the nodes, owns the table, and requests the reads that the table needs.
//!
//! The owner of the [`Engine`] calls [`Engine::next`] in its own loop; between two calls the table does not change and
//! can be read. Any number of [`Reader`]s get the transitions, in that loop or in tasks of their own. Each node has its
//! driver; nodes join and leave while it runs. A task's panic is passed on.

mod atlas;
mod bystanders;
mod clients;
mod counter;
mod driver;
mod facts;
mod inspector;
mod looker;
mod moment;
mod names;
mod news;
mod observer;
mod powers;
mod readers;
mod replication;
mod sampler;
mod scanner;
mod shifts;
mod status;
mod task;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{RedisError, RedisResult, cmd};
use tokio::sync::mpsc;

use crate::base::clock::Clock;
use crate::base::text;
use crate::dialects::Recogniser;
use crate::lock::{Key, KeyspaceId, NodeId, Token};
use crate::model::figures::Folding;
use crate::model::{Limits, Observation, Snapshot, Table, Tuning};
use crate::server::{self, Part, ServerFacts};
use crate::sources::inspect::{Inspection, Subject};
use crate::sources::pace::Pace;
use crate::topology::{Map, Node, Topology};

use atlas::Atlas;
use bystanders::Bystanders;
use driver::{Driver, INBOX, Met};
use readers::Readers;
use task::Incoming;

pub use bystanders::Bystander;
pub use names::NamesFrom;
pub use news::News;
pub use observer::Observer;
pub use readers::Reader;
pub use sampler::{Duty, Sampled, Sampling};
pub use scanner::ScanReport;
pub use status::{NodeStatus, Stream};

const TICK: Duration = Duration::from_millis(250);
/// Locks whose verdict is looked at with each tick, for the timeline and the figures: a millisecond or two of work.
const PATROL: usize = 10_000;

/// What to do at a target.
pub struct Options {
    pub recogniser: Arc<Recogniser>,
    pub pace: Pace,
    pub limits: Limits,
    /// Follow changes, or only take the inventory once.
    pub follow: bool,
    pub inventory: Inventory,
    /// Scan the names of keys on replicas, where there are any.
    pub scan_on_replica: bool,
}

impl Options {
    /// Follows all locks that the recogniser knows, within the usual limits.
    pub fn following(recogniser: Recogniser, pace: Pace) -> Options {
        let (recogniser, limits) = (Arc::new(recogniser), Limits::default());
        let inventory = Inventory::Walk;
        Options { recogniser, pace, limits, follow: true, inventory, scan_on_replica: false }
    }
}

/// How locks are found.
#[derive(Clone, Debug)]
pub enum Inventory {
    /// Walk the keyspace.
    Walk,
    /// Read only these keys.
    Keys(Vec<Key>),
}

/// The engine of one target.
pub struct Engine {
    pub clock: Clock,
    options: Options,
    table: Table,
    drivers: BTreeMap<NodeId, Driver>,
    /// The node whose message was taken last; the nodes after it come first.
    heard: NodeId,
    /// Reports of our own writes, which no source sends.
    writes: (mpsc::Sender<Observation>, mpsc::Receiver<Observation>),
    readers: Readers,
    tick: tokio::time::Interval,
    /// How attempts are sampled, also on nodes that join later.
    duty: Option<Duty>,
    /// Where the keys of a cluster are.
    atlas: Option<Atlas>,
    /// The nodes there that own no key.
    bystanders: Bystanders,
    /// How often another server took over as a master, or a server on its own changed its role.
    role_changes: u64,
}

impl Engine {
    /// Asks every node for its facts and starts to drive it. A node that does not answer stops neither the start nor
    /// the others: it is retried. An error means that none answered.
    pub async fn start(topology: &Topology, options: Options) -> RedisResult<Engine> {
        let mut engine = Engine {
            clock: Clock::start(),
            table: Table::new(options.recogniser.clone(), options.limits),
            drivers: BTreeMap::new(),
            heard: NodeId::default(),
            writes: mpsc::channel(INBOX),
            readers: Readers::new(options.limits.transitions),
            tick: ticks(),
            duty: None,
            options,
            atlas: topology.shared().map(Atlas::open),
            bystanders: Bystanders::new(),
            role_changes: 0,
        };
        let nodes = engine.atlas.as_ref().map_or_else(|| topology.nodes(), Atlas::nodes);
        let mut answers = join_all(nodes.iter().map(|node| probe(node, &engine.options.inventory))).await;
        if !answers.is_empty() && answers.iter().all(Result::is_err) {
            return answers.swap_remove(0).map(|_| engine);
        }
        for (node, answer) in nodes.iter().zip(answers) {
            let met = answer.map_or_else(|error| Met::Lost(text::said(&error)), |facts| Met::Known(Box::new(facts)));
            engine.drive(node, met);
        }
        engine.take_owners(engine.clock.now());
        engine.attend(&Map::default());
        engine.tell_unserved();
        Ok(engine)
    }

    /// Adds a node. It need not answer yet.
    pub fn join(&mut self, node: &Node) {
        self.drive(node, Met::NotYet);
    }

    /// Removes the node, and its locks from the table. There is no transition: the locks are still held, we only stop
    /// watching.
    pub fn leave(&mut self, node: NodeId) {
        self.drivers.remove(&node);
        self.table.apply(Observation::Left { node });
        self.readers.wake();
    }

    fn drive(&mut self, node: &Node, met: Met) {
        let inventory = self.inventory_of(node);
        let replicas = self.atlas.as_ref().map(|atlas| atlas.shared.clone()).filter(|_| self.options.scan_on_replica);
        let mut driver = Driver::start(node, met, &self.options, (inventory, replicas), self.clock);
        let (node, space) = (node.id, node.space);
        self.table.apply(Observation::Joined { node, space });
        self.table.apply(Observation::Hazards { node, hazards: driver.status.facts.hazards() });
        let children = driver.status.facts.children(self.clock.now());
        self.table.apply(Observation::Children { node, children });
        driver.sample_too(self.duty);
        self.drivers.insert(node, driver);
    }

    /// Waits for the next message and takes it in. Returns whether a reader may see a change; if not, only time has
    /// passed.
    pub async fn next(&mut self) -> bool {
        let news = self.turn().await;
        if news {
            self.readers.wake();
        }
        news
    }

    async fn turn(&mut self) -> bool {
        let now = self.clock.now();
        self.drivers.values_mut().for_each(|driver| driver.ask_for_looks(&mut self.table, now));
        let can_look = self.drivers.values().any(Driver::can_look);
        let due = self.table.next_due().filter(|_| can_look).map(|at| at.since(self.clock.now()));
        tokio::select! {
            biased;
            _ = self.readers.wanted() => {
                self.readers.publish(self.snapshot());
                false
            }
            Some(write) = self.writes.1.recv() => {
                self.observe(write);
                true
            }
            // Before the messages: in a flood of them there is always one more.
            _ = self.tick.tick() => {
                self.drivers.values_mut().for_each(|driver| driver.tick(&mut self.table));
                self.tell_moves();
                self.name_keys();
                self.table.patrol(PATROL, self.clock.now())
            }
            _ = Atlas::changed(&mut self.atlas) => {
                self.follow_map();
                true
            }
            (node, said) = self.bystanders.next() => self.heed(node, said),
            (node, incoming) = said(&mut self.drivers, self.heard) => self.take(node, incoming),
            _ = tokio::time::sleep(due.unwrap_or(TICK)) => false,
        }
    }

    /// Takes in a node's message and those that follow it, up to a limit so that the other nodes and the readers get
    /// their turns. Returns whether a reader may see a change.
    fn take(&mut self, node: NodeId, first: Incoming) -> bool {
        self.heard = node;
        let Some(driver) = self.drivers.get_mut(&node) else { return false };
        let (mut next, mut news) = (Some(first), false);
        for _ in 0..=INBOX {
            let Some(incoming) = next else { break };
            news |= incoming.is_news();
            // A write is reported before it is sent, so apply it before its effects.
            while let Ok(write) = self.writes.1.try_recv() {
                self.table.apply(write);
            }
            driver.take(incoming, &mut self.table);
            self.role_changes += u64::from(std::mem::take(&mut driver.changed_role));
            let (transitions, lost) = self.table.take_transitions();
            self.readers.tell(transitions, lost);
            next = driver.next_at_once();
        }
        news
    }

    /// Takes in everything that happens for `how_long`.
    pub async fn run_for(&mut self, how_long: Duration) {
        let _ = tokio::time::timeout(how_long, async {
            loop {
                self.next().await;
            }
        })
        .await;
    }

    /// Runs until every node's keyspace was walked and every lock found was read.
    pub async fn run_until_inventory(&mut self) {
        while !self.has_inventory() {
            self.next().await;
        }
    }

    /// Every keyspace was walked, or could not be.
    pub fn has_inventory(&self) -> bool {
        self.nodes().all(|node| node.scan.is_some() || node.is_out_of_reach()) && !self.is_chasing()
    }

    /// Takes in an observation that does not come from a source.
    pub fn observe(&mut self, observation: Observation) {
        self.table.apply(observation);
        let (transitions, lost) = self.table.take_transitions();
        self.readers.tell(transitions, lost);
    }

    /// A new reader of everything that happens from now on.
    pub fn reader(&self) -> Reader {
        self.readers.add()
    }

    /// Records the observations of the table from now on, at most this many observations until somebody takes them.
    pub fn record(&mut self, most: usize) {
        self.table.record(most);
    }

    /// What was observed since the last call, and how many observations were left out.
    pub fn take_recorded(&mut self) -> (Vec<Observation>, u64) {
        self.table.take_recorded()
    }

    /// For code that writes to Redis.
    pub fn observer(&self) -> Observer {
        Observer { clock: self.clock, out: self.writes.0.clone() }
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Expects a test lock here whose token does not mark it as one.
    pub fn expect_test(&mut self, key: Key, token: Token) {
        self.table.apply(Observation::Testing { key, token });
    }

    /// Uses these thresholds from now on.
    pub fn tune(&mut self, tuning: Tuning) {
        self.table.tune(tuning);
    }

    /// Folds the patterns like this. Called before the engine runs: what has a place keeps it.
    pub fn fold(&mut self, folding: Folding) {
        self.table.fold(folding);
    }

    /// The driven nodes, in the order of their ids.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeStatus> + Clone {
        self.drivers.values().map(|driver| &driver.status)
    }

    pub fn node(&self, id: NodeId) -> Option<&NodeStatus> {
        Some(&self.drivers.get(&id)?.status)
    }

    pub fn snapshot(&self) -> Snapshot {
        let incomplete = self.incomplete();
        Snapshot { complete: incomplete.is_none(), incomplete, ..self.table.snapshot(self.clock.now()) }
    }

    /// Why no node's keyspace could be walked; `None` if some were, or none was yet. That a cluster is down says more than
    /// that one of its nodes is.
    pub fn unwalkable(&self) -> Option<&RedisError> {
        let failed = |node: &'_ NodeStatus| node.scan.as_ref().is_none_or(|scan| scan.failed.is_some());
        let all = self.nodes().all(failed);
        let errors = self.nodes().filter(|_| all).filter_map(|node| node.scan.as_ref()?.failed.as_ref());
        errors.min_by_key(|error| error.code() != Some("CLUSTERDOWN"))
    }

    /// Why locks may be missing from the table; `None` where none are.
    pub fn incomplete(&self) -> Option<String> {
        let dropped = self.table.locks_dropped();
        if dropped > 0 {
            return Some(format!("{dropped} locks were left out: the table is full; narrow it with --pattern"));
        }
        // A copy that does not let its keys be read says more than that they could not be read.
        let closed = self.nodes().find_map(|node| node.part().filter(Part::is_closed).map(|part| part.sentence()));
        let short = closed.or_else(|| self.nodes().find_map(NodeStatus::shortfall));
        let unwalked = || (!self.table.is_complete()).then(|| self.why_not_whole());
        let part = || self.nodes().find_map(|node| Some(node.part()?.sentence()));
        let unowned = || self.atlas.as_ref().and_then(Atlas::unowned);
        let down = || self.nodes().find_map(NodeStatus::refusal);
        short.or_else(down).or_else(unowned).or_else(unwalked).or_else(part)
    }

    fn why_not_whole(&self) -> String {
        let lost = || {
            "changes were missed since the last scan of the keyspace, and the next one has not ended yet".to_string()
        };
        self.nodes().find_map(NodeStatus::unwalked).unwrap_or_else(lost)
    }

    /// Requests the details of one lock: its waiters and companions. It replaces an earlier request that still waits.
    pub fn inspect(&self, space: KeyspaceId, key: &Key) {
        let now = self.clock.now();
        let view = self.table.lock_named(space, key.as_bytes()).and_then(|lock| self.table.view(lock, now));
        if let Some(view) = view
            && let Some(driver) = self.drivers.get(&view.node)
        {
            driver.inspect(Subject::new(&view, driver.status.db, &driver.status.facts, now));
        }
    }

    /// The details that were last requested; each result is returned once.
    pub fn take_inspected(&mut self) -> Option<(KeyspaceId, Key, Box<Inspection>)> {
        self.drivers.values_mut().find_map(|driver| {
            let (key, inspection) = driver.inspected.take()?;
            Some((driver.status.space, key, inspection))
        })
    }

    /// Walks every node's keyspace again.
    pub fn scan(&mut self) {
        self.drivers.values_mut().for_each(Driver::scan);
    }

    /// Turns sampling by MONITOR on or off, on every node. The caller has the user's consent.
    pub fn sample(&mut self, on: bool) {
        self.sample_by(on.then(Duty::default));
    }

    /// The same, with the caller's duty.
    pub fn sample_by(&mut self, duty: Option<Duty>) {
        self.duty = duty;
        self.drivers.values_mut().for_each(|driver| driver.sample(duty, &mut self.table));
    }
}

/// After a pause there is one tick, not all that were left out.
fn ticks() -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks
}

/// The next message of any node's tasks. The nodes take turns.
async fn said(drivers: &mut BTreeMap<NodeId, Driver>, last: NodeId) -> (NodeId, Incoming) {
    poll_fn(|context| {
        for turn in [(Excluded(last), Unbounded), (Unbounded, Included(last))] {
            for (id, driver) in drivers.range_mut(turn) {
                if let Poll::Ready(incoming) = driver.poll(context) {
                    return Poll::Ready((*id, incoming));
                }
            }
        }
        Poll::Pending
    })
    .await
}

/// Asks a node for its facts.
async fn probe(node: &Node, inventory: &Inventory) -> RedisResult<ServerFacts> {
    let mut conn = node.connect().await?;
    let facts = server::ask(&mut conn, node.db).await?;
    if let Inventory::Walk = inventory {
        // If SCAN is refused, there is nothing to show: fail now instead of starting blind.
        cmd("SCAN").arg(0).arg("COUNT").arg(1).query_async::<redis::Value>(&mut conn).await?;
    }
    Ok(facts)
}
