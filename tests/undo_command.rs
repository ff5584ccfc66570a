//! `lockscope undo` and its records: which release it means, whether that happened, in which data, and what can't be
//! known.

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use common::server::field;
use common::{Desk, Server, wait_until};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(40);
const YES: [&str; 2] = ["--yes", "--unwatched"];

fn held(server: &Server, key: &str) {
    server.cli(&["SET", key, "t", "PX", "600000"]);
}

fn exists(server: &Server, key: &str) -> bool {
    server.ask(&["EXISTS", key])
}

/// A local port that leads to a server, and on request to another one.
struct Tunnel {
    port: u16,
    to: Arc<AtomicU16>,
}

impl Tunnel {
    fn to(server: &Server) -> Tunnel {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (port, to) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU16::new(server.port())));
        let target = Arc::clone(&to);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(("127.0.0.1", target.load(Ordering::SeqCst))) else { continue };
                let (near2, far2) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                std::thread::spawn(move || carry(near, far));
                std::thread::spawn(move || carry(far2, near2));
            }
        });
        Tunnel { port, to }
    }

    fn move_to(&self, server: &Server) {
        self.to.store(server.port(), Ordering::SeqCst);
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

#[test]
fn behind_a_moved_tunnel_nothing_is_put_back() {
    let (server, other) = (Server::start(), Server::start());
    held(&server, "lock:a");
    let tunnel = Tunnel::to(&server);
    let desk = Desk::with_url(&tunnel.url());
    let id = desk.free("lock:a", "t");
    tunnel.move_to(&other);
    let undo = [&["undo", &id][..], &YES].concat();
    let ran = desk.run(&undo);
    assert!(ran.refusal().contains("it is another server"), "{ran:?}");
    assert!(ran.err.contains("--force"), "{ran:?}");
    assert!(desk.run(&[&["undo"][..], &YES].concat()).err.contains("it is another server"));
    assert_eq!(other.ask::<u64, _>(&["DBSIZE"]), 0);
    // The same server at another address is still the same.
    let (address, name) = (server.url(), server.url().replace("127.0.0.1", "localhost"));
    assert_eq!(desk.run_bare(&[&undo[..], &["-u", &address]].concat()).code, 0);
    for (freed_at, put_back_at) in [(&address, &name), (&name, &address)] {
        assert_eq!(desk.run_bare(&["release", "lock:a", "--holder", "t", "--yes", "-u", freed_at]).code, 0);
        let ran = desk.run_bare(&[&["undo"][..], &YES, &["-u", put_back_at]].concat());
        assert_eq!((ran.code, exists(&server, "lock:a")), (0, true), "{ran:?}");
    }
}

#[test]
fn after_a_restart_undo_explains_and_takes_force() {
    // A restarted server continues the replication id of its snapshot, as a promoted replica does.
    for arguments in [&[][..], &["--save", "900 1"], &["--appendonly", "yes", "--save", "900 1"]] {
        let mut server = Server::with(arguments);
        held(&server, "lock:a");
        held(&server, "lock:b");
        let desk = Desk::at(&server);
        let id = desk.free("lock:a", "t");
        if !arguments.is_empty() {
            server.cli(&["SAVE"]);
        }
        server.restart();
        assert_eq!(exists(&server, "lock:b"), !arguments.is_empty(), "persistent or not");
        let ran = desk.run(&[&["undo", &id][..], &YES].concat());
        assert!(ran.refusal().contains("restarted") && ran.err.contains("--force"), "{ran:?}");
        assert!(!exists(&server, "lock:a"));
        let forced = desk.run(&[&["undo", &id, "--force"][..], &YES].concat());
        assert_eq!((forced.code, exists(&server, "lock:a")), (0, true), "{forced:?}");
    }
}

#[test]
fn a_promoted_replica_is_the_same_keyspace() {
    let mut master = Server::start();
    let replica = Server::with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let info = |server: &Server, section: &str, name: &str| {
        field(&server.ask::<String, _>(&["INFO", section]), name).unwrap_or_default().to_string()
    };
    wait_until("the replica follows", SOON, || info(&replica, "replication", "master_link_status") == "up");
    // Its start time is only known to the second.
    let uptime = || info(&replica, "server", "uptime_in_seconds").parse::<u64>().expect("a number");
    wait_until("it has run for a while", SOON, || uptime() >= 2);
    held(&master, "lock:a");
    let desk = Desk::at(&master);
    let id = desk.free("lock:a", "t");
    let offset = info(&master, "replication", "master_repl_offset").parse::<u64>().unwrap();
    wait_until("the release is replicated", SOON, || {
        info(&replica, "replication", "slave_repl_offset").parse::<u64>().unwrap_or(0) >= offset
    });
    master.kill();
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    let ran = desk.run_bare(&[&["undo", &id][..], &YES, &["-u", &replica.url()]].concat());
    assert_eq!((ran.code, exists(&replica, "lock:a")), (0, true), "{ran:?}");
}

#[test]
fn a_server_that_does_not_tell_which_it_is_takes_force() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "op", "on", ">pw", "~*", "&*", "+@all", "-info"]);
    held(&server, "lock:a");
    let desk = Desk::with_url(&server.url().replace("redis://", "redis://op:pw@"));
    let id = desk.free("lock:a", "t");
    let ran = desk.run(&[&["undo", &id][..], &YES].concat());
    assert!(ran.refusal().contains("does not identify itself") && ran.err.contains("--force"), "{ran:?}");
    assert!(!exists(&server, "lock:a"));
    let ran = desk.run(&[&["undo", &id, "--force"][..], &YES].concat());
    assert_eq!((ran.code, exists(&server, "lock:a")), (0, true), "{ran:?}");
}

