//! The number of waiters for a lock, counted on a real server, and the findings from it.

mod common;

use std::time::Duration;

use common::feed::Feed;
use common::{Server, engine, lockscope, wait_until};
use lockscope::engine::Engine;
use lockscope::lock::{Key, KeyspaceId};
use lockscope::model::{LockView, State, TriesFrom};
use lockscope::sources::pace::Pace;
use serde_json::Value;

const HOLDER: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57";
const PATIENCE: Duration = Duration::from_secs(60);

fn take(server: &Server, name: &str) {
    server.cli(&["HSET", name, HOLDER, "1"]);
    server.cli(&["PEXPIRE", name, "600000"]);
}

/// Processes that wait for the lock as Redisson does, for as long as the values live.
async fn waiters(server: &Server, name: &str, count: usize) -> Vec<redis::aio::PubSub> {
    let mut all = Vec::new();
    for _ in 0..count {
        let mut pubsub = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
        pubsub.subscribe(format!("redisson_lock__channel:{{{name}}}")).await.unwrap();
        all.push(pubsub);
    }
    all
}

fn listed(server: &Server, arguments: &[&str]) -> Vec<Value> {
    let output = lockscope().args(["ls", "--json", "-u", &server.url()]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["locks"].as_array().unwrap().clone()
}

#[tokio::test]
async fn ls_counts_who_waits_and_calls_a_crowd_contention() {
    let server = Server::start();
    for name in ["lock:crowd", "lock:pair", "lock:calm"] {
        take(&server, name);
    }
    server.cli(&["SET", "lock:string", "worker-1", "PX", "600000"]);
    server.cli(&["RPUSH", "redisson_lock_queue:{lock:fair}", "a:1", "b:2", "c:3", "d:4"]);
    take(&server, "lock:fair");
    let _waiters = (waiters(&server, "lock:crowd", 3).await, waiters(&server, "lock:pair", 2).await);
    let locks = listed(&server, &[]);
    let lock = |key: &str| locks.iter().find(|lock| lock["key"] == key).unwrap();
    let told = |key: &str| {
        let contention = &lock(key)["contention"];
        (
            lock(key)["state"].as_str().unwrap().to_string(),
            contention["waiters"].as_u64(),
            contention["waiters_source"].clone(),
        )
    };
    assert_eq!(told("lock:crowd"), ("contended".into(), Some(3), "subscribers".into()));
    assert_eq!(lock("lock:crowd")["evidence"][0], "3 processes are subscribed to its channel");
    assert_eq!(told("lock:pair"), ("held".into(), Some(2), "subscribers".into()));
    assert_eq!(told("lock:calm"), ("held".into(), Some(0), "subscribers".into()));
    assert_eq!(told("lock:fair"), ("contended".into(), Some(4), "queue".into()));
    assert_eq!(lock("lock:string")["contention"], Value::Null, "those who poll can't be seen, and are not zero");
    let keys = |arguments: &[&str]| -> Vec<String> {
        listed(&server, arguments).iter().map(|lock| lock["key"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(keys(&["--filter", "wait>2"]), ["lock:crowd", "lock:fair"]);
    assert_eq!(keys(&["--filter", "state:contended", "--sort", "wait"]), ["lock:fair", "lock:crowd"]);
    let home = common::process::temporary_directory();
    let config = home.path().join("config.toml");
    std::fs::write(&config, "[findings.contended]\nwaiters = 4\n").unwrap();
    let tuned = ["--config", config.to_str().unwrap(), "--filter", "state:contended"];
    assert_eq!(keys(&tuned), ["lock:fair"], "the threshold of the config counts here as well");
}

#[tokio::test]
async fn a_queue_that_may_not_be_read_is_not_empty() {
    let server = Server::start();
    take(&server, "lock:fair");
    take(&server, "lock:crowd");
    server.cli(&["RPUSH", "redisson_lock_queue:{lock:fair}", "a:1", "b:2"]);
    let _waiters = waiters(&server, "lock:crowd", 3).await;
    server.cli(&["ACL", "SETUSER", "default", "-llen"]);
    let locks = listed(&server, &[]);
    let lock = |key: &str| locks.iter().find(|lock| lock["key"] == key).unwrap();
    assert_eq!(lock("lock:fair")["contention"], Value::Null, "two wait, and nobody could count them");
    assert_eq!(lock("lock:crowd")["state"], "contended");
    assert_eq!(lock("lock:crowd")["evidence"][0], "at least 3 processes are subscribed to its channel");
}

#[tokio::test]
async fn what_may_not_be_counted_is_unknown() {
    let server = Server::start();
    take(&server, "lock:crowd");
    let _waiters = waiters(&server, "lock:crowd", 3).await;
    server.cli(&["ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-pubsub"]);
    let url = server.url().replace("redis://", "redis://poor:pw@");
    let output = lockscope().args(["ls", "--json", "-u", &url]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["locks"][0]["contention"], Value::Null);
    assert_eq!(document["locks"][0]["state"], "held");
}

#[tokio::test]
async fn the_count_follows_those_who_come_and_go() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    take(&server, "lock:crowd");
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    let mut waiting = waiters(&server, "lock:crowd", 4).await;
    for (leave, count, state) in [(0, 4, State::Contended), (3, 1, State::Held), (1, 0, State::Held)] {
        waiting.truncate(waiting.len() - leave);
        let began = tokio::time::Instant::now();
        loop {
            engine.next().await;
            let (table, now) = (engine.table(), engine.clock.now());
            let view = table.lock_named(KeyspaceId::FIRST, b"lock:crowd").and_then(|lock| table.view(lock, now));
            if view
                .is_some_and(|view| view.waits.is_some_and(|waits| waits.count == count) && view.verdict.state == state)
            {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "never counted {count}");
        }
    }
}

fn view(engine: &Engine, key: &str) -> Option<LockView> {
    let (table, now) = (engine.table(), engine.clock.now());
    table.lock_named(KeyspaceId::FIRST, key.as_bytes()).and_then(|lock| table.view(lock, now))
}

async fn until(engine: &mut Engine, what: &str, condition: impl Fn(&Engine) -> bool) {
    let began = tokio::time::Instant::now();
    while !condition(engine) {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        engine.next().await;
    }
}

/// Repeats an action at this interval until it is stopped.
struct Again {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Again {
    fn start(server: &Server, every: Duration, what: impl Fn(&mut redis::Connection) + Send + 'static) -> Again {
        let mut client = server.connection();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut times = 0;
            while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                what(&mut client);
                times += 1;
                std::thread::sleep(every);
            }
            times
        });
        Again { stop, thread: Some(thread) }
    }

    /// Returns how often it ran.
    fn stop(mut self) -> u64 {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        self.thread.take().expect("stopped once").join().expect("it ends well")
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// A lost attempt of a client that polls.
fn attempt(client: &mut redis::Connection) {
    redis::cmd("SET").arg("lock:polled").arg("other").arg("NX").arg("PX").arg(30_000).exec(client).unwrap();
}

fn renew(client: &mut redis::Connection) {
    redis::cmd("PEXPIRE").arg("lock:polled").arg(30_000).exec(client).unwrap();
}

/// Two locks, one of them renewed every eight seconds; clients poll for that one.
async fn polled(server: &Server, engine: &mut Engine) {
    for key in ["lock:polled", "lock:calm"] {
        server.cli(&["SET", key, "worker-1", "PX", "30000"]);
    }
    let renewals = Again::start(server, Duration::from_secs(8), renew);
    let pollers = Again::start(server, Duration::from_millis(300), attempt);
    until(engine, "it is wanted", |engine| view(engine, "lock:polled").is_some_and(|lock| lock.wanted.is_some())).await;
    let (lock, calm) = (view(engine, "lock:polled").unwrap(), view(engine, "lock:calm").unwrap());
    assert_eq!((calm.wanted, calm.waits), (None, None));
    let told = lock.verdict.evidence.last().unwrap();
    assert!(told.starts_with("somebody reads it, and may poll for it (last "), "{told}");
    drop((renewals, pollers));
}

#[tokio::test]
async fn a_lock_that_is_polled_for_is_wanted() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    polled(&server, &mut engine).await;
}

#[tokio::test]
async fn a_lock_that_nobody_wants_is_never_wanted() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    for key in ["lock:polled", "lock:calm"] {
        server.cli(&["SET", key, "worker-1", "PX", "30000"]);
    }
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    // Its holder renews it, other locks come and go, and we read it: each of these touches it or keeps us busy.
    let renewals = Again::start(&server, Duration::from_secs(5), renew);
    let others = Again::start(&server, Duration::from_millis(5), |client| {
        redis::cmd("SET").arg("lock:other").arg("b").arg("NX").arg("PX").arg(1_000).exec(client).unwrap();
        redis::cmd("DEL").arg("lock:other").exec(client).unwrap();
    });
    let began = tokio::time::Instant::now();
    let mut walks = 0;
    // Far enough apart that two reads would look like a waiter if they were not known to be ours.
    while began.elapsed() < Duration::from_secs(16) {
        engine.next().await;
        if began.elapsed() > Duration::from_secs(walks * 5) {
            engine.scan();
            engine.inspect(KeyspaceId::FIRST, &Key::from("lock:calm"));
            walks += 1;
        }
        for key in ["lock:polled", "lock:calm"] {
            let wanted = view(&engine, key).and_then(|lock| lock.wanted);
            assert_eq!(wanted, None, "{key} after {:?}", began.elapsed());
        }
    }
    assert!(renewals.stop() >= 2 && others.stop() > 100, "it was a busy window");
}

#[tokio::test]
async fn a_server_without_that_clock_leaves_it_unknown() {
    let server = Server::with(&["--notify-keyspace-events", "KEA", "--maxmemory-policy", "allkeys-lfu"]);
    server.cli(&["SET", "lock:polled", "worker-1", "PX", "600000"]);
    take(&server, "lock:crowd");
    let _waiters = waiters(&server, "lock:crowd", 1).await;
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    let pollers = Again::start(&server, Duration::from_millis(100), attempt);
    until(&mut engine, "the other sources still tell", |engine| {
        view(engine, "lock:crowd").is_some_and(|lock| lock.waits.is_some_and(|waits| waits.count == 1))
    })
    .await;
    engine.run_for(Duration::from_secs(3)).await;
    assert_eq!(view(&engine, "lock:polled").and_then(|lock| lock.wanted), None);
    assert!(pollers.stop() > 5);
}

#[tokio::test]
async fn counted_attempts_make_an_exact_rate() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    server.cli(&["SET", "lock:counted", "worker-1", "PX", "600000"]);
    server.cli(&["SET", "lock:plain", "worker-1", "PX", "600000"]);
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    let script = redis::Script::new(lockscope::dialects::scripts::COUNTED_ACQUIRE.text);
    let counts = "lockscope:{lock:counted}:counts";
    let attempts = Again::start(&server, Duration::from_millis(50), move |client| {
        let mut call = script.prepare_invoke();
        call.key("lock:counted").key(counts).arg("other").arg(1_000).invoke::<redis::Value>(client).unwrap();
    });
    let began = tokio::time::Instant::now();
    until(&mut engine, "a rate over some seconds", |engine| {
        let tries = view(engine, "lock:counted").and_then(|lock| lock.tries);
        tries.is_some_and(|tries| tries.span >= Duration::from_secs(4))
    })
    .await;
    let tries = view(&engine, "lock:counted").and_then(|lock| lock.tries).unwrap();
    assert_eq!((tries.from, tries.coverage(), tries.margin_per_s), (TriesFrom::Counted, 1.0, 0.0));
    assert_eq!(tries.attempts, tries.failures, "it was held all the time");
    let done = attempts.stop();
    let most = done as f64 / began.elapsed().as_secs_f64();
    let rate = tries.failures_per_s();
    assert!(rate > most * 0.5 && rate < most * 2.0, "{rate} a second, where {most} were made");
    assert!(tries.failures <= done);
    assert_eq!(view(&engine, "lock:plain").and_then(|lock| lock.tries), None, "not counted is not zero");
}

