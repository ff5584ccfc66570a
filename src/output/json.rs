//! The JSON of the contract, schema `lockscope/1`.
//!
//! A document is streamed, one lock per line, so that a million locks need no second copy in memory. Names are written
//! as they are typed on the command line, with `…_base64` beside them if that differs from their bytes. UTF-8 values
//! are kept, with control characters as `\uXXXX`. Unknown is `null`, never 0.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::Place;
use super::closer::{Belonging, Waiting};
use super::derivation::Questions;
use super::notable;
use super::page::Notes;
use super::shape::{Document, Lock, Past};
use crate::base::json::write_value;
use crate::model::{LockView, Notable, Snapshot, Transition, Why};
use crate::sources::inspect::Inspection;

pub const SCHEMA: &str = "lockscope/1";

/// `ls --json`: one document. `locks` are those to show, in order; the rest describes the whole snapshot.
pub fn write_list(
    out: &mut impl Write,
    snapshot: &Snapshot,
    locks: &[LockView],
    place: &Place,
    server: &Value,
) -> io::Result<()> {
    write!(out, "{{\"schema\":\"{SCHEMA}\",\"at\":\"{}\",\"server\":", snapshot.at.rfc3339())?;
    write_value(out, server)?;
    write!(out, ",\"complete\":{},\"incomplete\":", snapshot.complete)?;
    write_value(out, &snapshot.incomplete)?;
    write!(out, ",\"dropped\":{},\"lost_beyond\":{},\"locks\":[", snapshot.dropped, snapshot.lost_beyond)?;
    for (index, lock) in locks.iter().enumerate() {
        out.write_all(if index == 0 { b"\n" } else { b",\n" })?;
        write_value(out, &Lock::of(lock, place))?;
    }
    out.write_all(if locks.is_empty() { b"]}\n" } else { b"\n]}\n" })
}

/// `:incident json` of the console: one lock, and what mattered to it. `server`: the target and its environment.
pub fn write_incident(
    out: &mut impl Write,
    lock: &LockView,
    story: &[Notable],
    place: &Place,
    (target, environment): (&str, Option<&str>),
) -> io::Result<()> {
    let incident = Incident {
        schema: SCHEMA,
        at: lock.at.rfc3339(),
        server: serde_json::json!({ "target": target, "environment": environment }),
        lock: Lock::of(lock, place),
        history: lock.past.iter().map(Past::of).collect(),
        timeline: story.iter().map(|entry| notable::Entry::of(entry, place)).collect(),
    };
    write_value(out, &incident)
}

#[derive(Serialize)]
struct Incident<'a> {
    schema: &'static str,
    at: String,
    server: Value,
    lock: Lock<'a>,
    history: Vec<Past<'a>>,
    timeline: Vec<notable::Entry<'a>>,
}

/// `show --json`: one lock in the same shape, its history, who waits for it, the keys that belong to it, what its library
/// says about waiting, renewing and freeing, and with `--why` the derivation of its verdict.
pub fn write_lock(
    out: &mut impl Write,
    lock: &LockView,
    found: &Inspection,
    place: &Place,
    server: &Value,
    notes: &Notes,
    why: Option<&Why>,
) -> io::Result<()> {
    let document = Document {
        schema: SCHEMA,
        lock: Lock::of(lock, place).looked_at(lock, found),
        history: lock.past.iter().map(Past::of).collect(),
        waiting: Waiting::of(&found.waiters.beside(lock)),
        keys: found.keys.iter().map(Belonging::of).collect(),
        notes,
        why: why.map(Questions::of),
        server,
    };
    write_value(out, &document)?;
    out.write_all(b"\n")
}