#[test]
fn a_release_that_may_not_have_happened_plants_no_lock() {
    let server = Server::start();
    held(&server, "lock:a");
    let desk = Desk::at(&server);
    server.cli(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    let ran = desk.run(&["release", "lock:a", "--holder", "t", "--yes", "--json"]);
    assert_eq!((ran.code, &ran.json()["outcome"]), (3, &json!("unknown")), "{ran:?}");
    let id = ran.json()["id"].as_str().unwrap().to_string();
    assert_eq!(desk.run_bare(&["undo", "--list", "--json"]).json()["undo"][0]["state"], "unknown");
    // The script may still wait on the server: wait until its connection, and so the script, is gone.
    wait_until("it will not be done", SOON, || !server.ask::<String, _>(&["CLIENT", "LIST"]).contains("cmd=evalsha"));
    server.cli(&["CLIENT", "UNPAUSE"]);
    if exists(&server, "lock:a") {
        let ran = desk.run(&[&["undo", &id][..], &YES].concat());
        assert!(ran.refusal().contains("did not free lock:a"), "{ran:?}");
        // Its holder releases it.
        server.cli(&["DEL", "lock:a"]);
    }
    let ran = desk.run(&[&["undo", &id][..], &YES].concat());
    assert!(ran.refusal().contains("not known whether") && ran.err.contains("answer was lost"), "{ran:?}");
    assert!(!exists(&server, "lock:a"), "a lock without a holder");
    let ran = desk.run(&[&["undo", &id, "--force"][..], &YES].concat());
    assert_eq!((ran.code, exists(&server, "lock:a")), (0, true), "{ran:?}");
}

#[test]
fn no_option_is_promised_to_put_back_what_somebody_holds_now() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "dead"]);
    let desk = Desk::at(&server);
    assert_eq!(desk.run(&["release", "lock:a", "--holder", "dead", "--yes"]).code, 0);
    server.cli(&["SET", "lock:a", "alive"]);
    let ran = desk.run(&["undo", "--yes"]);
    let why = ran.refusal();
    assert!(why.contains("somebody has taken lock:a since") && !why.contains("puts it back"), "{why}");
    assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "alive");
}

