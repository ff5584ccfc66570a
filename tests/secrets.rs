//! A planted password, given in every possible way, and a planted token. Every output, every file and every entry of
//! /proc is searched for the password; the private console is searched for the token.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::process::{self, spawn, temporary_directory};
use common::{Server, binary, lockscope_at, lockscope_process, wait_until};
use terminal::Terminal;

const PASSWORD: &str = "pl4nted-p4ssw0rd";
const WRONG: &str = "wr0ng-pl4nted-p4ssw0rd";
const TOKEN: &str = "t0ken-of-the-h0lder-9c1e0b7a";

/// The forms in which the password could appear.
fn forms() -> Vec<String> {
    let hex: String = PASSWORD.bytes().map(|byte| format!("{byte:02x}")).collect();
    // The last form finds the wrong password too.
    vec![PASSWORD.into(), BASE64_STANDARD.encode(PASSWORD).trim_end_matches('=').into(), hex, "p4ssw0rd".into()]
}

#[track_caller]
fn is_clean(bytes: &[u8], context: &str) {
    for form in forms() {
        let found = bytes.windows(form.len()).any(|window| window == form.as_bytes());
        assert!(!found, "{context}: {}", String::from_utf8_lossy(bytes));
    }
}

/// Searches everything that was written below a directory.
fn search(place: &Path, context: &str) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        is_clean(path.to_string_lossy().as_bytes(), context);
        match path.is_dir() {
            true => search(&path, context),
            false => is_clean(&std::fs::read(&path).unwrap_or_default(), &format!("{context}: {}", path.display())),
        }
    }
}

