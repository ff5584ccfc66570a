//! The advised ACL lines are minimal: everything lockscope does is done as those users. No command is refused, and none
//! is granted that is never sent.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use common::acting::Acting;
use common::program::{events, has};
use common::samples::ALL;
use common::{Desk, Ran, Server, binary, wait_until};
use lockscope::actions::{Freeing, Outcome, plan};
use serde_json::Value;
use terminal::Terminal;

const PASSWORD: &str = "acts";
/// What every client may send before it has logged in.
const OF_ANYBODY: [&str; 2] = ["auth", "hello"];

/// A user that the doctor advises, and what it was seen to send.
struct User {
    name: String,
    granted: BTreeSet<String>,
    sent: BTreeSet<String>,
}

/// Runs the line as it would be pasted into redis-cli, with our own password.
fn paste(server: &Server, line: &str) -> User {
    let word = |word: &str| if word.starts_with('>') { format!(">{PASSWORD}") } else { word.trim_matches('\'').into() };
    let words: Vec<String> = line.split(' ').map(word).collect();
    server.cli(&words);
    let granted = words.iter().filter_map(|word| word.strip_prefix('+')).map(String::from).collect();
    User { name: words[2].clone(), granted, sent: BTreeSet::new() }
}

/// Commands that the server refused, from its ACL log. Keys and channels depend on the patterns.
fn refused(server: &Server) -> Vec<String> {
    let log: Vec<redis::Value> = server.ask(&["ACL", "LOG", "1000"]);
    log.iter().map(|entry| format!("{entry:?}")).filter(|entry| entry.contains("\"command\"")).collect()
}

impl User {
    /// Runs `doing` and records which commands the server ran meanwhile, ours or not.
    fn note<T>(&mut self, server: &Server, doing: impl FnOnce() -> T) -> T {
        server.cli(&["CONFIG", "RESETSTAT"]);
        let done = doing();
        self.gather(server);
        done
    }

    /// Records which commands the server ran since its counters were reset.
    fn gather(&mut self, server: &Server) {
        let stats: String = server.ask(&["INFO", "commandstats"]);
        let ours = ["config|resetstat"];
        let names = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
        self.sent.extend(names.filter(|name| !ours.contains(name)).map(String::from));
    }

    fn url(&self, server: &Server) -> String {
        server.url().replace("redis://", &format!("redis://{}:{PASSWORD}@", self.name))
    }

    /// Runs a command as this user.
    fn run(&mut self, server: &Server, arguments: &[&str]) -> Ran {
        let url = self.url(server);
        self.run_at(server, &url, arguments)
    }

    fn run_at(&mut self, server: &Server, url: &str, arguments: &[&str]) -> Ran {
        let desk = Desk::with_url(url);
        let ran = self.note(server, || desk.run(arguments));
        assert!(ran.code != 3 && ran.code != 2, "{arguments:?}: {ran:?}");
        ran
    }

    #[track_caller]
    fn was_refused_nothing(&self, server: &Server) {
        let refused = refused(server);
        assert!(refused.is_empty(), "{}: {refused:#?}", self.name);
        // And a refusal would have been seen.
        let mut own = redis::Client::open(self.url(server)).unwrap().get_connection().unwrap();
        assert!(redis::cmd("FLUSHALL").exec(&mut own).is_err());
        assert!(!self::refused(server).is_empty());
        server.cli(&["ACL", "LOG", "RESET"]);
    }

    #[track_caller]
    fn has_the_least(&self, also: &BTreeSet<String>) {
        let idle: Vec<&String> = self.granted.iter().filter(|name| !self.sent.contains(*name)).collect();
        let beyond: Vec<&String> = self
            .sent
            .iter()
            .filter(|name| {
                !self.granted.contains(*name) && !also.contains(*name) && !OF_ANYBODY.contains(&name.as_str())
            })
            .collect();
        assert!(idle.is_empty() && beyond.is_empty(), "{}: never sent: {idle:?}; not granted: {beyond:?}", self.name);
    }
}

/// The doctor's ACL lines, for keys of any name.
fn lines(server: &Server) -> Value {
    let ran = Desk::at(server).run(&["doctor", "--json", "-p", "*"]);
    ran.json()["acl"].clone()
}

fn console(server: &Server, url: &str, options: &[&str]) -> Terminal {
    let arguments = [&["-u", url, "--env", "dev"], options].concat();
    let terminal = Terminal::start(binary().to_str().unwrap(), &arguments, &[]);
    terminal.wait_for("the locks", |screen| screen.contains(" locks") && !screen.contains("first scan"));
    let _ = server;
    terminal
}

