//! Promise 6: no name, value, error or reply of a server can drive the terminal. Escapes are planted in everything that
//! a server can send, and every output of every command and screen is checked byte by byte.

mod common;
#[path = "common/escapes.rs"]
mod escapes;
#[path = "common/terminal.rs"]
mod terminal;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::scripted::{Scripted, answer};
use common::{Desk, Server, binary, lockscope_at, process};
use escapes::{BYTES, Liar, Lie, TEXT};
use tempfile::TempDir;
use terminal::Terminal;

/// Locks of all shapes with escapes in each part, and their companion keys.
fn planted() -> Server {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let name = |kind: &str| [format!("lock:{kind}:").as_bytes(), TEXT.as_bytes(), b"\nx\ty\r", BYTES].concat();
    let put = |words: &[&[u8]]| {
        server.cli(words);
    };
    put(&[b"SET", &name("text"), TEXT.as_bytes(), b"PX", b"600000"]);
    put(&[b"SET", &name("bytes"), BYTES, b"PX", b"600000"]);
    put(&[b"SET", &name("forever"), &[TEXT.as_bytes(), BYTES].concat()]);
    put(&[b"SET", b"lock:fine", TEXT.as_bytes(), b"PX", b"600000"]);
    let field = [b"3f2a8c00-1111-4222-8333-444455556666:", BYTES].concat();
    put(&[b"HSET", &name("hash"), &field, b"1"]);
    put(&[b"PEXPIRE", &name("hash"), b"600000"]);
    put(&[b"HSET", b"lock:redisson", b"3f2a8c00-1111-4222-8333-444455556666:57", b"1"]);
    put(&[b"PEXPIRE", b"lock:redisson", b"30000"]);
    let queue = [b"redisson_lock_queue:{", &name("hash")[..], b"}"].concat();
    put(&[b"RPUSH", &queue, &field]);
    put(&[b"ZADD", &name("zset"), b"1", BYTES]);
    put(&[b"SADD", &name("set"), TEXT.as_bytes()]);
    put(&[b"RPUSH", &name("list"), TEXT.as_bytes()]);
    put(&[b"XADD", &name("stream"), b"*", TEXT.as_bytes(), BYTES]);
    let shed = format!("ADDED:2026-01-01T00:00:00Z@host{TEXT}");
    put(&[b"SET", b"job-lock:default:nightly", shed.as_bytes(), b"PX", b"600000"]);
    server
}

