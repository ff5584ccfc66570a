//! The pager: tells Alertmanagers and a command of alerts that fire and end. Off unless the user names somebody.
//!
//! It has a thread of its own, so that no receiver can hold up the engine, and a bounded queue for each of them: what does not
//! fit is dropped and counted.

mod alertmanager;
mod page;
mod program;
mod tally;

use std::convert::Infallible;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::alerts::{AlertChange, Rule, Rules, Severity};
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::http::{Access, Client};
use crate::metrics::{MetricId, Moment};
use crate::settings::config::PagerConfig;
use alertmanager::{Outbox, Unsent};
use page::Page;
use tally::{Outcome, Tally};

const NOTIFICATIONS: MetricId = MetricId::of("lockscope_notifications_total");
/// What waits for a receiver.
const WAITING: usize = 1_000;
/// How long what is on its way may take when we end.
const GRACE: Duration = Duration::from_secs(5);
/// The name of the command among the receivers.
const COMMAND: &str = "command";

/// Who is told, checked.
#[derive(Clone, Debug)]
pub struct Receivers {
    clients: Vec<Client>,
    command: Vec<String>,
    severities: Vec<Severity>,
    timeout: Duration,
    /// After what time an alert that fires is sent again.
    resend: Duration,
}

/// What sends to one receiver.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Receivers {
    /// Reads the files that the config names; `None` if nobody is to be told.
    pub fn read(config: &PagerConfig) -> Result<Option<Receivers>, Fault> {
        if config.is_off() {
            return Ok(None);
        }
        let access = Arc::new(Access::read(&config.files).map_err(|fault| fault.at("[pager]"))?);
        let client = |base: &crate::http::Base| Client::new(base.clone(), access.clone(), config.timeout);
        Ok(Some(Receivers {
            clients: config.alertmanagers.iter().map(client).collect(),
            command: config.command.clone(),
            severities: config.severities.clone(),
            timeout: config.timeout,
            resend: config.resend,
        }))
    }

    /// Tells everybody of a test alert; each receiver with what went wrong there.
    pub async fn test(&self, rule: &Rule, now: Time) -> Vec<(String, Result<(), String>)> {
        let page = Page::test(rule, now);
        let mut told = Vec::new();
        for client in &self.clients {
            let sent = alertmanager::send(client, std::slice::from_ref(&page), now, self.resend).await;
            told.push((client.shown().to_string(), sent.map_err(|(Unsent::Later(why) | Unsent::Refused(why))| why)));
        }
        if !self.command.is_empty() {
            told.push((COMMAND.into(), program::once(&self.command, &page, self.timeout).await));
        }
        told
    }
}

pub struct Pager {
    rules: Rules,
    severities: Vec<Severity>,
    receivers: Vec<(Sender<Page>, Tally)>,
    outcomes: [(Outcome, Arc<str>); 4],
    sentences: Receiver<String>,
    /// Dropped to end it.
    stop: oneshot::Sender<Infallible>,
    thread: JoinHandle<()>,
}

impl Pager {
    pub fn start(receivers: Receivers, rules: Rules) -> std::io::Result<Pager> {
        let (say, sentences) = channel(64);
        let mut queues = Vec::new();
        let mut tasks: Vec<Task> = Vec::new();
        for client in receivers.clients {
            let (sender, queue) = channel(WAITING);
            let tally = Tally::new(client.shown(), say.clone());
            queues.push((sender, tally.clone()));
            tasks.push(Box::pin(Outbox::new(client, tally, receivers.resend).run(queue)));
        }
        if !receivers.command.is_empty() {
            let (sender, queue) = channel(WAITING);
            let tally = Tally::new(COMMAND, say.clone());
            queues.push((sender, tally.clone()));
            tasks.push(Box::pin(program::run(receivers.command, receivers.timeout, tally, queue)));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let work = move || runtime.block_on(all(tasks, stopped));
        let thread = std::thread::Builder::new().name("pager".into()).spawn(work)?;
        let outcomes = Outcome::ALL.map(|outcome| (outcome, outcome.name().into()));
        Ok(Pager { rules, severities: receivers.severities, receivers: queues, outcomes, sentences, stop, thread })
    }

    /// Hands on what changed.
    pub fn take(&self, changes: &[AlertChange]) {
        let wanted = |page: &Page| self.severities.is_empty() || self.severities.contains(&page.severity());
        for page in changes.iter().filter_map(|change| Page::of(change, &self.rules)).filter(wanted) {
            for (queue, tally) in &self.receivers {
                if queue.try_send(page.clone()).is_err() {
                    tally.count(Outcome::Dropped, 1);
                    tally.say(format!("more than {WAITING} notifications wait: the rest is dropped"));
                }
            }
        }
    }

    /// Adds what became of the notifications.
    pub fn add(&self, moment: &mut Moment) {
        for (_, tally) in &self.receivers {
            for (outcome, name) in &self.outcomes {
                moment.push(NOTIFICATIONS, &[&tally.receiver, name], tally.of(*outcome) as f64);
            }
        }
    }

    /// What there is to say.
    pub fn said(&mut self) -> Option<String> {
        self.sentences.try_recv().ok()
    }

    /// Sends what waits, for a short time. Passes a panic on.
    pub fn close(self, say: &dyn Fn(&str)) {
        let Pager { receivers, mut sentences, stop, thread, .. } = self;
        drop((receivers, stop));
        let ended = thread.join();
        while let Ok(sentence) = sentences.try_recv() {
            say(&sentence);
        }
        if let Err(panic) = ended {
            resume_unwind(panic);
        }
    }
}

/// Runs until it is stopped and what is on its way has had its time. A task that panics ends the thread.
async fn all(tasks: Vec<Task>, mut stopped: oneshot::Receiver<Infallible>) {
    let mut running = JoinSet::from_iter(tasks);
    let pass = |ended: Result<(), tokio::task::JoinError>| {
        if let Err(why) = ended
            && let Ok(panic) = why.try_into_panic()
        {
            resume_unwind(panic);
        }
    };
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            Some(ended) = running.join_next() => pass(ended),
        }
    }
    let rest = async {
        while let Some(ended) = running.join_next().await {
            pass(ended);
        }
    };
    let _ = tokio::time::timeout(GRACE, rest).await;
}
