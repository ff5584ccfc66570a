//! One node as the engine drives it: its tasks, budget, status and pending requests, in one value.
//!
//! A driver starts, loses its server, comes back, and leaves. To remove a node, drop its driver: its tasks and unread
//! messages go with it, so nothing of that node reaches the table any more. The tasks send to one bounded inbox per
//! node; a flood on one node takes no room from another.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{NodeStatus, Options, Sampling, ScanReport, Stream};
use super::{clients, counter, facts, inspector, looker, sampler, scanner};
use crate::base::clock::Clock;
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::lock::Key;
use crate::model::{Hazards, Observation, Seen, Source, Table, Ticket};
use crate::scan::Progress;
use crate::server::{Flavor, Mode, ServerFacts};
use crate::sources::inspect::{self, Inspection, Subject};
use crate::sources::notify::{self, Follower, Prefixes, Standing};
use crate::sources::pace::Budget;
use crate::topology::Node;

use sampler::Duty;

/// Messages of a node's tasks that may wait in its inbox.
pub(super) const INBOX: usize = 512;
/// Keys read in one batch.
const LOOKS: usize = 256;
/// The interval of full walks, with events and without.
const RESCAN_LIVE: Duration = Duration::from_secs(60);
const RESCAN_BLIND: Duration = Duration::from_secs(10);
/// The pause after a failed walk.
const RESCAN_FAILED: Duration = Duration::from_secs(2);
/// How often each lock is read where no events report changes.
const POLL: Duration = Duration::from_secs(1);

/// A message from a task to its driver.
pub(super) enum Incoming {
    Observed(Observation),
    /// Observations that were made together.
    Page(Vec<Observation>),
    Standing(Standing),
    Scanned(ScanReport),
    /// A source reconnected.
    Reconnected,
    Inspected(Key, Box<Inspection>),
    /// A round of asking who wants locks is over.
    Counted,
    /// The list of clients was requested; the reason if it was refused.
    Listed(Option<String>),
    /// A burst is over, or failed.
    Sampled(Sampling),
    Looked {
        asked: Time,
        answered: Time,
        looks: Vec<(Ticket, Option<Seen>)>,
    },
}

impl Incoming {
    /// Whether a reader may see a change, beyond the passing of time.
    pub fn is_news(&self) -> bool {
        match self {
            Incoming::Page(seen) => !seen.iter().all(|seen| matches!(seen, Observation::Idle { .. })),
            Incoming::Counted | Incoming::Listed(None) => false,
            _ => true,
        }
    }
}

impl From<Observation> for Incoming {
    fn from(observation: Observation) -> Incoming {
        Incoming::Observed(observation)
    }
}

impl From<Vec<Observation>> for Incoming {
    fn from(page: Vec<Observation>) -> Incoming {
        Incoming::Page(page)
    }
}

impl From<Standing> for Incoming {
    fn from(standing: Standing) -> Incoming {
        Incoming::Standing(standing)
    }
}

/// What each task of a node works with.
#[derive(Clone)]
pub(super) struct Task {
    pub node: Node,
    pub recogniser: Arc<Recogniser>,
    pub budget: Arc<Budget>,
    pub clock: Clock,
    pub out: mpsc::Sender<Incoming>,
}

impl Task {
    /// Sends to the driver; `false` when it is gone.
    pub async fn tell(&self, incoming: impl Into<Incoming>) -> bool {
        self.out.send(incoming.into()).await.is_ok()
    }
}

/// What is known of a node when its driver starts.
pub(super) enum Met {
    /// Nothing was asked yet.
    NotYet,
    /// It did not answer.
    Lost(String),
    Known(Box<ServerFacts>),
}

pub(super) struct Driver {
    pub status: NodeStatus,
    /// The details that were last requested, until somebody takes them.
    pub inspected: Option<(Key, Box<Inspection>)>,
    pub(super) rounds: counter::Rounds,
    pub(super) listing: clients::Listing,
    pub(super) clock: Clock,
    budget: Arc<Budget>,
    looks: mpsc::Sender<Vec<Ticket>>,
    looking: bool,
    scans: mpsc::Sender<scanner::Order>,
    scanning: bool,
    /// The walk in progress began too early: another must follow it.
    scan_again: bool,
    rescan_at: Option<Instant>,
    known: watch::Sender<Prefixes>,
    inspections: watch::Sender<Option<Subject>>,
    samples: watch::Sender<Option<Duty>>,
    inbox: mpsc::Receiver<Incoming>,
    tasks: JoinSet<()>,
}

