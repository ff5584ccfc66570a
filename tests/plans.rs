//! `lockscope release --plan`: performs exactly what a dry run showed, or refuses.

mod common;

use std::os::unix::fs::PermissionsExt;

use common::{Desk, Server};
use serde_json::{Value, json};

const TOKEN: &str = "3f2a8c00-1111-4222-8333-444455556666";

fn locks(server: &Server, count: usize) {
    for number in 0..count {
        server.cli(&["SET", &format!("lock:{number:02}"), &format!("{TOKEN}:{number}"), "PX", "600000"]);
    }
}

/// The id that a dry run printed.
fn plan_id(err: &str) -> String {
    let after = err.split("--plan ").nth(1).unwrap_or_else(|| panic!("no plan id in {err:?}"));
    after.split_whitespace().next().expect("an id").to_string()
}

#[test]
fn a_plan_frees_what_the_dry_run_showed_and_nothing_that_came_since() {
    let server = Server::start();
    locks(&server, 3);
    let desk = Desk::at(&server);
    let shown = desk.run(&["release", "--filter", "lock:0*"]);
    let id = plan_id(&shown.err);
    // One changes hands, one is new, two stay as they were shown.
    server.cli(&["SET", "lock:01", "another-holder-of-it-4f1d", "PX", "600000"]);
    server.cli(&["SET", "lock:09", "a-new-holder-beside-77aa", "PX", "600000"]);
    let ran = desk.run(&["release", "--plan", &id, "--yes", "--json"]);
    let outcomes: Vec<(Value, Value)> =
        ran.lines().iter().map(|line| (line["key"].clone(), line["outcome"].clone())).collect();
    let expected = [("lock:00", "done"), ("lock:01", "refused"), ("lock:02", "done")];
    assert_eq!(outcomes.len(), 3, "{ran:?}");
    for (key, outcome) in expected {
        assert!(outcomes.contains(&(json!(key), json!(outcome))), "{key}: {ran:?}");
    }
    assert_eq!(ran.code, 1, "one was refused");
    let mut left: Vec<String> = server.ask(&["KEYS", "*"]);
    left.sort();
    assert_eq!(left, ["lock:01", "lock:09"]);
}

#[test]
fn a_plan_is_performed_once() {
    let server = Server::start();
    locks(&server, 1);
    let desk = Desk::at(&server);
    let id = plan_id(&desk.run(&["release", "--filter", "lock:00"]).err);
    let again = desk.run(&["release", "--plan", &id]);
    assert!(again.code == 0 && again.out.contains("lock:00"), "shown again without --yes: {again:?}");
    assert_eq!(desk.run(&["release", "--plan", &id, "--yes"]).code, 0);
    locks(&server, 1);
    let twice = desk.run(&["release", "--plan", &id, "--yes"]);
    assert_eq!(twice.code, 1, "{twice:?}");
    assert!(twice.err.contains("dry run"), "it says what to do: {twice:?}");
    assert!(server.ask::<bool, _>(&["EXISTS", "lock:00"]), "the next hold is nobody's plan");
}

#[test]
fn a_dry_run_of_one_lock_has_a_plan_too() {
    let server = Server::start();
    locks(&server, 1);
    let desk = Desk::at(&server);
    let shown = desk.run(&["release", "lock:00", "--holder", &format!("{TOKEN}:0"), "--dry-run", "--json"]);
    let id = shown.lines()[0]["plan"].as_str().expect("an id in JSON").to_string();
    let ran = desk.run(&["release", "--plan", &id, "--yes", "--reason", "seen and agreed"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:00"]));
    assert!(desk.audit().iter().any(|entry| entry["reason"] == "seen and agreed"));
}

#[test]
fn a_plan_is_nobody_else_s_to_read() {
    let server = Server::start();
    locks(&server, 1);
    let desk = Desk::at(&server);
    let id = plan_id(&desk.run(&["release", "--filter", "lock:00"]).err);
    let plans = desk.state().join("plans");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&plans), 0o700);
    assert_eq!(mode(&plans.join(format!("{id}.json"))), 0o600);
}

#[test]
fn a_plan_for_another_server_or_of_long_ago_is_refused() {
    let (server, other) = (Server::start(), Server::start());
    locks(&server, 1);
    locks(&other, 1);
    let desk = Desk::at(&server);
    let id = plan_id(&desk.run(&["release", "--filter", "lock:00"]).err);
    let elsewhere = desk.run_bare(&["-u", &other.url(), "release", "--plan", &id, "--yes"]);
    assert_eq!(elsewhere.code, 1, "{elsewhere:?}");
    assert!(elsewhere.err.contains("another server") && elsewhere.err.contains("the plan is kept"), "{elsewhere:?}");
    assert!(other.ask::<bool, _>(&["EXISTS", "lock:00"]));
    let path = desk.state().join("plans").join(format!("{id}.json"));
    let mut stored: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    stored["made_at"] = json!(stored["made_at"].as_i64().unwrap() - 3_600_000);
    std::fs::write(&path, stored.to_string()).unwrap();
    let late = desk.run(&["release", "--plan", &id, "--yes"]);
    assert_eq!(late.code, 1, "{late:?}");
    assert!(late.err.contains("dry run"), "{late:?}");
    for wrong in ["nosuch", "../audit", "", "."] {
        let ran = desk.run(&["release", "--plan", wrong, "--yes"]);
        assert!(ran.code == 1 || ran.code == 2, "{wrong:?}: {ran:?}");
    }
    assert!(server.ask::<bool, _>(&["EXISTS", "lock:00"]));
}

