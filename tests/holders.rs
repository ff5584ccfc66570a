//! Holders judged by their connections, on a real server, with clients that use connections as the libraries do: a pool
//! taken in turn, one that keeps none, one that closes idle ones, one connection for a process.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::judged::{follow, said_within, until, until_state, view};
use common::{Feed, Server, Worker, lockscope};
use lockscope::model::{MatchedBy, Presence, State};
use redis::Connection;

const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end \
    return 0";

fn take(client: &mut Connection, key: &str, token: &str, lease_ms: u64) {
    redis::cmd("SET").arg(key).arg(token).arg("NX").arg("PX").arg(lease_ms).exec(client).unwrap();
}

fn renew(client: &mut Connection, key: &str, token: &str, lease_ms: u64) {
    redis::cmd("EVAL").arg(RENEW).arg(1).arg(key).arg(token).arg(lease_ms).exec(client).unwrap();
}

#[tokio::test]
async fn live_holders_without_a_kept_connection_are_no_orphans() {
    let server = Arc::new(Feed::Notifications.server());
    let mut engine = follow(&server).await;
    // As with redigo's MaxIdle 0: every command has a connection of its own. Half of the locks are renewed.
    let mut worker = Worker::new();
    for number in 0..6 {
        let (key, token, server) = (format!("lock:{number}"), format!("redsync-token-{number}"), server.clone());
        let mut taken = false;
        worker.repeat(Duration::from_millis(1_500), move || {
            let mut client = server.connection();
            match taken {
                false => take(&mut client, &key, &token, if number % 2 == 0 { 6_000 } else { 60_000 }),
                true if number % 2 == 0 => renew(&mut client, &key, &token, 6_000),
                true => {}
            }
            taken = true;
        });
    }
    let said = said_within(&mut engine, Duration::from_secs(12)).await;
    assert!(said.is_empty(), "{said:#?}");
    let known = (0..6).filter(|number| {
        let lock = view(&engine, &format!("lock:{number}")).expect("it is held");
        assert!(lock.presence.iter().all(|presence| presence.is_connected() != Some(true)), "{:?}", lock.presence);
        lock.connection.is_some()
    });
    assert!(known.count() > 0, "bursts have shown some of their connections");
}

#[tokio::test]
async fn a_pool_taken_in_turn_loses_connections_and_no_holder() {
    let server = Arc::new(Feed::Notifications.server());
    let mut engine = follow(&server).await;
    let mut worker = Worker::new();
    // Four connections in turn; every now and then the pool replaces one.
    let mut pool: Vec<Connection> = (0..4).map(|_| server.connection()).collect();
    let (mut turn, replaces) = (0, server.clone());
    take(&mut pool[0], "lock:report", "report-token", 8_000);
    worker.repeat(Duration::from_millis(700), move || {
        turn += 1;
        let place = turn % pool.len();
        if turn % 5 == 0 {
            pool[place] = replaces.connection();
        }
        renew(&mut pool[place], "lock:report", "report-token", 8_000);
    });
    let said = said_within(&mut engine, Duration::from_secs(12)).await;
    assert!(said.is_empty(), "{said:#?}");
    let lock = view(&engine, "lock:report").expect("it is held");
    let Some(Presence::Connected { by: MatchedBy::Token, more, .. }) = lock.presence.first() else {
        panic!("{:?}", lock.presence);
    };
    assert!(*more > 0, "it was seen on several");
}

