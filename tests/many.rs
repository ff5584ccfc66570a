//! `lockscope release --filter`: many locks at once, shown first, and each of them compared before the write.

mod common;

use std::io::{BufRead, BufReader};

use common::{Desk, Server, process};
use serde_json::{Value, json};

const A: &str = "3f2a8c00-1111-4222-8333-444455556666:57";

fn locks(server: &Server, count: usize) {
    for number in 0..count {
        server.cli(&["SET", &format!("lock:{number:02}"), &format!("t{number}"), "PX", "600000"]);
    }
}

#[test]
fn a_dry_run_lists_all_and_changes_nothing() {
    let server = Server::start();
    locks(&server, 3);
    server.cli(&["HSET", "lock:h1", A, "1"]);
    server.cli(&["HSET", "lock:h2", A, "1"]);
    server.cli(&["SET", "bull:mail:1:lock", &format!("{}:0", &A[..36]), "PX", "600000"]);
    let before = server.everything();
    let desk = Desk::at(&server);
    for arguments in [&["release", "--filter", "lock"][..], &["release", "--filter", "lock", "--dry-run"]] {
        let ran = desk.run(arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        let header = ran.out.lines().next().unwrap();
        assert!(["KEY", "LIBRARY", "HOLDER", "TTL"].iter().all(|title| header.contains(title)), "{}", ran.out);
        for key in ["lock:00", "lock:01", "lock:02", "lock:h1", "lock:h2", "bull:mail:1:lock"] {
            let rows = ran.out.lines().filter(|line| line.split_whitespace().nth(1) == Some(key));
            assert_eq!(rows.count(), 1, "{key}\n{}", ran.out);
        }
        let told: Vec<&str> = ran.out.lines().filter(|line| line.contains("IllegalMonitorState")).collect();
        assert!(told.len() == 1 && told[0].starts_with("free it? "), "{}", ran.out);
        assert!(ran.out.contains("\nbull:mail:1:lock can't be freed: "), "{}", ran.out);
        assert!(ran.err.starts_with("5 locks would be freed, 1 refused; within 10 minutes, "), "{}", ran.err);
    }
    let ran = desk.run(&["release", "--filter", "lock:0*", "--json"]);
    let lines = ran.lines();
    assert_eq!((ran.code, lines.len()), (0, 3));
    for line in &lines {
        assert_eq!((&line["dry_run"], &line["outcome"], &line["id"]), (&json!(true), &Value::Null, &Value::Null));
        assert_eq!(line["commands"], json!([format!("DEL {}", line["key"].as_str().unwrap())]));
    }
    assert_eq!(server.everything(), before);
    assert_eq!(desk.audit().len(), 0, "nothing was done");
}

#[test]
fn exactly_those_that_match_are_freed() {
    let server = Server::start();
    locks(&server, 5);
    server.cli(&["SET", "lock:forever", "t"]);
    let desk = Desk::at(&server);
    let ran = desk.run(&["release", "--filter", "ttl!=none", "--limit", "3", "--yes", "--json"]);
    let lines = ran.lines();
    assert_eq!((ran.code, lines.len()), (0, 3), "{ran:?}");
    for line in &lines {
        for field in ["schema", "id", "action", "key", "outcome", "why", "commands", "woke"] {
            assert!(line.get(field).is_some(), "{field} in {line}");
        }
        assert_eq!((&line["schema"], &line["action"]), (&json!("lockscope/1"), &json!("release")));
        assert_eq!((&line["outcome"], &line["woke"]), (&json!("done"), &json!(0)));
        assert!(!server.ask::<bool, _>(&["EXISTS", line["key"].as_str().unwrap()]));
    }
    assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 3);
    assert_eq!(desk.run(&["release", "--filter", "ttl!=none", "--yes"]).code, 0);
    assert_eq!(server.ask::<Vec<String>, _>(&["KEYS", "*"]), ["lock:forever"]);
    let none = desk.run(&["release", "--filter", "ttl!=none", "--yes"]);
    assert!(none.refusal().contains("no lock that matches"), "{none:?}");
    let wrong = desk.run(&["release", "--filter", "ttl<<", "--yes"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(server.ask::<bool, _>(&["EXISTS", "lock:forever"]));
}

/// node-redlock and bsm/redislock can take several keys with one value in one acquire.
#[test]
fn all_keys_of_one_holder_are_freed_together() {
    let server = Server::start();
    let (value, other) = ("96da70f7716f27d278a5218544df37fd", "ce46f80993d5dac20dd066eb301a4e37");
    for (key, value) in [("locks:orders", value), ("locks:rows", value), ("locks:mail", other)] {
        server.cli(&["SET", key, value, "PX", "600000"]);
    }
    let desk = Desk::at(&server);
    let shown = desk.run(&["release", "locks:orders", "--holder", value, "--dry-run"]);
    assert!(shown.out.contains("several keys with the same value"), "{shown:?}");
    assert_eq!(desk.run(&["release", "--filter", &format!("holder:{value}"), "--yes"]).code, 0);
    assert_eq!(server.ask::<Vec<String>, _>(&["KEYS", "*"]), ["locks:mail"]);
}

#[test]
fn one_that_changes_hands_is_refused_and_the_others_are_freed() {
    const LOCKS: usize = 60;
    let server = Server::start();
    locks(&server, LOCKS);
    let desk = Desk::at(&server);
    let mut child = desk.start(&["release", "--filter", "lock:*", "--yes", "--json"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next().expect("a first one");
    // Stopped after it has read all of them and before it frees the last.
    process::signal(&child, libc::SIGSTOP);
    let last = format!("lock:{}", LOCKS - 1);
    let taken = server.cli(&["SET", &last, "another", "XX", "KEEPTTL"]);
    assert_eq!(taken, redis::Value::Okay, "the last one was still there");
    process::signal(&child, libc::SIGCONT);
    let told: Vec<Value> =
        [first].into_iter().chain(lines).map(|line| serde_json::from_str(&line).expect("JSON")).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert_eq!(told.len(), LOCKS);
    let refused: Vec<&Value> = told.iter().filter(|line| line["outcome"] == "refused").collect();
    let [refused] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!((&refused["key"], &refused["why"]), (&json!(last), &json!("it has another holder now: another")));
    assert_eq!(server.ask::<Vec<String>, _>(&["KEYS", "*"]), [last]);
}
