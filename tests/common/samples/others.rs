//! The libraries whose lock is a hash, a set or a sorted set, or a string without a holder.

use redis::Connection;

use super::{ExpectedHolder, Sample, base64, epoch_seconds, hex, now_ms, random, run, uuid4};

/// Python's pickle of '1', which Huey stores for a held lock.
pub const HUEY_ONE: &[u8] = b"\x80\x05\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x011\x94.";

fn medallion_id(host: &str, pid: u64) -> ExpectedHolder {
    let token = format!("{host}_{pid}_{}", hex(&random(host, 16)));
    ExpectedHolder { host: Some(host.into()), pid: Some(pid), ..ExpectedHolder::new(token) }
}

pub fn medallion_readers(connection: &mut Connection) -> Sample {
    let key = "tariffs.readers";
    let mut sample = Sample::new("medallion", "read", key);
    for holder in [medallion_id("WEB-02", 910), medallion_id("WEB-03", 911)] {
        run!(connection, "SADD", key, &holder.token);
        run!(connection, "PEXPIRE", key, 30_000);
        sample = sample.held_by(holder);
    }
    sample
}

pub fn medallion_writer(connection: &mut Connection) -> Sample {
    let (key, holder) = ("rates.writer", medallion_id("WEB-04", 912));
    run!(connection, "SET", key, &holder.token, "EX", 30, "NX");
    Sample::new("medallion", "write", key).held_by(holder)
}

pub fn medallion_waiting_writer(connection: &mut Connection) -> Sample {
    let (key, holder) = ("fees.writer", medallion_id("WEB-05", 913));
    let waiting = [&holder.token[..], b"_WRITERWAITING"].concat();
    run!(connection, "SET", key, waiting, "EX", 30, "NX");
    // It keeps new readers out, but nobody holds it yet.
    Sample::new("medallion", "write", key)
}

pub fn medallion_semaphore(connection: &mut Connection) -> Sample {
    let key = "exports-lock-slots";
    let mut sample = Sample::new("medallion", "permit", key);
    for holder in [medallion_id("WEB-06", 914), medallion_id("WEB-07", 915)] {
        run!(connection, "ZADD", key, now_ms() + 30_000, &holder.token);
        sample = sample.held_by(holder);
    }
    run!(connection, "PEXPIRE", key, 90_000);
    sample
}

/// tasktiger's queue lock, with its ends in milliseconds.
pub fn leases(connection: &mut Connection) -> Sample {
    let key = "t:qslock:mails";
    let mut sample = Sample::new("leases", "permit", key);
    for id in [uuid4("lease one"), uuid4("lease two")] {
        run!(connection, "ZADD", key, now_ms() + 60_000, &id);
        sample = sample.held_by(ExpectedHolder::new(id));
    }
    run!(connection, "PEXPIRE", key, 120_000);
    sample
}

pub fn npm_semaphore(connection: &mut Connection) -> Sample {
    let key = "semaphore:lockingResource";
    let mut sample = Sample::new("redis-semaphore-npm", "permit", key);
    for id in [uuid4("npm permit one"), uuid4("npm permit two")] {
        run!(connection, "ZADD", key, now_ms(), &id);
        run!(connection, "PEXPIRE", key, 10_000);
        sample = sample.held_by(ExpectedHolder::new(id));
    }
    sample
}

pub fn reentrant(connection: &mut Connection) -> Sample {
    let (key, holder) = ("lock:import", "worker-7");
    run!(connection, "HINCRBY", key, holder, 1);
    run!(connection, "HINCRBY", key, holder, 1);
    run!(connection, "PEXPIRE", key, 30_000);
    let holder = ExpectedHolder { count: Some(2), ..ExpectedHolder::new(holder) };
    Sample::new("reentrant", "exclusive", key).held_by(holder)
}

fn symfony_members(connection: &mut Connection, key: &str, members: &[&str]) {
    let until = now_ms() + 300_000;
    for member in members {
        run!(connection, "ZADD", key, until, *member);
    }
    run!(connection, "PEXPIREAT", key, until);
}

pub fn symfony(connection: &mut Connection) -> Sample {
    let (key, token) = ("pdf-invoice-lock", base64(&random("symfony", 32)));
    symfony_members(connection, key, &["__write__", &token]);
    Sample::exclusive("symfony", key, token)
}

