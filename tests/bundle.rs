//! `lockscope bundle` on real servers and real stores: what is in the page, what is not, and what is refused.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use common::{Desk, Ran, Server, process, wait_until};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(40);
const TOKEN: &str = "3f2a8c00-1111-4222-8333-444455556666";
const RULES: &str = "default_rules = false\n[[rules]]\nname = \"NoTtl\"\nmetric = \"lockscope_locks\"\n\
    selector = \"state:no-ttl\"\nabove = 0\nfor = \"5s\"\nseverity = \"page\"\n";

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

    fn named(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_string()
    }

    /// The page and the JSON that a command wrote into a folder.
    #[track_caller]
    fn read(&self, folder: &str, ran: &Ran) -> (String, Value) {
        assert_eq!(ran.code, 0, "{}", ran.err);
        let page = PathBuf::from(ran.out.trim());
        assert_eq!(page, PathBuf::from(self.named(folder)).join("incident.html"), "stdout names the page");
        let mode = |path: &PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let json = page.with_file_name("incident.json");
        assert_eq!((mode(&page), mode(&json)), (0o600, 0o600));
        let document = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
        (std::fs::read_to_string(page).unwrap(), document)
    }

    fn record(&self) -> Child {
        self.desk.start(&["record", "--store", &self.named("history"), "--rules", &self.named("rules.toml")])
    }

    fn info(&self) -> String {
        self.desk.run_bare(&["record", "--store", &self.named("history"), "--info"]).out
    }
}

fn end(mut child: Child) {
    process::signal(&child, libc::SIGTERM);
    assert!(child.wait().unwrap().success());
}

#[track_caller]
fn refused(ran: &Ran, code: i32, part: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{}", ran.err);
    assert!(ran.err.contains(part) && ran.err.lines().count() == 1, "{}", ran.err);
}