#[tokio::test]
async fn a_connection_that_its_pool_closed_for_being_idle_makes_no_orphan() {
    let server = Arc::new(Feed::Notifications.server());
    let mut engine = follow(&server).await;
    let mut client = server.connection();
    // Taken, used for a while, idle for 10 s, closed: and the work goes on.
    let worker = std::thread::spawn(move || {
        for number in 0..20 {
            take(&mut client, "lock:export", "export-token", 60_000);
            redis::cmd("GET").arg(format!("page:{number}")).exec(&mut client).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        std::thread::sleep(Duration::from_secs(10));
    });
    until(&mut engine, "lock:export", "has lost its connection", |lock| {
        lock.connection.as_ref().is_some_and(|connection| connection.closed.is_some())
    })
    .await;
    let mut said = said_within(&mut engine, Duration::from_secs(6)).await;
    said.remove("lock:export orphan-suspected");
    assert!(said.is_empty(), "suspected at most: {said:#?}");
    worker.join().unwrap();
}

#[tokio::test]
async fn a_process_that_kept_its_connection_and_died_leaves_an_orphan() {
    let server = Arc::new(Feed::Notifications.server());
    let mut engine = follow(&server).await;
    let mut worker = Worker::new();
    let mut client = server.connection();
    redis::cmd("CLIENT").arg("SETNAME").arg("orders-1").exec(&mut client).unwrap();
    worker.repeat(Duration::from_millis(500), move || take(&mut client, "lock:order", "order-token", 60_000));
    let known = until(&mut engine, "lock:order", "is held by a client that was kept", |lock| {
        let kept = |connection: &lockscope::model::Connection| {
            connection.since.is_some_and(|since| lock.at.since(since) > Duration::from_secs(4))
        };
        lock.connection.as_ref().is_some_and(kept)
    });
    let known = known.await;
    assert_eq!(known.presence[0].connection().and_then(|one| one.name.clone()), Some("orders-1".into()));
    drop(worker);
    let orphan = until_state(&mut engine, "lock:order", State::Orphan).await;
    assert_eq!(orphan.presence[0].is_connected(), Some(false), "{:?}", orphan.presence);
    assert!(orphan.verdict.confidence < 0.9, "nothing but the connection tells: {:?}", orphan.verdict);
}

/// As Redisson's watchdog renews: up to 100 locks of an instance by one script.
const RENEW_ALL: &str = "for i, key in ipairs(KEYS) do if redis.call('HEXISTS', key, ARGV[i + 1]) == 1 then \
    redis.call('PEXPIRE', key, ARGV[1]) end end return 1";
const INSTANCE: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e";

#[tokio::test]
async fn all_locks_of_a_killed_process_get_the_same_verdict() {
    const LOCKS: usize = 120;
    const LEASE: u64 = 15_000;
    let server = Arc::new(Feed::Notifications.server());
    let mut client = server.connection();
    for number in 0..LOCKS {
        let (key, thread) = (format!("lock:{number}"), format!("{INSTANCE}:{number}"));
        redis::cmd("HSET").arg(&key).arg(thread).arg(1).exec(&mut client).unwrap();
        redis::cmd("PEXPIRE").arg(&key).arg(LEASE).exec(&mut client).unwrap();
    }
    let mut engine = follow(&server).await;
    let mut worker = Worker::new();
    worker.repeat(Duration::from_millis(1_500), move || {
        for batch in (0..LOCKS).collect::<Vec<_>>().chunks(100) {
            let mut script = redis::cmd("EVAL");
            script.arg(RENEW_ALL).arg(batch.len());
            let keys: Vec<String> = batch.iter().map(|number| format!("lock:{number}")).collect();
            let threads: Vec<String> = batch.iter().map(|number| format!("{INSTANCE}:{number}")).collect();
            script.arg(keys).arg(LEASE).arg(threads);
            script.exec(&mut client).unwrap();
        }
    });
    let healthy = said_within(&mut engine, Duration::from_secs(6)).await;
    assert!(healthy.is_empty(), "{healthy:#?}");
    drop(worker);
    // The second batch of the last round may have been renewed a moment after the first.
    until_state(&mut engine, "lock:0", State::Orphan).await;
    until_state(&mut engine, "lock:119", State::Orphan).await;
    let states: BTreeMap<&str, usize> = engine.snapshot().locks.iter().fold(BTreeMap::new(), |mut states, lock| {
        *states.entry(lock.verdict.state.name()).or_default() += 1;
        states
    });
    assert_eq!(states, BTreeMap::from([("orphan", LOCKS)]));
}

#[tokio::test]
async fn a_reader_that_died_is_an_orphan_and_beside_another_it_is_told() {
    const LEASE: u64 = 20_000;
    let server = Arc::new(Feed::Notifications.server());
    let mut engine = follow(&server).await;
    let reads = |client: &mut Connection, key: &str, thread: &str| {
        redis::cmd("HSET").arg(key).arg("mode").arg("read").arg(thread).arg(1).exec(client).unwrap();
        redis::cmd("PEXPIRE").arg(key).arg(LEASE).exec(client).unwrap();
    };
    let mut workers = Vec::new();
    for (number, keys) in [(1, vec!["lock:alone", "lock:both"]), (2, vec!["lock:both"])] {
        let mut client = server.connection();
        let thread = format!("{number}f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57");
        keys.iter().for_each(|key| reads(&mut client, key, &thread));
        let mut worker = Worker::new();
        worker.repeat(Duration::from_millis(1_000), move || {
            for key in &keys {
                redis::cmd("EVAL").arg(RENEW_ALL).arg(1).arg(key).arg(LEASE).arg(&thread).exec(&mut client).unwrap();
            }
        });
        workers.push(worker);
    }
    let alone = until(&mut engine, "lock:alone", "is renewed by one reader", |lock| {
        lock.renewals.as_ref().is_some_and(|renewals| renewals.period_ms.is_some()) && lock.connection.is_some()
    });
    assert_eq!(alone.await.mode.name(), "read");
    let connected = |presence: &Presence| presence.is_connected() == Some(true);
    until(&mut engine, "lock:both", "has two holders that are known", |lock| {
        lock.presence.len() == 2 && lock.presence.iter().all(connected)
    })
    .await;
    let healthy = said_within(&mut engine, Duration::from_secs(4)).await;
    assert!(healthy.is_empty(), "{healthy:#?}");
    drop(workers.remove(0));
    until_state(&mut engine, "lock:alone", State::Orphan).await;
    let both = until(&mut engine, "lock:both", "has a dead holder", |lock| {
        lock.findings.iter().any(|finding| finding.name == "dead-holder")
    });
    let both = both.await;
    assert_eq!(both.verdict.state, State::Held, "the other one reads on");
    assert_eq!(both.findings[0].sentence.split(':').next(), Some("1 of its 2 holders is gone"));
}

#[tokio::test]
async fn show_and_ls_say_which_client_holds_it() {
    let server = Server::start();
    let mut client = server.connection();
    redis::cmd("CLIENT").arg("SETNAME").arg("orders-1").exec(&mut client).unwrap();
    take(&mut client, "lock:order", "orders-1", 600_000);
    take(&mut client, "lock:gone", "orders-7", 600_000);
    let run = |arguments: &[&str]| {
        let output = lockscope().args(arguments).args(["-u", &server.url(), "-p", "lock:*"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let page = run(&["show", "lock:order"]);
    let line = page.lines().find(|line| line.trim_start().starts_with("client ")).expect("it is always said");
    assert!(line.contains("(orders-1, ") && line.contains("; by its name"), "{line}");
    let page = run(&["show", "lock:gone"]);
    assert!(page.contains("client     no such client is connected"), "{page}");
    let shown: serde_json::Value = serde_json::from_str(&run(&["show", "lock:order", "--json"])).unwrap();
    let holder = &shown["holders"][0];
    assert_eq!((&holder["connected"], &holder["connection"]["name"]), (&true.into(), &"orders-1".into()));
    let listed: serde_json::Value = serde_json::from_str(&run(&["ls", "--json"])).unwrap();
    let of = |key: &str| listed["locks"].as_array().unwrap().iter().find(|lock| lock["key"] == key).unwrap();
    assert_eq!(of("lock:gone")["holders"][0]["connected"], serde_json::Value::Bool(false));
    assert_eq!(of("lock:order")["holders"][0]["connection"]["matched_by"], "name");
}
