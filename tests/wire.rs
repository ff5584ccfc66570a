//! Locks as their libraries write them, command by command, on a real server that is watched: what is said of them is
//! what the library means.

mod common;

use std::time::Duration;

use common::judged::{DUTY, ready, until, view};
use common::{Feed, Server, engine};
use lockscope::dialects::Recogniser;
use lockscope::engine::{Engine, Options};
use lockscope::lock::Mode;
use lockscope::model::{HeldIs, LockView, State};
use lockscope::sources::pace::Pace;
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(30);

const WRITER: &str = "WEB-04_912_0b5e7c1a94f24d3b8e6a2f1c9d7b3a50";
const READER: &str = "WEB-05_913_f3a9c07be15d28466cb1709e5ad2488f";
const THREAD: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57";
const PERMIT: &[u8] = b"\x00\x9f\x13\xfe5678abcdef\xff\x01";

/// Medallion's attempt to write: its mark keeps readers out until they have left.
const TRY_TO_WRITE: &str = "local writer = redis.call('get', KEYS[1])
    if writer == false or writer == ARGV[1] .. '_WRITERWAITING' then
        if redis.call('scard', KEYS[2]) == 0 then
            redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
            return 1
        end
        redis.call('set', KEYS[1], ARGV[1] .. '_WRITERWAITING', 'px', ARGV[2])
    end
    return 0";
const DELETE_IF_EQUAL: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/// Follows what is found without a word of the user, from before anything happens.
async fn follow(server: &Server) -> Engine {
    let options = Options::following(Recogniser::default(), Pace::Fast);
    ready(engine::followed(server, Feed::Notifications, options).await).await
}

fn findings(lock: &LockView) -> Vec<&'static str> {
    lock.findings.iter().map(|finding| finding.name).collect()
}

#[tokio::test]
async fn a_waiting_writer_that_gets_its_lock_is_no_second_holder() {
    let server = Feed::Notifications.server();
    let mut engine = follow(&server).await;
    server.cli(&["SADD", "stock.readers", READER]);
    server.cli(&["PEXPIRE", "stock.readers", "30000"]);
    let attempt = ["EVAL", TRY_TO_WRITE, "2", "stock.writer", "stock.readers", WRITER, "30000"];
    assert_eq!(server.ask::<u8, _>(&attempt), 0);
    until(&mut engine, "stock.writer", "is only waited for", |lock| lock.verdict.state == State::Free).await;
    assert_eq!(server.ask::<u8, _>(&attempt), 0);
    server.cli(&["SREM", "stock.readers", READER]);
    assert_eq!(server.ask::<u8, _>(&attempt), 1);
    let lock = until(&mut engine, "stock.writer", "is held", |lock| !lock.holders.is_empty()).await;
    assert_eq!((lock.verdict.state, findings(&lock)), (State::Held, vec![]), "{:?}", lock.verdict);
    assert_eq!(lock.renewals.map_or(0, |renewals| renewals.count), 0);
}

