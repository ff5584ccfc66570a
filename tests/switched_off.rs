//! The comparisons that random sequences do not reach, and those that a delayed write depends on: with each of them the
//! write is refused, without it the wrong thing is done. The switch is process-wide and exists in debug builds only.
#![cfg(debug_assertions)]

mod common;

use std::time::Duration;

use common::Server;
use common::acting::Acting;
use common::engine::{follow, held};
use common::feed::Feed;
use lockscope::actions::{Freeing, Journal, Kept, Outcome, Performed, Plan, comparisons, plan};
use lockscope::app::Since;
use lockscope::sources::pace::Pace;

/// Whether undo succeeds, with all comparisons and without this one.
async fn with_and_without(acting: &mut Acting, kept: &Kept, without: &'static str) -> (bool, bool) {
    let with = undo(acting, kept).await;
    comparisons::switch_off(Some(without));
    let switched_off = undo(acting, kept).await;
    comparisons::switch_off(None);
    (with, switched_off)
}

async fn undo(acting: &mut Acting, kept: &Kept) -> bool {
    match kept.plan(acting.clock.now()) {
        Ok(plan) => matches!(acting.perform(&plan).await.outcome, Outcome::Done { .. }),
        Err(_) => false,
    }
}

/// Whether the plan is performed, with everything compared and without this.
async fn performed_with_and_without(acting: &mut Acting, plan: &Plan, without: &'static str) -> (bool, bool) {
    let with = acting.perform(plan).await;
    comparisons::switch_off(Some(without));
    let switched_off = acting.perform(plan).await;
    comparisons::switch_off(None);
    [with, switched_off].map(|performed| matches!(performed.outcome, Outcome::Done { .. })).into()
}

/// A plan that was kept in a file is performed after a thread of Redisson has given the lock back and taken it anew, as
/// the only holder or as one of two readers.
async fn next_hold(server: &Server, acting: &mut Acting, mode: Option<&str>, without: &'static str) -> (bool, bool) {
    const THREAD: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57";
    const OTHER: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9";
    let take = |thread: &str, lease: &str| {
        server.cli(&["HSET", "lock:t", thread, "1"]);
        if let Some(mode) = mode {
            server.cli(&["HSET", "lock:t", mode, "read"]);
            server.cli(&["SET", &format!("{{lock:t}}:{thread}:rwlock_timeout:1"), "1", "PX", lease]);
        }
        server.cli(&["PEXPIRE", "lock:t", "30000"]);
    };
    server.cli(&["FLUSHALL"]);
    take(THREAD, "20000");
    if mode.is_some() {
        take(OTHER, "30000");
    }
    server.cli(&["PEXPIRE", "lock:t", if mode.is_some() { "30000" } else { "20000" }]);
    let lock = acting.see(b"lock:t", None).await.expect("a lock");
    let kept = serde_json::to_string(&acting.plan_free(&lock, Some(THREAD.as_bytes()))).expect("a plan to keep");
    let plan: Plan = serde_json::from_str(&kept).expect("the same plan");
    server.cli(&["HDEL", "lock:t", THREAD]);
    take(THREAD, "30000");
    performed_with_and_without(acting, &plan, without).await
}

async fn freed(acting: &mut Acting, key: &str) -> Performed {
    let lock = acting.see(key.as_bytes(), None).await.expect("a lock");
    acting.free(&lock, None).await
}

/// The console's watch saw that somebody held the lock between the release and its undo.
async fn held_since(acting: &mut Acting, comparison: &'static str) -> (bool, bool) {
    let server = Server::notifying(&[]);
    let mut acting = Acting { place: acting.place.clone(), ..Acting::on(&server).await };
    server.cli(&["SET", "lock:h", "dead"]);
    let mut engine = follow(&server, Feed::Notifications, Pace::Fast).await;
    engine.run_until_inventory().await;
    let id = freed(&mut acting, "lock:h").await.id;
    server.cli(&["SET", "lock:h", "alive", "PX", "60000"]);
    server.cli(&["DEL", "lock:h"]);
    server.cli(&["SET", "lock:fence", "f"]);
    while !held(&engine).iter().any(|(key, _)| key == "lock:fence") {
        engine.run_for(Duration::from_millis(20)).await;
    }
    let kept = acting.kept(&id);
    let is_refused = || {
        let since = Since::of(&kept, engine.table(), engine.nodes().next().unwrap().watched_since, engine.clock.now());
        matches!(since, Since::Held(_))
    };
    assert!(is_refused(), "with everything compared");
    comparisons::switch_off(Some(comparison));
    let without = !is_refused() && undo(&mut acting, &kept).await;
    comparisons::switch_off(None);
    (false, without)
}