/// `watch --json`: one line for a change.
pub fn write_change(out: &mut impl Write, change: &Transition, place: &Place) -> io::Result<()> {
    write_value(out, &super::shape::Change::of(change, place))?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::base::time::*;
    use crate::lock::*;
    use crate::model::*;
    use crate::sources::waiters::Count;
    use crate::testkit::sample;

    fn place() -> Place {
        Place { nodes: [(NodeId(0), "127.0.0.1:6379".into())].into(), db: 2 }
    }

    fn list(locks: &[LockView]) -> (String, Value) {
        let snapshot =
            Snapshot { at: Time(0), locks: Vec::new(), complete: true, incomplete: None, dropped: 0, lost_beyond: 0 };
        let mut out = Vec::new();
        write_list(&mut out, &snapshot, locks, &place(), &json!({"url": "redis://h"})).unwrap();
        let text = String::from_utf8(out).unwrap();
        let value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
        (text, value)
    }

    #[test]
    fn a_list_is_one_document_with_the_fields_of_the_contract() {
        let (_, value) = list(&[sample::redisson(), sample::forever()]);
        assert_eq!(value["schema"], "lockscope/1");
        assert_eq!(value["server"]["url"], "redis://h");
        assert_eq!(value["complete"], true);
        let lock = &value["locks"][0];
        for field in [
            "key",
            "node",
            "db",
            "type",
            "dialect",
            "mode",
            "state",
            "evidence",
            "confidence",
            "liveness",
            "findings",
            "holders",
            "ttl_ms",
            "lease_ms",
            "lease_is",
            "held_ms",
            "held_is",
            "renewals",
            "contention",
            "fencing_token",
            "nodes",
            "kind",
            "dialect_confidence",
            "second_choice",
            "value",
        ] {
            assert!(lock.get(field).is_some(), "{field} is missing");
        }
        assert_eq!(lock["key"], "lock:order:8841");
        assert_eq!((&lock["node"], &lock["db"]), (&json!("127.0.0.1:6379"), &json!(2)));
        assert_eq!(
            lock["renewals"],
            json!({"count": 4, "last_ms": 1860, "period_ms": 10000, "expected_ms": 10000, "missed": 0,
                "jitter_ms": 200, "due_in_ms": 3100})
        );
        assert_eq!(lock["holders"][0]["count"], 2);
        assert_eq!(lock["holders"][0].get("host"), None, "what is not known of a holder is left out");
        assert_eq!((&lock["contention"], &lock["nodes"]), (&Value::Null, &Value::Null));
        assert_eq!(lock["ttl_ms"], 8140);
        let forever = &value["locks"][1];
        assert_eq!(forever["ttl_ms"], Value::Null);
        assert_eq!(forever["state"], "no-ttl");
        assert_eq!(forever["second_choice"], json!({"dialect": "redsync", "confidence": 0.4}));
        assert_eq!(forever["held_is"], "at-least");
    }

    #[test]
    fn bytes_that_are_no_text_come_with_base64() {
        let (text, value) = list(&[sample::forever()]);
        let lock = &value["locks"][0];
        assert_eq!(lock["key"], "job-lock:\\xff\\n");
        assert_eq!(lock["key_base64"], "am9iLWxvY2s6/wo=");
        assert_eq!(lock["holders"][0]["token"], "worker-7\\u{1b}[2J", "as it is typed");
        assert_eq!(lock["holders"][0]["token_base64"], "d29ya2VyLTcbWzJK");
        assert_eq!(lock["value"]["text"], "worker-7\u{1b}[2J", "a value that is text is the text itself");
        assert!(text.chars().all(|c| !c.is_control() || c == '\n'), "{text}");
    }

    #[test]
    fn nothing_in_a_document_can_drive_a_terminal() {
        let mut lock = sample::redisson();
        lock.key = Key::from("a\u{9b}2J\u{202e}\u{e0001}b\"\\");
        let (_, value) = list(&[lock]);
        assert_eq!(value["locks"][0]["key"], "a\\u{9b}2J\\u{202e}\\u{e0001}b\"\\\\");
        let mut out = Vec::new();
        write_value(&mut out, &"a\u{9b}2J\u{202e}\u{e0001}b\"\\").unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("a\\u009b2J\\u202e\\udb40\\udc01b\\\"\\\\"), "{text}");
    }

    #[test]
    fn no_locks_are_an_empty_list() {
        assert_eq!(list(&[]).1["locks"], json!([]));
    }

    #[test]
    fn a_shown_lock_has_its_history_and_notes() {
        let notes = Notes { waiting: vec!["w".into()], renewal: vec![], release: vec!["DEL x".into()] };
        let mut out = Vec::new();
        write_lock(&mut out, &sample::redisson(), &sample::inspection(), &place(), &Value::Null, &notes, None).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!((&value["schema"], &value["key"]), (&json!("lockscope/1"), &json!("lock:order:8841")));
        assert_eq!(
            value["history"],
            json!([{"holder": "older:1", "since": "2026-09-21T14:13:20.000Z", "since_is": "exact",
                "until": "2026-09-21T14:13:25.000Z", "ended": "released", "renewals": 0}])
        );
        assert_eq!(value["notes"]["release"], json!(["DEL x"]));
        assert_eq!(value["value"]["fields"][0]["value"], "2");
    }

    #[test]
    fn a_shown_lock_has_its_waiters_and_keys() {
        let shown = |found: &Inspection| -> Value {
            let mut out = Vec::new();
            write_lock(&mut out, &sample::redisson(), found, &place(), &Value::Null, &Notes::default(), None).unwrap();
            serde_json::from_slice(&out).unwrap()
        };
        let value = shown(&sample::inspection());
        assert_eq!(
            value["contention"],
            json!({"waiters": 2, "waiters_source": "queue", "waiters_at_least": null,
                "waiters_at_most": null, "dead_heads": null, "wanted": null,
                "attempts_per_s": null, "failures_per_s": null, "failures_margin_per_s": null, "unknown_why": null, "source": null,
                "coverage": null})
        );
        assert_eq!(
            value["waiting"],
            json!({"count": 2, "count_is": "exact", "source": "queue",
                "on": "redisson_lock_queue:{lock:order:8841}", "why": null, "queue": [
                    {"id": "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9", "deadline_ms": 180000, "state": "dead-head"},
                    {"id": "\\xff", "id_base64": "/w==", "deadline_ms": 480000, "state": "listening"}]})
        );
        assert_eq!(
            value["keys"],
            json!([{"key": "lock:order:8841", "type": "hash", "ttl_ms": 8140, "length": 1},
                {"key": "redisson_lock_queue:{lock:order:8841}", "type": "list", "ttl_ms": null, "length": 2},
                {"key": "redisson_lock_token:{lock:order:8841}", "type": "unknown", "ttl_ms": null, "length": null,
                    "unread": "NOPERM"}])
        );
        let mut unknown = sample::inspection();
        unknown.waiters.count = Count::Unknown("this user may not run LLEN".into());
        let value = shown(&unknown);
        assert_eq!(value["contention"], Value::Null, "never zero for unknown");
        assert_eq!((&value["waiting"]["count"], &value["waiting"]["count_is"]), (&Value::Null, &json!("unknown")));
        unknown.waiters.count = Count::AtMost(3);
        let contention = &shown(&unknown)["contention"];
        assert_eq!((&contention["waiters"], &contention["waiters_at_most"]), (&Value::Null, &json!(3)));
        assert_eq!(shown(&unknown)["waiting"]["count"], 3);
    }

    #[test]
    fn a_holder_has_its_connection_and_a_lock_its_rates_where_they_are_known() {
        let mut lock = sample::redisson();
        let since = lock.at - std::time::Duration::from_secs(60);
        let connection = Connection {
            name: Some("orders-1".into()),
            since: Some(since),
            used: Some(since),
            closed: Some(lock.at - std::time::Duration::from_secs(31)),
            ..Connection::new(Address::parse("10.0.3.7:51322").unwrap(), since)
        };
        lock.presence = vec![Presence::Closed { connection: connection.clone(), like_it: Some(false) }];
        let open = Connection { id: Some(7), closed: None, ..connection };
        let mut other = lock.clone();
        other.presence = vec![Presence::Connected { by: MatchedBy::Name, connection: open, more: 2 }];
        let second = std::time::Duration::from_secs(2);
        let (from, at) = (TriesFrom::Counted, lock.at);
        lock.tries = Some(Tries {
            attempts: 9,
            failures: 8,
            unjudged: 0,
            unclear: 0,
            looked: second,
            span: second,
            margin_per_s: 0.0,
            from,
            at,
        });
        lock.wanted = Some(lock.at);
        let (_, value) = list(&[lock]);
        let lock = &value["locks"][0];
        assert_eq!(
            lock["holders"][0]["connection"],
            json!({"address": "10.0.3.7:51322", "name": "orders-1", "library": null, "user": null,
                "matched_by": "token", "more": 0, "open": false, "open_ms": 29_000, "idle_ms": null,
                "closed_ms": 31_000})
        );
        assert_eq!(lock["holders"][0]["connected"], json!(false));
        let other = &list(&[other]).1["locks"][0]["holders"][0];
        assert_eq!((&other["connected"], &other["connection"]["matched_by"]), (&json!(true), &json!("name")));
        assert_eq!((&other["connection"]["more"], &other["connection"]["idle_ms"]), (&json!(2), &json!(60_000)));
        let unknown = &list(&[sample::redisson()]).1["locks"][0]["holders"][0];
        assert_eq!((unknown.get("connected"), unknown.get("connection")), (Some(&Value::Null), None));
        assert_eq!(
            lock["contention"],
            json!({"waiters": null, "waiters_source": null, "waiters_at_least": null,
                "waiters_at_most": null, "dead_heads": null, "wanted": true,
                "attempts_per_s": 4.5, "failures_per_s": 4.0, "failures_margin_per_s": 0.0,
                "unknown_why": null, "source": "counted", "coverage": 1.0})
        );
    }

    #[test]
    fn waiters_that_the_table_shows_as_a_bound_are_in_json_too() {
        let mut lock = sample::redisson();
        lock.demand.waiting = 8;
        assert_eq!(crate::output::columns::wait(&lock), "≥8");
        let contention = &list(&[lock]).1["locks"][0]["contention"];
        assert_eq!((&contention["waiters"], &contention["waiters_at_least"]), (&Value::Null, &json!(8)));
    }

    #[test]
    fn rates_come_with_their_source_and_margin() {
        let mut lock = sample::redisson();
        let mut tries = Tries {
            attempts: 25,
            failures: 21,
            unjudged: 0,
            unclear: 0,
            looked: Duration::from_secs(5),
            span: Duration::from_secs(15),
            margin_per_s: 0.61239,
            from: TriesFrom::Sampled,
            at: Time(0),
        };
        lock.tries = Some(tries);
        assert_eq!(
            list(&[lock.clone()]).1["locks"][0]["contention"],
            json!({"waiters": null, "waiters_source": null, "waiters_at_least": null,
                "waiters_at_most": null, "dead_heads": null, "wanted": null, "attempts_per_s": 5.0, "failures_per_s": 4.2,
                "failures_margin_per_s": 0.612, "unknown_why": null, "source": "sampled", "coverage": 0.333})
        );
        tries.unjudged = 1;
        lock.tries = Some(tries);
        let (_, value) = list(&[lock]);
        let contention = &value["locks"][0]["contention"];
        assert_eq!((&contention["attempts_per_s"], &contention["failures_per_s"]), (&json!(5.0), &Value::Null));
        assert_eq!(contention["failures_margin_per_s"], Value::Null);
        assert_eq!(contention["unknown_why"], "without notifications the result of an attempt is not known");
    }

    #[test]
    fn a_change_is_a_line() {
        let mut change = Transition {
            at: Time(0),
            space: crate::lock::KeyspaceId::FIRST,
            node: NodeId(0),
            key: Key::from("lock:a"),
            change: Change::Ended(Ending::Evicted),
            holder: None,
            previous: Some(Token::from(&b"\xfe"[..])),
            proven: true,
            source: Source::Notification,
        };
        let line = |change: &Transition| -> Value {
            let mut out = Vec::new();
            write_change(&mut out, change, &place()).unwrap();
            assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
            serde_json::from_slice(&out).unwrap()
        };
        assert_eq!(
            line(&change),
            json!({"schema": "lockscope/1", "at": "1970-01-01T00:00:00.000Z", "event": "lost", "key": "lock:a",
                "node": "127.0.0.1:6379", "db": 2, "holder": null, "previous": "\\xfe", "previous_base64": "/g==",
                "why": "evicted", "cause": "evicted", "proven": true, "source": "notification"})
        );
        change.change = Change::Renewed;
        assert_eq!(line(&change)["why"], Value::Null);
    }
}
