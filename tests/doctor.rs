//! The doctor on real servers: what it finds is true, and what it advises works.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lockscope::commands::doctor::{self, Feed, Look, Report, Status};
use lockscope::glob::{Glob, Globs};
use lockscope::permissions::{Permission, Scope};
use redis::aio::MultiplexedConnection;

struct Server {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Server {
    async fn start(args: &[&str]) -> Server {
        let binary = std::env::var("LOCKSCOPE_TEST_SERVER").unwrap_or_else(|_| "redis-server".into());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new(binary)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .current_dir(dir.path())
            .args(args)
            .stdout(Stdio::null())
            .spawn()
            .expect("a redis-server in the PATH, or LOCKSCOPE_TEST_SERVER");
        let server = Server { child, port, _dir: dir };
        let until = Instant::now() + Duration::from_secs(10);
        while server.try_connect("").await.is_err() {
            assert!(Instant::now() < until, "the server did not come up");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        server
    }

    async fn try_connect(&self, login: &str) -> redis::RedisResult<MultiplexedConnection> {
        let client = redis::Client::open(format!("redis://{login}127.0.0.1:{}", self.port))?;
        let mut conn = client.get_multiplexed_async_connection().await?;
        conn.set_response_timeout(Duration::from_secs(10));
        Ok(conn)
    }

    async fn connect(&self) -> MultiplexedConnection {
        self.try_connect("").await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scope(patterns: &[&str]) -> Scope {
    Scope::new(Globs::new(patterns.iter().map(|text| Glob::new(text).unwrap()).collect()), 0)
}

async fn examine(conn: &mut MultiplexedConnection, scope: &Scope) -> Report {
    let report = doctor::examine(conn, scope).await.unwrap();
    let (mut text, mut json) = (Vec::new(), Vec::new());
    doctor::text(&report, Look::default(), &mut text).unwrap();
    doctor::json(&report, &mut json).unwrap();
    serde_json::from_slice::<serde_json::Value>(&json).unwrap();
    report
}

fn status(report: &Report, name: &str) -> Status {
    report.check(name).unwrap_or_else(|| panic!("no check {name}")).status
}

/// Runs a line as it would be pasted into redis-cli.
async fn paste(conn: &mut MultiplexedConnection, line: &str) -> redis::RedisResult<redis::Value> {
    let mut words = line.split(' ').map(|word| word.trim_matches('\''));
    let mut command = redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        command.arg(word);
    });
    command.query_async(conn).await
}

#[tokio::test]
async fn notifications_that_are_off_are_turned_on_by_the_advice() {
    let server = Server::start(&[]).await;
    let mut conn = server.connect().await;
    let scope = scope(&["lock:*"]);
    let before = examine(&mut conn, &scope).await;
    assert_eq!(status(&before, "notifications"), Status::Warn);
    assert_eq!(doctor::feed(&before.facts, &before.permissions, &scope), Feed::Tracking);
    let asked = before.facts.product.known().unwrap().has_read_rules();
    for name in ["permissions", "writing"] {
        let expected = if asked { Status::Ok } else { Status::Unknown };
        assert_eq!(status(&before, name), expected, "{:?}", before.check(name));
    }
    assert_eq!(status(&before, "clock"), Status::Ok, "{:?}", before.check("clock"));
    assert_eq!(before.exit_code(), 0);

    paste(&mut conn, before.check("notifications").unwrap().fix.as_ref().unwrap()).await.unwrap();
    let after = examine(&mut conn, &scope).await;
    let check = after.check("notifications").unwrap();
    assert_eq!((check.status, &check.fix), (Status::Ok, &None), "{}", check.finding);
    assert_eq!(doctor::feed(&after.facts, &after.permissions, &scope), Feed::Notifications);
}

#[tokio::test]
async fn the_advice_keeps_events_that_somebody_else_needs() {
    let server = Server::start(&["--notify-keyspace-events", "Ex"]).await;
    let mut conn = server.connect().await;
    let before = examine(&mut conn, &scope(&["lock:*"])).await;
    assert!(before.check("notifications").unwrap().finding.contains("without events by key"));
    paste(&mut conn, before.check("notifications").unwrap().fix.as_ref().unwrap()).await.unwrap();
    let after = examine(&mut conn, &scope(&["lock:*"])).await;
    assert_eq!(status(&after, "notifications"), Status::Ok);
    let flags = after.facts.settings.events.known().unwrap();
    assert!(flags.has('E') && flags.has('x'), "{flags:?}");
}

#[tokio::test]
async fn kea_is_enough_and_says_what_does_not_show() {
    let server = Server::start(&["--notify-keyspace-events", "KEA"]).await;
    let report = examine(&mut server.connect().await, &scope(&["*lock*"])).await;
    let check = report.check("notifications").unwrap();
    assert_eq!(check.status, Status::Ok);
    if report.facts.product.known().unwrap().sends_new_key_events() {
        assert!(check.finding.contains("does not show while A is set"), "{}", check.finding);
    }
    assert_eq!(doctor::feed(&report.facts, &report.permissions, &scope(&["*lock*"])), Feed::Notifications);
}

#[tokio::test]
async fn a_cache_may_drop_locks() {
    let server = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let mut conn = server.connect().await;
    let report = examine(&mut conn, &scope(&["lock:*"])).await;
    let check = report.check("eviction").unwrap();
    assert_eq!(check.status, Status::Warn, "{}", check.finding);
    assert!(check.finding.contains("allkeys-lru") && check.finding.contains("100.0 MB"), "{}", check.finding);

    let _: () = redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1kb").query_async(&mut conn).await.unwrap();
    let report = examine(&mut conn, &scope(&["lock:*"])).await;
    assert_eq!((status(&report, "eviction"), report.exit_code()), (Status::Bad, 1));
}

#[tokio::test]
async fn the_observers_line_allows_all_that_watching_takes_and_no_write() {
    let server = Server::start(&[]).await;
    let mut admin = server.connect().await;
    let scope = scope(&["lock:*", "uniquejobs:*", "{hangfire}:*:lock", "[Ll]ease?:*"]);
    let report = examine(&mut admin, &scope).await;
    paste(&mut admin, &report.observer_acl).await.unwrap();
    for key in ["lock:a", "Leases:a"] {
        let _: () = redis::cmd("SET").arg(key).arg("t").query_async(&mut admin).await.unwrap();
    }

    let mut conn = server.try_connect("lockscope-observer:PASSWORD@").await.unwrap();
    let seen = examine(&mut conn, &scope).await;
    if seen.facts.product.known().unwrap().has_read_rules() {
        assert_eq!(status(&seen, "permissions"), Status::Ok, "{:?}", seen.check("permissions"));
        assert!(seen.check("writing").unwrap().finding.contains("may look only"));
        assert!(seen.permissions.observer.iter().all(|g| g.permission == Permission::Allowed));
        assert!(seen.permissions.readable.iter().all(|(_, read)| *read == Permission::Allowed));
        assert!(seen.permissions.operator.iter().all(|g| matches!(g.permission, Permission::Denied { .. })));
    }
    for line in ["GET lock:a", "PTTL Leases:a", "SCAN 0", "MEMORY USAGE lock:a", "HGETALL lock:none", "CLIENT LIST"] {
        paste(&mut conn, line).await.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    for line in ["SET lock:a x", "DEL lock:a", "GET other", "PEXPIRE lock:a 1", "CONFIG SET maxmemory 1", "KEYS *"] {
        let error = paste(&mut conn, line).await.expect_err(line);
        assert_eq!(error.code(), Some("NOPERM"), "{line}: {error}");
    }
    let client = redis::Client::open(format!("redis://lockscope-observer:PASSWORD@127.0.0.1:{}", server.port)).unwrap();
    let mut events = client.get_async_pubsub().await.unwrap();
    for pattern in &scope.subscriptions {
        events.psubscribe(pattern).await.unwrap_or_else(|error| panic!("{pattern}: {error}"));
    }
    assert!(events.psubscribe("__keyspace@0__:*").await.is_err(), "no more than it needs");
}

#[tokio::test]
async fn the_operators_line_allows_writes_under_the_patterns_only() {
    let server = Server::start(&[]).await;
    let mut admin = server.connect().await;
    let scope = scope(&["lock:*"]);
    let report = examine(&mut admin, &scope).await;
    paste(&mut admin, &report.operator_acl).await.unwrap();
    let mut conn = server.try_connect("lockscope-operator:PASSWORD@").await.unwrap();
    let seen = examine(&mut conn, &scope).await;
    if seen.facts.product.known().unwrap().has_read_rules() {
        for name in ["permissions", "writing"] {
            assert_eq!(status(&seen, name), Status::Ok, "{:?}", seen.check(name));
        }
    }
    for line in [
        "SET lock:a t NX PX 30000",
        "LPUSH lock-signal:a 1",
        "ZADD redisson_lock_timeout:{lock:a} 1 w",
        "DEL {lock:a}:uuid:1:rwlock_timeout:1",
        "PUBLISH redisson_lock__channel:{lock:a} 0",
    ] {
        paste(&mut conn, line).await.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    let script = redis::Script::new(
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('publish', ARGV[2], '0') return redis.call('del', KEYS[1]) end return 0",
    );
    let freed: i64 =
        script.key("lock:a").arg("t").arg("redisson_lock__channel:{lock:a}").invoke_async(&mut conn).await.unwrap();
    assert_eq!(freed, 1);
    for line in ["SET other x", "PUBLISH other 0", "FLUSHALL", "CONFIG SET maxmemory 1"] {
        let error = paste(&mut conn, line).await.expect_err(line);
        assert_eq!(error.code(), Some("NOPERM"), "{line}: {error}");
    }
}

#[tokio::test]
async fn a_user_who_may_do_little_gets_unknowns_and_the_fix_for_them() {
    let server = Server::start(&[]).await;
    let mut admin = server.connect().await;
    paste(&mut admin, "ACL SETUSER poor on >pw ~* resetchannels +ping +get +acl|whoami +acl|dryrun").await.unwrap();
    let mut conn = server.try_connect("poor:pw@").await.unwrap();
    let scope = scope(&["lock:*"]);
    let report = examine(&mut conn, &scope).await;
    for name in ["version", "eviction", "persistence", "replication", "clock", "notifications", "connections"] {
        let check = report.check(name).unwrap();
        assert_eq!(check.status, Status::Unknown, "{check:?}");
        assert!(check.finding.contains("may not run"), "{}", check.finding);
    }
    let check = report.check("permissions").unwrap();
    if check.status != Status::Unknown {
        assert_eq!((check.status, report.exit_code()), (Status::Bad, 1), "without SCAN there is nothing to see");
        paste(&mut admin, check.fix.as_ref().unwrap()).await.unwrap();
        let after = examine(&mut conn, &scope).await;
        assert_eq!(status(&after, "permissions"), Status::Ok, "{:?}", after.check("permissions"));
        assert_eq!(status(&after, "version"), Status::Ok);
    }

    paste(&mut admin, "ACL SETUSER poorest on >pw resetchannels +ping").await.unwrap();
    let report = examine(&mut server.try_connect("poorest:pw@").await.unwrap(), &scope).await;
    assert!(report.checks.iter().all(|check| check.status == Status::Unknown), "{:#?}", report.checks);
    assert_eq!(report.exit_code(), 0);
}

#[tokio::test]
async fn a_replica_points_to_its_master() {
    let master = Server::start(&["--repl-diskless-sync-delay", "0"]).await;
    let port = master.port.to_string();
    let replica = Server::start(&["--replicaof", "127.0.0.1", &port]).await;
    let until = Instant::now() + Duration::from_secs(20);
    let mut conn = replica.connect().await;
    let check = loop {
        let report = examine(&mut conn, &scope(&["lock:*"])).await;
        let check = report.check("replication").unwrap().clone();
        if check.status == Status::Warn {
            break check;
        }
        assert_eq!(check.status, Status::Bad, "{check:?}");
        assert!(Instant::now() < until, "the replica did not come up: {check:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(check.fix.unwrap().contains(&format!("redis://127.0.0.1:{port}")));
    let report = examine(&mut master.connect().await, &scope(&["lock:*"])).await;
    assert!(report.check("replication").unwrap().finding.contains("a master with 1 replica, 1 online"));
}

#[tokio::test]
async fn a_server_stuck_in_a_script_is_told_as_such() {
    let server = Server::start(&["--lua-time-limit", "50"]).await;
    let mut busy = server.connect().await;
    let endless = tokio::spawn(async move {
        let _: redis::RedisResult<()> = redis::cmd("EVAL").arg("while true do end").arg(0).query_async(&mut busy).await;
    });
    let mut conn = server.connect().await;
    let until = Instant::now() + Duration::from_secs(10);
    while redis::cmd("PING").query_async::<()>(&mut conn).await.is_ok() {
        assert!(Instant::now() < until, "the script did not start");
    }
    let report = examine(&mut conn, &scope(&["lock:*"])).await;
    assert_eq!((status(&report, "ready"), report.exit_code()), (Status::Bad, 1), "{:#?}", report.checks);
    let _: () = redis::cmd("SCRIPT").arg("KILL").query_async(&mut conn).await.unwrap();
    endless.await.unwrap();
}