#[test]
fn what_nobody_watched_needs_a_word_of_its_own() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "dead"]);
    let desk = Desk::at(&server);
    let reason = "its worker is gone";
    assert_eq!(desk.run(&["release", "lock:a", "--holder", "dead", "--yes", "--reason", reason]).code, 0);
    // Others take and free it: a later command can't know that.
    server.cli(&["SET", "lock:a", "alive"]);
    server.cli(&["DEL", "lock:a"]);
    let ran = desk.run(&["undo", "--yes"]);
    let why = ran.refusal();
    assert!(why.contains("nobody watched") && why.contains("--unwatched") && why.contains(reason), "{why}");
    assert!(why.contains("lock:a was freed ") && why.contains(" ago by "), "{why}");
    assert!(!exists(&server, "lock:a"));
    let told = desk.run(&["undo", "--yes", "--json"]);
    assert_eq!((told.code, &told.json()["outcome"]), (1, &json!("refused")));
    assert_eq!(told.json()["key"], "lock:a");
    let ran = desk.run(&["undo", "--yes", "--unwatched"]);
    assert_eq!((ran.code, exists(&server, "lock:a")), (0, true), "{ran:?}");
    assert!(ran.err.contains("lock:a was freed"), "it is named before: {ran:?}");
}

#[test]
fn undo_means_the_last_thing_done_here_and_nothing_before_it() {
    let (server, other) = (Server::start(), Server::start());
    for key in ["lock:a", "lock:b"] {
        held(&server, key);
        held(&other, key);
    }
    let desk = Desk::at(&server);
    let first = desk.free("lock:a", "t");
    assert_eq!(desk.run_bare(&["release", "lock:b", "--holder", "t", "--yes", "-u", &other.url()]).code, 0);
    // Another target was written since: on this one the last release is still lock:a.
    let undo = [&["undo"][..], &YES].concat();
    assert_eq!((desk.run(&undo).code, exists(&server, "lock:a")), (0, true));
    assert!(!exists(&other, "lock:b"));
    // An extension came after it: undo does not take back an unrelated release.
    let second = desk.free("lock:a", "t");
    assert_ne!(first, second);
    assert_eq!(desk.run(&["extend", "lock:b", "--holder", "t", "--ttl", "2h", "--yes"]).code, 0);
    let ran = desk.run(&undo);
    let why = ran.refusal();
    assert!(why.contains("lock:b more time") && why.contains(&format!("lockscope undo {second}")), "{why}");
    assert!(!exists(&server, "lock:a"));
    assert_eq!((desk.run(&[&["undo", &second][..], &YES].concat()).code, exists(&server, "lock:a")), (0, true));
    // Another database is another target, and another user another operator.
    let ran = desk.run_bare(&[&undo[..], &["-u", &format!("{}/3", server.url())]].concat());
    assert!(ran.refusal().contains("nothing was freed"), "{ran:?}");
}

