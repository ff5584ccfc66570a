//! The contenders for one test lock: tasks that try to take it at a bounded rate and count the results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::RedisError;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::actions::Admission;
use crate::test_lock::{Attempt, Contender, Form, Request, random};
use crate::topology::Topology;

/// At most this many contenders in the whole lab; with [`PERIOD`] this bounds their cost for the server.
pub const MOST: usize = 16;
/// The pause between two attempts of one contender.
const PERIOD: Duration = Duration::from_millis(100);
/// The pause after a failure of the server or the network.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);
/// How long a contender keeps a lock.
const KEPT: Duration = Duration::from_millis(50);
/// The lease of a contender: what a killed process leaves behind ends soon.
const LEASE: Duration = Duration::from_secs(2);

/// The exact results of the attempts so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Somebody else held the lock.
    pub failures: u64,
    pub obtained: u64,
    /// The server could not be asked, or did not answer.
    pub troubles: u64,
}

impl Counts {
    pub fn attempts(&self) -> u64 {
        self.failures + self.obtained + self.troubles
    }
}

#[derive(Default)]
struct Tally {
    failures: AtomicU64,
    obtained: AtomicU64,
    troubles: AtomicU64,
}

/// The contenders for one lock.
pub struct Contenders {
    topology: Topology,
    admission: Admission,
    form: Form,
    tally: Arc<Tally>,
    working: Vec<Working>,
    /// Stopped, but maybe not finished.
    leaving: Vec<JoinHandle<Result<(), RedisError>>>,
}

struct Working {
    /// Dropping it stops the contender.
    _stay: oneshot::Sender<()>,
    task: JoinHandle<Result<(), RedisError>>,
}

impl Contenders {
    pub fn new(topology: &Topology, admission: Admission, form: Form) -> Contenders {
        let (topology, tally) = (topology.clone(), Arc::default());
        Contenders { topology, admission, form, tally, working: Vec::new(), leaving: Vec::new() }
    }

    pub fn count(&self) -> usize {
        self.working.len()
    }

    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tally = &self.tally;
        Counts { failures: read(&tally.failures), obtained: read(&tally.obtained), troubles: read(&tally.troubles) }
    }

    /// Starts or stops contenders until there are this many.
    pub fn become_so_many(&mut self, wanted: usize) -> std::io::Result<()> {
        self.leaving.retain(|task| !task.is_finished());
        for gone in self.working.drain(wanted.min(self.working.len())..) {
            self.leaving.push(gone.task);
        }
        while self.working.len() < wanted.min(MOST) {
            let request = Request::new(&self.admission, self.form, LEASE)?;
            // Spread the first attempts.
            let [chance] = random::<1>()?;
            let first = PERIOD.mul_f64(f64::from(chance) / 256.0);
            let (stay, go) = oneshot::channel();
            let contender = Contender::new(&self.topology, request);
            let task = tokio::spawn(contend(contender, Arc::clone(&self.tally), first, go));
            self.working.push(Working { _stay: stay, task });
        }
        Ok(())
    }

    /// Waits until all stopped contenders have given back what they had. An error: one could not.
    pub async fn gone(&mut self) -> Result<(), RedisError> {
        let mut all = Ok(());
        for task in std::mem::take(&mut self.leaving) {
            if let Ok(Err(error)) = task.await {
                all = Err(error);
            }
        }
        all
    }
}

/// Tries until it is stopped, which it notices between two attempts and never during one.
async fn contend(
    mut contender: Contender,
    tally: Arc<Tally>,
    first: Duration,
    mut go: oneshot::Receiver<()>,
) -> Result<(), RedisError> {
    let mut pause = first;
    loop {
        tokio::select! {
            biased;
            _ = &mut go => break,
            () = tokio::time::sleep(pause) => {}
        }
        pause = PERIOD;
        match contender.attempt().await {
            Attempt::Refused => {
                tally.failures.fetch_add(1, Ordering::Relaxed);
            }
            Attempt::Failed => {
                tally.troubles.fetch_add(1, Ordering::Relaxed);
                pause = AFTER_TROUBLE;
            }
            Attempt::Obtained => {
                tally.obtained.fetch_add(1, Ordering::Relaxed);
                tokio::select! {
                    biased;
                    _ = &mut go => break,
                    () = tokio::time::sleep(KEPT) => {}
                }
            }
        }
        // Give back what is left before the next attempt.
        while contender.settle().await.is_err() {
            tokio::select! {
                biased;
                _ = &mut go => return contender.settle().await,
                () = tokio::time::sleep(AFTER_TROUBLE) => {}
            }
        }
    }
    contender.settle().await
}
