//! A key is any bytes and names one lock: copied from any output and pasted as an argument, it names the same lock.
//! Nothing is escaped twice, no spreadsheet cell runs as a formula, and nobody else can read the records.

mod common;

use std::os::unix::fs::PermissionsExt;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::{Desk, Server, binary};
use lockscope::base::text;
use serde_json::Value;

/// Keys that are easily confused with others.
const NASTY: [&[u8]; 22] = [
    b"lock:plain",
    b"lock:a\\x41",
    b"lock:a\\\\x41",
    b"lock:aA",
    b"lock:\\",
    b"lock:\\n",
    b"lock:\n",
    b"lock:\\u{1b}",
    b"lock:\x1b[31m",
    b"lock:\xff\x00\xfe",
    "lock:\u{202e}abc".as_bytes(),
    "lock:锁 é".as_bytes(),
    b"lock:with space 'and' \"quotes\" $(x) `y`",
    b"=lock:1+1",
    b"+lock:1",
    b"@lock:SUM(A1)",
    b" =lock:after a space",
    b"\"=lock:after a quote",
    b"\tlock:tab",
    b"\rlock:return",
    b"a;=lock:cell",
    "\u{ff1d}lock:wide".as_bytes(),
];

fn token(index: usize) -> String {
    format!("holder-{index:02}")
}

fn planted() -> Server {
    let server = Server::start();
    for (index, key) in NASTY.into_iter().enumerate() {
        server.cli(&[b"SET", key, token(index).as_bytes(), b"PX", b"600000"]);
    }
    server
}

fn decoded(value: &Value, name: &str) -> Vec<u8> {
    match value[format!("{name}_base64")].as_str() {
        Some(base64) => BASE64_STANDARD.decode(base64).expect("base64"),
        None => value[name].as_str().unwrap_or_else(|| panic!("{name}: {value}")).as_bytes().to_vec(),
    }
}

/// The copied text names the key with this number, and no other.
#[track_caller]
fn names(desk: &Desk, copied: &str, index: usize, from: &str) {
    let ran = desk.run(&["show", copied, "--json"]);
    assert_eq!(ran.code, 0, "{from} {copied:?}: {ran:?}");
    let lock = ran.json();
    assert_eq!(lock["holders"][0]["token"], token(index), "{from} {copied:?}");
    assert_eq!(decoded(&lock, "key"), NASTY[index], "{from} {copied:?}");
    assert_eq!(text::unescape(lock["key"].as_str().unwrap()).unwrap(), NASTY[index], "what is shown can be typed");
}

#[test]
fn a_key_copied_from_a_list_names_the_same_key() {
    let server = planted();
    let desk = Desk::at(&server);
    let table = desk.run(&["ls", "--sort", "holder"]);
    let json = desk.run(&["ls", "--json"]).json();
    let csv = desk.run(&["ls", "--csv"]).out;
    let mut csv = csv::Reader::from_reader(csv.as_bytes());
    let header = csv.headers().expect("a header").clone();
    let rows: Vec<csv::StringRecord> = csv.records().map(|row| row.expect("a row")).collect();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}"));
    assert_eq!((json["locks"].as_array().unwrap().len(), rows.len()), (NASTY.len(), NASTY.len()));
    for (index, key) in NASTY.into_iter().enumerate() {
        let holder = token(index);
        let line = table.out.lines().find(|line| line.contains(&holder)).expect("a line");
        // The key starts at its column; columns are separated by two spaces.
        let start = table.out.lines().next().unwrap().find("KEY").unwrap();
        let cell = line[start..].split("  ").next().unwrap();
        names(&desk, cell, index, "the table");
        let lock = json["locks"].as_array().unwrap().iter().find(|lock| lock["holders"][0]["token"] == holder.as_str());
        let lock = lock.expect("a lock");
        assert_eq!(decoded(lock, "key"), key);
        names(&desk, lock["key"].as_str().unwrap(), index, "the document");
        let row = rows.iter().find(|row| row[column("holders")] == holder).expect("a row");
        names(&desk, &row[column("key")], index, "the sheet");
        let exact = &row[column("key_base64")];
        if exact.is_empty() {
            assert_eq!(row[column("key")].as_bytes(), key);
        } else {
            assert_eq!(BASE64_STANDARD.decode(exact).unwrap(), key);
        }
    }
}

