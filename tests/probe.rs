//! The canary lock of `probe`, on servers that pause, restart, forget scripts and give the lock to others.

mod common;

use std::fs::File;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use common::process::{signal, temporary_directory};
use common::{Server, lockscope_at, lockscope_process, wait_until};
use serde_json::Value as Json;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(40);
const KEY: &str = "lock:canary";

/// `lockscope probe --json` that runs while the test continues.
struct Probing {
    child: Child,
    home: TempDir,
}

impl Probing {
    /// For far longer than the test takes: a signal ends it.
    fn start(server: &Server, ttl: &str) -> Probing {
        let home = temporary_directory();
        let mut command = lockscope_process(home.path());
        command.args(["probe", "-u", &server.url(), "--key", KEY, "--json", "--for", "10m", "--ttl", ttl]);
        let file = |name| File::create(home.path().join(name)).unwrap();
        command.stdout(file("stdout")).stderr(file("stderr"));
        Probing { child: common::process::spawn(command).unwrap(), home }
    }

    /// Ends it as Ctrl-C would, and returns its exit code and its report.
    #[track_caller]
    fn stop(self) -> (Option<i32>, Json) {
        self.stop_by(libc::SIGINT)
    }

    #[track_caller]
    fn stop_by(mut self, number: i32) -> (Option<i32>, Json) {
        signal(&self.child, number);
        let mut status = None;
        wait_until("probe ends", PATIENCE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let read = |name| std::fs::read_to_string(self.home.path().join(name)).unwrap();
        let (out, err) = (read("stdout"), read("stderr"));
        let report: Json = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}{err}"));
        assert_eq!((&report["schema"], &report["ended"]), (&"lockscope/1".into(), &"stopped".into()), "{report}");
        (status.unwrap().code(), report)
    }
}

impl Drop for Probing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How often the server ran a command, in scripts too.
fn calls(server: &Server, command: &str) -> u64 {
    let info: String = server.ask(&["INFO", "commandstats"]);
    let stat = common::server::field(&info, &format!("cmdstat_{command}")).and_then(|stat| stat.strip_prefix("calls="));
    stat.and_then(|calls| calls.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[track_caller]
fn wait_for_calls(server: &Server, command: &str, count: u64) {
    wait_until(&format!("{count} times {command}"), PATIENCE, || calls(server, command) >= count);
}

fn exists(server: &Server) -> bool {
    server.ask(&["EXISTS", KEY])
}

fn audit(home: &Path) -> Vec<Json> {
    lockscope::actions::audit::read(&home.join("state/lockscope")).unwrap().0
}

fn count(report: &Json, step: &str) -> u64 {
    report[step]["count"].as_u64().unwrap_or_else(|| panic!("{report}"))
}

/// The sentences of all events of a kind.
fn told(report: &Json, kind: &str) -> Vec<String> {
    let events = report["events"].as_array().unwrap().iter().filter(|event| event["event"] == kind);
    events.map(|event| event["text"].as_str().unwrap().to_string()).collect()
}

#[test]
fn what_is_counted_is_what_the_server_did() {
    let server = Server::start();
    let home = temporary_directory();
    let mut command = lockscope_at(home.path());
    command.args(["probe", "-u", &server.url(), "--for", "5s", "--ttl", "2s", "--json"]);
    let output = command.output().unwrap();
    let report: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}");
    for (step, command) in [("acquire", "set"), ("renew", "pexpire"), ("release", "del")] {
        assert_eq!(count(&report, step), calls(&server, command), "{step}: {report}");
        let figures = ["p50_ms", "p90_ms", "p99_ms", "max_ms"].map(|name| report[step][name].as_f64().unwrap());
        assert!(figures.is_sorted() && figures[0] > 0.0, "{report}");
    }
    assert!(count(&report, "renew") >= 3 && count(&report, "acquire") >= 2, "{report}");
    assert_eq!((&report["lost"], &report["ended"], &report["why"]), (&0.into(), &"time-up".into(), &Json::Null));
    assert!(report["ran_ms"].as_u64() >= Some(5_000), "{report}");
    let key = report["key"].as_str().unwrap();
    assert!(key.starts_with("lockscope:probe:"), "{key}");
    assert!(report["token"].as_str().unwrap().starts_with("lockscope-test:"), "{report}");
    assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 0);
    let entries = audit(home.path());
    let phases: Vec<&str> = entries.iter().map(|entry| entry["phase"].as_str().unwrap()).collect();
    assert_eq!((phases, &entries[1]["lost"]), (vec!["intent", "end"], &0.into()));
    let listed = lockscope_at(home.path()).arg("audit").output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let here = listed.lines().filter(|line| line.contains(&format!(" on {}", server.url()))).count();
    assert_eq!((here, listed.lines().count()), (entries.len(), entries.len()), "{listed}");
}