impl Driver {
    /// Starts the tasks of the node.
    pub fn start(node: &Node, met: Met, options: &Options, clock: Clock) -> Driver {
        let (out, inbox) = mpsc::channel(INBOX);
        let budget = Arc::new(Budget::new(options.pace));
        let task = Task { node: node.clone(), recogniser: options.recogniser.clone(), budget, clock, out };
        let mut tasks = JoinSet::new();
        let (looks, to_look) = mpsc::channel(1);
        tasks.spawn(looker::run(task.clone(), to_look));
        let (scans, to_scan) = mpsc::channel(1);
        let progress = Arc::new(Progress::default());
        let (inventory, keep_trying) = (options.inventory.clone(), options.follow);
        let scanner = scanner::Scanner { task: task.clone(), inventory, progress: progress.clone(), keep_trying };
        tasks.spawn(scanner.run(to_scan));
        let (inspections, to_inspect) = watch::channel(None);
        tasks.spawn(inspector::run(task.clone(), to_inspect));
        let (counts, to_count) = mpsc::channel(1);
        tasks.spawn(counter::run(task.clone(), to_count));
        let (lists, to_list) = mpsc::channel(1);
        tasks.spawn(clients::run(task.clone(), to_list));
        let (samples, to_sample) = watch::channel(None);
        tasks.spawn(sampler::run(task.clone(), to_sample));
        let (known, known_here) = watch::channel(Prefixes::default());
        if options.follow {
            let follower = Follower {
                node: node.clone(),
                recogniser: options.recogniser.clone(),
                clock,
                out: task.out.clone(),
                known: known_here,
            };
            tasks.spawn(notify::follow(follower));
            tasks.spawn(facts::refresh(task.clone()));
        }
        let stream = match &met {
            _ if !options.follow => Stream::Off,
            Met::NotYet | Met::Known(_) => Stream::Starting,
            Met::Lost(why) => Stream::Reconnecting { why: why.clone(), since: clock.now() },
        };
        let reached = matches!(met, Met::Known(_));
        let facts = match met {
            Met::Known(facts) => *facts,
            Met::NotYet => ServerFacts::unknown("the server was not asked yet"),
            Met::Lost(why) => ServerFacts::unknown(&why),
        };
        let status = NodeStatus {
            id: node.id,
            space: node.space,
            name: node.name.clone(),
            db: node.db,
            reached,
            facts,
            stream,
            note: None,
            clients_note: None,
            events: 0,
            lost: 0,
            reconnects: 0,
            watched_since: None,
            scan: None,
            progress,
            under_way: false,
            spent: Duration::ZERO,
            sampling: None,
        };
        let mut driver = Driver {
            status,
            inspected: None,
            rounds: counter::Rounds::new(counts, clock.now()),
            listing: clients::Listing::new(lists),
            clock,
            budget: task.budget,
            looks,
            looking: false,
            scans,
            scanning: false,
            scan_again: false,
            rescan_at: None,
            known,
            inspections,
            samples,
            inbox,
            tasks,
        };
        if !options.follow {
            driver.scan();
        }
        driver
    }

