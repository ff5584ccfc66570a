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

use super::replication::{Position, Trail};
use super::task::{Incoming, Looked, Task};
use super::{Inventory, NodeStatus, Options, Sampling, Stream};
use super::{clients, counter, facts, inspector, looker, powers, sampler, scanner};
use crate::base::clock::Clock;
use crate::lock::Key;
use crate::model::{KeyEvent, Observation, ServerNews, Source, Table, What};
use crate::scan::Progress;
use crate::server::{Persistence, Role, ServerFacts};
use crate::sources::inspect::{self, Inspection, Subject};
use crate::sources::notify::{self, Follower, Prefixes, Standing};
use crate::sources::pace::Budget;
use crate::topology::{Node, Shared};

use sampler::Duty;

/// Messages of a node's tasks that may wait in its inbox.
pub(super) const INBOX: usize = 512;
/// How often each lock is read where no events report changes.
const POLL: Duration = Duration::from_secs(1);

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
    pub(super) looks: looker::Looks,
    pub(super) walks: scanner::Walks,
    pub(super) clock: Clock,
    /// How far its replication stream had come when.
    pub(super) trail: Trail,
    /// The same of the master whose place it took, until it has said what it got of it.
    pub(super) former: Option<Trail>,
    /// It became a master or a replica since somebody looked here.
    pub(super) changed_role: bool,
    budget: Arc<Budget>,
    inspections: watch::Sender<Option<Subject>>,
    samples: watch::Sender<Option<Duty>>,
    inbox: mpsc::Receiver<Incoming>,
    tasks: JoinSet<()>,
}

