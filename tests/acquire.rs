//! Test locks: their scripts, how they survive the loss of a server or of its script cache, and `acquire` with a
//! command.

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use common::process::{is_alive, signal, temporary_directory};
use common::{Server, lockscope_at, lockscope_process, wait_until};
use lockscope::dialects::own;
use lockscope::dialects::scripts::{self, Script};
use lockscope::lock::Key;
use lockscope::settings::cli::Global;
use lockscope::settings::config::Config;
use lockscope::settings::{Outside, Settings};
use lockscope::test_lock::{Form, Held, Loss, Released, Request, Taken, Turn, take};
use lockscope::topology::{Endpoint, Topology};
use redis::{FromRedisValue, Value};
use serde_json::Value as Json;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

// The scripts.

/// Runs a script with one key.
fn run(server: &Server, script: &Script, key: &str, args: &[&str]) -> Vec<Value> {
    run_with(server, script, &[key], args)
}

fn run_with(server: &Server, script: &Script, keys: &[&str], args: &[&str]) -> Vec<Value> {
    let count = keys.len().to_string();
    server.ask(&[&["EVAL", script.text, count.as_str()], keys, args].concat())
}

fn done(number: i64) -> Vec<Value> {
    vec![Value::Int(1), Value::Int(number)]
}

fn gone() -> Vec<Value> {
    vec![Value::Int(-1)]
}

/// The reply says that somebody else holds the lock: who, and for how long.
#[track_caller]
fn other(answer: Vec<Value>) -> (Option<String>, i64) {
    let [Value::Int(0), Value::Int(left), holder] = &answer[..] else { panic!("{answer:?}") };
    (Option::<String>::from_redis_value(holder.clone()).unwrap(), *left)
}

fn pttl(server: &Server, key: &str) -> i64 {
    server.ask(&["PTTL", key])
}

fn exists(server: &Server, key: &str) -> bool {
    server.ask(&["EXISTS", key])
}

