//! `docs/json.md` against real output, in both directions: every field that a command prints has a row in the table of its
//! own object, and every row names a field that some command printed.
//!
//! A table belongs to the heading above it. A field that holds objects links to the heading of their table.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use common::samples::ALL;
use common::scripted::{Scripted, answer};
use common::{Desk, Listener, Server, Watching, wait_until};
use lockscope::base::text::visible;
use serde_json::Value;

/// The tables of the page by the anchor of their heading: each field, with the anchors that its row links to.
struct Page {
    tables: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// The tables and fields whose value is a map: an object whose names are not fixed.
    maps: BTreeSet<(String, String)>,
}

impl Page {
    fn read() -> Page {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/json.md");
        Page::parse(&std::fs::read_to_string(path).expect("the page on JSON"))
    }

    fn parse(text: &str) -> Page {
        let mut tables: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        let (mut anchor, mut maps) = (String::new(), BTreeSet::new());
        for line in text.lines() {
            if line.starts_with('#') {
                let letters = line.trim_start_matches(['#', ' ']).to_lowercase();
                anchor = letters.chars().filter(|c| !",".contains(*c)).collect::<String>().replace(' ', "-");
                let known = tables.insert(anchor.clone(), BTreeMap::new());
                assert!(known.is_none(), "two headings are called {anchor}");
            }
            let Some((names, meaning)) = line.strip_prefix("| `").and_then(|row| row.split_once(" | ")) else {
                continue;
            };
            let links = meaning.split("](#").skip(1).filter_map(|link| link.split_once(')')).map(|(to, _)| to.into());
            let links: Vec<String> = links.collect();
            for name in names.trim_end_matches('`').split("`, `") {
                assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{line}");
                let known = tables.entry(anchor.clone()).or_default().insert(name.into(), links.clone());
                assert!(known.is_none(), "{name} stands twice under {anchor}");
                if meaning.starts_with("a map ") {
                    maps.insert((anchor.clone(), name.to_string()));
                }
            }
        }
        Page { tables, maps }
    }

    /// The tables for `field` of an object described by `tables`; `None` if the field is unknown.
    fn links(&self, tables: &[&str], field: &str) -> Option<&Vec<String>> {
        tables.iter().find_map(|table| self.tables[*table].get(field))
    }
}

/// Compares the output with the page.
struct Held<'a> {
    page: &'a Page,
    /// Fields that were printed, with the table that names them.
    met: BTreeSet<(String, String)>,
    /// Fields that the page does not name.
    unnamed: BTreeSet<String>,
}

impl Held<'_> {
    fn against(page: &Page) -> Held<'_> {
        Held { page, met: BTreeSet::new(), unnamed: BTreeSet::new() }
    }

    /// Compares an object, and all objects in it, with the tables that describe it.
    fn hold(&mut self, tables: &[&str], object: &Value) {
        let fields = object.as_object().unwrap_or_else(|| panic!("no object of {tables:?}: {object}"));
        for (name, value) in fields {
            let Some(links) = self.page.links(tables, name) else {
                self.unnamed.insert(format!("{name} of {}", tables.join(", ")));
                continue;
            };
            let table = tables.iter().find(|table| self.page.tables[**table].contains_key(name));
            self.met.extend(table.map(|table| (table.to_string(), name.clone())));
            let is_map = |table: &&str| self.page.maps.contains(&(table.to_string(), name.clone()));
            let objects: Vec<&Value> = match value {
                Value::Object(_) if table.is_some_and(is_map) => Vec::new(),
                Value::Array(list) => list.iter().filter(|value| value.is_object()).collect(),
                Value::Object(_) => vec![value],
                _ => Vec::new(),
            };
            let described = links.iter().find(|link| !self.page.tables[*link].is_empty());
            for value in objects {
                match described {
                    Some(table) => self.hold(&[table], value),
                    None => drop(self.unnamed.insert(format!("the objects in {name} of {}", tables.join(", ")))),
                }
            }
        }
    }

    /// The differences between the page and the output.
    fn differences(&self) -> Vec<String> {
        let rows = self.page.tables.iter().flat_map(|(table, rows)| rows.keys().map(move |row| (table, row)));
        let unmet = rows.filter(|(table, row)| !self.met.contains(&(table.to_string(), row.to_string())));
        let unmet = unmet.map(|(table, row)| format!("named, but never printed: {row} of {table}"));
        self.unnamed.iter().map(|what| format!("printed, but not named: {what}")).chain(unmet).collect()
    }
}

