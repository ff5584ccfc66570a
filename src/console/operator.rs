//! Does what the app asks for in tasks beside the loop, and sends the results back as events.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::actions::{
    Context, Happened, Journal, Kept, Keyspace, Outcome, Performed, Plan, Refusal, Tally, audit, foresee, last_done,
    perform,
};
use crate::app::{Event, Wish};
use crate::base::clock::Clock;
use crate::base::text;
use crate::base::time::Time;
use crate::engine::Observer;
use crate::lab::Lab;
use crate::lock::NodeId;
use crate::model::{LockView, Observation, OwnWrite};
use crate::settings::Settings;
use crate::settings::cli::Environment;
use crate::sources::inspect::prove;
use crate::topology::{Node, Topology};

/// Pause between two of many releases.
const BREATHER: Duration = Duration::from_millis(20);
/// How long reading the proofs may take before the locks are handed over without them.
const PROVING: Duration = Duration::from_secs(5);
/// Results that may wait for the loop; a task that sends more has to wait.
const WAITING: usize = 64;

pub struct Operator {
    settings: Settings,
    topology: Topology,
    observer: Observer,
    /// The server's address without a password.
    shown: String,
    /// The folder of the records, if it is not the user's own.
    place: Option<PathBuf>,
    news: (mpsc::Sender<Event>, mpsc::Receiver<Event>),
    stopped: Arc<AtomicBool>,
    /// The running task that performs plans.
    running: Option<JoinHandle<Tally>>,
    pub lab: Lab,
}

impl Operator {
    pub fn new(
        settings: &Settings,
        topology: &Topology,
        observer: Observer,
        shown: &str,
        place: Option<PathBuf>,
    ) -> Operator {
        let (news, lab) = (mpsc::channel(WAITING), Lab::new(settings.gate(), topology, shown, place.clone()));
        let (settings, topology, stopped) = (settings.clone(), topology.clone(), Arc::default());
        Operator { settings, topology, observer, shown: shown.into(), place, news, stopped, running: None, lab }
    }

    /// Performs these plans, one after the other. `write`: the operator has turned writing on.
    pub fn perform(&mut self, plans: Vec<Plan>, reason: Option<String>, write: bool) {
        let context = Context {
            target: self.shown.clone(),
            node: self.topology.main().name.clone(),
            db: self.topology.main().db,
            environment: self.settings.environment.map(Environment::name),
            reason,
        };
        // One flag per task: an old stop must not stop a new task.
        self.stopped = Arc::default();
        let (gate, topology) = (self.settings.gate().for_console(write), self.topology.clone());
        let observer = self.observer.clone();
        let (journal, news, stopped) = (self.journal(), self.news.0.clone(), Arc::clone(&self.stopped));
        let Some(first) = plans.first() else { return };
        let mut tally = Tally::of(plans.len(), &first.action);
        self.running = Some(tokio::spawn(async move {
            let mut journal = journal;
            for (number, plan) in plans.into_iter().enumerate() {
                if number > 0 {
                    tokio::time::sleep(BREATHER).await;
                }
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let node = topology.place(plan.space, &plan.key);
                let performed = match &mut journal {
                    Ok(journal) => {
                        let sent = observer.now();
                        observer.tell(Observation::Acting { node: node.id, key: plan.key.clone(), at: sent }).await;
                        let performed = perform(&plan, &gate, node, journal, &context).await;
                        let write = written(&plan, &performed.outcome, &context);
                        observer.tell(acted(node.id, &plan, write, sent, observer.now())).await;
                        performed
                    }
                    Err(why) => refused(why),
                };
                tally.count(&performed.outcome);
                // After the console has quit nobody receives this; the flag above is set then too.
                let _ = news.send(Event::Performed(Box::new(plan), Box::new(performed))).await;
            }
            if let (true, Ok(journal)) = (tally.untouched() > 0, &mut journal) {
                // What was done is already on record, so a failure to write this line is ignored.
                let _ = journal.write_stopped(Clock::start().now(), &context, &tally, "stopped");
            }
            let _ = news.send(Event::AllPerformed).await;
            tally
        }));
    }

