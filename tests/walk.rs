//! A walk of the keyspace whose connections are cut: every lock is found, or the output says that some are missing.
//!
//! Our connections are killed at random times, one or all of them, at both paces and more than once.
//! `LOCKSCOPE_KILL_ROUNDS` sets the number of rounds.

mod common;

use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use common::{Server, lockscope_process, wait_until};
use serde_json::Value;

/// The number of locks of a server that the fast pace walks in two halves, and of one for the polite pace.
const LARGE: usize = 21_000;
const SMALL: usize = 2_500;
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with this many locks, and four times as many other keys.
fn server_with(locks: usize) -> Server {
    let server = Server::start();
    let fill = "for n = ARGV[1], ARGV[2] do redis.call('SET', string.format('lock:%d', n), 'token-' .. n, 'PX', 36000000) \
        for other = 1, 4 do redis.call('SET', string.format('other:%d:%d', other, n), 'x') end end";
    for first in (1..=locks).step_by(5_000) {
        let last = (first + 4_999).min(locks);
        server.cli(&["EVAL", fill, "0", &first.to_string(), &last.to_string()]);
    }
    server
}

/// A connection of ours: its id, and the command that it ran last.
#[derive(Clone, Debug)]
struct Connection {
    id: String,
    command: String,
}

fn connections(server: &Server) -> Vec<Connection> {
    let list: String = server.ask(&["CLIENT", "LIST"]);
    let field = |line: &str, name: &str| {
        line.split(' ').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).unwrap_or("").to_string()
    };
    let ours = list.lines().filter(|line| field(line, "name").starts_with("lockscope"));
    ours.map(|line| Connection { id: field(line, "id"), command: field(line, "cmd") }).collect()
}

/// Which of our connections are killed.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Looking,
    Walking,
    Any,
    All,
}

impl Cut {
    fn among(self, all: Vec<Connection>, dice: &mut Dice) -> Vec<Connection> {
        // Of a subcommand, older servers name only the command.
        let looks = |one: &Connection| {
            let command = one.command.split('|').next().unwrap_or_default();
            matches!(command, "type" | "object" | "pttl" | "getrange")
        };
        let kept: Vec<Connection> = match self {
            Cut::Looking => all.into_iter().filter(looks).collect(),
            Cut::Walking => all.into_iter().filter(|one| one.command == "scan").collect(),
            Cut::Any | Cut::All => all,
        };
        match self {
            Cut::All => kept,
            _ if kept.is_empty() => kept,
            _ => vec![kept[dice.below(kept.len() as u64) as usize].clone()],
        }
    }
}

/// Reproducible random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// Runs `ls` and cuts its connections `times` times while it walks. Returns how many were cut, and the output.
fn cut_short(server: &Server, arguments: &[&str], cut: Cut, times: u64, dice: &mut Dice) -> (usize, Output) {
    // In milliseconds: about as long as a walk takes.
    let spread = 800;
    let home = common::process::temporary_directory();
    let mut command = lockscope_process(home.path());
    command.args(["ls", "--json", "-p", "lock:*", "-u", &server.url()]).args(arguments);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("lockscope starts");
    let finished = std::thread::spawn(move || child.wait_with_output().expect("a child of ours"));
    let mut killed = 0;
    for _ in 0..times {
        let began = Instant::now();
        wait_until("a walk is under way, or over", PATIENCE, || {
            finished.is_finished() || connections(server).iter().any(|one| one.command == "scan")
        });
        let moment = Duration::from_millis(dice.below(spread));
        while began.elapsed() < moment && !finished.is_finished() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // The wanted connection may be running another command; a few tries find it.
        for _ in 0..50 {
            let chosen = cut.among(connections(server), dice);
            for one in &chosen {
                killed += server.try_ask::<i64, _>(&["CLIENT", "KILL", "ID", &one.id]).unwrap_or(0) as usize;
            }
            if !chosen.is_empty() || finished.is_finished() {
                break;
            }
        }
    }
    (killed, finished.join().expect("the reader of its output"))
}

/// All locks are listed, or the output says that some are missing.
#[track_caller]
fn holds(found: &Output, locks: usize, what: &str) {
    let said = String::from_utf8_lossy(&found.stderr);
    if !found.status.success() {
        assert_eq!(found.status.code(), Some(3), "{what}: {said}");
        assert!(said.contains("lockscope: "), "{what}: {said}");
        if found.stdout.is_empty() {
            return;
        }
    }
    let document: Value = serde_json::from_slice(&found.stdout).unwrap_or_else(|why| panic!("{what}: {why}; {said}"));
    let listed = document["locks"].as_array().expect("a list of locks").len();
    match document["complete"].as_bool() {
        Some(true) => assert_eq!(listed, locks, "{what}: complete, with locks missing"),
        _ => assert!(document["incomplete"].is_string() && said.contains("incomplete"), "{what}: {said}"),
    }
}

fn rounds() -> u64 {
    std::env::var("LOCKSCOPE_KILL_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4)
}

#[test]
fn a_look_that_is_cut_off_loses_no_lock() {
    let server = server_with(LARGE);
    let mut dice = Dice(17);
    for pace in ["fast", "90%"] {
        let arguments = ["--observe", "200ms", "--pace", pace];
        let (killed, found) = cut_short(&server, &arguments, Cut::Looking, 1, &mut dice);
        assert_eq!(killed, 1, "{pace}");
        let document: Value = serde_json::from_slice(&found.stdout).expect("a document");
        let listed = document["locks"].as_array().expect("a list of locks").len();
        assert_eq!((listed, &document["complete"]), (LARGE, &true.into()), "{pace}");
        let node = &document["server"]["nodes"][0];
        assert!(node["reconnects"].as_u64() >= Some(1), "{pace}: {node}");
        // What was walked twice counts once; the two halves of a walk overlap by at most a page.
        let matched = node["scan"]["matched"].as_u64().unwrap() as usize;
        let page = node["scan"]["count"].as_u64().unwrap() as usize;
        assert!((LARGE..=LARGE + page).contains(&matched), "{pace}: {node}");
    }
}

#[test]
fn a_walk_that_is_cut_anywhere_finds_every_lock_or_says_so() {
    let (large, small) = (server_with(LARGE), server_with(SMALL));
    std::thread::scope(|scope| {
        for (server, locks, pace) in [(&large, LARGE, "fast"), (&small, SMALL, "polite")] {
            scope.spawn(move || {
                for round in 0..rounds() {
                    let mut dice = Dice(round * 31 + locks as u64);
                    let cut = [Cut::Any, Cut::All, Cut::Walking, Cut::Looking][(round % 4) as usize];
                    let times = 1 + dice.below(3);
                    let observe: &[&str] = if round % 7 == 3 { &[] } else { &["--observe", "300ms"] };
                    let arguments = [&["--pace", pace], observe].concat();
                    let (killed, found) = cut_short(server, &arguments, cut, times, &mut dice);
                    holds(&found, locks, &format!("round {round}, {pace}, {cut:?}, {killed} killed"));
                }
            });
        }
    });
}
