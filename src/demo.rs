//! `lockscope demo`: private servers with a simulated fleet on them, for people to watch and for tests to check against.
//!
//! [`Demo`] is the servers with their fleet, and what happens to them ([`Acts`]); the console opens on it. [`headless`] watches it for a while with the
//! console's engine and prints what it saw.

mod acts;
mod cluster;
pub mod fleet;
mod sentinel;
mod server;
mod stage;
mod summary;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use redis::RedisError;
use tokio::time::{Instant, MissedTickBehavior};

pub use acts::{Act, Acts};
pub use fleet::{Fleet, SITUATIONS, Tally, Tempo};
pub use server::{NoServer, PrivateServer};
pub use stage::{Shape, Stage};
pub use summary::Summary;

use crate::base::signals::{self, Signals};
use crate::dialects::Recogniser;
use crate::engine::{self, Duty, Engine};
use crate::sources::pace::Pace;
use crate::sources::sampling::burst::Bounds;

/// How long a headless demo watches by default.
pub const USUAL: Duration = Duration::from_secs(20);
/// No other client uses the demo's server, so MONITOR slows nobody.
pub const DUTY: Duty = Duty { burst: Bounds::USUAL, pause: Duration::from_millis(50), most: None };
/// How often the headless demo takes a snapshot.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The server program; `None` takes the first on the PATH.
    pub server: Option<PathBuf>,
    pub shape: Shape,
    pub seed: u64,
    /// How long to watch; `None` is [`USUAL`] when headless, and until the user quits in the console.
    pub for_: Option<Duration>,
    pub headless: bool,
    pub tempo: Tempo,
}

impl Default for Options {
    fn default() -> Options {
        Options { server: None, shape: Shape::default(), seed: 1, for_: None, headless: false, tempo: Tempo::REAL }
    }
}

/// Why a demo failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error(transparent)]
    Server(#[from] NoServer),
    #[error("the demo's own server is lost: {0}")]
    Redis(#[from] RedisError),
    #[error("{0}")]
    Service(String),
    #[error("the summary could not be written: {0}")]
    Output(#[from] io::Error),
    #[error("stopped by {0} before the time was over")]
    Stopped(&'static str),
}

/// Dropping it ends the fleet and the servers.
pub struct Demo {
    pub fleet: Fleet,
    pub acts: Acts,
    pub stage: Stage,
}

impl Demo {
    pub async fn open(options: &Options) -> Result<Demo, DemoError> {
        let Options { server, shape, seed, tempo, for_, headless } = options;
        let stage = Stage::build(*shape, server.as_deref()).await?;
        let fleet = Fleet::start_at(stage.place()?, *seed, *tempo).await?;
        let for_ = for_.or(headless.then_some(USUAL));
        let acts = stage.hand().await?.map(|hand| Acts::start(hand, *seed, *tempo, for_));
        Ok(Demo { fleet, acts: acts.unwrap_or_default(), stage })
    }
}

/// Watches a demo and writes a summary for people. After a signal it cleans up too.
pub async fn headless(options: &Options, out: &mut impl Write) -> Result<Summary, DemoError> {
    let mut signals = Signals::listen()?;
    let demo = Demo::open(options).await?;
    let topology = demo.stage.topology().await?;
    let watch = engine::Options::following(Recogniser::default(), Pace::POLITE);
    let mut engine = Engine::start(&topology, watch).await?;
    engine.sample_by(Some(DUTY));
    let mut reader = engine.reader();

    let mut summary = Summary::new(options.seed, options.shape);
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let began = Instant::now();
    let end = tokio::time::sleep_until(began + options.for_.unwrap_or(USUAL));
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => return Err(DemoError::Stopped(signals::name_of(signal))),
            _ = &mut end => break,
            _ = looks.tick() => summary.look(&engine, &mut reader),
            _ = engine.next() => {}
        }
    }
    summary.finish(&engine, &mut reader, began.elapsed());
    summary.acts = demo.acts.done();
    summary.failures = demo.fleet.failures();
    drop(engine);
    summary.workers = demo.fleet.names().len();
    summary.tally = demo.fleet.stop().await;
    summary.write(out)?;
    Ok(summary)
}
