//! The daemon: one engine, a moment each second, several readers of it. `serve` and `record` run it.
//!
//! The loop owns the engine and never waits for a reader: the port has a thread of its own and shares the latest moment, and
//! so has the store. It writes nothing to the server. MONITOR runs only if its caller has the user's consent.

mod alarm;
mod archive;
mod clocks;
mod http;
mod listen;
mod notify;
mod own;
mod pager;
mod process;
mod replay;

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::alerts::Rules;
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::signals::Signals;
use crate::engine::{Engine, News, Stream};
use crate::metrics::Moment;
use crate::store::History;
pub use alarm::Alarm;
pub use alarm::{EVERY, LOOKBACK};
pub use archive::Archive;
pub use http::Protection;
use http::{Latest, Port};
pub use listen::Address;
use notify::Notify;
pub use own::Own;
use pager::Pager;
pub use pager::Receivers;
pub use replay::{replay, resumed, step_by_step};

/// How often a moment is made.
pub const SECOND: Duration = Duration::from_secs(1);
/// How long the first moment waits for the event stream.
const FIRST: Duration = Duration::from_secs(5);
/// How long we wait before another engine is started, when the clock is wrong and the server does not answer.
const AGAIN: Duration = Duration::from_secs(30);

/// What is done with the moments.
pub struct Daemon<'a> {
    /// The value of the label `target`.
    pub target: Arc<str>,
    /// The target as the audit file names it.
    pub address: String,
    /// For how long; `None`: until a signal comes.
    pub duration: Option<Duration>,
    pub rules: Rules,
    /// The file to record into.
    pub store: Option<PathBuf>,
    /// A port to answer requests at, and what protects it.
    pub port: Option<(TcpListener, Protection)>,
    /// Who is told of alerts.
    pub receivers: Option<Receivers>,
    /// Says something on stderr.
    pub say: &'a dyn Fn(&str),
}

/// How it ended.
pub enum Ended {
    /// By a signal.
    Asked,
    /// Its time was over.
    Over(Box<Engine>),
}

/// What changes while the daemon runs.
struct State {
    engine: Engine,
    archive: Option<Archive>,
    alarm: Alarm,
    pager: Option<Pager>,
    own: Own,
    news: News,
    /// No other engine is started before this.
    again: Instant,
}

impl Daemon<'_> {
    /// Runs until its time is over or a signal asks it to end. `start` makes the engine, and makes it again when the clock
    /// was set.
    pub async fn run(mut self, start: impl AsyncFn() -> Result<Engine, Fault>) -> Result<Ended, Fault> {
        let mut signals = Signals::listen()?;
        let notify = Notify::from_environment();
        // Before anything is measured, because it takes a while.
        let alarm = self.alarm();
        let mut engine = start().await?;
        until_watched(&mut engine).await;
        let archive = self.archive(&engine)?;
        let alarm = alarm.unwrap_or_else(|why| {
            (self.say)(&format!("the rules begin again: {why}"));
            Alarm::new(self.rules.clone())
        });
        let mut state = State {
            archive,
            engine,
            alarm,
            pager: self.receivers.take().map(|to| Pager::start(to, self.rules.clone())).transpose()?,
            own: Own::new(),
            news: News::default(),
            again: Instant::now(),
        };
        let (latest, reader) = watch::channel(state.moment(&self));
        let mut port = match self.port.take() {
            Some((listener, protection)) => {
                (self.say)(&format!("serving {}://{}/metrics", protection.scheme(), listener.local_addr()?));
                Some(Port::open(listener, protection, reader)?)
            }
            None => None,
        };
        notify.ready();
        let mut second = tokio::time::interval(SECOND);
        second.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let ends = self.duration.map(|duration| tokio::time::Instant::now() + duration);
        let asked = loop {
            tokio::select! {
                biased;
                _ = signals.next() => break true,
                _ = at(ends) => break false,
                // Its panic is passed on below.
                _ = broken(&mut port) => break true,
                _ = second.tick() => {
                    state.keep_time(&self, &start).await?;
                    latest.send_replace(state.moment(&self));
                    notify.alive();
                }
                _ = state.engine.next() => {}
            }
            state.news.tell(&state.engine, self.say);
        };
        notify.stopping();
        if let Some(port) = port {
            port.close().await;
        }
        if let Some(pager) = state.pager {
            pager.close(self.say);
        }
        if let Some(archive) = state.archive {
            archive.close()?;
        }
        Ok(if asked { Ended::Asked } else { Ended::Over(Box::new(state.engine)) })
    }

    /// The rules, going on where the history ended, if there is one.
    fn alarm(&self) -> Result<Alarm, Fault> {
        match &self.store {
            Some(path) if path.exists() => {
                resumed(&History::open(path)?, self.rules.clone(), Clock::start().now()).map(Alarm::resumed)
            }
            Some(_) | None => Ok(Alarm::new(self.rules.clone())),
        }
    }

    /// Opens the store, if there is one.
    fn archive(&self, engine: &Engine) -> Result<Option<Archive>, Fault> {
        let Some(path) = &self.store else { return Ok(None) };
        Ok(Some(Archive::open(path, &Archive::target(&self.target, engine), &self.address)?))
    }
}

