//! How each lock library stores its locks.
//!
//! One family per file, one trait. A [`Dialect`] recognises a key from its name, type and value, decodes the holders,
//! and says what waits for the lock, what renews it, and what a release must do. Nothing here speaks to Redis. The
//! [`Recogniser`] asks all of them and keeps the best reading and the second.

mod bullmq;
mod celery_once;
mod celery_singleton;
pub mod counter;
mod habits;
mod hangfire;
mod huey;
mod laravel;
mod leases;
mod left_out;
mod marker;
mod medallion;
mod node_redlock;
pub mod own;
mod plain;
mod pottery;
mod python_redis_lock;
mod recogniser;
mod redbeat;
mod redis_py;
mod redis_semaphore;
mod redis_semaphore_npm;
mod redislock;
mod redisson;
mod redlock_net;
mod redlock_py;
mod redlock_rb;
mod redsync;
mod reentrant;
mod release;
mod resque_scheduler;
mod rslock;
pub mod scripts;
pub mod shape;
mod shedlock;
mod sidekiq;
mod sight;
mod spring;
mod stackexchange;
pub mod statement;
mod step;
mod strength;
mod symfony;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod trial;
pub mod unique;

pub use habits::{IfFreed, Renewal, Waiting};
pub use left_out::LeftOut;
pub use recogniser::{Best, Mapping, Recogniser, by_name, default_patterns, dialect, known_name};
pub use release::{Obstacle, Premise, Release};
pub use step::{Step, word};
pub use strength::Strength;

use std::time::Duration;

use crate::base::time::{Time, Ttl};
use crate::lock::{Holder, Kind, Mode, RawValue, Token};

/// Index of a dialect in [`all`]. Small, since each lock carries one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DialectId(pub u8);

/// What is known about a key.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    pub key: &'a [u8],
    pub value: &'a RawValue,
    pub ttl: Ttl,
    /// Now, for values that carry a time.
    pub now: Time,
    /// The user named the pattern under which the key was found: a string there is a lock.
    pub given: bool,
    /// The user said that this keyspace is of this dialect: accept everything that could be one of its locks.
    pub dialect_given: bool,
}

/// A dialect's reading of a key.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    pub kind: Kind,
    pub mode: Mode,
    pub strength: Strength,
    pub holders: Vec<Holder>,
}

impl Claim {
    /// A reading with this confidence or more is not shown as a guess.
    pub const SURE: f32 = 0.8;

    pub fn lock(strength: Strength, mode: Mode, holders: Vec<Holder>) -> Claim {
        Claim { kind: Kind::Lock, mode, strength, holders }
    }

    /// One exclusive holder, known by `token`.
    pub fn exclusive(strength: Strength, token: &[u8]) -> Claim {
        Claim::lock(strength, Mode::Exclusive, vec![Holder::new(token)])
    }
}

/// One library's way to store locks.
pub trait Dialect: Send + Sync {
    /// The name in `--dialect`, in the tables and in JSON.
    fn name(&self) -> &'static str;

