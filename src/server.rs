//! Facts about one node: what it is, how it is configured, and which of that can hurt locks.
//!
//! A command that is not permitted leaves only its own facts unknown, with the reason. Only a lost connection fails all
//! of them. `health` judges what the facts mean.

pub mod channels;
pub mod client_list;
mod clock;
mod fact;
mod flags;
pub mod health;
mod info;
mod part;
pub mod permissions;
mod role;
mod settings;
mod version;

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::{FromRedisValue, RedisError, RedisResult, Value};

pub use clock::{ClockOffset, Drift};
pub use fact::{Fact, refusal};
pub use flags::{Coverage, EventFlags, Gap};
pub use info::InfoText;
pub use part::{Part, Watched};
pub use role::{Mode, Replica, Role, Upstream};
pub use settings::Settings;
pub use version::{Flavor, Product, Version};

use crate::base::server_text::ServerText;
use crate::base::time::Time;
use crate::model::{Children, Hazards};

/// What one node says about itself.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerFacts {
    pub product: Fact<Product>,
    pub readiness: Fact<Readiness>,
    pub mode: Fact<Mode>,
    pub role: Fact<Role>,
    pub run_id: Fact<ServerText>,
    pub uptime: Fact<Duration>,
    pub memory: Fact<Memory>,
    pub persistence: Fact<Persistence>,
    pub forks: Fact<Forks>,
    pub clients: Fact<Clients>,
    /// Keys in the database that was asked about.
    pub keys: Fact<u64>,
    pub settings: Settings,
    pub clock: Fact<ClockOffset>,
    /// How its clock went between two measurements, the last time that this was not as ours did.
    pub drift: Option<Drift>,
    /// The ACL user we are.
    pub user: Fact<ServerText>,
}

/// Whether the server serves at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    Ready,
    /// Reading its data from disk; `left` is the server's estimate.
    Loading {
        left: Option<Duration>,
    },
    /// A script or function runs, and all other clients wait.
    Busy,
}

/// Whether an error code is temporary: the server serves nobody now, and the same command works later.
pub fn is_passing(code: &str) -> bool {
    matches!(code, "LOADING" | "BUSY" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN")
}

/// Memory, and what happens when it runs out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    pub used: u64,
    /// Zero: no limit.
    pub max: u64,
    pub policy: ServerText,
    /// Keys evicted since the server started.
    pub evicted: Option<u64>,
}

/// What is on disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Persistence {
    pub aof: bool,
    /// The last write to the append-only file worked.
    pub aof_ok: Option<bool>,
    /// The last snapshot worked.
    pub rdb_ok: Option<bool>,
    /// Unix time of the last snapshot.
    pub rdb_at_s: Option<i64>,
    pub unsaved_changes: Option<u64>,
    /// Keys that it read from its snapshot when it started; older servers do not say.
    pub loaded: Option<u64>,
}

impl Persistence {
    /// It began with nothing: neither a snapshot nor an append-only file brought anything back.
    pub fn came_back_empty(&self) -> bool {
        !self.aof && self.loaded == Some(0)
    }
}

/// The children that save the server's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forks {
    pub running: bool,
    /// Unix time of the end of the last one that wrote a snapshot.
    pub saved_at_s: Option<i64>,
    /// How long the other children ran (rewrites of the AOF, snapshots for replicas, failed ones): the server does not say
    /// when.
    pub undated: Duration,
}

/// Connections, and the limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clients {
    pub connected: u64,
    pub max: Option<u64>,
}

