//! What happened, on a real server: the console's timeline at 80x24, and `watch --notable` beside it.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::time::{Duration, Instant};

use common::{Server, Watching, binary, wait_until};
use serde_json::Value;
use terminal::{PATIENCE, Terminal};

const LOCKS: &[&str] = &["-p", "lock:*", "--notable"];

fn open(server: &Server) -> Terminal {
    let url = server.url();
    let terminal = Terminal::start(binary().to_str().unwrap(), &["-u", &url, "-p", "lock:*", "--env", "dev"], &[]);
    terminal.wait_for("the console", |screen| screen.contains("live") && screen.contains("0 locks"));
    terminal
}

/// A worker that takes a lock, renews it every second five times, and is then gone.
fn die_at_work(server: &Server, key: &str) {
    let mut connection = server.connection();
    redis::cmd("SET").arg(key).arg("worker-7").arg("NX").arg("PX").arg(9_000).exec(&mut connection).unwrap();
    let began = Instant::now();
    for renewal in 1..=5 {
        wait_until("the next renewal", PATIENCE, || began.elapsed() >= Duration::from_secs(renewal));
        redis::cmd("PEXPIRE").arg(key).arg(9_000).exec(&mut connection).unwrap();
    }
}

/// The entries of the timeline on the screen, oldest first: `HELD → STALLED lock:a`.
fn shown(screen: &str) -> Vec<String> {
    let rows = screen.lines().skip_while(|line| !line.starts_with(" UTC")).skip(1);
    let rows = rows.take_while(|line| !line.starts_with('─') && !line.trim().is_empty());
    let entry = |row: &str| {
        let row: String = row.chars().skip(11).collect();
        let (headline, rest) = row.split_at(row.char_indices().nth(20).map_or(row.len(), |(at, _)| at));
        let key = rest.split_whitespace().next().filter(|word| word.starts_with("lock:")).unwrap_or("");
        format!("{} {key}", headline.trim()).trim().to_string()
    };
    let mut entries: Vec<String> = rows.map(entry).collect();
    entries.reverse();
    entries
}

/// The same of the lines of `watch --notable --json`.
fn printed(lines: &[Value]) -> Vec<String> {
    let entry = |line: &Value| {
        let word = |field: &str| line[field].as_str().unwrap_or_default().to_uppercase();
        let headline = match line["notable"].as_str().unwrap() {
            "state" => format!("{} → {}", word("from"), word("to")),
            "away" => "GAP BEGINS".into(),
            "back" => "GAP ENDS".into(),
            _ => word("notable"),
        };
        format!("{headline} {}", line["key"].as_str().unwrap_or_default()).trim().to_string()
    };
    lines.iter().map(entry).collect()
}

#[test]
fn what_changed_in_the_last_five_minutes_takes_two_keys_and_watch_tells_the_same() {
    let mut server = Server::notifying(&[]);
    let mut terminal = open(&server);
    let watch = Watching::start(&server, LOCKS);
    watch.says("by notifications");
    die_at_work(&server, "lock:order");
    terminal.press("3s");
    let screen = terminal.wait_for("the end of the lock", |screen| screen.contains("→ FREE"));
    let told = shown(&screen);
    assert_eq!(told.first().map(String::as_str), Some("HELD → STALLED lock:order"), "{screen}");
    assert_eq!(told.last().map(String::as_str), Some("ORPHAN → FREE lock:order"), "{screen}");
    assert!(screen.contains("in the last 5m00s"), "{screen}");

    for n in 0..40 {
        server.cli(&["SET", &format!("lock:{n}"), "web", "PX", "600000"]);
    }
    terminal.wait_for("the locks", |screen| screen.contains("40 locks"));
    wait_until("watch is as far", PATIENCE, || printed(&watch.lines()) == told);
    server.kill();
    terminal.wait_for("the gap", |screen| screen.contains("RECONNECTING"));
    server.restart();
    let lost = |screen: &str| screen.contains(" 40 locks lost at ") && screen.contains("(restart)");
    let screen = terminal.wait_for("what the restart took, above the screen", lost);
    assert!(screen.contains("0 locks"), "{screen}");
    let told = shown(&screen);
    let gap = ["GAP BEGINS", "RESTART", "GAP ENDS", "LOST"];
    assert_eq!(told[told.len() - 4..], gap, "{screen}");
    wait_until("watch tells the same", PATIENCE, || printed(&watch.lines()) == told);
    let last = watch.lines().pop().unwrap();
    assert_eq!((&last["cause"], &last["locks"]), (&"restart".into(), &40.into()), "{last}");
    terminal.press("1");
    terminal.wait_for("it is told on the first screen too", |screen| screen.contains("1 Locks") && lost(screen));
    terminal.press("D");
    terminal.wait_for("it is dismissed", |screen| !screen.contains("locks lost"));
    terminal.press("q");
    terminal.wait_for_end();
}

#[test]
fn a_flush_that_takes_locks_is_told_at_once() {
    let server = Server::notifying(&[]);
    let mut terminal = open(&server);
    for n in 0..7 {
        server.cli(&["SET", &format!("lock:{n}"), "web", "PX", "600000"]);
    }
    terminal.wait_for("the locks", |screen| screen.contains("7 locks"));
    server.cli(&["FLUSHALL"]);
    let screen = terminal.wait_for("what is gone", |screen| screen.contains("7 locks lost at"));
    assert!(screen.contains("(flush)"), "{screen}");
    terminal.press("3");
    terminal.wait_for("the entry", |screen| screen.contains("LOST") && screen.contains("7 locks were flushed: lock:"));
    terminal.press("q");
    terminal.wait_for_end();
}

#[test]
fn a_filter_picks_from_what_matters() {
    let server = Server::notifying(&[]);
    let picky = Watching::start(&server, &["-p", "lock:*", "--notable", "--filter", "state:no-ttl and lock:b"]);
    let all = Watching::start(&server, LOCKS);
    let mut taken = 0;
    for (watch, key) in [(&all, "lock:a"), (&picky, "lock:b")] {
        wait_until("a lock without a TTL is told", PATIENCE, || {
            // What is found by the first walk has not happened.
            taken += 1;
            server.cli(&["SET", &format!("{key}:{taken}"), "t"]);
            watch.lines().iter().any(|line| line["to"] == "no-ttl")
        });
    }
    wait_until("both are told", PATIENCE, || {
        all.lines().iter().any(|line| line["key"].as_str().unwrap().starts_with("lock:b"))
    });
    assert!(picky.lines().iter().all(|line| line["key"].as_str().unwrap().starts_with("lock:b")), "{}", picky.story());
}