/// A key and tokens that are not text.
const ODD: &[u8] = b"lock:\xff\x01";
const ODD_TOKEN: &[u8] = b"\xfe";

fn odd_key() -> String {
    visible(ODD)
}

/// Locks of every library, and some with bytes that are not text, in every place where bytes can be.
fn keyspace(server: &Server) -> Vec<Vec<u8>> {
    let mut connection = server.connection();
    let mut keys: Vec<Vec<u8>> = ALL.iter().map(|(_, create)| create(&mut connection).key).collect();
    // None of them must expire before it was shown.
    for key in &keys {
        if server.ask::<i64, _>(&[&b"PTTL"[..], key]) > 0 {
            server.cli(&[&b"PEXPIRE"[..], key, b"600000"]);
        }
    }
    let waiter: &[u8] = b"e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:\xff";
    for command in [
        &[&b"SET"[..], ODD, ODD_TOKEN, b"PX", b"600000"][..],
        &[b"HSET", b"huey.results.odd", b"odd.lock.\xfe", b"\xfd"],
        &[b"HSET", b"lock:queued", b"e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:17", b"1"],
        &[b"PEXPIRE", b"lock:queued", b"600000"],
        // A reader beside a writer.
        &[b"HSET", b"lock:both", b"mode", b"read", b"e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:17", b"1"],
        &[b"HSET", b"lock:both", b"e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:18:write", b"1"],
        &[b"RPUSH", b"redisson_lock_queue:{lock:queued}", waiter],
        &[b"ZADD", b"redisson_lock_timeout:{lock:queued}", b"9999999999999", waiter],
    ] {
        server.cli(command);
    }
    keys.extend([ODD, b"huey.results.odd", b"lock:queued", b"lock:both"].map(|key| key.to_vec()));
    keys
}

const PAUSE: Duration = Duration::from_millis(100);
/// The way libraries renew.
const RENEW: &[u8] =
    b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end";

/// Takes and frees a lock with an odd token all the time, and tries to take one that is held.
struct Traffic {
    stop: mpsc::Sender<()>,
    worker: JoinHandle<()>,
}

impl Traffic {
    fn on(server: &Server) -> Traffic {
        let mut connection = server.connection();
        let (stop, stopped) = mpsc::channel();
        let worker = std::thread::spawn(move || {
            // Alternate, so that each state can be seen.
            for round in (0..).take_while(|_| stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout)) {
                let commands: &[&[&[u8]]] = match round % 2 {
                    0 => &[
                        &[b"SET", b"lock:busy", ODD_TOKEN, b"NX", b"PX", b"600000"],
                        &[b"SET", b"lock:kept", b"worker-7", b"NX", b"PX", b"600000"],
                        &[b"SET", b"lock:kept", b"worker-8", b"NX", b"PX", b"600000"],
                    ],
                    _ => &[&[b"DEL", b"lock:busy"], &[b"EVAL", RENEW, b"1", b"lock:kept", b"worker-7", b"600000"]],
                };
                for command in commands {
                    let mut line = redis::Cmd::new();
                    for word in *command {
                        line.arg(*word);
                    }
                    line.exec(&mut connection).expect("the server answers");
                }
            }
        });
        Traffic { stop, worker }
    }

    fn end(self) {
        self.stop.send(()).expect("the traffic goes on");
        self.worker.join().expect("the traffic ends");
    }
}

