//! `lockscope check`: each state and each exit code, with trouble that was planted.

mod common;

use std::path::PathBuf;

use common::{Desk, Ran, Server, process};
use serde_json::Value;

/// A file of rules that is removed with its directory.
struct File(tempfile::TempDir);

impl File {
    fn with(text: &str) -> File {
        let directory = process::temporary_directory();
        std::fs::write(directory.path().join("rules.toml"), text).unwrap();
        File(directory)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("rules.toml")
    }
}

fn rule(name: &str, rest: &str) -> String {
    format!("[[rules]]\nname = \"{name}\"\nseverity = \"page\"\n{rest}\n")
}

fn check(server: &Server, rules: &str, arguments: &[&str]) -> Ran {
    let file = File::with(&format!("default_rules = false\n{rules}"));
    let path = file.path();
    Desk::at(server).run(&[&["check", "--for", "1s", "--rules", path.to_str().unwrap()], arguments].concat())
}

fn alerts(ran: &Ran) -> Vec<Value> {
    let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {} {}", ran.out, ran.err));
    assert_eq!(document["schema"], "lockscope/1");
    document["alerts"].as_array().expect("a list").clone()
}

const NO_TTL: &str = "metric = \"lockscope_locks\"\nselector = \"state:no-ttl\"\nabove = 0";

fn with_trouble() -> Server {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:forever:7", "worker-7"]);
    server.cli(&["SET", "lock:order:1", "worker-8", "PX", "600000"]);
    server
}

#[test]
fn a_rule_that_fires_ends_a_cron_job_with_1() {
    let server = with_trouble();
    let ran = check(
        &server,
        &rule("NoTtl", &format!("{NO_TTL}\nnote = \"give it an end\"\nrunbook = \"r.md\"")),
        &["--json"],
    );
    assert_eq!(ran.code, 1, "{}", ran.err);
    let alerts = alerts(&ran);
    let [alert] = &alerts[..] else { panic!("{alerts:?}") };
    assert_eq!(
        (&alert["rule"], &alert["severity"], &alert["state"]),
        (&"NoTtl".into(), &"page".into(), &"firing".into())
    );
    assert_eq!((&alert["value"], &alert["threshold"]), (&1.0.into(), &0.0.into()));
    assert_eq!(alert["labels"]["pattern"], "lock:forever:*");
    assert_eq!((&alert["note"], &alert["runbook"]), (&"give it an end".into(), &"r.md".into()));
    assert!(alert["since"].as_str().is_some_and(|since| since.ends_with('Z')));
    assert!(alert["why"].as_str().is_some_and(|why| why.starts_with("lockscope_locks is 1 (> 0) for ")), "{alert}");
    let text = check(&server, &rule("NoTtl", NO_TTL), &[]);
    assert!(text.out.starts_with("firing   page   NoTtl pattern=lock:forever:* state=no-ttl: "), "{}", text.out);
}

