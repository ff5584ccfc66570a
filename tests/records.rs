//! The records of an action: the audit file, and what was freed, kept while it can be put back. If nothing can be
//! recorded, nothing is done.

mod common;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Desk, Server, wait_until};
use serde_json::{Value, json};

fn held(server: &Server, key: &str) {
    server.cli(&["SET", key, "t", "PX", "600000"]);
}

#[test]
fn nothing_is_done_that_can_not_be_recorded() {
    let file_instead = |place: &Path| {
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, "").unwrap();
    };
    let full_disk = |place: &Path| {
        std::fs::create_dir_all(place).unwrap();
        symlink("/dev/full", place.join("audit.jsonl")).unwrap();
    };
    let no_place_for_undo = |place: &Path| file_instead(&place.join("undo"));
    for way in ["a file in place of the directory", "a full disk", "nowhere to keep what is freed"] {
        let server = Server::start();
        held(&server, "lock:a");
        let desk = Desk::at(&server);
        match way {
            "a full disk" => full_disk(&desk.state()),
            "nowhere to keep what is freed" => no_place_for_undo(&desk.state()),
            _ => file_instead(&desk.state()),
        }
        let before = server.everything();
        for arguments in [
            &["release", "lock:a", "--holder", "t", "--yes"][..],
            &["release", "--filter", "lock:a", "--yes"],
            &["extend", "lock:a", "--holder", "t", "--ttl", "1h", "--yes"],
        ] {
            let ran = desk.run(arguments);
            // What --filter prints about itself is not a refusal.
            let said: Vec<&str> =
                ran.out.lines().chain(ran.err.lines()).filter(|line| !line.starts_with("freeing the locks")).collect();
            assert_eq!((ran.code, said.len()), (1, 1), "{way}: {ran:?}");
            let said = said.concat();
            assert!(said.contains("nothing was changed, since the audit file can't be written"), "{way}: {said}");
            let told = desk.run(&[arguments, &["--json"]].concat());
            assert_eq!(told.code, 1, "{way}: {told:?}");
            assert_eq!(server.everything(), before, "{way}");
            assert!(server.ask::<i64, _>(&["PTTL", "lock:a"]) <= 600_000, "{way}");
        }
    }
}

