//! The contenders against one test lock: tasks that try to take it at a bounded rate and count what comes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::RedisError;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::actions::Admission;
use crate::test_lock::{Attempt, Contender, Form, Request, random};
use crate::topology::Node;

/// As many contenders as there may be in the whole lab; with [`PERIOD`] that bounds what they cost the server.
pub const MOST: usize = 16;
/// Between two attempts of one contender.
const PERIOD: Duration = Duration::from_millis(100);
/// The same after a failure of the server or of the way there.
const AFTER_TROUBLE: Duration = Duration::from_secs(1);
/// How long a contender keeps what it gets.
const KEPT: Duration = Duration::from_millis(50);
/// The lease of a contender: what a killed process leaves behind ends soon.
const LEASE: Duration = Duration::from_secs(2);

/// What came of the attempts so far, exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Somebody else had the lock.
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

/// Those against one lock.
pub struct Contenders {
    node: Node,
    admission: Admission,
    form: Form,
    tally: Arc<Tally>,
    working: Vec<Working>,
    /// They have been told to go.
    leaving: Vec<JoinHandle<Result<(), RedisError>>>,
}

struct Working {
    /// Dropped, the contender goes.
    _stay: oneshot::Sender<()>,
    task: JoinHandle<Result<(), RedisError>>,
}

impl Contenders {
    pub fn new(node: &Node, admission: Admission, form: Form) -> Contenders {
        let (node, tally) = (node.clone(), Arc::default());
        Contenders { node, admission, form, tally, working: Vec::new(), leaving: Vec::new() }
    }

    pub fn count(&self) -> usize {
        self.working.len()
    }

    pub fn counts(&self) -> Counts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let tally = &self.tally;
        Counts { failures: read(&tally.failures), obtained: read(&tally.obtained), troubles: read(&tally.troubles) }
    }

    /// Lets so many of them be there.
    pub fn become_so_many(&mut self, wanted: usize) -> std::io::Result<()> {
        self.leaving.retain(|task| !task.is_finished());
        for gone in self.working.drain(wanted.min(self.working.len())..) {
            self.leaving.push(gone.task);
        }
        while self.working.len() < wanted.min(MOST) {
            let request = Request::new(&self.admission, self.form, LEASE)?;
            // They do not all come at the same moment.
            let [chance] = random::<1>()?;
            let first = PERIOD.mul_f64(f64::from(chance) / 256.0);
            let (stay, go) = oneshot::channel();
            let contender = Contender::new(&self.node, request);
            let task = tokio::spawn(contend(contender, Arc::clone(&self.tally), first, go));
            self.working.push(Working { _stay: stay, task });
        }
        Ok(())
    }

    /// Waits until all who were told to go have given back what they had. An error: one could not.
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

/// Tries until it is told to go, which is heard between two attempts and never in the middle of one.
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
        // What is left over is given back before the next attempt.
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