/// The commands that only read: `ls`, `contention`, `show`, `watch`, `discover`, `doctor`, `scripts`.
fn looking(server: &Server, held: &mut Held) {
    let keys = keyspace(server);
    let desk = Desk::at(server);
    let mut watch = Watching::start(server, &["-p", "lock:*"]).ready(server);
    let notable = Watching::start(server, &["-p", "lock:*", "--notable"]);
    notable.says("watching");
    let traffic = Traffic::on(server);
    let mut blocked = server.connection();
    blocked.send_packed_command(&redis::cmd("BLPOP").arg("nobody-pushes").arg(60).get_packed_command()).unwrap();
    for arguments in [
        &["ls", "--json"][..],
        &["ls", "--json", "--observe", "2s", "-p", "lock:*"],
        &["contention", "--json", "--for", "3s", "--monitor", "-p", "lock:*"],
    ] {
        let ran = desk.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.err);
        held.hold(&["ls"], &ran.json());
    }
    let lost = listing_lost(&desk, server);
    held.hold(&["ls"], &lost);
    for by in ["pattern", "holder", "library", "node"] {
        let ran = desk.run(&["ls", "--json", "--group", by]);
        assert_eq!(ran.code, 0, "{by}: {}", ran.err);
        held.hold(&["groups", "ls"], &ran.json());
    }
    for key in keys.iter().map(|key| visible(key)) {
        held.hold(&["show", "a-lock"], &desk.run(&["show", "--json", "--", &key]).json());
    }
    held.hold(&["show", "a-lock"], &desk.run(&["show", "--why", "--json", "--observe", "2s", "lock:busy"]).json());
    drop(blocked);
    traffic.end();
    server.cli(&["SET", "lock:kept", "another"]);
    server.cli(&[b"SET", ODD, &b"\xfd"[..]]);
    watch.fence(server);
    watch.lines().iter().for_each(|line| held.hold(&["watch"], line));
    wait_until("the hand-over is told", Duration::from_secs(30), || {
        notable.lines().iter().any(|line| line["notable"] == "taken" && line["key"] == odd_key())
    });
    notable.lines().iter().for_each(|line| held.hold(&["watch---notable"], line));
    held.hold(&["check"], &desk.run(&["check", "--json", "--for", "1s", "--ignore-for"]).json());
    bundling(&desk, server, held);
    tuning(&desk, held);
    tuning_a_prometheus(&desk, held);
    paging(&desk, held);
    held.hold(&["discover"], &desk.run(&["discover", "--json"]).json());
    held.hold(&["doctor"], &desk.run(&["doctor", "--json"]).json());
    held.hold(&["scripts"], &desk.run_bare(&["scripts", "--json"]).json());
    held.hold(&["a-script"], &desk.run_bare(&["scripts", "release", "--json"]).json());
}

/// What is listed while locks are renamed away, one after the other.
fn listing_lost(desk: &Desk, server: &Server) -> Value {
    let key = |number: usize| format!("lock:away:{number}").into_bytes();
    for number in 0..60 {
        server.cli(&[b"SET", key(number).as_slice(), ODD_TOKEN, b"PX", b"600000"]);
    }
    let mut child = desk.start(&["ls", "--json", "--observe", "2s", "-p", "lock:away:*"]);
    for number in 0..60 {
        if child.try_wait().expect("a child of ours").is_some() {
            break;
        }
        server.cli(&[b"RENAME", key(number).as_slice(), format!("elsewhere:{number}").as_bytes()]);
        std::thread::sleep(Duration::from_millis(100));
    }
    let out = child.wait_with_output().expect("it ends").stdout;
    let list: Value = serde_json::from_slice(&out).expect("a document");
    let lost = list["locks"].as_array().expect("locks").iter().filter(|lock| lock["state"] == "lost").count();
    assert!(lost > 0, "{list}");
    list
}

