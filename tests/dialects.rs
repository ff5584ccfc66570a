//! Every dialect on a real server: `lockscope ls --json` recognises each sample lock.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::samples::{ALL, Create, ExpectedHolder, Sample};
use common::{Library, Server, Taken, lockscope};
use serde_json::Value;

/// The locks that `ls` finds, by their keys.
fn listed(server: &Server, mappings: &[String]) -> BTreeMap<Vec<u8>, Value> {
    let mut command = lockscope();
    command.args(["-u", &server.url(), "ls", "--json"]);
    for mapping in mappings {
        command.args(["--dialect", mapping]);
    }
    let output = command.assert().success().get_output().stdout.clone();
    let document: Value = serde_json::from_slice(&output).expect("one JSON document on stdout");
    assert_eq!(document["schema"], "lockscope/1");
    assert_eq!(document["complete"], true);
    let locks = document["locks"].as_array().expect("a list of locks");
    locks.iter().map(|lock| (bytes(lock, "key"), lock.clone())).collect()
}

/// A field that may contain any bytes: text, or escaped with base64 beside it.
fn bytes(object: &Value, name: &str) -> Vec<u8> {
    match object[format!("{name}_base64")].as_str() {
        Some(encoded) => STANDARD.decode(encoded).expect("valid base64"),
        None => object[name].as_str().unwrap_or_else(|| panic!("{name} in {object}")).as_bytes().to_vec(),
    }
}

fn holders(lock: &Value) -> Vec<ExpectedHolder> {
    let text = |value: &Value| value.as_str().map(String::from);
    let holder = |holder: &Value| ExpectedHolder {
        token: bytes(holder, "token"),
        host: text(&holder["host"]),
        pid: holder["pid"].as_u64(),
        thread: text(&holder["thread"]).or_else(|| holder["thread"].as_u64().map(|thread| thread.to_string())),
        count: holder["count"].as_i64(),
    };
    let mut holders: Vec<_> = lock["holders"].as_array().expect("a list of holders").iter().map(holder).collect();
    holders.sort();
    holders
}

/// `NAME=GLOB` for a sample that can't be recognised by itself, with the glob's special characters escaped.
fn mapping(sample: &Sample) -> String {
    let key = std::str::from_utf8(&sample.key).expect("a text key");
    let glob: String = key.chars().flat_map(|c| if "*?[]\\".contains(c) { vec!['\\', c] } else { vec![c] }).collect();
    format!("{}={glob}", sample.dialect)
}

/// What is wrong with the reading of a sample.
fn complaints(name: &str, sample: &Sample, locks: &BTreeMap<Vec<u8>, Value>) -> Vec<String> {
    let Some(lock) = locks.get(&sample.key) else { return vec![format!("{name}: not listed")] };
    let mut complaints = Vec::new();
    if lock["dialect"] != sample.dialect {
        complaints.push(format!("{name}: read as {}, not {}", lock["dialect"], sample.dialect));
    }
    if lock["mode"] != sample.mode {
        complaints.push(format!("{name}: mode {}, not {}", lock["mode"], sample.mode));
    }
    let mut expected = sample.holders.clone();
    expected.sort();
    let found = holders(lock);
    if found != expected {
        complaints.push(format!("{name}: held by {found:?}, not {expected:?}"));
    }
    for helper in &sample.helpers {
        if locks.contains_key(helper) {
            complaints.push(format!("{name}: its companion {} is listed", helper.escape_ascii()));
        }
    }
    complaints
}

