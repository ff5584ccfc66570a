//! The pager: real Alertmanagers, and servers and commands that misbehave.

mod common;

use std::time::Duration;

use common::alertmanager::Alertmanager;
use common::scripted::{Scripted, answer};
use common::{Desk, Server, Serving, process, wait_until};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(40);
const RULES: &str = r#"
default_rules = false
[[rules]]
name = "NoTtl"
metric = "lockscope_locks"
selector = "state:no-ttl"
above = 0
severity = "page"
note = "Give it an end."
runbook = "https://wiki.example/no-ttl"
[[rules]]
name = "Held"
metric = "lockscope_locks"
selector = "state:held"
above = 0
severity = "info"
"#;

/// A daemon with that pager.
struct Scene {
    server: Server,
    serving: Serving,
    _directory: tempfile::TempDir,
}

impl Scene {
    fn with(pager: &str) -> Scene {
        let server = Server::notifying(&[]);
        let directory = process::temporary_directory();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
        std::fs::write(path("rules.toml"), RULES).unwrap();
        std::fs::write(path("config.toml"), format!("[pager]\n{pager}\n")).unwrap();
        let serving = Serving::start(&server, &["--rules", &path("rules.toml"), "--config", &path("config.toml")]);
        Scene { server, serving, _directory: directory }
    }

    fn trouble(&self) {
        self.server.cli(&["SET", "lock:forever", "holder"]);
    }

    fn is_over(&self) {
        self.server.cli(&["DEL", "lock:forever"]);
    }