/// A lock that is renewed and was freed before, beside a history with a gap and an alert that fired; then that alert.
fn bundling(desk: &Desk, server: &Server, held: &mut Held) {
    let folder = common::process::temporary_directory();
    let named = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (store, rules) = (named("history"), named("rules.toml"));
    let rule = "default_rules = false\n[[rules]]\nname = \"Any\"\nmetric = \"lockscope_locks\"\nselector = \"bundled state:held\"\n";
    std::fs::write(&rules, format!("{rule}above = 0\n")).unwrap();
    let take = ["SET", "lock:bundled", "bundled-token", "PX", "9000"];
    server.cli(&take);
    let freed = desk.run(&["release", "lock:bundled", "--holder", "bundled-token", "--yes"]);
    assert_eq!(freed.code, 0, "{}", freed.err);
    server.cli(&take);
    let ran = desk.run(&["record", "--store", &store, "--for", "2s", "-p", "lock:bundled"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut recorder = desk.start(&["record", "--store", &store, "--rules", &rules, "-p", "lock:bundled"]);
    let (mut renewer, over) = (server.connection(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let ends = over.clone();
    let renews = std::thread::spawn(move || {
        while !ends.load(std::sync::atomic::Ordering::Relaxed) {
            let _: bool = redis::cmd("PEXPIRE").arg("lock:bundled").arg(9_000).query(&mut renewer).unwrap();
            std::thread::sleep(Duration::from_millis(400));
        }
    });
    let info = || desk.run_bare(&["record", "--store", &store, "--info"]).out;
    wait_until("the alert fires", Duration::from_secs(40), || info().contains("episode"));
    for reveal in [&["--reveal"][..], &[]] {
        let out = named(if reveal.is_empty() { "redacted" } else { "whole" });
        let of_lock = ["bundle", "lock:bundled", "--observe", "3s", "--store", &store, "--out", &out];
        assert_eq!(desk.run(&[&of_lock[..], reveal].concat()).code, 0);
        held.hold(&["bundle"], &written(&out));
    }
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    renews.join().unwrap();
    common::process::signal(&recorder, libc::SIGTERM);
    recorder.wait().unwrap();
    let line = info().lines().find(|line| line.starts_with("episode")).unwrap().to_string();
    let (number, out) = (line.split_whitespace().nth(1).unwrap().trim_end_matches(':').to_string(), named("episode"));
    let ran = desk.run_bare(&["bundle", "--episode", &number, "--store", &store, "--rules", &rules, "--out", &out]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut document = written(&out);
    // Its server has a shape of its own, which the row tells.
    let server = document["server"].take();
    assert!(server["target"].is_string() && server["server"].is_string(), "{server}");
    held.hold(&["bundle"], &document);
}

fn written(folder: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(format!("{folder}/incident.json")).unwrap()).unwrap()
}

/// `tune` on a recorded hour.
fn tuning(desk: &Desk, held: &mut Held) {
    let folder = common::process::temporary_directory();
    let file = folder.path().join("history");
    common::history::record(&file);
    let store = ["tune", "--json", "--store", file.to_str().expect("a path")];
    held.hold(&["tune"], &desk.run_bare(&store).json());
    let rule = ["--rule", "LockManyWaiters", "--set", "above=6"];
    let told = desk.run_bare(&[&store[..], &rule].concat()).json();
    let label = format!("{}=real", told["rules"][0]["episodes"][0]["name"].as_str().expect("an episode"));
    held.hold(&["tune"], &desk.run_bare(&[&store[..], &rule, &["--label", &label]].concat()).json());
}

/// `tune` on a Prometheus whose recorded alerts are others than those of its rule.
fn tuning_a_prometheus(desk: &Desk, held: &mut Held) {
    let prometheus = Scripted::start(|asked| {
        let body = match asked.line.contains("/rules") {
            true => {
                r#"{"data":{"groups":[{"name":"g","interval":60,"rules":[{"type":"alerting","name":"A","query":"m > 1"},
                {"type":"alerting","name":"B","query":"m"}]}]}}"#
                    .to_string()
            }
            false => {
                let start = asked.body.split("start=").nth(1).and_then(|rest| rest.split('&').next()).expect("a start");
                let at = |minute: f64| start.parse::<f64>().expect("a time") + minute * 60.0;
                let (from, to) = if asked.body.contains("ALERTS") { (10.0, 12.0) } else { (20.0, 22.0) };
                format!(
                    r#"{{"data":{{"result":[{{"metric":{{"x":"y"}},"values":[[{},"5"],[{},"5"]]}}]}}}}"#,
                    at(from),
                    at(to)
                )
            }
        };
        Some(answer(200, "application/json", &body))
    });
    let url = prometheus.url();
    held.hold(&["the-rules-of-a-prometheus"], &desk.run_bare(&["tune", "--prometheus", &url, "--json"]).json());
    let one = ["tune", "--prometheus", &url, "--rule", "A", "--from", "1h", "--json"];
    held.hold(&["tune"], &desk.run_bare(&one).json());
}

