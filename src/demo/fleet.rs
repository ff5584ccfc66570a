//! A simulated fleet: workers that take, renew, lose and leave locks in the wire formats of the real libraries.
//!
//! People watch this fleet in the demo, tests check it, and benchmarks run on it. [`SITUATIONS`] lists what is planted
//! in it; `cast.rs` assigns the roles; each family of libraries has a file that plays them.

mod cast;
mod dice;
mod fair;
mod jobs;
mod line;
mod plain;
mod python;
mod read_write;
mod redisson;
mod situations;
mod strings;
mod tally;
mod tempo;
mod web;
mod worker;

use std::collections::BTreeMap;
use std::time::Duration;

use redis::RedisResult;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(super) use cast::lasting;
pub(super) use dice::Dice;
pub(super) use line::Place;
pub use situations::{DEADLOCK, SITUATIONS, Situation};
pub use tally::Tally;
pub use tempo::Tempo;

use crate::base::clock::Clock;
use line::Line;
use tally::Ledger;
use worker::{Role, Site, Worker};

/// The shortest and the longest.
type Range = (Duration, Duration);

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Workers start one after the other, so that the same one always gets a lock first.
const BETWEEN_ENTRANCES: Duration = Duration::from_millis(15);

/// How long the workers may take to finish their current command.
const ENDING: Duration = Duration::from_secs(5);

/// All workers of a server. They end with this value.
pub struct Fleet {
    workers: JoinSet<()>,
    names: Vec<String>,
    ledger: Ledger,
    stop: watch::Sender<bool>,
}

impl Fleet {
    /// Starts the fleet on the server at `url`, where it writes its own keys. The same seed gives the same workers,
    /// keys and tokens.
    pub async fn start(url: &str, seed: u64, tempo: Tempo) -> RedisResult<Fleet> {
        Fleet::start_at(Place::one(url)?, seed, tempo).await
    }

    /// The same on several servers.
    pub(super) async fn start_at(place: Place, seed: u64, tempo: Tempo) -> RedisResult<Fleet> {
        redis::cmd("EXISTS").arg("lock").exec_async(&mut Line::new("fleet", place.clone())).await?;
        let (stop, stopping) = watch::channel(false);
        let ledger = Ledger::default();
        let site = Site { place, seed, tempo, ledger: ledger.clone(), clock: Clock::start(), stop: stopping };
        let mut crew = Crew { site, workers: JoinSet::new(), names: Vec::new() };
        cast::assemble(&mut crew);
        Ok(Fleet { workers: crew.workers, names: crew.names, ledger, stop })
    }

    /// The names of the workers' connections on the server.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The workers' own counts for each lock.
    pub fn tally(&self) -> BTreeMap<String, Tally> {
        self.ledger.tallies()
    }

    /// The last errors that workers got from the server.
    pub fn failures(&self) -> Vec<String> {
        self.ledger.failures()
    }

    /// Ends all workers and their connections, each after its current command, and returns the final counts. Locks stay
    /// as they are.
    pub async fn stop(mut self) -> BTreeMap<String, Tally> {
        self.stop.send_replace(true);
        let all = async {
            while let Some(ended) = self.workers.join_next().await {
                if let Err(failed) = ended
                    && failed.is_panic()
                {
                    std::panic::resume_unwind(failed.into_panic());
                }
            }
        };
        // Workers that get no reply from the server end when this value is dropped.
        let _ = tokio::time::timeout(ENDING, all).await;
        self.ledger.tallies()
    }
}

/// The fleet while it is assembled.
struct Crew {
    site: Site,
    workers: JoinSet<()>,
    names: Vec<String>,
}

impl Crew {
    fn add(&mut self, name: &str, role: impl Role) {
        let worker = Worker::new(name.into(), self.site.clone());
        self.workers.spawn(worker.play(BETWEEN_ENTRANCES * self.names.len() as u32, role));
        self.names.push(name.into());
    }

    /// A name that gives all keys of one lock or queue the same slot, where that matters.
    fn tagged(&self, name: &str) -> String {
        if self.site.place.is_cluster() { format!("{{{name}}}") } else { name.into() }
    }
}
