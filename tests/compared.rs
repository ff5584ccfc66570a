//! What is compared before a write: long values completely, the leases of tokens that return, the mode of a lock, and
//! the type of its key.

mod common;

use std::time::Duration;

use common::acting::Acting;
use common::engine::follow;
use common::feed::Feed;
use common::samples::ALL;
use common::{Desk, Server};
use lockscope::actions::{Outcome, Performed, Refusal, plan};
use lockscope::engine::Engine;
use lockscope::model::End;
use lockscope::sources::inspect::prove;
use lockscope::sources::pace::Pace;

const HOUR: Duration = Duration::from_secs(3_600);
const UUID: &str = "0b5e7c1a-94f2-4d3b-8e6a-2f1c9d7b3a50";
const A: &str = "3f2a8c00-1111-4222-8333-444455556666:57";
const FAR: &str = "99999999999999";
const SYMFONY: &str = "q6bGZ0cQ1m3yq8Vb0h9s5kXo2n7Jr4tLw1eUzPaYdcA=";
const OTHER_SYMFONY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn is_done(performed: &Performed) -> bool {
    matches!(performed.outcome, Outcome::Done { .. })
}

#[track_caller]
fn why(performed: &Performed) -> String {
    match &performed.outcome {
        Outcome::Refused(why) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

/// A value that is longer than what we read, with this last byte.
fn long(bytes: usize, last: u8) -> Vec<u8> {
    [&b"holder-7:"[..], &vec![b'x'; bytes - 10], &[last]].concat()
}

#[tokio::test]
async fn a_long_value_that_differs_in_its_last_byte_is_another_holder() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    for bytes in [512, 513, 1_000, 100_000, 1 << 20] {
        server.cli(&[b"SET", &b"lock:long"[..], &long(bytes, b'a')]);
        let lock = acting.see(b"lock:long", None).await.expect("a lock");
        let longer = plan::extend(&lock, None, HOUR, acting.clock.now()).expect("a plan");
        server.cli(&[b"SET", &b"lock:long"[..], &long(bytes, b'b')]);
        let refused = acting.free(&lock, None).await;
        assert!(why(&refused).contains("another holder now"), "{bytes}: {refused:?}");
        let refused = acting.perform(&longer).await;
        assert!(why(&refused).contains("another holder now"), "{bytes}: {refused:?}");
        assert_eq!(server.ask::<i64, _>(&["PTTL", "lock:long"]), -1, "{bytes}");
        server.cli(&[b"SET", &b"lock:long"[..], &long(bytes, b'a')]);
        let freed = acting.free(&lock, None).await;
        assert!(is_done(&freed), "{bytes}: {freed:?}");
    }
}

#[test]
fn a_value_too_long_to_be_compared_is_left_alone() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let value = long((1 << 20) + 1, b'a');
    server.cli(&[b"SET", &b"lock:huge"[..], &value]);
    let holder = String::from_utf8(value[..512].to_vec()).unwrap();
    for arguments in [
        &["release", "lock:huge", "--holder", &holder, "--yes"][..],
        &["extend", "lock:huge", "--holder", &holder, "--ttl", "1h", "--yes"],
        &["release", "lock:huge", "--holder", &holder, "--dry-run"],
    ] {
        let ran = desk.run(arguments);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.err.contains("1048577 bytes") && ran.err.contains("1048576"), "{}", ran.err);
    }
    let ran = desk.run(&["release", "-p", "lock:*", "--filter", "huge", "--yes"]);
    assert!(ran.code == 1 && ran.err.contains("1048577 bytes"), "{ran:?}");
    assert_eq!(server.ask::<i64, _>(&["STRLEN", "lock:huge"]), 1_048_577);
    assert_eq!(server.ask::<i64, _>(&["PTTL", "lock:huge"]), -1);
}