/// What a command of the pager gets.
fn paging(desk: &Desk, held: &mut Held) {
    let folder = common::process::temporary_directory();
    let file = folder.path().join("page");
    let config = folder.path().join("config.toml");
    std::fs::write(&config, format!("[pager]\ncommand = [\"tee\", {file:?}]\n")).expect("a config");
    let ran = desk.run_bare(&["rules", "fire", "LockOrphan", "--test", "--config", config.to_str().expect("a path")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let page = std::fs::read_to_string(&file).expect("a page");
    held.hold(&["pager"], &serde_json::from_str(&page).expect("JSON"));
}

/// A user who may not read some keys sees that they exist.
fn looking_without_rights(server: &Server, held: &mut Held) {
    let rules = ["on", ">pw", "~lock:*", "&*", "+@all"];
    server.cli(&[&["ACL", "SETUSER", "half"], &rules[..]].concat());
    let desk = Desk::with_url(&server.url().replace("redis://", "redis://half:pw@"));
    held.hold(&["ls"], &desk.run(&["ls", "--json", "-p", "lock:*"]).json());
    held.hold(&["show", "a-lock"], &desk.run(&["show", "--json", "lock:queued"]).json());
}

/// Frees, extends and undoes, and reads the records of it.
fn acting(server: &Server, held: &mut Held) {
    let desk = Desk::at(server);
    let result: &[&str] = &["release-extend-and-undo"];
    let set = |key: &[u8]| drop(server.cli(&[b"SET", key, ODD_TOKEN, b"PX", b"600000"]));
    let odd = odd_key();
    let holder = format!("--holder={}", visible(ODD_TOKEN));
    set(ODD);
    let dry = desk.run(&["release", "--json", "--dry-run", &holder, &odd]).json();
    held.hold(&["release-extend-and-undo", "a-dry-run"], &dry);
    held.hold(result, &desk.run(&["extend", "--json", "--yes", &holder, "--ttl", "1h", &odd]).json());
    held.hold(result, &desk.run(&["release", "--json", "--yes", &holder, "--reason", "why not", &odd]).json());
    held.hold(&["undo---list"], &desk.run_bare(&["undo", "--list", "--json"]).json());
    held.hold(result, &desk.run(&["undo", "--json", "--yes", "--unwatched"]).json());
    held.hold(result, &desk.run(&["release", "--json", "--yes", "--holder", "other", &odd]).json());
    clearing_a_queue(&desk, server, held);
    taking(&desk, server, held);
    stopped(&desk, server);
    let audit = desk.run_bare(&["audit", "--json"]).lines();
    assert!(audit.iter().any(|line| line["action"] == "stop"), "{audit:?}");
    for line in &audit {
        let more: &[&str] = match line["action"].as_str() {
            Some("acquire") => &["a-test-lock", "acquire"],
            Some("probe") => &["a-test-lock", "probe"],
            Some("stop") => &["a-stop"],
            _ => &[],
        };
        held.hold(&[&["audit"], more].concat(), line);
    }
}

/// A fair lock: of two waiters that heard nothing one listens again before it is freed.
fn clearing_a_queue(desk: &Desk, server: &Server, held: &mut Held) {
    let (holder, gone, back) = ("3f2a8c00-1111-4222-8333-444455556666:57", "gone\u{1b}", "back\u{1b}");
    server.cli(&["HSET", "lock:cleared", holder, "1"]);
    server.cli(&["PEXPIRE", "lock:cleared", "600000"]);
    server.cli(&["RPUSH", "redisson_lock_queue:{lock:cleared}", gone, back]);
    let shown = desk.run(&["release", "--json", "--dry-run", "--holder", holder, "lock:cleared"]).json();
    held.hold(&["release-extend-and-undo", "a-dry-run"], &shown);
    let _back = Listener::on(server, "SUBSCRIBE", &format!("redisson_lock__channel:{{lock:cleared}}:{back}"));
    let plan = shown["plan"].as_str().expect("a plan");
    held.hold(&["release-extend-and-undo"], &desk.run(&["release", "--json", "--yes", "--plan", plan]).json());
    server.cli(&["HSET", "lock:cleared", holder, "1"]);
    server.cli(&["LPUSH", "redisson_lock_queue:{lock:cleared}", gone]);
    let many = ["release", "--json", "--yes", "-p", "lock:cleared", "--filter", "lock:cleared"];
    held.hold(&["release-extend-and-undo"], &desk.run(&many).json());
}

/// `acquire` and `probe`.
fn taking(desk: &Desk, server: &Server, held: &mut Held) {
    let (odd, token) = (odd_key(), format!("--token={}", visible(ODD_TOKEN)));
    server.cli(&[b"SET", ODD, ODD_TOKEN, b"PX", b"600000"]);
    held.hold(&["acquire"], &desk.run(&["acquire", "--json", "--ttl", "5s", &odd]).json());
    server.cli(&[b"DEL", ODD]);
    let taken = desk.run(&["acquire", "--json", "--ttl", "5s", &token, &odd, "--", "true"]);
    held.hold(&["acquire"], &taken.json());
    server.cli(&[b"SET", ODD, b"another", b"PX", b"200"]);
    let probed = desk.run(&["probe", "--json", "--for", "600ms", "--key", &odd]).json();
    assert!(!probed["events"].as_array().expect("events").is_empty(), "{probed}");
    held.hold(&["probe"], &probed);
}

/// A release of many locks that a signal stops.
fn stopped(desk: &Desk, server: &Server) {
    for number in 0..500 {
        server.cli(&["SET", &format!("many-lock:{number}"), "t", "PX", "600000"]);
    }
    let mut child = desk.start(&["release", "--filter", "many-lock:*", "--yes", "--json"]);
    let left = || server.ask::<Vec<String>, _>(&["KEYS", "many-lock:*"]).len();
    wait_until("some are freed", Duration::from_secs(20), || left() < 500);
    common::process::signal(&child, libc::SIGINT);
    child.wait().expect("a child of ours");
    assert!(left() > 0, "it was stopped before the end");
}

#[test]
fn the_page_names_every_field_in_its_own_row_and_nothing_else() {
    let page = Page::read();
    let mut held = Held::against(&page);
    let server = Server::notifying(&[]);
    looking(&server, &mut held);
    looking_without_rights(&server, &mut held);
    acting(&server, &mut held);
    let differences = held.differences();
    assert!(differences.is_empty(), "docs/json.md and what is printed: {differences:#?}");
}

#[test]
fn a_field_in_the_wrong_table_and_one_that_nobody_prints_are_found() {
    let text = "## ls\n| `a` | see [b](#b) |\n## b\n| `c`, `d` | |\n";
    let page = Page::parse(text);
    let found = |value: &str| {
        let mut held = Held::against(&page);
        held.hold(&["ls"], &serde_json::from_str(value).expect("JSON"));
        held.differences().join("; ")
    };
    assert_eq!(found(r#"{"a": [{"c": 1, "d": 2}]}"#), "");
    assert_eq!(found(r#"{"a": [{"c": 1}]}"#), "named, but never printed: d of b");
    assert_eq!(found(r#"{"a": {"c": 1, "d": 2}, "c": 1}"#), "printed, but not named: c of ls");
    assert_eq!(found(r#"{"a": {"c": {"d": 1}, "d": 2}}"#), "printed, but not named: the objects in c of b");
}