#[test]
fn a_lock_becomes_a_page_without_its_token_unless_asked_for() {
    let scene = Scene::new();
    scene.server.cli(&["SET", "lock:order:1", TOKEN, "NX", "PX", "30000"]);
    let out = scene.named("one");
    let ran = scene.desk.run(&["bundle", "lock:order:1", "--observe", "1s", "--out", &out]);
    let (page, document) = scene.read("one", &ran);
    for part in ["lock:order:1 on ", "TTL and renewals", "Tokens and values were left out"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!((&document["schema"], &document["redacted"]), (&"lockscope/1".into(), &true.into()));
    assert_eq!(
        (&document["lock"]["state"], &document["lock"]["holders"][0]["token"]),
        (&"held".into(), &"holder-1".into())
    );
    assert!(document["server"]["nodes"][0]["version"].is_string(), "{}", document["server"]);
    for text in [&page, &document.to_string()] {
        assert!(!text.contains(TOKEN) && !text.contains("3f2a8c00"), "{text}");
    }
    refused(
        &scene.desk.run(&["bundle", "lock:order:1", "--out", &out]),
        2,
        "has an incident already: name another folder",
    );
    let ran = scene.desk.run(&["bundle", "lock:order:1", "--reveal", "--out", &scene.named("two")]);
    let (page, document) = scene.read("two", &ran);
    assert!(page.contains(TOKEN) && document["lock"]["holders"][0]["token"] == TOKEN);
    // What was done to it is in the page, with its reason and without the token.
    let freed =
        scene.desk.run(&["release", "lock:order:1", "--holder", TOKEN, "--reason", "<b>worker-7</b> is gone", "--yes"]);
    assert_eq!(freed.code, 0, "{}", freed.err);
    scene.server.cli(&["SET", "lock:order:1", "another-token", "NX", "PX", "30000"]);
    let ran = scene.desk.run(&["bundle", "lock:order:1", "--out", &scene.named("three")]);
    let (page, document) = scene.read("three", &ran);
    let actions = document["actions"].as_array().unwrap();
    assert_eq!(
        actions.iter().map(|entry| &entry["action"]).collect::<Vec<_>>(),
        ["release", "release"],
        "intent and result"
    );
    assert_eq!(page.matches("<td>release done</td>").count(), 1, "{page}");
    assert!(!page.contains("its result is not known"), "{page}");
    assert!(page.contains("&lt;b&gt;worker-7&lt;/b&gt; is gone") && !page.contains("<b>worker"), "{page}");
    for text in [&page, &document.to_string()] {
        assert!(!text.contains(TOKEN) && !text.contains("another-token"), "{text}");
    }
}

#[test]
fn names_and_values_of_any_bytes_are_text() {
    let scene = Scene::new();
    let names: [&[u8]; 5] = [
        b"lock:<script>alert(1)</script>",
        b"lock:\"'&",
        b"lock:\xff\n\x1b[31m",
        "lock:\u{202e}锁".as_bytes(),
        b"lock:</title>",
    ];
    for (index, name) in names.iter().enumerate() {
        scene.server.cli(&[&b"SET"[..], name, b"<img src=x onerror=alert(1)>", b"NX", b"PX", b"600000"]);
        let (typed, folder) = (lockscope::base::text::visible(name), format!("n{index}"));
        let ran = scene.desk.run(&["bundle", &typed, "--reveal", "--out", &scene.named(&folder)]);
        let (page, document) = scene.read(&folder, &ran);
        assert_eq!(document["lock"]["key"], typed);
        assert!(!page.contains("<script") && !page.contains("<img"));
        assert_eq!(page.matches("</title>").count(), page.matches("<title>").count());
        assert!(page.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{typed}");
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"), "the value can be read: {page}");
    }
}

#[test]
fn an_alert_that_fired_becomes_a_page_without_a_server() {
    let scene = Scene::new();
    scene.server.cli(&["SET", "lock:order:1", "worker-1", "PX", "600000"]);
    let recorder = scene.record();
    // Only what is taken after the keyspace was walked is seen to change.
    wait_until("it watches", PATIENCE, || scene.info().contains(" of 1 pattern"));
    scene.server.cli(&["SET", "lock:forever", TOKEN]);
    wait_until("it fires", PATIENCE, || scene.info().contains("episode"));
    scene.server.cli(&["DEL", "lock:forever"]);
    wait_until("it is over", PATIENCE, || {
        scene.info().lines().any(|line| line.contains("episode") && line.contains(" to 2"))
    });
    let info = scene.info();
    let line = info.lines().find(|line| line.starts_with("episode")).unwrap();
    assert!(line.contains("page NoTtl (pattern=lock:forever, state=no-ttl) from "), "{line}");
    let number = line.split_whitespace().nth(1).unwrap().trim_end_matches(':').to_string();
    let store = scene.named("history");
    // The lock is gone, and the store knows its story.
    let ran = scene.desk.run(&["bundle", "lock:forever", "--store", &store, "--out", &scene.named("gone")]);
    let (page, document) = scene.read("gone", &ran);
    assert!(page.contains("lock:forever on ") && page.contains(": gone"), "{page}");
    assert_eq!((&document["lock"], &document["episodes"][0]["rule"]), (&Value::Null, &"NoTtl".into()));
    end(recorder);
    let Scene { server, desk, directory } = scene;
    let scene = Scene { server: Server::start(), desk, directory };
    drop(server);
    let arguments = ["bundle", "--episode", &number, "--store", &store, "--out", &scene.named("episode")];
    let rules = scene.named("rules.toml");
    let ran = scene.desk.run(&[&arguments[..], &["--rules", &rules]].concat());
    let (page, document) = scene.read("episode", &ran);
    let episode = &document["episode"];
    assert_eq!(
        (&episode["rule"], &episode["end"], &episode["labels"]["pattern"]),
        (&"NoTtl".into(), &"over".into(), &"lock:forever".into())
    );
    let figure = &document["figures"][0];
    assert_eq!((&figure["metric"], &figure["threshold"]), (&"lockscope_locks".into(), &0.0.into()));
    assert!(figure["points"].as_array().unwrap().iter().any(|point| point[1] == 1.0), "{figure}");
    assert!(
        document["timeline"].as_array().unwrap().iter().any(|entry| entry["to"] == "no-ttl"),
        "{}",
        document["timeline"]
    );
    assert!(
        page.contains("NoTtl on ") && page.contains("class=\"level\"") && page.contains("class=\"fired\""),
        "{page}"
    );
    for text in [&page, &document.to_string()] {
        assert!(!text.contains(TOKEN), "{text}");
    }
    let other = ["bundle", "--episode", "9999", "--store", &store, "--out", &scene.named("x")];
    refused(&scene.desk.run(&other), 2, &format!("the last is {number}"));
}

#[test]
fn a_page_of_a_lock_is_written_without_a_store_that_can_not_be_read() {
    let scene = Scene::new();
    scene.server.cli(&["SET", "lock:a", "x", "PX", "600000"]);
    let (none, file) = (scene.named("none"), scene.named("rules.toml"));
    for (folder, store, part) in [("one", &none, "there is no store"), ("two", &file, "is not a store")] {
        let ran = scene.desk.run(&["bundle", "lock:a", "--store", store, "--out", &scene.named(folder)]);
        let (page, document) = scene.read(folder, &ran);
        assert!(ran.err.contains(part) && ran.err.contains("the page has nothing that was recorded"), "{}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        assert_eq!(document["lock"]["state"], "held");
        assert!(page.contains("nothing that was recorded is on this page: ") && page.contains(part), "{page}");
    }
    let out = scene.named("three");
    refused(&scene.desk.run(&["bundle", "--episode", "1", "--store", &file, "--out", &out]), 2, "is not a store");
    assert!(!PathBuf::from(&out).exists(), "an episode is in the store alone");
}

#[test]
fn what_a_rule_counted_within_a_window_is_on_the_page_of_its_alert() {
    let scene = Scene::new();
    let rules = "default_rules = false\n[[rules]]\nname = \"Many\"\nmetric = \"lockscope_holds_started_total\"\n\
        window = \"1m\"\nabove = 2\n";
    std::fs::write(scene.directory.path().join("rules.toml"), rules).unwrap();
    let recorder = scene.record();
    wait_until("it watches", PATIENCE, || scene.info().contains("covered"));
    let mut taken = 0;
    wait_until("it fires", PATIENCE, || {
        taken += 1;
        scene.server.cli(&["SET", "lock:busy", &format!("token-{taken}"), "PX", "600000"]);
        scene.server.cli(&["DEL", "lock:busy"]);
        scene.info().contains("episode")
    });
    let info = scene.info();
    let line = info.lines().find(|line| line.starts_with("episode")).unwrap();
    let number = line.split_whitespace().nth(1).unwrap().trim_end_matches(':').to_string();
    end(recorder);
    let (store, file) = (scene.named("history"), scene.named("rules.toml"));
    let out = scene.named("out");
    let ran = scene.desk.run(&["bundle", "--episode", &number, "--store", &store, "--rules", &file, "--out", &out]);
    let (page, document) = scene.read("out", &ran);
    let figure = &document["figures"][0];
    assert_eq!((&figure["metric"], &figure["window"]), (&"lockscope_holds_started_total".into(), &"1m".into()));
    let most = figure["points"].as_array().unwrap().iter().filter_map(|point| point[1].as_f64()).fold(0.0, f64::max);
    assert!(most > 2.0, "what it compared went beyond its threshold: {figure}");
    assert!(page.contains("lockscope_holds_started_total within 1m of lock:busy"), "{page}");
}

#[test]
fn what_can_not_be_written_is_one_sentence() {
    let scene = Scene::new();
    scene.server.cli(&["SET", "lock:a", "x", "PX", "600000"]);
    let (out, none, file) = (scene.named("out"), scene.named("none"), scene.named("rules.toml"));
    for (arguments, code, part) in [
        (vec!["bundle", "--out", &out], 2, "KEY"),
        (vec!["bundle", "lock:a"], 2, "--out"),
        (vec!["bundle", "lock:a", "--episode", "1", "--store", &file, "--out", &out], 2, "cannot be used with"),
        (vec!["bundle", "--episode", "1", "--out", &out], 2, "--store"),
        (vec!["bundle", "--episode", "x", "--store", &file, "--out", &out], 2, "--episode"),
        (vec!["bundle", "--episode", "1", "--store", &none, "--out", &out], 2, "there is no store"),
        (vec!["bundle", "lock:none", "--out", &out], 1, "there is no key lock:none"),
        (vec!["bundle", "", "--out", &out], 2, "the key is empty"),
        (vec!["bundle", "lock:a", "--out", &file], 2, "is not a folder"),
    ] {
        refused(&scene.desk.run(&arguments), code, part);
    }
    assert!(!PathBuf::from(&out).exists(), "nothing was made");
    let nowhere = Desk::with_url("redis://127.0.0.1:1");
    assert_eq!(nowhere.run(&["bundle", "lock:a", "--out", &out]).code, 3);
}