/// How often a script was called by its hash.
fn attempts(server: &Server) -> u64 {
    let info: String = server.ask(&["INFO", "commandstats"]);
    let calls = common::server::field(&info, "cmdstat_evalsha").and_then(|stat| stat.strip_prefix("calls="));
    calls.and_then(|calls| calls.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn servers_know_the_scripts_by_the_hash_that_is_listed() {
    let server = Server::start();
    let home = temporary_directory();
    let listed = lockscope_at(home.path()).args(["scripts", "--json"]).output().unwrap();
    let listed: Json = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["scripts"].as_array().unwrap().len(), scripts::ALL.len());
    for (script, listed) in scripts::ALL.iter().zip(listed["scripts"].as_array().unwrap()) {
        let printed = lockscope_at(home.path()).args(["scripts", script.name]).output().unwrap();
        let sha1: String = server.ask(&[&b"SCRIPT"[..], b"LOAD", &printed.stdout]);
        assert_eq!((&listed["name"], &listed["sha1"]), (&script.name.into(), &sha1.into()));
    }
    let unknown = lockscope_at(home.path()).args(["scripts", "reentrant_acquier"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("\"reentrant_acquire\""));
}

#[test]
fn a_plain_lock_is_taken_renewed_and_released_by_its_holder_only() {
    let server = Server::start();
    let (acquire, renew, release) = (&scripts::ACQUIRE, &scripts::RENEW, &scripts::RELEASE);
    assert_eq!(run(&server, acquire, "lock:a", &["me", "60000"]), done(60_000));
    for (script, args) in
        [(acquire, &["you", "90000"][..]), (acquire, &["me", "90000"]), (renew, &["you", "90000"]), (release, &["you"])]
    {
        let (holder, left) = other(run(&server, script, "lock:a", args));
        assert!(holder.as_deref() == Some("me") && (1..=60_000).contains(&left), "{}", script.name);
    }
    assert_eq!(run(&server, renew, "lock:a", &["me", "90000"]), done(90_000));
    assert!(pttl(&server, "lock:a") > 60_000);
    assert_eq!(run(&server, release, "lock:a", &["me"]), done(0));
    assert!(!exists(&server, "lock:a"));
    assert_eq!(run(&server, release, "lock:a", &["me"]), gone());
    assert_eq!(run(&server, renew, "lock:a", &["me", "90000"]), gone());
    assert!(!exists(&server, "lock:a"), "a lock that is gone is not made again");
}

#[test]
fn a_reentrant_lock_is_entered_and_left_as_often() {
    let server = Server::start();
    let (acquire, renew, release) =
        (&scripts::REENTRANT_ACQUIRE, &scripts::REENTRANT_RENEW, &scripts::REENTRANT_RELEASE);
    assert_eq!(run(&server, acquire, "lock:a", &["me", "60000"]), done(1));
    assert_eq!(run(&server, acquire, "lock:a", &["me", "10"]), done(2));
    assert!(pttl(&server, "lock:a") > 10, "the inner lease did not shorten the outer one");
    for (script, args) in [(acquire, &["you", "90000"][..]), (renew, &["you", "90000"]), (release, &["you"])] {
        let (holder, left) = other(run(&server, script, "lock:a", args));
        assert!(holder.as_deref() == Some("me") && (1..=60_000).contains(&left), "{}", script.name);
    }
    assert_eq!(run(&server, renew, "lock:a", &["me", "90000"]), done(90_000));
    assert!(pttl(&server, "lock:a") > 60_000);
    assert_eq!(run(&server, release, "lock:a", &["me"]), done(1));
    assert_eq!(server.ask::<Vec<String>, _>(&["HGETALL", "lock:a"]), ["me", "1"]);
    assert_eq!(run(&server, release, "lock:a", &["me"]), done(0));
    assert!(!exists(&server, "lock:a"));
    assert_eq!(run(&server, release, "lock:a", &["me"]), gone());
    assert_eq!(run(&server, renew, "lock:a", &["me", "90000"]), gone());
    server.cli(&["HSET", "lock:shared", "me", "1", "you", "1"]);
    assert_eq!(run(&server, release, "lock:shared", &["me"]), done(0));
    assert_eq!(server.ask::<Vec<String>, _>(&["HGETALL", "lock:shared"]), ["you", "1"]);
}

#[test]
fn a_key_of_another_type_is_left_as_it_is() {
    let server = Server::start();
    server.cli(&["RPUSH", "lock:list", "item"]);
    for script in scripts::ALL {
        let keys = if script.name.starts_with("counted") { &["lock:list", "counts"][..] } else { &["lock:list"] };
        assert_eq!(other(run_with(&server, script, keys, &["me", "1000"])), (None, -1), "{}", script.name);
    }
    assert_eq!(server.ask::<Vec<String>, _>(&["LRANGE", "lock:list", "0", "-1"]), ["item"]);
    assert_eq!(pttl(&server, "lock:list"), -1);
}

#[test]
fn a_lock_that_expired_is_free_and_can_not_be_renewed() {
    let server = Server::start();
    for (acquire, renew) in
        [(&scripts::ACQUIRE, &scripts::RENEW), (&scripts::REENTRANT_ACQUIRE, &scripts::REENTRANT_RENEW)]
    {
        run(&server, acquire, "lock:a", &["me", "20"]);
        wait_until("it expires", PATIENCE, || !exists(&server, "lock:a"));
        assert_eq!(run(&server, renew, "lock:a", &["me", "60000"]), gone());
        assert_eq!(run(&server, acquire, "lock:a", &["you", "60000"])[0], Value::Int(1));
        server.cli(&["DEL", "lock:a"]);
    }
}

#[test]
fn attempts_and_failures_are_counted_and_are_no_lock() {
    let server = Server::start();
    for (script, lock) in [(&scripts::COUNTED_ACQUIRE, "lock:a"), (&scripts::COUNTED_REENTRANT_ACQUIRE, "lock:{b}:1")] {
        let counts = String::from_utf8(own::counts_key(lock.as_bytes())).unwrap();
        for (token, first) in [("me", 1), ("you", 0), ("you", 0)] {
            assert_eq!(run_with(&server, script, &[lock, &counts], &[token, "60000"])[0], Value::Int(first));
        }
        let counted: std::collections::BTreeMap<String, u32> = server.ask(&["HGETALL", &counts]);
        assert_eq!(counted, [("attempts".into(), 3), ("failures".into(), 2)].into());
        assert!((1..=3_600_000).contains(&pttl(&server, &counts)), "the counts go with time");
    }
    let home = temporary_directory();
    let listed = lockscope_at(home.path()).args(["ls", "--json", "-u", &server.url()]).output().unwrap();
    let listed: Json = serde_json::from_slice(&listed.stdout).unwrap();
    let mut keys: Vec<&str> = listed["locks"].as_array().unwrap().iter().map(|l| l["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["lock:a", "lock:{b}:1"]);
}

#[test]
fn counts_that_can_not_be_written_cost_nobody_the_lock() {
    let server = Server::start();
    server.cli(&["SET", "counts", "no hash"]);
    let taken = run_with(&server, &scripts::COUNTED_ACQUIRE, &["lock:a", "counts"], &["me", "60000"]);
    assert_eq!(taken, done(60_000));
    assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "me");
}

// The engine.

async fn target(server: &Server) -> Topology {
    let endpoint = Endpoint {
        shown: server.url(),
        info: redis::IntoConnectionInfo::into_connection_info(server.url().as_str()).unwrap(),
        tls: None,
    };
    Topology::open(&endpoint).await.unwrap()
}

fn request(key: &str, form: Form, ttl: Duration) -> Request {
    let outside = Outside {
        env: &|_| None,
        read: &|path| std::fs::read_to_string(path),
        places: &lockscope::settings::places,
        stdout_is_terminal: false,
    };
    let settings = Settings::resolve(&Global::default(), &outside, &Config::default()).unwrap();
    let admission = settings.gate().admit(&Key::from(key)).unwrap();
    Request::new(&admission, form, ttl).unwrap()
}

#[track_caller]
fn held(taken: Taken) -> Held {
    match taken {
        Taken::Held(held) => *held,
        other => panic!("{other:?}"),
    }
}

/// The next turn of the watchdog that is not just trouble.
async fn turn(held: &mut Held) -> Turn {
    loop {
        match held.renew().await {
            Turn::Trouble(_) => {}
            turn => return turn,
        }
    }
}

#[tokio::test]
async fn a_flushed_script_cache_is_no_loss() {
    let server = Server::start();
    for form in [Form::Plain, Form::Reentrant] {
        server.cli(&["SCRIPT", "FLUSH"]);
        let request = request("lock:a", form, Duration::from_secs(3));
        let mut held = held(take(&target(&server).await, request, None, std::future::pending()).await);
        for _ in 0..2 {
            server.cli(&["SCRIPT", "FLUSH"]);
            assert!(matches!(held.renew().await, Turn::Renewed));
        }
        server.cli(&["SCRIPT", "FLUSH"]);
        assert!(matches!(held.release().await, Released::Done { entries: 0 }));
        assert!(!exists(&server, "lock:a"));
    }
}

#[tokio::test]
async fn a_cut_connection_is_made_anew() {
    let server = Server::start();
    let request = request("lock:a", Form::Plain, Duration::from_secs(6));
    let mut held = held(take(&target(&server).await, request, None, std::future::pending()).await);
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert!(matches!(turn(&mut held).await, Turn::Renewed));
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert!(matches!(held.release().await, Released::Done { .. }));
    assert!(!exists(&server, "lock:a"));
}

#[tokio::test]
async fn a_server_that_comes_back_empty_has_lost_the_lock() {
    let mut server = Server::start();
    let request = request("lock:a", Form::Plain, Duration::from_secs(3));
    let mut held = held(take(&target(&server).await, request, None, std::future::pending()).await);
    server.restart();
    assert!(matches!(turn(&mut held).await, Turn::Lost(Loss::Gone)));
    assert!(matches!(held.release().await, Released::Lost(Loss::Gone)));
    assert!(!exists(&server, "lock:a"), "it was not made again");
}

#[tokio::test]
async fn a_lease_that_no_answer_confirms_is_lost_by_our_own_clock() {
    let server = Server::start();
    let request = request("lock:a", Form::Plain, Duration::from_millis(1500));
    let mut held = held(take(&target(&server).await, request, None, std::future::pending()).await);
    server.pause();
    let turn = turn(&mut held).await;
    assert!(matches!(turn, Turn::Lost(Loss::Unconfirmed { .. })), "{turn:?}");
    assert!(Instant::now() >= held.lease().ends());
    // The renewals are answered now, which changes nothing.
    server.resume();
    assert!(matches!(held.renew().await, Turn::Lost(Loss::Unconfirmed { .. })));
}

#[tokio::test]
async fn an_attempt_without_an_answer_is_cleared_up() {
    for form in [Form::Plain, Form::Reentrant] {
        let server = Server::start();
        let target = target(&server).await;
        match form {
            Form::Plain => server.cli(&["SET", "lock:a", "you"]),
            Form::Reentrant => server.cli(&["HSET", "lock:a", "you", "1"]),
        };
        let request = request("lock:a", form, Duration::from_secs(2));
        let token = request.token().to_string();
        let until = Some(Instant::now() + PATIENCE);
        let waiting = tokio::spawn(async move { take(&target, request, until, std::future::pending()).await });
        while attempts(&server) < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The lock is free when the server resumes: the unanswered attempt will take it.
        server.cli(&["PEXPIRE", "lock:a", "300"]);
        server.pause();
        // Long enough that the attempt is abandoned. A paused server can't be asked, so sleep.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        server.resume();
        let mut held = held(waiting.await.unwrap());
        assert_eq!((held.request().token().to_string(), held.entries()), (token, 1));
        assert!(matches!(held.release().await, Released::Done { entries: 0 }));
        assert!(!exists(&server, "lock:a"), "{form}: nothing of it is left");
    }
}

#[tokio::test]
async fn an_attempt_that_was_given_up_and_heard_late_is_our_own() {
    let server = Server::start();
    for (form, entries) in [(Form::Plain, 1), (Form::Reentrant, 2)] {
        let request = request("lock:a", form, Duration::from_secs(30));
        let token = request.token().to_string();
        match form {
            Form::Plain => server.cli(&["SET", "lock:a", &token, "PX", "30000"]),
            Form::Reentrant => server.cli(&["HSET", "lock:a", &token, "1"]),
        };
        let mut held = held(take(&target(&server).await, request, None, std::future::pending()).await);
        assert_eq!(held.entries(), entries);
        assert!(matches!(held.release().await, Released::Done { entries: 0 }));
        assert!(!exists(&server, "lock:a"), "{form}: nothing of it is left");
    }
    // A token that the user chose may belong to anybody.
    server.cli(&["SET", "lock:a", "me"]);
    let chosen = request("lock:a", Form::Plain, Duration::from_secs(30)).with_token(b"me");
    let taken = take(&target(&server).await, chosen, None, std::future::pending()).await;
    assert!(matches!(taken, Taken::Refused(_)), "{taken:?}");
}

#[tokio::test]
async fn waiting_can_be_stopped_and_takes_nothing() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "you"]);
    let request = request("lock:a", Form::Plain, Duration::from_secs(5));
    let until = Some(Instant::now() + PATIENCE);
    let taken = take(&target(&server).await, request, until, std::future::ready(())).await;
    assert!(matches!(taken, Taken::Stopped), "{taken:?}");
    assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "you");
}

