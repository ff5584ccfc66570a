//! Undo puts back only what was surely freed, only where the library's own rule still has room, and only into the data
//! that it was taken from.

mod common;

use std::time::Duration;

use common::acting::Acting;
use common::{Server, wait_until};
use lockscope::actions::{Outcome, Performed};

const SOON: Duration = Duration::from_secs(30);
const A: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57";
const B: &str = "9b2d7c40-1111-4222-8333-444455556666:9";
const ONE: &str = "0b5e7c1a-94f2-4d3b-8e6a-2f1c9d7b3a50";
const TWO: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
const THREE: &str = "f3a9c07b-e15d-4846-9cb1-709e5ad2488f";
const ID1: &str = "web1_4711_0b5e7c1a94f24d3b8e6a2f1c9d7b3a50";
const ID2: &str = "web2_9_f3a9c07be15d28466cb1709e5ad2488f";
const ID3: &str = "web3_10_7c9e6679742540de944be07fc1f90ae7";
const DIGEST: &str = "uniquejobs:0123456789abcdef0123456789abcdef";
const SYMFONY1: &str = "q6bGZ0cQ1m3yq8Vb0h9s5kXo2n7Jr4tLw1eUzPaYdcA=";
const SYMFONY2: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

fn is_done(performed: &Performed) -> bool {
    matches!(performed.outcome, Outcome::Done { .. })
}

/// The server's time in milliseconds.
fn now(server: &Server) -> i64 {
    let (seconds, micros): (i64, i64) = server.ask(&["TIME"]);
    seconds * 1000 + micros / 1000
}

fn run(server: &Server, commands: &[&str]) {
    for command in commands {
        server.cli(&command.split(' ').collect::<Vec<_>>());
    }
}

/// Frees one hold, runs `meanwhile`, and tries to put it back. Returns whether that worked.
async fn undone(server: &Server, key: &str, holder: &str, meanwhile: impl FnOnce()) -> bool {
    let mut acting = Acting::on(server).await;
    let lock = acting.see(key.as_bytes(), None).await.unwrap_or_else(|| panic!("{key} is no lock"));
    let freed = acting.free(&lock, Some(holder.as_bytes())).await;
    assert!(is_done(&freed) && freed.undo.is_ok(), "{key}: {freed:?}");
    meanwhile();
    let before = server.everything();
    let back = match acting.kept(&freed.id).plan(acting.clock.now()) {
        Ok(plan) => is_done(&acting.perform(&plan).await),
        Err(_) => false,
    };
    assert!(back || server.everything() == before, "{key}: refused, and yet something was written");
    back
}

#[tokio::test]
async fn a_freed_reader_is_not_put_back_beside_a_writer() {
    let server = Server::start();
    let end = now(&server) + 600_000;
    let writer = format!("{B}:write");
    // The hash, and the writer that replaced it after the other reader left.
    let redisson = [format!("HSET rw mode read {A} 1 {B} 1"), "PEXPIRE rw 600000".into()];
    let write = ["DEL rw".to_string(), format!("HSET rw mode write {writer} 1"), "PEXPIRE rw 600000".into()];
    let medallion = [format!("SADD m.readers {ID1} {ID2}"), "PEXPIRE m.readers 600000".into()];
    let symfony = [format!("ZADD sy {end} {SYMFONY1} {end} {SYMFONY2}"), "PEXPIRE sy 600000".into()];
    let symfony_write = ["DEL sy".to_string(), format!("ZADD sy {end} {SYMFONY2} {end} __write__")];
    for (made, key, reader, since) in [
        (&redisson[..], "rw", A, &write[..]),
        (&medallion, "m.readers", ID1, &["DEL m.readers".to_string(), format!("SET m.writer {ID3} PX 600000")]),
        // A writer that waits for the last reader also keeps new readers out.
        (&medallion, "m.readers", ID1, &[format!("SET m.writer {ID3}_WRITERWAITING PX 600000")]),
        (&symfony, "sy", SYMFONY1, &symfony_write),
    ] {
        server.cli(&["FLUSHALL"]);
        let each = |commands: &[String]| commands.iter().for_each(|command| run(&server, &[command]));
        each(made);
        assert!(undone(&server, key, reader, || {}).await, "{key}: nobody came, it goes back");
        assert!(!undone(&server, key, reader, || each(since)).await, "{key}: a reader beside a writer");
    }
    // A hash that is held in a mode without readers.
    server.cli(&["FLUSHALL"]);
    run(&server, &[&format!("HSET rw mode read {A} 1"), "PEXPIRE rw 600000"]);
    assert!(!undone(&server, "rw", A, || run(&server, &[&format!("HSET rw {B} 1")])).await);
}

