//! Sample locks: for each library and each of its kinds of locks, what it leaves on the server.
//!
//! They are made with the commands that the library itself sends, so that libraries of every language can be tested
//! without installing them. [`ALL`] lists them; no two share a key, so all can exist on one server.
//! `tests/libraries.rs` compares those whose library is installed with the real one.

pub mod others;
pub mod redisson;
pub mod strings;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use redis::Connection;

pub use others::HUEY_ONE;

/// A lock that was created, and what to expect of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    pub dialect: &'static str,
    pub key: Vec<u8>,
    pub mode: &'static str,
    pub holders: Vec<ExpectedHolder>,
    /// Keys that the library keeps beside the lock, and that are not locks.
    pub helpers: Vec<Vec<u8>>,
    /// Nothing on the server distinguishes it from locks of another library: the user has to name the library.
    pub told: bool,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ExpectedHolder {
    pub token: Vec<u8>,
    pub host: Option<String>,
    pub pid: Option<u64>,
    pub thread: Option<String>,
    pub count: Option<i64>,
}

impl Sample {
    /// A lock without holders yet.
    fn new(dialect: &'static str, mode: &'static str, key: impl AsRef<[u8]>) -> Sample {
        let key = key.as_ref().to_vec();
        Sample { dialect, key, mode, holders: Vec::new(), helpers: Vec::new(), told: false }
    }

    /// A lock with one holder, of which only the token is known.
    fn exclusive(dialect: &'static str, key: impl AsRef<[u8]>, token: impl AsRef<[u8]>) -> Sample {
        Sample::new(dialect, "exclusive", key).held_by(ExpectedHolder::new(token))
    }

    fn held_by(mut self, holder: ExpectedHolder) -> Sample {
        self.holders.push(holder);
        self
    }

    fn beside(mut self, helper: impl AsRef<[u8]>) -> Sample {
        self.helpers.push(helper.as_ref().to_vec());
        self
    }

    fn told(self) -> Sample {
        Sample { told: true, ..self }
    }
}

impl fmt::Debug for ExpectedHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExpectedHolder { token, host, pid, thread, count } = self;
        write!(f, "{} (host {host:?}, pid {pid:?}, thread {thread:?}, count {count:?})", token.escape_ascii())
    }
}

impl ExpectedHolder {
    fn new(token: impl AsRef<[u8]>) -> ExpectedHolder {
        ExpectedHolder { token: token.as_ref().to_vec(), ..ExpectedHolder::default() }
    }
}

/// Creates a lock and describes it.
pub type Create = fn(&mut Connection) -> Sample;

/// Samples that a TTL would destroy: their holders have their own leases, or share a key with others.
pub const NOT_EXTENDED: &[&str] = &[
    "redisson group lock",
    "redisson semaphore",
    "redisson permits",
    "medallion semaphore",
    "a set of leases",
    "redis-semaphore of npm, semaphore",
    "symfony",
    "symfony readers",
    "sidekiq-unique-jobs",
    "sidekiq-unique-jobs while executing",
    "sidekiq-unique-jobs 9",
    "huey",
    "redis-semaphore of ruby",
];

