//! What a release does beyond deleting a key, library by library: who is woken, what goes with the lock, what stays.
//!
//! Each case is freed on a real server while clients listen where that library's waiters do. Before that the holder
//! changes under the operator's eyes, and then nothing at all may happen.

mod common;

use std::thread;
use std::time::Duration;

use common::acting::Acting;
use common::samples::{ALL, Sample};
use common::server::has;
use common::{Library, Listener, Server, lockscope, wait_until};
use lockscope::actions::{Freeing, Outcome, Performed, plan};
use redis::Value;

const SOON: Duration = Duration::from_secs(30);

type Line = &'static [&'static str];

/// A lock, what may happen to it before it is freed, and what must be so afterwards.
struct Case {
    name: &'static str,
    set_up: &'static [Line],
    key: &'static str,
    dialect: &'static str,
    holder: Option<&'static str>,
    /// After any of these the release must be refused.
    changes: &'static [&'static [Line]],
    /// How and where somebody listens, and what they hear.
    listens: &'static [(&'static str, &'static str, &'static [&'static str])],
    /// Commands and their answers.
    after: &'static [(Line, &'static str)],
}

const LOCK: Case =
    Case { name: "", set_up: &[], key: "", dialect: "", holder: None, changes: &[], listens: &[], after: &[] };

const A: &str = "3f2a8c00-1111-4222-8333-444455556666:57";
const B: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9";
const C: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:10";
const A_WRITES: &str = "3f2a8c00-1111-4222-8333-444455556666:57:write";
const UUID: &str = "3f2a8c00-1111-4222-8333-444455556666";
const OTHER_UUID: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d";
const FAR: &str = "99999999999999";
const PERMIT: &str = "\u{1}234567890abcdef";
const OTHER_PERMIT: &str = "\u{2}234567890abcdef";
const PYTHON: &str = "q6bGZ0cQ1m3yq8Vb0h9s5kXo";
const SYMFONY: &str = "q6bGZ0cQ1m3yq8Vb0h9s5kXo2n7Jr4tLw1eUzPaYdcA=";
const OTHER_SYMFONY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const MEDALLION: &str = "WEB-02_910_0b5e7c1a94f24d3b8e6a2f1c9d7b3a50";
const OTHER_MEDALLION: &str = "WEB-03_911_f3a9c07be15d28466cb1709e5ad2488f";
const HAS_TTL: &str = "return redis.call('PTTL', KEYS[1]) > 0 and 1 or 0";