#[test]
fn an_undo_that_can_not_be_recorded_is_not_done_either() {
    let server = Server::start();
    held(&server, "lock:a");
    let desk = Desk::at(&server);
    let id = desk.free("lock:a", "t");
    let file = desk.state().join("audit.jsonl");
    std::fs::remove_file(&file).unwrap();
    symlink("/dev/full", &file).unwrap();
    let ran = desk.run(&["undo", &id, "--yes", "--unwatched"]);
    assert!(ran.code == 1 && ran.out.contains("can't be written"), "{ran:?}");
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:a"]));
    std::fs::remove_file(&file).unwrap();
    let ran = desk.run(&["undo", &id, "--yes", "--unwatched"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn the_audit_file_tells_who_did_what_when_and_why() {
    let server = Server::start();
    held(&server, "lock:a");
    held(&server, "lock:b");
    let desk = Desk::at(&server);
    let reason = "incident 42: \u{1b}[31m\"stuck\"";
    let ran = desk.run(&["release", "lock:a", "--holder", "t", "--yes", "--json", "--reason", reason, "--env", "prod"]);
    let id = ran.json()["id"].clone();
    assert_eq!(desk.run(&["extend", "lock:b", "--holder", "t", "--ttl", "1h", "--yes"]).code, 0);
    assert_eq!(desk.run(&["undo", id.as_str().unwrap(), "--yes", "--unwatched"]).code, 0);

    let file = desk.state().join("audit.jsonl");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let lines = desk.audit();
    assert_eq!(lines.len(), 6, "an intent and an outcome each");
    for line in &lines {
        for field in ["at", "user", "host", "target", "node", "id", "action", "key", "library"] {
            assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {line}");
        }
        assert!(line["at"].as_str().unwrap().ends_with('Z'), "{line}");
        assert_eq!((&line["holders"], &line["target"]), (&json!(["t"]), &json!(server.url())), "{line}");
        assert!(line["commands"].as_array().is_some_and(|commands| !commands.is_empty()), "{line}");
    }
    assert_eq!((&lines[0]["phase"], &lines[0]["id"]), (&json!("intent"), &id));
    assert_eq!((&lines[1]["phase"], &lines[1]["outcome"], &lines[1]["id"]), (&json!("outcome"), &json!("done"), &id));
    assert_eq!((&lines[0]["key"], &lines[0]["commands"]), (&json!("lock:a"), &json!(["DEL lock:a"])));
    assert_eq!((&lines[0]["environment"], &lines[0]["library"]), (&json!("prod"), &json!("plain")));
    assert_eq!(lines[0]["reason"], json!("incident 42: \\u{1b}[31m\"stuck\""));
    let actions: Vec<&Value> = lines.iter().map(|line| &line["action"]).collect();
    assert_eq!(actions, ["release", "release", "extend", "extend", "undo", "undo"]);

    let read: Vec<Value> = desk.run_bare(&["audit", "--json"]).lines();
    assert_eq!(read, lines);
    let listed = desk.run_bare(&["audit"]);
    assert_eq!(listed.out.lines().count(), 6, "{}", listed.out);
    let first = listed.out.lines().nth(1).unwrap();
    for word in ["release", "done", "lock:a", "by ", &server.url(), "because incident 42", id.as_str().unwrap()] {
        assert!(first.contains(word), "{word} in {first}");
    }
    assert!(!listed.out.contains('\u{1b}'));
    assert_eq!(desk.run_bare(&["audit", "-n", "1", "--json"]).lines(), lines[5..]);
}

#[test]
fn the_audit_file_names_the_user_where_no_variable_does() {
    let server = Server::start();
    held(&server, "lock:a");
    let desk = Desk::at(&server);
    desk.free("lock:a", "t");
    let name = std::process::Command::new("id").arg("-un").output().expect("id runs").stdout;
    let name = String::from_utf8(name).expect("a name");
    assert_eq!(desk.audit()[0]["user"], name.trim(), "the environment of a test has no USER");
}

#[test]
fn what_the_server_refused_is_on_record_too() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "op", "on", ">pw", "~*", "&*", "+@all", "-del"]);
    held(&server, "lock:a");
    let desk = Desk::with_url(&server.url().replace("redis://", "redis://op:pw@"));
    let ran = desk.run(&["release", "lock:a", "--holder", "t", "--yes"]);
    assert!(ran.code == 3 && ran.out.starts_with("not freed: this user may not run DEL on lock:a; "), "{ran:?}");
    let lines = desk.audit();
    let last = lines.last().expect("a line");
    assert_eq!(last["outcome"], "refused");
    assert!(ran.out.contains(last["why"].as_str().expect("a reason")), "{last}");
    assert!(ran.out.contains("may not run DEL") || server.version() < (7, 0, 0), "{ran:?}");
    assert!(desk.run(&["undo", "--yes"]).refusal().contains("nothing was freed"));
}

/// The content of all files in a home.
fn contents(place: &Path, into: &mut Vec<u8>) {
    for entry in std::fs::read_dir(place).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => contents(&path, into),
            false => into.extend(std::fs::read(path).unwrap()),
        }
    }
}

#[test]
fn a_password_is_nowhere_on_record() {
    const PASSWORD: &str = "s3cret-of-the-operator";
    let server = Server::with(&["--requirepass", PASSWORD]);
    held(&server, "lock:a");
    held(&server, "lock:b");
    let desk = Desk::with_url(&server.url().replace("redis://", &format!("redis://:{PASSWORD}@")));
    let mut said = String::new();
    for (arguments, code) in [
        (&["release", "lock:a", "--holder", "t", "--dry-run"][..], 0),
        (&["release", "lock:a", "--holder", "t", "--yes", "--json"], 0),
        (&["release", "lock:a", "--holder", "t", "--yes"], 1),
        (&["release", "lock:b", "--holder", "u", "--yes"], 1),
        (&["undo", "--yes", "--unwatched"], 0),
        (&["extend", "lock:a", "--holder", "t", "--ttl", "1h", "--yes"], 0),
        (&["release", "--filter", "lock:*", "--yes"], 0),
        (&["audit"], 0),
        (&["audit", "--json"], 0),
    ] {
        let ran = desk.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        said.push_str(&ran.out);
        said.push_str(&ran.err);
    }
    assert!(desk.audit().len() >= 10 && said.contains("lock:b"));
    let mut kept = said.into_bytes();
    contents(&desk.state(), &mut kept);
    let secret = PASSWORD.as_bytes();
    assert!(!kept.windows(secret.len()).any(|window| window == secret));
}