#[test]
fn people_get_a_table() {
    let server = Server::start();
    let home = temporary_directory();
    let mut command = lockscope_at(home.path());
    command.args(["probe", "-u", &server.url(), "--key", KEY, "--for", "300ms", "--ttl", "20s"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let out = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..3], [KEY, "lease", "20s,"]);
    assert_eq!(rows[2], ["count", "failed", "p50", "p90", "p99", "max"]);
    assert_eq!(rows[3][..3], ["acquire", "1", "0"], "{out}");
    assert_eq!(rows[4], ["renew", "0", "0", "-", "-", "-", "-"]);
    assert!(out.contains("lost     never\nserver   always answered within 2.0s\n"), "{out}");
}

#[test]
fn a_server_that_pauses_for_a_while_makes_a_renewal_late() {
    let server = Server::start();
    let probing = Probing::start(&server, "6s");
    wait_for_calls(&server, "pexpire", 1);
    // The next renewal is due 2 s after this one, and is answered after the pause.
    server.cli(&["CLIENT", "PAUSE", "3500"]);
    wait_for_calls(&server, "pexpire", 2);
    let (code, report) = probing.stop();
    assert_eq!((code, &report["lost"]), (Some(0), &0.into()), "{report}");
    assert_eq!(report["renew"]["late"]["server"], 1, "{report}");
    let away = told(&report, "away");
    assert!(away.len() == 1 && away[0].starts_with("the server did not answer for 1."), "{report}");
}

#[test]
fn a_lease_that_ends_while_the_server_stands_still_is_lost() {
    let server = Server::start();
    let probing = Probing::start(&server, "1500ms");
    wait_for_calls(&server, "pexpire", 1);
    server.pause();
    // Longer than the lease. A paused server can't be asked, so sleep.
    std::thread::sleep(Duration::from_millis(2500));
    server.resume();
    let taken = calls(&server, "set");
    wait_for_calls(&server, "set", taken + 2);
    let (code, report) = probing.stop();
    assert_eq!(code, Some(1), "{report}");
    assert!(report["lost"].as_u64() >= Some(1) && report["renew"]["failed"].as_u64() >= Some(1), "{report}");
    assert!(report["away"]["longest_ms"].as_u64() >= Some(1_000), "{report}");
    assert!(told(&report, "lost")[0].contains("lease of 1s 500ms ended without a renewal"), "{report}");
    assert_eq!((told(&report, "away").is_empty(), &report["restarts"]), (false, &0.into()), "{report}");
    assert!(!exists(&server));
}

#[test]
fn a_lock_that_a_restart_took_is_told_as_that() {
    let mut server = Server::start();
    let probing = Probing::start(&server, "6s");
    wait_for_calls(&server, "pexpire", 1);
    server.restart();
    wait_for_calls(&server, "set", 1);
    let (code, report) = probing.stop();
    assert_eq!((code, &report["lost"], &report["restarts"]), (Some(1), &1.into(), &1.into()), "{report}");
    assert_eq!(told(&report, "lost"), ["the lock was lost: gone after a restart of the server"]);
    assert_eq!((told(&report, "restarted").len(), told(&report, "away").len()), (1, 1), "{report}");
    assert_eq!(count(&report, "acquire"), 2, "it went on: {report}");
}