#[test]
fn freeing_by_filter_without_a_plan_says_that_it_judges_anew() {
    let server = Server::start();
    locks(&server, 1);
    let ran = Desk::at(&server).run(&["release", "--filter", "lock:00", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("that match now"), "{ran:?}");
}

/// The options of a printed command and the words after them, as the plainest of shells splits them.
fn words_of(printed: &str) -> (Vec<String>, Vec<Vec<u8>>) {
    let script = format!("redis_cli() {{ printf '%s\\0' \"$@\"; }}\nalias redis-cli=redis_cli\n{printed}");
    let read = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell runs");
    assert!(read.status.success(), "{read:?}");
    let mut words: Vec<Vec<u8>> = read.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    assert_eq!(words.pop().as_deref(), Some(&b""[..]));
    let command = words.iter().position(|word| word == b"EVAL").expect("an EVAL");
    let rest = words.split_off(command);
    (words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect(), rest)
}

#[test]
fn a_command_for_a_runbook_compares_as_the_release_does() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let key = "lock:it's \u{f6}ffentlich $(id)";
    let set = |token: &str| server.cli(&["SET", key, token, "PX", "600000"]);
    set(TOKEN);
    let shown = desk.run(&["release", key, "--holder", TOKEN, "--dry-run", "--eval"]);
    assert!(shown.code == 0 && shown.out.contains(" EVAL '-- lockscope: "), "{shown:?}");
    let (options, words) = words_of(&shown.out);
    assert_eq!(options, ["-h", "127.0.0.1", "-p", &server.port().to_string(), "-n", "0"]);
    set("somebody-else-entirely-77aa");
    let answer: Vec<redis::Value> = server.ask(&words);
    assert_eq!(answer[0], redis::Value::Int(0), "{answer:?}");
    assert!(server.ask::<bool, _>(&["EXISTS", key]));
    set(TOKEN);
    let answer: Vec<redis::Value> = server.ask(&words);
    assert_eq!(answer[0], redis::Value::Int(1), "{answer:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", key]));
    set(TOKEN);
    let shown = desk.run(&["extend", key, "--holder", TOKEN, "--ttl", "20m", "--dry-run", "--eval"]);
    let answer: Vec<redis::Value> = server.ask(&words_of(&shown.out).1);
    assert_eq!(answer[0], redis::Value::Int(1), "{shown:?} {answer:?}");
    assert!(server.ask::<i64, _>(&["PTTL", key]) > 600_000);
}

#[test]
fn the_next_hold_of_the_same_thread_is_not_freed_by_a_command_for_a_runbook() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let thread = format!("{TOKEN}:57");
    let take = |lease: &str| {
        server.cli(&["DEL", "orders-lock:1"]);
        server.cli(&["HSET", "orders-lock:1", &thread, "1"]);
        server.cli(&["PEXPIRE", "orders-lock:1", lease]);
    };
    take("20000");
    let shown = desk.run(&["release", "orders-lock:1", "--holder", &thread, "--dry-run", "--eval"]);
    let (_, words) = words_of(&shown.out);
    take("30000");
    let answer: Vec<redis::Value> = server.ask(&words);
    assert!(server.ask::<bool, _>(&["EXISTS", "orders-lock:1"]), "{answer:?}");
    // The answer means what the comments say.
    let [redis::Value::Int(0), redis::Value::Int(which), ..] = answer[..] else { panic!("{answer:?}") };
    let told = format!("# comparison {which}: the TTL of orders-lock:1 still ends at the moment that you saw\n");
    assert!(shown.out.contains(&told) && shown.out.contains("#   0: nothing was done"), "{which}: {}", shown.out);
}

#[test]
fn a_command_for_a_runbook_says_how_to_connect_and_keeps_the_password_to_itself() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "ops", "on", ">hunter2", "~*", "&*", "+@all"]);
    server.cli(&[&b"SET"[..], b"lock:\xff", TOKEN.as_bytes(), b"PX", b"600000"]);
    let desk = Desk::at(&server);
    let url = format!("redis://ops:hunter2@127.0.0.1:{}/0", server.port());
    let shown = desk.run_bare(&["-u", &url, "release", "lock:\\xff", "--holder", TOKEN, "--dry-run", "--eval"]);
    assert!(shown.code == 0 && shown.out.contains("REDISCLI_AUTH"), "{shown:?}");
    assert!(!shown.out.contains("hunter2") && !shown.err.contains("hunter2"), "{shown:?}");
    let (options, words) = words_of(&shown.out);
    assert_eq!(options, ["-h", "127.0.0.1", "-p", &server.port().to_string(), "--user", "ops", "-n", "0"]);
    let answer: Vec<redis::Value> = server.ask(&words);
    assert_eq!(answer[0], redis::Value::Int(1), "{answer:?}");
}

#[test]
fn no_command_is_printed_for_what_may_not_be_freed() {
    let server = Server::start();
    let desk = Desk::at(&server);
    server.cli(&["SET", "bull:mail:7:lock", &format!("{TOKEN}:1"), "PX", "600000"]);
    server.cli(&["SET", "lock:number", "3"]);
    server.cli(&["SET", "lock:zero", "a\0b-holder-of-it-77", "PX", "600000"]);
    for (key, holder) in [
        ("bull:mail:7:lock", format!("{TOKEN}:1")),
        ("lock:number", "3".to_string()),
        ("lock:zero", "a\\u{0}b-holder-of-it-77".to_string()),
    ] {
        let ran = desk.run(&["release", key, "--holder", &holder, "--dry-run", "--eval"]);
        assert!(ran.code == 1 && ran.out.is_empty(), "{key}: {ran:?}");
    }
    assert_eq!(desk.run(&["release", "lock:number", "--holder", "3", "--eval"]).code, 2, "it needs --dry-run");
}