#[test]
fn an_undo_says_why_it_can_not_be() {
    let server = Server::start();
    let other = Server::start();
    held(&server, "lock:a");
    let desk = Desk::at(&server);
    assert!(desk.run(&["undo", "--yes"]).refusal().contains("nothing was freed"));
    let id = desk.free("lock:a", "t");
    let undo = |id: &str| desk.run(&["undo", id, "--yes", "--unwatched"]);

    for unknown in ["1-2-3", "..", "../audit", "../../x", "a/b", "/etc/passwd", "a.json", ".", ""] {
        let ran = undo(unknown);
        assert!(ran.refusal().contains("nothing is kept under"), "{unknown:?}: {ran:?}");
    }
    for url in [other.url(), format!("{}/1", server.url())] {
        let ran = desk.run_bare(&["undo", &id, "--yes", "-u", &url]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains(&format!("was freed on {} (database 0)", server.url())), "{ran:?}");
    }
    assert_eq!((other.ask::<u64, _>(&["DBSIZE"]), server.ask::<u64, _>(&["DBSIZE"])), (0, 0));

    server.cli(&["SET", "lock:a", "next"]);
    let ran = undo(&id);
    assert!(ran.code == 1 && ran.out.contains("somebody has taken lock:a since"), "{ran:?}");
    assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "next");
    assert_eq!(server.ask::<i64, _>(&["PTTL", "lock:a"]), -1);

    server.cli(&["DEL", "lock:a"]);
    let ran = undo(&id);
    assert!(ran.code == 0 && ran.out == "put lock:a back\n", "{ran:?}");
    assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "t");
    server.cli(&["DEL", "lock:a"]);
    let ran = undo(&id);
    assert!(ran.refusal().contains("put back already"), "{ran:?}");
    assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 0);
}

#[test]
fn a_lease_that_would_have_run_out_is_not_put_back() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    // If the machine is so busy that the lock expires before it is freed, use a longer lease.
    let freed = [1_000, 5_000, 25_000].into_iter().find_map(|lease: u64| {
        server.cli(&["SET", "lock:a", "t", "PX", &lease.to_string()]);
        let end = now() + u128::from(lease);
        let ran = desk.run(&["release", "lock:a", "--holder", "t", "--yes", "--json"]);
        (ran.code == 0).then(|| (ran.json()["id"].as_str().unwrap().to_string(), end))
    });
    let (id, end) = freed.expect("a release within 25 s");
    wait_until("the end of the lease", Duration::from_secs(40), || now() > end);
    let ran = desk.run(&["undo", &id, "--yes", "--unwatched"]);
    assert!(ran.refusal().contains("would have ended"), "{ran:?}");
    assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 0);
}

#[test]
fn a_spoiled_record_is_not_trusted() {
    let server = Server::start();
    held(&server, "lock:a");
    let desk = Desk::at(&server);
    let id = desk.free("lock:a", "t");
    let file = desk.state().join(format!("undo/{id}.json"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    for spoiled in ["", "{}", &text[..text.len() / 2]] {
        std::fs::write(&file, spoiled).unwrap();
        let ran = desk.run(&["undo", &id, "--yes", "--unwatched"]);
        assert!(ran.refusal().contains("can't be read"), "{ran:?}");
    }
    assert_eq!(server.ask::<u64, _>(&["DBSIZE"]), 0);
    // A line that a crash truncated does not hide the others.
    let audit = desk.state().join("audit.jsonl");
    let mut lines = std::fs::read(&audit).unwrap();
    lines.extend(b"{\"at\":\"2026-");
    std::fs::write(&audit, lines).unwrap();
    let listed = desk.run_bare(&["audit"]);
    assert_eq!((listed.code, listed.out.lines().count()), (0, 2), "{listed:?}");
    assert!(listed.err.contains("left out 1 line of"), "{listed:?}");
    held(&server, "lock:b");
    let id = desk.free("lock:b", "t");
    let listed = desk.run_bare(&["audit"]);
    assert_eq!(listed.out.matches(&id).count(), 2, "{listed:?}");
}