/// One way to give a password.
struct Way {
    name: &'static str,
    arguments: Vec<String>,
    environment: Vec<(&'static str, String)>,
}

/// All ways, for this user or for the default one. The user's own files are in `own`.
fn ways(server: &Server, own: &Path, user: Option<&str>, password: &str) -> Vec<Way> {
    let (host, name) = (format!("127.0.0.1:{}", server.port()), user.unwrap_or(""));
    let kind = if password == PASSWORD { "right" } else { "wrong" };
    let file = own.join(format!("{name}-{kind}"));
    std::fs::write(&file, format!("{password}\n")).expect("a password file");
    let config = own.join(format!("{name}-{kind}.toml"));
    let in_url = format!("redis://{name}:{password}@{host}");
    let asks = user.map(|user| format!("user = '{user}'\n")).unwrap_or_default();
    let text = format!(
        "[target.by-url]\nurl = '{in_url}'\n[target.by-file]\nurl = 'redis://{host}'\n{asks}password_file = '{}'\n",
        file.display()
    );
    std::fs::write(&config, text).expect("a config");
    let path = |path: &Path| path.to_str().expect("text").to_string();
    let plain = vec!["-u".to_string(), format!("redis://{host}")];
    let as_user: Vec<String> = user.into_iter().flat_map(|user| ["--user".to_string(), user.to_string()]).collect();
    let parameter = match user {
        Some(user) => format!("redis://{host}?user={user}&password={password}"),
        None => format!("redis://{host}?password={password}"),
    };
    let target = |name: &str| vec!["--config".to_string(), path(&config), "-t".to_string(), name.to_string()];
    let way =
        |name, arguments: Vec<String>, environment: Vec<(&'static str, String)>| Way { name, arguments, environment };
    vec![
        way("the URL", vec!["-u".into(), in_url.clone()], vec![]),
        way("a parameter", vec!["-u".into(), parameter], vec![]),
        way(
            "LOCKSCOPE_PASSWORD",
            [plain.clone(), as_user.clone()].concat(),
            vec![("LOCKSCOPE_PASSWORD", password.into())],
        ),
        way("LOCKSCOPE_URL", vec![], vec![("LOCKSCOPE_URL", in_url.clone())]),
        way("REDIS_URL", vec![], vec![("REDIS_URL", in_url)]),
        way("a file", [plain, as_user, vec!["--password-file".into(), path(&file)]].concat(), vec![]),
        way("a target's URL", target("by-url"), vec![]),
        way("a target's file", target("by-file"), vec![]),
    ]
}

/// Every command, as short as possible. `HOME` is the home of the one who runs them.
const COMMANDS: [&[&str]; 36] = [
    &["ls", "-vv"],
    &["ls", "--json", "--observe", "100ms"],
    &["ls", "--csv"],
    &["show", "lock:a"],
    &["show", "lock:a", "--json"],
    &["watch", "-vv", "--for", "150ms"],
    &["watch", "--json", "--for", "150ms"],
    &["contention", "--for", "150ms", "--json"],
    &["contention", "--for", "1100ms", "--monitor"],
    &["discover"],
    &["check", "--for", "1s", "--json"],
    &["serve", "-vv", "--listen", "127.0.0.1:0", "--for", "1s"],
    &["record", "-vv", "--store", "HOME/history", "--for", "1s"],
    &["record", "--store", "HOME/history", "--info"],
    &["record", "--store", "HOME/history", "--copy-to", "HOME/copy"],
    &["check", "--store", "HOME/history", "--json"],
    &["tune", "--store", "HOME/history"],
    &["tune", "--store", "HOME/history", "--rule", "LockOrphan", "--json"],
    &["rules", "export", "--out", "HOME/prometheus"],
    &["rules", "import", "HOME/prometheus/lockscope.rules.yml"],
    &["bundle", "lock:a", "--store", "HOME/history", "--out", "HOME/incident"],
    &["bundle", "lock:a", "--reveal", "--observe", "100ms", "--out", "HOME/revealed"],
    &["doctor"],
    &["doctor", "--json"],
    &["info"],
    &["release", "lock:a"],
    &["release", "lock:a", "--holder", TOKEN, "--dry-run", "--json"],
    &["extend", "lock:a", "--holder", TOKEN, "--ttl", "1h", "--yes", "--json"],
    &["release", "lock:a", "--holder", TOKEN, "--yes"],
    &["undo", "--yes", "--unwatched", "--json"],
    &["acquire", "lock:mine", "--ttl", "5s", "--hold", "10ms", "--json"],
    &[
        "acquire",
        "lock:mine",
        "--ttl",
        "5s",
        "--",
        "sh",
        "-c",
        "env | grep -v REDIS_URL; tr '\\0' ' ' < /proc/$$/cmdline",
    ],
    &["probe", "--for", "100ms", "--ttl", "3s"],
    &["audit"],
    &["audit", "--json"],
    &["scripts"],
];

fn server() -> Server {
    let server = Server::with(&["--notify-keyspace-events", "KEA", "--requirepass", PASSWORD]);
    let everything = ["ACL", "SETUSER", "ops", "on", &format!(">{PASSWORD}"), "~*", "&*", "+@all"];
    server.cli(&everything);
    server.cli(&["SET", "lock:a", TOKEN, "PX", "600000"]);
    server
}

fn run(way: &Way, home: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command = lockscope_at(home);
    let placed = arguments.iter().map(|word| word.replace("HOME", home.to_str().expect("text")));
    command.args(&way.arguments).args(placed).envs(way.environment.iter().map(|(name, value)| (name, value)));
    command.output().expect("lockscope runs")
}

#[test]
fn the_right_password_is_nowhere_afterwards() {
    let server = server();
    let own = temporary_directory();
    for user in [None, Some("ops")] {
        for (number, way) in ways(&server, own.path(), user, PASSWORD).iter().enumerate() {
            let home = temporary_directory();
            // All commands with some ways, and some commands with all ways.
            let all = [0, 2, 5].contains(&number) && user.is_none();
            let some = |arguments: &&&[&str]| {
                all || ["ls", "release", "undo", "acquire", "audit", "info"].contains(&arguments[0])
            };
            for arguments in COMMANDS.iter().filter(some) {
                let output = run(way, home.path(), arguments);
                let context = format!("{arguments:?} by {} as {user:?}", way.name);
                // A rule may fire on a history that short.
                let fired = arguments.starts_with(&["check", "--store"]) && output.status.code() == Some(1);
                let fine = output.status.code() == Some(0) || arguments == &["release", "lock:a"] || fired;
                assert!(fine, "{context}: {output:?}");
                is_clean(&output.stdout, &context);
                is_clean(&output.stderr, &context);
            }
            search(home.path(), way.name);
            let clients: String = server.ask(&["CLIENT", "LIST"]);
            is_clean(clients.as_bytes(), way.name);
        }
    }
}

#[test]
fn a_wrong_password_is_in_no_refusal() {
    let (closed, open) = (server(), Server::start());
    let own = temporary_directory();
    for user in [None, Some("ops"), Some("nobody")] {
        for server in [&closed, &open] {
            for way in ways(server, own.path(), user, WRONG) {
                let home = temporary_directory();
                for arguments in [
                    &["ls", "-vv"][..],
                    &["doctor"],
                    &["release", "lock:a", "--holder", TOKEN, "--yes", "--json"],
                    &["acquire", "lock:b", "--ttl", "1s", "--json"],
                    &["check", "--for", "1s", "--json"],
                    &["serve", "-vv", "--listen", "127.0.0.1:0", "--for", "1s"],
                    &["record", "-vv", "--store", "HOME/history", "--for", "1s"],
                    &["bundle", "lock:a", "--out", "HOME/incident"],
                    &["info"],
                ] {
                    let output = run(&way, home.path(), arguments);
                    let context = format!("{arguments:?} by {} as {user:?}", way.name);
                    let expected = if arguments == ["info"] { 0 } else { 3 };
                    assert_eq!(output.status.code(), Some(expected), "{context}: {output:?}");
                    is_clean(&output.stdout, &context);
                    is_clean(&output.stderr, &context);
                }
                search(home.path(), way.name);
            }
        }
    }
}

/// Searches what anybody on the machine, or a child, can see of a process.
fn seen_in_proc(pid: u32, context: &str) {
    let entry = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    for name in ["cmdline", "comm", "status"] {
        is_clean(&entry(name), &format!("{context}: {name}"));
    }
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    for child in children.split_whitespace() {
        for name in ["cmdline", "comm", "environ"] {
            let bytes = std::fs::read(format!("/proc/{child}/{name}")).unwrap_or_default();
            // The application's own variable is not ours.
            let bytes: Vec<&[u8]> =
                bytes.split(|byte| *byte == 0).filter(|line| !line.starts_with(b"REDIS_URL=")).collect();
            is_clean(&bytes.concat(), &format!("{context}: {name} of the child {child}"));
        }
    }
}

#[test]
fn no_process_shows_it_but_to_its_owner() {
    let server = server();
    let own = temporary_directory();
    for way in ways(&server, own.path(), None, PASSWORD) {
        // Users must hide what they type on a command line; the README says so.
        if way.arguments.iter().any(|argument| argument.contains(PASSWORD) && argument.contains("://")) {
            continue;
        }
        for command in [
            &["acquire", "lock:mine", "--ttl", "60s", "--", "sleep", "60"][..],
            &["watch", "--for", "60s"],
            &["probe", "--for", "60s", "--ttl", "3s"],
        ] {
            let home = temporary_directory();
            let mut process = lockscope_process(home.path());
            process.args(&way.arguments).args(command);
            process.envs(way.environment.iter().map(|(name, value)| (name, value)));
            process.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            let mut child = spawn(process).expect("lockscope starts");
            let pid = child.id();
            let begun = || match command[0] {
                "acquire" => std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).is_ok_and(|text| {
                    let comm = |child: &str| std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
                    text.split_whitespace().any(|child| comm(child).trim() == "sleep")
                }),
                _ => server.ask::<String, _>(&["CLIENT", "LIST"]).matches("name=lockscope").count() > 0,
            };
            wait_until("the command runs", Duration::from_secs(20), begun);
            seen_in_proc(pid, &format!("{command:?} by {}", way.name));
            process::signal(&child, libc::SIGTERM);
            child.wait().expect("a child of ours");
        }
    }
}

#[test]
fn figures_histories_and_pages_name_no_holder_unless_asked_to() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let home = temporary_directory();
    let named = |name: &str| home.path().join(name).to_str().expect("text").to_string();
    let url = server.url();
    let begin = |arguments: &[&str]| {
        let mut process = lockscope_process(home.path());
        process.args(["-u", &url]).args(arguments).stdout(std::process::Stdio::null());
        spawn(process).expect("lockscope starts")
    };
    let history = named("history");
    let mut recorder = begin(&["record", "-q", "--store", &history]);
    let told = || {
        let output = lockscope_at(home.path()).args(["record", "--info", "--store", &history]).output();
        String::from_utf8(output.expect("lockscope runs").stdout).expect("text")
    };
    wait_until("it records", Duration::from_secs(20), || told().contains("step"));
    server.cli(&["SET", "lock:a", TOKEN]);
    wait_until("it is in the history", Duration::from_secs(20), || {
        told().lines().any(|line| line.starts_with("notable") && !line.contains(" 0 events"))
    });
    process::signal(&recorder, libc::SIGTERM);
    recorder.wait().expect("a child of ours");
    let has_token = |bytes: &[u8]| bytes.windows(8).any(|window| window == &TOKEN.as_bytes()[..8]);
    for arguments in [
        &["check", "--for", "1s"][..],
        &["check", "--for", "1s", "--json", "--ignore-for"],
        &["check", "--store", &history, "--json"],
        &["serve", "-vv", "--listen", "127.0.0.1:0", "--for", "1s"],
        &["record", "-vv", "--store", &history, "--for", "1s"],
        &["record", "--info", "--store", &history],
        &["tune", "--store", &history],
        &["tune", "--store", &history, "--rule", "LockWithoutTtl", "--json"],
        &["bundle", "lock:a", "--store", &history, "--out", &named("page")],
        &["bundle", "lock:a", "--store", &history, "--reveal", "--out", &named("revealed")],
    ] {
        let output = lockscope_at(home.path()).args(["-u", &url]).args(arguments).output().expect("lockscope runs");
        assert!(output.status.code().is_some_and(|code| code < 2), "{arguments:?}: {output:?}");
        assert!(!has_token(&output.stdout) && !has_token(&output.stderr), "{arguments:?}: {output:?}");
    }
    for (folder, expected) in [("page", false), ("revealed", true)] {
        for name in ["incident.html", "incident.json"] {
            let page = std::fs::read(home.path().join(folder).join(name)).expect("a page");
            assert_eq!(has_token(&page), expected, "{folder}/{name}");
        }
    }
    // The history keeps who held a lock, for a page with --reveal: it is its owner's alone, and so is a copy.
    let copied = lockscope_at(home.path()).args(["record", "--store", &history, "--copy-to", &named("copy")]).output();
    assert!(copied.expect("lockscope runs").status.success());
    for file in ["history", "copy", "revealed/incident.html", "revealed/incident.json"] {
        let about = std::fs::metadata(home.path().join(file)).expect("a file");
        assert_eq!(about.permissions().mode() & 0o077, 0, "{file} can be read by others");
    }
}