impl State {
    /// Makes a moment, and hands it to the rules and to the store.
    fn moment(&mut self, daemon: &Daemon) -> Latest {
        let mut moment: Moment = self.engine.moment(&daemon.target);
        self.own.add(&mut moment);
        self.alarm.add(&mut moment);
        if let Some(pager) = &self.pager {
            pager.add(&mut moment);
        }
        if let Some(archive) = &self.archive {
            archive.add(&mut moment);
        }
        let changes = self.alarm.take(&moment);
        changes.iter().filter_map(alarm::sentence).for_each(|sentence| (daemon.say)(&sentence));
        if let Some(pager) = &mut self.pager {
            pager.take(&changes);
            std::iter::from_fn(|| pager.said()).for_each(|sentence| (daemon.say)(&sentence));
        }
        let moment = Arc::new(moment);
        if let Some(archive) = &mut self.archive
            && let Some(trouble) = archive.write(&self.engine, Moment::clone(&moment), &changes)
        {
            (daemon.say)(&trouble);
        }
        Latest { moment, made: Instant::now() }
    }

    /// Starts another engine when the clock of this one is wrong. Ages and counts begin again.
    async fn keep_time(
        &mut self,
        daemon: &Daemon<'_>,
        start: &impl AsyncFn() -> Result<Engine, Fault>,
    ) -> Result<(), Fault> {
        let Some(apart) = clocks::apart(self.engine.clock.now()).filter(|_| Instant::now() >= self.again) else {
            return Ok(());
        };
        (daemon.say)(&apart);
        self.again = Instant::now() + AGAIN;
        match start().await {
            Ok(mut engine) => {
                until_watched(&mut engine).await;
                if let Some(archive) = self.archive.take() {
                    archive.close()?;
                }
                self.archive = daemon.archive(&engine)?;
                self.alarm.gap(self.engine.clock.now());
                (self.engine, self.news) = (engine, News::default());
            }
            Err(why) => (daemon.say)(&format!("not started again yet: {why}")),
        }
        Ok(())
    }
}

/// A server that was just reached is not silent: the first moment waits until its changes are learnt, or can't be.
async fn until_watched(engine: &mut Engine) {
    let watched = async {
        while engine.nodes().any(|node| node.stream == Stream::Starting) {
            engine.next().await;
        }
    };
    // What takes longer is told as it is.
    let _ = tokio::time::timeout(FIRST, watched).await;
}

async fn at(time: Option<tokio::time::Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits until the port's thread ends by itself, if there is one.
async fn broken(port: &mut Option<Port>) {
    match port {
        Some(port) => port.broken().await,
        None => std::future::pending().await,
    }
}