#[test]
fn the_commands_compare_long_values_whole() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let value = long(3_000, b'a');
    let holder = String::from_utf8(value[..512].to_vec()).unwrap();
    let set = || drop(server.cli(&[b"SET", &b"lock:long"[..], &value, b"PX", b"600000"]));
    set();
    let ran = desk.run(&["release", "lock:long", "--holder", &holder, "--dry-run"]);
    assert!(ran.code == 0 && ran.out.contains("SHA-1"), "{ran:?}");
    let whole = String::from_utf8(value.clone()).unwrap();
    assert_eq!(desk.run(&["extend", "lock:long", "--holder", &whole, "--ttl", "1h", "--yes"]).code, 0);
    assert_eq!(desk.run(&["release", "lock:long", "--holder", &whole, "--yes"]).code, 0);
    set();
    let ran = desk.run(&["release", "-p", "lock:*", "--filter", "lock:long", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:long"]));
}

/// The holder gives it back, and takes it again with another lease.
fn retake(server: &Server, key: &str, token: &str, lease: &[&str]) {
    server.cli(&["DEL", key]);
    server.cli(&[&["SET", key, token], lease].concat());
}

const WEAK: [&str; 6] = ["1", "locked", "true", "web-1", "web-1:4242", "ThreadPoolExecutor-0_3"];

#[tokio::test]
async fn a_new_hold_by_a_token_that_is_not_unique_is_left_alone() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    for token in WEAK {
        for (before, after, words) in [
            (&["PX", "30000"][..], &["PX", "60000"][..], "left when you looked"),
            (&["PX", "60000"], &["PX", "30000"], "left when you looked"),
            (&["PX", "30000"], &[], "it has no TTL now"),
            (&[], &["PX", "60000"], "it had no TTL when you looked"),
        ] {
            retake(&server, "lock:a", token, before);
            let lock = acting.see(b"lock:a", None).await.expect("a lock");
            let longer = plan::extend(&lock, None, HOUR, acting.clock.now()).expect("a plan");
            retake(&server, "lock:a", token, after);
            let left: i64 = server.ask(&["PTTL", "lock:a"]);
            let refused = acting.free(&lock, Some(token.as_bytes())).await;
            assert!(why(&refused).contains(words), "{token} {after:?}: {refused:?}");
            assert!(matches!(refused.outcome, Outcome::Refused(Refusal::AnotherLease(_))), "{refused:?}");
            let refused = acting.perform(&longer).await;
            assert!(matches!(refused.outcome, Outcome::Refused(_)), "{token} {after:?}: {refused:?}");
            let now: i64 = server.ask(&["PTTL", "lock:a"]);
            assert!(now == left || now <= left && now > left - 20_000, "{token} {after:?}: {now} of {left}");
        }
    }
}

#[tokio::test]
async fn the_same_lease_taken_again_by_such_a_token_is_another_one() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    retake(&server, "lock:a", "1", &["PX", "60000"]);
    let first: i64 = server.ask(&["PTTL", "lock:a"]);
    let lock = acting.see(b"lock:a", None).await.expect("a lock");
    common::wait_until("a moment", HOUR, || server.ask::<i64, _>(&["PTTL", "lock:a"]) < first - 50);
    retake(&server, "lock:a", "1", &["PX", "60000"]);
    let refused = acting.free(&lock, Some(b"1")).await;
    assert!(why(&refused).contains("taken again by the same token"), "{refused:?}");
    assert!(server.ask::<bool, _>(&["EXISTS", "lock:a"]));
}

#[tokio::test]
async fn a_hold_that_was_only_waited_for_is_freed_whatever_its_token() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    for token in WEAK {
        for lease in [&["PX", "60000"][..], &[]] {
            retake(&server, "lock:a", token, lease);
            let lock = acting.see(b"lock:a", None).await.expect("a lock");
            std::thread::sleep(Duration::from_millis(60));
            let freed = acting.free(&lock, Some(token.as_bytes())).await;
            assert!(is_done(&freed), "{token} {lease:?}: {freed:?}");
        }
    }
}