pub fn symfony_readers(connection: &mut Connection) -> Sample {
    let (key, one, two) = ("archive-lock", base64(&random("symfony 1", 32)), base64(&random("symfony 2", 32)));
    symfony_members(connection, key, &[&one, &two]);
    Sample::new("symfony", "read", key).held_by(ExpectedHolder::new(one)).held_by(ExpectedHolder::new(two))
}

/// Versions 7 and 8 keep a string, two lists and an info document beside the hash.
fn sidekiq_digest(connection: &mut Connection, digest: &str, job: &str) -> Sample {
    let key = format!("{digest}:LOCKED");
    run!(connection, "SET", digest, job);
    run!(connection, "LPUSH", format!("{digest}:QUEUED"), job);
    run!(connection, "LMOVE", format!("{digest}:QUEUED"), format!("{digest}:PRIMED"), "RIGHT", "LEFT");
    run!(connection, "HSET", &key, job, epoch_seconds());
    run!(connection, "SET", format!("{digest}:INFO"), r#"{"worker":"ImportJob","limit":1}"#);
    run!(connection, "ZADD", "uniquejobs:digests", epoch_seconds(), digest);
    run!(connection, "ZADD", "uniquejobs:changelog", epoch_seconds(), r#"{"message":"Locked"}"#);
    Sample::exclusive("sidekiq-unique-jobs", key, job)
        .beside(digest)
        .beside(format!("{digest}:PRIMED"))
        .beside(format!("{digest}:INFO"))
        .beside("uniquejobs:digests")
        .beside("uniquejobs:changelog")
}

pub fn sidekiq(connection: &mut Connection) -> Sample {
    let digest = format!("uniquejobs:{}", hex(&random("sidekiq", 16)));
    sidekiq_digest(connection, &digest, &hex(&random("sidekiq job", 12)))
}

pub fn sidekiq_run(connection: &mut Connection) -> Sample {
    let digest = format!("uniquejobs:{}:RUN", hex(&random("sidekiq run", 32)));
    sidekiq_digest(connection, &digest, &hex(&random("sidekiq running job", 12)))
}

pub fn sidekiq_9(connection: &mut Connection) -> Sample {
    let digest = format!("uniquejobs:{}", hex(&random("sidekiq 9", 32)));
    let (key, job) = (format!("{digest}:LOCKED"), hex(&random("sidekiq 9 job", 12)));
    let document = format!(r#"{{"worker":"BillJob","queue":"default","limit":1,"time":{}}}"#, epoch_seconds());
    run!(connection, "HSET", &key, &job, document);
    run!(connection, "ZADD", "uniquejobs:digests", epoch_seconds(), &digest);
    Sample::exclusive("sidekiq-unique-jobs", key, job).beside("uniquejobs:digests")
}

pub fn huey(connection: &mut Connection) -> Sample {
    let (key, field) = ("huey.results.shop", "shop.lock.nightly");
    // Results of tasks live in the same hash.
    run!(connection, "HSETNX", key, uuid4("huey task"), HUEY_ONE);
    run!(connection, "HSETNX", key, field, HUEY_ONE);
    let queue = "huey.redis.shop";
    run!(connection, "LPUSH", queue, HUEY_ONE);
    Sample::exclusive("huey", key, field).beside(queue)
}

pub fn huey_expire(connection: &mut Connection) -> Sample {
    let (key, result) = ("huey.r.mail.mail.lock.digest", format!("huey.r.mail.{}", uuid4("huey task")));
    run!(connection, "SETNX", key, HUEY_ONE);
    run!(connection, "SETEX", &result, 3600, HUEY_ONE);
    Sample::exclusive("huey", key, HUEY_ONE).beside(result)
}

pub fn ruby_semaphore(connection: &mut Connection) -> Sample {
    let name = |part: &str| format!("SEMAPHORE:gateway:{part}");
    run!(connection, "GETSET", name("EXISTS"), 1);
    run!(connection, "SET", name("VERSION"), 1);
    for token in 0..3 {
        run!(connection, "RPUSH", name("AVAILABLE"), token);
    }
    run!(connection, "BLPOP", name("AVAILABLE"), 1);
    run!(connection, "HSET", name("GRABBED"), 0, epoch_seconds());
    Sample::new("redis-semaphore", "permit", name("GRABBED"))
        .held_by(ExpectedHolder::new("0"))
        .beside(name("EXISTS"))
        .beside(name("VERSION"))
        .beside(name("AVAILABLE"))
}