/// Every command that reads, and those that write without changing what the next one sees. `NEW` is a folder of the run.
fn commands() -> Vec<Vec<String>> {
    let key = lockscope::base::text::visible(&[b"lock:text:", TEXT.as_bytes(), b"\nx\ty\r", BYTES].concat());
    let (holder, list) = (lockscope::base::text::visible(TEXT.as_bytes()), key.replace("lock:text", "lock:list"));
    let hash = key.replace("lock:text", "lock:hash");
    let lines: Vec<Vec<&str>> = vec![
        vec!["ls"],
        vec!["ls", "-vv", "--observe", "100ms"],
        vec!["ls", "--json", "--observe", "100ms"],
        vec!["ls", "--csv"],
        vec!["show", &key],
        vec!["show", &hash],
        vec!["show", &hash, "--json", "--observe", "100ms"],
        vec!["show", &list],
        vec!["show", "lock:none\\u{1b}[31m"],
        vec!["watch", "--for", "150ms"],
        vec!["watch", "--for", "150ms", "--json"],
        vec!["watch", "--for", "150ms", "--notable"],
        vec!["contention", "--for", "1100ms", "--monitor"],
        vec!["contention", "--for", "150ms", "--json"],
        vec!["discover"],
        vec!["discover", "--json"],
        vec!["check", "--for", "1s"],
        vec!["check", "--for", "1s", "--json", "--ignore-for"],
        vec!["serve", "--listen", "127.0.0.1:0", "--for", "1s"],
        vec!["record", "-vv", "--store", "NEW/history", "--for", "1s"],
        vec!["bundle", &key, "--out", "NEW/incident"],
        vec!["bundle", &hash, "--reveal", "--observe", "100ms", "--out", "NEW/incident"],
        vec!["doctor"],
        vec!["doctor", "--json"],
        vec!["release", &key],
        vec!["release", &key, "--holder", &holder, "--dry-run"],
        vec!["release", &key, "--holder", &holder, "--dry-run", "--json"],
        vec!["release", &key, "--holder", "someone else", "--yes"],
        vec!["release", &hash, "--holder", "someone else", "--yes", "--json"],
        vec!["release", "--filter", "key:lock"],
        vec!["extend", &key, "--holder", &holder, "--ttl", "1h", "--yes"],
        vec!["extend", &key, "--holder", &holder, "--ttl", "2h", "--yes", "--json"],
        vec!["release", "lock:fine", "--holder", &holder, "--yes"],
        vec!["undo", "--yes", "--unwatched"],
        vec!["undo", "--yes", "--unwatched", "--json"],
        vec!["acquire", &key, "--ttl", "1s"],
        vec!["acquire", &key, "--ttl", "1s", "--json"],
        vec!["acquire", "lock:mine\\u{1b}[31m\\x9b", "--token", "\\u{1b}[31m", "--ttl", "2s", "--hold", "10ms"],
        vec!["acquire", "lock:mine\\u{1b}[31m\\x9b", "--ttl", "2s", "--hold", "10ms", "--json"],
        vec!["acquire", "lock:mine\\u{1b}[31m\\x9b", "--ttl", "300ms", "--", "sleep", "0.2"],
        vec!["probe", "--for", "250ms", "--ttl", "150ms", "--key", "lock:canary\\u{1b}[31m\\x9b"],
        vec!["probe", "--for", "150ms", "--ttl", "150ms", "--json", "--key", "lock:canary\\u{1b}[31m\\x9b"],
        vec!["audit"],
        vec!["audit", "--json"],
    ];
    lines.into_iter().map(|line| line.into_iter().map(String::from).collect()).collect()
}

/// The start of a connection: if these are refused, there is none.
const GREETINGS: [&str; 4] = ["CLIENT SETINFO", "CLIENT SETNAME", "CLIENT TRACKING", "SELECT"];
/// Commands whose replies are texts.
const TEXTS: [&str; 14] = [
    "ACL DRYRUN",
    "ACL WHOAMI",
    "CLIENT LIST",
    "CONFIG GET",
    "EVAL",
    "EVALSHA",
    "GETRANGE",
    "HELLO",
    "HGETALL",
    "HSCAN",
    "INFO",
    "SCAN",
    "TYPE",
    "ZRANGE",
];

static ESCAPED: AtomicUsize = AtomicUsize::new(0);

/// Why these bytes are not fit for a terminal.
fn unfit(bytes: &[u8]) -> Option<String> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(why) => return Some(why.to_string()),
    };
    ESCAPED.fetch_add(usize::from(text.contains("\\u{1b}") || text.contains("\\u001b")), Ordering::Relaxed);
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().find(|c| (c.is_control() && *c != '\n') || turns(*c)).map(|c| format!("{c:?}"))
}

/// A server with a liar before it, and a home for its clients.
struct Stage {
    liar: Liar,
    home: TempDir,
    _server: Server,
}

impl Stage {
    fn new() -> Stage {
        let server = planted();
        Stage { liar: Liar::before(server.port()), home: process::temporary_directory(), _server: server }
    }

    /// Runs a command while the server lies, and checks its output.
    fn run(&self, arguments: &[String], lie: &Lie) {
        if arguments[0] == "undo" {
            let holder = lockscope::base::text::visible(TEXT.as_bytes());
            let release = ["release", "lock:fine", "--holder", &holder, "--yes"].map(String::from);
            self.liar.tell(Lie::None);
            self.reads_clean(&release, &Lie::None);
        }
        self.liar.tell(lie.clone());
        self.reads_clean(arguments, lie);
    }