#[tokio::test]
async fn dead_heads_of_a_fair_queue_are_counted() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let far = "99999999999999";
    for (key, ids) in [("lock:dead", ["gone:1", "gone:2", "here:3"]), ("lock:fair", ["here:1", "gone:2", "gone:3"])] {
        take(&server, key);
        for id in ids {
            server.cli(&["RPUSH", &format!("redisson_lock_queue:{{{key}}}"), id]);
            server.cli(&["ZADD", &format!("redisson_lock_timeout:{{{key}}}"), far, id]);
        }
    }
    let mut here = Vec::new();
    for channel in ["{lock:dead}:here:3", "{lock:fair}:here:1"] {
        let mut pubsub = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
        pubsub.subscribe(format!("redisson_lock__channel:{channel}")).await.unwrap();
        here.push(pubsub);
    }
    let locks = listed(&server, &[]);
    let heads = |key: &str| {
        let lock = locks.iter().find(|lock| lock["key"] == key).unwrap();
        (lock["contention"]["waiters"].as_u64(), lock["contention"]["dead_heads"].as_u64())
    };
    assert_eq!(heads("lock:dead"), (Some(3), Some(2)));
    assert_eq!(heads("lock:fair"), (Some(3), Some(0)));
    let found = |key: &str| {
        let lock = locks.iter().find(|lock| lock["key"] == key).unwrap();
        lock["findings"].as_array().unwrap().iter().any(|finding| finding["name"] == "dead-heads")
    };
    assert!(found("lock:dead") && !found("lock:fair"), "a command that looks once judges as the console does");
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    until(&mut engine, "the rounds count them too", |engine| {
        let waits = view(engine, "lock:dead").and_then(|lock| lock.waits);
        waits.is_some_and(|waits| waits.dead_heads == Some(2))
    })
    .await;
}