#[test]
fn connections_that_fail_are_counted_while_the_server_is_gone() {
    let mut server = Server::start();
    let probing = Probing::start(&server, "1s");
    wait_for_calls(&server, "pexpire", 1);
    server.kill();
    // A stopped server can't be asked, so sleep until the lease is over.
    std::thread::sleep(Duration::from_millis(1500));
    server.restart();
    wait_for_calls(&server, "set", 1);
    let (code, report) = probing.stop();
    assert_eq!(code, Some(1), "{report}");
    assert!(report["failed_connections"].as_u64() >= Some(2), "{report}");
    assert!(report["away"]["total_ms"].as_u64() >= Some(800), "{report}");
    assert_eq!(report["restarts"], 1, "{report}");
}

#[test]
fn a_server_that_stays_away_is_no_success() {
    let mut server = Server::start();
    let home = temporary_directory();
    let mut command = lockscope_process(home.path());
    command.args(["probe", "-u", &server.url(), "--key", KEY, "--json", "--for", "2s", "--ttl", "1m"]);
    command.stdout(File::create(home.path().join("stdout")).unwrap());
    let mut child = common::process::spawn(command).unwrap();
    wait_for_calls(&server, "set", 1);
    server.kill();
    let mut status = None;
    wait_until("probe ends", PATIENCE, || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    let report: Json = serde_json::from_slice(&std::fs::read(home.path().join("stdout")).unwrap()).unwrap();
    assert_eq!((status.unwrap().code(), &report["release"]["failed"]), (Some(3), &1.into()), "{report}");
    assert!(report["why"].as_str().unwrap().contains("did not answer at the end"), "{report}");
}

#[test]
fn a_stolen_lock_is_lost_and_stays_the_thiefs() {
    let server = Server::start();
    let probing = Probing::start(&server, "2s");
    wait_for_calls(&server, "set", 1);
    server.cli(&["SET", KEY, "thief", "PX", "600000"]);
    // Our own, the thief's, and two more attempts by us.
    wait_for_calls(&server, "set", 4);
    let (code, report) = probing.stop();
    assert_eq!((code, &report["lost"]), (Some(1), &1.into()), "{report}");
    assert!(told(&report, "lost")[0].starts_with("the lock was lost: it is held by thief, for another "), "{report}");
    assert!(told(&report, "refused")[0].contains("held by thief"), "{report}");
    assert!(report["acquire"]["refused"].as_u64() >= Some(2), "{report}");
    assert_eq!(server.ask::<String, _>(&["GET", KEY]), "thief");
}

#[test]
fn a_deleted_lock_is_lost_and_taken_again() {
    let server = Server::start();
    let probing = Probing::start(&server, "2s");
    wait_for_calls(&server, "set", 1);
    server.cli(&["DEL", KEY]);
    wait_for_calls(&server, "set", 2);
    let (code, report) = probing.stop();
    assert_eq!((code, &report["lost"], &report["restarts"]), (Some(1), &1.into(), &0.into()), "{report}");
    assert!(told(&report, "lost")[0].contains("it is not there any more"), "{report}");
    assert!(!exists(&server));
}

#[test]
fn a_flushed_script_cache_is_no_loss() {
    let server = Server::start();
    let probing = Probing::start(&server, "1500ms");
    wait_until("two cycles", PATIENCE, || {
        server.cli(&["SCRIPT", "FLUSH"]);
        calls(&server, "set") >= 2 && calls(&server, "pexpire") >= 4
    });
    let (code, report) = probing.stop();
    assert_eq!((code, &report["lost"], &report["renew"]["failed"]), (Some(0), &0.into(), &0.into()), "{report}");
}

#[test]
fn our_own_lateness_is_not_the_servers() {
    let server = Server::start();
    let probing = Probing::start(&server, "9s");
    wait_for_calls(&server, "pexpire", 1);
    signal(&probing.child, libc::SIGSTOP);
    // The renewal was due when 6 s were left, and is late when 5.1 s are.
    wait_until("it is late", PATIENCE, || server.ask::<i64, _>(&["PTTL", KEY]) < 4_800);
    signal(&probing.child, libc::SIGCONT);
    wait_for_calls(&server, "pexpire", 2);
    let (code, report) = probing.stop();
    assert_eq!(code, Some(0), "{report}");
    let late = &report["renew"]["late"];
    assert_eq!((&late["ours"], &late["server"], &report["lost"]), (&1.into(), &0.into(), &0.into()), "{report}");
    assert!(report["renew"]["waking"]["max_ms"].as_f64() >= Some(900.0), "{report}");
}

#[test]
fn a_signal_ends_it_and_the_lock_is_given_back() {
    let server = Server::start();
    for number in [libc::SIGINT, libc::SIGTERM] {
        let taken = calls(&server, "set");
        let probing = Probing::start(&server, "60s");
        wait_for_calls(&server, "set", taken + 1);
        let (code, report) = probing.stop_by(number);
        assert_eq!((code, exists(&server)), (Some(0), false), "{report}");
        assert_eq!((count(&report, "acquire"), count(&report, "release")), (1, 1), "{report}");
    }
}

#[test]
fn nothing_is_taken_where_writing_is_refused() {
    let server = Server::start();
    let home = temporary_directory();
    let config = home.path().join("config.toml");
    std::fs::write(&config, "protected = [\"payments:*\"]\n").unwrap();
    let config = config.to_str().unwrap();
    for (args, part) in
        [(&["--read-only"][..], "read-only"), (&["--key", "payments:1", "--config", config], "payments:*")]
    {
        let mut command = lockscope_at(home.path());
        let output = command.args(["probe", "--json", "-u", &server.url()]).args(args).output().unwrap();
        let result: Json = serde_json::from_slice(&output.stdout).unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), &result["outcome"]), (Some(1), &"refused".into()));
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
    }
    assert_eq!((calls(&server, "set"), audit(home.path()).len()), (0, 0));
}