    /// Reads what a write to these locks will be compared with, then sends the locks to the app. If the server is lost
    /// they have no proof, and writes that need one are refused.
    pub fn see(&self, wish: Wish, mut locks: Vec<LockView>) {
        let (topology, news) = (self.topology.clone(), self.news.0.clone());
        tokio::spawn(async move {
            let proving = prove(&topology, &mut locks);
            let _ = tokio::time::timeout(PROVING, proving).await;
            let _ = news.send(Event::Seen(wish, locks)).await;
        });
    }

    /// Starts no further plan; the one under way is finished.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Finishes the plan under way and starts no other; returns the tally if some plans were not performed.
    pub async fn finish(&mut self) -> Option<Tally> {
        self.stop();
        self.news.1.close();
        let running = self.running.take()?;
        // This wait is bounded: each request of an action has its own time limit.
        let tally = running.await.ok()?;
        (tally.untouched() > 0).then_some(tally)
    }

    /// Looks up the last release here, to be undone.
    pub fn recall(&self) {
        let (journal, node, shown, news) =
            (self.journal(), self.topology.main().clone(), self.shown.clone(), self.news.0.clone());
        tokio::spawn(async move {
            let kept = match journal {
                Ok(journal) => recalled(&journal, &node, &shown).await,
                Err(why) => Err(format!("what was freed can't be read: {why}")),
            };
            let _ = news.send(Event::Recalled(kept.map(|kept| kept.map(Box::new)))).await;
        });
    }

    /// Asks whether these could be undone.
    pub fn foresee(&self, mut plans: Vec<Plan>) {
        let (topology, news) = (self.topology.clone(), self.news.0.clone());
        tokio::spawn(async move {
            let place = |plan: &Plan| topology.place(plan.space, &plan.key);
            for here in plans.chunk_by_mut(|one, next| place(one).id == place(next).id) {
                foresee(place(&here[0]), here).await;
            }
            let _ = news.send(Event::Foreseen(plans)).await;
        });
    }

    fn journal(&self) -> Result<Journal, String> {
        let journal = match &self.place {
            Some(place) => Journal::open_in(place),
            None => Journal::open(),
        };
        journal.map_err(|why| why.to_string())
    }

    /// The next result, or a change of the test locks.
    pub async fn next(&mut self) -> Event {
        tokio::select! {
            Some(event) = self.news.1.recv() => event,
            tests = self.lab.next() => Event::Lab(tests),
        }
    }

    /// Removes all test locks, in a bounded time. Returns a sentence for each that may still exist.
    pub async fn close(&mut self) -> Vec<String> {
        self.lab.close().await
    }
}

/// The last release in this server's data, if it can be undone; else why not.
async fn recalled(journal: &Journal, node: &Node, shown: &str) -> Result<Option<Kept>, String> {
    let asked = |error: redis::RedisError| format!("the server could not be asked: {}", text::said(&error));
    let mut conn = node.connect().await.map_err(asked)?;
    let here = Keyspace::read(&mut conn).await.map_err(asked)?;
    let done = journal.done_here(here.as_ref().ok(), shown, node.db);
    let done = done.map_err(|why| format!("what was freed can't be read: {why}"))?;
    let Some(kept) = last_done(done, Clock::start().now())? else { return Ok(None) };
    let insist = format!("'lockscope undo {} --force' puts it back all the same", kept.id());
    if let Some(then) = &kept.about.keyspace {
        here.and_then(|here| here.continues(then)).map_err(|why| format!("{}: {why}; {insist}", kept.lock()))?;
    }
    match kept.happened(&mut conn).await.map_err(asked)? {
        Happened::Yes => Ok(Some(kept)),
        Happened::No => Err(kept.not_freed()),
        Happened::CanNotTell => Err(format!("{}; {insist}", kept.perhaps_freed())),
    }
}

/// The write as reported to the table: only what the server confirmed.
fn written(plan: &Plan, outcome: &Outcome, context: &Context) -> Option<OwnWrite> {
    let Outcome::Done { .. } = outcome else { return None };
    let holders = plan.holders.clone();
    Some(OwnWrite { act: plan.act(), holders, by: audit::user(), reason: context.reason.clone() })
}

fn acted(node: NodeId, plan: &Plan, write: Option<OwnWrite>, sent: Time, answered: Time) -> Observation {
    Observation::Acted { node, key: plan.key.clone(), write, sent, answered }
}

fn refused(why: &str) -> Performed {
    Performed::refused(String::new(), Refusal::Audit(why.into()))
}