#[tokio::test]
async fn the_changelog_of_sidekiq_unique_jobs_is_counted() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let digest = "lock:0123456789abcdef0123456789abcdef";
    let key = format!("{digest}:LOCKED");
    server.cli(&["HSET", &key, "b4a577edbccf1d805744efa9", "1749999000.5"]);
    let write = move |client: &mut redis::Connection, message: &str, job: u64| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        let entry = serde_json::json!({"digest": digest, "job_id": job.to_string(), "script": "lock.lua",
            "message": message, "time": now});
        redis::cmd("ZADD").arg("uniquejobs:changelog").arg(now).arg(entry.to_string()).exec(client).unwrap();
    };
    write(&mut server.connection(), "Locked", 0);
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    let jobs = std::sync::atomic::AtomicU64::new(1);
    let attempts = Again::start(&server, Duration::from_millis(100), move |client| {
        let job = jobs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        write(client, "Queued", job);
        write(client, if job.is_multiple_of(2) { "Limited" } else { "Limit exceeded" }, job);
    });
    until(&mut engine, "a rate", |engine| view(engine, &key).is_some_and(|lock| lock.tries.is_some())).await;
    let tries = view(&engine, &key).and_then(|lock| lock.tries).unwrap();
    let done = attempts.stop();
    assert_eq!((tries.from, tries.attempts), (TriesFrom::Counted, tries.failures));
    assert!(tries.failures > 0 && tries.failures <= done, "{tries:?} of {done}");
}

