//! `ls --group` on a real server: buckets with an odd one out, what each process holds, and what is not known.

mod common;

use common::{Desk, Server};
use serde_json::{Value, json};

const REDISSON: &str = "3f2a8c00-1111-4222-8333-444455556666";

/// 64 buckets of which one has no TTL, two locks of one process, and a marker.
fn shop() -> (Server, Desk) {
    let server = Server::start();
    for bucket in 0..64 {
        let key = format!("stock-lock:bucket:{bucket}");
        let lease: &[&str] = if bucket == 17 { &[] } else { &["PX", "600000"] };
        server.cli(&[&["SET", &key, "worker-7"], lease].concat());
    }
    for (order, thread) in [(8_841, 57), (8_842, 58)] {
        let key = format!("orders-lock:{order}");
        server.cli(&["HSET", &key, &format!("{REDISSON}:{thread}"), "1"]);
        server.cli(&["PEXPIRE", &key, "600000"]);
    }
    let desk = Desk::at(&server);
    (server, desk)
}

fn groups(desk: &Desk, arguments: &[&str]) -> Vec<Value> {
    let ran = desk.run(&[&["ls", "--json", "--group"], arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let document = ran.json();
    assert_eq!((&document["schema"], &document["complete"]), (&json!("lockscope/1"), &json!(true)));
    document["groups"].as_array().expect("groups").clone()
}

fn names(groups: &[Value]) -> Vec<&str> {
    groups.iter().map(|group| group["name"].as_str().unwrap_or("-")).collect()
}

#[test]
fn sixty_four_buckets_read_as_one_thing_with_the_odd_one_out_named() {
    let (_server, desk) = shop();
    let found = groups(&desk, &["pattern"]);
    assert_eq!(names(&found), ["stock-lock:bucket:*", "orders-lock:*"], "worst first");
    let buckets = &found[0];
    assert_eq!(
        (&buckets["by"], &buckets["locks"], &buckets["states"], &buckets["worst"], &buckets["worst_keys"]),
        (
            &json!("pattern"),
            &json!(64),
            &json!({"no-ttl": 1, "held": 63}),
            &json!("no-ttl"),
            &json!(["stock-lock:bucket:17"])
        )
    );
    let table = desk.run(&["ls", "--group", "pattern"]);
    let row = table.out.lines().nth(1).expect("a row");
    assert!(row.starts_with("NO-TTL") && row.contains("63 held, 1 NO-TTL: stock-lock:bucket:17"), "{}", table.out);
    assert!(table.err.contains("2 groups: 66 locks among"), "{}", table.err);
}

#[test]
fn what_one_look_does_not_tell_is_no_zero() {
    let (_server, desk) = shop();
    let buckets = &groups(&desk, &["pattern"])[0];
    for unknown in ["waiters", "waiters_at_least", "failures_per_s", "failures_at_least_per_s"] {
        assert_eq!(buckets[unknown], Value::Null, "{unknown}: {buckets}");
    }
    let table = desk.run(&["ls", "--group", "pattern"]).out;
    let row = table.lines().nth(1).expect("a row");
    assert!(row.trim_end().ends_with("?       ?"), "{table}");
    let csv = desk.run(&["ls", "--group", "pattern", "--csv"]).out;
    let row = csv.lines().nth(1).expect("a row");
    assert!(row.starts_with("pattern,stock-lock:bucket:*,64,1 no-ttl 63 held,no-ttl,stock-lock:bucket:17,"), "{csv}");
    assert!(row.ends_with(",,"), "{csv}");
}

#[test]
fn threads_of_one_process_are_one_holder() {
    let (_server, desk) = shop();
    let found = groups(&desk, &["holder"]);
    assert_eq!(names(&found), ["worker-7", REDISSON]);
    assert_eq!((&found[0]["locks"], &found[1]["locks"]), (&json!(64), &json!(2)));
    assert_eq!(found[1]["waiters"], json!(0), "their channels have no subscribers");
    let libraries = groups(&desk, &["library"]);
    assert_eq!(names(&libraries).last(), Some(&"redisson"), "{libraries:?}");
    let nodes = groups(&desk, &["node"]);
    assert_eq!((nodes.len(), &nodes[0]["locks"]), (1, &json!(66)));
    assert!(nodes[0]["name"].as_str().is_some_and(|name| name.starts_with("127.0.0.1:")), "{nodes:?}");
}

#[test]
fn groups_are_filtered_sorted_and_cut_as_asked() {
    let (_server, desk) = shop();
    let filtered = groups(&desk, &["pattern", "--filter", "state:no-ttl"]);
    assert_eq!((filtered.len(), &filtered[0]["locks"]), (1, &json!(1)));
    assert_eq!(names(&groups(&desk, &["pattern", "--sort", "key"])), ["orders-lock:*", "stock-lock:bucket:*"]);
    assert_eq!(groups(&desk, &["pattern", "--limit", "1"]).len(), 1);
    assert_eq!(groups(&desk, &["pattern", "--filter", "nothing-like-this"]), Vec::<Value>::new());
    let refused = desk.run(&["ls", "--group", "pattern", "--sort", "ttl"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("groups have no ttl") && refused.err.contains("wait"), "{}", refused.err);
    let refused = desk.run(&["ls", "--group", "holders"]);
    assert!(refused.code == 2 && refused.err.contains("'holder'"), "{}", refused.err);
}

#[test]
fn a_name_that_would_drive_the_terminal_is_shown_escaped() {
    let server = Server::start();
    server.cli(&[&b"SET"[..], b"lock:\x1b[2J\xff:1", b"\x1b]0;x\x07", b"PX", b"600000"]);
    let desk = Desk::at(&server);
    for by in ["pattern", "holder"] {
        for form in [&[][..], &["--json"], &["--csv"]] {
            let out = desk.run(&[&["ls", "-p", "lock:*", "--group", by], form].concat()).out;
            assert!(out.chars().all(|c| c == '\n' || !c.is_control()), "{by} {form:?}: {out:?}");
        }
    }
    let holder = &groups(&desk, &["holder", "-p", "lock:*"])[0];
    assert_eq!(holder["name_base64"], json!("G10wO3gH"), "{holder}");
}