#[test]
fn no_cell_of_a_sheet_is_a_formula() {
    let server = planted();
    for token in ["=1+1", "-2+3", "@x", "+1", "'=1", "a;=1", "x,-1+2"] {
        server.cli(&["SET", &format!("lock:token:{token}"), token, "PX", "600000"]);
    }
    let csv = Desk::at(&server).run(&["ls", "--csv", "--dialect", "plain=lock:token:*"]).out;
    let mut sheet = csv::Reader::from_reader(csv.as_bytes());
    let mut cells = 0;
    for row in sheet.records().map(|row| row.expect("a row")) {
        for cell in row.iter() {
            // A spreadsheet with other separators takes the rest of a cell for the next one.
            for part in cell.split([',', ';', '\t', '\n', '\r']) {
                let first = part.trim_start_matches([' ', '"', '\'']).chars().next();
                assert!(!first.is_some_and(|c| "=+-@\t\r＝＋－＠".contains(c)), "{cell:?} in {row:?}");
                cells += 1;
            }
        }
    }
    assert!(cells > 29 * 20, "{csv}");
}

#[test]
fn a_key_copied_from_what_is_said_names_the_same_key() {
    let server = planted();
    let desk = Desk::at(&server);
    for (index, key) in NASTY.into_iter().enumerate() {
        let typed = text::visible(key);
        let between = |text: &str, before: &str, after: &str| -> String {
            let rest = text.split_once(before).unwrap_or_else(|| panic!("{before:?} in {text}")).1;
            rest.rsplit_once(after).unwrap_or_else(|| panic!("{after:?} in {text}")).0.to_string()
        };
        let page = desk.run(&["show", &typed]).out;
        names(&desk, page.lines().next().unwrap().rsplit_once("  HELD").expect("its state").0, index, "the page");
        let dry = ["release", &typed, "--holder", &token(index), "--dry-run"];
        let preview = desk.run(&dry).out;
        names(&desk, &between(preview.lines().next().unwrap(), "release ", " (plain"), index, "the preview");
        let plan = desk.run(&[&dry[..], &["--json"]].concat()).json();
        names(&desk, plan["key"].as_str().unwrap(), index, "the plan");
        assert_eq!(decoded(&plan, "key"), key);
        let refused = desk.run(&["release", &typed, "--holder", "nobody", "--yes"]).err;
        names(&desk, &between(&refused, "lockscope: ", " has another holder now"), index, "the refusal");
        let refused = desk.run(&["release", &typed, "--holder", "nobody", "--yes", "--json"]).json();
        names(&desk, refused["key"].as_str().unwrap(), index, "the refusal in JSON");
        assert_eq!(decoded(&refused, "key"), key);
        // The proposed command can be given to a shell as it is.
        let proposed = desk.run(&["release", &typed]).err;
        let line = proposed.lines().nth(1).unwrap_or_else(|| panic!("{proposed}")).trim();
        let line = line.replace(
            "lockscope release",
            &format!("{} -u {} release --dry-run --json", binary().display(), server.url()),
        );
        let shell = std::process::Command::new("sh").args(["-c", &line]).output().expect("a shell");
        let plan: Value = serde_json::from_slice(&shell.stdout).unwrap_or_else(|why| panic!("{why}: {line} {shell:?}"));
        assert_eq!(decoded(&plan, "key"), key, "{line}");
        let taken = desk.run(&["acquire", &typed, "--ttl", "1s", "--json"]).json();
        names(&desk, taken["key"].as_str().unwrap(), index, "acquire");
        assert_eq!(decoded(&taken, "key"), key);
        let taken = desk.run(&["acquire", &typed, "--ttl", "1s"]).err;
        names(&desk, &between(&taken, "lockscope: ", " is held by"), index, "acquire's refusal");
    }
}

#[test]
fn a_key_copied_from_the_records_names_the_same_key() {
    let server = planted();
    let desk = Desk::at(&server);
    for index in [1, 3, 4, 6, 9, 10, 12, 13] {
        let (typed, holder) = (text::visible(NASTY[index]), token(index));
        let named = |value: &Value, what: &str| {
            assert_eq!(decoded(value, "key"), NASTY[index], "{what}: {value}");
            assert_eq!(value["key"], typed.as_str(), "{what}: {value}");
        };
        let extended = ["extend", &typed, "--holder", &holder, "--ttl", "1h", "--yes", "--json"];
        named(&desk.run(&extended).json(), "extend");
        let freed = desk.run(&["release", &typed, "--holder", &holder, "--yes", "--json"]).json();
        named(&freed, "release");
        named(&desk.run(&["undo", freed["id"].as_str().unwrap(), "--yes", "--unwatched", "--json"]).json(), "undo");
        let freed = desk.run(&["release", &typed, "--holder", &holder, "--yes"]).out;
        assert!(freed.starts_with(&format!("freed {typed};")), "{freed}");
        let again = desk.run(&["undo", "--yes", "--unwatched"]).out;
        assert!(again.starts_with(&format!("put {typed} back")), "{again}");
        let entries = desk.run(&["audit", "--json"]).lines();
        let last = entries.last().expect("an entry");
        named(last, "the audit file");
        let line = desk.run(&["audit", "-n", "1"]).out;
        assert!(line.contains(&format!(" {typed}  by ")), "{typed}: {line}");
        names(&desk, last["key"].as_str().unwrap(), index, "the audit file");
    }
}

