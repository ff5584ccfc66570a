//! What misled people who had read only the README, tested through the binary.

mod common;

use std::time::Duration;

use common::program::has;
use common::{Desk, Listener, Ran, Server, wait_until};

const UUID: &str = "7c1e3d52-1f0a-4c9b-8d6e-2b9f4a1c0e77";

fn plan_of(shown: &Ran) -> String {
    let after = shown.err.split("--plan ").nth(1).unwrap_or_else(|| panic!("no plan in {shown:?}"));
    after.split_whitespace().next().expect("an id").trim_matches('\'').to_string()
}

/// A process or a thread uses one token for all its holds, but the next hold is another one.
#[test]
fn the_next_hold_of_the_same_thread_process_or_pod_is_left_alone() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let redisson = format!("{UUID}:57");
    let hash = |ttl: &str| {
        server.cli(&["DEL", "orders-lock:1"]);
        server.cli(&["HSET", "orders-lock:1", &redisson, "1"]);
        server.cli(&["PEXPIRE", "orders-lock:1", ttl]);
    };
    let strings = [
        ("order-service:payment-lock-9", UUID),
        ("lock:pod", "billing-worker-7d9f8b6c5-x2k4p"),
        ("lock:vm", "i-0abcd1234ef567890"),
    ];
    for (first, second) in [("60000", "20000"), ("60000", "600000")] {
        hash(first);
        let id = plan_of(&desk.run(&["release", "orders-lock:1", "--holder", &redisson, "--dry-run"]));
        hash(second);
        let ran = desk.run(&["release", "--plan", &id, "--yes"]);
        assert!(ran.code == 1 && ran.out.contains("--if-renewed"), "redisson {second}: {ran:?}");
        for (key, token) in strings {
            server.cli(&["SET", key, token, "PX", first]);
            let dialect = if key.starts_with("order") { &["--dialect", "spring=order-service:*"][..] } else { &[] };
            let id = plan_of(&desk.run(&[&["release", key, "--holder", token, "--dry-run"], dialect].concat()));
            server.cli(&["SET", key, token, "PX", second]);
            let ran = desk.run(&["release", "--plan", &id, "--yes"]);
            assert!(ran.code == 1 && ran.out.contains("--if-renewed"), "{key} {second}: {ran:?}");
            assert!(server.ask::<bool, _>(&["EXISTS", key]));
        }
    }
    // Nobody saw it being renewed: the watchdog that its library has explains nothing, since a new hold gets its lease too.
    hash("20000");
    let plan = || plan_of(&desk.run(&["release", "orders-lock:1", "--holder", &redisson, "--dry-run"]));
    let (first, second) = (plan(), plan());
    hash("30000");
    let ran = desk.run(&["release", "--plan", &first, "--yes"]);
    assert!(ran.code == 1 && ran.out.contains("no renewal was seen"), "{ran:?}");
    assert!(server.ask::<bool, _>(&["EXISTS", "orders-lock:1"]));
    // Somebody who knows that it is the same hold says so.
    assert_eq!(desk.run(&["release", "--plan", &second, "--yes", "--if-renewed"]).code, 0);
}

/// Some libraries make a random token with the object that takes the lock, and use it for each of its holds.
#[test]
fn the_next_hold_of_the_same_object_is_left_alone() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let strings = [
        ("lock:report", "/382sGJrAbCdEfGhIjKlC4cE", "python-redis-lock=lock:report"),
        ("app-cache:import-lock", "tvEDIDQZHTFwP0qM", "laravel=app-cache:*"),
        ("mutex:mail", UUID, "redis-semaphore-npm=mutex:*"),
    ];
    for (key, token, dialect) in strings {
        server.cli(&["SET", key, token, "PX", "60000"]);
        let shown = desk.run(&["release", key, "--holder", token, "--dry-run", "--dialect", dialect]);
        server.cli(&["DEL", key]);
        server.cli(&["SET", key, token, "PX", "600000"]);
        let ran = desk.run(&["release", "--plan", &plan_of(&shown), "--yes"]);
        assert!(ran.code == 1 && ran.out.contains("--if-renewed"), "{key}: {ran:?}");
        assert!(server.ask::<bool, _>(&["EXISTS", key]), "{key}");
    }
}