// The command.

/// The output and the exit code of `lockscope`.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn acquire(server: &Server, home: &Path, args: &[&str]) -> Ran {
    let output = lockscope_at(home).args(["acquire", "-u", &server.url()]).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn audit(home: &Path) -> Vec<Json> {
    lockscope::actions::audit::read(&home.join("state/lockscope")).unwrap().0
}

fn keys(server: &Server) -> u64 {
    server.ask(&["DBSIZE"])
}

/// `lockscope acquire` that runs while the test continues.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    home: TempDir,
}

impl Running {
    fn start(server: &Server, args: &[&str]) -> Running {
        let home = temporary_directory();
        let mut command = lockscope_process(home.path());
        command.args(["acquire", "-u", &server.url()]).args(args);
        command.stdout(Stdio::piped()).stderr(File::create(home.path().join("stderr")).unwrap());
        // In its own session: the tests may be run from a terminal.
        // SAFETY: setsid is safe between fork and exec.
        unsafe { command.pre_exec(|| if libc::setsid() < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }) };
        let mut child = common::process::spawn(command).unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out, home }
    }

    /// The next line on stdout.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "it has ended: {}", self.err());
        line.trim_end().to_string()
    }

    fn err(&self) -> String {
        std::fs::read_to_string(self.home.path().join("stderr")).unwrap()
    }

    fn signal(&self, number: i32) {
        signal(&self.child, number);
    }

    /// Waits for its end, and returns the exit code.
    #[track_caller]
    fn code(&mut self) -> Option<i32> {
        let mut status = None;
        wait_until("acquire ends", PATIENCE, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[track_caller]
fn ends(pid: &str) {
    let pid = pid.parse().unwrap();
    // A zombie is still in the process table, but no longer runs.
    let runs = || match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !stat.contains(") Z "),
        Err(_) => cfg!(not(target_os = "linux")) && is_alive(pid),
    };
    wait_until("the process ends", PATIENCE, || !runs());
}

#[test]
fn a_lock_without_a_command_is_taken_and_left() {
    let server = Server::start();
    let home = temporary_directory();
    for (form, kind) in [("plain", "string"), ("reentrant", "hash")] {
        let key = format!("lock:{form}");
        let ran = acquire(&server, home.path(), &[&key, "--ttl", "60s", "--as", form, "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let result: Json = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((&result["action"], &result["outcome"]), (&"acquire".into(), &"done".into()));
        assert_eq!((&result["entries"], &result["ttl_ms"], &result["woke"]), (&1.into(), &60_000.into(), &0.into()));
        assert_eq!(server.ask::<String, _>(&["TYPE", &key]), kind);
        assert!((1..=60_000).contains(&pttl(&server, &key)));
        let shown = lockscope_at(home.path()).args(["show", &key, "--json", "-u", &server.url()]).output().unwrap();
        let shown: Json = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!((&shown["dialect"], &shown["holders"][0]["token"]), (&form.into(), &result["token"]));
        assert!(shown["holders"][0]["host"].is_string() && shown["holders"][0]["pid"].is_number(), "{shown}");
        let entries = audit(home.path());
        let mine: Vec<&Json> = entries.iter().filter(|entry| entry["id"] == result["id"]).collect();
        let phases: Vec<&str> = mine.iter().map(|entry| entry["phase"].as_str().unwrap()).collect();
        assert_eq!((phases, &mine[1]["outcome"]), (vec!["intent", "outcome"], &"done".into()));
    }
    let people = acquire(&server, home.path(), &["lock:c", "--ttl", "60s", "--token", "me"]);
    assert_eq!((people.code, people.out.as_str()), (Some(0), "took lock:c\n  token  me\n  ttl    1m\n"));
}

#[test]
fn a_held_lock_is_not_obtained_and_its_holder_is_named() {
    let server = Server::start();
    let home = temporary_directory();
    server.cli(&["SET", "lock:a", "worker-7", "PX", "60000"]);
    let ran = acquire(&server, home.path(), &["lock:a", "--ttl", "5s", "--json"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.starts_with("lockscope: lock:a is held by worker-7, for another "), "{}", ran.err);
    let result: Json = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&result["outcome"], &result["holder"]), (&"refused".into(), &"worker-7".into()));
    assert!((1..=60_000).contains(&result["left_ms"].as_u64().unwrap()));
    let other = acquire(&server, home.path(), &["lock:a", "--ttl", "5s", "--as", "reentrant", "--wait", "100ms"]);
    assert_eq!((other.code, other.out.as_str()), (Some(1), ""));
    assert!(other.err.contains("there as a string") && other.err.contains("100ms of waiting"), "{}", other.err);
    assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "worker-7");
}

#[test]
fn a_lock_that_comes_free_is_taken_by_who_waits_for_it() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "worker-7"]);
    let mut waiting = Running::start(&server, &["lock:a", "--ttl", "60s", "--token", "me", "--wait", "60s"]);
    wait_until("it tries again", PATIENCE, || attempts(&server) >= 3);
    server.cli(&["DEL", "lock:a"]);
    assert_eq!(waiting.code(), Some(0), "{}", waiting.err());
    assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "me");
    let mut stopped = Running::start(&server, &["lock:a", "--ttl", "60s", "--wait", "60s", "--", "true"]);
    let before = attempts(&server);
    wait_until("it tries", PATIENCE, || attempts(&server) > before + 1);
    stopped.signal(libc::SIGTERM);
    assert_eq!(stopped.code(), Some(143));
}