/// Everything that lockscope can read.
fn keyspace(server: &Server) {
    let mut connection = server.connection();
    for (_, create) in ALL {
        create(&mut connection);
    }
    let far = "9999999999999";
    let waiter = "e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:18";
    let digest = "uniquejobs:0123456789abcdef0123456789abcdef";
    let entry = serde_json::json!({"digest": digest, "message": "Limited"}).to_string();
    let large: Vec<String> = (0..200).flat_map(|number| [format!("field-{number}"), "1".into()]).collect();
    for command in [
        &["SET", "lock:plain", "t", "PX", "600000"][..],
        &["HSET", "lockscope:{lock:plain}:counts", "attempts", "3", "failures", "1"],
        &["HSET", &format!("{digest}:LOCKED"), "b4a577edbccf1d805744efa9", "1749999000.5"],
        &["ZADD", "uniquejobs:changelog", "1749999000.5", &entry],
        &["HINCRBY", "lock:fair", "e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:17", "1"],
        &["PEXPIRE", "lock:fair", "600000"],
        &["RPUSH", "redisson_lock_queue:{lock:fair}", waiter],
        &["ZADD", "redisson_lock_timeout:{lock:fair}", far, waiter],
        &["SET", "lock:long", &"x".repeat(2_000), "PX", "600000"],
    ] {
        server.cli(command);
    }
    let words = |first: &[&str], rest: &[String]| {
        first.iter().map(|word| word.to_string()).chain(rest.iter().cloned()).collect::<Vec<String>>()
    };
    server.cli(&words(&["HSET", "lock:large-hash"], &large));
    server.cli(&words(&["SADD", "lock:large-set"], &large));
    server.cli(&words(&["RPUSH", "lock:list"], &large));
}

#[test]
fn an_observer_is_granted_what_it_sends_and_no_more() {
    if !has((7, 0), "names of subcommands in its rules and counts") {
        return;
    }
    let server = Server::notifying(&[]);
    let lines = lines(&server);
    let mut user = paste(&server, lines["observer"].as_str().unwrap());
    keyspace(&server);
    // A client that is blocked on a list, as those of python-redis-lock are.
    server.cli(&["SET", "lock:blocked", "3miRwxN8jtYsIDh67GO+uOOa", "PX", "600000"]);
    let mut waiter = server.connection();
    std::thread::spawn(move || redis::cmd("BLPOP").arg("lock-signal:blocked").arg(0).exec(&mut waiter));
    let blocked = || server.ask::<String, _>(&["INFO", "clients"]).contains("blocked_clients:1");
    wait_until("somebody waits", Duration::from_secs(20), blocked);
    let files = common::process::temporary_directory();
    let named = |name: &str| files.path().join(name).to_str().unwrap().to_string();
    for arguments in [
        &["ls", "--json"][..],
        &["ls", "--observe", "3s", "-p", "*"],
        &["show", "lock:plain"],
        &["show", "lock:fair", "--observe", "1s"],
        &["show", "no-such-lock"],
        &["watch", "--for", "1s"],
        &["discover"],
        &["doctor"],
        &["contention", "--for", "2s"],
        &["check", "--for", "1s"],
        &["serve", "--listen", "127.0.0.1:0", "--for", "1s"],
        &["record", "--store", &named("history"), "--for", "1s"],
        &["bundle", "lock:fair", "--store", &named("history"), "--observe", "1s", "--out", &named("incident")],
        &["release", "lock:plain", "--holder", "t", "--dry-run"],
    ] {
        user.run(&server, arguments);
    }
    // The changelog is read from the second round on.
    for _ in 0..10 {
        if !user.sent.contains("zrangebyscore") {
            user.run(&server, &["contention", "--for", "4s"]);
        }
    }
    let names: Vec<Vec<u8>> = server.ask(&["KEYS", "*"]);
    for key in names {
        user.run(&server, &["show", &lockscope::base::text::visible(&key)]);
    }
    let elsewhere = format!("{}/1", user.url(&server));
    user.run_at(&server, &elsewhere, &["ls"]);
    // Without notifications: by tracking and by polling.
    server.cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    user.run(&server, &["watch", "--for", "1s"]);
    server.cli(&["CONFIG", "SET", "notify-keyspace-events", events()]);
    let url = user.url(&server);
    user.note(&server, || {
        let mut terminal = console(&server, &url, &["--store", &named("history")]);
        terminal.press(&format!(":record {}\r", named("history")));
        terminal.wait_for("that it records", |screen| screen.lines().next().is_some_and(|line| line.contains("REC")));
        for keys in ["2", "3", "v", "4", "5", "6", "1", "\r", "r"] {
            terminal.press(keys);
        }
        terminal.wait_for("a lock", |screen| screen.contains("holder"));
        terminal.press(&format!(":bundle {}\r", named("page")));
        wait_until("the page", Duration::from_secs(20), || files.path().join("page/incident.html").exists());
        terminal.press("\x03");
        terminal.wait_for_end();
    });
    user.was_refused_nothing(&server);
    user.has_the_least(&BTreeSet::new());
    // Sampling needs one more command.
    let mut sampler = paste_more(&server, lines["sampling"].as_str().unwrap(), &user);
    sampler.run(&server, &["contention", "--for", "2s", "--monitor"]);
    sampler.was_refused_nothing(&server);
    sampler.has_the_least(&user.granted);
}