/// A thread of Redisson whose watchdog was seen at work: renewals on its beat explain a later end, a new hold is off it.
#[tokio::test]
async fn renewals_that_were_seen_explain_an_end_on_their_beat_and_no_other() {
    const LEASE_MS: i64 = 30_000;
    let server = Server::notifying(&[]);
    let mut acting = Acting::on(&server).await;
    let mut engine = follow(&server, Feed::Notifications, Pace::Fast).await;
    engine.run_until_inventory().await;
    let renew = || drop(server.cli(&["PEXPIRE", "lock:r", &LEASE_MS.to_string()]));
    server.cli(&["HSET", "lock:r", A, "1"]);
    renew();
    let seen = |engine: &Engine| {
        let (table, now) = (engine.table(), engine.clock.now());
        let lock = table.locks().find(|lock| lock.key.as_bytes() == b"lock:r")?;
        table.view(lock, now).filter(|view| view.renewals.as_ref().is_some_and(|renewals| renewals.count >= 5))
    };
    let mut lock = loop {
        engine.run_for(Duration::from_millis(400)).await;
        match seen(&engine) {
            Some(view) => break view,
            None => renew(),
        }
    };
    prove(&acting.topology, std::slice::from_mut(&mut lock)).await.expect("an answer");
    let every = lock.renewals.as_ref().and_then(|renewals| renewals.period_ms).expect("a rhythm") as i64;
    let Some(End::At { ms: end, .. }) = lock.proof.end else { panic!("{lock:?}") };
    let longer = plan::extend(&lock, None, HOUR, acting.clock.now()).expect("a plan");
    // Nothing is renewed to more than the lease: so late, three renewals can have come.
    let left = || server.ask::<i64, _>(&["PTTL", "lock:r"]);
    common::wait_until("the time of the renewals", HOUR, || left() < LEASE_MS - 3 * every);
    let ends_at = |end: i64| {
        server.cli(&["DEL", "lock:r"]);
        server.cli(&["HSET", "lock:r", A, "1"]);
        server.cli(&["PEXPIREAT", "lock:r", &end.to_string()]);
    };
    for off in [every / 2, every * 3 / 2, every * 5 / 2, every * 2 + every / 5, every * 3 - every / 5] {
        ends_at(end + off);
        for refused in [acting.free(&lock, None).await, acting.perform(&longer).await] {
            let why = why(&refused);
            assert!(
                why.contains("does not fit its renewals every") && why.contains("were left when you looked"),
                "{off} of {every}: {why}"
            );
        }
        assert!(server.ask::<bool, _>(&["EXISTS", "lock:r"]));
    }
    for periods in [3, 1] {
        ends_at(end + periods * every);
        let freed = acting.free(&lock, None).await;
        assert!(is_done(&freed), "{periods} of {every}: {freed:?}");
    }
}

/// In a group lock and in a read-write lock each holder has a lease of its own.
#[tokio::test]
async fn the_next_hold_of_one_of_several_holders_is_left_alone() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    let count = format!("jack:{A}:lock_count");
    let take_item = |end: &str| {
        server.cli(&["HSET", "lock:group", "jack", A, &format!("jack:{A}:expire_time"), end, &count, "1"]);
    };
    take_item(FAR);
    let lock = acting.see(b"lock:group", None).await.expect("a lock");
    take_item("99999999990000");
    let refused = acting.free(&lock, Some(count.as_bytes())).await;
    assert!(matches!(refused.outcome, Outcome::Refused(Refusal::AnotherLease(_))), "{refused:?}");
    assert!(is_done(&acting.perform(&acting.plan_free(&lock, None).even_if_renewed()).await));

    let timeout = format!("{{lock:rw}}:{A}:rwlock_timeout:1");
    let other = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9";
    let take_read = |lease: &str| drop(server.cli(&["SET", &timeout, "1", "PX", lease]));
    server.cli(&["HSET", "lock:rw", "mode", "read", A, "1", other, "1"]);
    server.cli(&["PEXPIRE", "lock:rw", "60000"]);
    take_read("30000");
    let lock = acting.see(b"lock:rw", None).await.expect("a lock");
    let longer = plan::extend(&lock, Some(A.as_bytes()), HOUR, acting.clock.now()).expect("a plan");
    take_read("45000");
    for refused in [acting.free(&lock, Some(A.as_bytes())).await, acting.perform(&longer).await] {
        assert!(matches!(refused.outcome, Outcome::Refused(Refusal::AnotherLease(_))), "{refused:?}");
    }
    let now = acting.see(b"lock:rw", None).await.expect("a lock");
    assert!(is_done(&acting.free(&now, Some(A.as_bytes())).await), "what was looked at again");
}

#[tokio::test]
async fn a_renewal_does_not_keep_a_unique_holder_s_lock_from_being_freed() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    retake(&server, "lock:a", UUID, &["PX", "30000"]);
    let lock = acting.see(b"lock:a", None).await.expect("a lock");
    server.cli(&["PEXPIRE", "lock:a", "90000"]);
    let freed = acting.free(&lock, Some(UUID.as_bytes())).await;
    assert!(is_done(&freed), "{freed:?}");
}