/// Each sample alone on a server, so that nothing else helps to recognise it.
#[test]
fn each_lock_is_read_by_itself() {
    let server = Server::start();
    let mut connection = server.connection();
    let mut wrong = Vec::new();
    for (name, create) in ALL {
        server.cli(&["FLUSHALL"]);
        let sample = create(&mut connection);
        let mappings: Vec<String> = sample.told.then(|| mapping(&sample)).into_iter().collect();
        let locks = listed(&server, &mappings);
        wrong.extend(complaints(name, &sample, &locks));
        if locks.len() > 1 {
            let others = locks.keys().filter(|key| **key != sample.key).map(|key| key.escape_ascii().to_string());
            wrong.push(format!("{name}: lists {:?} too", others.collect::<Vec<_>>()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All of them together with keys that are not locks: exactly the samples are listed.
#[test]
fn all_locks_are_found_among_other_keys() {
    let server = Server::start();
    let mut connection = server.connection();
    other_keys(&server);
    let create = |(name, create): &(&'static str, Create)| (*name, create(&mut connection));
    let samples: Vec<(&str, Sample)> = ALL.iter().map(create).collect();
    let mappings: Vec<String> = samples.iter().filter(|(_, s)| s.told).map(|(_, s)| mapping(s)).collect();
    let locks = listed(&server, &mappings);
    let mut wrong: Vec<String> = samples.iter().flat_map(|(name, sample)| complaints(name, sample, &locks)).collect();
    for key in locks.keys().filter(|key| !samples.iter().any(|(_, sample)| sample.key == **key)) {
        wrong.push(format!("{} is listed and is no lock", key.escape_ascii()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A script under `tests/libs`, the name to give it, and the dialect its lock must be read as.
struct Real {
    library: fn(&str, &Server) -> Option<Library>,
    script: &'static str,
    scenario: &'static str,
    name: &'static str,
    dialect: &'static str,
    mode: &'static str,
}

const fn real(script: &'static str, scenario: &'static str, name: &'static str, dialect: &'static str) -> Real {
    Real { library: Library::python, script, scenario, name, dialect, mode: "exclusive" }
}

const REAL: [Real; 18] = [
    real("redis_py", "ttl", "orders-lock", "redis-py"),
    real("redis_py", "forever", "reindex-lock", "redis-py"),
    real("django_redis_lock", "ttl", "newsletter-lock", "redis-py"),
    real("celery_once_task", "ttl", "shop.bill", "celery-once"),
    real("redbeat_scheduler", "renew", "redbeat:", "redbeat"),
    real("python_redis_lock", "renew", "report", "python-redis-lock"),
    real("python_redis_lock", "forever", "migration", "python-redis-lock"),
    real("pottery_redlock", "ttl", "printer", "pottery"),
    real("redlock_py", "ttl", "thumbnails-lock", "redlock-py"),
    real("celery_singleton_task", "forever", "shop.import", "celery-singleton"),
    real("huey_hash", "forever", "shop/nightly", "huey"),
    real("huey_expire", "forever", "mail/digest", "huey"),
    Real { library: Library::node, ..real("redlock_v4", "ttl", "locks:account:4", "redlock") },
    Real { library: Library::node, ..real("redlock_v5", "ttl", "locks:account:5", "redlock") },
    Real { library: Library::node, ..real("redlock_v5", "renew", "locks:account:6", "redlock") },
    Real { library: Library::node, ..real("semaphore_mutex", "renew", "resource", "redis-semaphore-npm") },
    Real {
        library: Library::node,
        mode: "permit",
        ..real("semaphore_permit", "renew", "resource", "redis-semaphore-npm")
    },
    Real { library: Library::node, ..real("bullmq_job", "renew", "mail", "bullmq") },
];

/// Without dashes, like node-redlock's tokens.
fn looks_like_a_uuid4(token: &str) -> bool {
    let bytes = token.as_bytes();
    bytes.len() == 32 && bytes[12] == b'4' && matches!(bytes[16], b'8' | b'9' | b'a' | b'b')
}

#[test]
fn locks_of_the_real_libraries_are_read() {
    let server = Server::start();
    let ttl = Duration::from_secs(60);
    let begin = |real: &'static Real| {
        let library = (real.library)(real.script, &server)?;
        Some((real, library.attempt(real.scenario, real.name, ttl)))
    };
    let attempts: Vec<_> = REAL.iter().filter_map(begin).collect();
    let taken: Vec<(&Real, Taken)> = attempts.into_iter().map(|(real, attempt)| (real, attempt.taken())).collect();
    // One token of redlock-py in fifteen looks like redislock's, and a lock of pottery with such a long lease looks
    // like RedLock.net's.
    let mut mappings = vec!["redlock-py=thumbnails-lock".to_string(), "pottery=redlock:printer".to_string()];
    // One random hex token in 64 looks like a UUID.
    let by_chance = |taken: &Taken| taken.token.as_ref().is_some_and(|token| looks_like_a_uuid4(token));
    mappings
        .extend(taken.iter().filter(|(_, taken)| by_chance(taken)).map(|(_, taken)| format!("redlock={}", taken.key)));
    let locks = listed(&server, &mappings);
    for (real, taken) in &taken {
        let lock = locks.get(taken.key.as_bytes()).unwrap_or_else(|| panic!("{} is not listed", taken.key));
        assert_eq!((&lock["dialect"], &lock["mode"]), (&real.dialect.into(), &real.mode.into()), "{}", taken.key);
        let found = holders(lock);
        assert_eq!(found.len(), 1, "{}", taken.key);
        if let Some(token) = &taken.token {
            assert_eq!(found[0].token, token.as_bytes(), "{}", taken.key);
        }
        assert_eq!(lock["ttl_ms"].is_null(), taken.ttl.is_none(), "{}", taken.key);
    }
    assert_eq!(locks.len(), taken.len(), "the libraries' other keys are no locks: {:?}", locks.keys());
}

#[test]
fn a_lock_of_the_real_rslock_is_read() {
    let server = Server::start();
    let manager = rslock::LockManager::new(vec![server.url()]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let lock = runtime.block_on(manager.lock("orders-lock", Duration::from_secs(30))).expect("the lock is free");
    let locks = listed(&server, &[]);
    let found = &locks[b"orders-lock".as_slice()];
    assert_eq!(found["dialect"], "rslock");
    assert_eq!(holders(found)[0].token, lock.val);
}

/// Keys of an ordinary application, some with names similar to a lock's.
fn other_keys(server: &Server) {
    server.cli(&["SET", "session:1f0c", r#"{"user": 7}"#]);
    server.cli(&["SET", "blocked-users", "17"]);
    server.cli(&["SET", "clock", "2026-01-01T00:00:00Z"]);
    server.cli(&["SET", "cache:lock-settings", r#"{"timeout": 5}"#]);
    server.cli(&["HSET", "user:7", "name", "Ada", "visits", "12"]);
    server.cli(&["HSET", "lock-statistics", "acquired", "1200", "failed", "31"]);
    server.cli(&["ZADD", "leaderboard", "12", "ada", "9", "grace"]);
    server.cli(&["RPUSH", "queue:unlock-requests", "a", "b"]);
    server.cli(&["SADD", "books.authors", "ada", "grace"]);
    server.cli(&["SET", "visits", "1200"]);
}
