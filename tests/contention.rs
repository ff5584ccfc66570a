//! How many wait for a lock, counted on a real server, and what is made of it.

mod common;

use std::time::Duration;

use common::feed::Feed;
use common::{Server, engine, lockscope};
use lockscope::model::{NodeId, State};
use lockscope::pace::Pace;
use serde_json::Value;

const HOLDER: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57";
const PATIENCE: Duration = Duration::from_secs(20);

fn take(server: &Server, name: &str) {
    server.cli(&["HSET", name, HOLDER, "1"]);
    server.cli(&["PEXPIRE", name, "600000"]);
}

/// Processes that wait for the lock as Redisson does, for as long as the values live.
async fn waiters(server: &Server, name: &str, count: usize) -> Vec<redis::aio::PubSub> {
    let mut all = Vec::new();
    for _ in 0..count {
        let mut pubsub = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
        pubsub.subscribe(format!("redisson_lock__channel:{{{name}}}")).await.unwrap();
        all.push(pubsub);
    }
    all
}

fn listed(server: &Server, arguments: &[&str]) -> Vec<Value> {
    let output = lockscope().args(["ls", "--json", "-u", &server.url()]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["locks"].as_array().unwrap().clone()
}

#[tokio::test]
async fn ls_counts_who_waits_and_calls_a_crowd_contention() {
    let server = Server::start();
    for name in ["lock:crowd", "lock:pair", "lock:calm"] {
        take(&server, name);
    }
    server.cli(&["SET", "lock:string", "worker-1", "PX", "600000"]);
    server.cli(&["RPUSH", "redisson_lock_queue:{lock:fair}", "a:1", "b:2", "c:3", "d:4"]);
    take(&server, "lock:fair");
    let _waiters = (waiters(&server, "lock:crowd", 3).await, waiters(&server, "lock:pair", 2).await);
    let locks = listed(&server, &[]);
    let lock = |key: &str| locks.iter().find(|lock| lock["key"] == key).unwrap();
    let told = |key: &str| {
        let contention = &lock(key)["contention"];
        (
            lock(key)["state"].as_str().unwrap().to_string(),
            contention["waiters"].as_u64(),
            contention["waiters_source"].clone(),
        )
    };
    assert_eq!(told("lock:crowd"), ("contended".into(), Some(3), "subscribers".into()));
    assert_eq!(lock("lock:crowd")["evidence"][0], "3 processes are subscribed to its channel");
    assert_eq!(told("lock:pair"), ("held".into(), Some(2), "subscribers".into()));
    assert_eq!(told("lock:calm"), ("held".into(), Some(0), "subscribers".into()));
    assert_eq!(told("lock:fair"), ("contended".into(), Some(4), "queue".into()));
    assert_eq!(lock("lock:string")["contention"], Value::Null, "those who poll can't be seen, and are not nought");
    let keys = |arguments: &[&str]| -> Vec<String> {
        listed(&server, arguments).iter().map(|lock| lock["key"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(keys(&["--filter", "wait>2"]), ["lock:crowd", "lock:fair"]);
    assert_eq!(keys(&["--filter", "state:contended", "--sort", "wait"]), ["lock:fair", "lock:crowd"]);
}

#[tokio::test]
async fn what_may_not_be_counted_is_unknown() {
    let server = Server::start();
    take(&server, "lock:crowd");
    let _waiters = waiters(&server, "lock:crowd", 3).await;
    server.cli(&["ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-pubsub"]);
    let url = server.url().replace("redis://", "redis://poor:pw@");
    let output = lockscope().args(["ls", "--json", "-u", &url]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["locks"][0]["contention"], Value::Null);
    assert_eq!(document["locks"][0]["state"], "held");
}

#[tokio::test]
async fn the_count_follows_those_who_come_and_go() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    take(&server, "lock:crowd");
    let mut monitor = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    let mut waiting = waiters(&server, "lock:crowd", 4).await;
    for (leave, count, state) in [(0, 4, State::Contended), (3, 1, State::Held), (1, 0, State::Held)] {
        waiting.truncate(waiting.len() - leave);
        let began = tokio::time::Instant::now();
        loop {
            monitor.next().await;
            let (table, now) = (monitor.table(), monitor.clock.now());
            let view = table.lock_named(NodeId(0), b"lock:crowd").and_then(|lock| table.view(lock, now));
            if view
                .is_some_and(|view| view.waits.is_some_and(|waits| waits.count == count) && view.verdict.state == state)
            {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "never counted {count}");
        }
    }
}

/// Clients that want `lock:hot` at a steady rate, and count for themselves.
fn contend(server: &Server, stop: &std::sync::atomic::AtomicBool) -> (u64, Duration) {
    let mut conn = server.connection();
    let (began, mut failed) = (std::time::Instant::now(), 0);
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let answer: redis::Value =
            redis::cmd("SET").arg("lock:hot").arg("late").arg("NX").arg("PX").arg(1000).query(&mut conn).unwrap();
        failed += u64::from(answer == redis::Value::Nil);
        std::thread::sleep(Duration::from_millis(5));
    }
    (failed, began.elapsed())
}

fn contention(server: &Server, arguments: &[&str]) -> std::process::Output {
    lockscope().args(["contention", "-u", &server.url(), "-p", "lock:*"]).args(arguments).output().unwrap()
}

#[test]
fn the_command_tells_rates_within_their_own_margin() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    server.cli(&["SET", "lock:hot", "worker-1", "PX", "600000"]);
    server.cli(&["SET", "lock:calm", "worker-2", "PX", "600000"]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (output, (failed, took)) = std::thread::scope(|scope| {
        let client = scope.spawn(|| contend(&server, &stop));
        let output = contention(&server, &["--monitor", "--for", "6s", "--json"]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        (output, client.join().unwrap())
    });
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("looked at every command"), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (hot, calm) = (&document["locks"][0], &document["locks"][1]);
    assert_eq!((&hot["key"], &calm["key"]), (&"lock:hot".into(), &"lock:calm".into()), "hardest wanted first");
    let told = &hot["contention"];
    let number = |field: &str| told[field].as_f64().unwrap_or_else(|| panic!("{field} in {told}"));
    let truth = failed as f64 / took.as_secs_f64();
    let (rate, margin) = (number("failures_per_s"), number("failures_margin_per_s"));
    assert!((rate - truth).abs() <= margin, "{rate} ± {margin} against {truth}");
    assert!(rate > 10.0 && number("attempts_per_s") == rate, "{told}");
    assert_eq!(told["source"], "sampled");
    assert!((0.2..=0.8).contains(&number("coverage")), "{told}");
    assert_eq!(calm["contention"]["failures_per_s"], 0.0, "looked for, and none was there");
    assert!(calm["contention"]["failures_margin_per_s"].as_f64().unwrap() > 0.0);
    let sampling = &document["server"]["nodes"][0]["sampling"];
    assert_eq!((&sampling["state"], &sampling["judged"]), (&"on".into(), &true.into()));
}

#[tokio::test]
async fn without_consent_no_command_of_others_is_looked_at() {
    let server = Server::start();
    take(&server, "lock:crowd");
    server.cli(&["SET", "lock:string", "worker-1", "PX", "600000"]);
    let _waiters = waiters(&server, "lock:crowd", 3).await;
    let output = contention(&server, &["--for", "1s"]);
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("take --monitor"), "{said}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("KEY") && lines[1].starts_with("lock:crowd"), "{out}");
    assert!(lines[1].contains("3 subscribers"), "{out}");
    let words: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(words[words.len() - 4..], ["?", "?", "?", "?"], "unknown is no nought: {out}");
    let stats: String = server.ask(&["INFO", "commandstats"]);
    assert!(!stats.contains("cmdstat_monitor"), "{stats}");
    assert!(contention(&server, &["--for", "1s", "-q"]).stderr.is_empty());
}

#[test]
fn what_may_not_be_sampled_is_a_sentence_and_exit_code_3() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "poor", "on", ">open-sesame", "~*", "&*", "+@all", "-monitor"]);
    let url = server.url().replace("redis://", "redis://poor:open-sesame@");
    let output = lockscope().args(["contention", "--monitor", "-u", &url]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("may not run MONITOR") && !said.contains("sesame"), "{said}");
    let wrong = lockscope().args(["contention", "--for", "0s", "-u", &server.url()]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
