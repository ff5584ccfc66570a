//! Quitting during a write: what was begun is finished, and every result is reported and recorded.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use common::{Desk, Server, binary, process, wait_until};
use serde_json::Value;
use terminal::Terminal;

const LOCKS: usize = 300;
const SOON: Duration = Duration::from_secs(40);

fn server(locks: usize) -> Server {
    let server = Server::notifying(&[]);
    for number in 0..locks {
        server.cli(&["SET", &format!("lock:{number:03}"), "t", "PX", "600000"]);
    }
    server
}

/// Each action that was begun has an end, and the last line says what was left.
#[track_caller]
fn is_whole(audit: &[Value], freed: usize, left: usize) {
    for begun in audit.iter().filter(|line| line["phase"] == "intent") {
        let ended = audit.iter().any(|line| line["phase"] == "outcome" && line["id"] == begun["id"]);
        assert!(ended, "begun and not ended: {begun}");
    }
    let last = audit.last().expect("a record");
    assert_eq!((last["phase"].as_str(), last["ended"].as_str()), (Some("end"), Some("stopped")), "{last}");
    assert_eq!((last["done"].as_u64(), last["untouched"].as_u64()), (Some(freed as u64), Some(left as u64)), "{last}");
}

#[test]
fn a_signal_ends_many_releases_after_the_one_under_way() {
    for (signal, name) in [(libc::SIGTERM, "SIGTERM"), (libc::SIGHUP, "SIGHUP"), (libc::SIGINT, "SIGINT")] {
        let server = server(LOCKS);
        let desk = Desk::at(&server);
        let mut child = desk.start(&["release", "--filter", "lock:*", "--yes"]);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut told: Vec<String> = lines.by_ref().take(5).collect();
        process::signal(&child, signal);
        told.extend(lines);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{name}: {said}");
        let left: usize = server.ask(&["DBSIZE"]);
        assert_eq!(told.len() + left, LOCKS, "{name}");
        let tally = format!("stopped by {name}: {} freed, {left} not touched", told.len());
        assert_eq!(said.lines().last(), Some(tally.as_str()), "{said}");
        is_whole(&desk.audit(), told.len(), left);
        let listed = desk.run_bare(&["audit", "-n", "1"]);
        assert!(listed.out.contains("stopped") && listed.out.contains("not touched"), "{listed:?}");
    }
}

#[test]
fn a_signal_lets_a_single_action_come_to_its_end() {
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        for action in [
            &["release", "lock:000", "--holder", "t", "--yes"][..],
            &["extend", "lock:000", "--holder", "t", "--ttl", "1h", "--yes"],
        ] {
            let server = server(1);
            let desk = Desk::at(&server);
            server.cli(&["CLIENT", "PAUSE", "100000", "WRITE"]);
            let child = desk.start(action);
            let under_way = || server.ask::<String, _>(&["CLIENT", "LIST"]).contains("cmd=evalsha");
            wait_until("the script is on its way", SOON, under_way);
            process::signal(&child, signal);
            // Wait for the signal before the server resumes: a signal that kills would have killed by then.
            wait_until("the signal is taken", SOON, || !is_pending(child.id(), signal));
            server.cli(&["CLIENT", "UNPAUSE"]);
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let outcomes: Vec<Value> = desk.audit().iter().map(|line| line["outcome"].clone()).collect();
            assert_eq!(outcomes, [Value::Null, "done".into()]);
        }
    }
}

/// Whether the signal was sent to the process but not yet handled.
fn is_pending(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    pending.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok()).any(|mask| mask & (1 << (signal - 1)) != 0)
}

/// A console that is freeing all locks.
fn freeing(server: &Server, home: &Path) -> Terminal {
    let (url, state) = (server.url(), home.join("state"));
    let arguments = ["-u", &url, "-p", "lock:*", "--env", "dev", "--write"];
    let environment = [("XDG_STATE_HOME", state.to_str().unwrap())];
    let mut terminal = Terminal::start(binary().to_str().unwrap(), &arguments, &environment);
    terminal.wait_for("the locks", |screen| screen.contains(&format!("{LOCKS} locks")) && screen.contains("live"));
    terminal.press("*");
    terminal.press("x");
    terminal.wait_for("the question", |screen| screen.contains(&format!("free {LOCKS} locks")));
    terminal.press("y\r");
    wait_until("some are freed", SOON, || server.ask::<usize, _>(&["DBSIZE"]) < LOCKS - 5);
    terminal
}

fn audit(home: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(home.join("state/lockscope/audit.jsonl")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"))).collect()
}

/// Checks what is left on the terminal and on the server.
#[track_caller]
fn left_behind(terminal: Terminal, server: &Server, home: &Path) {
    let left = terminal.wait_for_end();
    let undone: usize = server.ask(&["DBSIZE"]);
    let said = left.screen.contents();
    assert!((1..LOCKS).contains(&undone), "{undone}");
    let tally = format!("{} freed, {undone} not touched", LOCKS - undone);
    assert!(said.contains(&tally), "{tally}: {said}");
    assert_eq!(left.status.exit_code(), 1, "{said}");
    assert!(left.cooked && !left.screen.alternate_screen());
    is_whole(&audit(home), LOCKS - undone, undone);
}

#[test]
fn leaving_the_console_while_it_frees_asks_first() {
    let (server, home) = (server(LOCKS), process::temporary_directory());
    let mut terminal = freeing(&server, home.path());
    terminal.press("q");
    terminal.wait_for("the question", |screen| screen.contains(&format!("of {LOCKS} are not done yet. Leave?")));
    // Any other key keeps the console open.
    terminal.press("n");
    terminal.wait_for("no question", |screen| !screen.contains("not done yet"));
    let before: usize = server.ask(&["DBSIZE"]);
    wait_until("it goes on", SOON, || server.ask::<usize, _>(&["DBSIZE"]) < before);
    terminal.press("q");
    terminal.wait_for("the question", |screen| screen.contains("not done yet. Leave?"));
    terminal.press("y");
    left_behind(terminal, &server, home.path());
}

#[test]
fn a_console_that_is_ended_while_it_frees_tells_how_far_it_came() {
    for signal in [Some(libc::SIGTERM), Some(libc::SIGHUP), None] {
        let (server, home) = (server(LOCKS), process::temporary_directory());
        let mut terminal = freeing(&server, home.path());
        match signal {
            Some(signal) => terminal.signal(signal),
            None => terminal.press("\x03"),
        }
        left_behind(terminal, &server, home.path());
    }
}