#[tokio::test]
async fn a_freed_writer_is_not_put_back_beside_readers() {
    let server = Server::start();
    let end = now(&server) + 600_000;
    let writer = format!("{A}:write");
    for (made, key, holder, since) in [
        (format!("HSET rw mode write {writer} 1"), "rw", &writer[..], format!("HSET rw mode read {B} 1")),
        (format!("SET m.writer {ID1} PX 600000"), "m.writer", ID1, format!("SADD m.readers {ID2}")),
        (format!("ZADD sy {end} {SYMFONY1} {end} __write__"), "sy", SYMFONY1, format!("ZADD sy {end} {SYMFONY2}")),
    ] {
        server.cli(&["FLUSHALL"]);
        run(&server, &[&made, &format!("PEXPIRE {key} 600000")]);
        assert!(undone(&server, key, holder, || {}).await, "{key}: nobody came, it goes back");
        assert!(!undone(&server, key, holder, || run(&server, &[&since])).await, "{key}: a writer beside readers");
    }
}

#[tokio::test]
async fn a_place_that_was_taken_since_is_not_given_twice() {
    let server = Server::start();
    let start = now(&server);
    let locked = format!("{DIGEST}:LOCKED");
    let document = r#"{"worker":"W","limit":2,"time":1749999000.5}"#;
    let end = start + 600_000;
    for (made, key, holder, since) in [
        // The score is when it was taken; the TTL of the key is the lease.
        (
            format!("ZADD semaphore:s {start} {ONE} {start} {TWO}"),
            "semaphore:s",
            ONE,
            format!("ZADD semaphore:s {start} {THREE}"),
        ),
        // The score is when it ends.
        (
            format!("ZADD permits-lock {end} {ID1} {end} {ID2}"),
            "permits-lock",
            ID1,
            format!("ZADD permits-lock {end} {ID3}"),
        ),
        (
            format!("HSET {locked} b4a577edbccf1d805744efa9 1749999000.5"),
            &locked[..],
            "b4a577edbccf1d805744efa9",
            format!("HSET {locked} c4a577edbccf1d805744efa9 1749999001.5"),
        ),
        // Version 9 stores the limit: one place of two is free, and then none.
        (
            format!("HSET {locked} b4a577edbccf1d805744efa9 {document} c4a577edbccf1d805744efa9 {document}"),
            &locked[..],
            "b4a577edbccf1d805744efa9",
            format!("HSET {locked} d4a577edbccf1d805744efa9 {document}"),
        ),
    ] {
        server.cli(&["FLUSHALL"]);
        run(&server, &[&made]);
        if !key.ends_with("LOCKED") {
            run(&server, &[&format!("PEXPIRE {key} 600000")]);
        }
        assert!(undone(&server, key, holder, || {}).await, "{key}: nobody came, it goes back");
        assert!(!undone(&server, key, holder, || run(&server, &[&since])).await, "{key}: one holder too many");
    }
    // By the stored limit one of two places was free before the release: one holder may come in between.
    server.cli(&["FLUSHALL"]);
    run(&server, &[&format!("HSET {locked} b4a577edbccf1d805744efa9 {document}")]);
    let since = format!("HSET {locked} d4a577edbccf1d805744efa9 {document}");
    assert!(undone(&server, &locked, "b4a577edbccf1d805744efa9", || run(&server, &[&since])).await);
    assert_eq!(server.ask::<u64, _>(&["HLEN", &locked]), 2);
}