#[test]
fn a_plan_says_what_it_needs_and_takes_it() {
    let server = Server::start();
    let desk = Desk::at(&server);
    server.cli(&["SET", "lock:a", "1", "PX", "60000"]);
    server.cli(&["SET", "lock:b", UUID, "PX", "60000"]);
    let shown = desk.run(&["release", "--filter", "lock:*"]);
    assert!(shown.err.contains("add --force for 1 lock") && shown.err.contains(" -u "), "{shown:?}");
    let id = plan_of(&shown);
    let wrong = desk.run(&["release", "--plan", &id, "--yes", "--limit", "1"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    // No server is there: the plan was not used.
    assert_eq!(desk.run_bare(&["-u", "redis://127.0.0.1:1", "release", "--plan", &id, "--yes"]).code, 3);
    let ran = desk.run(&["release", "--plan", &id, "--yes"]);
    assert!(ran.code == 1 && ran.out.contains("freed lock:b") && ran.err.contains("left out: lock:a"), "{ran:?}");
    let id = plan_of(&desk.run(&["release", "lock:a", "--holder", "1", "--dry-run"]));
    assert_eq!(desk.run(&["release", "--plan", &id, "--yes", "--force"]).code, 0);
    assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 0);
}

#[test]
fn a_number_that_somebody_begins_to_count_on_is_not_freed() {
    let server = Server::start();
    let desk = Desk::at(&server);
    server.cli(&["SET", "lock-sem", "3"]);
    let sharded = if has((7, 0), "sharded channels") { &["SUBSCRIBE", "SSUBSCRIBE"][..] } else { &["SUBSCRIBE"] };
    for how in sharded {
        let id = plan_of(&desk.run(&["release", "lock-sem", "--holder", "3", "--force", "--dry-run"]));
        let listener = Listener::on(&server, how, "redisson_sc:{lock-sem}");
        let ran = desk.run(&["release", "--plan", &id, "--yes", "--force"]);
        assert!(ran.code == 1 && ran.out.contains("listens"), "{how}: {ran:?}");
        assert_eq!(server.ask::<String, _>(&["GET", "lock-sem"]), "3", "{how}");
        drop(listener);
        let gone = || server.ask::<(String, u64), _>(&["PUBSUB", "NUMSUB", "redisson_sc:{lock-sem}"]).1 == 0;
        wait_until("nobody listens", Duration::from_secs(30), gone);
    }
    server.cli(&["SET", "lock:id", "20240001"]);
    let ran = desk.run(&["release", "lock:id", "--permits", "1", "--yes"]);
    assert!(ran.code == 1 && ran.err.contains("--force"), "a token is no count: {ran:?}");
    assert_eq!(server.ask::<String, _>(&["GET", "lock:id"]), "20240001");
}

#[test]
fn what_is_shown_of_a_long_token_names_nobody_by_itself() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let (head, whole) = ("h".repeat(512), format!("{}A", "h".repeat(600)));
    server.cli(&["SET", "lock:big", &whole, "PX", "60000"]);
    for arguments in [&["release", "lock:big"][..], &["extend", "lock:big", "--ttl", "5m"]] {
        let ran = desk.run(&[arguments, &["--holder", &head, "--yes"]].concat());
        assert!(ran.code == 1 && ran.err.contains("the whole token"), "{ran:?}");
    }
    assert_eq!(desk.run(&["release", "lock:big", "--holder", &whole, "--yes"]).code, 0);
    server.cli(&["SET", "lock:t", UUID]);
    let ran = desk.run(&["release", "lock:t", "--holder", "7c1e3d52…0e77", "--yes"]);
    assert!(ran.code == 2 && ran.err.contains("shortened"), "{ran:?}");
}

#[test]
fn undo_does_not_walk_back_and_knows_what_it_freed_since() {
    let server = Server::start();
    let desk = Desk::at(&server);
    for key in ["lock:a", "lock:b"] {
        server.cli(&["SET", key, UUID, "PX", "600000"]);
        desk.free(key, UUID);
    }
    let undo = ["undo", "--yes", "--unwatched"];
    let ran = desk.run(&undo);
    assert!(ran.code == 0 && ran.out.contains("put lock:b back"), "{ran:?}");
    let ran = desk.run(&undo);
    assert!(ran.code == 1 && ran.err.contains("put lock:b back"), "{ran:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:a"]));

    server.cli(&["SET", "lock:h", "3f2a8c00-1111-4222-8333-444455556666", "PX", "600000"]);
    let first = desk.free("lock:h", "3f2a8c00-1111-4222-8333-444455556666");
    server.cli(&["SET", "lock:h", UUID, "PX", "600000"]);
    desk.free("lock:h", UUID);
    let ran = desk.run(&["undo", &first, "--yes", "--unwatched"]);
    assert!(ran.code == 1 && ran.err.contains(UUID), "{ran:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:h"]));
}

#[test]
fn nobody_s_address_is_this_machine_s_too() {
    let server = Server::start();
    let desk = Desk::at(&server);
    server.cli(&["SET", "lock:a", UUID]);
    desk.configure(&format!("[target.ro]\nurl = \"redis://localhost:{}\"\nread_only = true\n", server.port()));
    for host in ["0", "0.0.0.0", "[::]", "0x0"] {
        let url = format!("redis://{host}:{}", server.port());
        let ran = desk.run_bare(&["-u", &url, "release", "lock:a", "--holder", UUID, "--yes"]);
        assert_ne!(ran.code, 0, "{url}: {ran:?}");
        assert!(server.ask::<bool, _>(&["EXISTS", "lock:a"]), "{url}");
    }
}