#[test]
fn a_private_console_names_no_holder() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    for key in ["lock:a", "lock:b"] {
        server.cli(&["SET", key, TOKEN]);
    }
    let url = server.url();
    let mut terminal = Terminal::start(binary().to_str().expect("text"), &["-u", &url, "--write", "--env", "dev"], &[]);
    terminal.resize(160, 45);
    terminal.wait_for("the locks", |screen| screen.contains("2 locks") && screen.contains(&TOKEN[..8]));
    terminal.press("P");
    terminal.wait_for("no token", |screen| !screen.contains(&TOKEN[..8]));
    let before = terminal.raw().len();
    for (keys, sign) in [
        ("5", "eviction"),
        ("3", "WHAT"),
        ("v", "EVENT"),
        ("4", "LEVEL"),
        ("2", "1 Locks"),
        ("6", "test lock"),
        ("1", "STATE"),
        ("bo", "WORST"),
        ("bb", "STATE"),
        ("\r", "freeing"),
        ("?", "Keys;"),
    ] {
        terminal.press(keys);
        terminal.wait_for(keys, |screen| screen.contains(sign));
    }
    terminal.press("\x1b");
    terminal.wait_for("no help", |screen| !screen.contains("Keys;"));
    terminal.press("x");
    terminal.wait_for("the preview", |screen| screen.contains("only if"));
    terminal.press("y\r");
    terminal.wait_for("the result", |screen| !screen.contains("only if"));
    terminal.press("q");
    let raw = terminal.raw();
    for part in [&TOKEN[..8], TOKEN] {
        let found = raw[before..].windows(part.len()).any(|window| window == part.as_bytes());
        assert!(!found, "{part} was drawn:\n{}", terminal.screen().contents());
    }
}
