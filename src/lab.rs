//! The lab: takes and keeps test locks beside the console's loop, sets contenders on them, and removes everything at
//! the end.
//!
//! Each test lock is a [`Bench`], a task of its own that posts its [`Report`] on a shared board. The loop gets the
//! newest reports ([`Lab::next`]) and never waits for a server. Every write passes the one gate and is recorded. What a
//! killed process leaves behind ends by its TTL.

mod bench;
mod contenders;
mod record;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

pub use bench::WINDOW;
pub use contenders::{Counts, MOST as MOST_CONTENDERS};
pub use wanted::{USUAL, Wanted};

use crate::actions::{Gate, Refusal};
use crate::base::text::short_duration;
use crate::lock::{Key, Token};
use crate::test_lock::{Form, Request};
use crate::topology::Topology;
use bench::Bench;
use record::Record;

/// How long removing everything may take at the end.
const LEAVING: Duration = Duration::from_secs(2);
/// The pause between two updates for the loop.
const REPORTED: Duration = Duration::from_millis(100);
/// Orders that may wait for one test lock; nobody presses keys that fast.
const WAITING: usize = 32;

/// The number of a test lock, chosen by the caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TestId(pub u64);

/// An order about a test lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    Take(Wanted),
    /// Once, now.
    Renew,
    /// Somebody else may have changed it: check whether it is still ours.
    Check,
    Watchdog(bool),
    /// Have this many contenders.
    Contend(usize),
    GiveBack,
    /// It is over, and no longer of interest.
    Forget,
}

/// The state of a test lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    Taking,
    Held,
    /// Somebody else holds it, or something forbids it.
    Refused(String),
    Lost(String),
    Released,
    /// The server did not answer; if the lock is there, it ends by itself.
    Unknown(String),
}

/// A test lock at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    pub id: TestId,
    pub key: Key,
    /// `None` until it has one.
    pub token: Option<Token>,
    pub form: Form,
    pub ttl: Duration,
    pub watchdog: bool,
    pub phase: Phase,
    /// How long it is surely ours, or may exist, from the time of the report.
    pub left: Option<Duration>,
    pub renewals: u64,
    /// The last failure, while it is retried.
    pub trouble: Option<String>,
    pub contenders: usize,
    pub counts: Counts,
    /// Failures of the contenders per second; `None` while unknown.
    pub failures_per_s: Option<f64>,
}

impl Report {
    /// The report of a lock that is about to be taken.
    pub fn new(id: TestId, wanted: &Wanted) -> Report {
        Report {
            id,
            key: wanted.key.clone(),
            token: wanted.token.clone(),
            form: wanted.form,
            ttl: wanted.ttl,
            watchdog: wanted.watchdog,
            phase: Phase::Taking,
            left: None,
            renewals: 0,
            trouble: None,
            contenders: 0,
            counts: Counts::default(),
            failures_per_s: None,
        }
    }
}

impl Phase {
    /// Its state is final.
    pub fn is_over(&self) -> bool {
        !matches!(self, Phase::Taking | Phase::Held)
    }
}

/// The newest report of each test lock, and until when the lock may exist.
type Board = BTreeMap<TestId, (Report, Option<Instant>)>;

pub struct Lab {
    gate: Gate,
    topology: Topology,
    /// The server's address without a password.
    shown: String,
    /// Where the records are; `None` for the user's own place.
    place: Option<PathBuf>,
    board: Arc<watch::Sender<Board>>,
    seen: watch::Receiver<Board>,
    reported: Instant,
    tests: BTreeMap<TestId, Test>,
    benches: JoinSet<TestId>,
}

/// A test lock that is being kept.
struct Test {
    key: Key,
    orders: mpsc::Sender<Order>,
}

impl Lab {
    pub fn new(gate: Gate, topology: &Topology, shown: &str, place: Option<PathBuf>) -> Lab {
        let (board, seen) = watch::channel(Board::new());
        Lab {
            gate,
            topology: topology.clone(),
            shown: shown.into(),
            place,
            board: Arc::new(board),
            seen,
            reported: Instant::now(),
            tests: BTreeMap::new(),
            benches: JoinSet::new(),
        }
    }

    /// Carries out an order, beside the loop. `write`: the operator has turned writing on.
    pub fn obey(&mut self, id: TestId, order: Order, write: bool) {
        let gate = self.gate.for_console(write);
        match order {
            Order::Take(wanted) => {
                let report = Report::new(id, &wanted);
                if let Err(refusal) = self.take(&gate, &report, &wanted) {
                    let report = Report { phase: Phase::Refused(refusal.to_string()), ..report };
                    self.board.send_modify(|board| drop(board.insert(id, (report, None))));
                }
            }
            Order::Forget => {
                self.tests.remove(&id);
                self.board.send_modify(|board| drop(board.remove(&id)));
            }
            order => {
                let Some(test) = self.tests.get(&id) else { return };
                // Orders that take nothing need no permission, nor does a release.
                let writes = matches!(order, Order::Renew | Order::Watchdog(true) | Order::Contend(1..));
                let refused = if writes { gate.admit(&test.key).err() } else { None };
                let refused = refused.map(|refusal| refusal.to_string());
                let why = match (refused, test.orders.capacity()) {
                    (Some(refused), _) => refused,
                    (None, 0) => "too many keys at once; press again".into(),
                    // A bench that is gone needs no orders.
                    (None, _) => return drop(test.orders.try_send(order)),
                };
                self.board.send_modify(|board| {
                    if let Some((report, _)) = board.get_mut(&id) {
                        report.trouble = Some(why);
                    }
                });
            }
        }
    }

