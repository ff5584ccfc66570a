//! A semaphore is not a lock to delete: permit counters are left alone, and permits are given back by number.

mod common;

use common::engine::followed;
use common::{Desk, Feed, Listener, Server};
use lockscope::dialects::Recogniser;
use lockscope::engine::Options;
use lockscope::lock::Key;
use lockscope::model::State;
use lockscope::sources::pace::Pace;

const EVENTS: [&str; 2] = ["--notify-keyspace-events", "KA"];

/// What a library leaves: a counter, and a process that waits for a permit.
fn semaphore(server: &Server, permits: &str) -> Listener {
    server.cli(&["SET", "uploads-lock", permits]);
    Listener::on(server, "SUBSCRIBE", "redisson_sc:{uploads-lock}")
}

#[test]
fn a_counter_whose_waiters_listen_is_never_deleted() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let mut waiter = semaphore(&server, "2");
    let before = server.everything();
    for arguments in [
        &["release", "uploads-lock", "--holder", "2", "--yes"][..],
        &["release", "uploads-lock", "--holder", "2", "--yes", "--force"],
        &["release", "uploads-lock", "--holder", "2", "--dry-run"],
        &["extend", "uploads-lock", "--holder", "2", "--ttl", "1h", "--yes"],
    ] {
        let ran = desk.run(arguments);
        assert_eq!(ran.code, 1, "{arguments:?}: {ran:?}");
        assert!(ran.err.contains("redisson_sc:{uploads-lock}") && ran.err.contains("--permits"), "{}", ran.err);
    }
    let ran = desk.run(&["release", "--filter", "uploads", "--yes", "--force"]);
    assert!(ran.code == 1 && ran.err.contains("--permits"), "{ran:?}");
    assert_eq!(server.everything(), before);
    assert_eq!(server.ask::<i64, _>(&["PTTL", "uploads-lock"]), -1);
    assert_eq!(waiter.heard(&server), [""; 0]);
}

#[test]
fn permits_are_given_back_aloud_and_can_be_taken_back() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let mut waiter = semaphore(&server, "0");
    let shown = desk.run(&["release", "uploads-lock", "--permits", "2", "--dry-run"]);
    assert!(
        shown.code == 0 && shown.out.contains("INCRBY uploads-lock 2; PUBLISH redisson_sc:{uploads-lock}"),
        "{shown:?}"
    );
    let ran = desk.run(&["release", "uploads-lock", "--permits", "2", "--yes", "--json"]);
    assert_eq!((ran.code, &ran.json()["woke"]), (0, &1.into()), "{ran:?}");
    assert_eq!(server.ask::<String, _>(&["GET", "uploads-lock"]), "2");
    assert_eq!(waiter.heard(&server), ["2"]);
    let id = ran.json()["id"].as_str().unwrap().to_string();
    // One of them is in use now: two can't be taken back.
    server.cli(&["DECR", "uploads-lock"]);
    assert_eq!(desk.run(&["undo", &id, "--yes", "--unwatched"]).code, 1);
    assert_eq!(server.ask::<String, _>(&["GET", "uploads-lock"]), "1");
    server.cli(&["INCR", "uploads-lock"]);
    assert_eq!(desk.run(&["undo", &id, "--yes", "--unwatched"]).code, 0);
    assert_eq!(server.ask::<String, _>(&["GET", "uploads-lock"]), "0");
    let ran = desk.run(&["release", "uploads-lock", "--permits", "1", "--yes"]);
    assert!(ran.code == 0 && ran.out.contains("gave 1 permit back to uploads-lock"), "{ran:?}");
}

#[test]
fn permits_go_only_to_numbers() {
    let server = Server::start();
    let desk = Desk::at(&server);
    server.cli(&["SET", "lock:word", "worker-7"]);
    server.cli(&["HSET", "lock:hash", "3f2a8c00-1111-4222-8333-444455556666:57", "1"]);
    let before = server.everything();
    for key in ["lock:word", "lock:hash"] {
        let ran = desk.run(&["release", key, "--permits", "1", "--yes"]);
        assert!(ran.code == 1 && ran.err.contains("is not a counter"), "{ran:?}");
    }
    for permits in ["0", "-1", "x"] {
        assert_eq!(desk.run(&["release", "lock:word", &format!("--permits={permits}"), "--yes"]).code, 2);
    }
    assert_eq!(desk.run(&["release", "lock:word", "--permits", "1", "--holder", "worker-7", "--yes"]).code, 2);
    assert_eq!(desk.run(&["release", "--filter", "lock", "--permits", "1", "--yes"]).code, 2);
    assert_eq!(server.everything(), before);
}

