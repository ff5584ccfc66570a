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
