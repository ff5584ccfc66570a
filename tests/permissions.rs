//! What an observer may and may not do on the server, end to end.

mod common;

use std::process::{Child, Stdio};
use std::time::Duration;

use common::feed::held;
use common::program::version;
use common::{Server, Watching, lockscope, lockscope_process, process, wait_until};
use serde_json::Value;

const PASSWORD: &str = "observer-secret";

/// Runs an ACL line as it would be pasted into redis-cli, with our own password.
fn paste(server: &Server, line: &str) {
    let words: Vec<String> = line
        .split(' ')
        .map(|word| word.trim_matches('\''))
        .map(|word| if word.starts_with('>') { format!(">{PASSWORD}") } else { word.to_string() })
        .collect();
    server.cli(&words);
}

fn user_of(line: &str) -> String {
    line.split(' ').nth(2).expect("ACL SETUSER <user> …").to_string()
}

struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(server: &Server, user: &str, arguments: &[&str]) -> Ran {
    let mut command = lockscope();
    command.args(arguments).args(["-u", &server.url(), "--user", user]).env("LOCKSCOPE_PASSWORD", PASSWORD);
    let output = command.output().expect("lockscope runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let ran = Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) };
    assert!(!ran.out.contains(PASSWORD) && !ran.err.contains(PASSWORD), "the password was shown");
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    ran
}

fn document(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {} {}", ran.out, ran.err))
}

#[test]
fn the_observer_that_the_doctor_advises_can_observe() {
    for patterns in [&["-p", "lock:*"][..], &[]] {
        let server = Server::notifying(&[]);
        server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
        server.cli(&["HINCRBY", "lock:hash", "e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:17", "1"]);
        let output = lockscope().args(["doctor", "--json", "-u", &server.url()]).args(patterns).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).expect("the doctor's report");
        let line = report["acl"]["observer"].as_str().expect("a line to paste");
        paste(&server, line);
        let user = user_of(line);
        let ls = run(&server, &user, &[&["ls", "--json", "--observe", "500ms"], patterns].concat());
        assert_eq!(ls.code, Some(0), "{}", ls.err);
        let document = document(&ls);
        let names: Vec<String> = held(&document).into_iter().map(|(key, _)| key).collect();
        assert_eq!(names, ["lock:a", "lock:hash"], "{patterns:?}: {}", ls.err);
        let node = &document["server"]["nodes"][0];
        assert_eq!((&node["stream"], &node["scan"]["unread"]), (&"notifications".into(), &0.into()), "{node}");
        let show = run(&server, &user, &[&["show", "lock:a", "--json"], patterns].concat());
        assert_eq!(show.code, Some(0), "{}", show.err);
        let mut watch = Watching::start_as(&server, &user, PASSWORD, patterns).ready(&server);
        server.cli(&["SET", "lock:b", "t", "NX", "PX", "600000"]);
        watch.tells("lock:b", "acquired");
        server.cli(&["DEL", "lock:b"]);
        watch.tells("lock:b", "released");
        assert_eq!(server.refused(), [""; 0], "{patterns:?}");
    }
}

/// Locks of every kind that can have waiters, with all keys that their libraries and our scripts keep beside them.
fn wanted_locks(server: &Server) {
    let far = "9999999999999";
    let waiter = "e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:18";
    let digest = "uniquejobs:0123456789abcdef0123456789abcdef";
    let entry = serde_json::json!({"digest": digest, "message": "Limited"}).to_string();
    let locked = format!("{digest}:LOCKED");
    for command in [
        &["SET", "lock:{tag}:plain", "t", "PX", "600000"][..],
        &["HSET", "lockscope:{lock:plain}:counts", "attempts", "3", "failures", "1"],
        &["HSET", &locked, "b4a577edbccf1d805744efa9", "1749999000.5"],
        &["ZADD", "uniquejobs:changelog", "1749999000.5", &entry],
    ] {
        server.cli(command);
    }
    for (name, beside) in [("lock:fair", "{lock:fair}"), ("lock:{tag}:fair", "lock:{tag}:fair")] {
        server.cli(&["HINCRBY", name, "e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:17", "1"]);
        server.cli(&["PEXPIRE", name, "30000"]);
        server.cli(&["RPUSH", &format!("redisson_lock_queue:{beside}"), waiter]);
        server.cli(&["ZADD", &format!("redisson_lock_timeout:{beside}"), far, waiter]);
    }
}

/// Ends when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How often the server ran each command, and how often it refused to.
fn calls(server: &Server, command: &str) -> Option<String> {
    let stats: String = server.ask(&["INFO", "commandstats"]);
    // Before 7.0 the server does not count subcommands separately.
    let whole = command.split('|').next().unwrap_or(command);
    let of = |name: &str| stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).map(String::from);
    of(command).or_else(|| of(whole))
}