/// The ids of all connections but the test's own, each with its name and its last command.
fn connections(server: &Server) -> BTreeMap<u64, (String, String)> {
    let mut connection = server.connection();
    let own: u64 = redis::cmd("CLIENT").arg("ID").query(&mut connection).unwrap();
    let list: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
    let field = |line: &str, name: &str| {
        line.split(' ').find_map(|field| field.strip_prefix(name)).unwrap_or_default().to_string()
    };
    let named = |line: &str| (field(line, "name="), field(line, "cmd="));
    let all = list.lines().map(|line| (field(line, "id=").parse().expect("a number"), named(line)));
    all.filter(|(id, _)| *id != own).collect()
}

#[test]
fn every_connection_is_named_and_the_doctor_tells_how_many_there_are() {
    let server = Server::notifying(&[]);
    for number in 0..50 {
        server.cli(&["SET", &format!("lock:{number}"), "t", "PX", "600000"]);
    }
    // Enough keys that a walk takes a moment.
    server.cli(&["EVAL", "for n = 1, 50000 do redis.call('SET', 'other:' .. n, 'x') end", "0"]);
    let report = Desk::at(&server).run(&["doctor", "--json"]).json();
    let checks = report["checks"].as_array().expect("checks");
    let told = checks.iter().find(|check| check["name"] == "connections").expect("one on connections");
    let told: usize = {
        let sentence = told["finding"].as_str().expect("a sentence");
        let (_, number) = sentence.split_once("up to ").unwrap_or_else(|| panic!("{sentence}"));
        number.trim_end_matches('.').parse().unwrap_or_else(|_| panic!("{sentence}"))
    };
    let mut terminal = console(&server, &server.url(), &["--write", "--pace", "50%"]);
    terminal.wait_for("all locks", |screen| screen.contains("50 locks"));
    let (mut most, mut unnamed) = (0, BTreeSet::new());
    let mut look = |how_long: Duration| {
        let until = Instant::now() + how_long;
        while Instant::now() < until {
            let now = connections(&server);
            most = most.max(now.len());
            // A new connection has not set its name yet, however long that takes on a busy machine.
            let is_new =
                |last: &str| ["NULL", "hello", "auth", "select", "client"].iter().any(|word| last.starts_with(word));
            let nameless = now.into_iter().filter(|(_, (name, last))| !name.starts_with("lockscope") && !is_new(last));
            let nameless: BTreeSet<u64> = nameless.map(|(id, _)| id).collect();
            let still: Vec<&u64> = nameless.intersection(&unnamed).collect();
            assert!(still.is_empty(), "connections without a name: {still:?}");
            unnamed = nameless;
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    terminal.press("\r");
    terminal.wait_for("the lock", |screen| screen.contains("holder"));
    // Facts are refreshed after ten seconds.
    look(Duration::from_secs(11));
    terminal.press("M");
    terminal.wait_for("the price", |screen| screen.contains("MONITOR slows"));
    terminal.press("M");
    terminal.press("x");
    terminal.wait_for("the question", |screen| screen.contains("free it"));
    // A slow write, with a walk and a burst beside it.
    server.cli(&["CLIENT", "PAUSE", "4000", "WRITE"]);
    terminal.press("y\r");
    for _ in 0..6 {
        terminal.press("r");
        look(Duration::from_secs(2));
    }
    terminal.press("\x03");
    terminal.wait_for_end();
    assert!(most <= told, "{most} connections, and {told} are told");
    // Not all of them are open at the same time, but the number must not be a guess either.
    assert!(most * 2 > told, "{told} are told, and no more than {most} were seen");
}

/// Runs a line that gives a user more rights.
fn paste_more(server: &Server, line: &str, user: &User) -> User {
    server.cli(&line.split(' ').collect::<Vec<_>>());
    let granted = line.split(' ').filter_map(|word| word.strip_prefix('+')).map(String::from).collect();
    User { name: user.name.clone(), granted, sent: BTreeSet::new() }
}

#[tokio::test]
async fn an_operator_is_granted_what_it_sends_and_no_more() {
    if !has((7, 0), "names of subcommands in its rules and counts") {
        return;
    }
    let server = Server::notifying(&[]);
    let lines = lines(&server);
    let observer = paste(&server, lines["observer"].as_str().unwrap());
    let mut user = paste(&server, lines["operator"].as_str().unwrap());
    let login = format!("{}:{PASSWORD}@", user.name);
    for (name, create) in ALL {
        server.cli(&["FLUSHALL"]);
        let sample = create(&mut server.connection());
        let mut acting = Acting::as_user(&server, &login).await;
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await.expect("a lock");
        server.cli(&["CONFIG", "RESETSTAT"]);
        if let Some(plan) = acting.plan_extend(name, &lock, Duration::from_secs(86_400)) {
            let extended = acting.perform(&plan).await;
            assert!(matches!(extended.outcome, Outcome::Done { .. }), "{name}: {extended:?}");
        }
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await.expect("a lock");
        let freed = acting.free(&lock, None).await;
        assert!(matches!(freed.outcome, Outcome::Done { .. }), "{name}: {freed:?}");
        let undone = acting.undo(&freed.id).await;
        assert!(matches!(undone.outcome, Outcome::Done { .. }), "{name}: {undone:?}");
        // One of several holders, if there are several.
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await.expect("a lock");
        if let [first, _, ..] = lock.holders.as_slice() {
            let freed = acting.free(&lock, Some(first.token.as_bytes())).await;
            assert!(matches!(freed.outcome, Outcome::Done { .. }), "{name}: {freed:?}");
            acting.undo(&freed.id).await;
        }
        user.gather(&server);
    }
    dead_waiters(&server, &login, &mut user).await;
    test_locks(&server, &mut user);
    user.was_refused_nothing(&server);
    // An operator may also do what an observer may; that was tested there.
    user.sent.extend(observer.granted.iter().cloned());
    user.has_the_least(&BTreeSet::new());
}

/// A fair queue with one waiter whose deadline has passed and one that does not listen.
async fn dead_waiters(server: &Server, login: &str, user: &mut User) {
    server.cli(&["FLUSHALL"]);
    let holder = "e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:17";
    server.cli(&["HINCRBY", "lock:fair", holder, "1"]);
    server.cli(&["PEXPIRE", "lock:fair", "600000"]);
    server.cli(&["RPUSH", "redisson_lock_queue:{lock:fair}", "late", "deaf", "well"]);
    server.cli(&[
        "ZADD",
        "redisson_lock_timeout:{lock:fair}",
        "1",
        "late",
        "9999999999999",
        "deaf",
        "9999999999999",
        "well",
    ]);
    let mut acting = Acting::as_user(server, login).await;
    let lock = acting.see(b"lock:fair", None).await.expect("a lock");
    let asked = Freeing { holder: None, dead_waiters: &[b"deaf".to_vec()], force: false };
    let plan = plan::free(&lock, asked, acting.clock.now()).expect("a plan");
    server.cli(&["CONFIG", "RESETSTAT"]);
    let freed = acting.perform(&plan).await;
    assert!(matches!(freed.outcome, Outcome::Done { .. }), "{freed:?}");
    user.gather(server);
}

/// Our own test locks.
fn test_locks(server: &Server, user: &mut User) {
    server.cli(&["FLUSHALL"]);
    for form in ["plain", "reentrant"] {
        user.run(server, &["acquire", "lock:a", "--ttl", "600ms", "--watchdog", "--hold", "500ms", "--as", form]);
    }
    user.run(server, &["acquire", "lock:b", "--ttl", "5s", "--", "true"]);
    user.run(server, &["probe", "--for", "1s", "--ttl", "300ms"]);
    let url = user.url(server);
    user.note(server, || {
        let mut terminal = console(server, &url, &["--write"]);
        terminal.press("a\r");
        terminal.wait_for("the lab", |screen| screen.contains("TEST") || screen.contains("held"));
        terminal.press("6+");
        terminal.press("\x03");
        terminal.wait_for_end();
    });
}