/// All samples, by name.
pub const ALL: &[(&str, Create)] = &[
    ("redisson lock", redisson::lock),
    ("redisson fair lock", redisson::fair),
    ("redisson read lock", redisson::read),
    ("redisson write lock", redisson::write),
    ("redisson spin lock", redisson::spin),
    ("redisson fenced lock", redisson::fenced),
    ("redisson lock of a map's entry", redisson::map_entry),
    ("redisson group lock", redisson::group),
    ("redisson semaphore", redisson::semaphore),
    ("redisson permits", redisson::permits),
    ("redis-py", strings::redis_py),
    ("redis-py without a TTL", strings::redis_py_forever),
    ("django-redis", strings::django_redis),
    ("celery-once", strings::celery_once),
    ("redbeat", strings::redbeat),
    ("python-redis-lock", strings::python_redis_lock),
    ("python-redis-lock without a TTL", strings::python_redis_lock_forever),
    ("node-redlock", strings::redlock),
    ("redsync", strings::redsync),
    ("bsm/redislock", strings::redislock),
    ("bsm/redislock with metadata", strings::redislock_with_metadata),
    ("rslock", strings::rslock),
    ("pottery", strings::pottery),
    ("RedLock.net", strings::redlock_net),
    ("redlock-py", strings::redlock_py),
    ("redlock-rb", strings::redlock_rb),
    ("activejob-uniqueness", strings::activejob_uniqueness),
    ("spring", strings::spring),
    ("shedlock", strings::shedlock),
    ("shedlock before 6.7", strings::shedlock_old),
    ("laravel lock", strings::laravel),
    ("laravel schedule", strings::laravel_schedule),
    ("laravel on one server", strings::laravel_on_one_server),
    ("laravel unique job", strings::laravel_unique_job),
    ("laravel overlap", strings::laravel_overlap),
    ("medallion", strings::medallion),
    ("medallion readers", others::medallion_readers),
    ("medallion writer", others::medallion_writer),
    ("medallion waiting writer", others::medallion_waiting_writer),
    ("medallion semaphore", others::medallion_semaphore),
    ("a set of leases", others::leases),
    ("stackexchange", strings::stackexchange),
    ("hangfire", strings::hangfire),
    ("hangfire state", strings::hangfire_state),
    ("celery-singleton", strings::celery_singleton),
    ("resque-scheduler", strings::resque_scheduler),
    ("bullmq", strings::bullmq),
    ("redis-semaphore of npm, mutex", strings::npm_mutex),
    ("redis-semaphore of npm, semaphore", others::npm_semaphore),
    ("marker", strings::marker),
    ("plain", strings::plain),
    ("plain without a TTL", strings::plain_forever),
    ("plain with a binary key", strings::plain_binary),
    ("reentrant", others::reentrant),
    ("symfony", others::symfony),
    ("symfony readers", others::symfony_readers),
    ("sidekiq-unique-jobs", others::sidekiq),
    ("sidekiq-unique-jobs while executing", others::sidekiq_run),
    ("sidekiq-unique-jobs 9", others::sidekiq_9),
    ("huey", others::huey),
    ("huey with expiring results", others::huey_expire),
    ("redis-semaphore of ruby", others::ruby_semaphore),
];

/// Runs one command on a connection: `run!(connection, "SET", key, token, "NX", "PX", 30_000)`.
macro_rules! run {
    ($connection:expr, $($argument:expr),+ $(,)?) => {
        redis::Cmd::new()$(.arg($argument))+.exec($connection).expect("a sample's command works")
    };
}
use run;

/// Pseudo-random bytes, always the same for the same name: samples differ and can be repeated.
fn random(name: &str, len: usize) -> Vec<u8> {
    let block = |number: usize| {
        let mut hasher = DefaultHasher::new();
        (name, number).hash(&mut hasher);
        hasher.finish().to_be_bytes()
    };
    (0..).flat_map(block).take(len).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn base64_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn alphanumeric(name: &str, len: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    random(name, len).iter().map(|byte| LETTERS[*byte as usize % LETTERS.len()] as char).collect()
}

fn uuid4(name: &str) -> String {
    let mut bytes = random(name, 16);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    dashed(&hex(&bytes))
}

/// A UUIDv1 of the current time, as Python's `uuid1().hex` writes it. It ends with the machine's network address.
fn uuid1_hex(name: &str) -> String {
    // In steps of 100 ns since 1582-10-15.
    let ticks = now_ms() as u64 * 10_000 + 0x01b2_1dd2_1381_4000;
    let clock = &hex(&random(name, 2))[1..];
    format!("{:08x}{:04x}1{:03x}8{clock}0242ac110005", ticks & 0xffff_ffff, ticks >> 32 & 0xffff, ticks >> 48)
}

/// How that address is shown.
const MACHINE: &str = "mac 02:42:ac:11:00:05";

fn dashed(hex: &str) -> String {
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_millis() as i64
}

/// As Ruby's `Time.now.to_f` is stored.
fn epoch_seconds() -> String {
    format!("{:.6}", now_ms() as f64 / 1000.0)
}
