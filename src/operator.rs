//! The console's hands: does beside the loop what the app asks for, and hands in what came of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::actions::{
    Context, Gate, Happened, Journal, Kept, Keyspace, Outcome, Performed, Plan, Refusal, foresee, last_done, perform,
};
use crate::app::Event;
use crate::cli::Environment;
use crate::clock::Clock;
use crate::lab::Lab;
use crate::settings::Settings;
use crate::topology::{Node, Topology};

/// Between two releases of many.
const BREATHER: Duration = Duration::from_millis(20);
/// Results that wait for the loop; whoever makes more waits.
const WAITING: usize = 64;

pub struct Operator {
    settings: Settings,
    node: Node,
    /// The server's address without a password.
    shown: String,
    /// Where the records are, unless in the user's own place.
    place: Option<PathBuf>,
    news: (mpsc::Sender<Event>, mpsc::Receiver<Event>),
    stopped: Arc<AtomicBool>,
    pub lab: Lab,
}

impl Operator {
    pub fn new(settings: &Settings, topology: &Topology, shown: &str, place: Option<PathBuf>) -> Operator {
        let node = topology.nodes()[0].clone();
        let (news, lab) = (mpsc::channel(WAITING), Lab::new(settings, topology, shown, place.clone()));
        Operator { settings: settings.clone(), node, shown: shown.into(), place, news, stopped: Arc::default(), lab }
    }

    /// Performs these plans, one after the other. `write`: the operator has turned writing on.
    pub fn perform(&mut self, plans: Vec<Plan>, reason: Option<String>, write: bool) {
        let context = Context {
            target: self.shown.clone(),
            node: self.node.name.clone(),
            db: self.node.db,
            environment: self.settings.environment.map(Environment::name),
            reason,
        };
        // One flag for each task: an old stop must not stop a new one.
        self.stopped = Arc::default();
        let (gate, node) = (Gate::of_console(&self.settings, write), self.node.clone());
        let (journal, news, stopped) = (self.journal(), self.news.0.clone(), Arc::clone(&self.stopped));
        tokio::spawn(async move {
            let mut journal = journal;
            for (number, plan) in plans.into_iter().enumerate() {
                if number > 0 {
                    tokio::time::sleep(BREATHER).await;
                }
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let performed = match &mut journal {
                    Ok(journal) => perform(&plan, &gate, &node, journal, &context).await,
                    Err(why) => refused(why),
                };
                if news.send(Event::Performed(Box::new(plan), Box::new(performed))).await.is_err() {
                    return;
                }
            }
            let _ = news.send(Event::AllPerformed).await;
        });
    }

    /// Begins nothing more of what is being performed; what is under way is finished.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// What was done last here, to be put back.
    pub fn recall(&self) {
        let (journal, node, shown, news) = (self.journal(), self.node.clone(), self.shown.clone(), self.news.0.clone());
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
        let (node, news) = (self.node.clone(), self.news.0.clone());
        tokio::spawn(async move {
            foresee(&node, &mut plans).await;
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

    /// What came of it, one by one, and how the test locks are.
    pub async fn next(&mut self) -> Event {
        tokio::select! {
            Some(event) = self.news.1.recv() => event,
            tests = self.lab.next() => Event::Lab(tests),
        }
    }

    /// Removes all test locks, in a bounded time. What may still be there is named, in a sentence each.
    pub async fn close(&mut self) -> Vec<String> {
        self.lab.close().await
    }
}

/// The last thing that was done in the data that is here, if it can be put back; else why not.
async fn recalled(journal: &Journal, node: &Node, shown: &str) -> Result<Option<Kept>, String> {
    let asked = |error: redis::RedisError| format!("the server could not be asked: {error}");
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

fn refused(why: &str) -> Performed {
    let outcome = Outcome::Refused(Refusal::Audit(why.into()));
    Performed { id: String::new(), outcome, undo: Err("nothing was changed".into()) }
}
