//! A burst of MONITOR always ends by itself, and keeps nothing that is not about locks.

mod common;

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::burst::{monitors, node, open, recogniser};
use common::feed::Feed;
use common::{Server, Worker, engine, lockscope_process, process, wait_until};
use lockscope::base::clock::Clock;
use lockscope::engine::{Duty, Engine, Sampling};
use lockscope::lock::{Key, KeyspaceId, Token};
use lockscope::model::Notice;
use lockscope::sources::pace::Pace;
use lockscope::sources::sampling::Scripts;
use lockscope::sources::sampling::burst::{self, Bounds, Burst, Cut, NoBurst};
use lockscope::topology::{Endpoint, Node};
use redis::{IntoConnectionInfo, TlsCertificates};

const PATIENCE: Duration = Duration::from_secs(30);
const LONG: Bounds = Bounds { time: Duration::from_secs(100), lines: u64::MAX };

fn told() -> Server {
    Server::with(&["--notify-keyspace-events", "KEA"])
}

async fn run(node: &Node, bounds: Bounds) -> Result<Burst, NoBurst> {
    burst::run(node, &recogniser(), &mut Scripts::default(), bounds, Clock::start()).await
}

/// Runs `deeds` during a burst, and ends the burst after them.
async fn during(server: &Arc<Server>, node: &Node, deeds: impl FnOnce(&Server) + Send + 'static) -> Burst {
    let (done, stop) = tokio::sync::oneshot::channel();
    let here = server.clone();
    let clients = tokio::task::spawn_blocking(move || {
        wait_until("the burst to stand", PATIENCE, || monitors(&here) == 1);
        deeds(&here);
        let _ = done.send(());
    });
    let stop = async { _ = stop.await };
    let burst = burst::run_until(node, &recogniser(), &mut Scripts::default(), LONG, Clock::start(), stop).await;
    clients.await.unwrap();
    burst.unwrap()
}

fn counts(burst: &Burst, key: &str) -> (u64, u64, u64) {
    let seen = burst.locks.get(&Key::from(key));
    seen.map_or((0, 0, 0), |seen| (seen.attempts, seen.failures, seen.unjudged))
}

fn no_monitor_is_left(server: &Server) {
    wait_until("no engine to be left", PATIENCE, || monitors(server) == 0);
}

#[tokio::test]
async fn it_ends_when_its_time_is_up() {
    let server = told();
    let began = Instant::now();
    let bounds = Bounds { time: Duration::from_millis(300), ..Bounds::default() };
    let burst = run(&node(&server.url()).await, bounds).await.unwrap();
    assert_eq!((burst.cut, burst.judged), (None, true));
    assert!(burst.looked >= bounds.time && burst.looked <= began.elapsed(), "{:?}", burst.looked);
    no_monitor_is_left(&server);
}

#[tokio::test]
async fn it_ends_after_so_many_lines() {
    let server = Arc::new(told());
    let busy = tokio::task::spawn_blocking({
        let server = server.clone();
        move || {
            wait_until("the burst to stand", PATIENCE, || monitors(&server) == 1);
            let mut conn = server.connection();
            while monitors(&server) > 0 {
                let mut pipe = redis::pipe();
                for _ in 0..200 {
                    pipe.cmd("PING").ignore();
                }
                pipe.exec(&mut conn).unwrap();
            }
        }
    });
    let burst = run(&node(&server.url()).await, Bounds { lines: 1000, ..LONG }).await.unwrap();
    assert_eq!((burst.cut, burst.lines), (Some(Cut::Lines), 1000));
    assert!(burst.looked < Duration::from_secs(20), "{:?}", burst.looked);
    busy.await.unwrap();
}

#[tokio::test]
async fn one_that_is_given_up_leaves_no_monitor() {
    let server = told();
    let node = node(&server.url()).await;
    let burst = tokio::spawn(async move { run(&node, LONG).await });
    while monitors(&server) == 0 {
        assert!(!burst.is_finished());
        tokio::task::yield_now().await;
    }
    burst.abort();
    let _ = burst.await;
    no_monitor_is_left(&server);
}

#[tokio::test]
async fn a_server_that_goes_away_ends_it() {
    let mut server = told();
    let node = node(&server.url()).await;
    let burst = tokio::spawn(async move { run(&node, LONG).await });
    while monitors(&server) == 0 {
        tokio::task::yield_now().await;
    }
    server.kill();
    assert_eq!(burst.await.unwrap().unwrap().cut, Some(Cut::Closed));
}

