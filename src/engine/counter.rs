//! Asks who wants the locks that the engine names, in short calls within the budget.
//!
//! A round asks about a limited number of locks, and the next round about the next ones; locks that somebody wants are
//! in every round. So the cost does not grow with the number of locks, and hot locks are followed closely.

use std::collections::HashSet;
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::driver::Driver;
use super::task::{Incoming, Task};
use crate::base::time::Time;
use crate::model::{InstanceId, Lock, LockRef, Observation, Table};
use crate::server::Mode;
use crate::sources::attempts::{Changelog, Counts, Idle, idle};
use crate::sources::query::{BATCH, LockQuery};
use crate::sources::waiters;
use crate::topology::Link;

/// The pause between two rounds.
const PAUSE: Duration = Duration::from_secs(2);
/// The number of table slots that one round covers, and the number of locks it asks about.
const SLOTS: usize = 10_000;
const ASKED: usize = 6_000;
/// At most this many hot locks are in every round.
const HOT: usize = 1_000;
/// Do not ask a server without idle times again for this long.
const UNTOLD: Duration = Duration::from_secs(60);

/// One round.
pub(super) struct Order {
    questions: Vec<LockQuery>,
    /// Other nodes may have subscribers too.
    scattered: bool,
    /// Only keys of one slot may be asked about at once.
    in_cluster: bool,
}

/// The state of the rounds at one node.
pub(super) struct Rounds {
    orders: mpsc::Sender<Order>,
    under_way: bool,
    next_at: Instant,
    /// The slot at which the next round begins.
    next_slot: usize,
    hot: Vec<LockRef>,
    /// Who holds the locks covered since `since`.
    holding: HashSet<InstanceId>,
    since: Time,
}

impl Rounds {
    pub fn new(orders: mpsc::Sender<Order>, now: Time) -> Rounds {
        let (hot, holding) = (Vec::new(), HashSet::new());
        Rounds { orders, under_way: false, next_at: Instant::now(), next_slot: 0, hot, holding, since: now }
    }

    /// A round is over.
    pub fn done(&mut self) {
        (self.under_way, self.next_at) = (false, Instant::now() + PAUSE);
    }
}

/// What is kept between two rounds.
struct Memory {
    link: Link,
    counts: Counts,
    changelog: Changelog,
    idle_again: Option<Instant>,
}

pub(super) async fn run(task: Task, mut orders: mpsc::Receiver<Order>) {
    let mut memory = Memory {
        link: Link::new(&task.node),
        counts: Counts::default(),
        changelog: Changelog::default(),
        idle_again: None,
    };
    while let Some(order) = orders.recv().await {
        let questions = &order.questions;
        for batch in questions.chunks(BATCH) {
            let seen = match memory.ask(&task, batch, &order).await {
                Ok(seen) => {
                    memory.link.works();
                    seen
                }
                // The follower reports the lost server; the next round tries again.
                Err(_) => {
                    memory.link.fails();
                    break;
                }
            };
            if !seen.is_empty() && !task.tell(seen).await {
                return;
            }
        }
        if let Ok(blocked) = memory.count_blocked(&task, questions).await
            && !blocked.is_empty()
            && !task.tell(blocked).await
        {
            return;
        }
        if let Ok(rates) = memory.read_changelog(&task, questions).await
            && !rates.is_empty()
            && !task.tell(rates).await
        {
            return;
        }
        if !task.tell(Incoming::Counted).await {
            return;
        }
    }
}

impl Memory {
    async fn ask(&mut self, task: &Task, batch: &[LockQuery], order: &Order) -> RedisResult<Vec<Observation>> {
        let node = task.node.id;
        self.link.pause().await;
        let _turn = task.budget.turn().await;
        let conn = self.link.open().await?;
        let counted = waiters::count(conn, batch, order.scattered, task.clock.now()).await?;
        let mut seen: Vec<Observation> =
            counted.into_iter().map(|(key, waits)| Observation::Counted { node, key, waits }).collect();
        if self.idle_again.is_none_or(|at| at <= Instant::now()) {
            self.idle_again = match idle(conn, batch, task.clock.now()).await? {
                Idle::Unknown => Some(Instant::now() + UNTOLD),
                Idle::Since(keys) => {
                    seen.extend(keys.into_iter().map(|(key, since)| Observation::Idle { node, key, since }));
                    None
                }
            };
        }
        let rates = self.counts.ask(conn, batch, order.in_cluster, task.clock.now()).await?;
        seen.extend(rates.into_iter().map(|(key, tries)| Observation::Tried { node, key, tries }));
        Ok(seen)
    }