/// Clients that want `lock:hot` at a steady rate, and keep their own counts.
fn contend(server: &Server, stop: &std::sync::atomic::AtomicBool) -> (u64, Duration) {
    let mut conn = server.connection();
    let (began, mut failed) = (std::time::Instant::now(), 0);
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let answer: redis::Value =
            redis::cmd("SET").arg("lock:hot").arg("late").arg("NX").arg("PX").arg(1000).query(&mut conn).unwrap();
        failed += u64::from(answer == redis::Value::Nil);
        std::thread::sleep(Duration::from_millis(5));
    }
    (failed, began.elapsed())
}

/// It asks who holds the lock and for how long: a contender that means to wait, or the holder itself.
#[test]
fn a_script_that_is_not_understood_makes_the_rate_unknown() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    server.cli(&["SET", "lock:odd", "worker-1", "PX", "600000"]);
    let script = "redis.call('get', KEYS[1]) return redis.call('pttl', KEYS[1])";
    server.cli(&["SCRIPT", "LOAD", script]);
    let hash = redis::Script::new(script).get_hash().to_string();
    let runs = Again::start(&server, Duration::from_millis(20), move |client| {
        redis::cmd("EVALSHA").arg(&hash).arg(1).arg("lock:odd").arg("worker-2").exec(client).unwrap();
    });
    let told = contention(&server, &["--monitor", "--for", "1s", "--json"]);
    let table = contention(&server, &["--monitor", "--for", "1s"]);
    assert!(runs.stop() > 0);
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let told = &told["locks"][0]["contention"];
    assert_eq!((&told["attempts_per_s"], &told["failures_per_s"]), (&Value::Null, &Value::Null), "{told}");
    assert_eq!(told["unknown_why"], "scripts that lockscope does not know used its key");
    let (table, said) = (String::from_utf8_lossy(&table.stdout), String::from_utf8_lossy(&table.stderr));
    assert!(table.contains("lock:odd"), "it is on the table:\n{table}");
    assert!(said.contains("scripts that lockscope does not know"), "{said}");
}

