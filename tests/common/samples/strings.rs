//! The libraries whose lock is a string that contains the holder's token.

use chrono::{DateTime, SecondsFormat, Utc};
use redis::Connection;

use super::{
    ExpectedHolder, MACHINE, Sample, alphanumeric, base64, base64_url, hex, now_ms, random, run, uuid1_hex, uuid4,
};

/// `SET key token NX PX ttl`, which most of them send.
fn set(connection: &mut Connection, dialect: &'static str, key: &str, token: impl AsRef<[u8]>, ttl_ms: u64) -> Sample {
    run!(connection, "SET", key, token.as_ref(), "NX", "PX", ttl_ms);
    Sample::exclusive(dialect, key, token)
}

/// `SETNX key token` or `SET key token NX`, for locks that never expire.
fn set_forever(connection: &mut Connection, dialect: &'static str, key: &str, token: impl AsRef<[u8]>) -> Sample {
    run!(connection, "SET", key, token.as_ref(), "NX");
    Sample::exclusive(dialect, key, token)
}

/// The holder of a lock of redis-py, or of a library built on it: its token contains the machine.
fn on_machine(mut sample: Sample) -> Sample {
    sample.holders[0].host = Some(MACHINE.into());
    sample
}

pub fn redis_py(connection: &mut Connection) -> Sample {
    on_machine(set(connection, "redis-py", "invoice-lock:4711", uuid1_hex("redis-py"), 30_000))
}

pub fn redis_py_forever(connection: &mut Connection) -> Sample {
    on_machine(set_forever(connection, "redis-py", "reindex-lock", uuid1_hex("redis-py forever")))
}

pub fn django_redis(connection: &mut Connection) -> Sample {
    on_machine(set(connection, "redis-py", ":1:newsletter-lock", uuid1_hex("django"), 60_000))
}

pub fn celery_once(connection: &mut Connection) -> Sample {
    on_machine(set(connection, "celery-once", "qo_shop.bill_customer-7", uuid1_hex("celery-once"), 3_600_000))
}