#[tokio::test]
async fn those_whose_time_is_over_take_no_place() {
    let server = Server::start();
    let start = now(&server);
    let (end, over) = (start + 600_000, start - 1_000);
    // An ended permit stays in the set until somebody asks for a permit.
    run(&server, &[&format!("ZADD permits-lock {end} {ID1} {over} {ID2}"), "PEXPIRE permits-lock 600000"]);
    assert!(undone(&server, "permits-lock", ID1, || {}).await);
    let stays = format!("ZADD permits-lock {over} {ID3}");
    assert!(undone(&server, "permits-lock", ID1, || run(&server, &[&stays])).await, "it ended before it came");
    let lives = format!("ZADD permits-lock {end} {ID3}");
    assert!(!undone(&server, "permits-lock", ID1, || run(&server, &[&lives])).await);
}

#[tokio::test]
async fn a_hold_past_its_own_deadline_is_not_put_back() {
    let server = Server::start();
    let permit = "\\x00\\x9f\\x13\\xfe5678abcdef\\xff\\x01";
    let raw = lockscope::base::text::unescape(permit).unwrap();
    for (name, key, member) in [
        ("redisson", "{downloads}:timeout", &raw[..]),
        ("medallion", "permits-lock", ID1.as_bytes()),
        ("npm", "semaphore:s", ONE.as_bytes()),
        ("symfony", "sy", SYMFONY1.as_bytes()),
    ] {
        server.cli(&["FLUSHALL"]);
        let lease = 1_500;
        let start = now(&server);
        let end = start + lease;
        // Another holder's lease keeps the key alive; for npm the newest score shows the lease.
        let (score, other, ttl) = match name {
            "npm" => (start - 600_000 + lease, start, 600_000),
            _ => (end, start + 600_000, 600_000),
        };
        let second: Vec<u8> = match name {
            "redisson" => member.iter().rev().copied().collect(),
            "npm" => TWO.into(),
            "symfony" => SYMFONY2.into(),
            _ => ID2.into(),
        };
        let add = |score: i64, member: &[u8]| {
            server.cli(&[&b"ZADD"[..], key.as_bytes(), score.to_string().as_bytes(), member]);
        };
        add(score, member);
        add(other, &second);
        server.cli(&["SET", "downloads", "3"]);
        if name != "redisson" {
            server.cli(&["PEXPIRE", key, &ttl.to_string()]);
        }
        let mut acting = Acting::on(&server).await;
        let lock = acting.see(key.as_bytes(), None).await.unwrap_or_else(|| panic!("{name} is no lock"));
        let freed = acting.free(&lock, Some(member)).await;
        assert!(is_done(&freed), "{name}: {freed:?}");
        wait_until("its deadline has passed", SOON, || now(&server) > end);
        let before = server.everything();
        let refused = match acting.kept(&freed.id).plan(acting.clock.now()) {
            Ok(plan) => matches!(acting.perform(&plan).await.outcome, Outcome::Refused(_)),
            Err(_) => true,
        };
        assert!(refused, "{name} was put back after its end");
        assert_eq!(server.everything(), before, "{name}");
    }
}

/// Each hold of the lock increments its fencing counter.
#[tokio::test]
async fn a_fencing_counter_tells_that_others_held_it_since() {
    let server = Server::start();
    run(&server, &[&format!("HSET lock:f {A} 1"), "PEXPIRE lock:f 600000", "SET redisson_lock_token:{lock:f} 7"]);
    assert!(undone(&server, "lock:f", A, || {}).await);
    let held = || run(&server, &["INCR redisson_lock_token:{lock:f}"]);
    assert!(!undone(&server, "lock:f", A, held).await, "somebody took it and let it go");
}

#[test]
fn a_reader_beside_a_writer_is_split_and_not_held() {
    let server = Server::start();
    let state = |fields: &str| {
        server.cli(&["FLUSHALL"]);
        run(&server, &[&format!("HSET lock:rw {fields}"), "PEXPIRE lock:rw 600000"]);
        let desk = common::Desk::at(&server);
        desk.run(&["show", "lock:rw", "--json"]).json()["state"].as_str().unwrap().to_string()
    };
    assert_eq!(state(&format!("mode write {A}:write 1 {B} 1")), "split");
    assert_eq!(state(&format!("mode read {A}:write 1 {B} 1")), "split");
    assert_eq!(state(&format!("mode write {A}:write 1 {A} 1")), "held", "a writer may read too");
    assert_eq!(state(&format!("mode read {A} 1 {B} 1")), "held");
}
