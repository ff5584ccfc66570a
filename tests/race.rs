//! Locks change hands while the operator's release, extension or undo is in flight: none of these may hit a holder that
//! the operator did not see.
//!
//! Each client takes its lock with a new token, holds it for a moment and releases it, again and again, and records
//! whether the lock was still its own. The operator reads, plans and performs as fast as it can. In the end both
//! records must agree: each missing token was freed by the operator under that token, and the other way round.
//! `LOCKSCOPE_HANDOVERS` sets the number of hand-overs for each kind of lock (`make soak`: 100,000 in all).

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::Server;
use common::acting::Acting;
use lockscope::actions::{Outcome, plan};
use redis::{Connection, cmd};

/// How a library takes and frees a lock, as scripts of this test: KEYS[1] the lock, ARGV[1] the token, ARGV[2] the lease.
struct Kind {
    name: &'static str,
    key: &'static str,
    take: &'static str,
    /// Returns 1 if the token still held the lock.
    free: &'static str,
    /// Something else that is stored in the same key.
    set_up: &'static [&'static [&'static str]],
    token: fn(usize) -> String,
    extendable: bool,
    /// A script that returns 1 as long as nothing but the client's own hold changed.
    sum: Option<&'static str>,
}

const LEASE_MS: u64 = 20_000;
const LONGEST_HOLD_US: u64 = 60_000;
const EXTENDED: Duration = Duration::from_secs(60);

fn uuid(number: usize) -> String {
    format!("{number:08x}-1111-4222-8333-444455556666")
}

const KINDS: &[Kind] = &[
    Kind {
        name: "plain",
        key: "lock:plain",
        take: "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
        free: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
        set_up: &[],
        token: |number| format!("token-{number}"),
        extendable: true,
        sum: None,
    },
    Kind {
        name: "redisson",
        key: "lock:redisson",
        take: "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
            redis.call('HINCRBY', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1",
        free: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call('DEL', KEYS[1])",
        set_up: &[],
        token: |number| format!("{}:{}", uuid(number), number % 97),
        extendable: true,
        sum: None,
    },
    Kind {
        name: "python-redis-lock",
        key: "lock:python",
        take: "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0",
        free: "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
            redis.call('DEL', 'lock-signal:python') redis.call('LPUSH', 'lock-signal:python', 1)
            redis.call('PEXPIRE', 'lock-signal:python', 1000) return redis.call('DEL', KEYS[1])",
        set_up: &[],
        token: |number| format!("{:>024}", format!("A{number}b")),
        extendable: true,
        sum: None,
    },
    // One reader among others: the one that stays must not be touched.
    Kind {
        name: "redisson",
        key: "lock:readers",
        take: "redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1",
        free: "return redis.call('HDEL', KEYS[1], ARGV[1])",
        set_up: &[&["HSET", "lock:readers", "mode", "read", "ffffffff-1111-4222-8333-444455556666:1", "1"]],
        token: |number| format!("{}:{}", uuid(number), number % 97),
        extendable: false,
        sum: Some("return redis.call('HEXISTS', KEYS[1], 'ffffffff-1111-4222-8333-444455556666:1')"),
    },
    Kind {
        name: "symfony",
        key: "lock:symfony",
        take: "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
            local t = redis.call('TIME') local until_ms = t[1] * 1000 + ARGV[2]
            redis.call('ZADD', KEYS[1], until_ms, ARGV[1], until_ms, '__write__')
            redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1",
        free: "if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end return redis.call('DEL', KEYS[1])",
        set_up: &[],
        token: |number| format!("{number:042}Q="),
        extendable: false,
        sum: None,
    },
    // The token is the place in the pool, which is reused; the time distinguishes the holds.
    Kind {
        name: "redis-semaphore",
        key: "SEMAPHORE:race:GRABBED",
        take: "if not redis.call('LPOP', 'SEMAPHORE:race:AVAILABLE') then return 0 end
            redis.call('HSET', KEYS[1], '0', ARGV[1]) return 1",
        free: "if redis.call('HGET', KEYS[1], '0') ~= ARGV[1] then return 0 end
            redis.call('HDEL', KEYS[1], '0') redis.call('LPUSH', 'SEMAPHORE:race:AVAILABLE', '0') return 1",
        set_up: &[
            &["LPUSH", "SEMAPHORE:race:AVAILABLE", "0"],
            &["SET", "SEMAPHORE:race:EXISTS", "1"],
            &["SET", "SEMAPHORE:race:VERSION", "1"],
        ],
        token: |number| format!("17500{:05}.{:06}", number % 100_000, number),
        extendable: false,
        sum: Some("return redis.call('LLEN', 'SEMAPHORE:race:AVAILABLE') + redis.call('HLEN', KEYS[1])"),
    },
    // A fair lock: a release wakes the head of its queue.
    Kind {
        name: "redisson",
        key: "lock:fair",
        take: "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
            redis.call('HINCRBY', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1",
        free: "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call('DEL', KEYS[1])",
        set_up: &[
            &["RPUSH", "redisson_lock_queue:{lock:fair}", "ffffffff-1111-4222-8333-444455556666:1"],
            &["ZADD", "redisson_lock_timeout:{lock:fair}", "9999999999999", "ffffffff-1111-4222-8333-444455556666:1"],
        ],
        token: |number| format!("{}:{}", uuid(number), number % 97),
        extendable: true,
        sum: Some("return redis.call('LLEN', 'redisson_lock_queue:{lock:fair}')"),
    },
    Kind {
        name: "redisson-permits",
        key: "{race-permits}:timeout",
        take: "if redis.call('DECR', 'race-permits') < 0 then redis.call('INCR', 'race-permits') return 0 end
            local t = redis.call('TIME') return redis.call('ZADD', KEYS[1], t[1] * 1000 + ARGV[2], ARGV[1])",
        free: "if redis.call('ZREM', KEYS[1], ARGV[1]) == 0 then return 0 end redis.call('INCR', 'race-permits') return 1",
        set_up: &[&["SET", "race-permits", "1"]],
        token: |number| format!("{number:016}"),
        extendable: false,
        sum: Some("return redis.call('GET', 'race-permits') + redis.call('ZCARD', KEYS[1])"),
    },
    Kind {
        name: "sidekiq-unique-jobs",
        key: "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
        take: "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
            local digest = string.sub(KEYS[1], 1, -8)
            redis.call('HSET', KEYS[1], ARGV[1], '1750000000.5') redis.call('SET', digest, ARGV[1])
            redis.call('ZADD', 'uniquejobs:digests', 1, digest) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1",
        free: "if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
            local digest = string.sub(KEYS[1], 1, -8)
            redis.call('DEL', digest) redis.call('ZREM', 'uniquejobs:digests', digest) return 1",
        set_up: &[],
        token: |number| format!("{number:024x}"),
        extendable: true,
        sum: None,
    },
    Kind {
        name: "medallion",
        key: "lock-tariffs.readers",
        take: "redis.call('SADD', KEYS[1], ARGV[1]) redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1",
        free: "return redis.call('SREM', KEYS[1], ARGV[1])",
        set_up: &[&["SADD", "lock-tariffs.readers", "ffffffff_1_0123456789abcdef0123456789abcdef"]],
        token: |number| format!("WEB-02_910_{number:032x}"),
        extendable: false,
        sum: Some("return redis.call('SISMEMBER', KEYS[1], 'ffffffff_1_0123456789abcdef0123456789abcdef')"),
    },
    Kind {
        name: "redis-semaphore-npm",
        key: "semaphore:race",
        take: "if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
            local t = redis.call('TIME') redis.call('ZADD', KEYS[1], t[1] * 1000, ARGV[1])
            redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1",
        free: "return redis.call('ZREM', KEYS[1], ARGV[1])",
        set_up: &[],
        token: uuid,
        extendable: false,
        sum: None,
    },
];

/// One side's record of the tokens.
#[derive(Default)]
struct Account {
    /// Client: the lock was gone when it wanted to release it. Operator: freed.
    gone: BTreeSet<String>,
    /// Operator: put back.
    back: BTreeSet<String>,
    hand_overs: usize,
    refused: usize,
    /// Client: the lease was longer than it had asked for. Operator: extended.
    extended: BTreeSet<String>,
}

fn hand_overs() -> usize {
    std::env::var("LOCKSCOPE_HANDOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

fn client(kind: &Kind, mut conn: Connection, count: usize, done: &AtomicBool) -> Account {
    let mut account = Account::default();
    let mut call = |script: &str, token: &str| -> i64 {
        cmd("EVAL").arg(script).arg(1).arg(kind.key).arg(token).arg(LEASE_MS).query(&mut conn).expect("an answer")
    };
    let (began, mut last) = (Instant::now(), String::new());
    for number in 0..count {
        assert!(began.elapsed() < Duration::from_secs(3_000), "a load never goes on for ever");
        let token = (kind.token)(number);
        while call(kind.take, &token) == 0 {
            // An undo put the last hold back, and nobody else will release it.
            if call(kind.free, &last) == 1 {
                continue;
            }
            std::thread::yield_now();
        }
        // Most holds are shorter than a release takes; some are about as long, so that a release may hit or miss.
        let hold_us = match number {
            _ if number % 40 == 7 => (number as u64 * 104_729) % (4 * LONGEST_HOLD_US),
            _ if number % 15 == 0 => (number as u64 * 7_919) % LONGEST_HOLD_US,
            _ => 0,
        };
        std::thread::sleep(Duration::from_micros(hold_us));
        let left = call("return redis.call('PTTL', KEYS[1])", &token);
        match call(kind.free, &token) {
            0 => drop(account.gone.insert(token.clone())),
            _ if left > LEASE_MS as i64 => drop(account.extended.insert(token.clone())),
            _ => {}
        }
        last = token;
        account.hand_overs += 1;
    }
    done.store(true, Ordering::SeqCst);
    account
}

fn operator(kind: &Kind, server: &Server, done: &AtomicBool) -> Account {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(operate(kind, server, done))
}

async fn operate(kind: &Kind, server: &Server, done: &AtomicBool) -> Account {
    let mut account = Account::default();
    let mut acting = Acting::on(server).await;
    let mut round = 0_usize;
    while !done.load(Ordering::SeqCst) {
        round += 1;
        let Some(lock) = acting.see(kind.key.as_bytes(), Some(kind.name)).await else { continue };
        assert_eq!(lock.dialect, kind.name);
        let mine = |token: &&[u8]| !token.starts_with(b"ffffffff");
        let Some(token) = lock.holders.iter().map(|holder| holder.token.as_bytes()).find(mine) else { continue };
        // A holder in a pool is identified by the time when it took its place.
        let name = match &lock.value {
            lockscope::lock::RawValue::Hash { fields, .. } if kind.name == "redis-semaphore" => {
                String::from_utf8_lossy(&fields[0].1).into_owned()
            }
            _ => String::from_utf8_lossy(token).into_owned(),
        };
        if kind.extendable && round.is_multiple_of(4) {
            let Ok(plan) = plan::extend(&lock, None, EXTENDED, acting.clock.now()) else { continue };
            match acting.perform(&plan).await.outcome {
                Outcome::Done { .. } => drop(account.extended.insert(name)),
                Outcome::Refused(_) => account.refused += 1,
                Outcome::Unknown(why) => panic!("{why}"),
            }
            continue;
        }
        let performed = acting.free(&lock, Some(token)).await;
        match performed.outcome {
            Outcome::Done { .. } => {
                account.gone.insert(name.clone());
                if round.is_multiple_of(2)
                    && let Ok(Some(kept)) = acting.journal.kept(&performed.id)
                    && let Ok(plan) = kept.plan(acting.clock.now())
                    && let Outcome::Done { .. } = acting.perform(&plan).await.outcome
                {
                    account.back.insert(name);
                }
            }
            Outcome::Refused(_) => account.refused += 1,
            Outcome::Unknown(why) => panic!("{why}"),
        }
    }
    account
}

#[test]
fn nothing_is_written_that_the_operator_did_not_see() {
    let server = Server::start();
    let mut clients = Vec::new();
    for kind in KINDS {
        for command in kind.set_up {
            server.cli(command);
        }
        let done = Arc::new(AtomicBool::new(false));
        let (conn, flag) = (server.connection(), Arc::clone(&done));
        clients.push((done, std::thread::spawn(move || client(kind, conn, hand_overs(), &flag))));
    }
    let operators: Vec<Account> = std::thread::scope(|scope| {
        let each = KINDS.iter().zip(&clients).map(|(kind, (done, _))| scope.spawn(|| operator(kind, &server, done)));
        let each: Vec<_> = each.collect();
        each.into_iter().map(|operator| operator.join().expect("the operator ends well")).collect()
    });
    let (mut hand_overs, mut freed) = (0, 0);
    for ((kind, operator), (_, client)) in KINDS.iter().zip(operators).zip(clients) {
        let client = client.join().expect("the client ends well");
        let about = format!("{} at {}", kind.name, kind.key);
        // The client may have released a token that was put back.
        let wrongly_gone: Vec<_> = client.gone.difference(&operator.gone).collect();
        assert!(wrongly_gone.is_empty(), "{about}: freed without being seen: {wrongly_gone:?}");
        let not_gone: Vec<_> =
            operator.gone.difference(&client.gone).filter(|token| !operator.back.contains(*token)).collect();
        assert!(not_gone.is_empty(), "{about}: said to be freed, and was not: {not_gone:?}");
        let wrongly_extended: Vec<_> = client.extended.difference(&operator.extended).collect();
        assert!(wrongly_extended.is_empty(), "{about}: extended without being seen: {wrongly_extended:?}");
        println!(
            "{about}: {} hand-overs, {} freed, {} put back, {} extended, {} refused",
            client.hand_overs,
            operator.gone.len(),
            operator.back.len(),
            operator.extended.len(),
            operator.refused
        );
        hand_overs += client.hand_overs;
        freed += operator.gone.len();
        if let Some(script) = kind.sum {
            let sum: i64 = server.ask(&["EVAL", script, "1", kind.key]);
            assert_eq!(sum, 1, "{about}: something else was touched");
        }
    }
    println!("{hand_overs} hand-overs, {freed} releases");
    assert!(freed > 0, "the operator never freed anything: the race proves nothing");
}