    fn reads_clean(&self, arguments: &[String], lie: &Lie) {
        let new = process::temporary_directory();
        let output = lockscope_at(self.home.path())
            .args(["-u", &self.liar.url(), "--dialect", "plain=lock:[tf]*"])
            .args(arguments.iter().map(|word| word.replace("NEW", new.path().to_str().expect("text"))))
            .output()
            .expect("lockscope runs");
        for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if let Some(why) = unfit(bytes) {
                panic!("{arguments:?} with {lie:?}: {why} on {stream}: {:?}", String::from_utf8_lossy(bytes));
            }
        }
        assert!(output.status.code().is_some_and(|code| code < 4), "{arguments:?} with {lie:?}: {output:?}");
        for name in ["incident.html", "incident.json"] {
            let page = std::fs::read(new.path().join("incident").join(name)).unwrap_or_default();
            assert_eq!(unfit(&page), None, "{arguments:?} with {lie:?}: {name}");
        }
        let history = new.path().join("history");
        if history.exists() {
            let store = lockscope::store::History::open(&history).and_then(|history| history.summary());
            assert!(store.is_ok(), "{arguments:?} with {lie:?}: {store:?}");
        }
    }
}

/// Every lie about each command that the server received from command number `index`.
fn lies(index: usize, arguments: &[String], heard: BTreeSet<String>) -> Vec<Lie> {
    let about = |(number, command): (usize, String)| {
        let error = match (index + number) % 3 {
            0 => format!("ERR {TEXT} said {TEXT}"),
            1 => format!("NOPERM {TEXT} has no permissions to run the '{TEXT}' command"),
            _ => format!("{TEXT} {TEXT}"),
        };
        // What a JSON document quotes of an error, the line for people quotes too.
        let refused = (!arguments.contains(&"--json".into())).then(|| Lie::Refuse(command.clone(), error));
        let tainted = TEXTS.contains(&command.as_str()).then_some(Lie::Taint(command));
        refused.into_iter().chain(tainted)
    };
    let asked = heard.into_iter().filter(|heard| !GREETINGS.contains(&heard.as_str()));
    asked.enumerate().flat_map(about).collect()
}

/// Runs all jobs, each on a stage that is free.
fn spread<J: Send, R: Send>(stages: &[Stage], jobs: Vec<J>, work: impl Fn(&Stage, J) -> R + Sync) -> Vec<R> {
    let jobs = Mutex::new(jobs.into_iter());
    let next = || jobs.lock().expect("nobody fails with it").next();
    let worker = |stage| std::iter::from_fn(next).map(|job| work(stage, job)).collect::<Vec<R>>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = stages.iter().map(|stage| scope.spawn(|| worker(stage))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("all that it read was clean")).collect()
    })
}

#[test]
fn no_answer_of_a_server_drives_the_terminal() {
    // The commands mostly wait, so run several at once.
    let stages: Vec<Stage> = (0..8).map(|_| Stage::new()).collect();
    let commands = commands();
    let jobs = spread(&stages, commands.iter().enumerate().collect(), |stage, (index, arguments)| {
        stage.run(arguments, &Lie::None);
        let heard = stage.liar.heard();
        assert!(!heard.is_empty() || arguments[0] == "audit", "{arguments:?}");
        lies(index, arguments, heard).into_iter().map(move |lie| (arguments, lie)).collect::<Vec<_>>()
    });
    let jobs: Vec<_> = jobs.into_iter().flatten().collect();
    assert!(jobs.len() > 300, "only {} lies", jobs.len());
    spread(&stages, jobs, |stage, (arguments, lie)| stage.run(arguments, &lie));
    assert!(ESCAPED.load(Ordering::Relaxed) > 20, "what was planted is shown, escaped");
}

#[test]
fn what_the_script_refuses_is_told_harmlessly_and_names_the_key() {
    let server = Server::start();
    let desk = Desk::at(&server);
    // Its permit counter is not a number.
    let name = [b"sem:", TEXT.as_bytes(), b"\\x41 \xff"].concat();
    let (key, permit) =
        ([b"{", &name[..], b"}:timeout"].concat(), b"\x9f\x12\xd4\xe0\x77\x3b\xa9\x01\xc8\x55\x6e\xf3\x20\x8d\xb7\x44");
    server.cli(&[&b"ZADD"[..], &key, b"9999999999999", permit]);
    server.cli(&[&b"SET"[..], &name, b"many"]);
    let (key, permit) = (lockscope::base::text::visible(&key), lockscope::base::text::visible(permit));
    let ran = desk.run(&["release", &key, "--holder", &permit, "--yes"]);
    assert_eq!(unfit(ran.out.as_bytes()).or(unfit(ran.err.as_bytes())), None, "{ran:?}");
    let refused = format!("the server refused it: {} is not a number", lockscope::base::text::visible(&name));
    assert!(ran.out.contains(&refused), "the name can be copied: {ran:?}");
}

