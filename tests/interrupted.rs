//! Servers that fall silent and operators that are interrupted during a release: what is unknown is called unknown, and
//! the records say how far it got.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::process::Child;
use std::time::Duration;

use common::acting::Acting;
use common::{Desk, Ran, Server, process, wait_until};
use lockscope::actions::Outcome;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(40);
const RELEASE: &[&str] = &["release", "lock:a", "--holder", "t", "--yes"];

/// The server still reads but delays writes.
fn hold_writes(server: &Server) {
    server.cli(&["CLIENT", "PAUSE", "100000", "WRITE"]);
}

fn is_in_flight(server: &Server) -> bool {
    server.ask::<String, _>(&["CLIENT", "LIST"]).contains("cmd=evalsha")
}

/// A command whose script was recorded and sent, and not answered.
fn begun(server: &Server, desk: &Desk, arguments: &[&str]) -> Child {
    hold_writes(server);
    let child = desk.start(arguments);
    wait_until("the script is on its way", SOON, || is_in_flight(server));
    child
}

fn ended(child: Child) -> Ran {
    Ran::of(child.wait_with_output().expect("it ends"))
}

fn phases(desk: &Desk) -> Vec<(Value, Value)> {
    desk.audit().iter().map(|line| (line["phase"].clone(), line["outcome"].clone())).collect()
}

#[tokio::test]
async fn a_release_without_an_answer_is_not_known_and_what_is_there_is_told() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:a", None).await.unwrap();
    hold_writes(&server);
    let performed = acting.free(&lock, None).await;
    server.cli(&["CLIENT", "UNPAUSE"]);
    let Outcome::Unknown(why) = &performed.outcome else { panic!("{performed:?}") };
    assert_eq!(why, "no answer within 5s; it is held by t now");
    assert_eq!(performed.undo, Ok(()), "if it was freed after all, it can be put back");
}

#[test]
fn a_server_that_stops_in_the_middle_is_told_with_exit_code_3() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    let desk = Desk::at(&server);
    let child = begun(&server, &desk, &[RELEASE, &["--json"]].concat());
    server.pause();
    let ran = ended(child);
    server.resume();
    server.cli(&["CLIENT", "UNPAUSE"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let told = ran.json();
    assert_eq!(told["outcome"], "unknown");
    assert!(told["why"].as_str().unwrap().contains("look again"), "{told}");
    assert_eq!(phases(&desk), [(json!("intent"), Value::Null), (json!("outcome"), json!("unknown"))]);
}

#[test]
fn a_server_that_dies_in_the_middle_is_told_with_exit_code_3() {
    let mut server = Server::start();
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    let desk = Desk::at(&server);
    let child = begun(&server, &desk, RELEASE);
    server.kill();
    let ran = ended(child);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.out.starts_with("it is not known whether lock:a was ") && ran.out.lines().count() == 1, "{ran:?}");
    assert_eq!(phases(&desk).last(), Some(&(json!("outcome"), json!("unknown"))));
}

#[test]
fn an_operator_killed_in_the_middle_leaves_its_intent_on_record() {
    for stop in [false, true] {
        let server = Server::start();
        server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
        let desk = Desk::at(&server);
        let mut child = begun(&server, &desk, RELEASE);
        if stop {
            server.pause();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if stop {
            server.resume();
        }
        server.cli(&["CLIENT", "UNPAUSE"]);
        wait_until("the server has heard of its end", SOON, || !is_in_flight(&server));
        assert_eq!(phases(&desk), [(json!("intent"), Value::Null)]);
        let id = desk.audit()[0]["id"].as_str().unwrap().to_string();
        let listed = desk.run_bare(&["audit"]);
        assert!(listed.out.contains("begun") && listed.out.contains(&id), "{listed:?}");
        // If it still exists, it was not freed. If it is gone, its holder may have freed it: undo then needs --force.
        let still_held: bool = server.ask(&["EXISTS", "lock:a"]);
        let undone = desk.run(&["undo", &id, "--yes", "--unwatched"]);
        let known = if still_held { "did not free lock:a" } else { "it is not known whether" };
        assert!(undone.refusal().contains(known), "{undone:?}");
        let forced = desk.run(&["undo", &id, "--yes", "--unwatched", "--force"]);
        assert_eq!(forced.code, if still_held { 1 } else { 0 }, "{forced:?}");
        assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "t");
        assert!((1..=600_000).contains(&server.ask::<i64, _>(&["PTTL", "lock:a"])));
    }
}

#[test]
fn many_releases_stop_where_they_are_told_to() {
    const LOCKS: usize = 300;
    let server = Server::start();
    for number in 0..LOCKS {
        server.cli(&["SET", &format!("lock:{number:03}"), "t", "PX", "600000"]);
    }
    let desk = Desk::at(&server);
    let mut child = desk.start(&["release", "--filter", "lock:*", "--yes", "--json"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut told: Vec<String> = lines.by_ref().take(5).collect();
    process::signal(&child, libc::SIGINT);
    told.extend(lines);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{said}");
    let told: Vec<Value> = told.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(told.iter().all(|line| line["outcome"] == "done"));
    assert!((5..LOCKS).contains(&told.len()), "{}", told.len());
    let left: usize = server.ask(&["DBSIZE"]);
    assert_eq!(left, LOCKS - told.len());
    let tally = format!("stopped by SIGINT: {} freed, {left} not touched", told.len());
    assert_eq!(said.lines().last(), Some(tally.as_str()), "{said}");
    for line in &told {
        assert!(!server.ask::<bool, _>(&["EXISTS", line["key"].as_str().unwrap()]));
    }
    let done = phases(&desk).into_iter().filter(|(_, outcome)| outcome == "done").count();
    assert_eq!(done, told.len(), "each of them is on record");
}