    /// How many notifications of the receiver had that outcome.
    fn count(&self, receiver: &str, outcome: &str) -> f64 {
        let metrics = self.serving.metrics();
        let series = format!("lockscope_notifications_total{{receiver=\"{receiver}\",outcome=\"{outcome}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(series.as_str()));
        line.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().unwrap()
    }
}

#[test]
fn every_alertmanager_hears_that_an_alert_fires_and_ends_with_its_note() {
    let (Some(one), Some(other)) = (Alertmanager::start(), Alertmanager::start()) else { return };
    let scene = Scene::with(&format!("alertmanager = [{:?}, {:?}]\nresend = \"1s\"", one.url(), other.url()));
    scene.trouble();
    for manager in [&one, &other] {
        wait_until("the alert to arrive", PATIENCE, || !manager.alerts().is_empty());
    }
    let first = one.alerts()[0].clone();
    assert_eq!(first["labels"]["alertname"], "NoTtl");
    assert_eq!(first["labels"]["severity"], "page");
    assert_eq!(first["labels"]["pattern"], "lock:forever");
    assert_eq!(first["annotations"]["description"], "Give it an end.");
    // Sent again: the end that it believes in moves on, the beginning stays.
    wait_until("it to be sent again", PATIENCE, || one.alerts().iter().any(|alert| alert["endsAt"] != first["endsAt"]));
    assert_eq!(one.alerts()[0]["startsAt"], first["startsAt"]);
    assert_eq!(one.alerts().len(), 1, "it is one alert");
    scene.is_over();
    for manager in [&one, &other] {
        wait_until("its end to be told", PATIENCE, || !manager.told("resolved").is_empty());
        let ended = manager.told("resolved")[0].clone();
        assert_eq!(ended["annotations"]["description"], "Give it an end.", "{ended}");
        assert_eq!(ended["annotations"]["runbook_url"], "https://wiki.example/no-ttl");
        wait_until("nothing to be active", PATIENCE, || manager.alerts().is_empty());
        assert!(scene.count(&manager.url(), "sent") >= 3.0);
        assert_eq!(scene.count(&manager.url(), "failed"), 0.0);
    }
}

#[test]
fn an_outage_of_the_server_ends_no_page() {
    let Some(manager) = Alertmanager::start() else { return };
    let mut scene = Scene::with(&format!("alertmanager = [{:?}]\nresend = \"1s\"", manager.url()));
    scene.trouble();
    wait_until("the alert to arrive", PATIENCE, || !manager.alerts().is_empty());
    let begun = manager.alerts()[0]["startsAt"].clone();
    let evaluations = || scene.serving.value("lockscope_rule_evaluations_total", &["\"NoTtl\""]).unwrap();
    scene.server.pause();
    scene.serving.shows("lockscope_locks", &["state=\"no-ttl\""], None);
    let blind = evaluations();
    wait_until("two evaluations without sight", PATIENCE, || evaluations() >= blind + 2.0);
    assert_eq!((manager.told("resolved").len(), manager.alerts().len()), (0, 1), "{}", scene.serving.story());
    assert!(!scene.serving.story().contains("is over"), "{}", scene.serving.story());
    scene.server.resume();
    scene.serving.shows("lockscope_locks", &["state=\"no-ttl\""], Some(1.0));
    let seen = evaluations();
    wait_until("two evaluations in sight", PATIENCE, || evaluations() >= seen + 2.0);
    assert_eq!(manager.alerts()[0]["startsAt"], begun, "it is the same alert");
    scene.is_over();
    scene.serving.says("is over");
    wait_until("its end to be told", PATIENCE, || !manager.told("resolved").is_empty());
}

#[test]
fn an_alertmanager_that_was_down_hears_what_is_true_when_it_is_back() {
    let Some(mut manager) = Alertmanager::start() else { return };
    let mut scene = Scene::with(&format!("alertmanager = [{:?}]\nresend = \"1s\"", manager.url()));
    manager.stop();
    scene.trouble();
    scene.serving.says("can't be reached: nobody listens there");
    wait_until("it to be tried again", PATIENCE, || scene.count(&manager.url(), "retried") >= 2.0);
    manager.restart();
    wait_until("the alert to arrive", PATIENCE, || !manager.alerts().is_empty());
    scene.serving.says("takes alerts again");
    // It ends while nobody listens: the end is told later.
    manager.stop();
    scene.is_over();
    scene.serving.says("is over");
    manager.restart();
    wait_until("it to be told", PATIENCE, || scene.count(&manager.url(), "sent") >= 2.0);
    assert!(manager.alerts().is_empty(), "{:?}", manager.alerts());
}

#[test]
fn one_that_never_answers_holds_up_nobody() {
    let Some(manager) = Alertmanager::start() else { return };
    let slow = Scripted::start(|_| None);
    let urls = format!("alertmanager = [{:?}, {:?}]\ntimeout = \"500ms\"", slow.url(), manager.url());
    let mut scene = Scene::with(&urls);
    scene.trouble();
    wait_until("the other to hear it", PATIENCE, || !manager.alerts().is_empty());
    scene.serving.says("did not answer within 500ms");
    wait_until("it to be tried again", PATIENCE, || scene.count(&slow.url(), "retried") >= 2.0);
    assert_eq!(scene.count(&slow.url(), "sent"), 0.0);
}

#[test]
fn what_is_refused_is_told_with_the_fix() {
    for (status, part) in [
        (400, "refuses an alert with 400 (bad label)"),
        (401, "check user, password_file and bearer_file"),
        (404, "check the prefix"),
        (410, "name an Alertmanager with API v2"),
        (415, "changes the Content-Type"),
    ] {
        let refusing = Scripted::start(move |_| Some(answer(status, "text/plain", "bad label")));
        let mut scene = Scene::with(&format!("alertmanager = [{:?}]\nresend = \"1s\"", refusing.url()));
        scene.trouble();
        scene.serving.says(part);
        let asked = &refusing.asked()[0];
        assert!(asked.headers.contains("content-type: application/json"), "{asked:?}");
        assert!(asked.line.starts_with("POST /api/v2/alerts "), "{asked:?}");
    }
}

#[test]
fn what_is_refused_is_not_sent_for_ever() {
    let refusing = Scripted::with(400, "text/plain", "bad label");
    let scene = Scene::with(&format!("alertmanager = [{:?}]\nresend = \"1s\"", refusing.url()));
    scene.trouble();
    wait_until("it to be given up", PATIENCE, || scene.count(&refusing.url(), "failed") == 1.0);
    let asked = refusing.asked().len();
    assert_eq!(asked, 5);
    // What changes is tried again: its end.
    scene.is_over();
    wait_until("its end to be tried", PATIENCE, || refusing.asked().len() > asked);
    let said = scene.serving.story();
    assert_eq!(said.matches("refuses an alert with 400").count(), 1, "it is said once: {said}");
}

#[test]
fn one_bad_alert_does_not_keep_the_others_from_arriving() {
    // Refuses a list with a bad alert in it, as Alertmanager does.
    let picky = Scripted::start(|asked| {
        let bad = asked.body.contains("\"Held\"");
        Some(if bad { answer(400, "text/plain", "no") } else { answer(200, "text/plain", "") })
    });
    let scene = Scene::with(&format!("alertmanager = [{:?}]\nresend = \"1s\"", picky.url()));
    // Both fire in one evaluation.
    scene.server.cli(&["MSET", "lock:forever", "holder", "lock:other", "holder"]);
    scene.server.cli(&["SET", "lock:order:1", "holder", "PX", "600000"]);
    wait_until("the good ones to be taken", PATIENCE, || scene.count(&picky.url(), "sent") >= 2.0);
    wait_until("the bad one to be given up", PATIENCE, || scene.count(&picky.url(), "failed") >= 1.0);
}

#[test]
fn only_the_severities_that_were_asked_for_are_sent() {
    let taking = Scripted::with(200, "text/plain", "");
    let scene = Scene::with(&format!("alertmanager = [{:?}]\nseverities = [\"page\"]", taking.url()));
    scene.server.cli(&["SET", "lock:order:1", "holder", "PX", "600000"]);
    wait_until("the other rule to fire", PATIENCE, || scene.serving.story().contains("info Held"));
    scene.trouble();
    wait_until("the page to be sent", PATIENCE, || scene.count(&taking.url(), "sent") >= 1.0);
    assert!(taking.asked().iter().all(|asked| !asked.body.contains("Held")), "{:?}", taking.asked());
}

#[test]
fn a_command_gets_the_alert_on_its_stdin() {
    let directory = process::temporary_directory();
    let file = directory.path().join("pages");
    let script = "cat >> \"$1\"; env | grep -c LOCKSCOPE_ >> \"$1.env\" || :";
    let command = ["/bin/sh", "-c", script, "sh", file.to_str().unwrap()];
    let scene = Scene::with(&format!("command = {command:?}"));
    scene.trouble();
    // The other rule may fire for a moment too, before it is sure that the lock has no TTL.
    let pages = || -> Vec<Value> {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        all.filter(|page| page["rule"] == "NoTtl").collect()
    };
    wait_until("the command to run", PATIENCE, || pages().len() == 1);
    scene.is_over();
    wait_until("it to run again", PATIENCE, || pages().len() == 2);
    let lines = pages();
    assert_eq!((&lines[0]["status"], &lines[1]["status"]), (&"firing".into(), &"resolved".into()));
    for line in &lines {
        assert_eq!(line["schema"], "lockscope/1");
        assert_eq!((&line["rule"], &line["labels"]["pattern"]), (&"NoTtl".into(), &"lock:forever".into()));
        assert_eq!((&line["note"], &line["starts_at"]), (&"Give it an end.".into(), &lines[0]["starts_at"]));
    }
    assert!(lines[0]["ends_at"].is_null() && lines[1]["ends_at"].is_string());
    wait_until("it to be counted", PATIENCE, || scene.count("command", "sent") >= 2.0);
    let seen = std::fs::read_to_string(directory.path().join("pages.env")).unwrap();
    assert!(seen.lines().all(|count| count == "0"), "it sees nothing that is for us only: {seen}");
}

#[test]
fn a_command_that_hangs_is_killed_with_what_it_started() {
    let directory = process::temporary_directory();
    let file = directory.path().join("pids");
    // It ignores what asks it to end, and fills its output.
    let script = "trap '' TERM; sleep 600 & echo $! $$ > \"$1\"; yes >&2 & yes; wait";
    let command = ["/bin/sh", "-c", script, "sh", file.to_str().unwrap()];
    let mut scene = Scene::with(&format!("command = {command:?}\ntimeout = \"500ms\""));
    scene.trouble();
    scene.serving.says("did not end within 500ms and was killed");
    let pids = std::fs::read_to_string(&file).unwrap();
    let gone = |pid: &str| {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.is_empty() || state.rsplit(") ").next().unwrap().starts_with('Z')
    };
    wait_until("all of it to be gone", PATIENCE, || pids.split_whitespace().all(gone));
    wait_until("it to be given up", PATIENCE, || scene.count("command", "failed") == 1.0);
    assert_eq!((scene.count("command", "retried"), scene.count("command", "sent")), (2.0, 0.0));
}

#[test]
fn a_command_that_fails_says_why() {
    for (command, part) in [
        (&["/bin/sh", "-c", "echo no route >&2; exit 7"][..], "ended with exit status: 7: no route"),
        (&["/nowhere/page"], "there is no program \"/nowhere/page\""),
    ] {
        let mut scene = Scene::with(&format!("command = {command:?}"));
        scene.trouble();
        scene.serving.says(part);
    }
}

#[test]
fn a_test_alert_goes_the_whole_way_and_nothing_else_does() {
    let Some(manager) = Alertmanager::start() else { return };
    let desk = Desk::with_url("redis://127.0.0.1:1");
    let ran = desk.run(&["rules", "fire", "LockOrphan", "--test", "--alertmanager", &manager.url()]);
    assert!(ran.code == 0 && ran.out.contains("took the test alert"), "{} {}", ran.out, ran.err);
    let alerts = manager.alerts();
    assert_eq!(
        (&alerts[0]["labels"]["alertname"], &alerts[0]["labels"]["test"]),
        (&"LockOrphan".into(), &"true".into())
    );
    assert!(alerts[0]["annotations"]["description"].as_str().unwrap().starts_with("This is a test"), "{alerts:?}");
    let refusing = Scripted::with(415, "text/plain", "");
    for (arguments, code, part) in [
        (&["rules", "fire", "LockOrphan", "--alertmanager", "http://x"][..], 2, "--test"),
        (&["rules", "fire", "LockOrphn", "--test", "--alertmanager", "http://x"], 2, "did you mean \"LockOrphan\"?"),
        (&["rules", "fire", "LockOrphan", "--test"], 2, "--alertmanager URL"),
        (&["rules", "fire", "LockOrphan", "--test", "--alertmanager", "x:y@z"], 2, "http://127.0.0.1:9090"),
        (&["rules", "fire", "LockOrphan", "--test", "--alertmanager", "http://127.0.0.1:1"], 3, "nobody listens"),
        (&["rules", "fire", "LockOrphan", "--test", "--alertmanager", &refusing.url()], 3, "415"),
    ] {
        let ran = desk.run(arguments);
        assert!(ran.code == code && ran.err.contains(part), "{arguments:?}: {} {}", ran.code, ran.err);
    }
}

#[test]
fn a_wrong_pager_is_told_before_anything_connects() {
    let desk = Desk::with_url("redis://127.0.0.1:1");
    for (pager, part) in [
        ("", "names nobody"),
        ("alertmanager = [\"9093\"]", "http://127.0.0.1:9090"),
        ("alertmanager = \"http://x\"", "a list of texts"),
        ("alertmanagers = [\"http://x\"]", "did you mean \"alertmanager\"?"),
        ("alertmanager = [\"http://x\"]\nuser = \"a\"", "needs a password"),
        ("alertmanager = [\"http://x\"]\npassword_file = \"/nowhere\"", "needs a user"),
        ("alertmanager = [\"http://x\"]\nbearer_file = \"/nowhere\"", "/nowhere"),
        ("alertmanager = [\"http://x\"]\nseverities = [\"critical\"]", "page, ticket or info"),
        ("alertmanager = [\"http://x\"]\ntimeout = \"0s\"", "at least 100ms"),
        ("command = [\"\"]", "no program"),
    ] {
        desk.configure(&format!("[pager]\n{pager}"));
        let ran = desk.run(&["serve", "--listen", "127.0.0.1:0"]);
        assert!(ran.code == 2 && ran.err.contains(part), "{pager}: {} {}", ran.code, ran.err);
    }
}

#[test]
fn no_secret_of_the_pager_is_ever_shown() {
    let directory = process::temporary_directory();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("password"), "hunter2\n").unwrap();
    let refusing = Scripted::start(|asked| Some(answer(401, "text/plain", &asked.headers.clone())));
    let url = refusing.url().replace("http://", "http://ops:hunter3@");
    let pager =
        format!("alertmanager = [{url:?}]\nuser = \"ops\"\npassword_file = {:?}\nresend = \"1s\"", path("password"));
    let mut scene = Scene::with(&pager);
    scene.trouble();
    scene.serving.says("check user, password_file");
    // The file goes before the address.
    wait_until("a login", PATIENCE, || {
        refusing.asked().iter().any(|asked| asked.headers.contains("basic b3bzomh1bnrlcji="))
    });
    let shown = scene.serving.metrics() + &scene.serving.story();
    assert!(!shown.contains("hunter") && !shown.to_lowercase().contains("b3bz"), "{shown}");
}