#[test]
fn no_answer_of_a_prometheus_or_an_alertmanager_drives_the_terminal() {
    let home = process::temporary_directory();
    let quoted = serde_json::to_string(TEXT).expect("a text");
    let error = format!(r#"{{"status":"error","errorType":{quoted},"error":{quoted}}}"#);
    let rules = |expression: &str| {
        format!(
            r#"{{"status":"success","data":{{"groups":[{{"name":{quoted},"interval":15,"rules":[{{"type":"alerting","name":"A","query":{expression},"duration":0,"labels":{{{quoted}:{quoted}}},"annotations":{{"summary":{quoted}}}}},{{"type":"alerting","name":{quoted},"query":{quoted},"duration":0,"labels":{{}}}}]}}]}}}}"#
        )
    };
    let (fine, odd) = (rules(r#""m > 1""#), rules(&quoted));
    let series = |value: &str| {
        format!(
            r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{"__name__":"m","job":{quoted},{quoted}:"x"}},"values":[[1,{value}],[1,"5"]]}}]}},"warnings":[{quoted}]}}"#
        )
    };
    let bodies = [error.clone(), TEXT.to_string(), odd, series("\"1\""), series(&quoted), format!("<html>{TEXT}")];
    for (status, body) in
        [200, 302, 400, 401, 422, 503].iter().flat_map(|status| bodies.iter().map(move |body| (*status, body.clone())))
    {
        let liar = {
            let (fine, body) = (fine.clone(), body.clone());
            Scripted::start(move |asked| {
                let is_rules =
                    asked.line.contains("/rules") && !body.contains("groups") && !asked.line.contains("first");
                Some(if is_rules {
                    answer(200, "application/json", &fine)
                } else {
                    answer(status, "application/json", &body)
                })
            })
        };
        let at_once = format!("{}/first", liar.url());
        for arguments in [
            vec!["tune", "--prometheus", liar.url().leak()],
            vec!["tune", "--prometheus", liar.url().leak(), "--rule", "A", "--from", "1h"],
            vec!["tune", "--prometheus", liar.url().leak(), "--rule", "A", "--from", "1h", "--json"],
            vec!["tune", "--prometheus", &at_once],
            vec!["rules", "fire", "LockOrphan", "--test", "--alertmanager", liar.url().leak()],
        ] {
            let output = lockscope_at(home.path()).args(&arguments).output().expect("lockscope runs");
            for bytes in [&output.stdout, &output.stderr] {
                assert_eq!(unfit(bytes), None, "{arguments:?} {status} {body}: {:?}", String::from_utf8_lossy(bytes));
            }
            assert!(output.status.code().is_some_and(|code| code < 4), "{arguments:?} {status} {body}: {output:?}");
        }
    }
}