#[test]
fn what_can_be_put_back_is_listed_and_what_ended_is_not() {
    let server = Server::start();
    let desk = Desk::at(&server);
    assert_eq!(desk.run_bare(&["undo", "--list", "--json"]).json(), json!({ "schema": "lockscope/1", "undo": [] }));
    server.cli(&["SET", "lock:short", "t", "PX", "2500"]);
    let short = desk.run(&["release", "lock:short", "--holder", "t", "--yes"]);
    assert_eq!(short.code, 0, "{short:?}");
    server.cli(&["SET", "lock:ever", "t"]);
    let ever = desk.free("lock:ever", "t");
    held(&server, "lock:a");
    let id = desk.free("lock:a", "t");
    let list =
        || -> Vec<Value> { desk.run_bare(&["undo", "--list", "--json"]).json()["undo"].as_array().unwrap().clone() };
    wait_until("the lease has ended", SOON, || list().len() == 2);
    let listed = list();
    assert_eq!((&listed[0]["id"], &listed[1]["id"]), (&json!(id), &json!(ever)), "newest first");
    assert_eq!((&listed[0]["key"], &listed[0]["holders"]), (&json!("lock:a"), &json!(["t"])));
    assert_eq!((&listed[0]["state"], &listed[1]["until"]), (&json!("confirmed"), &Value::Null));
    assert!(listed[0]["until"].as_str().unwrap().ends_with('Z') && listed[0]["at"].as_str().unwrap().ends_with('Z'));
    let files = std::fs::read_dir(desk.state().join("undo")).unwrap().count();
    assert_eq!(files, 2, "what has ended is not kept");
    let table = desk.run_bare(&["undo", "--list"]);
    assert_eq!((table.code, table.out.lines().count()), (0, 3), "{table:?}");
    assert!(table.out.contains(&id) && table.out.contains("never") && table.out.contains("confirmed"), "{table:?}");
    server.cli(&["SET", "lock:\u{1b}[31m", "t"]);
    assert_eq!(desk.run(&["release", "lock:\\u{1b}[31m", "--holder", "t", "--yes"]).code, 0);
    let table = desk.run_bare(&["undo", "--list"]);
    assert!(table.out.contains("lock:\\u{1b}[31m") && !table.out.contains('\u{1b}'), "{table:?}");
}

const DIGEST: &str = "uniquejobs:0123456789abcdef0123456789abcdef";
const JOB: &str = "b4a577edbccf1d805744efa9";

/// A lock with a document of this many bytes beside it.
fn with_document(server: &Server, bytes: usize) -> String {
    let lock = format!("{DIGEST}:LOCKED");
    server.cli(&["HSET", &lock, JOB, "1749999000.5"]);
    server.cli(&["SET", &format!("{DIGEST}:INFO"), &"i".repeat(bytes)]);
    server.cli(&["CONFIG", "RESETSTAT"]);
    lock
}

fn was_dumped(server: &Server) -> bool {
    field(&server.ask::<String, _>(&["INFO", "commandstats"]), "cmdstat_dump").is_some()
}

#[test]
fn the_preview_says_whether_undo_will_be_possible_and_reads_no_values() {
    let server = Server::start();
    let desk = Desk::at(&server);
    for (bytes, possible) in [(20_000_000, false), (100, true)] {
        let lock = with_document(&server, bytes);
        let dry = desk.run(&["release", &lock, "--holder", JOB, "--dry-run", "--json"]).json();
        assert_eq!(dry["undo"]["possible"], possible, "{dry}");
        assert_eq!(dry["undo"]["why"].as_str().is_some_and(|why| why.contains("20000000 bytes")), !possible, "{dry}");
        let text = desk.run(&["release", &lock, "--holder", JOB, "--dry-run"]);
        let line = if possible { "undo      possible" } else { "undo      not possible: uniquejobs:" };
        assert!(text.out.contains(line), "{text:?}");
        let many = desk.run(&["release", "--filter", "*LOCKED"]);
        assert_eq!(many.out.contains("freeing uniquejobs:"), !possible, "{many:?}");
        assert!(!was_dumped(&server));
    }
}

#[test]
fn what_is_too_large_to_be_kept_is_not_dumped_when_it_is_freed() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let lock = with_document(&server, 1_100_000);
    let ran = desk.run(&["release", &lock, "--holder", JOB, "--yes"]);
    assert!(ran.code == 0 && ran.out.contains("it can't be undone: uniquejobs:"), "{ran:?}");
    assert!(ran.out.contains("has 1100000 bytes; at most 1048576 are kept"), "{ran:?}");
    assert!(!was_dumped(&server), "dumped before its size was known");
    assert!(desk.run(&[&["undo"][..], &YES].concat()).refusal().contains("nothing was freed"));
}