#[test]
fn a_rule_that_is_calm_ends_it_with_0() {
    let server = with_trouble();
    let ran = check(
        &server,
        &rule("Split", "metric = \"lockscope_locks\"\nselector = \"state:split\"\nabove = 0"),
        &["--json"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let alerts = alerts(&ran);
    assert_eq!((&alerts[0]["state"], &alerts[0]["labels"]), (&"inactive".into(), &serde_json::json!({})));
    assert!(alerts[0]["since"].is_null() && alerts[0]["value"].is_null() && alerts[0]["why"].is_null());
    assert!(ran.err.contains("1 rule is quiet"), "{}", ran.err);
}

#[test]
fn a_rule_that_waits_longer_than_we_watch_is_pending_and_that_is_said() {
    let server = with_trouble();
    let rules = rule("NoTtl", &format!("{NO_TTL}\nfor = \"10m\""));
    let ran = check(&server, &rules, &["--json"]);
    assert_eq!((ran.code, &alerts(&ran)[0]["state"]), (0, &"pending".into()), "{}", ran.err);
    assert!(ran.err.contains("1 alert is pending") && ran.err.contains("--ignore-for"), "{}", ran.err);
    assert!(alerts(&ran)[0]["why"].as_str().unwrap().ends_with("fires after 10m00s"));
    let ran = check(&server, &rules, &["--json", "--ignore-for"]);
    assert_eq!((ran.code, &alerts(&ran)[0]["state"]), (1, &"firing".into()), "{}", ran.err);
}

#[test]
fn what_was_not_measured_is_unknown_and_never_calm() {
    let server = with_trouble();
    let rules = rule("Failures", "metric = \"lockscope_failure_ratio\"\nabove = 0.1");
    let ran = check(&server, &rules, &["--json"]);
    assert_eq!((ran.code, &alerts(&ran)[0]["state"]), (0, &"unknown".into()), "{}", ran.err);
    assert!(alerts(&ran)[0]["why"].as_str().unwrap().contains("no coverage"), "{}", ran.out);
    assert!(ran.err.contains("1 rule is unknown"), "{}", ran.err);
    assert_eq!(check(&server, &rules, &["--unknown-fails"]).code, 1);
    let text = check(&server, &rules, &[]);
    assert!(text.out.starts_with("unknown  page   Failures: no coverage"), "{}", text.out);
    assert_eq!(check(&server, &rules, &["-q", "--json"]).err, "");
}

#[test]
fn an_age_whose_beginning_nobody_saw_is_no_calm() {
    let server = with_trouble();
    let rules = rule("TooLong", "metric = \"lockscope_oldest_hold_age_seconds\"\nabove = 900");
    let ran = check(&server, &rules, &["--json"]);
    assert_eq!((ran.code, &alerts(&ran)[0]["state"]), (0, &"unknown".into()), "{}", ran.err);
    let why = alerts(&ran)[0]["why"].as_str().unwrap().to_string();
    assert!(why.contains("their age is only a lower bound (lock:"), "{why}");
    let calm = Server::notifying(&[]);
    let ran = check(&calm, &rules, &["--json"]);
    assert_eq!(alerts(&ran)[0]["state"], "inactive", "without locks there is no age: {}", ran.out);
}

#[test]
fn a_name_is_escaped_once() {
    let server = Server::notifying(&[]);
    server.cli(&[&b"SET"[..], b"lock:a\\b\xff", b"holder"]);
    let text = check(&server, &rule("NoTtl", NO_TTL), &[]).out;
    assert!(text.contains(r"pattern=lock:a\\b\xff state"), "{text}");
}

#[test]
fn a_rule_that_matches_nothing_says_that_its_silence_says_nothing() {
    let server = with_trouble();
    let ran =
        check(&server, &rule("Odd", "metric = \"lockscope_locks\"\nselector = \"pattern:nothing:*\"\nabove = 0"), &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("no series of lockscope_locks matches"), "{}", ran.err);
}

#[test]
fn without_a_file_the_default_rules_judge() {
    let server = with_trouble();
    let desk = Desk::at(&server);
    let ran = desk.run(&["check", "--for", "1s", "--json"]);
    let alerts = alerts(&ran);
    let state = |rule: &str| {
        let alert = alerts.iter().find(|alert| alert["rule"] == rule).unwrap_or_else(|| panic!("no {rule}"));
        alert["state"].as_str().unwrap().to_string()
    };
    assert_eq!((ran.code, state("LockWithoutTtl"), state("LockSplit")), (0, "pending".into(), "inactive".into()));
    assert_eq!(
        (state("LockscopeAbsent"), state("LockscopeBlind")),
        ("inactive".into(), "inactive".into()),
        "we are here"
    );
    assert_eq!(desk.run(&["check", "--for", "1s", "--ignore-for"]).code, 1);
}

#[test]
fn what_is_wrong_is_one_sentence() {
    let server = with_trouble();
    let desk = Desk::at(&server);
    let refused = |rules: &str, part: &str| {
        let file = File::with(rules);
        let ran = desk.run(&["check", "--for", "1s", "--rules", file.path().to_str().unwrap()]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(part) && ran.err.lines().count() == 1, "{part}: {}", ran.err);
        assert!(ran.err.contains("rules.toml"), "{}", ran.err);
    };
    refused(&rule("A", "metric = \"lockscope_lock\"\nabove = 0"), "lockscope_locks");
    refused(&rule("A", "metric = \"lockscope_locks\"\nabove = 0\nbelow = 1"), "below");
    refused(&format!("{0}{0}", rule("A", "metric = \"lockscope_locks\"\nabove = 0")), "two rules");
    refused("nonsense", "rules.toml");
    for (arguments, part) in [
        (&["check", "--rules", "/nowhere/rules.toml"][..], "rules template"),
        (&["check", "--for", "10ms"], "--for is 1s or longer"),
        (&["check", "--store", "a", "--for", "5s"], "cannot be used with"),
    ] {
        let ran = desk.run(arguments);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(part) && ran.err.lines().count() == 1, "{}", ran.err);
    }
    let gone = Desk::with_url("redis://127.0.0.1:1").run(&["check", "--for", "1s"]);
    assert_eq!(gone.code, 3, "{}", gone.err);
}
