//! All that is tried: each dialect, and each kind of lock that it has.

use super::hashes::{Group, Huey, Reentrant};
use super::pools::{Counter, RubySemaphore, Sidekiq};
use super::read_write::{MedallionReadWrite, RedissonReadWrite};
use super::redisson::{Kind, Redisson};
use super::run::SHORT_MS;
use super::scored::{Permits, Score, Slots, Symfony};
use super::strings::{Free, Renew, Strings, Take};
use super::waiters::Sleepers;
use super::{Library, Proof, tokens};
use crate::common::Server;

/// One kind of lock of one library.
pub struct Subject {
    pub name: &'static str,
    pub dialect: &'static str,
    /// The user says what library it is of.
    pub told: bool,
    pub proof: Proof,
    /// What the library is asked for; `None` is a lock without an end.
    pub leases: &'static [Option<u64>],
    /// Nobody holds it: it says that something was done.
    pub is_a_marker: bool,
    /// Its tokens differ, but do not look as if they had to.
    pub looks_common: bool,
    /// Of a hold's end, what no server knows: no lease of such a lock is waited for.
    pub not_stored: Option<&'static str>,
    make: Make,
}

#[derive(Clone, Copy)]
enum Make {
    String(fn() -> Strings),
    Other(fn() -> Box<dyn Library>),
    /// With clients of its own on the server.
    Waiting(fn(&Server) -> Box<dyn Library>),
    Real(fn(&Server) -> Option<Box<dyn Library>>),
}

impl Subject {
    /// One time in ten one so short that its end can be waited for.
    pub fn lease(&self, number: u8) -> Option<u64> {
        let lease = self.leases[number as usize % self.leases.len()];
        let can_end = !self.is_real() && self.not_stored.is_none() && lease.is_some();
        if number >= 230 && can_end { Some(SHORT_MS) } else { lease }
    }

    /// A real library makes the locks.
    pub fn is_real(&self) -> bool {
        matches!(self.make, Make::Real(_))
    }

    pub fn library(&self, server: &Server) -> Box<dyn Library> {
        match self.make {
            Make::String(make) => Box::new(make()),
            Make::Other(make) => make(),
            Make::Waiting(make) => make(server),
            Make::Real(make) => make(server).expect("the library is installed"),
        }
    }

    /// It is taken by one command and gets its TTL by another.
    pub fn takes_in_two_steps(&self) -> bool {
        matches!(self.make, Make::String(make) if make().take == Take::SetThenExpire)
    }

    /// Whether the real library is at hand, where it takes one.
    pub fn is_installed(&self, server: &Server) -> bool {
        match self.make {
            Make::Real(make) => make(server).is_some(),
            _ => true,
        }
    }

    const fn string(name: &'static str, dialect: &'static str, make: fn() -> Strings) -> Subject {
        let leases = &[Some(28_000), Some(30_000), Some(9_000)];
        let make = Make::String(make);
        Subject {
            name,
            dialect,
            told: false,
            proof: Proof::EachHold,
            leases,
            is_a_marker: false,
            looks_common: false,
            not_stored: None,
            make,
        }
    }

    const fn other(name: &'static str, dialect: &'static str, make: fn() -> Box<dyn Library>) -> Subject {
        let leases = &[Some(28_000), Some(30_000), Some(9_000)];
        let make = Make::Other(make);
        Subject {
            name,
            dialect,
            told: false,
            proof: Proof::EachHold,
            leases,
            is_a_marker: false,
            looks_common: false,
            not_stored: None,
            make,
        }
    }

    const fn waiting(name: &'static str, dialect: &'static str, make: fn(&Server) -> Box<dyn Library>) -> Subject {
        let leases = &[Some(28_000), None, Some(9_000)];
        let make = Make::Waiting(make);
        Subject {
            name,
            dialect,
            told: false,
            proof: Proof::EachHold,
            leases,
            is_a_marker: false,
            looks_common: true,
            not_stored: None,
            make,
        }
    }

    pub const fn real(
        name: &'static str,
        dialect: &'static str,
        make: fn(&Server) -> Option<Box<dyn Library>>,
    ) -> Subject {
        let leases = &[Some(28_000), Some(30_000), Some(9_000)];
        let make = Make::Real(make);
        Subject {
            name,
            dialect,
            told: false,
            proof: Proof::EachHold,
            leases,
            is_a_marker: false,
            looks_common: false,
            not_stored: None,
            make,
        }
    }