#[test]
fn who_may_not_run_scripts_is_told_in_a_sentence() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "looker", "on", ">looks", "~*", "+@all", "-eval", "-evalsha"]);
    let home = temporary_directory();
    let mut command = lockscope_at(home.path());
    command.args(["probe", "-q", "--json", "-u", &server.url(), "--user", "looker"]);
    let output = command.env("LOCKSCOPE_PASSWORD", "looks").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("+evalsha") && said.lines().count() == 1, "{said}");
    let result: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["outcome"], "refused");
    let phases: Vec<Json> = audit(home.path()).into_iter().map(|entry| entry["phase"].clone()).collect();
    assert_eq!(phases, ["intent", "end"]);
}

#[test]
fn a_key_that_is_never_free_is_a_finding() {
    let server = Server::start();
    server.cli(&["SET", KEY, "worker-7"]);
    let home = temporary_directory();
    let mut command = lockscope_at(home.path());
    command.args(["probe", "-q", "--key", KEY, "--for", "300ms", "-u", &server.url()]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("was never free"), "{said}");
    assert_eq!(server.ask::<String, _>(&["GET", KEY]), "worker-7");
}

#[test]
fn wrong_usage_and_servers_that_are_not_there() {
    let home = temporary_directory();
    let url = format!("redis://127.0.0.1:{}", common::server::free_port());
    for (args, code, part) in [
        (&["--ttl", "10ms"][..], 2, "between 100ms and 1h"),
        (&["--for", "0s"], 2, "--for is between"),
        (&["--key", ""], 2, "--key is empty"),
        (&[], 3, "127.0.0.1"),
    ] {
        let output = lockscope_at(home.path()).args(["probe", "-q", "-u", &url]).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
    }
}