    /// The next message of its tasks. A task's panic is passed on.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Incoming> {
        while let Poll::Ready(Some(ended)) = self.tasks.poll_join_next(context) {
            if let Err(failed) = ended
                && failed.is_panic()
            {
                std::panic::resume_unwind(failed.into_panic());
            }
        }
        match self.inbox.poll_recv(context) {
            Poll::Ready(Some(incoming)) => Poll::Ready(incoming),
            _ => Poll::Pending,
        }
    }

    /// A message that has already arrived.
    pub fn next_at_once(&mut self) -> Option<Incoming> {
        self.inbox.try_recv().ok()
    }

    pub fn take(&mut self, incoming: Incoming, table: &mut Table) {
        match incoming {
            Incoming::Observed(observation) => self.observe(observation, table),
            Incoming::Page(observations) => {
                for observation in observations {
                    table.apply(observation);
                }
            }
            Incoming::Standing(standing) => self.stands(standing, table),
            Incoming::Scanned(report) => self.scanned(report, table),
            Incoming::Reconnected => self.status.reconnects += 1,
            Incoming::Inspected(key, inspection) => self.inspected = Some((key, inspection)),
            Incoming::Counted => self.rounds.done(),
            Incoming::Listed(refused) => self.listed(refused),
            // If sampling was turned off meanwhile, it stays off.
            Incoming::Sampled(sampling) => self.status.sampling = self.status.sampling.take().map(|_| sampling),
            Incoming::Looked { asked, answered, looks } => {
                self.looking = false;
                for (ticket, seen) in looks {
                    match seen {
                        Some(seen) => table.answer(ticket, asked, answered, seen),
                        None => table.ask_again(&ticket),
                    }
                }
            }
        }
    }

    /// What the event stream observed.
    fn observe(&mut self, observation: Observation, table: &mut Table) {
        match &observation {
            Observation::Events { batch, .. } => self.status.events += batch.len() as u64,
            Observation::Touched { keys, .. } => self.status.events += keys.len() as u64,
            Observation::Flushed { .. } => self.scan(),
            _ => {}
        }
        table.apply(observation);
    }

    /// The state of the event stream: up, behind or lost.
    fn stands(&mut self, standing: Standing, table: &mut Table) {
        let node = self.status.id;
        let status = &mut self.status;
        match standing {
            Standing::Facts(facts) => {
                table.hazards(node, hazards(&facts));
                (status.facts, status.reached) = (*facts, true);
            }
            Standing::Up { source, note, at } => {
                status.stream = Stream::Live(source);
                // Only notifications report every hold, however short.
                status.watched_since = (source == Source::Notification).then_some(at);
                status.note = note;
                table.watch_by(node, source);
                // Changes before the subscription were missed.
                table.apply(Observation::Gap { node, at });
                self.scan();
            }
            Standing::Overflow { at, lost } => {
                status.lost += lost;
                status.watched_since = status.watched_since.map(|_| at);
                table.apply(Observation::Gap { node, at });
                self.scan();
            }
            Standing::Down { why, at } => {
                let since = match status.stream {
                    Stream::Reconnecting { since, .. } => since,
                    _ => {
                        status.reconnects += 1;
                        at
                    }
                };
                status.stream = Stream::Reconnecting { why, since };
                status.watched_since = None;
                table.apply(Observation::Gap { node, at });
            }
        }
    }

    /// Walks the keyspace again. If a walk is in progress, another follows it.
    pub fn scan(&mut self) {
        let order = scanner::Order { started: self.clock.now(), splittable: splittable(&self.status.facts) };
        if self.scanning {
            self.scan_again = true;
        } else if self.scans.try_send(order).is_ok() {
            (self.scanning, self.rescan_at) = (true, None);
            self.status.under_way = true;
        }
    }

    fn scanned(&mut self, report: ScanReport, table: &mut Table) {
        (self.scanning, self.status.under_way) = (false, false);
        let pause = match self.status.stream {
            _ if report.failed.is_some() => RESCAN_FAILED,
            _ if report.shortfall.is_some() => RESCAN_LIVE,
            Stream::Live(Source::Notification) => RESCAN_LIVE,
            _ => RESCAN_BLIND,
        };
        self.rescan_at = Some(Instant::now() + pause);
        // After an incomplete walk, a lock that was not seen may still exist.
        if report.failed.is_none() && report.shortfall.is_none() {
            table.apply(Observation::Swept { node: self.status.id, started: report.started });
            self.tell_prefixes(table);
        }
        self.status.scan = Some(report);
        if std::mem::take(&mut self.scan_again) {
            self.scan();
        }
    }

    /// Gives tracking the prefixes of all locks in the table, held or not: they will be taken again.
    fn tell_prefixes(&self, table: &Table) {
        self.known.send_if_modified(|known| {
            let before = known.clone();
            for lock in table.locks().filter(|lock| lock.node == self.status.id) {
                known.add_of_key(lock.key.as_bytes());
            }
            *known != before
        });
    }

    /// Whether a read can be requested now. If not, its reply or the event stream wakes us.
    pub fn can_look(&self) -> bool {
        !self.looking && !matches!(self.status.stream, Stream::Reconnecting { .. })
    }

    pub fn ask_for_looks(&mut self, table: &mut Table, now: Time) {
        if self.can_look() {
            let tickets = table.to_read(self.status.id, LOOKS, now);
            self.looking = !tickets.is_empty() && self.looks.try_send(tickets).is_ok();
        }
    }

    pub fn tick(&mut self, table: &mut Table) {
        self.status.spent = self.budget.spent();
        match self.status.stream {
            Stream::Live(Source::Notification) => {}
            Stream::Live(_) => {
                table.poll(self.status.id, LOOKS * 8, self.clock.now() - POLL);
            }
            _ => return,
        }
        self.count_waiters(table);
        self.list_clients(table);
        if !self.scanning && self.rescan_at.is_some_and(|at| at <= Instant::now()) {
            self.scan();
        }
    }

    /// Requests the details of one lock. It replaces an earlier request that still waits.
    pub fn inspect(&self, subject: Subject) {
        self.inspections.send_replace(Some(subject));
    }

    /// Turns sampling by MONITOR on or off.
    pub fn sample(&mut self, duty: Option<Duty>) {
        let changed = self.samples.send_if_modified(|current| std::mem::replace(current, duty) != duty);
        if changed {
            self.status.sampling = duty.map(|_| Sampling::Starting);
        }
    }

    /// Other nodes may have subscribers too.
    pub(super) fn is_scattered(&self) -> bool {
        inspect::is_scattered(&self.status.facts)
    }
}

/// Which of these facts can cost a lock.
pub(super) fn hazards(facts: &ServerFacts) -> Hazards {
    let memory = facts.memory.known();
    memory.map(|memory| Hazards::of_memory(&memory.policy, memory.used, memory.max)).unwrap_or_default()
}

/// Only for servers known to number cursors by reversed bits, and only outside a cluster.
fn splittable(facts: &ServerFacts) -> bool {
    let known = facts.product.known().is_some_and(|product| matches!(product.flavor, Flavor::Redis | Flavor::Valkey));
    known && facts.mode.known() == Some(&Mode::Standalone)
}