    const fn told(self) -> Subject {
        Subject { told: true, ..self }
    }

    pub const fn proves(self, proof: Proof) -> Subject {
        Subject { proof, ..self }
    }

    pub const fn lasting(self, leases: &'static [Option<u64>]) -> Subject {
        Subject { leases, ..self }
    }

    pub const fn common(self) -> Subject {
        Subject { looks_common: true, ..self }
    }

    const fn without(self, what: &'static str) -> Subject {
        Subject { not_stored: Some(what), ..self }
    }

    const fn marker(self) -> Subject {
        Subject { is_a_marker: true, ..self }
    }
}

const CLIENTS_TIMEOUT: &str = "the timeout, which only the clients know";

const FOREVER: &[Option<u64>] = &[None];
const SOMETIMES: &[Option<u64>] = &[Some(30_000), None, Some(28_000)];
const TEN_SECONDS: &[Option<u64>] = &[Some(8_000), Some(10_000), Some(6_000)];
const HOURS: &[Option<u64>] = &[Some(3_500_000), Some(3_600_000), Some(1_800_000)];

/// `SET NX PX`, renewed by `PEXPIRE` and freed if the value is the own: what most do.
fn plain(key: &'static str, token: fn(u64, u64, u8) -> Vec<u8>) -> Strings {
    Strings { key: key.as_bytes(), take: Take::Set, renew: Renew::Expire, free: Free::IfMine, token, beside: &[] }
}

fn uuid4(_: u64, serial: u64, _: u8) -> Vec<u8> {
    tokens::uuid4(serial).into_bytes()
}

fn uuid1(_: u64, serial: u64, _: u8) -> Vec<u8> {
    tokens::uuid1_hex(serial).into_bytes()
}

fn process_uuid4(process: u64, _: u64, _: u8) -> Vec<u8> {
    tokens::uuid4(process).into_bytes()
}

/// Made with the object that takes the lock, which a process has one of.
fn owner16(process: u64, _: u64, _: u8) -> Vec<u8> {
    tokens::alphanumeric(process, 16).into_bytes()
}

/// A word that everybody uses.
fn constant(_: u64, _: u64, salt: u8) -> Vec<u8> {
    ["1", "locked", "true", "worker-3"][salt as usize % 4].into()
}

/// Longer than is fetched, and the same up to there.
fn long(_: u64, serial: u64, _: u8) -> Vec<u8> {
    format!("{}{:08}", "payload ".repeat(90), serial).into_bytes()
}

fn machine(process: u64, _: u64, _: u8) -> Vec<u8> {
    format!("WEB-EU-{}", process % 2).into_bytes()
}

fn shedlock(_: u64, serial: u64, _: u8) -> Vec<u8> {
    let at = chrono::DateTime::from_timestamp_millis((tokens::EPOCH_MS + serial) as i64).expect("a moment");
    let at = at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    format!("ADDED:{at}@worker-3:{}", tokens::uuid4(serial)).into_bytes()
}