#[tokio::test]
async fn a_reader_that_became_the_writer_is_left_alone() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    server.cli(&["ZADD", "invoice-lock", FAR, SYMFONY, FAR, OTHER_SYMFONY]);
    let lock = acting.see(b"invoice-lock", Some("symfony")).await.expect("a lock");
    server.cli(&["ZREM", "invoice-lock", OTHER_SYMFONY]);
    server.cli(&["ZADD", "invoice-lock", FAR, "__write__"]);
    let before = server.everything();
    let refused = acting.free(&lock, Some(SYMFONY.as_bytes())).await;
    assert!(why(&refused).contains("in another way now"), "{refused:?}");
    assert_eq!(server.everything(), before);

    // The same for Redisson: a reader that became a writer may also read.
    let writes = format!("{A}:write");
    server.cli(&["HSET", "lock:rw", "mode", "read", A, "1"]);
    let lock = acting.see(b"lock:rw", None).await.expect("a lock");
    server.cli(&["HSET", "lock:rw", "mode", "write", &writes, "1"]);
    let before = server.everything();
    let refused = acting.free(&lock, Some(A.as_bytes())).await;
    assert!(why(&refused).contains("in another way now"), "{refused:?}");
    assert_eq!(server.everything(), before);
}

#[tokio::test]
async fn a_writer_that_became_a_reader_is_left_alone() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    server.cli(&["ZADD", "invoice-lock", FAR, SYMFONY, FAR, "__write__"]);
    let lock = acting.see(b"invoice-lock", Some("symfony")).await.expect("a lock");
    server.cli(&["ZREM", "invoice-lock", "__write__"]);
    let before = server.everything();
    let refused = acting.free(&lock, Some(SYMFONY.as_bytes())).await;
    assert!(matches!(refused.outcome, Outcome::Refused(_)), "{refused:?}");

    let writes = format!("{A}:write");
    server.cli(&["HSET", "lock:rw", "mode", "write", &writes, "1", A, "1"]);
    let lock = acting.see(b"lock:rw", None).await.expect("a lock");
    server.cli(&["HDEL", "lock:rw", &writes]);
    server.cli(&["HSET", "lock:rw", "mode", "read"]);
    let refused = acting.free(&lock, Some(writes.as_bytes())).await;
    assert!(matches!(refused.outcome, Outcome::Refused(_)), "{refused:?}");
    assert!(server.everything().len() == before.len() + 1);
}

#[test]
fn the_mark_of_a_writer_without_its_token_is_listed_and_can_be_freed() {
    let server = Server::start();
    let desk = Desk::at(&server);
    server.cli(&["ZADD", "invoice-lock", FAR, "__write__"]);
    server.cli(&["PEXPIRE", "invoice-lock", "300000"]);
    let ran = desk.run(&["ls", "--json"]);
    let locks = &ran.json()["locks"];
    assert_eq!((&locks[0]["key"], &locks[0]["dialect"]), (&"invoice-lock".into(), &"symfony".into()), "{}", ran.out);
    assert_ne!(locks[0]["state"], "free", "it keeps everybody out");
    let shown = desk.run(&["release", "invoice-lock", "--holder", "__write__", "--dry-run"]);
    assert!(shown.code == 0 && shown.out.contains("without its token"), "{shown:?}");
    let ran = desk.run(&["release", "invoice-lock", "--holder", "__write__", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "invoice-lock"]));
}

/// A key of each type in the place of the lock.
const TYPES: [(&str, &[&str]); 6] = [
    ("string", &["SET", "KEY", "x"]),
    ("hash", &["HSET", "KEY", "x", "1"]),
    ("list", &["RPUSH", "KEY", "x"]),
    ("set", &["SADD", "KEY", "x"]),
    ("zset", &["ZADD", "KEY", "1", "x"]),
    ("stream", &["XADD", "KEY", "*", "x", "1"]),
];

#[tokio::test]
async fn a_key_that_changed_its_type_is_told_as_what_it_became() {
    for (name, create) in ALL {
        let server = Server::start();
        let sample = create(&mut server.connection());
        let mut acting = Acting::on(&server).await;
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await.expect("a lock");
        let was = lock.type_name.clone();
        for (kind, command) in TYPES.iter().filter(|(kind, _)| *kind != was) {
            server.cli(&[&b"DEL"[..], &sample.key]);
            let command: Vec<&[u8]> =
                command.iter().map(|word| if *word == "KEY" { &sample.key[..] } else { word.as_bytes() }).collect();
            server.cli(&command);
            let expected = format!("the key is a {kind} now; you saw a {was}");
            let refused = acting.free(&lock, None).await;
            assert!(why(&refused).contains(&expected), "{name}: {refused:?}");
            if let Some(plan) = acting.plan_extend(name, &lock, Duration::from_secs(100_000)) {
                let refused = acting.perform(&plan).await;
                assert!(why(&refused).contains(&expected), "{name}: {refused:?}");
            }
        }
        server.cli(&[&b"DEL"[..], &sample.key]);
        let refused = acting.free(&lock, None).await;
        assert!(why(&refused).contains("is gone"), "{name}: {refused:?}");
    }
}