pub fn redbeat(connection: &mut Connection) -> Sample {
    let (schedule, entry) = ("redbeat::schedule", "redbeat:nightly");
    run!(connection, "ZADD", schedule, now_ms() / 1000 + 60, entry);
    run!(connection, "HSET", entry, "definition", r#"{"name": "nightly", "task": "shop.nightly"}"#);
    let sample = set(connection, "redbeat", "redbeat::lock", uuid1_hex("redbeat"), 1_500_000);
    on_machine(sample).beside(schedule).beside(entry)
}

pub fn python_redis_lock(connection: &mut Connection) -> Sample {
    let token = base64(&random("python-redis-lock", 18));
    run!(connection, "SET", "lock:report", &token, "NX", "EX", 60);
    // What a recent release left for the next waiter.
    let signal = "lock-signal:report";
    run!(connection, "LPUSH", signal, 1);
    run!(connection, "PEXPIRE", signal, 60_000);
    Sample::exclusive("python-redis-lock", "lock:report", token).beside(signal)
}

pub fn python_redis_lock_forever(connection: &mut Connection) -> Sample {
    let token = base64(&random("python-redis-lock forever", 18));
    set_forever(connection, "python-redis-lock", "lock:migration", token)
}

pub fn redlock(connection: &mut Connection) -> Sample {
    let (key, token) = ("locks:account:322456", hex(&random("node-redlock", 16)));
    // Its script checks first and then sets, without NX.
    run!(connection, "EXISTS", key);
    run!(connection, "SET", key, &token, "PX", 10_000);
    Sample::exclusive("redlock", key, token)
}

pub fn redsync(connection: &mut Connection) -> Sample {
    set(connection, "redsync", "stock-lock", base64(&random("redsync", 16)), 8_000)
}

pub fn redislock(connection: &mut Connection) -> Sample {
    let (key, token) = ("shipping-lock", base64_url(&random("redislock!", 16)));
    run!(connection, "MSETNX", key, &token);
    run!(connection, "PEXPIRE", key, 60_000);
    Sample::exclusive("redislock", key, token)
}

pub fn redislock_with_metadata(connection: &mut Connection) -> Sample {
    let (key, token) = ("packing-lock", format!("{}packer@depot-2", base64_url(&random("redislock metadata", 16))));
    run!(connection, "MSETNX", key, &token);
    run!(connection, "PEXPIRE", key, 60_000);
    Sample::exclusive("redislock", key, token)
}

pub fn rslock(connection: &mut Connection) -> Sample {
    set(connection, "rslock", "mutex-of-the-mill", random("rslock", 20), 20_000)
}

pub fn pottery(connection: &mut Connection) -> Sample {
    set(connection, "pottery", "redlock:printer", uuid4("pottery"), 10_000)
}

pub fn redlock_net(connection: &mut Connection) -> Sample {
    // The same prefix and the same token as pottery's.
    set(connection, "redlock-net", "redlock:the-thing-we-are-locking-on", uuid4("redlock.net"), 30_000).told()
}

pub fn redlock_py(connection: &mut Connection) -> Sample {
    set(connection, "redlock-py", "thumbnails-lock", alphanumeric("redlock-py", 22), 10_000)
}

pub fn redlock_rb(connection: &mut Connection) -> Sample {
    let (key, token) = ("resource_lock_key", uuid4("redlock-rb"));
    run!(connection, "SET", key, &token, "PX", 20_000);
    Sample::exclusive("redlock-rb", key, token).told()
}

pub fn activejob_uniqueness(connection: &mut Connection) -> Sample {
    let key = format!("activejob_uniqueness:import_job:{}", hex(&random("activejob arguments", 16)));
    set(connection, "redlock-rb", &key, uuid4("activejob"), 86_400_000)
}

pub fn spring(connection: &mut Connection) -> Sample {
    set(connection, "spring", "order-service:payment-lock-9", uuid4("spring"), 60_000)
}

fn shed(connection: &mut Connection, key: &str, uuid: &str) -> Sample {
    let added = DateTime::<Utc>::from(std::time::SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true);
    let token = format!("ADDED:{added}@worker-3{uuid}");
    run!(connection, "SET", key, &token, "NX", "PX", 600_000);
    let host = Some("worker-3".to_string());
    Sample::new("shedlock", "exclusive", key).held_by(ExpectedHolder { host, ..ExpectedHolder::new(token) })
}

pub fn shedlock(connection: &mut Connection) -> Sample {
    shed(connection, "job-lock:default:nightlyReport", &format!(":{}", uuid4("shedlock")))
}

pub fn shedlock_old(connection: &mut Connection) -> Sample {
    shed(connection, "job-lock:prod:cleanUp", "")
}

pub fn laravel(connection: &mut Connection) -> Sample {
    let (key, owner) = ("shop-database-shop-cache-checkout-lock:7", alphanumeric("laravel", 16));
    run!(connection, "SET", key, &owner, "EX", 120, "NX");
    Sample::exclusive("laravel", key, owner)
}

fn schedule(name: &str) -> String {
    format!("shop_database_shop_cache_framework/schedule-{}", hex(&random(name, 20)))
}

pub fn laravel_schedule(connection: &mut Connection) -> Sample {
    let (key, owner) = (schedule("without overlapping"), alphanumeric("laravel schedule", 16));
    run!(connection, "SET", &key, &owner, "EX", 86_400, "NX");
    Sample::exclusive("laravel", key, owner)
}

pub fn laravel_on_one_server(connection: &mut Connection) -> Sample {
    let key = format!("{}0315", schedule("on one server"));
    run!(connection, "SET", &key, alphanumeric("laravel server", 16), "EX", 3600, "NX");
    // It stays on purpose: a marker that nobody holds.
    Sample::new("laravel", "exclusive", key)
}

pub fn laravel_unique_job(connection: &mut Connection) -> Sample {
    let key = r"shop-database-shop-cache-laravel_unique_job:App\Jobs\Import:12";
    set_forever(connection, "laravel", key, alphanumeric("laravel unique", 16))
}

pub fn laravel_overlap(connection: &mut Connection) -> Sample {
    let key = r"shop-database-shop-cache-laravel-queue-overlap:App\Jobs\Bill:7";
    set_forever(connection, "laravel", key, alphanumeric("laravel overlap", 16))
}

pub fn medallion(connection: &mut Connection) -> Sample {
    let (key, token) = ("accounting-lock", format!("WEB-01_4312_{}", hex(&random("medallion", 16))));
    run!(connection, "SET", key, &token, "EX", 30, "NX");
    let holder = ExpectedHolder { host: Some("WEB-01".into()), pid: Some(4312), ..ExpectedHolder::new(token) };
    Sample::new("medallion", "exclusive", key).held_by(holder)
}

pub fn stackexchange(connection: &mut Connection) -> Sample {
    let (key, token) = ("pricing-lock", "WEB-EU-1");
    run!(connection, "SET", key, token, "EX", 30, "NX");
    let holder = ExpectedHolder { host: Some(token.into()), ..ExpectedHolder::new(token) };
    Sample::new("stackexchange", "exclusive", key).held_by(holder).told()
}

pub fn hangfire(connection: &mut Connection) -> Sample {
    let (key, token) = ("{hangfire}:lock:recurring-job:nightly", uuid4("hangfire"));
    run!(connection, "SET", key, &token, "EX", 30, "NX");
    let jobs = "{hangfire}:recurring-jobs";
    run!(connection, "ZADD", jobs, now_ms() / 1000, "nightly");
    Sample::exclusive("hangfire", key, token).beside(jobs)
}

pub fn hangfire_state(connection: &mut Connection) -> Sample {
    let (key, token) = ("{hangfire}:job:17:state-lock", uuid4("hangfire"));
    run!(connection, "SET", key, &token, "EX", 30, "NX");
    let job = "{hangfire}:job:17";
    run!(connection, "HSET", job, "State", "Processing");
    Sample::exclusive("hangfire", key, token).beside(job)
}

pub fn celery_singleton(connection: &mut Connection) -> Sample {
    let key = format!("SINGLETONLOCK_{}", hex(&random("celery-singleton", 16)));
    set_forever(connection, "celery-singleton", &key, uuid4("celery task"))
}

pub fn resque_scheduler(connection: &mut Connection) -> Sample {
    let (key, token) = ("resque:resque_scheduler_master_lock", "jobs-2:7781");
    run!(connection, "SETNX", key, token);
    run!(connection, "EXPIRE", key, 180);
    let holder = ExpectedHolder { host: Some("jobs-2".into()), pid: Some(7781), ..ExpectedHolder::new(token) };
    Sample::new("resque-scheduler", "exclusive", key).held_by(holder)
}

pub fn bullmq(connection: &mut Connection) -> Sample {
    run!(connection, "INCR", "bull:mail:id");
    run!(connection, "HSET", "bull:mail:1", "name", "work", "data", "{}");
    run!(connection, "LPUSH", "bull:mail:active", 1);
    run!(connection, "SET", "bull:mail:stalled-check", now_ms(), "PX", 30_000);
    let (key, token) = ("bull:mail:1:lock", format!("{}:0", uuid4("bullmq")));
    run!(connection, "SET", key, &token, "PX", 30_000);
    Sample::exclusive("bullmq", key, token)
        .beside("bull:mail:id")
        .beside("bull:mail:1")
        .beside("bull:mail:active")
        .beside("bull:mail:stalled-check")
}

pub fn npm_mutex(connection: &mut Connection) -> Sample {
    set(connection, "redis-semaphore-npm", "mutex:lockingResource", uuid4("npm mutex"), 10_000)
}

pub fn marker(connection: &mut Connection) -> Sample {
    let key = "completed:order-4711";
    run!(connection, "SET", key, "1", "NX", "EX", 86_400);
    Sample::new("marker", "exclusive", key)
}

pub fn plain(connection: &mut Connection) -> Sample {
    set(connection, "plain", "lock:invoice:17", "worker 7 of depot", 30_000)
}

pub fn plain_forever(connection: &mut Connection) -> Sample {
    run!(connection, "SETNX", "import.lock", "1");
    Sample::exclusive("plain", "import.lock", "1")
}

pub fn plain_binary(connection: &mut Connection) -> Sample {
    let key = b"lock:\xff\x00\x1b[31m:17";
    run!(connection, "SET", key, "worker 8 of depot", "NX", "PX", 30_000);
    Sample::exclusive("plain", key, "worker 8 of depot")
}