#[test]
fn a_small_number_that_may_count_is_asked_about() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let words = "may count the permits of a semaphore";
    // None are out, or none are left: there is nobody to take it from.
    server.cli(&["SET", "import-lock", "0", "PX", "600000"]);
    let ran = desk.run(&["release", "import-lock", "--holder", "0", "--yes", "--force"]);
    assert!(ran.code == 1 && ran.err.contains("nobody holds"), "{ran:?}");
    assert!(server.ask::<bool, _>(&["EXISTS", "import-lock"]));
    for number in ["1", "2", "17"] {
        server.cli(&["SET", "import-lock", number, "PX", "600000"]);
        let shown = desk.run(&["release", "import-lock", "--holder", number, "--dry-run"]);
        assert!(shown.code == 0 && shown.out.contains(words), "{shown:?}");
        for arguments in [
            &["release", "import-lock", "--holder", number, "--yes"][..],
            &["extend", "import-lock", "--holder", number, "--ttl", "1h", "--yes"],
        ] {
            let ran = desk.run(arguments);
            assert!(ran.code == 1 && ran.err.contains(words) && ran.err.contains("--force"), "{ran:?}");
        }
        let ran = desk.run(&["release", "--filter", "import", "--yes"]);
        assert!(ran.code == 1 && ran.err.contains(words), "{ran:?}");
        assert_eq!(server.ask::<String, _>(&["GET", "import-lock"]), number);
        assert_eq!(desk.run(&["release", "import-lock", "--holder", number, "--yes", "--force"]).code, 0);
        assert!(!server.ask::<bool, _>(&["EXISTS", "import-lock"]));
    }
    // Neither a number that is a time, nor one of a known library, is a count of permits.
    server.cli(&["SET", "import-lock", "1759999000", "PX", "600000"]);
    assert_eq!(desk.run(&["release", "import-lock", "--holder", "1759999000", "--yes"]).code, 0);
    server.cli(&["SET", "import-lock", "1", "PX", "600000"]);
    let told = ["release", "import-lock", "--holder", "1", "--yes", "--dialect", "plain=import-lock"];
    assert_eq!(desk.run(&told).code, 0);
}

#[tokio::test]
async fn a_number_that_was_seen_going_up_and_down_is_a_counter() {
    let server = Server::with(&EVENTS);
    server.cli(&["SET", "uploads-lock", "5"]);
    let options = Options::following(Recogniser::default(), Pace::Fast);
    let mut engine = followed(&server, Feed::Notifications, options).await;
    engine.run_until_inventory().await;
    server.cli(&["DECR", "uploads-lock"]);
    let mut lock = None;
    for _ in 0..500 {
        engine.run_for(std::time::Duration::from_millis(20)).await;
        lock = engine.snapshot().locks.into_iter().find(|lock| lock.key == Key::from("uploads-lock"));
        if lock.as_ref().is_some_and(|lock| lock.holders.is_empty()) {
            break;
        }
    }
    let lock = lock.expect("it is listed");
    assert_eq!((lock.dialect, lock.mode.name(), lock.holders.len()), ("redisson-semaphore", "permit", 0));
    assert_ne!(lock.verdict.state, State::Free);
    let now = engine.clock.now();
    let refused = lockscope::actions::plan::free(&lock, Default::default(), now).unwrap_err().to_string();
    assert!(refused.contains("--permits"), "{refused}");
    let plan = lockscope::actions::plan::give_back(&lock, 1, now).unwrap();
    assert_eq!(plan.commands(), ["INCRBY uploads-lock 1; PUBLISH redisson_sc:{uploads-lock} <new value>"]);
}