#[test]
fn what_was_recorded_of_ugly_names_is_shown_harmlessly() {
    let (server, folder) = (planted(), process::temporary_directory());
    let path = |name: &str| folder.path().join(name).to_str().expect("text").to_string();
    let (history, rules) = (path("history"), path("rules.toml"));
    let text = "default_rules = false\n[[rules]]\nname = 'Never'\nmetric = 'lockscope_locks'\nselector = 'state:no-ttl'\nabove = 0\n";
    std::fs::write(&rules, text).expect("a file");
    let desk = Desk::at(&server);
    let mut recorder = desk.start(&["record", "--store", &history, "--rules", &rules, "--dialect", "plain=lock:[tf]*"]);
    let fired = || desk.run_bare(&["record", "--store", &history, "--info"]).out.contains("episode");
    common::wait_until("it fires", std::time::Duration::from_secs(30), fired);
    process::signal(&recorder, libc::SIGTERM);
    assert!(recorder.wait().expect("a child of ours").success());
    let mut shown = String::new();
    for arguments in [
        &["record", "--store", &history, "--info"][..],
        &["check", "--store", &history, "--rules", &rules],
        &["check", "--store", &history, "--rules", &rules, "--json"],
        &["tune", "--store", &history, "--rules", &rules],
        &["tune", "--store", &history, "--rules", &rules, "--rule", "Never"],
        &["tune", "--store", &history, "--rules", &rules, "--rule", "Never", "--json"],
        &["bundle", "--episode", "1", "--store", &history, "--rules", &rules, "--out", &path("episode")],
        &[
            "rules",
            "export",
            "--tests",
            "--interval",
            "2s",
            "--store",
            &history,
            "--rules",
            &rules,
            "--out",
            &path("out"),
        ],
    ] {
        let ran = desk.run_bare(arguments);
        assert!((0..2).contains(&ran.code), "{arguments:?}: {ran:?}");
        assert_eq!(unfit(ran.out.as_bytes()).or(unfit(ran.err.as_bytes())), None, "{arguments:?}: {ran:?}");
        shown += &ran.out;
    }
    assert!(
        shown.contains("lock:forever:") && shown.contains("\\u{1b}[*m"),
        "what was planted fired, and is shown: {shown}"
    );
    for file in ["episode/incident.html", "episode/incident.json"] {
        let page = std::fs::read(folder.path().join(file)).expect("a page of the episode");
        assert_eq!(unfit(&page), None, "{file}");
    }
    for file in std::fs::read_dir(path("out")).into_iter().flatten().flatten() {
        assert_eq!(unfit(&std::fs::read(file.path()).expect("a file")), None, "{:?}", file.path());
    }
}