/// Whether a waiter that listens again is dropped from a fair queue, with everything compared and without this.
async fn dropped(server: &Server, acting: &mut Acting, comparison: &'static str) -> (bool, bool) {
    const QUEUE: &str = "redisson_lock_queue:{lock:q}";
    let _listener = common::Listener::on(server, "SUBSCRIBE", "redisson_lock__channel:{lock:q}:w");
    let mut dropped = Vec::new();
    for without in [None, Some(comparison)] {
        server.cli(&["FLUSHALL"]);
        server.cli(&["HSET", "lock:q", "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57", "1"]);
        server.cli(&["RPUSH", QUEUE, "w"]);
        let lock = acting.see(b"lock:q", None).await.expect("a lock");
        let asked = Freeing { dead_waiters: &[b"w".to_vec()], ..Freeing::default() };
        let plan = plan::free(&lock, asked, acting.clock.now()).expect("a plan");
        comparisons::switch_off(without);
        let performed = acting.perform(&plan).await;
        comparisons::switch_off(None);
        assert!(matches!(performed.outcome, Outcome::Done { .. }), "{performed:?}");
        dropped.push(!server.ask::<bool, _>(&["EXISTS", QUEUE]));
    }
    (dropped[0], dropped[1])
}

#[tokio::test]
async fn each_single_comparison_matters() {
    let (server, other) = (Server::start(), Server::start());
    let set = |server: &Server| drop(server.cli(&["SET", "lock:a", "t", "PX", "600000"]));
    for comparison in [comparisons::SINGLE, &["keyspace", "confirmed", "lease"]].concat() {
        server.cli(&["FLUSHALL"]);
        let mut acting = Acting::on(&server).await;
        let outcome = match comparison {
            "keyspace" => {
                set(&server);
                let id = freed(&mut acting, "lock:a").await.id;
                let kept = acting.kept(&id);
                let mut elsewhere = Acting::on(&other).await;
                elsewhere.journal = Journal::open_in(&acting.place).unwrap();
                with_and_without(&mut elsewhere, &kept, comparison).await
            }
            "confirmed" => {
                set(&server);
                server.cli(&["CLIENT", "PAUSE", "100000", "WRITE"]);
                let id = freed(&mut acting, "lock:a").await.id;
                server.cli(&["CLIENT", "UNPAUSE"]);
                server.cli(&["DEL", "lock:a"]);
                let kept = acting.kept(&id);
                with_and_without(&mut acting, &kept, comparison).await
            }
            "nobody_listens" => {
                server.cli(&["SET", "lock:n", "3"]);
                let lock = acting.see(b"lock:n", None).await.expect("a lock");
                let _listener = common::Listener::on(&server, "SUBSCRIBE", "redisson_sc:{lock:n}");
                let plan = acting.plan_free(&lock, None);
                performed_with_and_without(&mut acting, &plan, comparison).await
            }
            // Another lockscope, with records of its own, has put the reader back.
            "no_element" => {
                let readers =
                    ["WEB-02_910_5e2f4a3b8c6d7e8f9a0b1c2d3e4f5a6b", "WEB-03_911_0c119b8d7e8f9a0b1c2d5e2f4a3b8c6d"];
                let add = |reader: &str| drop(server.cli(&["SADD", "tariffs.readers", reader]));
                readers.iter().for_each(|reader| add(reader));
                server.cli(&["PEXPIRE", "tariffs.readers", "600000"]);
                let lock = acting.see(b"tariffs.readers", None).await.expect("a lock");
                let id = acting.free(&lock, Some(readers[0].as_bytes())).await.id;
                add(readers[0]);
                let kept = acting.kept(&id);
                with_and_without(&mut acting, &kept, comparison).await
            }
            "lease" => {
                for read_by in [None, Some("mode")] {
                    let outcome = next_hold(&server, &mut acting, read_by, comparison).await;
                    assert_eq!(outcome, (false, true), "{read_by:?}: with it, and without it");
                }
                (false, true)
            }
            "counter" => {
                server.cli(&["HSET", "lock:f", "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57", "1"]);
                let id = freed(&mut acting, "lock:f").await.id;
                server.cli(&["INCR", "redisson_lock_token:{lock:f}"]);
                let kept = acting.kept(&id);
                with_and_without(&mut acting, &kept, comparison).await
            }
            "unheard" => dropped(&server, &mut acting, comparison).await,
            "held_since" => held_since(&mut acting, comparison).await,
            other => panic!("nothing is told of {other}"),
        };
        assert_eq!(outcome, (false, true), "{comparison}: with it, and without it");
    }
}