#[test]
fn the_observer_may_ask_all_that_tells_who_wants_a_lock_and_sample_only_if_allowed() {
    for patterns in [&["-p", "lock:*", "-p", "uniquejobs:*:LOCKED"][..], &[]] {
        let server = Server::notifying(&[]);
        let output = lockscope().args(["doctor", "--json", "-u", &server.url()]).args(patterns).output().unwrap();
        let report: Value = serde_json::from_slice(&output.stdout).expect("the doctor's report");
        let line = |which: &str| report["acl"][which].as_str().expect("a line to paste").to_string();
        paste(&server, &line("observer"));
        let user = user_of(&line("observer"));
        let refused = run(&server, &user, &[&["contention", "--monitor", "--for", "100ms"], patterns].concat());
        assert_eq!(refused.code, Some(3), "{}", refused.err);
        assert!(refused.err.contains("may not run MONITOR") && refused.err.contains("+monitor"), "{}", refused.err);

        paste(&server, &line("sampling"));
        assert_eq!(user_of(&line("sampling")), user);
        server.cli(&["ACL", "LOG", "RESET"]);
        wanted_locks(&server);
        let home = process::scratch("permissions");
        let mut command = lockscope_process(&home);
        command.args(["contention", "--monitor", "--for", "60s", "-u", &server.url(), "--user", &user]).args(patterns);
        command.env("LOCKSCOPE_PASSWORD", PASSWORD).stdout(Stdio::null()).stderr(Stdio::null());
        let _running = Running(process::spawn(command).expect("lockscope starts"));
        // The holder names its lock, so that a burst shows its connection, which we then ask about.
        let mut holder = server.connection();
        let asked = [
            "pubsub|numsub",
            "llen",
            "lrange",
            "zscore",
            "time",
            "object|idletime",
            "exists",
            "hmget",
            "zrangebyscore",
            "monitor",
            "client|list",
        ];
        wait_until("everything was asked for", Duration::from_secs(40), || {
            redis::cmd("SET").arg("lock:plain").arg("t").arg("PX").arg(600_000).exec(&mut holder).unwrap();
            redis::cmd("SET").arg("lock:plain").arg("t").arg("XX").arg("PX").arg(600_000).exec(&mut holder).unwrap();
            asked.iter().all(|command| calls(&server, command).is_some())
        });
        assert_eq!(server.refused(), [""; 0], "{patterns:?}");
    }
}

#[test]
fn what_can_not_be_read_is_counted_and_said() {
    let server = Server::start();
    for key in ["lock:a", "lock:b"] {
        server.cli(&["SET", key, "t", "PX", "600000"]);
    }
    server.cli(&["HINCRBY", "lock:hash", "e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:17", "1"]);
    for (missing, unread) in [("-getrange", 2), ("-memory", 1), ("-type", 3), ("-pttl", 3)] {
        paste(&server, &format!("ACL SETUSER half reset on >x ~* &* +@all {missing}"));
        let ls = run(&server, "half", &["ls", "--json", "-p", "lock:*"]);
        assert_eq!(ls.code, Some(0), "{missing}: {}", ls.err);
        let document = document(&ls);
        assert_eq!(document["server"]["nodes"][0]["scan"]["unread"], unread, "{missing}: {document}");
        assert_eq!(held(&document).len(), 3 - unread, "{missing}: {document}");
        assert_eq!(document["complete"], false, "{missing}: {document}");
        assert!(
            ls.err.contains(&format!("{unread} key")) && ls.err.contains("could not be read"),
            "{missing}: {}",
            ls.err
        );
    }
    // Only some keys may be read: of the others only the names are known.
    let readable = if version() < (7, 0) { "~lock:a" } else { "%R~lock:a" };
    paste(&server, &format!("ACL SETUSER half reset on >x {readable} &* +@all"));
    let ls = run(&server, "half", &["ls", "--json", "-p", "lock:*"]);
    assert_eq!(held(&document(&ls)), [("lock:a".to_string(), vec!["t".to_string()])], "{}", ls.err);
    assert!(ls.err.contains("the list is incomplete: 2 keys could not be read"), "{}", ls.err);
}

#[test]
fn without_scan_there_is_nothing_to_show() {
    let server = Server::notifying(&[]);
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    paste(&server, "ACL SETUSER blind on >x ~* &* +@all -scan");
    for arguments in [&["ls", "--json"][..], &["ls", "--observe", "1s"], &["watch", "--for", "20s"]] {
        let ran = run(&server, "blind", arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{arguments:?}: {}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains("does not permit") && ran.err.contains("+scan"), "{}", ran.err);
    }
    // One key by name needs no walk.
    assert_eq!(run(&server, "blind", &["show", "lock:a"]).code, Some(0));
}
