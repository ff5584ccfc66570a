//! Redisson: hashes of holders `<uuid>:<thread>`, with helper keys named after the lock.

use redis::Connection;

use super::{ExpectedHolder, Sample, base64, hex, now_ms, random, run, uuid4};

const LEASE_MS: i64 = 30_000;

/// A thread of one of two application instances.
fn thread(instance: &str, thread: u32) -> String {
    format!("{}:{thread}", uuid4(instance))
}

fn holder(id: &str, count: i64) -> ExpectedHolder {
    let thread = id.trim_end_matches(":write").rsplit(':').next().map(String::from);
    ExpectedHolder { thread, count: Some(count), ..ExpectedHolder::new(id) }
}

pub fn lock(connection: &mut Connection) -> Sample {
    let (key, id) = ("orders-lock:17", thread("shop", 57));
    // Enter twice.
    for _ in 0..2 {
        run!(connection, "HINCRBY", key, &id, 1);
        run!(connection, "PEXPIRE", key, LEASE_MS);
    }
    let latch = format!("redisson_unlock_latch:{{{key}}}:{}", hex(&random("latch", 16)));
    run!(connection, "SET", &latch, 0, "PX", 18_000);
    Sample::new("redisson", "exclusive", key).held_by(holder(&id, 2)).beside(latch)
}

pub fn fair(connection: &mut Connection) -> Sample {
    let (key, id) = ("print-lock", thread("shop", 61));
    run!(connection, "HSET", key, &id, 1);
    run!(connection, "PEXPIRE", key, LEASE_MS);
    let (queue, deadlines) = (format!("redisson_lock_queue:{{{key}}}"), format!("redisson_lock_timeout:{{{key}}}"));
    for (place, waiter) in [thread("shop", 62), thread("billing", 9)].iter().enumerate() {
        run!(connection, "ZADD", &deadlines, now_ms() + 300_000 * (place as i64 + 1), waiter);
        run!(connection, "RPUSH", &queue, waiter);
    }
    Sample::new("redisson", "exclusive", key).held_by(holder(&id, 1)).beside(queue).beside(deadlines)
}

pub fn read(connection: &mut Connection) -> Sample {
    let key = "catalogue-lock";
    let mut sample = Sample::new("redisson", "read", key);
    run!(connection, "HSET", key, "mode", "read");
    for (id, count) in [(thread("shop", 71), 2), (thread("billing", 12), 1)] {
        for entry in 1..=count {
            run!(connection, "HINCRBY", key, &id, 1);
            let lease = format!("{{{key}}}:{id}:rwlock_timeout:{entry}");
            run!(connection, "SET", &lease, 1, "PX", LEASE_MS);
            sample = sample.beside(lease);
        }
        sample = sample.held_by(holder(&id, count));
    }
    run!(connection, "PEXPIRE", key, LEASE_MS);
    sample
}

pub fn write(connection: &mut Connection) -> Sample {
    let (key, id) = ("prices-lock", format!("{}:write", thread("billing", 14)));
    run!(connection, "HSET", key, "mode", "write");
    run!(connection, "HSET", key, &id, 1);
    run!(connection, "PEXPIRE", key, LEASE_MS);
    Sample::new("redisson", "write", key).held_by(holder(&id, 1))
}

pub fn spin(connection: &mut Connection) -> Sample {
    let (key, id) = ("counter-spin-lock", thread("billing", 15));
    run!(connection, "HINCRBY", key, &id, 1);
    run!(connection, "PEXPIRE", key, LEASE_MS);
    Sample::new("redisson", "exclusive", key).held_by(holder(&id, 1))
}

pub fn fenced(connection: &mut Connection) -> Sample {
    let (key, id) = ("ledger-lock", thread("billing", 16));
    run!(connection, "HINCRBY", key, &id, 1);
    run!(connection, "PEXPIRE", key, LEASE_MS);
    let token = format!("redisson_lock_token:{{{key}}}");
    run!(connection, "SET", &token, 41);
    run!(connection, "INCR", &token);
    Sample::new("redisson", "exclusive", key).held_by(holder(&id, 1)).beside(token)
}

pub fn map_entry(connection: &mut Connection) -> Sample {
    let (key, id) = (format!("{{sessions}}:{}:lock", base64(&random("entry", 16))), thread("shop", 80));
    run!(connection, "HINCRBY", &key, &id, 1);
    run!(connection, "PEXPIRE", &key, LEASE_MS);
    Sample::new("redisson", "exclusive", key).held_by(holder(&id, 1))
}

pub fn group(connection: &mut Connection) -> Sample {
    let (key, item, id) = ("seats-lock-group", hex(&random("seat", 8)), thread("shop", 90));
    let count = format!("{item}:{id}:lock_count");
    run!(connection, "HSET", key, &item, &id);
    run!(connection, "HSET", key, format!("{item}:{id}:expire_time"), now_ms() + LEASE_MS);
    run!(connection, "HSET", key, &count, 1);
    run!(connection, "PEXPIRE", key, LEASE_MS);
    let thread = Some("90".to_string());
    let holder = ExpectedHolder { thread, count: Some(1), ..ExpectedHolder::new(count) };
    Sample::new("redisson", "exclusive", key).held_by(holder)
}

pub fn semaphore(connection: &mut Connection) -> Sample {
    let key = "uploads-semaphore";
    run!(connection, "SET", key, 5);
    run!(connection, "DECRBY", key, 2);
    // A bare number, without holders.
    Sample::new("redisson-semaphore", "permit", key).told()
}

pub fn permits(connection: &mut Connection) -> Sample {
    let (counter, key) = ("downloads", "{downloads}:timeout");
    run!(connection, "SET", counter, 5);
    let mut sample = Sample::new("redisson-permits", "permit", key).beside(counter);
    for (permit, until) in [("one", now_ms() + LEASE_MS), ("two", 922_337_203_685_477)] {
        let permit = random(permit, 16);
        run!(connection, "ZADD", key, until, &permit);
        run!(connection, "DECRBY", counter, 1);
        sample = sample.held_by(ExpectedHolder::new(permit));
    }
    sample
}