    /// If it can't be recorded, it is not done.
    fn take(&mut self, gate: &Gate, report: &Report, wanted: &Wanted) -> Result<(), Refusal> {
        let admission = gate.admit(&wanted.key)?;
        let unrecorded = |why: std::io::Error| Refusal::Audit(why.to_string());
        let mut request = Request::new(&admission, wanted.form, wanted.ttl).map_err(unrecorded)?;
        if let Some(token) = &wanted.token {
            request = request.with_token(token.as_bytes());
        }
        let record = Record::open(self.place.as_deref(), &self.shown, &request).map_err(unrecorded)?;
        let (orders, received) = mpsc::channel(WAITING);
        let id = report.id;
        let report = Report { token: Some(request.token().clone()), ..report.clone() };
        let bench = Bench::new(report, request, admission, &self.topology, &self.shown, record, &self.board);
        self.benches.spawn(bench.run(received));
        self.tests.insert(id, Test { key: wanted.key.clone(), orders });
        Ok(())
    }

    /// All test locks, as soon as one of them has changed.
    pub async fn next(&mut self) -> Vec<Report> {
        // Pause first: a call that is dropped during the pause has missed nothing.
        tokio::time::sleep_until(self.reported + REPORTED).await;
        loop {
            tokio::select! {
                // Never an error: this value owns the sender.
                Ok(()) = self.seen.changed() => break,
                Some(ended) = self.benches.join_next() => match ended {
                    Ok(id) => drop(self.tests.remove(&id)),
                    Err(failed) => fail_with(failed),
                },
            }
        }
        self.reported = Instant::now();
        self.reports()
    }

    /// How many test locks are held now.
    pub fn held(&self) -> usize {
        self.seen.borrow().values().filter(|(report, _)| report.phase == Phase::Held).count()
    }

    fn reports(&self) -> Vec<Report> {
        let now = Instant::now();
        let left = |ends: &Option<Instant>| ends.map(|ends| ends.saturating_duration_since(now));
        self.seen.borrow().values().map(|(report, ends)| Report { left: left(ends), ..report.clone() }).collect()
    }

    /// Removes everything, in a bounded time. Returns a sentence for each lock that may still exist.
    pub async fn close(&mut self) -> Vec<String> {
        let until = Instant::now() + LEAVING;
        // A bench whose sender is dropped cleans up after itself.
        let mut unfinished: BTreeSet<TestId> = std::mem::take(&mut self.tests).into_keys().collect();
        while let Ok(Some(ended)) = tokio::time::timeout_at(until, self.benches.join_next()).await {
            if let Ok(id) = ended {
                unfinished.remove(&id);
            }
        }
        self.benches.abort_all();
        let sentence = |report: &Report| left_behind(report, unfinished.contains(&report.id));
        self.reports().iter().filter_map(sentence).collect()
    }
}

/// Passes on a bench's panic.
fn fail_with(failed: JoinError) {
    if failed.is_panic() {
        std::panic::resume_unwind(failed.into_panic());
    }
}

/// The sentence about a test lock that could not be removed.
fn left_behind(report: &Report, unfinished: bool) -> Option<String> {
    let key = &report.key;
    let lasts = short_duration(report.left.unwrap_or(report.ttl).as_millis() as u64);
    match &report.phase {
        _ if unfinished => Some(format!("could not give {key} back in time; it ends by itself in at most {lasts}")),
        Phase::Unknown(why) if report.left != Some(Duration::ZERO) => {
            Some(format!("could not give {key} back, it ends by itself in at most {lasts}: {why}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;
    use crate::topology::Endpoint;

    async fn lab() -> Lab {
        let info = "redis://127.0.0.1:1".into_connection_info().unwrap();
        let topology = Topology::open(&Endpoint { shown: "nowhere".into(), info, tls: None }).await.unwrap();
        let gate = Gate::new(None, Vec::new());
        Lab::new(gate, &topology, "nowhere", Some(std::env::temp_dir().join("lockscope-never-made")))
    }

    #[tokio::test]
    #[should_panic(expected = "the panic is shown")]
    async fn a_bench_that_panics_is_not_passed_over_in_silence() {
        let mut lab = lab().await;
        lab.benches.spawn(async { panic!("the panic is shown") });
        lab.next().await;
    }

    #[tokio::test]
    async fn an_empty_lab_is_closed_at_once() {
        assert_eq!(lab().await.close().await, Vec::<String>::new());
    }
}