    /// Once a round, for all of its locks together.
    async fn count_blocked(&mut self, task: &Task, questions: &[LockQuery]) -> RedisResult<Vec<Observation>> {
        let node = task.node.id;
        let Some(conn) = self.link.made() else { return Ok(Vec::new()) };
        let _turn = task.budget.turn().await;
        let (counted, clients) = waiters::count_blocked(conn, questions, task.node.db, task.clock.now()).await?;
        let blocked = std::iter::once(Observation::Blocked { node, clients }).filter(|_| !counted.is_empty());
        let counts = counted.iter().map(|(key, waits)| Observation::Counted { node, key: key.clone(), waits: *waits });
        Ok(blocked.chain(counts).collect())
    }

    /// Once a round, for all of its locks together.
    async fn read_changelog(&mut self, task: &Task, questions: &[LockQuery]) -> RedisResult<Vec<Observation>> {
        let node = task.node.id;
        let Some(conn) = self.link.made() else { return Ok(Vec::new()) };
        let _turn = task.budget.turn().await;
        let rates = self.changelog.ask(conn, questions, task.clock.now()).await?;
        Ok(rates.into_iter().map(|(key, tries)| Observation::Tried { node, key, tries }).collect())
    }
}

impl Driver {
    /// Starts a round with the next locks.
    pub(super) fn count_waiters(&mut self, table: &mut Table) {
        let (now, node, scattered) = (self.clock.now(), self.status.id, self.is_scattered());
        let in_cluster = self.status.facts.mode.known() == Some(&Mode::Cluster);
        let rounds = &mut self.rounds;
        if rounds.under_way || rounds.next_at > Instant::now() {
            return;
        }
        let mut questions = Vec::new();
        rounds.hot.retain(|place| {
            let hot = table.lock_at(*place).filter(|lock| is_hot(lock, now));
            let question = hot.and_then(|lock| LockQuery::new(lock, now));
            let kept = question.is_some();
            questions.extend(question);
            kept
        });
        let mut asked: HashSet<LockRef> = rounds.hot.iter().copied().collect();
        let slots = table.slots();
        let first = if rounds.next_slot < slots { rounds.next_slot } else { 0 };
        let mut next = slots.min(first + SLOTS);
        for (place, lock) in table.places_in(first..next).filter(|(_, lock)| lock.node == node) {
            rounds.holding.extend(table.instances(lock));
            if !asked.insert(place) {
                continue;
            }
            if rounds.hot.len() < HOT && is_hot(lock, now) {
                rounds.hot.push(place);
            }
            questions.extend(LockQuery::new(lock, now));
            if questions.len() >= ASKED {
                next = place.slot() + 1;
                break;
            }
        }
        let around = next >= slots;
        rounds.next_slot = if around { 0 } else { next };
        if questions.is_empty() {
            // The next part follows at the next tick; after the last part comes the usual pause.
            rounds.next_at = Instant::now() + if around { PAUSE } else { Duration::ZERO };
        } else {
            rounds.under_way = rounds.orders.try_send(Order { questions, scattered, in_cluster }).is_ok();
        }
        if around {
            let (holding, since) = (std::mem::take(&mut rounds.holding), std::mem::replace(&mut rounds.since, now));
            table.keep_connections(node, holding, since);
        }
    }
}

/// Somebody was seen to want it, so ask about it in every round.
fn is_hot(lock: &Lock, now: Time) -> bool {
    let waits = lock.waits(now).is_some_and(|waits| waits.count > 0);
    lock.is_held() && (waits || lock.may_be_wanted(now) || lock.tries(now).is_some())
}
