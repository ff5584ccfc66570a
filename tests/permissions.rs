//! What an observer may and may not do on the server, end to end.

mod common;

use common::feed::{EVENTS, held};
use common::{Server, Watching, lockscope};
use serde_json::Value;

const PASSWORD: &str = "observer-secret";

/// Runs an ACL line as it would be pasted into redis-cli, with a password of our own.
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
        let server = Server::with(&["--notify-keyspace-events", EVENTS]);
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
        // Nothing it does was refused.
        let refused: Vec<redis::Value> = server.ask(&["ACL", "LOG"]);
        assert!(refused.is_empty(), "{patterns:?}: {refused:?}");
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
        assert!(
            ls.err.contains(&format!("{unread} key")) && ls.err.contains("could not be read"),
            "{missing}: {}",
            ls.err
        );
    }
    // Only some keys may be read: the others are known by name alone.
    paste(&server, "ACL SETUSER half reset on >x %R~lock:a &* +@all");
    let ls = run(&server, "half", &["ls", "--json", "-p", "lock:*"]);
    assert_eq!(held(&document(&ls)), [("lock:a".to_string(), vec!["t".to_string()])], "{}", ls.err);
    assert!(ls.err.contains("2 keys could not be read"), "{}", ls.err);
}

#[test]
fn without_scan_there_is_nothing_to_show() {
    let server = Server::with(&["--notify-keyspace-events", EVENTS]);
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    paste(&server, "ACL SETUSER blind on >x ~* &* +@all -scan");
    for arguments in [&["ls", "--json"][..], &["ls", "--observe", "1s"], &["watch", "--for", "20s"]] {
        let ran = run(&server, "blind", arguments);
        assert_eq!((ran.code, ran.out.as_str()), (Some(3), ""), "{arguments:?}: {}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains("does not permit") && ran.err.contains("+scan"), "{}", ran.err);
    }
    // One key by its name needs no walk.
    assert_eq!(run(&server, "blind", &["show", "lock:a"]).code, Some(0));
}