#[tokio::test]
async fn a_failed_attempt_that_cleans_up_after_itself_has_outlived_nothing() {
    let server = Feed::Notifications.server();
    let mut engine = follow(&server).await;
    engine.sample_by(Some(DUTY));
    server.cli(&["SET", "lock:invoice", "T0NIT0NIT0NIT0NIT0NIMQ==", "NX", "PX", "30000"]);
    until(&mut engine, "lock:invoice", "is held", |lock| lock.verdict.state == State::Held).await;
    // redsync: each failed attempt sends the release of its own token.
    let began = Instant::now();
    while view(&engine, "lock:invoice").and_then(|lock| lock.tries).is_none_or(|tries| tries.failures < 40) {
        assert!(began.elapsed() < PATIENCE, "no attempt was seen");
        let token = format!("{:022}==", began.elapsed().as_nanos());
        server.cli(&["SET", "lock:invoice", &token, "NX", "PX", "8000"]);
        server.cli(&["EVAL", DELETE_IF_EQUAL, "1", "lock:invoice", &token]);
        engine.run_for(Duration::from_millis(5)).await;
    }
    // A release that works shows what the script is for.
    let teach = || {
        server.cli(&["SET", "lock:other", "T1NIT0NIT0NIT0NIT0NIMQ==", "NX", "PX", "8000"]);
        server.cli(&["EVAL", DELETE_IF_EQUAL, "1", "lock:other", "T1NIT0NIT0NIT0NIT0NIMQ=="]);
    };
    for number in 0..150 {
        teach();
        server.cli(&["EVAL", DELETE_IF_EQUAL, "1", "lock:invoice", &format!("{number:022}==")]);
        engine.run_for(Duration::from_millis(20)).await;
    }
    let lock = view(&engine, "lock:invoice").unwrap();
    assert!(!findings(&lock).contains(&"outlived") && lock.verdict.state != State::Split, "{:?}", lock.verdict);
    // The same of one that held it.
    server.cli(&["SET", "lock:invoice", "T2NIT0NIT0NIT0NIT0NIMQ==", "PX", "300"]);
    until(&mut engine, "lock:invoice", "ran out", |lock| lock.verdict.state == State::Free).await;
    let began = Instant::now();
    while view(&engine, "lock:invoice").is_none_or(|lock| !findings(&lock).contains(&"outlived")) {
        assert!(began.elapsed() < PATIENCE, "the late release was not told");
        teach();
        server.cli(&["EVAL", DELETE_IF_EQUAL, "1", "lock:invoice", "T2NIT0NIT0NIT0NIT0NIMQ=="]);
        engine.run_for(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_permit_of_redisson_past_its_end_is_free_and_no_leak() {
    let server = Feed::Notifications.server();
    let mut engine = follow(&server).await;
    server.cli(&["SET", "uploads", "4"]);
    let end = |ms: u64| (server_ms(&server) + ms).to_string().into_bytes();
    let zadd = |end: Vec<u8>| [b"ZADD".to_vec(), b"{uploads}:timeout".to_vec(), end, PERMIT.to_vec()];
    server.cli(&zadd(end(1_500)));
    let held = until(&mut engine, "{uploads}:timeout", "is out", |lock| lock.holders.len() == 1).await;
    assert_eq!((held.verdict.state, held.mode), (State::Held, Mode::Permit), "{:?}", held.verdict);
    assert!(held.ttl.remaining().is_some_and(|left| left <= Duration::from_millis(1_500)), "{:?}", held.ttl);
    let free = until(&mut engine, "{uploads}:timeout", "is free", |lock| lock.verdict.state == State::Free).await;
    assert_eq!((free.holders.len(), findings(&free)), (0, vec![]));
    assert_eq!(server.ask::<u8, _>(&["EXISTS", "{uploads}:timeout"]), 1, "nobody has cleaned up");
    let listed = Feed::Notifications.ls(&server, &[]);
    let listed = listed["locks"].as_array().unwrap().iter().find(|lock| lock["key"] == "{uploads}:timeout").cloned();
    assert!(listed.is_none_or(|lock| lock["state"] == "free"));
}

#[tokio::test]
async fn a_semaphore_of_medallion_lasts_as_long_as_its_lease_and_not_three_times() {
    let server = Feed::Notifications.server();
    let mut engine = follow(&server).await;
    let script = "redis.call('zadd', KEYS[1], ARGV[1], ARGV[2]) return redis.call('pexpire', KEYS[1], ARGV[3])";
    let end = (server_ms(&server) + 2_000).to_string();
    server.cli(&["EVAL", script, "1", "exports-lock-slots", &end, WRITER, "6000"]);
    let held = until(&mut engine, "exports-lock-slots", "is held", |lock| lock.lease_ms.is_some()).await;
    assert_eq!(held.verdict.state, State::Held);
    assert!(held.lease_ms.is_some_and(|ms| (1_800..=2_100).contains(&ms)), "{:?}", held.lease_ms);
    until(&mut engine, "exports-lock-slots", "is free", |lock| lock.verdict.state == State::Free).await;
    assert!(server.ask::<i64, _>(&["PTTL", "exports-lock-slots"]) > 1_000, "its key is still there");
}

#[tokio::test]
async fn a_group_lock_is_renewed_by_hset_and_pexpire() {
    let server = Feed::Notifications.server();
    let mut engine = follow(&server).await;
    let (end, count) = (format!("jack:{THREAD}:expire_time"), format!("jack:{THREAD}:lock_count"));
    let renew = "redis.call('hset', KEYS[1], ARGV[1], ARGV[2]) return redis.call('pexpire', KEYS[1], ARGV[3])";
    let ends = |ms: u64| (server_ms(&server) + ms).to_string();
    let take = "redis.call('hset', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], 1)
        return redis.call('pexpire', KEYS[1], 3000)";
    server.cli(&["EVAL", take, "1", "class-lock", "jack", THREAD, &end, &ends(3_000), &count]);
    until(&mut engine, "class-lock", "is held", |lock| lock.verdict.state == State::Held).await;
    for beat in 1..=3 {
        engine.run_for(Duration::from_millis(1_000)).await;
        server.cli(&["EVAL", renew, "1", "class-lock", &end, &ends(3_000), "3000"]);
        let renewed = move |lock: &LockView| lock.renewals.as_ref().is_some_and(|renewals| renewals.count == beat);
        until(&mut engine, "class-lock", "is renewed", renewed).await;
    }
    let lock = view(&engine, "class-lock").unwrap();
    let period = lock.renewals.and_then(|renewals| renewals.period_ms).expect("a period");
    assert!((900..=1_400).contains(&period), "{period}");
}

#[tokio::test]
async fn a_count_of_permits_is_held_by_nobody_of_that_number() {
    let server = Feed::Notifications.server();
    let mut engine = follow(&server).await;
    // dramatiq's limiter: the key stays, and 0 means free.
    server.cli(&["SET", "distributed-mutex", "1", "PX", "900000", "NX"]);
    until(&mut engine, "distributed-mutex", "is held", |lock| lock.verdict.state == State::Held).await;
    let mut told = Vec::new();
    for count in ["2", "1", "0", "1", "2"] {
        server.cli(&["SET", "distributed-mutex", count, "PX", "900000"]);
        let words = format!("{count} permits are in use");
        let says = |lock: &LockView| lock.verdict.evidence.iter().any(|line| line.starts_with(&words));
        let lock = until(&mut engine, "distributed-mutex", &words, says).await;
        told.push((lock.verdict.state, lock.holders.len(), lock.mode, findings(&lock)));
    }
    let said = |state| (state, 0, Mode::Permit, vec![]);
    let (held, free) = (said(State::Held), said(State::Free));
    assert_eq!(told, [held.clone(), held.clone(), free, held.clone(), held]);
    // Redisson's semaphore: permits left, none of them now.
    server.cli(&["SET", "exports-mutex", "0"]);
    let lock = until(&mut engine, "exports-mutex", "is known", |_| true).await;
    assert_eq!((lock.dialect, lock.verdict.state, lock.holders.len()), ("redisson-semaphore", State::Held, 0));
    assert_eq!(lock.verdict.evidence[0], "0 permits are left, and who has the others is not stored");
    // A fencing counter, and another that nobody named so.
    server.cli(&["INCR", "lock:fencing-tokens"]);
    for _ in 0..3 {
        server.cli(&["INCR", "lock:served"]);
    }
    let lock = until(&mut engine, "lock:served", "is known", |lock| lock.mode == Mode::Permit).await;
    assert!(lock.verdict.state != State::NoTtl && lock.holders.is_empty(), "{:?}", lock.verdict);
    assert!(view(&engine, "lock:fencing-tokens").is_none());
}

#[tokio::test]
async fn a_scheduler_s_lock_and_a_fixed_lease_of_redisson_are_told_before_they_end() {
    let server = Feed::Notifications.server();
    // There before anybody looks: its lease is at least what is left, and the value of the first says when it was taken.
    let (seconds, _): (i64, i64) = server.ask(&["TIME"]);
    let value = format!("ADDED:{}@batch-3", lockscope::base::time::Time((seconds - 54) * 1_000).rfc3339());
    server.cli(&["SET", "job-lock:default:nightly", &value, "NX", "PX", "5500"]);
    server.cli(&["HSET", "invoice-lock", THREAD, "1"]);
    server.cli(&["PEXPIRE", "invoice-lock", "5500"]);
    let mut engine = follow(&server).await;
    let nightly = view(&engine, "job-lock:default:nightly").unwrap();
    assert_eq!(nightly.lease_is, Some(HeldIs::Estimated));
    // The clocks of the test and of the server may be a second apart.
    assert!(nightly.lease_ms.is_some_and(|ms| (58_000..=62_000).contains(&ms)), "{:?}", nightly.lease_ms);
    assert_eq!(view(&engine, "invoice-lock").unwrap().lease_is, Some(HeldIs::AtLeast));
    for (key, words) in [("job-lock:default:nightly", "left of "), ("invoice-lock", "left of at least 5")] {
        let began = Instant::now();
        while view(&engine, key).is_none_or(|lock| lock.verdict.state != State::Expiring) {
            assert!(began.elapsed() < PATIENCE, "{key} is {:?}", view(&engine, key).map(|lock| lock.verdict));
            engine.run_for(Duration::from_millis(50)).await;
        }
        let lock = view(&engine, key).unwrap();
        assert!(lock.verdict.evidence[0].contains(words), "{:?}", lock.verdict);
    }
}

#[test]
fn a_lease_is_at_least_what_is_left_at_the_first_look() {
    let server = Server::start();
    server.cli(&["SET", "lock:export", "worker-1", "NX", "PX", "86340000"]);
    let listed = Feed::Tracking.ls(&server, &[]);
    let lock = &listed["locks"][0];
    assert_eq!((&lock["lease_ms"], &lock["lease_is"]), (&86_400_000.into(), &"at-least".into()), "{lock}");
    let text = |arguments: &[&str]| {
        let output = common::lockscope().args(arguments).args(["-u", &server.url()]).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(text(&["show", "lock:export"]).contains("at least 1d00h"), "{}", text(&["show", "lock:export"]));
    // A unique job with a lock_ttl ends by itself, whatever is usual for its library.
    let digest = "uniquejobs:0123456789abcdef0123456789abcdef:LOCKED";
    server.cli(&["HSET", digest, "b4a577edbccf1d805744efa9", "1749999000.5"]);
    assert!(text(&["show", digest]).contains("it has no TTL, as is usual for its library"));
    server.cli(&["PEXPIRE", digest, "600000"]);
    let page = text(&["show", digest]);
    assert!(!page.contains("stays until") && page.contains("the TTL runs out"), "{page}");
}

#[tokio::test]
async fn values_that_say_taken_in_other_ways_are_locks() {
    let server = Feed::Notifications.server();
    server.cli(&[
        "SET",
        "lock:a",
        r#"{"holder":"3f2a8c00-1111-4222-8333-444455556666","resources":["a"]}"#,
        "EX",
        "60",
    ]);
    server.cli(&["SET", "lock:empty", "", "NX", "EX", "60"]);
    let end = format!("{}.25", server_ms(&server) / 1_000 + 60);
    server.cli(&["ZADD", "t:qslock:mails", &end, "worker-7"]);
    let mut engine = follow(&server).await;
    let owned = until(&mut engine, "lock:a", "is listed", |_| true).await;
    let client = owned.holders[0].client.as_ref().map(|client| client.visible());
    assert_eq!(client.as_deref(), Some("3f2a8c00-1111-4222-8333-444455556666"));
    assert_eq!(view(&engine, "lock:empty").unwrap().holders.len(), 1);
    let leases = view(&engine, "t:qslock:mails").unwrap();
    assert_eq!((leases.dialect, leases.mode, leases.holders.len()), ("leases", Mode::Permit, 1));
    assert!(leases.ttl.remaining().is_some_and(|left| left <= Duration::from_secs(61)), "{:?}", leases.ttl);
}

#[test]
fn lists_and_sets_that_come_and_go_under_lock_like_names_are_told_of_by_nobody() {
    let server = Feed::Notifications.server();
    let mut watching = Feed::Notifications.watch(&server, &[]);
    for number in 0..40 {
        let number = number.to_string();
        server.cli(&["RPUSH", "lock:queue", &number]);
        server.cli(&["LPOP", "lock:queue"]);
        server.cli(&["SADD", "locked-users", &number]);
        server.cli(&["SREM", "locked-users", &number]);
        server.cli(&["XADD", "block:log", "*", "n", &number]);
        server.cli(&["DEL", "block:log"]);
    }
    watching.fence(&server);
    let story = watching.story();
    assert!(!story.contains("queue") && !story.contains("users") && !story.contains("block"), "{story}");
}

#[test]
fn what_is_left_out_under_lock_like_names_is_told_with_the_reason() {
    let server = Server::start();
    server.cli(&["SET", "lock:order", "worker-1", "PX", "60000"]);
    server.cli(&["RPUSH", "lock:queue", "a"]);
    server.cli(&["SADD", "locked-users", "anna"]);
    server.cli(&["SET", "lock:attempts", "3"]);
    server.cli(&["HSET", "lock:settings", "colour", "blue"]);
    server.cli(&["SET", "redisson_unlock_latch:{lock:order}:0123456789abcdef0123456789abcdef", "0"]);
    let said = |arguments: &[&str]| {
        let output = common::lockscope().args(arguments).args(["-u", &server.url()]).output().expect("it runs");
        String::from_utf8(output.stderr).expect("text")
    };
    let reason = "5 keys with such names are not locks: 1 helper key of a lock, 1 list, 1 set, 1 hash of something else, \
        1 number that counts";
    assert!(said(&["ls", "-v"]).contains(reason), "{}", said(&["ls", "-v"]));
    assert!(!said(&["ls"]).contains("are not locks:"));
    assert!(said(&["discover"]).contains(reason), "{}", said(&["discover"]));
    // Helpers of a known library are not listed under a pattern of the user's own.
    server.cli(&["SET", "bull:mail:id", "1742"]);
    server.cli(&["SET", "bull:mail:17:lock", "3f2a8c00-1111-4222-8333-444455556666:1", "PX", "30000"]);
    let listed = Feed::Notifications.ls(&server, &["-p", "bull:*"]);
    assert_eq!(common::feed::held(&listed).len(), 1, "{listed}");
}

/// By the server's clock.
fn server_ms(server: &Server) -> u64 {
    let (seconds, micros): (u64, u64) = server.ask(&["TIME"]);
    seconds * 1_000 + micros / 1_000
}