/// Asks a node for all facts: one round trip, and a few more for the clock. `db` is the database whose keys are counted.
/// An error means that the connection is lost, or that the login failed.
pub async fn ask(conn: &mut impl ConnectionLike, db: i64) -> RedisResult<ServerFacts> {
    let mut pipe = redis::pipe();
    pipe.cmd("INFO").cmd("ACL").arg("WHOAMI");
    for name in Settings::NAMES {
        pipe.cmd("CONFIG").arg("GET").arg(name);
    }
    let answers: Vec<RedisResult<Value>> = pipe.ignore_errors().query_async(conn).await?;
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or_else(|| Ok(Value::Nil));
    let info = next();
    // Without a login nothing can be known.
    let info = match info {
        Err(error) if error.code() == Some("NOAUTH") => return Err(error),
        info => info,
    };
    let busy = matches!(&info, Err(error) if error.code() == Some("BUSY"));
    let info = Fact::answered(info.and_then(read::<String>), "INFO");
    let user = Fact::answered(next().and_then(read::<String>), "ACL WHOAMI").map(ServerText::from);
    let settings = Settings::from_answers(Settings::NAMES.map(|name| setting(name, next())));
    let clock = match clock::measure(conn).await {
        Err(error) if error.is_io_error() => return Err(error),
        answer => Fact::answered(answer, "TIME"),
    };
    let mut facts = ServerFacts::read(&info, db, user, settings, clock);
    if busy {
        facts.readiness = Fact::Known(Readiness::Busy);
    }
    Ok(facts)
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, RedisError> {
    T::from_redis_value(value).map_err(RedisError::from)
}

fn setting(name: &str, answer: RedisResult<Value>) -> Fact<String> {
    let answer = Fact::answered(answer.and_then(read::<HashMap<String, String>>), "CONFIG GET");
    answer.and_then(|mut found| match found.remove(name) {
        Some(text) => Fact::Known(text),
        None => Fact::Unknown(format!("this server has no setting {name}")),
    })
}

impl ServerFacts {
    /// Which of these facts can cost a lock.
    pub fn hazards(&self) -> Hazards {
        let memory = self.memory.known();
        memory.map(|memory| Hazards::of_memory(&memory.policy, memory.used, memory.max)).unwrap_or_default()
    }

    /// When its children ran, by our clock: these facts are of `at`.
    pub fn children(&self, at: Time) -> Option<Children> {
        let forks = self.forks.known()?;
        let ahead_ms = self.clock.known().map_or(0, |clock| clock.offset_us / 1_000);
        let ended = forks.saved_at_s.map(|seconds| Time(seconds.saturating_mul(1_000).saturating_sub(ahead_ms)));
        Some(Children { at, running: forks.running, ended, undated: forks.undated })
    }

    /// Compares its clock with that of earlier facts. Returns what is new.
    pub fn follow_clock(&mut self, before: &ServerFacts) -> Option<Drift> {
        let drift = self.clock.known().zip(before.clock.known()).and_then(|(now, then)| now.drift_since(then));
        self.drift = drift.or(before.drift.filter(Drift::is_recent));
        drift
    }

    /// No facts: the server was not asked, or did not answer.
    pub fn unknown(why: &str) -> ServerFacts {
        let settings = Settings::from_answers(Settings::NAMES.map(|_| Fact::Unknown(why.into())));
        let (info, user) = (Fact::Unknown(why.into()), Fact::Unknown(why.into()));
        ServerFacts::read(&info, 0, user, settings, Fact::Unknown(why.into()))
    }

    /// Builds the facts from the replies. Pure.
    pub fn read(
        info: &Fact<String>,
        db: i64,
        user: Fact<ServerText>,
        settings: Settings,
        clock: Fact<ClockOffset>,
    ) -> ServerFacts {
        let info = info.as_ref().map(|text| InfoText::parse(text));
        ServerFacts {
            product: field(&info, "redis_version", Product::from_info),
            readiness: field(&info, "loading", readiness),
            mode: field(&info, "redis_mode", Mode::from_info),
            role: field(&info, "role", Role::from_info),
            run_id: field(&info, "run_id", |info| info.text("run_id")),
            uptime: field(&info, "uptime_in_seconds", |info| info.number("uptime_in_seconds").map(Duration::from_secs)),
            memory: field(&info, "maxmemory_policy", memory),
            persistence: field(&info, "aof_enabled", persistence),
            forks: field(&info, "rdb_bgsave_in_progress", forks),
            clients: field(&info, "connected_clients", |info| {
                Some(Clients { connected: info.number("connected_clients")?, max: info.number("maxclients") })
            }),
            keys: field(&info, "a section Keyspace", |info| keys(info, db)),
            settings,
            clock,
            drift: None,
            user,
        }
    }
}

fn field<T>(info: &Fact<InfoText<'_>>, name: &str, get: impl FnOnce(&InfoText<'_>) -> Option<T>) -> Fact<T> {
    info.as_ref().and_then(|info| match get(info) {
        Some(value) => Fact::Known(value),
        None => Fact::Unknown(format!("INFO does not contain {name}")),
    })
}

fn readiness(info: &InfoText<'_>) -> Option<Readiness> {
    if info.flag("loading") == Some(true) || info.flag("async_loading") == Some(true) {
        return Some(Readiness::Loading { left: info.number("loading_eta_seconds").map(Duration::from_secs) });
    }
    // A sentinel has no section Persistence and nothing to load.
    let is_known = info.flag("loading").is_some() || Mode::from_info(info) == Some(Mode::Sentinel);
    is_known.then_some(Readiness::Ready)
}

fn memory(info: &InfoText<'_>) -> Option<Memory> {
    Some(Memory {
        used: info.number("used_memory")?,
        max: info.number("maxmemory")?,
        policy: info.text("maxmemory_policy")?,
        evicted: info.number("evicted_keys"),
    })
}

fn persistence(info: &InfoText<'_>) -> Option<Persistence> {
    Some(Persistence {
        aof: info.flag("aof_enabled")?,
        aof_ok: info.word("aof_last_write_status").map(|status| status == "ok"),
        rdb_ok: info.word("rdb_last_bgsave_status").map(|status| status == "ok"),
        rdb_at_s: info.number("rdb_last_save_time"),
        unsaved_changes: info.number("rdb_changes_since_last_save"),
        loaded: info.number("rdb_last_load_keys_loaded"),
    })
}

fn forks(info: &InfoText<'_>) -> Option<Forks> {
    // -1 where there was none since the server started.
    let lasted = |name| info.number::<i64>(name).and_then(|seconds| u64::try_from(seconds).ok());
    let (saved, rewrote) = (lasted("rdb_last_bgsave_time_sec"), lasted("aof_last_rewrite_time_sec"));
    let failed = info.word("rdb_last_bgsave_status").is_some_and(|status| status != "ok");
    let for_replicas = info.number::<u64>("sync_full").is_some_and(|count| count > 0);
    // Durations are whole seconds.
    let undated = rewrote.into_iter().chain(saved.filter(|_| failed || for_replicas)).map(|seconds| seconds + 1).sum();
    Some(Forks {
        running: info.flag("rdb_bgsave_in_progress")? || info.flag("aof_rewrite_in_progress")?,
        saved_at_s: saved.and_then(|_| info.number("rdb_last_save_time")),
        undated: Duration::from_secs(undated),
    })
}

/// INFO leaves out empty databases.
fn keys(info: &InfoText<'_>, db: i64) -> Option<u64> {
    match info.part(&format!("db{db}"), "keys") {
        Some(count) => count.parse().ok(),
        None => info.has_section("Keyspace").then_some(0),
    }
}

#[cfg(test)]
mod tests;