#[test]
fn wrong_arguments_and_files_are_told_harmlessly() {
    let server = Server::start();
    let home = process::temporary_directory();
    let file = |name: &str, text: &str| {
        let path = home.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("text").to_string()
    };
    let text = TEXT.replace('\x08', "");
    // Arguments can't contain NUL, and a backspace is not our business.
    let ugly = text.as_str();
    let config = file(
        "config.toml",
        &format!("[target.\"a\\u001b[31m\\u202e\"]\nurl = '{}'\npatterns = ['lock:\u{202e}*']\n", server.url()),
    );
    let wrong = file("wrong.toml", &format!("pat{} = 5\n", "\u{202e}"));
    let wronger = file("wronger.toml", "[target.x]\nurl = \"redis://h\\u001b[31m:no\"\n");
    let url = server.url();
    server.cli(&["SET", "lock:plain", "t", "PX", "600000"]);
    let not_ours = file(&format!("{text}.history"), "this is no database");
    let rules = file(
        &format!("{text}.toml"),
        "[[rules]]\nname = \"a\\u001b[31m\\u202e\"\nmetric = 'lockscope_locks'\nabove = 0\nnote = \"\\u001b[31m\\u202e\"\n",
    );
    let foreign = file(
        &format!("{text}.yml"),
        "groups:\n- name: \"\\e[31m\"\n  rules:\n  - alert: \"a\\e[31m\\u202E\"\n    expr: \"up == 0 or \\e[31m\"\n",
    );
    let path = |name: String| home.path().join(name).to_str().expect("text").to_string();
    let (out, page, nowhere) = (path(format!("{text}-out")), path(format!("{text}-page")), path(format!("{text}/x")));
    let history = path(format!("{text}-recorded"));
    common::history::record(std::path::Path::new(&history));
    for arguments in [
        vec!["info", "--config", &config, "-t", "a\x1b[31m\u{202e}"],
        vec!["ls", "--config", &config, "-t", "a\x1b[31m\u{202e}", "--json"],
        vec!["ls", "--config", &config, "-t", ugly],
        vec!["ls", "--config", &wrong],
        vec!["ls", "--config", &wronger, "-t", "x"],
        vec!["ls", "--config", ugly],
        vec!["ls", "--password-file", ugly],
        vec!["ls", "-u", ugly],
        vec!["ls", "-u", "redis://\x1b[31m@h:no"],
        vec!["ls", "-u", &url, "-p", "lock:\x1b[31m["],
        vec!["ls", "-u", &url, "--filter", ugly],
        vec!["ls", "-u", &url, "--filter", "sttae:\x1b[31m"],
        vec!["ls", "-u", &url, "--dialect", "\x1b[31m=x"],
        vec!["ls", "-u", &url, "--tls-ca", ugly],
        vec!["show", "-u", &url, ugly],
        vec!["show", "-u", &url, "a\\q\x1b[31m"],
        vec!["undo", "-u", &url, ugly],
        vec!["man", ugly],
        vec!["scripts", ugly],
        vec![ugly],
        vec!["ls", ugly],
        vec!["demo", "--headless", "--server", ugly],
        vec!["acquire", "-u", &url, "lock:a", "--ttl", "1s", "--", ugly],
        vec!["acquire", "-u", &url, "lock:a\x1b[31m", "--ttl", ugly],
        vec!["release", "-u", &url, "lock:a", "--holder", "x", "--yes", "--reason", ugly],
        vec!["probe", "-u", &url, "--key", ugly, "--for", "150ms", "--ttl", "150ms"],
        vec!["check", "-u", &url, "--rules", ugly],
        vec!["check", "-u", &url, "--rules", &rules, "--for", "1s"],
        vec!["check", "-u", &url, "--rules", &rules, "--for", "1s", "--json"],
        vec!["check", "--store", ugly],
        vec!["serve", "-u", &url, "--listen", ugly],
        vec!["serve", "-u", &url, "--auth-file", ugly],
        vec!["serve", "-u", &url, "--alertmanager", ugly],
        vec!["record", "-u", &url, "--store", &nowhere],
        vec!["record", "--info", "--store", &not_ours],
        vec!["tune", "--store", &not_ours],
        vec!["tune", "--store", &history, "--rule", ugly],
        vec!["tune", "--store", &history, "--rules", &rules],
        vec!["tune", "--store", &history, "--rule", "LockOrphan", "--set", ugly],
        vec!["tune", "--store", &history, "--from", ugly],
        vec!["tune", "--prometheus", ugly],
        vec!["tune", "--prometheus", "http://127.0.0.1:1", "--header", ugly],
        vec!["tune", "--prometheus", "http://127.0.0.1:1", "--bearer-file", ugly],
        vec!["rules", "export", "--rules", &rules],
        vec!["rules", "export", "--rules", &rules, "--out", &out],
        vec!["rules", "export", "--tests", "--store", &not_ours, "--out", &out],
        vec!["rules", "import", ugly],
        vec!["rules", "import", &foreign],
        vec!["rules", "fire", ugly, "--test"],
        vec!["rules", "fire", "a\x1b[31m\u{202e}", "--rules", &rules, "--test", "--alertmanager", "http://127.0.0.1:1"],
        vec!["rules", "fire", "LockOrphan", "--test", "--alertmanager", ugly],
        vec!["bundle", "-u", &url, ugly, "--out", &out],
        vec!["bundle", "-u", &url, "lock:plain", "--out", &page],
        vec!["bundle", "-u", &url, "lock:plain", "--out", &page],
        vec!["bundle", "--episode", "1", "--store", &not_ours, "--out", &out],
    ] {
        let output = lockscope_at(home.path()).args(&arguments).output().expect("lockscope runs");
        for bytes in [&output.stdout, &output.stderr] {
            assert_eq!(unfit(bytes), None, "{arguments:?}: {:?}", String::from_utf8_lossy(bytes));
        }
        assert_ne!(output.status.code(), Some(101), "{arguments:?}");
    }
    // A home with such a name.
    let output = lockscope_at(&home.path().join("\x1b[31m\u{202e}")).args(["info"]).output().expect("lockscope runs");
    assert_eq!(unfit(&output.stdout), None);
    let output = lockscope_at(&home.path().join("\x1b[31m\u{202e}")).args(["audit"]).output().expect("lockscope runs");
    assert_eq!(unfit(&output.stderr), None);
}