/// Starts the command, and waits until MONITOR runs.
fn sampling(server: &Server) -> std::process::Child {
    let mut command = lockscope_process(&process::scratch("bursts"));
    command.args(["contention", "--monitor", "--for", "60s", "-p", "lock:*", "-u", &server.url()]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("MONITOR to run", PATIENCE, || monitors(server) == 1);
    child
}

#[test]
fn one_that_is_killed_leaves_no_monitor() {
    let server = told();
    let mut child = sampling(&server);
    child.kill().unwrap();
    child.wait().unwrap();
    no_monitor_is_left(&server);
}

#[test]
fn one_that_is_stopped_is_cut_off_by_the_server() {
    let server = told();
    server.cli(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"]);
    let mut child = sampling(&server);
    process::signal(&child, libc::SIGSTOP);
    let mut conn = server.connection();
    let value = vec![b'x'; 1 << 20];
    let began = Instant::now();
    // Sockets buffer some of it before the server's own buffer grows.
    while monitors(&server) > 0 {
        redis::cmd("SET").arg("other").arg(&value).exec(&mut conn).unwrap();
        assert!(began.elapsed() < PATIENCE, "a engine that does not read is still there");
    }
    assert!(process::is_alive(child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn who_may_not_is_told_what_to_permit() {
    let server = told();
    server.cli(&["ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-monitor"]);
    server.cli(&["ACL", "SETUSER", "deaf", "on", ">pw", "~*", "resetchannels", "+@all"]);
    for (user, part) in [("poor", "may not run MONITOR"), ("deaf", "PSUBSCRIBE")] {
        let url = server.url().replace("redis://", &format!("redis://{user}:pw@"));
        match run(&node(&url).await, LONG).await {
            Err(NoBurst::Refused(why)) => assert!(why.contains(part), "{why}"),
            other => panic!("{other:?}"),
        }
        no_monitor_is_left(&server);
    }
}

fn two_attempts(server: &Server) {
    server.cli(&["SET", "lock:a", "t1", "NX", "PX", "60000"]);
    server.cli(&["SET", "lock:a", "t2", "NX", "PX", "60000"]);
}

#[tokio::test]
async fn it_logs_in_as_everybody_does() {
    let server = Arc::new(Server::with(&["--notify-keyspace-events", "KEA", "--requirepass", "sesame"]));
    let url = server.url().replace("redis://", "redis://:sesame@");
    let burst = during(&server, &node(&url).await, two_attempts).await;
    assert_eq!(counts(&burst, "lock:a"), (2, 1, 0));
    let wrong = server.url().replace("redis://", "redis://:wrong@");
    assert!(matches!(run(&node(&wrong).await, LONG).await, Err(NoBurst::Refused(_))));
}

#[tokio::test]
async fn a_socket_file_and_tls_will_do() {
    let server = Arc::new(Server::on_socket(&["--notify-keyspace-events", "KEA"]));
    let burst = during(&server, &node(&server.url()).await, two_attempts).await;
    assert_eq!(counts(&burst, "lock:a"), (2, 1, 0));
    let seen = &burst.locks[&Key::from("lock:a")];
    let nameless = seen.contenders.iter().filter(|one| one.address.is_none()).count();
    assert!(nameless > 0 && nameless == seen.contenders.len(), "clients of a socket file share their address");

    let Some(server) = Server::with_tls(&["--notify-keyspace-events", "KEA"]) else { return };
    let server = Arc::new(server);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ca = std::fs::read(server.directory().join("ca.pem")).unwrap();
    for insecure in [false, true] {
        let url = format!("{}{}", server.url(), if insecure { "#insecure" } else { "" });
        let tls = TlsCertificates { client_tls: None, root_cert: Some(ca.clone()).filter(|_| !insecure) };
        let info = url.as_str().into_connection_info().unwrap();
        let node = open(Endpoint { shown: url, info, tls: Some(tls) }).await;
        let burst = during(&server, &node, |server| {
            server.cli(&["DEL", "lock:a"]);
            two_attempts(server);
        })
        .await;
        assert_eq!(counts(&burst, "lock:a"), (2, 1, 0));
    }
}

#[tokio::test]
async fn a_huge_argument_is_read_over() {
    let server = Arc::new(told());
    let burst = during(&server, &node(&server.url()).await, |server| {
        let mut conn = server.connection();
        redis::cmd("SET").arg("big").arg(vec![b'x'; 16 << 20]).exec(&mut conn).unwrap();
        redis::cmd("SET").arg("lock:big").arg(vec![0u8; 1 << 20]).arg("NX").exec(&mut conn).unwrap();
        two_attempts(server);
    })
    .await;
    assert_eq!(counts(&burst, "lock:a"), (2, 1, 0));
    assert_eq!(counts(&burst, "lock:big"), (0, 0, 0), "no lock has a value of megabytes");
}

#[tokio::test]
async fn passwords_and_other_values_are_not_kept() {
    let server = Arc::new(told());
    server.cli(&["ACL", "SETUSER", "app", "on", ">open-sesame", "~*", "&*", "+@all"]);
    let burst = during(&server, &node(&server.url()).await, |server| {
        let mut conn = server.connection();
        redis::cmd("AUTH").arg("app").arg("open-sesame").exec(&mut conn).unwrap();
        redis::cmd("SET").arg("card:17").arg("4111-1111").arg("NX").exec(&mut conn).unwrap();
        let script = "redis.call('set', KEYS[1], ARGV[1]) return 1";
        redis::cmd("EVAL").arg(script).arg(1).arg("card:18").arg("4222-2222").exec(&mut conn).unwrap();
        two_attempts(server);
    })
    .await;
    let kept = format!("{burst:?}");
    assert!(kept.contains("lock:a") && burst.lines >= 5);
    for secret in ["sesame", "4111", "4222", "card"] {
        assert!(!kept.contains(secret), "{secret} in {kept}");
    }
}

#[tokio::test]
async fn a_server_that_is_full_or_stuck_is_tried_again() {
    let server = told();
    let node = node(&server.url()).await;
    let bounds = Bounds { time: Duration::from_millis(10), ..Bounds::default() };
    let mut only = server.connection();
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(1).exec(&mut only).unwrap();
    let full = run(&node, bounds).await.unwrap_err();
    assert!(matches!(&full, NoBurst::Lost(why) if why.to_string().contains("max number of clients")), "{full}");
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(100).exec(&mut only).unwrap();
    assert!(run(&node, bounds).await.is_ok());

    redis::cmd("CONFIG").arg("SET").arg("lua-time-limit").arg(1).exec(&mut only).unwrap();
    let mut killer = server.connection();
    let script = std::thread::spawn(move || redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut only));
    wait_until("the server is stuck", PATIENCE, || {
        redis::cmd("PING").exec(&mut killer).is_err_and(|error| error.code() == Some("BUSY"))
    });
    let stuck = run(&node, bounds).await.unwrap_err();
    assert!(matches!(&stuck, NoBurst::Lost(why) if why.to_string().contains("BUSY")), "{stuck}");
    redis::cmd("SCRIPT").arg("KILL").exec(&mut killer).unwrap();
    assert!(script.join().unwrap().is_err());
}

#[tokio::test]
async fn without_notifications_attempts_are_seen_and_outcomes_are_not_invented() {
    let server = Arc::new(Server::start());
    let burst = during(&server, &node(&server.url()).await, two_attempts).await;
    assert!(!burst.judged);
    assert_eq!(counts(&burst, "lock:a"), (2, 0, 2));
}

#[tokio::test]
async fn a_late_renewal_and_a_foreign_delete_are_noticed() {
    const RENEW: &str =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
    let server = Arc::new(told());
    let burst = during(&server, &node(&server.url()).await, |server| {
        let (mut first, mut second) = (server.connection(), server.connection());
        let set = |conn: &mut redis::Connection, token: &str| {
            redis::cmd("SET").arg("lock:a").arg(token).arg("NX").arg("PX").arg(60_000).exec(conn).unwrap();
        };
        let renew = |conn: &mut redis::Connection, token: &str| -> i64 {
            redis::cmd("EVAL").arg(RENEW).arg(1).arg("lock:a").arg(token).arg(60_000).query(conn).unwrap()
        };
        set(&mut first, "t1");
        assert_eq!(renew(&mut first, "t1"), 1);
        redis::cmd("DEL").arg("lock:a").exec(&mut second).unwrap();
        set(&mut second, "t2");
        assert_eq!(renew(&mut first, "t1"), 0);
    })
    .await;
    let seen = &burst.locks[&Key::from("lock:a")];
    let (first, second) = (seen.contenders[0].address.clone(), seen.contenders[1].address.clone());
    let notices: Vec<&Notice> = seen.notices.iter().map(|(_, notice)| notice).collect();
    let token = |text: &str| Token::from(text.as_bytes());
    assert_eq!(
        notices,
        [
            &Notice::FreedBy { holder: Some(token("t1")), address: second.clone() },
            &Notice::Late { token: token("t1"), address: first, renewal: true },
        ]
    );
    assert_eq!(
        seen.spoke.last().map(|spoke| (&spoke.token, Some(&spoke.address))),
        Some((&token("t2"), second.as_ref()))
    );
}

async fn until(engine: &mut Engine, what: &str, condition: impl Fn(&Engine) -> bool) {
    let began = Instant::now();
    while !condition(engine) {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        engine.next().await;
    }
}

#[tokio::test]
async fn the_engine_samples_only_while_asked_to() {
    let server = Arc::new(told());
    server.cli(&["SET", "lock:a", "t0", "PX", "600000"]);
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    engine.run_until_inventory().await;
    assert!(engine.nodes().next().unwrap().sampling.is_none());
    engine.sample(true);
    assert!(matches!(engine.nodes().next().unwrap().sampling, Some(Sampling::Starting)));
    let busy = {
        let server = server.clone();
        std::thread::spawn(move || {
            wait_until("the burst to stand", PATIENCE, || monitors(&server) == 1);
            let mut conn = server.connection();
            for _ in 0..30 {
                redis::cmd("SET").arg("lock:a").arg("t1").arg("NX").exec(&mut conn).unwrap();
            }
        })
    };
    until(&mut engine, "a burst", |engine| matches!(engine.nodes().next().unwrap().sampling, Some(Sampling::On(_))))
        .await;
    busy.join().unwrap();
    let now = engine.clock.now();
    let lock = engine.table().lock_named(KeyspaceId::FIRST, b"lock:a").unwrap();
    let tries = lock.tries(now).unwrap();
    assert_eq!((tries.attempts, tries.failures, tries.unjudged), (30, 30, 0));
    let view = engine.table().view(lock, now).unwrap();
    assert_eq!((view.contenders.len(), view.contenders[0].failures), (1, 30));
    let cmdstat = |server: &Server| -> String { server.ask(&["INFO", "commandstats"]) };
    let calls = |text: &str| text.lines().find(|line| line.starts_with("cmdstat_monitor:")).map(String::from);
    engine.sample(false);
    assert!(engine.nodes().next().unwrap().sampling.is_none());
    no_monitor_is_left(&server);
    let before = calls(&cmdstat(&server));
    engine.run_for(Duration::from_millis(500)).await;
    assert!(before.is_some() && calls(&cmdstat(&server)) == before);
}

/// As ShedLock does: each attempt has a value of its own. What was waited for before a burst is not forgotten in the next one.
#[tokio::test]
async fn how_long_somebody_waits_goes_on_from_burst_to_burst() {
    let server = Arc::new(told());
    server.cli(&["SET", "lock:a", "t0", "PX", "600000"]);
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    engine.run_until_inventory().await;
    let bounds = Bounds { time: Duration::from_millis(300), lines: u64::MAX };
    let pause = Duration::from_secs(2);
    engine.sample_by(Some(Duty { burst: bounds, pause, most: None }));
    let mut tries = Worker::new();
    let (mut client, mut number) = (server.connection(), 0);
    tries.repeat(Duration::from_millis(20), move || {
        number += 1;
        redis::cmd("SET").arg("lock:a").arg(format!("attempt-{number}")).arg("NX").exec(&mut client).unwrap();
    });
    let contenders = |engine: &Engine| {
        let lock = engine.table().lock_named(KeyspaceId::FIRST, b"lock:a").unwrap();
        engine.table().view(lock, engine.clock.now()).unwrap().contenders
    };
    until(&mut engine, "a burst in which it tries", |engine| !contenders(engine).is_empty()).await;
    let (first, mut last) = (contenders(&engine)[0].first, contenders(&engine)[0].last);
    for _ in 0..2 {
        until(&mut engine, "the next burst", |engine| contenders(engine)[0].last > last + pause).await;
        let now = contenders(&engine);
        assert_eq!((now.len(), now[0].first), (1, first), "{now:#?}");
        last = now[0].last;
    }
    assert!(last.since(first) > 2 * pause && contenders(&engine)[0].is_waiting(engine.clock.now()));
}