#[test]
fn a_token_is_told_and_taken_as_it_is_shown() {
    let server = Server::start();
    let desk = Desk::at(&server);
    // Each token of a pair looks like the other.
    let tokens: [&[u8]; 6] = [b"a\\x41", b"a\\\\x41", b"aA", b"\xff\n", b"-dash", b"=1+1"];
    for token in tokens {
        server.cli(&[b"SET", &b"lock:t"[..], token, b"PX", b"600000"]);
        let json = desk.run(&["ls", "--json", "--dialect", "plain=lock:t"]).json();
        let holder = &json["locks"][0]["holders"][0];
        assert_eq!(decoded(holder, "token"), token);
        let shown = holder["token"].as_str().unwrap();
        let plan = desk.run(&["release", "lock:t", "--dialect", "plain=lock:t", "--holder", shown, "--yes", "--json"]);
        assert_eq!(plan.code, 0, "{plan:?}");
        let plan = plan.json();
        let exact = plan["holders_base64"][0].as_str().map(|base64| BASE64_STANDARD.decode(base64).unwrap());
        assert_eq!(exact.unwrap_or(plan["holders"][0].as_str().unwrap().into()), token, "{plan}");
        let entry = desk.audit().pop().expect("an entry");
        let exact = entry["holders_base64"][0].as_str().map(|base64| BASE64_STANDARD.decode(base64).unwrap());
        assert_eq!(exact.unwrap_or(entry["holders"][0].as_str().unwrap().into()), token, "{entry}");
    }
    // Of two holders of one lock, the named one is meant.
    let two: [&[u8]; 2] = [b"3f2a8c00-1111-4222-8333-444455556666:1", b"3f2a8c00-1111-4222-8333-444455556666:2"];
    server.cli(&[b"HSET", &b"lock:h"[..], two[0], b"1", two[1], b"1"]);
    let plan =
        desk.run(&["release", "lock:h", "--holder", "3f2a8c00-1111-4222-8333-444455556666:2", "--dry-run", "--json"]);
    assert_eq!(plan.json()["holders"], serde_json::json!(["3f2a8c00-1111-4222-8333-444455556666:2"]));
}

#[test]
fn records_that_others_could_read_are_narrowed_with_a_word() {
    let server = planted();
    let desk = Desk::at(&server);
    desk.free("lock:plain", &token(0));
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (state, undo) = (desk.state(), desk.state().join("undo"));
    let record = || std::fs::read_dir(&undo).unwrap().next().expect("a record").unwrap().path();
    for command in [
        &["release", "lock:aA", "--holder", "holder-03", "--yes"][..],
        &["extend", "lock:\\\\", "--holder", "holder-04", "--ttl", "1h", "--yes"],
        &["acquire", "lock:new", "--ttl", "1s"],
        &["probe", "--for", "100ms", "--ttl", "3s"],
        &["audit"],
        &["audit", "--json"],
    ] {
        for (path, wide) in [(&state, 0o755), (&undo, 0o777), (&state.join("audit.jsonl"), 0o664), (&record(), 0o644)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(wide)).unwrap();
        }
        let ran = desk.run(command);
        assert_eq!(ran.code, 0, "{command:?}: {ran:?}");
        assert!(
            ran.err.contains("others could read ") && ran.err.contains(" and 1 more until now"),
            "{command:?}: {ran:?}"
        );
        assert_eq!(
            [mode(&state), mode(&undo), mode(&state.join("audit.jsonl")), mode(&record())],
            [0o700, 0o700, 0o600, 0o600]
        );
        let quiet = desk.run(&["audit"]);
        assert_eq!(quiet.err, "", "said once");
    }
}