#[test]
fn a_command_runs_under_the_lock_and_lends_its_exit_code() {
    let server = Server::start();
    for form in ["plain", "reentrant"] {
        let script = "echo $LOCKSCOPE_KEY $LOCKSCOPE_TOKEN; read line; exit 7";
        let home = temporary_directory();
        let mut command = lockscope_process(home.path());
        command.args(["acquire", "-u", &server.url(), "lock:a", "--ttl", "60s", "--as", form, "--token", "me"]);
        command.args(["--", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = common::process::spawn(command).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "lock:a me\n");
        assert!(exists(&server, "lock:a"));
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert!(!exists(&server, "lock:a"), "it was given back");
        let entries = audit(home.path());
        let phases: Vec<&str> = entries.iter().map(|entry| entry["phase"].as_str().unwrap()).collect();
        assert_eq!(phases, ["intent", "outcome", "end"]);
        assert_eq!((&entries[2]["ended"], &entries[2]["exit_code"]), (&"released".into(), &7.into()));
    }
}

#[test]
fn a_command_that_can_not_run_or_is_killed_gives_the_lock_back() {
    let server = Server::start();
    let home = temporary_directory();
    let cases = [(&["sh", "-c", "kill -9 $$"][..], 137), (&["/no/such/program"], 127), (&["/"], 126), (&["true"], 0)];
    for (command, code) in cases {
        let ran = acquire(&server, home.path(), &[&["lock:a", "--ttl", "60s", "--"], command].concat());
        assert_eq!((ran.code, keys(&server)), (Some(code), 0), "{command:?}: {}", ran.err);
    }
}

#[test]
fn signals_reach_the_command_and_the_lock_is_given_back() {
    let server = Server::start();
    for (number, plain) in [(libc::SIGTERM, 143), (libc::SIGINT, 130), (libc::SIGHUP, 129)] {
        let trap = "trap 'exit 42' TERM INT HUP; echo ready; while :; do sleep 0.02; done";
        for (script, code) in [(trap, 42), ("echo ready; exec sleep 600", plain)] {
            let mut running = Running::start(&server, &["lock:a", "--ttl", "60s", "--", "sh", "-c", script]);
            assert_eq!(running.line(), "ready");
            assert!(exists(&server, "lock:a"));
            running.signal(number);
            assert_eq!(running.code(), Some(code), "{number}: {}", running.err());
            assert!(!exists(&server, "lock:a"));
        }
    }
}

#[test]
fn a_lost_lock_ends_the_command_and_what_it_started() {
    let server = Server::start();
    let family = "sleep 600 & echo $!; echo $$; wait";
    let stubborn = "trap '' TERM; echo $$; echo $$; while :; do sleep 0.02; done";
    for (script, steal) in [(family, false), (family, true), (stubborn, false)] {
        let args = ["lock:a", "--ttl", "1s", "--grace", "300ms", "--", "sh", "-c", script];
        let mut running = Running::start(&server, &args);
        let pids = [running.line(), running.line()];
        if steal {
            server.cli(&["SET", "lock:a", "thief", "PX", "600000"]);
        } else {
            server.cli(&["DEL", "lock:a"]);
        }
        assert_eq!(running.code(), Some(1), "{}", running.err());
        let part = if steal { "it is held by thief, for another" } else { "it is not there any more" };
        let err = running.err();
        assert!(err.contains("lost lock:a while sh ran, which was stopped") && err.contains(part), "{err}");
        pids.iter().for_each(|pid| ends(pid));
        assert_eq!(exists(&server, "lock:a"), steal, "what is somebody else's stays");
        let entries = audit(running.home.path());
        assert_eq!(entries.last().unwrap()["ended"], "lost");
        server.cli(&["DEL", "lock:a"]);
    }
}

#[test]
fn a_lost_lock_only_warns_where_that_is_asked_for() {
    let server = Server::start();
    let place = temporary_directory();
    let go = place.path().join("go");
    let script = format!("echo ready; while [ ! -e {} ]; do sleep 0.02; done; exit 5", go.display());
    let args = ["lock:a", "--ttl", "1s", "--on-lost", "warn", "--", "sh", "-c", &script];
    let mut running = Running::start(&server, &args);
    running.line();
    server.cli(&["DEL", "lock:a"]);
    wait_until("the loss is told", PATIENCE, || running.err().contains("lost lock:a while sh runs on"));
    assert!(running.child.try_wait().unwrap().is_none());
    File::create(go).unwrap();
    assert_eq!(running.code(), Some(5));
}

#[test]
fn a_command_is_ended_before_a_silent_server_gives_its_lock_away() {
    let server = Server::start();
    let mut running = Running::start(&server, &["lock:a", "--ttl", "2s", "--", "sh", "-c", "echo $$; exec sleep 600"]);
    let pid = running.line();
    server.pause();
    ends(&pid);
    server.resume();
    assert_eq!(running.code(), Some(1), "{}", running.err());
    let err = running.err();
    assert!(err.contains("could not renew lock:a") && err.contains("lease of 2s ended without a renewal"), "{err}");
}

#[test]
fn renewals_come_on_time() {
    let server = Server::start();
    let mut running = Running::start(&server, &["lock:a", "--ttl", "6s", "--", "sh", "-c", "echo $$; exec sleep 600"]);
    running.line();
    let (mut renewals, mut before, mut least) = (0, i64::MAX, i64::MAX);
    wait_until("three renewals", PATIENCE, || {
        let left = pttl(&server, "lock:a");
        least = least.min(left);
        if left > before {
            renewals += 1;
            if renewals == 1 {
                // A slow server does not mean a lost lock.
                server.cli(&["CLIENT", "PAUSE", "400"]);
            }
        }
        before = left;
        renewals == 3
    });
    assert!(least > 3_000, "{least} ms were left of 6000");
    running.signal(libc::SIGTERM);
    assert_eq!(running.code(), Some(143));
    assert!(!exists(&server, "lock:a"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_does_not_outlive_who_renews_its_lock() {
    let server = Server::start();
    let mut running = Running::start(&server, &["lock:a", "--ttl", "60s", "--", "sh", "-c", "echo $$; exec sleep 600"]);
    let pid = running.line();
    running.signal(libc::SIGKILL);
    ends(&pid);
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_that_a_command_started_outlives_who_renews_its_lock() {
    // Children of children, an orphan, and one that has to be killed.
    let script = "sleep 601 & echo $!; sh -c 'sleep 602 & echo $!; exec sleep 603' & echo $!; \
        (sleep 604 & echo $!); sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait";
    let server = Server::start();
    let arguments = ["lock:a", "--ttl", "60s", "--grace", "500ms", "--", "sh", "-c", script];
    let mut running = Running::start(&server, &arguments);
    let pids: Vec<String> = (0..5).map(|_| running.line()).collect();
    running.signal(libc::SIGKILL);
    for pid in &pids {
        ends(pid);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_command_leaves_running_is_its_own_affair_while_all_is_well() {
    let server = Server::start();
    let mut running =
        Running::start(&server, &["lock:a", "--ttl", "60s", "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]);
    let pid: u32 = running.line().parse().unwrap();
    assert_eq!(running.code(), Some(0));
    assert!(common::process::is_alive(pid));
    // SAFETY: no memory is touched.
    unsafe { libc::kill(pid as libc::pid_t, libc::SIGKILL) };
}

#[test]
fn a_lock_is_held_for_a_while_and_given_back() {
    let server = Server::start();
    let home = temporary_directory();
    let ran = acquire(&server, home.path(), &["lock:a", "--ttl", "60s", "--hold", "50ms", "--token", "me"]);
    assert_eq!((ran.code, keys(&server)), (Some(0), 0), "{}", ran.err);
    assert!(ran.out.starts_with("took lock:a\n") && ran.out.ends_with("released lock:a\n"), "{}", ran.out);
    let late = acquire(&server, home.path(), &["lock:a", "--ttl", "100ms", "--hold", "60s"]);
    assert_eq!(late.code, Some(1));
    assert!(late.err.contains("lease of 100ms ended without a renewal"), "{}", late.err);
    for args in [&["--watchdog"][..], &["--hold", "600s"]] {
        let mut running = Running::start(&server, &[&["lock:a", "--ttl", "60s", "--json"], args].concat());
        wait_until("it is taken", PATIENCE, || exists(&server, "lock:a"));
        running.signal(libc::SIGTERM);
        let result: Json = serde_json::from_str(&running.line()).unwrap();
        assert_eq!((running.code(), &result["ended"]), (Some(0), &"released".into()));
        assert!(!exists(&server, "lock:a"));
    }
}

#[test]
fn nothing_is_taken_where_writing_is_refused() {
    let server = Server::start();
    let home = temporary_directory();
    let config = home.path().join("config.toml");
    std::fs::write(&config, "protected = [\"payments:*\"]\n").unwrap();
    let config = config.to_str().unwrap();
    for (args, part) in [
        (&["lock:a", "--ttl", "5s", "--read-only"][..], "read-only"),
        (&["payments:1", "--ttl", "5s", "--config", config], "payments:*"),
    ] {
        let ran = acquire(&server, home.path(), &[args, &["--json", "--", "true"]].concat());
        let result: Json = serde_json::from_str(&ran.out).unwrap();
        assert_eq!((ran.code, &result["outcome"]), (Some(1), &"refused".into()));
        assert!(ran.err.contains(part) && ran.err.lines().count() == 1, "{}", ran.err);
    }
    assert_eq!((keys(&server), audit(home.path()).len()), (0, 0));
}

#[test]
fn nothing_is_taken_that_can_not_be_recorded() {
    let server = Server::start();
    let home = temporary_directory();
    std::fs::write(home.path().join("state"), "in the way").unwrap();
    let ran = acquire(&server, home.path(), &["lock:a", "--ttl", "60s"]);
    assert_eq!((ran.code, keys(&server)), (Some(1), 0));
    assert!(ran.err.contains("audit file can't be written"), "{}", ran.err);
}

#[test]
fn the_operator_that_the_doctor_advises_can_take_test_locks() {
    let server = Server::start();
    let home = temporary_directory();
    let doctor = ["doctor", "--json", "-p", "lock:*", "-u", &server.url()];
    let report = lockscope_at(home.path()).args(doctor).output().unwrap();
    let report: Json = serde_json::from_slice(&report.stdout).unwrap();
    let line = report["acl"]["operator"].as_str().unwrap();
    let words = line.split(' ').map(|word| word.trim_matches('\''));
    let words: Vec<&str> = words.map(|word| if word.starts_with('>') { ">acts" } else { word }).collect();
    server.cli(&words);
    for form in ["plain", "reentrant"] {
        let mut command = lockscope_at(home.path());
        command.args(["acquire", "lock:a", "--ttl", "1s", "--watchdog", "--hold", "600ms", "--as", form, "--json"]);
        command.args(["-u", &server.url(), "--user", words[2]]).env("LOCKSCOPE_PASSWORD", "acts");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let result: Json = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&result["ended"], result["renewals"].as_u64() > Some(0)), (&"released".into(), true), "{result}");
        assert!(!exists(&server, "lock:a"));
    }
}

#[test]
fn who_may_not_run_scripts_is_told_in_a_sentence() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "looker", "on", ">looks", "~*", "+@all", "-eval", "-evalsha"]);
    let home = temporary_directory();
    let mut command = lockscope_at(home.path());
    command.args(["acquire", "lock:a", "--ttl", "5s", "-u", &server.url(), "--user", "looker"]);
    let output = command.env("LOCKSCOPE_PASSWORD", "looks").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), keys(&server)), (Some(3), 0));
    assert!(said.contains("+evalsha") && said.lines().count() == 1, "{said}");
}

#[test]
fn wrong_usage_and_servers_that_are_not_there() {
    let server = Server::start();
    let home = temporary_directory();
    for (args, part) in [
        (&["lock:a", "--ttl", "5s", "--as", "redlock"][..], "not there yet"),
        (&["lock:a", "--ttl", "0s"], "between 1ms and 366 days"),
        (&["lock:a"], "--ttl"),
        (&["lock:a", "--ttl", "5s", "--token", ""], "--token is empty"),
        (&["lock:a", "--ttl", "5s", "--hold", "1s", "--", "true"], "cannot be used with"),
        (&["lock:a", "--ttl", "5s", "--on-lost", "warn"], "COMMAND"),
    ] {
        let ran = acquire(&server, home.path(), args);
        assert_eq!(ran.code, Some(2), "{args:?}");
        assert!(ran.err.contains(part) && ran.err.lines().count() == 1, "{args:?}: {}", ran.err);
    }
    let url = format!("redis://127.0.0.1:{}", common::server::free_port());
    let output = lockscope_at(home.path()).args(["acquire", "lock:a", "--ttl", "5s", "-u", &url]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(keys(&server), 0);
}