pub static ALL: &[Subject] = &[
    Subject::other("redisson lock", "redisson", || Box::new(Redisson { key: "orders-lock:17", kind: Kind::Lock }))
        .proves(Proof::EachProcess),
    Subject::other("redisson fair lock", "redisson", || Box::new(Redisson { key: "print-lock", kind: Kind::Fair }))
        .proves(Proof::EachProcess),
    Subject::other("redisson fenced lock", "redisson", || {
        Box::new(Redisson { key: "ledger-lock", kind: Kind::Fenced })
    })
    .proves(Proof::EachProcess),
    Subject::other("redisson lock of a map's entry", "redisson", || {
        Box::new(Redisson { key: "{sessions}:8kf0rw9yqWFuYFMmPkCXOg==:lock", kind: Kind::Lock })
    })
    .proves(Proof::EachProcess),
    Subject::other("redisson read-write lock", "redisson", || Box::new(RedissonReadWrite { key: "catalogue-lock" }))
        .proves(Proof::EachProcess),
    Subject::other("redisson group lock", "redisson", || Box::new(Group { key: "seats-lock-group" }))
        .proves(Proof::EachProcess),
    Subject::other("redisson permits", "redisson-permits", || {
        Box::new(Permits { name: "downloads", permits: 2, counter: Default::default() })
    })
    .lasting(&[Some(30_000), None, Some(9_000)]),
    Subject::other("redisson semaphore", "redisson-semaphore", || {
        Box::new(Counter { key: "uploads-semaphore", permits: 3 })
    })
    .told()
    .lasting(FOREVER),
    Subject::other("redisson semaphore, nobody says so", "redisson-semaphore", || {
        Box::new(Counter { key: "uploads-lock", permits: 3 })
    })
    .lasting(FOREVER),
    Subject::other("sidekiq-unique-jobs", "sidekiq-unique-jobs", || {
        Box::new(Sidekiq { digest: "uniquejobs:0123456789abcdef0123456789abcdef", limit: 1, alone: false })
    })
    .lasting(FOREVER),
    Subject::other("sidekiq-unique-jobs, two at once", "sidekiq-unique-jobs", || {
        Box::new(Sidekiq { digest: "uniquejobs:0123456789abcdef0123456789abcdef:RUN", limit: 2, alone: false })
    })
    .lasting(FOREVER),
    Subject::other("sidekiq-unique-jobs 9", "sidekiq-unique-jobs", || {
        Box::new(Sidekiq { digest: "uniquejobs:fedcba9876543210fedcba9876543210", limit: 1, alone: true })
    })
    .lasting(FOREVER),
    Subject::other("redis-semaphore of ruby", "redis-semaphore", || {
        Box::new(RubySemaphore { name: "gateway", places: 2, last: -1, between: Vec::new() })
    })
    .lasting(FOREVER),
    Subject::other("huey", "huey", || Box::new(Huey)).proves(Proof::Nothing).lasting(FOREVER),
    Subject::string("huey with expiring results", "huey", || Strings {
        token: |_, _, _| b"\x80\x05\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x011\x94.".to_vec(),
        renew: Renew::Never,
        free: Free::Blindly,
        beside: &[&["SETEX", "huey.r.mail.8c2f0e5e-0000-4000-8000-000000000001", "3600", "1"]],
        ..plain("huey.r.mail.mail.lock.digest", uuid4)
    })
    .proves(Proof::Nothing)
    .lasting(FOREVER),
    Subject::other("symfony", "symfony", || Box::new(Symfony { key: "pdf-invoice-lock" })).common().lasting(&[
        Some(300_000),
        Some(280_000),
        Some(30_000),
    ]),
    Subject::string("bullmq", "bullmq", || Strings {
        take: Take::LookAndSet,
        renew: Renew::SetAgain,
        beside: &[&["HSET", "bull:mail:1", "name", "work"], &["LPUSH", "bull:mail:active", "1"]],
        ..plain("bull:mail:1:lock", |process, serial, _| format!("{}:{serial}", tokens::uuid4(process)).into_bytes())
    }),
    Subject::string("celery-once", "celery-once", || Strings {
        renew: Renew::Never,
        free: Free::Blindly,
        ..plain("qo_shop.bill_customer-7", uuid1)
    })
    .lasting(HOURS),
    Subject::string("celery-singleton", "celery-singleton", || Strings {
        renew: Renew::Never,
        free: Free::Blindly,
        ..plain("SINGLETONLOCK_0123456789abcdef0123456789abcdef", uuid4)
    })
    .lasting(FOREVER),
    Subject::string("hangfire", "hangfire", || Strings {
        beside: &[&["ZADD", "{hangfire}:recurring-jobs", "1", "nightly"]],
        ..plain("{hangfire}:lock:recurring-job:nightly", process_uuid4)
    })
    .proves(Proof::EachProcess),
    Subject::string("redbeat", "redbeat", || Strings {
        beside: &[&["ZADD", "redbeat::schedule", "1", "redbeat:nightly"]],
        ..plain("redbeat::lock", uuid1)
    })
    .lasting(&[Some(1_500_000), Some(1_400_000), Some(600_000)]),
    Subject::string("resque-scheduler", "resque-scheduler", || Strings {
        take: Take::SetThenExpire,
        ..plain("resque:resque_scheduler_master_lock", |process, _, _| {
            format!("jobs-{}:{}", process % 3, 7_700 + process).into_bytes()
        })
    })
    .proves(Proof::EachProcess)
    .lasting(&[Some(180_000), Some(170_000), Some(60_000)]),
    Subject::string("shedlock", "shedlock", || Strings {
        renew: Renew::SetBlindly,
        free: Free::Blindly,
        ..plain("job-lock:default:nightlyReport", shedlock)
    })
    .lasting(&[Some(600_000), Some(580_000), Some(60_000)]),
    Subject::string("medallion", "medallion", || {
        plain("accounting-lock", |process, serial, _| tokens::medallion(process, serial).into_bytes())
    }),
    Subject::other("medallion read-write lock", "medallion", || Box::new(MedallionReadWrite { name: "tariffs" })),
    Subject::other("medallion semaphore", "medallion", || {
        let token = |process, serial, _| tokens::medallion(process, serial).into_bytes();
        Box::new(Slots { key: "exports-lock-slots", limit: 2, score: Score::End, token })
    }),
    Subject::other("a set of leases", "leases", || {
        Box::new(Slots { key: "t:qslock:mails", limit: 2, score: Score::End, token: uuid4 })
    }),
    Subject::string("laravel lock", "laravel", || plain("shop-database-shop-cache-checkout-lock:7", owner16))
        .proves(Proof::EachProcess)
        .lasting(&[Some(120_000), Some(110_000), Some(20_000)]),
    Subject::string("laravel schedule", "laravel", || Strings {
        renew: Renew::Never,
        free: Free::Blindly,
        ..plain("shop_database_shop_cache_framework/schedule-0123456789abcdef0123456789abcdef01234567", owner16)
    })
    .proves(Proof::EachProcess)
    .lasting(HOURS),
    Subject::string("laravel unique job", "laravel", || Strings {
        renew: Renew::Never,
        ..plain(r"shop-database-shop-cache-laravel_unique_job:App\Jobs\Import:12", owner16)
    })
    .proves(Proof::EachProcess)
    .lasting(FOREVER),
    Subject::string("python-redis-lock", "python-redis-lock", || Strings {
        free: Free::Signal("lock-signal:report"),
        ..plain("lock:report", |process, _, _| tokens::base64(process, 18).into_bytes())
    })
    .proves(Proof::EachProcess)
    .lasting(SOMETIMES),
    Subject::waiting("python-redis-lock, ids of its own", "plain", |server| Box::new(Sleepers::on(server))),
    Subject::string("redis-semaphore of npm, mutex", "redis-semaphore-npm", || {
        plain("mutex:lockingResource", process_uuid4)
    })
    .proves(Proof::EachProcess)
    .lasting(TEN_SECONDS),
    Subject::other("redis-semaphore of npm, semaphore", "redis-semaphore-npm", || {
        Box::new(Slots { key: "semaphore:lockingResource", limit: 2, score: Score::Taken(10_000), token: uuid4 })
    })
    .common()
    .without(CLIENTS_TIMEOUT)
    .lasting(TEN_SECONDS),
    Subject::other("redis-semaphore of npm, a name for each machine", "redis-semaphore-npm", || {
        Box::new(Slots { key: "semaphore:lockingResource", limit: 2, score: Score::Taken(10_000), token: machine })
    })
    .told()
    .proves(Proof::Nothing)
    .without(CLIENTS_TIMEOUT)
    .lasting(TEN_SECONDS),
    Subject::string("RedLock.net", "redlock-net", || Strings {
        renew: Renew::OrCreate,
        ..plain("redlock:the-thing", uuid4)
    })
    .told(),
    Subject::string("pottery", "pottery", || plain("redlock:printer", uuid4)).lasting(TEN_SECONDS),
    Subject::string("redis-py", "redis-py", || plain("invoice-lock:4711", uuid1)).lasting(SOMETIMES),
    Subject::string("django-redis", "redis-py", || plain(":1:newsletter-lock", uuid1)),
    Subject::string("rslock", "rslock", || Strings {
        renew: Renew::SetAgain,
        ..plain("mutex-of-the-mill", |_, serial, _| [&[0xff][..], &tokens::random(serial, 19)].concat())
    }),
    Subject::string("redsync", "redsync", || {
        plain("stock-lock", |_, serial, _| tokens::base64(serial, 16).into_bytes())
    })
    .lasting(&[Some(8_000), Some(6_000)]),
    Subject::string("bsm/redislock", "redislock", || Strings {
        take: Take::SetThenExpire,
        ..plain("shipping-lock", |_, serial, _| redislock(serial).into_bytes())
    })
    .lasting(&[Some(60_000), Some(50_000)]),
    Subject::string("bsm/redislock with metadata", "redislock", || Strings {
        take: Take::SetThenExpire,
        ..plain("packing-lock", |_, serial, _| format!("{}packer@depot-2", redislock(serial)).into_bytes())
    })
    .lasting(&[Some(60_000), Some(50_000)]),
    Subject::string("redlock-py", "redlock-py", || Strings {
        renew: Renew::Never,
        ..plain("thumbnails-lock", |_, serial, _| tokens::alphanumeric(serial, 22).into_bytes())
    }),
    Subject::string("node-redlock", "redlock", || Strings {
        take: Take::LookAndSet,
        renew: Renew::SetAgain,
        ..plain("locks:account:322456", |_, serial, _| node_redlock(serial).into_bytes())
    })
    .lasting(&[Some(28_000), Some(30_000), Some(3_000)]),
    Subject::string("spring", "spring", || Strings {
        take: Take::OrRenew,
        free: Free::Publish("order-service-channel:order-service:payment-lock-9"),
        ..plain("order-service:payment-lock-9", process_uuid4)
    })
    .told()
    .proves(Proof::EachProcess)
    .lasting(&[Some(60_000), Some(55_000)]),
    Subject::string("redlock-rb", "redlock-rb", || Strings {
        take: Take::LookAndSet,
        renew: Renew::OrCreate,
        ..plain("resource_lock_key", uuid4)
    })
    .told(),
    Subject::string("activejob-uniqueness", "redlock-rb", || Strings {
        renew: Renew::Never,
        ..plain("activejob_uniqueness:import_job:0123456789abcdef0123456789abcdef", uuid4)
    })
    .lasting(&[Some(86_400_000), Some(86_300_000)]),
    Subject::string("marker", "marker", || Strings {
        renew: Renew::Never,
        free: Free::Never,
        token: |_, _, _| b"1".to_vec(),
        ..plain("completed:order-4711", uuid4)
    })
    .proves(Proof::Nothing)
    .marker()
    .lasting(HOURS),
    Subject::string("laravel on one server", "laravel", || Strings {
        renew: Renew::Never,
        free: Free::Never,
        ..plain("shop_database_shop_cache_framework/schedule-0123456789abcdef0123456789abcdef012345670315", owner16)
    })
    .marker()
    .lasting(HOURS),
    Subject::string("stackexchange", "stackexchange", || plain("pricing-lock", machine)).told().proves(Proof::Nothing),
    Subject::other("reentrant", "reentrant", || Box::new(Reentrant { key: "lock:import" })).proves(Proof::EachProcess),
    Subject::string("plain", "plain", || {
        plain("invoice-lock:17", |_, serial, _| format!("worker {serial} of depot").into_bytes())
    })
    .common()
    .lasting(&[Some(28_000), Some(30_000), Some(3_000)]),
    Subject::string("plain, a constant token", "plain", || plain("import.lock", constant))
        .proves(Proof::Nothing)
        .lasting(&[Some(60_000), Some(30_000), None, Some(3_000)]),
    Subject::string("plain, a long token", "plain", || plain("payload-lock", long)).common(),
    Subject::string("plain, a binary key", "plain", || Strings {
        key: b"lock\xff\x00\x1b[31m-17",
        ..plain("", |_, serial, _| format!("worker {serial}").into_bytes())
    })
    .common(),
];

/// 22 letters of the URL alphabet, with one among them that plain letters do not have.
fn redislock(serial: u64) -> String {
    let mut tries = (0..).map(|number| tokens::base64_url(serial + number * 1_000_003, 16));
    tries.find(|text| text.contains(['-', '_'])).expect("there is always one more")
}

/// 32 hex digits that are no UUID of the first version.
fn node_redlock(serial: u64) -> String {
    let text = tokens::hex(serial, 16);
    format!("{}f{}", &text[..12], &text[13..])
}
