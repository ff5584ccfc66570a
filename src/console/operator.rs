//! Does what the app asks for in tasks beside the loop, and sends the results back as events.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::actions::{
    Context, Happened, Journal, Keyspace, Outcome, Performed, Plan, Refusal, Tally, audit, foresee, last_batch, perform,
};
use crate::app::{Batch, Event, TuneOrder, Wish};
use crate::base::clock::Clock;
use crate::base::text;
use crate::base::time::Time;
use crate::console::chronicle::Chronicle;
use crate::console::switch::Switch;
use crate::console::tuning;
use crate::engine::{Engine, Observer};
use crate::lab::Lab;
use crate::lock::{Key, KeyspaceId, NodeId};
use crate::model::{LockView, Observation, OwnWrite};
use crate::output::Place;
use crate::output::incident::{Bundle, Recorded, folder_name, write_files};
use crate::settings::Settings;
use crate::settings::cli::Environment;
use crate::sources::inspect::prove;
use crate::store::History;
use crate::topology::Topology;

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
    pub chronicle: Chronicle,
    pub switch: Switch,
}

impl Operator {
    pub fn new(
        settings: &Settings,
        topology: &Topology,
        observer: Observer,
        shown: &str,
        place: Option<PathBuf>,
    ) -> Operator {
        let chronicle = Chronicle::default();
        let (news, lab) = (mpsc::channel(WAITING), Lab::new(settings.gate(), topology, shown, place.clone()));
        let (settings, topology, stopped) = (settings.clone(), topology.clone(), Arc::default());
        Operator {
            settings,
            topology,
            observer,
            shown: shown.into(),
            place,
            news,
            stopped,
            running: None,
            lab,
            chronicle,
            switch: Switch::default(),
        }
    }

    /// Performs these plans, one after the other. `write`: the operator has turned writing on.
    pub fn perform(&mut self, plans: Vec<Plan>, reason: Option<String>, write: bool) {
        let context = Context {
            target: self.shown.clone(),
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
        let first = topology.place(first.space, &first.key).clone();
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
                        let performed = perform(&plan, &gate, &topology, journal, &context).await;
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
                let _ = journal.write_stopped(Clock::start().now(), &first, &context, &tally, "stopped");
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

    /// Writes the page of an incident, with what the audit file and the store have of the lock.
    pub fn bundle(&self, mut bundle: Bundle, key: Key, folder: Option<PathBuf>, reveal: bool) {
        let (store, news, now) = (self.chronicle.store().map(PathBuf::from), self.news.0.clone(), self.observer.now());
        let place = self.place.clone();
        tokio::task::spawn_blocking(move || {
            let write = || -> Result<PathBuf, String> {
                let state = place.map_or_else(audit::state_directory, Ok).map_err(|why| why.to_string())?;
                let (entries, _) = audit::read(&state).unwrap_or_default();
                bundle.add_actions_of(&entries, &key);
                if let Some(store) = store {
                    let recorded = History::open(&store).and_then(|history| Recorded::of_lock(&history, &key, now));
                    let recorded = recorded.map_err(|why| why.to_string())?;
                    bundle.add_recorded(&recorded, &Place::default(), bundle.begins());
                }
                let own = || state.join("incidents").join(folder_name(&key, now));
                let document = bundle.clone().document(reveal);
                write_files(&folder.clone().unwrap_or_else(own), &document).map_err(|why| why.to_string())
            };
            let _ = news.blocking_send(Event::Bundled(write()));
        });
    }

    /// Records into this file from now on; `None` ends it.
    pub fn record(&mut self, path: Option<PathBuf>, target: &str, engine: &Engine) {
        match path {
            Some(path) => self.chronicle.begin(path, target, &self.shown, engine),
            None => self.chronicle.end(),
        }
    }

    /// Carries out an order of the tuner.
    pub fn tune(&self, order: TuneOrder) {
        tuning::carry_out(order, self.news.0.clone());
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
        let (journal, topology, shown, news) =
            (self.journal(), self.topology.clone(), self.shown.clone(), self.news.0.clone());
        let again = self.settings.again.clone();
        tokio::spawn(async move {
            let batch = match journal {
                Ok(journal) => recalled(&journal, &topology, &shown, &again).await,
                Err(why) => Err(format!("the record of freed locks can't be read: {why}")),
            };
            let _ = news.send(Event::Recalled(batch)).await;
        });
    }

    /// Asks whether these could be undone.
    pub fn foresee(&self, mut plans: Vec<Plan>) {
        let (topology, news) = (self.topology.clone(), self.news.0.clone());
        tokio::spawn(async move {
            foresee(&topology, &mut plans).await;
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

    /// The next result, a change of the test locks, what a store has, or whether another target can be gone to.
    pub async fn next(&mut self) -> Event {
        tokio::select! {
            Some(event) = self.news.1.recv() => event,
            tests = self.lab.next() => Event::Lab(tests),
            event = self.chronicle.next() => event,
            event = self.switch.next() => event,
        }
    }

    /// Removes all test locks, in a bounded time. Returns a sentence for each that may still exist.
    pub async fn close(&mut self) -> Vec<String> {
        self.lab.close().await
    }
}

/// What was freed last in the target's data, as far as it can be undone; else why not.
async fn recalled(journal: &Journal, topology: &Topology, shown: &str, again: &str) -> Result<Batch, String> {
    let asked = |error: redis::RedisError| format!("the server could not be asked: {}", text::said(&error));
    let done = journal.done_here(&Keyspace::read_all(topology).await.map_err(asked)?, shown, topology.db());
    let done = done.map_err(|why| format!("the record of freed locks can't be read: {why}"))?;
    let now = Clock::start().now();
    let freed = match last_batch(done, now) {
        Ok(freed) => freed,
        Err(why) => return Err(why.told(topology, now, again).await.map_err(asked)?),
    };
    let (mut batch, mut connected) = (Batch::default(), HashMap::new());
    for kept in freed {
        let node = topology.node_of(&kept.lock());
        let (conn, here) = match connected.entry(node.id) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(vacant) => {
                let mut conn = topology.reader(KeyspaceId::FIRST, &kept.lock()).await.map_err(asked)?;
                let here = Keyspace::read(&mut conn).await.map_err(asked)?;
                vacant.insert((conn, here))
            }
        };
        let insist = format!("'lockscope undo {} --force{again}' puts it back anyway", kept.id());
        let continues = |then| here.as_ref().map_err(String::clone).and_then(|here| here.continues(then));
        if let Some(taken) = kept.taken(conn, now).await.map_err(asked)? {
            batch.left_out.push(format!("not put back: {taken}; {}", kept.freed_when(now)));
            continue;
        }
        let why = match (kept.about.keyspace.as_ref().map(continues), kept.happened(conn).await.map_err(asked)?) {
            (Some(Err(why)), _) => format!("{}: {why}; {insist}", kept.lock()),
            (_, Happened::No) => kept.not_freed(),
            (_, Happened::CanNotTell) => format!("{}; {insist}", kept.perhaps_freed()),
            (_, Happened::Yes) => {
                batch.kept.push(match here {
                    Ok(here) => kept.by_clock_of(here),
                    Err(_) => kept,
                });
                continue;
            }
        };
        batch.left_out.push(why);
    }
    match batch.left_out.as_slice() {
        [why] if batch.kept.is_empty() => Err(why.clone()),
        _ => Ok(batch),
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