/// sidekiq-unique-jobs blocks its waiters on a list; on which list, the server does not say.
#[test]
fn waiters_blocked_on_a_list_are_at_most_so_many_everywhere() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let digest = "uniquejobs:0123456789abcdef0123456789abcdef";
    let key = format!("{digest}:LOCKED");
    server.cli(&["HSET", &key, "b4a577edbccf1d805744efa9", "1749999000.5"]);
    let blocked = |number: usize| {
        let (mut conn, from) = (server.connection(), format!("{digest}:QUEUED"));
        let () = redis::cmd("CLIENT").arg("SETNAME").arg(format!("mailer-{number}")).query(&mut conn).unwrap();
        let words = if number == 0 { vec!["BLPOP", &from, "60"] } else { vec!["BRPOPLPUSH", &from, &from, "60"] };
        conn.send_packed_command(&redis::Cmd::new().arg(&words).get_packed_command()).unwrap();
        conn
    };
    let clients: Vec<redis::Connection> = (0..3).map(blocked).collect();
    wait_until("three blocked clients", PATIENCE, || {
        let info: String = redis::cmd("INFO").arg("clients").query(&mut server.connection()).unwrap();
        info.contains("blocked_clients:3")
    });
    let told = |arguments: &[&str]| {
        let output = lockscope().args(arguments).args(["-u", &server.url(), "-p", "uniquejobs:*"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for command in [&["ls", "--json"][..], &["contention", "--for", "100ms", "--json"]] {
        let document: Value = serde_json::from_str(&told(command)).unwrap();
        let wanted = &document["locks"][0]["contention"];
        assert_eq!(
            (&wanted["waiters"], &wanted["waiters_at_most"]),
            (&Value::Null, &3.into()),
            "{command:?}: {wanted}"
        );
        assert_eq!(wanted["waiters_source"], "blocked-clients");
        let mut names: Vec<&str> =
            wanted["blocked_clients"].as_array().unwrap().iter().filter_map(|client| client["name"].as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["mailer-0", "mailer-1", "mailer-2"], "{command:?}");
        assert_ne!(document["locks"][0]["state"], "contended", "perhaps nobody waits for this one");
    }
    assert!(told(&["contention", "--for", "100ms"]).contains("≤3 blocked-clients"));
    let shown = told(&["show", &key]);
    assert!(shown.contains("perhaps 127.0.0.1:") && shown.contains("(mailer-2"), "{shown}");
    drop(clients);
}

fn contention(server: &Server, arguments: &[&str]) -> std::process::Output {
    lockscope().args(["contention", "-u", &server.url(), "-p", "lock:*"]).args(arguments).output().unwrap()
}

#[test]
fn the_command_tells_rates_within_their_own_margin() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    server.cli(&["SET", "lock:hot", "worker-1", "PX", "600000"]);
    server.cli(&["SET", "lock:calm", "worker-2", "PX", "600000"]);
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (output, (failed, took)) = std::thread::scope(|scope| {
        let client = scope.spawn(|| contend(&server, &stop));
        let output = contention(&server, &["--monitor", "--for", "6s", "--json"]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        (output, client.join().unwrap())
    });
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("looked at every command"), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (hot, calm) = (&document["locks"][0], &document["locks"][1]);
    assert_eq!((&hot["key"], &calm["key"]), (&"lock:hot".into(), &"lock:calm".into()), "hardest wanted first");
    let told = &hot["contention"];
    let number = |field: &str| told[field].as_f64().unwrap_or_else(|| panic!("{field} in {told}"));
    let truth = failed as f64 / took.as_secs_f64();
    let (rate, margin) = (number("failures_per_s"), number("failures_margin_per_s"));
    assert!((rate - truth).abs() <= margin, "{rate} ± {margin} against {truth}");
    assert!(rate > 10.0 && number("attempts_per_s") == rate, "{told}");
    assert_eq!(told["source"], "sampled");
    assert!((0.2..=0.8).contains(&number("coverage")), "{told}");
    assert_eq!(calm["contention"]["failures_per_s"], 0.0, "looked for, and none was there");
    assert!(calm["contention"]["failures_margin_per_s"].as_f64().unwrap() > 0.0);
    let sampling = &document["server"]["nodes"][0]["sampling"];
    assert_eq!((&sampling["state"], &sampling["judged"]), (&"on".into(), &true.into()));
}

#[tokio::test]
async fn without_consent_no_command_of_others_is_looked_at() {
    let server = Server::start();
    take(&server, "lock:crowd");
    server.cli(&["SET", "lock:string", "worker-1", "PX", "600000"]);
    let _waiters = waiters(&server, "lock:crowd", 3).await;
    let output = contention(&server, &["--for", "1s"]);
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("--monitor also samples"), "{said}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines[0].starts_with("KEY") && lines[1].starts_with("lock:crowd"), "{out}");
    assert!(lines[1].contains("3 subscribers"), "{out}");
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    assert_eq!(words[words.len() - 3..], ["?", "?", "?"], "unknown is no zero: {out}");
    assert_eq!(lines.len(), 2, "people are shown what is wanted: {out}");
    let other =
        "1 other lock: nobody waits on a channel or in a queue; whether somebody polls is not known without --monitor";
    assert!(said.contains(other), "{said}");
    let stats: String = server.ask(&["INFO", "commandstats"]);
    assert!(!stats.contains("cmdstat_monitor"), "{stats}");
    assert!(contention(&server, &["--for", "1s", "-q"]).stderr.is_empty());
}

#[test]
fn what_may_not_be_sampled_is_a_sentence_and_exit_code_3() {
    let server = Server::start();
    server.cli(&["ACL", "SETUSER", "poor", "on", ">open-sesame", "~*", "&*", "+@all", "-monitor"]);
    let url = server.url().replace("redis://", "redis://poor:open-sesame@");
    let output = lockscope().args(["contention", "--monitor", "-u", &url]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("may not run MONITOR") && !said.contains("sesame"), "{said}");
    let wrong = lockscope().args(["contention", "--for", "0s", "-u", &server.url()]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
