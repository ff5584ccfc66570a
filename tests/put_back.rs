//! A dead holder's lock that was freed and put back is as old, as often renewed and as dead as before: on a real server, by
//! the console itself and by another process.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::sync::Arc;
use std::time::Duration;

use common::judged::{ready, until, until_state};
use common::{Desk, Feed, Server, Worker, binary, engine, row};
use lockscope::model::{Life, LockView, State};
use lockscope::sources::pace::Pace;
use terminal::Terminal;

const KEY: &str = "lock:order";
const HOLDER: &str = "worker-1";
const LEASE_MS: &str = "60000";

/// A worker that took the lock, and renews it every second until it is dropped.
fn works(server: &Arc<Server>) -> Worker {
    server.cli(&["SET", KEY, HOLDER, "NX", "PX", LEASE_MS]);
    let (mut worker, server) = (Worker::new(), server.clone());
    worker.repeat(Duration::from_secs(1), move || drop(server.cli(&["PEXPIRE", KEY, LEASE_MS])));
    worker
}

fn renewals(lock: &LockView) -> (u64, u64) {
    let renewals = lock.renewals.as_ref().expect("it was renewed");
    (renewals.count, renewals.missed.unwrap_or(0))
}

fn silence_ms(lock: &LockView) -> u64 {
    lock.renewals.as_ref().and_then(|renewals| renewals.last_ms).expect("it was renewed")
}

#[tokio::test]
async fn what_another_process_freed_and_put_back_is_as_old_and_as_dead_as_before() {
    let server = Arc::new(Feed::Notifications.server());
    let mut engine = ready(engine::follow(&server, Feed::Notifications, Pace::Fast).await).await;
    let worker = works(&server);
    let renewed = |lock: &LockView| lock.renewals.as_ref().is_some_and(|renewals| renewals.count >= 4);
    until(&mut engine, KEY, "is renewed", renewed).await;
    drop(worker);
    let dead = until_state(&mut engine, KEY, State::Orphan).await;
    let desk = Arc::new(Desk::at(&server));
    let at_desk = |arguments: &'static [&'static str]| {
        let desk = desk.clone();
        tokio::task::spawn_blocking(move || desk.run(arguments))
    };
    let mut freeing = at_desk(&["release", KEY, "--holder", HOLDER, "--yes"]);
    until_state(&mut engine, KEY, State::Free).await;
    let freed = (&mut freeing).await.unwrap();
    assert_eq!(freed.code, 0, "{freed:?}");
    let undoing = at_desk(&["undo", "--yes", "--unwatched"]);
    let back = until(&mut engine, KEY, "is there again", |lock| lock.verdict.state != State::Free).await;
    let ran = undoing.await.unwrap();
    assert_eq!(ran.code, 0, "{ran:?}");
    let settled = until(&mut engine, KEY, "is judged", |lock| lock.at.0 >= back.at.0 + 1_500).await;
    for lock in [&back, &settled] {
        assert_eq!(lock.verdict.state, State::Orphan, "{lock:#?}");
        assert_eq!(lock.liveness.as_ref().map(|liveness| liveness.is), Some(Life::Gone), "{lock:#?}");
        assert!(lock.held_ms >= dead.held_ms, "{:?} before, {:?} now", dead.held_ms, lock.held_ms);
        assert_eq!(renewals(lock).0, renewals(&dead).0, "no write of ours is a renewal");
        assert!(renewals(lock).1 >= renewals(&dead).1 && silence_ms(lock) >= silence_ms(&dead), "{lock:#?}");
    }
}

/// The list tells something of the selected lock, too.
fn is_detail(screen: &str) -> bool {
    !screen.contains("STATE▾") && screen.contains("i why")
}

#[test]
fn what_the_console_freed_and_put_back_is_as_old_and_as_dead_as_before_at_80x24() {
    let server = Arc::new(Feed::Notifications.server());
    let mut console = Terminal::start(binary().to_str().unwrap(), &["-u", &server.url(), "-p", "lock:*"], &[]);
    console.wait_for("a live stream", |screen| screen.contains("live"));
    let worker = works(&server);
    console.wait_for("the lock", |screen| row(screen, "HELD", KEY));
    console.press("g\r");
    console.wait_for("its renewals", |screen| is_detail(screen) && screen.contains("4 seen"));
    console.press("\x1b");
    console.wait_for("the list", |screen| !is_detail(screen) && row(screen, "HELD", KEY));
    drop(worker);
    console.wait_for("its holder is dead", |screen| row(screen, "ORPHAN", KEY));
    console.press("\r");
    let before = console.wait_for("the detail", |screen| is_detail(screen) && screen.contains(" seen, one every 1."));
    console.press("\x1b");
    console.wait_for("the list", |screen| !is_detail(screen) && row(screen, "ORPHAN", KEY));
    console.press("Wx");
    console
        .wait_for("freeing comes first", |screen| screen.contains("free it ") && screen.contains("held by   worker-1"));
    console.press("y its host is down\r");
    console.wait_for("it is free", |screen| screen.contains(&format!("freed {KEY}")));
    assert!(!server.ask::<bool, _>(&["EXISTS", KEY]));
    console.press("u");
    console.wait_for("the question", |screen| screen.contains("put it back"));
    console.press("y\r");
    console.wait_for("it is there and dead", |screen| screen.contains("put back") && row(screen, "ORPHAN", KEY));
    console.press("\r");
    let seen = |screen: &str| {
        let words: Vec<&str> = screen.split_whitespace().collect();
        let at = words.windows(2).position(|pair| pair[1].starts_with("seen,"))?;
        words[at].parse::<u64>().ok()
    };
    let after = console
        .wait_for("the detail", |screen| is_detail(screen) && screen.contains("put back ") && seen(screen).is_some());
    assert_eq!(seen(&after), seen(&before), "before:\n{before}\nafter:\n{after}");
    assert!(after.contains("ORPHAN") && after.contains("renewed every 1."), "{after}");
    console.press("q");
}
