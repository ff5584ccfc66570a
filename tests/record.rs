//! `lockscope record`, and `check` over what it wrote: real servers, real files.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Desk, Ran, Server, Serving, binary, process, wait_until};
use lockscope::alerts::AlertState;
use lockscope::base::time::Time;
use lockscope::store::{End, History};
use serde_json::Value;
use terminal::Terminal;

const PATIENCE: Duration = Duration::from_secs(40);
const RULES: &str = r#"
default_rules = false
[[rules]]
name = "NoTtl"
metric = "lockscope_locks"
selector = "state:no-ttl"
above = 0
for = "5s"
severity = "page"
[[rules]]
name = "Failures"
metric = "lockscope_failure_ratio"
above = 0.1
"#;

struct Scene {
    server: Server,
    desk: Desk,
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Scene {
        let server = Server::notifying(&[]);
        let directory = process::temporary_directory();
        std::fs::write(directory.path().join("rules.toml"), RULES).unwrap();
        Scene { desk: Desk::at(&server), server, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Its text, for a command line.
    fn named(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    fn record(&self) -> Child {
        self.desk.start(&["record", "--store", &self.named("history"), "--rules", &self.named("rules.toml")])
    }

    fn check(&self) -> (i32, Vec<Value>) {
        let ran = self.desk.run_bare(&[
            "check",
            "--store",
            &self.named("history"),
            "--rules",
            &self.named("rules.toml"),
            "--json",
        ]);
        let document: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {} {}", ran.out, ran.err));
        (ran.code, document["alerts"].as_array().unwrap().clone())
    }

    fn state(&self, rule: &str) -> String {
        let (_, alerts) = self.check();
        let alert = alerts.iter().find(|alert| alert["rule"] == rule).expect("the rule");
        alert["state"].as_str().unwrap().to_string()
    }

    /// Waits until it is in the file that all is well.
    fn is_written(&self) {
        let file = self.path("history");
        let newest = || History::open(&file).ok()?.summary().ok()?.newest;
        wait_until("something is written", PATIENCE, || newest().is_some());
        wait_until("the server is watched", PATIENCE, || self.state("NoTtl") == "inactive");
    }
}

fn end(mut child: Child) {
    process::signal(&child, libc::SIGTERM);
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn what_fires_while_it_is_recorded_is_in_the_history_and_check_says_the_same() {
    let scene = Scene::new();
    let child = scene.record();
    scene.is_written();
    assert_eq!(scene.state("Failures"), "unknown", "nobody counts failures without --monitor");
    scene.server.cli(&["SET", "lock:forever", "holder"]);
    wait_until("check says that it fires", PATIENCE, || scene.state("NoTtl") == "firing");
    assert_eq!(scene.check().0, 1);
    let history = History::open(&scene.path("history")).unwrap();
    let logged = || history.alerts(Time(0), Time(i64::MAX)).unwrap();
    wait_until("it is in the log", PATIENCE, || logged().iter().any(|change| change.alert.state == AlertState::Firing));
    let (_, alerts) = scene.check();
    let since = alerts[0]["since"].as_str().and_then(Time::of_rfc3339).expect("a time");
    let fired = logged().into_iter().find(|change| change.alert.state == AlertState::Firing).unwrap().alert;
    assert_eq!(fired.active_at, since, "the history tells what was seen live, on the same grid");
    assert_eq!(fired.labels["pattern"], "lock:forever");
    scene.server.cli(&["DEL", "lock:forever"]);
    wait_until("it is over", PATIENCE, || scene.state("NoTtl") == "inactive");
    wait_until("its end is logged", PATIENCE, || {
        logged().last().is_some_and(|change| change.alert.state == AlertState::Inactive)
    });
    end(child);
}

#[test]
fn a_recording_begins_without_a_gap_and_an_outage_is_one_from_the_last_answer_on() {
    let scene = Scene::new();
    let child = scene.record();
    scene.is_written();
    let history = History::open(&scene.path("history")).unwrap();
    let gaps = || history.gaps(Time(0), Time(i64::MAX)).unwrap();
    assert_eq!(gaps(), [], "the server answered from the first second on");
    let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    scene.server.pause();
    let paused = clock();
    wait_until("the gap is written", PATIENCE, || !gaps().is_empty());
    let gap = gaps().remove(0);
    assert_eq!((gap.reason, gap.to), (lockscope::store::Reason::NotConnected, None));
    assert!(gap.from.0 <= paused + 500, "it began when the server stopped: {} {paused}", gap.from.0);
    scene.server.resume();
    wait_until("it is over", PATIENCE, || gaps().iter().all(|gap| gap.to.is_some()));
    end(child);
}

/// The largest file that the process may write.
fn limit_files(child: &Child, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: reads the one struct that it is given.
    let set = unsafe { libc::prlimit(child.id() as i32, libc::RLIMIT_FSIZE, &limit, std::ptr::null_mut()) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_disk_without_room_is_told_once_and_nothing_that_was_written_is_lost() {
    let scene = Scene::new();
    let mut serving = Serving::start(&scene.server, &["--store", &scene.named("history")]);
    let errors = || serving.value("lockscope_store_errors_total", &[]).unwrap();
    wait_until("something is written", PATIENCE, || {
        serving.value("lockscope_store_last_write_timestamp_seconds", &[]).is_some()
    });
    let newest = || History::open(&scene.path("history")).unwrap().summary().unwrap().newest.unwrap();
    // No file may grow: what a full disk does, without one.
    limit_files(serving.child(), 4_096);
    wait_until("several writes fail", PATIENCE, || errors() >= 3.0);
    let kept = newest();
    let story = serving.story();
    assert_eq!(story.matches("history can't grow: the disk is full or fails").count(), 1, "one sentence: {story}");
    assert_eq!(serving.request("GET", "/healthz", &[]).status, 200, "it watches all the same");
    limit_files(serving.child(), libc::RLIM_INFINITY);
    serving.says("the store is written again");
    wait_until("it goes on", PATIENCE, || newest() > kept);
    assert!(serving.end(libc::SIGTERM).0.success());
    let history = History::open(&scene.path("history")).unwrap();
    let gaps = history.gaps(Time(0), Time(i64::MAX)).unwrap();
    assert!(gaps.iter().any(|gap| gap.reason == lockscope::store::Reason::NotWritten), "{gaps:?}");
    let summary = history.summary().unwrap();
    assert!(summary.oldest.is_some_and(|oldest| oldest <= kept), "what was written before is there: {summary:?}");
}

#[test]
fn a_history_that_nobody_writes_any_more_says_nothing_about_now() {
    let scene = Scene::new();
    let counted = "[[rules]]\nname = \"Taken\"\nmetric = \"lockscope_holds_ended_total\"\nselector = \"ending:taken\"\n\
        window = \"5m\"\nabove = 0\n";
    std::fs::write(scene.path("rules.toml"), format!("{RULES}{counted}")).unwrap();
    scene.server.cli(&["SET", "lock:order:1", "worker", "PX", "600000"]);
    let child = scene.record();
    scene.is_written();
    end(child);
    wait_until("it is old", PATIENCE, || scene.state("NoTtl") == "unknown");
    let (code, alerts) = scene.check();
    assert_eq!(code, 0);
    for alert in &alerts {
        assert_eq!(alert["state"], "unknown", "what was counted before says nothing about now: {alert}");
        assert!(alert["why"].as_str().is_some_and(|why| !why.is_empty()), "{alert}");
    }
    assert!(alerts[0]["why"].as_str().unwrap().contains("nothing could be measured since"), "{alerts:?}");
}

#[test]
fn an_alert_that_fires_when_the_recorder_is_killed_is_the_same_one_after_its_restart() {
    let scene = Scene::new();
    let mut child = scene.record();
    scene.is_written();
    scene.server.cli(&["SET", "lock:forever", "holder"]);
    let firings = || History::open(&scene.path("history")).unwrap().firings(Time(0), Time(i64::MAX)).unwrap();
    wait_until("it fires", PATIENCE, || !firings().is_empty());
    let first = firings().remove(0);
    child.kill().unwrap();
    child.wait().unwrap();
    // Nobody knows that it is over.
    wait_until("it is old", PATIENCE, || {
        scene.check().1[0]["why"].as_str().is_some_and(|why| why.contains("it stays while the server is out of sight"))
    });
    assert_eq!((scene.check().0, scene.state("NoTtl")), (1, "firing".into()));
    let child = scene.record();
    let still = |end: &End| matches!(end, End::Still(at) if *at > first.end.at());
    wait_until("it goes on", PATIENCE, || still(&firings()[0].end));
    let is_same = || {
        let all = firings();
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!((all[0].number, all[0].from, all[0].active_at), (first.number, first.from, first.active_at));
    };
    is_same();
    assert_eq!(scene.state("NoTtl"), "firing");
    let since = scene.check().1[0]["since"].as_str().and_then(Time::of_rfc3339);
    assert_eq!(since, Some(first.active_at), "check tells the same beginning");
    let tuned = || {
        let (store, rules) = (scene.named("history"), scene.named("rules.toml"));
        let arguments = ["tune", "--store", &store, "--rules", &rules, "--rule", "NoTtl", "--json"];
        scene.desk.run_bare(&arguments).json()["rules"][0]["episodes"].as_array().unwrap().clone()
    };
    assert_eq!(tuned().len(), 1, "a replay fires once as well: {:?}", tuned());
    assert_eq!(tuned()[0]["number"], first.number);
    scene.server.cli(&["DEL", "lock:forever"]);
    wait_until("it is over", PATIENCE, || matches!(firings()[0].end, End::Over(_)));
    is_same();
    end(child);
}

#[test]
fn what_is_only_half_known_is_no_calm() {
    let scene = Scene::new();
    std::fs::write(
        scene.path("rules.toml"),
        "default_rules = false\n[[rules]]\nname = \"Long\"\nmetric = \"lockscope_oldest_hold_age_seconds\"\nabove = 900\n\
         [[rules]]\nname = \"Refused\"\nmetric = \"lockscope_failure_ratio\"\nabove = 0.1\n",
    )
    .unwrap();
    // It was held before anybody watched: how long, nobody knows.
    scene.server.cli(&["SET", "lock:old", "holder"]);
    // Without notifications nobody sees whether an attempt was refused.
    scene.server.cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    let mut tried = scene.server.connection();
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    let attempts = std::thread::spawn(move || {
        while !ends.load(Ordering::Relaxed) {
            let set = redis::cmd("SET").arg("lock:tried").arg("token").arg("NX").arg("PX").arg(600_000).clone();
            let _ = set.query::<Option<String>>(&mut tried);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let child = scene.desk.start(&[
        "record",
        "--store",
        &scene.named("history"),
        "--rules",
        &scene.named("rules.toml"),
        "--monitor",
    ]);
    let why = |rule: &str| {
        let (_, alerts) = scene.check();
        let alert = alerts.iter().find(|alert| alert["rule"] == rule).expect("the rule").clone();
        format!("{}: {}", alert["state"].as_str().unwrap(), alert["why"].as_str().unwrap_or_default())
    };
    wait_until("something is written", PATIENCE, || {
        History::open(&scene.path("history"))
            .is_ok_and(|store| store.summary().is_ok_and(|about| about.newest.is_some()))
    });
    for (rule, reason) in [("Long", "their age is only a lower bound"), ("Refused", "whose outcome is not known")] {
        wait_until(rule, PATIENCE, || {
            let told = why(rule);
            told.starts_with("unknown: ") && told.contains(reason) && told.contains("(lock:")
        });
    }
    over.store(true, Ordering::Relaxed);
    attempts.join().unwrap();
    end(child);
}

#[test]
fn it_is_told_what_is_in_a_file_and_copied_while_it_is_written() {
    let scene = Scene::new();
    let child = scene.record();
    scene.is_written();
    let file = scene.named("history");
    let info = scene.desk.run_bare(&["record", "--store", &file, "--info"]);
    assert_eq!(info.code, 0, "{}", info.err);
    assert!(info.out.contains(&format!("target     {}", scene.server.url())), "{}", info.out);
    assert!(info.out.contains(&format!("process {}", child.id())), "{}", info.out);
    let copied = scene.desk.run_bare(&["record", "--store", &file, "--copy-to", &scene.named("copy")]);
    assert_eq!((copied.code, &*copied.err), (0, ""));
    assert!(History::open(&scene.path("copy")).unwrap().summary().unwrap().newest.is_some());
    assert_ne!(scene.desk.run_bare(&["record", "--store", &file, "--copy-to", &file]).code, 0, "not onto itself");
    end(child);
}

#[test]
fn serve_records_as_well_and_tells_how_it_goes() {
    let scene = Scene::new();
    let serving = Serving::start(&scene.server, &["--store", &scene.named("history")]);
    wait_until("the store grows", PATIENCE, || {
        serving.value("lockscope_store_size_bytes", &[]).is_some_and(|size| size > 0.0)
    });
    wait_until("it is written", PATIENCE, || {
        serving.value("lockscope_store_last_write_timestamp_seconds", &[]).is_some()
    });
    assert_eq!(serving.value("lockscope_store_errors_total", &[]), Some(0.0));
    assert!(serving.value("lockscope_rule_evaluations_total", &["LockSplit"]).is_some());
    scene.desk.run(&["acquire", "lock:mine", "--ttl", "30s"]);
    assert!(serving.end(libc::SIGTERM).0.success());
    let summary = History::open(&scene.path("history")).unwrap().summary().unwrap();
    assert!(summary.recorder.is_none() && summary.newest.is_some(), "{summary:?}");
}

/// One sentence and an exit code that is not 0.
fn console(scene: &Scene, options: &[&str]) -> Terminal {
    let url = scene.server.url();
    let rules = scene.named("rules.toml");
    let arguments = [&["-u", &url, "--rules", &rules], options].concat();
    let terminal = Terminal::start(binary().to_str().unwrap(), &arguments, &[]);
    terminal.wait_for("the console", |screen| screen.contains("READ-ONLY"));
    terminal
}

#[test]
fn the_console_records_when_it_is_told_to_and_says_so_all_the_while() {
    let scene = Scene::new();
    let mut console = console(&scene, &[]);
    let store = scene.named("history");
    console.press(":record\r");
    console.wait_for("nothing is recorded", |screen| screen.contains("nothing is recorded; :record FILE begins"));
    console.press(&format!(":record {store}\r"));
    console.wait_for("it records", |screen| screen.lines().next().unwrap().contains("REC"));
    scene.server.cli(&["SET", "lock:forever", "holder"]);
    wait_until("the alert is in the log", PATIENCE, || {
        let history = History::open(&scene.path("history")).unwrap();
        let firings = history.firings(Time(0), Time(i64::MAX)).unwrap();
        matches!(firings.as_slice(), [firing] if firing.rule == "NoTtl" && firing.labels["pattern"] == "lock:forever")
    });
    assert_eq!(scene.state("NoTtl"), "firing", "check judges by what the console recorded");
    let second = scene.desk.run(&["record", "--store", &store, "--for", "1s"]);
    assert_eq!(second.code, 1, "{}", second.err);
    assert!(second.err.contains("already records into"), "{}", second.err);
    console.press(":record off\r");
    console.wait_for("it has ended", |screen| {
        !screen.lines().next().unwrap().contains("REC") && screen.contains("all is written")
    });
    // It can begin again, and what it was given is on disk when the console has ended.
    console.press(&format!(":record {store}\r"));
    console.wait_for("it records again", |screen| screen.lines().next().unwrap().contains("REC"));
    console.press("q");
    assert_eq!(console.wait_for_end().status.exit_code(), 0);
    assert!(!scene.path("history-recorder").exists() && !scene.path("history-wal").exists(), "it was closed");
    let summary = History::open(&scene.path("history")).unwrap().summary().unwrap();
    assert_eq!((summary.recorder, summary.target), (None, scene.server.url()));
    assert!(summary.newest > summary.oldest && summary.alerts > 0, "{:?} {:?}", summary.oldest, summary.newest);
}

#[test]
fn the_console_reads_what_a_daemon_writes_and_does_not_write_beside_it() {
    let scene = Scene::new();
    let daemon = scene.record();
    scene.is_written();
    scene.server.cli(&["SET", "lock:forever", "holder"]);
    wait_until("it fires", PATIENCE, || scene.state("NoTtl") == "firing");
    scene.server.cli(&["DEL", "lock:forever"]);
    wait_until("it is over", PATIENCE, || scene.state("NoTtl") == "inactive");
    let store = scene.named("history");
    let mut console = console(&scene, &["--store", &store]);
    console.press("4");
    console.wait_for("what happened before it was opened", |screen| screen.contains("fired once in the last "));
    console.press(&format!(":record {store}\r"));
    console.wait_for("one recorder is enough", |screen| screen.contains("already records into"));
    assert!(!console.screen().contents().lines().next().unwrap().contains("REC"));
    end(daemon);
    console.press("q");
    assert_eq!(console.wait_for_end().status.exit_code(), 0);
}

#[test]
fn the_console_refuses_a_store_that_is_missing_or_of_another_target() {
    let scene = Scene::new();
    let daemon = scene.record();
    scene.is_written();
    end(daemon);
    let other = Server::notifying(&[]);
    let (url, store, none) = (other.url(), scene.named("history"), scene.named("none"));
    for (file, part) in [(&store, "is the store of"), (&none, "there is no store")] {
        let terminal = Terminal::start(binary().to_str().unwrap(), &["-u", &url, "--store", file], &[]);
        let left = terminal.wait_for_end();
        let said = String::from_utf8_lossy(&left.raw).replace("\r\n", "");
        assert_eq!(left.status.exit_code(), 2, "{said}");
        assert!(said.contains(part) && left.cooked, "{said}");
    }
    let ran = scene.desk.run_bare(&["--store", &store, "ls"]);
    refused(&ran, "--store before a command is for the console");
}

#[track_caller]
fn refused(ran: &Ran, part: &str) {
    assert!((1..=3).contains(&ran.code), "{}: {}", ran.code, ran.err);
    assert!(
        ran.err.contains(part) && ran.err.lines().filter(|line| line.starts_with("lockscope: ")).count() == 1,
        "{part}: {}",
        ran.err
    );
}

#[test]
fn a_store_that_can_not_be_used_is_one_sentence() {
    let scene = Scene::new();
    let desk = &scene.desk;
    let check = |name: &str| desk.run_bare(&["check", "--store", &scene.named(name)]);
    let record = |name: &str| desk.run(&["record", "--for", "1s", "--store", &scene.named(name)]);
    refused(&check("none"), "none");
    assert!(!scene.path("none").exists(), "reading makes no file");
    std::fs::write(scene.path("text"), "this is not a database, and long enough to see that".repeat(100)).unwrap();
    refused(&check("text"), "text");
    refused(&record("text"), "text");
    assert_eq!(record("history").code, 0);
    refused(&desk.run(&["record", "--for", "1s", "--store", "/nowhere/history"]), "/nowhere/history");
    let other = Server::start();
    let elsewhere = Desk::at(&other).run(&["record", "--for", "1s", "--store", &scene.named("history")]);
    refused(&elsewhere, "history");
    let child = scene.record();
    wait_until("it is at work", PATIENCE, || {
        History::open(&scene.path("history")).unwrap().summary().unwrap().recorder == Some(child.id())
    });
    refused(&record("history"), "history");
    end(child);
    assert!(is_whole(&scene.path("history")));
}

fn is_whole(path: &Path) -> bool {
    History::open(path).and_then(|history| history.summary()).is_ok_and(|summary| summary.newest.is_some())
}