#[test]
fn no_screen_lets_anything_through() {
    let consoles = [
        (Lie::None, true),
        (Lie::Taint("INFO".into()), false),
        (Lie::Taint("CONFIG GET".into()), false),
        (Lie::Taint("TYPE".into()), false),
        (Lie::Refuse("PTTL".into(), format!("ERR {TEXT}")), false),
        (Lie::Refuse("EVALSHA".into(), format!("ERR {TEXT}")), true),
        (Lie::Refuse("INFO".into(), format!("ERR {TEXT}")), false),
    ];
    std::thread::scope(|scope| {
        for (lie, write) in &consoles {
            scope.spawn(|| lets_nothing_through(lie, *write));
        }
    });
}

/// Goes through the screens of a console on a server that tells this lie.
fn lets_nothing_through(lie: &Lie, write: bool) {
    let server = planted();
    let liar = Liar::before(server.port());
    liar.tell(lie.clone());
    let url = liar.url();
    let mut arguments = vec!["-u", &url, "--env", "dev", "--dialect", "plain=lock:[tf]*"];
    arguments.extend(write.then_some("--write"));
    let mut terminal = Terminal::start(binary().to_str().expect("text"), &arguments, &[]);
    terminal.resize(140, 40);
    terminal.wait_for("the console", |screen| screen.contains("lockscope") && screen.contains("locks"));
    // Press each key after the one before it took effect: an escape and what follows it at once would be another key.
    let opened = |screen: &str| !screen.contains("STATE▾");
    terminal.press("2345");
    terminal.wait_for("the servers", |screen| screen.contains("eviction"));
    terminal.press("6");
    terminal.wait_for("the lab", |screen| screen.contains("test lock"));
    terminal.press("1");
    // If types and TTLs are lies, no key is recognised as a lock.
    let listed = !matches!(lie, Lie::Taint(what) | Lie::Refuse(what, _) if what == "TYPE" || what == "PTTL");
    if listed {
        terminal
            .wait_for("the locks", |screen| !opened(screen) && screen.contains('▌') && screen.contains("lock:fine"));
        terminal.press("\r");
        terminal.wait_for("the opened lock", opened);
        terminal.press("\x1b");
        terminal.wait_for("the list", |screen| !opened(screen));
    }
    let files = process::temporary_directory();
    let named = |name: &str| files.path().join(name).to_str().expect("text").to_string();
    terminal.press(&format!(":record {}\r", named("history")));
    terminal.wait_for("that it records", |screen| screen.lines().next().is_some_and(|line| line.contains("REC")));
    if listed {
        terminal.press(&format!(":bundle {}\r", named("incident")));
        terminal.wait_for("the page", |screen| screen.contains("the incident is written"));
        for name in ["incident.html", "incident.json"] {
            let page = std::fs::read(files.path().join("incident").join(name)).expect("a page");
            assert_eq!(unfit(&page), None, "{lie:?}: {name}");
        }
    }
    terminal.press("?");
    terminal.wait_for("the help", |screen| screen.contains("Keys;"));
    terminal.press("\x1b");
    terminal.wait_for("the list", |screen| !screen.contains("Keys;"));
    if write {
        terminal.press("x");
        terminal.wait_for("the preview", |screen| screen.contains("only if") && screen.contains("Type y "));
        // It has no TTL, and the console offers to set one instead.
        terminal.press("\t");
        terminal.wait_for("the other choice", |screen| screen.contains("free it (2 of 2"));
        terminal.press("y\r");
        terminal.wait_for("the result", |screen| screen.contains("freed"));
    }
    terminal.press("q");
    let raw = terminal.raw();
    for never in [
        "\x1b[31m\x1b",
        "\x1b[666;",
        "\x1b]52;c;ZXZpbA",
        "\u{9b}",
        "\u{7f}",
        "\u{202e}",
        "\u{2066}",
        "\u{200f}",
        "\x08",
    ] {
        let found = raw.windows(never.len()).position(|window| window == never.as_bytes());
        assert_eq!(found, None, "{lie:?} lets {never:?} through");
    }
    for never in [&b"\x9b666m"[..], b"\xff"] {
        // Inside a multi-byte character they are harmless.
        let found = raw.utf8_chunks().find(|chunk| chunk.invalid().starts_with(&never[..1]));
        assert!(found.is_none(), "{lie:?} lets bytes through");
    }
}