    /// What else its versions are known to do, for the page on libraries.
    fn facts(&self) -> &'static [&'static str] {
        &[]
    }

    /// Where its locks live by default, as Redis globs. Empty for libraries that use the caller's name as it is.
    fn patterns(&self) -> &'static [&'static str] {
        &[]
    }

    /// Keys that belong to a lock of this library but are not the lock: queues, channels' companions, latches. They are
    /// hidden, and never read.
    fn is_helper(&self, _key: &[u8]) -> bool {
        false
    }

    /// Whether a key of this name is a set where it is a lock.
    fn keeps_sets(&self, _key: &[u8]) -> bool {
        false
    }

    /// Reads the key as a lock of this library, if it can be one.
    fn read(&self, sight: &Sight<'_>) -> Option<Claim>;

    /// Whether a holder uses one token for all its holds, such as a process's or a thread's.
    fn tokens_come_again(&self) -> bool {
        false
    }

    /// The lock and the holder whose own lease this key is, where each holder has one in a key beside the lock.
    fn lease_of(&self, _key: &[u8]) -> Option<(Vec<u8>, Token)> {
        None
    }

    /// Whether short processes take its locks and often leave them to run out: then the end of one says little. So it is
    /// where each request is a process.
    fn is_left_by_processes(&self) -> bool {
        false
    }

    /// The part of a token that is made for each hold; what an application appended to it does not distinguish holds.
    fn made_for_each_hold<'a>(&self, token: &'a [u8]) -> &'a [u8] {
        token
    }

    /// Whether somebody can hold a lock by this token; others only mark that somebody waits.
    fn holds_by(&self, _token: &[u8]) -> bool {
        true
    }

    /// The holder behind a token, where one holder has several: as a reader, as a writer.
    fn holder_of<'a>(&self, token: &'a [u8]) -> &'a [u8] {
        token
    }

    /// The item that a hold is of, where one key has many, each held on its own.
    fn item_of<'a>(&self, _token: &'a [u8]) -> Option<&'a [u8]> {
        None
    }

    /// What keeps the lock alive.
    fn renewal(&self) -> Renewal {
        Renewal::Manual
    }

    /// The lease that it takes where its caller gives none, if only that one is renewed.
    fn usual_lease(&self) -> Option<Duration> {
        None
    }

    /// Whether a healthy watchdog may leave out one of its beats: its share of the lease is then the latest, not the usual
    /// time of a renewal.
    fn may_skip_a_beat(&self) -> bool {
        false
    }

    /// Whether the value says when the lease was given, and not only when its holder began to wait.
    fn tells_when_taken(&self) -> bool {
        false
    }

    /// Whether the key stays on purpose when the work is done, or is taken by somebody else than the one who works, so
    /// that a holder who is gone means nothing.
    fn stays(&self, _key: &[u8]) -> bool {
        false
    }

    /// Whether waiters can be counted on the server, by the lock's own channel or queue, or as blocked clients.
    fn shows_waiters(&self) -> bool {
        false
    }

    /// Whether the library writes each attempt into a changelog.
    fn publishes_attempts(&self) -> bool {
        false
    }

    /// Who waits for it, and where that can be seen.
    fn waiting(&self, sight: &Sight<'_>) -> Waiting;

    /// What becomes of a holder that lives when its lock is freed under it.
    fn if_freed(&self) -> IfFreed {
        IfFreed::Unknown
    }

    /// What freeing it takes beyond deleting the key, and what may go wrong. All holders in sight lose it.
    fn release(&self, sight: &Sight<'_>) -> Release {
        Release::delete(sight.key)
    }

    /// The same for one holder's share, if the library can release holders one by one.
    fn release_holder(&self, sight: &Sight<'_>, _token: &[u8]) -> Release {
        self.release(sight)
    }

    /// The names of the other keys that belong to this lock, even if they do not exist: queues, counters, the leases of
    /// single readers. Always few, for any value.
    fn companions(&self, _sight: &Sight<'_>) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Keys beside its own that carry the lease of this holder: they are extended with it.
    fn leases(&self, _sight: &Sight<'_>, _token: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// For hashes that hold other things beside locks and may be huge: a glob of the fields that matter.
    fn field_hint(&self, _key: &[u8]) -> Option<&'static str> {
        None
    }

    /// The key of the fencing counter, if the library has one.
    fn fencing_key(&self, _key: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// Whether a lock is free once its key has run out: nothing else counts the hold, and the key holds nothing else.
pub fn is_freed_by_time(dialect: &dyn Dialect, sight: &Sight<'_>) -> bool {
    dialect.renewal() != Renewal::NoLease || dialect.release(sight).steps == [Step::Delete(sight.key.to_vec())]
}

/// All dialects in their order of precedence: of two equally strong readings the earlier one wins.
///
/// First those with their own prefix or structure, then those known by the form of their values, then hand-written
/// locks. Last come libraries that look just like hand-written locks: they are only a second choice, unless their
/// evidence is stronger.
pub fn all() -> &'static [&'static dyn Dialect] {
    &[
        &redisson::Redisson,
        &redisson::Permits,
        &redisson::Semaphore,
        &sidekiq::UniqueJobs,
        &redis_semaphore::RedisSemaphore,
        &huey::Huey,
        &symfony::Symfony,
        &bullmq::BullMq,
        &celery_once::CeleryOnce,
        &celery_singleton::CelerySingleton,
        &hangfire::Hangfire,
        &redbeat::RedBeat,
        &resque_scheduler::ResqueScheduler,
        &shedlock::ShedLock,
        &medallion::Medallion,
        &laravel::Laravel,
        &python_redis_lock::PythonRedisLock,
        &redis_semaphore_npm::RedisSemaphoreNpm,
        &redlock_net::RedLockNet,
        &pottery::Pottery,
        &redis_py::RedisPy,
        &rslock::RsLock,
        &redsync::Redsync,
        &redislock::RedisLock,
        &redlock_py::RedlockPy,
        &node_redlock::NodeRedlock,
        &spring::Spring,
        &marker::Marker,
        &reentrant::Reentrant,
        &leases::Leases,
        &plain::Plain,
        &redlock_rb::RedlockRb,
        &stackexchange::StackExchange,
    ]
}