const CASES: &[Case] = &[
    Case {
        name: "Redisson lock",
        set_up: &[&["HSET", "lock:a", A, "2"], &["PEXPIRE", "lock:a", "30000"]],
        key: "lock:a",
        dialect: "redisson",
        holder: Some(A),
        changes: &[&[&["DEL", "lock:a"], &["HSET", "lock:a", B, "2"]], &[&["DEL", "lock:a"]]],
        listens: &[
            ("SUBSCRIBE", "redisson_lock__channel:{lock:a}", &["0"]),
            ("SSUBSCRIBE", "redisson_lock__channel:{lock:a}", &["0"]),
            ("SUBSCRIBE", "redisson_lock__channel:{lock:b}", &[]),
        ],
        after: &[(&["DBSIZE"], "0")],
    },
    Case {
        name: "Redisson lock of a name with braces, which nobody waits for, as for a spin lock",
        set_up: &[&["HSET", "{map}:aGk=:lock", A, "1"], &["PEXPIRE", "{map}:aGk=:lock", "30000"]],
        key: "{map}:aGk=:lock",
        dialect: "redisson",
        changes: &[&[&["HSET", "{map}:aGk=:lock", B, "1"]]],
        listens: &[("SUBSCRIBE", "redisson_lock__channel:{map}:aGk=:lock", &["0"])],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
    Case {
        name: "Redisson fenced lock: its tokens must go on rising",
        set_up: &[
            &["HSET", "lock:f", A, "1"],
            &["PEXPIRE", "lock:f", "30000"],
            &["SET", "redisson_lock_token:{lock:f}", "42"],
        ],
        key: "lock:f",
        dialect: "redisson",
        holder: Some(A),
        changes: &[&[&["DEL", "lock:f"], &["HSET", "lock:f", B, "1"]]],
        listens: &[("SUBSCRIBE", "redisson_lock__channel:{lock:f}", &["0"])],
        after: &[(&["KEYS", "*"], "redisson_lock_token:{lock:f}"), (&["GET", "redisson_lock_token:{lock:f}"], "42")],
    },
    Case {
        name: "Redisson fair lock: the dead heads go, the first living waiter is told, nobody else",
        set_up: &[
            &["HSET", "lock:fair", A, "1"],
            &["PEXPIRE", "lock:fair", "30000"],
            &["RPUSH", "redisson_lock_queue:{lock:fair}", "dead-1", "dead-2", B, C],
            &["ZADD", "redisson_lock_timeout:{lock:fair}", "1", "dead-1", "2", "dead-2", FAR, B, FAR, C],
        ],
        key: "lock:fair",
        dialect: "redisson",
        holder: Some(A),
        changes: &[
            &[&["DEL", "lock:fair"], &["HSET", "lock:fair", C, "1"]],
            // What would stop the script half-way.
            &[&["DEL", "redisson_lock_queue:{lock:fair}"], &["SET", "redisson_lock_queue:{lock:fair}", "x"]],
        ],
        listens: &[
            ("SUBSCRIBE", "redisson_lock__channel:{lock:fair}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9", &["0"]),
            ("SSUBSCRIBE", "redisson_lock__channel:{lock:fair}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9", &["0"]),
            ("SUBSCRIBE", "redisson_lock__channel:{lock:fair}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:10", &[]),
            ("SUBSCRIBE", "redisson_lock__channel:{lock:fair}:dead-1", &[]),
        ],
        after: &[
            (&["EXISTS", "lock:fair"], "0"),
            (&["LINDEX", "redisson_lock_queue:{lock:fair}", "0"], B),
            (&["LINDEX", "redisson_lock_queue:{lock:fair}", "1"], C),
            (&["LLEN", "redisson_lock_queue:{lock:fair}"], "2"),
            (&["ZCARD", "redisson_lock_timeout:{lock:fair}"], "2"),
            (&["ZSCORE", "redisson_lock_timeout:{lock:fair}", "dead-2"], "nil"),
        ],
    },
    Case {
        name: "Redisson writer that also reads",
        set_up: &[
            &["HSET", "lock:rw", "mode", "write", A_WRITES, "1", A, "1"],
            &["PEXPIRE", "lock:rw", "30000"],
            &["SET", "{lock:rw}:3f2a8c00-1111-4222-8333-444455556666:57:rwlock_timeout:1", "1", "PX", "30000"],
        ],
        key: "lock:rw",
        dialect: "redisson",
        holder: Some(A_WRITES),
        changes: &[
            &[&["HDEL", "lock:rw", A_WRITES], &["HSET", "lock:rw", C, "1"]],
            &[&["HSET", "lock:rw", "mode", "read"]],
        ],
        listens: &[
            ("SUBSCRIBE", "redisson_rwlock:{lock:rw}", &["1"]),
            ("SSUBSCRIBE", "redisson_rwlock:{lock:rw}", &["1"]),
        ],
        after: &[(&["DBSIZE"], "0")],
    },
    Case {
        name: "one Redisson reader of two: the lock stays, nobody is woken",
        set_up: &[
            &["HSET", "lock:rw", "mode", "read", A, "2", B, "1"],
            &["PEXPIRE", "lock:rw", "30000"],
            &["SET", "{lock:rw}:3f2a8c00-1111-4222-8333-444455556666:57:rwlock_timeout:1", "1", "PX", "30000"],
            &["SET", "{lock:rw}:3f2a8c00-1111-4222-8333-444455556666:57:rwlock_timeout:2", "1", "PX", "30000"],
            &["SET", "{lock:rw}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9:rwlock_timeout:1", "1", "PX", "30000"],
        ],
        key: "lock:rw",
        dialect: "redisson",
        holder: Some(A),
        changes: &[&[&["HDEL", "lock:rw", A]], &[&["DEL", "lock:rw"], &["HSET", "lock:rw", "mode", "read", C, "1"]]],
        listens: &[("SUBSCRIBE", "redisson_rwlock:{lock:rw}", &[])],
        after: &[
            (&["HLEN", "lock:rw"], "2"),
            (&["HGET", "lock:rw", B], "1"),
            (&["HGET", "lock:rw", "mode"], "read"),
            (&["KEYS", "{*"], "{lock:rw}:9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9:rwlock_timeout:1"),
        ],
    },
    Case {
        name: "the last Redisson reader",
        set_up: &[
            &["HSET", "lock:rw", "mode", "read", A, "1"],
            &["PEXPIRE", "lock:rw", "30000"],
            &["SET", "{lock:rw}:3f2a8c00-1111-4222-8333-444455556666:57:rwlock_timeout:1", "1", "PX", "30000"],
        ],
        key: "lock:rw",
        dialect: "redisson",
        holder: Some(A),
        changes: &[&[&["HDEL", "lock:rw", A], &["HSET", "lock:rw", B, "1"]]],
        listens: &[("SUBSCRIBE", "redisson_rwlock:{lock:rw}", &["1"])],
        after: &[(&["DBSIZE"], "0")],
    },
    Case {
        name: "Redisson semaphore",
        set_up: &[&["SET", "uploads", "3"]],
        key: "uploads",
        dialect: "redisson-semaphore",
        changes: &[&[&["DECR", "uploads"]], &[&["DEL", "uploads"]], &[&["SET", "uploads", "x"]]],
        listens: &[("SUBSCRIBE", "redisson_sc:{uploads}", &["4"]), ("SSUBSCRIBE", "redisson_sc:{uploads}", &["4"])],
        after: &[(&["GET", "uploads"], "4")],
        ..LOCK
    },
    Case {
        name: "one Redisson permit of two",
        set_up: &[
            &["SET", "downloads", "3"],
            &["ZADD", "{downloads}:timeout", FAR, PERMIT, "922337203685477", OTHER_PERMIT],
        ],
        key: "{downloads}:timeout",
        dialect: "redisson-permits",
        holder: Some(PERMIT),
        changes: &[
            &[&["ZREM", "{downloads}:timeout", PERMIT]],
            &[&["DEL", "downloads"]],
            &[&["SET", "downloads", "many"]],
            &[&["DEL", "downloads"], &["LPUSH", "downloads", "1"]],
        ],
        listens: &[("SUBSCRIBE", "redisson_sc:{downloads}", &["4"])],
        after: &[(&["GET", "downloads"], "4"), (&["ZRANGE", "{downloads}:timeout", "0", "-1"], OTHER_PERMIT)],
    },
    Case {
        name: "all Redisson permits",
        set_up: &[
            &["SET", "downloads", "3"],
            &["ZADD", "{downloads}:timeout", FAR, PERMIT, "922337203685477", OTHER_PERMIT],
        ],
        key: "{downloads}:timeout",
        dialect: "redisson-permits",
        changes: &[&[&["ZREM", "{downloads}:timeout", PERMIT]]],
        listens: &[("SUBSCRIBE", "redisson_sc:{downloads}", &["5"])],
        after: &[(&["GET", "downloads"], "5"), (&["EXISTS", "{downloads}:timeout"], "0")],
        ..LOCK
    },
    Case {
        name: "python-redis-lock",
        set_up: &[&["SET", "lock:report", PYTHON], &["RPUSH", "lock-signal:report", "1", "1"]],
        key: "lock:report",
        dialect: "python-redis-lock",
        holder: Some(PYTHON),
        changes: &[&[&["SET", "lock:report", "AAECAwQFBgcICQoLDA0ODxAR"]], &[&["DEL", "lock:report"]]],
        after: &[
            (&["EXISTS", "lock:report"], "0"),
            (&["LRANGE", "lock-signal:report", "0", "-1"], "1"),
            (&["EVAL", HAS_TTL, "1", "lock-signal:report"], "1"),
        ],
        ..LOCK
    },
    Case {
        name: "Spring",
        set_up: &[&["SET", "app:eu:orders", UUID, "PX", "60000"]],
        key: "app:eu:orders",
        dialect: "spring",
        holder: Some(UUID),
        changes: &[&[&["SET", "app:eu:orders", OTHER_UUID]]],
        listens: &[
            ("PSUBSCRIBE", "app-channel:*", &["app:eu:orders"]),
            ("PSUBSCRIBE", "app:eu-channel:*", &["app:eu:orders"]),
            ("PSUBSCRIBE", "other-channel:*", &[]),
        ],
        after: &[(&["DBSIZE"], "0")],
    },
    Case {
        name: "Symfony, the writer",
        set_up: &[&["ZADD", "invoice-lock", FAR, SYMFONY, FAR, "__write__"], &["PEXPIRE", "invoice-lock", "300000"]],
        key: "invoice-lock",
        dialect: "symfony",
        holder: Some(SYMFONY),
        changes: &[&[&["ZREM", "invoice-lock", SYMFONY], &["ZADD", "invoice-lock", FAR, OTHER_SYMFONY]]],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
    Case {
        name: "Symfony, all readers",
        set_up: &[&["ZADD", "invoice-lock", FAR, SYMFONY, FAR, OTHER_SYMFONY], &["PEXPIRE", "invoice-lock", "300000"]],
        key: "invoice-lock",
        dialect: "symfony",
        changes: &[&[&["ZREM", "invoice-lock", SYMFONY]], &[&["ZADD", "invoice-lock", FAR, "another"]]],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
    Case {
        name: "Symfony, one reader",
        set_up: &[&["ZADD", "invoice-lock", FAR, SYMFONY, FAR, OTHER_SYMFONY], &["PEXPIRE", "invoice-lock", "300000"]],
        key: "invoice-lock",
        dialect: "symfony",
        holder: Some(SYMFONY),
        changes: &[&[&["ZREM", "invoice-lock", SYMFONY]]],
        after: &[(&["ZRANGE", "invoice-lock", "0", "-1"], OTHER_SYMFONY)],
        ..LOCK
    },
    Case {
        name: "sidekiq-unique-jobs: five keys, two sorted sets, and whoever waits is woken",
        set_up: SIDEKIQ,
        key: "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
        dialect: "sidekiq-unique-jobs",
        holder: Some("b4a577edbccf1d805744efa9"),
        changes: &[
            &[
                &["DEL", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED"],
                &[
                    "HSET",
                    "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
                    "ffa577edbccf1d805744efa9",
                    "1749999000.5",
                ],
            ],
            // The same job, run again.
            &[&[
                "HSET",
                "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
                "b4a577edbccf1d805744efa9",
                "1749999001.5",
            ]],
            &[&["DEL", "uniquejobs:digests"], &["SET", "uniquejobs:digests", "x"]],
        ],
        after: SIDEKIQ_GONE,
        ..LOCK
    },
    Case {
        name: "sidekiq-unique-jobs as a whole",
        set_up: SIDEKIQ,
        key: "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
        dialect: "sidekiq-unique-jobs",
        changes: &[&[&["HSET", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED", "ffa577edbccf1d805744efa9", "1"]]],
        after: SIDEKIQ_GONE,
        ..LOCK
    },
    Case {
        name: "one of two holders of sidekiq-unique-jobs",
        set_up: &[
            &["SET", "uniquejobs:0123456789abcdef0123456789abcdef", "b4a577edbccf1d805744efa9"],
            &[
                "HSET",
                "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
                "b4a577edbccf1d805744efa9",
                "1749999000.5",
                "ffa577edbccf1d805744efa9",
                "1749999000.5",
            ],
            &["ZADD", "uniquejobs:digests", "1749999000.5", "uniquejobs:0123456789abcdef0123456789abcdef"],
        ],
        key: "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED",
        dialect: "sidekiq-unique-jobs",
        holder: Some("b4a577edbccf1d805744efa9"),
        changes: &[&[&["HDEL", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED", "b4a577edbccf1d805744efa9"]]],
        after: &[
            (&["HKEYS", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED"], "ffa577edbccf1d805744efa9"),
            (&["EXISTS", "uniquejobs:0123456789abcdef0123456789abcdef"], "1"),
            (&["EXISTS", "uniquejobs:0123456789abcdef0123456789abcdef:QUEUED"], "0"),
            (&["ZCARD", "uniquejobs:digests"], "1"),
        ],
        ..LOCK
    },
    Case {
        name: "redis-semaphore of Ruby: the token goes back to the pool",
        set_up: &[
            &["HSET", "SEMAPHORE:gateway:GRABBED", "0", "1749999000.5", "1", "1749999000.5"],
            &["RPUSH", "SEMAPHORE:gateway:AVAILABLE", "2"],
        ],
        key: "SEMAPHORE:gateway:GRABBED",
        dialect: "redis-semaphore",
        holder: Some("0"),
        changes: &[
            &[&["HSET", "SEMAPHORE:gateway:GRABBED", "0", "1749999009.5"]],
            &[&["HDEL", "SEMAPHORE:gateway:GRABBED", "0"]],
            &[&["DEL", "SEMAPHORE:gateway:AVAILABLE"], &["SET", "SEMAPHORE:gateway:AVAILABLE", "x"]],
        ],
        after: &[
            (&["HKEYS", "SEMAPHORE:gateway:GRABBED"], "1"),
            (&["LRANGE", "SEMAPHORE:gateway:AVAILABLE", "0", "-1"], "0,2"),
        ],
        ..LOCK
    },
    Case {
        name: "Huey: results live in the same hash",
        set_up: &[&[
            "HSET",
            "huey.results.shop",
            "shop.lock.nightly",
            "1",
            "5f6c0b9e-2a3d-4f60-9c1e-0a1b2c3d4e5f",
            "x",
        ]],
        key: "huey.results.shop",
        dialect: "huey",
        holder: Some("shop.lock.nightly"),
        changes: &[&[&["HDEL", "huey.results.shop", "shop.lock.nightly"]], &[&["DEL", "huey.results.shop"]]],
        after: &[(&["HKEYS", "huey.results.shop"], "5f6c0b9e-2a3d-4f60-9c1e-0a1b2c3d4e5f")],
        ..LOCK
    },
    Case {
        name: "Medallion writer",
        set_up: &[&["SET", "stock.writer", MEDALLION, "PX", "30000"]],
        key: "stock.writer",
        dialect: "medallion",
        holder: Some(MEDALLION),
        changes: &[&[&["SET", "stock.writer", OTHER_MEDALLION]]],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
    Case {
        name: "one Medallion reader of two",
        set_up: &[&["SADD", "stock.readers", MEDALLION, OTHER_MEDALLION], &["PEXPIRE", "stock.readers", "30000"]],
        key: "stock.readers",
        dialect: "medallion",
        holder: Some(MEDALLION),
        changes: &[&[&["SREM", "stock.readers", MEDALLION]]],
        after: &[(&["SMEMBERS", "stock.readers"], OTHER_MEDALLION)],
        ..LOCK
    },
    Case {
        name: "node-redlock",
        set_up: &[&["SET", "locks:account", "96da70f7716f27d278a5218544df37fd", "PX", "30000"]],
        key: "locks:account",
        dialect: "redlock",
        holder: Some("96da70f7716f27d278a5218544df37fd"),
        changes: &[
            &[&["SET", "locks:account", "96da70f7716f27d278a5218544df37fe"]],
            &[&["DEL", "locks:account"], &["HSET", "locks:account", "96da70f7716f27d278a5218544df37fd", "1"]],
        ],
        after: &[(&["DBSIZE"], "0")],
        ..LOCK
    },
];

const SIDEKIQ: &[Line] = &[
    &["SET", "uniquejobs:0123456789abcdef0123456789abcdef", "b4a577edbccf1d805744efa9"],
    &["SET", "uniquejobs:0123456789abcdef0123456789abcdef:INFO", "{}"],
    &["RPUSH", "uniquejobs:0123456789abcdef0123456789abcdef:PRIMED", "b4a577edbccf1d805744efa9"],
    &["HSET", "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED", "b4a577edbccf1d805744efa9", "1749999000.5"],
    &["ZADD", "uniquejobs:digests", "1", "uniquejobs:0123456789abcdef0123456789abcdef", "2", "uniquejobs:other"],
    &["ZADD", "uniquejobs:expiring_digests", "1", "uniquejobs:0123456789abcdef0123456789abcdef"],
];

const SIDEKIQ_GONE: &[(Line, &str)] = &[
    (&["KEYS", "uniquejobs:0*"], "uniquejobs:0123456789abcdef0123456789abcdef:QUEUED"),
    (&["LRANGE", "uniquejobs:0123456789abcdef0123456789abcdef:QUEUED", "0", "-1"], "1"),
    (&["EVAL", HAS_TTL, "1", "uniquejobs:0123456789abcdef0123456789abcdef:QUEUED"], "1"),
    (&["ZRANGE", "uniquejobs:digests", "0", "-1"], "uniquejobs:other"),
    (&["EXISTS", "uniquejobs:expiring_digests"], "0"),
];

/// An answer as one word.
fn answer(value: &Value) -> String {
    match value {
        Value::Nil => "nil".into(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Array(items) => items.iter().map(answer).collect::<Vec<_>>().join(","),
        other => format!("{other:?}"),
    }
}

fn is_done(performed: &Performed) -> bool {
    matches!(performed.outcome, Outcome::Done { .. })
}

fn is_refused(performed: &Performed) -> bool {
    matches!(performed.outcome, Outcome::Refused(_))
}

fn set_up(server: &Server, case: &Case) {
    server.cli(&["FLUSHALL"]);
    case.set_up.iter().for_each(|line| drop(server.cli(line)));
}

#[tokio::test]
async fn a_release_does_what_the_library_would_do_and_nothing_else() {
    let server = Server::start();
    let shards = has((7, 0), "sharded channels");
    let mut acting = Acting::on(&server).await;
    for case in CASES {
        let name = case.name;
        let listens = case.listens.iter().filter(|(how, ..)| shards || *how != "SSUBSCRIBE");
        let mut listeners: Vec<_> =
            listens.map(|(how, channel, told)| (Listener::on(&server, how, channel), *told)).collect();
        let told = Some(case.dialect);
        for change in case.changes {
            set_up(&server, case);
            let lock = acting.see(case.key.as_bytes(), told).await.unwrap_or_else(|| panic!("{name} is no lock"));
            change.iter().for_each(|line| drop(server.cli(line)));
            let before = server.everything();
            let refused = acting.free(&lock, case.holder.map(str::as_bytes)).await;
            assert!(is_refused(&refused), "{name} after {change:?}: {refused:?}");
            assert_eq!(server.everything(), before, "{name} after {change:?}");
            for (listener, _) in &mut listeners {
                assert_eq!(listener.heard(&server), [""; 0], "{name} after {change:?}");
            }
        }
        set_up(&server, case);
        let lock = acting.see(case.key.as_bytes(), told).await.unwrap_or_else(|| panic!("{name} is no lock"));
        assert_eq!(lock.dialect, case.dialect, "{name}");
        let freed = acting.free(&lock, case.holder.map(str::as_bytes)).await;
        let woken: usize = listeners.iter().map(|(_, told)| told.len()).sum();
        assert_eq!(freed.outcome, Outcome::Done { woken: woken as u64, silent: None }, "{name}");
        for (line, expected) in case.after {
            assert_eq!(answer(&server.ask::<Value, _>(line)), *expected, "{name}: {line:?}");
        }
        for (listener, told) in &mut listeners {
            assert_eq!(listener.heard(&server), *told, "{name}");
        }
    }
}

const QUEUE: &str = "redisson_lock_queue:{lock:fair}";
const DEADLINES: &str = "redisson_lock_timeout:{lock:fair}";

/// A fair lock whose first waiter in the queue died with its deadline far ahead.
fn fair_with_a_deaf_head(server: &Server) {
    server.cli(&["HSET", "lock:fair", A, "1"]);
    server.cli(&["PEXPIRE", "lock:fair", "30000"]);
    server.cli(&["RPUSH", QUEUE, B, C]);
    server.cli(&["ZADD", DEADLINES, FAR, B, FAR, C]);
}

#[tokio::test]
async fn a_waiter_that_hears_nothing_leaves_the_fair_queue() {
    let server = Server::start();
    fair_with_a_deaf_head(&server);
    let mut second = Listener::on(&server, "SUBSCRIBE", &format!("redisson_lock__channel:{{lock:fair}}:{C}"));
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:fair", None).await.expect("a lock");
    let dead = [B.as_bytes().to_vec()];
    let asked = Freeing { holder: Some(A.as_bytes()), dead_waiters: &dead, force: false };
    let plan = plan::free(&lock, asked, acting.clock.now()).expect("a plan");
    assert_eq!(acting.perform(&plan).await.outcome, Outcome::Done { woken: 1, silent: None });
    assert_eq!(second.heard(&server), ["0"]);
    assert_eq!(server.ask::<Vec<String>, _>(&["LRANGE", QUEUE, "0", "-1"]), [C]);
    assert_eq!(server.ask::<Vec<String>, _>(&["ZRANGE", DEADLINES, "0", "-1"]), [C]);
}

#[test]
fn the_command_finds_the_deaf_waiters_by_itself() {
    let server = Server::start();
    fair_with_a_deaf_head(&server);
    let mut second = Listener::on(&server, "SUBSCRIBE", &format!("redisson_lock__channel:{{lock:fair}}:{C}"));
    let ran = lockscope().args(["release", "lock:fair", "--holder", A, "--yes", "-u", &server.url()]).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert!(said.contains("told 1 waiter;"), "{said}");
    assert_eq!(second.heard(&server), ["0"]);
    assert_eq!(server.ask::<Vec<String>, _>(&["LRANGE", QUEUE, "0", "-1"]), [C]);
}

/// What Redisson does when a lock is taken: listens, and tries again each time it is told.
fn redisson_waiter(
    server: &Server,
    channel: String,
    take: &'static str,
    key: &'static str,
    id: &'static str,
) -> thread::JoinHandle<()> {
    let mut listener = Listener::on(server, "SUBSCRIBE", &channel);
    let mut connection = server.connection();
    thread::spawn(move || {
        let mut attempt = || -> bool {
            redis::cmd("EVAL").arg(take).arg(1).arg(key).arg(id).query(&mut connection).expect("an answer")
        };
        while !attempt() {
            listener.next();
        }
    })
}

const TAKE: &str = "if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
    redis.call('HSET', KEYS[1], ARGV[1], 1) return 1";
const TAKE_IN_TURN: &str = "local queue = 'redisson_lock_queue:{' .. KEYS[1] .. '}'
    if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('LINDEX', queue, 0) ~= ARGV[1] then return 0 end
    redis.call('LPOP', queue) redis.call('HSET', KEYS[1], ARGV[1], 1) return 1";

#[tokio::test]
async fn a_waiter_of_redisson_takes_the_lock_that_was_freed() {
    let server = Server::start();
    // Without a TTL a waiter relies on the message alone.
    server.cli(&["HSET", "lock:a", A, "1"]);
    let waiter = redisson_waiter(&server, "redisson_lock__channel:{lock:a}".into(), TAKE, "lock:a", B);
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:a", None).await.expect("a lock");
    assert!(is_done(&acting.free(&lock, Some(A.as_bytes())).await));
    wait_until("the waiter has the lock", SOON, || server.ask(&["HEXISTS", "lock:a", B]));
    waiter.join().unwrap();
}

#[tokio::test]
async fn the_first_living_waiter_of_a_fair_lock_takes_it() {
    let server = Server::start();
    server.cli(&["HSET", "lock:fair", A, "1"]);
    server.cli(&["RPUSH", QUEUE, "dead", B, C]);
    server.cli(&["ZADD", DEADLINES, "1", "dead", FAR, B, FAR, C]);
    let channel = |id: &str| format!("redisson_lock__channel:{{lock:fair}}:{id}");
    let first = redisson_waiter(&server, channel(B), TAKE_IN_TURN, "lock:fair", B);
    let second = redisson_waiter(&server, channel(C), TAKE_IN_TURN, "lock:fair", C);
    let mut acting = Acting::on(&server).await;
    for (holder, next, waiter) in [(A, B, first), (B, C, second)] {
        let lock = acting.see(b"lock:fair", None).await.expect("a lock");
        assert!(is_done(&acting.free(&lock, Some(holder.as_bytes())).await));
        waiter.join().unwrap();
        assert!(server.ask::<bool, _>(&["HEXISTS", "lock:fair", next]));
    }
}

fn blocked(server: &Server, command: &str) -> bool {
    server.ask::<String, _>(&["CLIENT", "LIST"]).contains(&format!("cmd={command}"))
}

#[test]
fn a_client_blocked_on_a_ruby_semaphore_gets_the_token() {
    let server = Server::start();
    server.cli(&["HSET", "SEMAPHORE:gateway:GRABBED", "0", "1749999000.5"]);
    let mut connection = server.connection();
    let waiter = thread::spawn(move || -> (String, String) {
        redis::cmd("BLPOP").arg("SEMAPHORE:gateway:AVAILABLE").arg(30).query(&mut connection).expect("a token")
    });
    wait_until("a blocked client", SOON, || blocked(&server, "blpop"));
    let ran = lockscope()
        .args(["release", "SEMAPHORE:gateway:GRABBED", "--holder", "0", "--yes", "-u", &server.url()])
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stdout));
    assert_eq!(waiter.join().unwrap().1, "0");
    assert!(!server.ask::<bool, _>(&["EXISTS", "SEMAPHORE:gateway:GRABBED"]));
}

#[tokio::test]
async fn a_waiter_of_python_redis_lock_wakes_up_where_a_bare_del_leaves_it_hanging() {
    let server = Server::start();
    let Some(library) = Library::python("python_redis_lock", &server) else { return };
    let holder = library.acquire_forever("orders");
    let waiter = library.attempt("forever", "orders", Duration::ZERO);
    wait_until("a blocked client", SOON, || blocked(&server, "blpop"));
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:orders", None).await.expect("a lock");
    assert_eq!(lock.dialect, "python-redis-lock");
    assert!(is_done(&acting.free(&lock, holder.token.as_deref().map(str::as_bytes)).await));
    let second = waiter.taken();
    assert_eq!(second.token, server.ask(&["GET", "lock:orders"]));

    let third = library.attempt("forever", "orders", Duration::ZERO);
    wait_until("a blocked client", SOON, || blocked(&server, "blpop"));
    server.cli(&["DEL", "lock:orders"]);
    // That nothing happens can only be waited for.
    thread::sleep(Duration::from_secs(1));
    assert!(blocked(&server, "blpop") && !server.ask::<bool, _>(&["EXISTS", "lock:orders"]), "nobody told it");
    server.cli(&["LPUSH", "lock-signal:orders", "1"]);
    assert_eq!(third.taken().token, server.ask(&["GET", "lock:orders"]));
}

fn sample(server: &Server, name: &str) -> Sample {
    let (_, create) = ALL.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no sample {name}"));
    create(&mut server.connection())
}

#[tokio::test]
async fn the_lock_of_a_bullmq_job_is_freed_by_force_only() {
    let server = Server::start();
    let sample = sample(&server, "bullmq");
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(&sample.key, None).await.expect("a lock");
    let before = server.everything();
    let plan = plan::free(&lock, Freeing::default(), acting.clock.now()).expect("a plan");
    let refused = acting.perform(&plan).await;
    assert!(is_refused(&refused) && refused.outcome.why().unwrap().contains("--force"), "{refused:?}");
    assert_eq!(server.everything(), before);

    let holder = String::from_utf8(sample.holders[0].token.clone()).unwrap();
    let run = |more: &[&str]| {
        let mut command = lockscope();
        command.args(["release", "bull:mail:1:lock", "--holder", &holder, "--yes", "-u", &server.url()]).args(more);
        command.output().unwrap()
    };
    let ran = run(&[]);
    assert_eq!(ran.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("--force"), "{ran:?}");
    assert_eq!(server.everything(), before);
    let ran = run(&["--force"]);
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "bull:mail:1:lock"]));
    assert!(server.ask::<bool, _>(&["EXISTS", "bull:mail:1"]), "the job stays");
}

#[tokio::test]
async fn what_an_operator_must_know_is_in_the_plan() {
    let server = Server::start();
    let acting = Acting::on(&server).await;
    for (name, words) in [
        ("RedLock.net", "creates the key again within half of its lease"),
        ("redsync", "creates the key again when it next extends"),
        ("redlock-rb", "may create the key again"),
        ("hangfire", "without pause"),
        ("shedlock", "stays on purpose"),
        ("node-redlock", "several independent servers"),
        ("spring", "Java lock"),
        ("huey", "does not store who holds"),
        ("sidekiq-unique-jobs", "a second one like it"),
        ("redisson semaphore", "one too many"),
    ] {
        let sample = sample(&server, name);
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await.expect("a lock");
        let plan = acting.plan_free(&lock, None);
        assert!(plan.hazards.iter().any(|hazard| hazard.contains(words)), "{name}: {:?}", plan.hazards);
    }
}

/// All other string locks: compare and delete.
#[tokio::test]
async fn a_string_lock_is_compared_and_deleted() {
    let server = Server::start();
    let acting = Acting::on(&server).await;
    for name in [
        "redis-py",
        "django-redis",
        "celery-once",
        "redbeat",
        "node-redlock",
        "redsync",
        "bsm/redislock",
        "rslock",
        "pottery",
        "RedLock.net",
        "redlock-py",
        "redlock-rb",
        "shedlock",
        "laravel lock",
        "medallion",
        "stackexchange",
        "hangfire",
        "celery-singleton",
        "resque-scheduler",
        "redis-semaphore of npm, mutex",
        "plain",
    ] {
        let sample = sample(&server, name);
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await.expect("a lock");
        let plan = acting.plan_free(&lock, Some(&sample.holders[0].token));
        let conditions = plan.conditions();
        let mut conditions = conditions.split(" and ");
        assert!(conditions.next().is_some_and(|value| value.starts_with("GET ")), "{name}");
        // Of holders that have the same token each time, the lease too; and nobody sleeps who would have to be woken.
        let known = |clause: &str| {
            clause.starts_with("its lease ends when it did") || clause.starts_with("no client is blocked")
        };
        assert!(conditions.all(known), "{name}: {}", plan.conditions());
        let commands = plan.commands();
        assert_eq!(commands[0], format!("DEL {}", lockscope::base::text::visible(&sample.key)), "{name}");
        // Where the library is a guess, those of Spring are told, if it can be one of its locks: nobody else minds.
        let of_spring = |command: &String| command.starts_with("PUBLISH ") && command.contains("-channel:");
        assert!(commands[1..].iter().all(of_spring), "{name}: {commands:?}");
        assert!(commands.len() == 1 || lock.dialect_confidence < 0.8, "{name}: {commands:?}");
    }
}

#[test]
fn waiters_of_a_library_that_was_only_the_second_guess_wake_up() {
    let server = Server::start();
    let Some(library) = Library::python("python_redis_lock", &server) else { return };
    // With an id of its own a lock of python-redis-lock looks like any other.
    server.cli(&["SET", "lock:orders", "batch-importer"]);
    let waiters: Vec<_> = (0..3).map(|_| library.attempt("forever", "orders", Duration::ZERO)).collect();
    let waiting = || server.ask::<String, _>(&["CLIENT", "LIST"]).matches("cmd=blpop").count();
    wait_until("three blocked clients", SOON, || waiting() == 3);
    let shown = lockscope()
        .args(["release", "lock:orders", "--holder", "batch-importer", "--dry-run", "-u", &server.url()])
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("(plain") && shown.contains("LPUSH lock-signal:orders 1"), "{shown}");
    let ran = lockscope()
        .args(["release", "lock:orders", "--holder", "batch-importer", "--yes", "-u", &server.url()])
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stdout));
    for left in [2, 1, 0] {
        // Each of them has it in turn.
        wait_until("one more has the lock", SOON, || {
            waiting() == left && server.ask::<bool, _>(&["EXISTS", "lock:orders"])
        });
        if left > 0 {
            let token: String = server.ask(&["GET", "lock:orders"]);
            let ran = lockscope()
                .args(["release", "lock:orders", "--holder", &token, "--yes", "-u", &server.url()])
                .output()
                .unwrap();
            assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stdout));
        }
    }
    drop(waiters);
}

#[test]
fn waiters_that_came_while_somebody_decided_are_not_left_asleep() {
    let server = Server::start();
    let desk = common::Desk::at(&server);
    server.cli(&["SET", "lock:orders", "batch-importer"]);
    let shown = desk.run(&["release", "lock:orders", "--holder", "batch-importer", "--dry-run", "--json"]);
    assert_eq!(shown.json()["commands"], serde_json::json!(["DEL lock:orders"]), "nobody waits, nobody is woken");
    assert!(shown.json()["conditions"].as_str().unwrap().contains("no client is blocked"), "{shown:?}");
}

#[tokio::test]
async fn a_plan_made_while_nobody_waited_is_refused_once_somebody_does() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    server.cli(&["SET", "lock:orders", "batch-importer"]);
    let lock = acting.see(b"lock:orders", None).await.expect("a lock");
    let plan = acting.plan_free(&lock, Some(b"batch-importer"));
    let mut connection = server.connection();
    let waiter = thread::spawn(move || -> redis::RedisResult<(String, String)> {
        redis::cmd("BLPOP").arg("lock-signal:orders").arg(60).query(&mut connection)
    });
    wait_until("a blocked client", SOON, || blocked(&server, "blpop"));
    let refused = acting.perform(&plan).await;
    assert!(is_refused(&refused) && refused.outcome.why().unwrap().contains("blocked"), "{refused:?}");
    assert!(server.ask::<bool, _>(&["EXISTS", "lock:orders"]));
    let lock = acting.see(b"lock:orders", None).await.expect("a lock");
    assert!(is_done(&acting.free(&lock, Some(b"batch-importer")).await));
    assert_eq!(waiter.join().unwrap().unwrap().1, "1");
}

#[test]
fn a_lock_that_may_be_of_spring_is_freed_with_its_message() {
    let server = Server::start();
    let desk = common::Desk::at(&server);
    for (key, registry) in
        [("lock:orders", "lock"), ("order-locks:17", "order-locks"), ("app:eu:orders-lock", "app:eu")]
    {
        server.cli(&["SET", key, UUID, "PX", "60000"]);
        let mut waiter = Listener::on(&server, "PSUBSCRIBE", &format!("{registry}-channel:*"));
        let ran = desk.run(&["release", key, "--holder", UUID, "--yes", "--json"]);
        assert_eq!((ran.code, &ran.json()["woke"]), (0, &1.into()), "{ran:?}");
        assert_eq!(waiter.heard(&server), [key]);
    }
}

#[tokio::test]
async fn whoever_may_not_wake_a_library_that_is_only_a_guess_frees_all_the_same_and_says_so() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "op", "reset", "on", ">pw", "~lock:*", "resetchannels", "&redisson*", "+@all"]);
    let mut acting = Acting::as_user(&server, "op:pw@").await;
    server.cli(&["SET", "lock:orders", UUID, "PX", "60000"]);
    let lock = acting.see(b"lock:orders", None).await.expect("a lock");
    let freed = acting.free(&lock, Some(UUID.as_bytes())).await;
    assert!(matches!(&freed.outcome, Outcome::Done { silent: Some(_), .. }), "{freed:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:orders"]));
}