impl Driver {
    /// Starts the tasks of the node.
    pub fn start(
        node: &Node,
        met: Met,
        options: &Options,
        (inventory, replicas): (Inventory, Option<Shared>),
        clock: Clock,
    ) -> Driver {
        let (out, inbox) = mpsc::channel(INBOX);
        let budget = Arc::new(Budget::new(options.pace));
        let task = Task { node: node.clone(), recogniser: options.recogniser.clone(), budget, clock, out };
        let mut tasks = JoinSet::new();
        let (looks, to_look) = mpsc::channel(1);
        tasks.spawn(looker::run(task.clone(), to_look));
        let (scans, to_scan) = mpsc::channel(1);
        let progress = Arc::new(Progress::default());
        let (progress_here, keep_trying) = (progress.clone(), options.follow);
        let scanner =
            scanner::Scanner { task: task.clone(), inventory, replicas, progress: progress_here, keep_trying };
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
                answered: Arc::default(),
            };
            tasks.spawn(notify::follow(follower));
            tasks.spawn(facts::refresh(task.clone()));
            tasks.spawn(powers::ask(task.clone()));
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
        let place = (node.id, node.space, node.db);
        let mut status = NodeStatus::new(place, node.name.clone(), facts, stream, progress);
        status.reached = reached;
        status.in_cluster = node.is_in_cluster();
        let mut driver = Driver {
            status,
            inspected: None,
            rounds: counter::Rounds::new(counts, clock.now()),
            listing: clients::Listing::new(lists),
            looks: looker::Looks::new(looks),
            walks: scanner::Walks::new(scans, known),
            clock,
            trail: Trail::default(),
            former: None,
            changed_role: false,
            budget: task.budget,
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
            Incoming::Position(position) => self.stands_at(&position, table),
            Incoming::Serves(serves) => self.serves(serves, table),
            Incoming::Reconnected => self.status.reconnects += 1,
            Incoming::Inspected(key, inspection) => self.inspected = Some((key, inspection)),
            Incoming::Counted => self.rounds.done(),
            Incoming::Listed(refused) => self.listed(refused),
            Incoming::Lacks(lacks) => self.status.lacks = lacks,
            // If sampling was turned off meanwhile, it stays off.
            Incoming::Sampled(sampling) => self.status.sampling = self.status.sampling.take().map(|_| sampling),
            Incoming::Looked { asked, answered, looks } => {
                self.looks.under_way = false;
                if looks.iter().any(|(_, seen)| matches!(seen, Looked::Seen(_))) {
                    self.serves(true, table);
                }
                for (ticket, seen) in looks {
                    match seen {
                        Looked::Seen(seen) => table.answer(ticket, asked, answered, seen),
                        Looked::Moving(seen) => table.answer_on_its_way(ticket, asked, answered, seen),
                        Looked::Again => table.ask_again(&ticket),
                        Looked::Elsewhere => table.ask_elsewhere(&ticket, answered),
                    }
                }
            }
        }
    }

    /// What the event stream observed.
    fn observe(&mut self, observation: Observation, table: &mut Table) {
        match &observation {
            Observation::Events { batch, .. } => {
                self.status.events += batch.len() as u64;
                let doubted = |note: &mut String| note.starts_with(notify::NEW_KEYS_UNSAID);
                // The server hides that they are on, and here is one.
                if self.status.note.as_mut().is_some_and(doubted)
                    && batch.iter().any(|(_, event)| event == KeyEvent::New)
                {
                    self.status.note = None;
                }
            }
            Observation::Touched { keys, .. } => self.status.events += keys.len() as u64,
            Observation::Flushed { .. } => self.scan(),
            _ => {}
        }
        table.apply(observation);
    }

    /// How far its replication stream has come, and what it got of its former master's.
    fn stands_at(&mut self, position: &Position, table: &mut Table) {
        if !position.is_master {
            return;
        }
        if let Some(former) = self.former.take() {
            table.apply(Observation::Cut { node: self.status.id, since: former.cut(position) });
        }
        self.trail.add(position);
        self.status.positioned = self.trail.asked;
    }

    /// Whether it answers for keys. While it does not, what is known of its locks is from before.
    fn serves(&mut self, serves: bool, table: &mut Table) {
        let (node, now) = (self.status.id, self.clock.now());
        match (self.status.stream.clone(), serves) {
            (Stream::Live(source), false) => {
                self.status.stream = Stream::Refusing { source, since: now };
                self.status.blind_since.get_or_insert(now);
                table.apply(Observation::Silent { node, since: Some(now), at: now });
            }
            (Stream::Refusing { source, .. }, true) => {
                self.status.stream = Stream::Live(source);
                table.apply(Observation::Silent { node, since: None, at: now });
            }
            _ => {}
        }
    }

    /// The state of the event stream: up, behind or lost.
    fn stands(&mut self, standing: Standing, table: &mut Table) {
        let node = self.status.id;
        let status = &mut self.status;
        match standing {
            Standing::Facts(mut facts) => {
                if let Some(drift) = facts.follow_clock(&status.facts) {
                    let (gained_ms, passed_ms) = (drift.gained_ms(), drift.passed.as_millis() as u64);
                    let what = What::Server(ServerNews::Clock { gained_ms, passed_ms });
                    table.apply(Observation::Noted { node, at: self.clock.now(), what });
                }
                let restarted =
                    status.facts.run_id.known().zip(facts.run_id.known()).is_some_and(|(old, new)| old != new);
                // Where several serve one keyspace, the map tells who took over.
                let is_master =
                    |facts: &ServerFacts| facts.role.known().map(|role| matches!(role, Role::Master { .. }));
                let roles = is_master(&status.facts).zip(is_master(&facts)).filter(|_| !status.in_cluster);
                self.changed_role |= roles.is_some_and(|(old, new)| old != new);
                if restarted {
                    let at = self.clock.now();
                    table.apply(Observation::Noted { node, at, what: What::Restarted });
                    if facts.persistence.known().is_some_and(Persistence::came_back_empty) {
                        table.apply(Observation::Emptied { node, at });
                    }
                }
                table.apply(Observation::Hazards { node, hazards: facts.hazards() });
                table.apply(Observation::Children { node, children: facts.children(self.clock.now()) });
                (status.facts, status.reached) = (*facts, true);
            }
            Standing::Up { source, note, at } => {
                if let Stream::Reconnecting { since, .. } = status.stream {
                    table.apply(Observation::Noted {
                        node,
                        at,
                        what: What::Back { away_ms: at.since(since).as_millis() as u64, source },
                    });
                }
                status.stream = Stream::Live(source);
                // Only notifications report every hold, however short.
                status.watched_since = (source == Source::Notification).then_some(at);
                status.note = note;
                table.apply(Observation::Watched { node, source });
                // Changes before the subscription were missed.
                table.apply(Observation::Gap { node, at });
                self.scan();
            }
            Standing::Overflow { at, lost } => {
                status.lost = status.lost.zip(lost).map(|(before, lost)| before + lost);
                table.apply(Observation::Noted { node, at, what: What::Missed { events: lost } });
                status.watched_since = status.watched_since.map(|_| at);
                status.blind_since.get_or_insert(at);
                table.apply(Observation::Gap { node, at });
                self.scan();
            }
            Standing::Silent { since } => {
                if let Stream::Live(source) = status.stream {
                    status.stream = Stream::Silent { source, since };
                    status.blind_since.get_or_insert(since);
                    table.apply(Observation::Silent { node, since: Some(since), at: self.clock.now() });
                }
            }
            Standing::Answers => {
                if let Stream::Silent { source, .. } = status.stream {
                    status.stream = Stream::Live(source);
                    table.apply(Observation::Silent { node, since: None, at: self.clock.now() });
                }
            }
            Standing::Down { why, since, at } => {
                let since = match status.stream {
                    Stream::Reconnecting { since, .. } => since,
                    // The gap begins with the last answer, not when we notice it.
                    _ => {
                        table.apply(Observation::Noted { node, at: since, what: What::Away { why: why.clone() } });
                        status.reconnects += 1;
                        since
                    }
                };
                status.stream = Stream::Reconnecting { why, since };
                status.watched_since = None;
                status.blind_since.get_or_insert(since);
                table.apply(Observation::Silent { node, since: None, at });
                table.apply(Observation::Gap { node, at });
            }
        }
    }

    pub fn tick(&mut self, table: &mut Table) {
        self.status.spent = self.budget.spent();
        let in_sight = matches!(self.status.stream, Stream::Live(_)) && !table.has_stale(self.status.id);
        match in_sight {
            true => self.status.blind_since = None,
            false => drop(self.status.blind_since.get_or_insert(self.clock.now())),
        }
        match self.status.stream {
            Stream::Live(Source::Notification) => {}
            Stream::Live(_) => {
                table.poll(self.status.id, looker::LOOKS * 8, self.clock.now() - POLL);
            }
            _ => return,
        }
        self.count_waiters(table);
        self.list_clients(table);
        self.scan_if_due();
    }

    /// Requests the details of one lock. It replaces an earlier request that still waits.
    pub fn inspect(&self, subject: Subject) {
        self.inspections.send_replace(Some(subject));
    }

    /// Turns sampling by MONITOR on or off.
    pub fn sample(&mut self, duty: Option<Duty>, table: &mut Table) {
        let changed = self.samples.send_if_modified(|current| std::mem::replace(current, duty) != duty);
        if changed {
            if duty.is_some() != self.status.sampling.is_some() {
                table.apply(Observation::Noted {
                    node: self.status.id,
                    at: self.clock.now(),
                    what: What::Sampling { on: duty.is_some() },
                });
            }
            self.status.sampling = duty.map(|_| Sampling::Starting);
        }
    }

    /// The same for a node that joins while it is on, which is no news.
    pub fn sample_too(&mut self, duty: Option<Duty>) {
        self.samples.send_replace(duty);
        self.status.sampling = duty.map(|_| Sampling::Starting);
    }

    /// Other nodes may have subscribers too.
    pub(super) fn is_scattered(&self) -> bool {
        inspect::is_scattered(&self.status.facts)
    }
}
