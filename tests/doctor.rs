//! The doctor on real servers: what it finds is true, and what it advises works.

mod common;

use std::time::{Duration, Instant};

use common::Server;
use common::program::has;
use lockscope::base::glob::{Glob, Globs};
use lockscope::commands::doctor;
use lockscope::server::health::{self, Feed, Report, Status};
use lockscope::server::permissions::{Permission, Permissions, Scope};
use redis::aio::MultiplexedConnection;

async fn connect_as(server: &Server, login: &str) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{login}127.0.0.1:{}", server.port())).unwrap();
    let mut conn = client.get_multiplexed_async_connection().await.unwrap();
    conn.set_response_timeout(Duration::from_secs(10));
    conn
}

async fn connect(server: &Server) -> MultiplexedConnection {
    connect_as(server, "").await
}

fn scope(patterns: &[&str]) -> Scope {
    Scope::new(Globs::new(patterns.iter().map(|text| Glob::new(text).unwrap()).collect()), 0)
}

async fn examine(conn: &mut MultiplexedConnection, scope: &Scope) -> Report {
    let report = health::examine(conn, scope).await.unwrap();
    let (mut text, mut json) = (Vec::new(), Vec::new());
    doctor::text(&report, &doctor::TextStyle::default(), &mut text).unwrap();
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
    let server = Server::start();
    let mut conn = connect(&server).await;
    let scope = scope(&["lock:*"]);
    let before = examine(&mut conn, &scope).await;
    assert_eq!(status(&before, "notifications"), Status::Warn);
    assert_eq!(health::feed(&before.facts, &before.permissions), Feed::Tracking);
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
    assert_eq!(health::feed(&after.facts, &after.permissions), Feed::Notifications);
}

#[tokio::test]
async fn the_advice_keeps_events_that_somebody_else_needs() {
    let server = Server::with(&["--notify-keyspace-events", "Ex"]);
    let mut conn = connect(&server).await;
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
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let report = examine(&mut connect(&server).await, &scope(&["*lock*"])).await;
    let check = report.check("notifications").unwrap();
    assert_eq!(check.status, Status::Ok);
    if report.facts.product.known().unwrap().sends_new_key_events() {
        assert!(check.finding.contains("does not show while A is set"), "{}", check.finding);
    }
    assert_eq!(health::feed(&report.facts, &report.permissions), Feed::Notifications);
}

#[tokio::test]
async fn a_cache_may_drop_locks() {
    let server = Server::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let mut conn = connect(&server).await;
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
    let server = Server::start();
    let mut admin = connect(&server).await;
    let scope = scope(&["lock:*", "uniquejobs:*", "{hangfire}:*:lock", "[Ll]ease?:*"]);
    let report = examine(&mut admin, &scope).await;
    paste(&mut admin, &report.observer_acl).await.unwrap();
    for key in ["lock:a", "Leases:a"] {
        let _: () = redis::cmd("SET").arg(key).arg("t").query_async(&mut admin).await.unwrap();
    }

    let mut conn = connect_as(&server, "lockscope-observer:PASSWORD@").await;
    let seen = examine(&mut conn, &scope).await;
    if has((7, 0), "rules for reading alone") {
        assert!(seen.facts.product.known().unwrap().has_read_rules());
        assert_eq!(status(&seen, "permissions"), Status::Ok, "{:?}", seen.check("permissions"));
        assert!(seen.check("writing").unwrap().finding.contains("may only watch"));
        let sampling = seen.check("sampling").unwrap();
        assert!(sampling.status == Status::Ok && sampling.finding.contains("may not run MONITOR"), "{sampling:?}");
        paste(&mut admin, &report.sampling_acl).await.unwrap();
        let finding = examine(&mut conn, &scope).await.check("sampling").unwrap().finding.clone();
        assert!(finding.contains("may run MONITOR"), "{finding}");
        let Permissions { observer, readable, operator, .. } = &seen.permissions;
        assert!(!observer.is_empty() && !readable.is_empty() && !operator.is_empty(), "all of it was asked for");
        assert!(observer.iter().all(|g| g.permission == Permission::Allowed));
        assert!(readable.iter().all(|(_, read)| *read == Permission::Allowed));
        assert!(operator.iter().all(|g| matches!(g.permission, Permission::Denied { .. })));
    }
    for line in
        ["GETRANGE lock:a 0 9", "PTTL Leases:a", "SCAN 0", "MEMORY USAGE lock:a", "HGETALL lock:none", "CLIENT LIST"]
    {
        paste(&mut conn, line).await.unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    for line in
        ["SET lock:a x", "DEL lock:a", "GETRANGE other 0 9", "PEXPIRE lock:a 1", "CONFIG SET maxmemory 1", "KEYS *"]
    {
        let error = paste(&mut conn, line).await.expect_err(line);
        assert_eq!(error.code(), Some("NOPERM"), "{line}: {error}");
    }
    let client =
        redis::Client::open(format!("redis://lockscope-observer:PASSWORD@127.0.0.1:{}", server.port())).unwrap();
    let mut events = client.get_async_pubsub().await.unwrap();
    for pattern in &scope.subscriptions {
        events.psubscribe(pattern).await.unwrap_or_else(|error| panic!("{pattern}: {error}"));
    }
    assert!(events.psubscribe("__keyspace@0__:*").await.is_err(), "no more than it needs");
}

#[tokio::test]
async fn the_operators_line_allows_writes_under_the_patterns_only() {
    let server = Server::start();
    let mut admin = connect(&server).await;
    let scope = scope(&["lock:*"]);
    let report = examine(&mut admin, &scope).await;
    paste(&mut admin, &report.operator_acl).await.unwrap();
    let mut conn = connect_as(&server, "lockscope-operator:PASSWORD@").await;
    let seen = examine(&mut conn, &scope).await;
    if has((7, 0), "rules for reading alone") {
        assert!(seen.facts.product.known().unwrap().has_read_rules());
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
    // With EVAL, as our own scripts: SCRIPT LOAD is not granted.
    let script = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('publish', ARGV[2], '0') return \
        redis.call('del', KEYS[1]) end return 0";
    let mut free = redis::cmd("EVAL");
    free.arg(script).arg(1).arg("lock:a").arg("t").arg("redisson_lock__channel:{lock:a}");
    let freed: i64 = free.query_async(&mut conn).await.unwrap();
    assert_eq!(freed, 1);
    for line in ["SET other x", "PUBLISH other 0", "FLUSHALL", "CONFIG SET maxmemory 1"] {
        let error = paste(&mut conn, line).await.expect_err(line);
        assert_eq!(error.code(), Some("NOPERM"), "{line}: {error}");
    }
}

#[tokio::test]
async fn a_user_who_may_do_little_gets_unknowns_and_the_fix_for_them() {
    let server = Server::start();
    let mut admin = connect(&server).await;
    paste(&mut admin, "ACL SETUSER poor on >pw ~* resetchannels +ping +get +acl|whoami +acl|dryrun").await.unwrap();
    let mut conn = connect_as(&server, "poor:pw@").await;
    let scope = scope(&["lock:*"]);
    let report = examine(&mut conn, &scope).await;
    for name in ["version", "eviction", "persistence", "replication", "clock", "notifications", "connections"] {
        let check = report.check(name).unwrap();
        assert_eq!(check.status, Status::Unknown, "{check:?}");
        assert!(check.finding.contains("may not run"), "{}", check.finding);
    }
    let check = report.check("permissions").unwrap();
    if has((7, 0), "way to ask what a user may do") {
        assert_eq!((check.status, report.exit_code()), (Status::Bad, 1), "without SCAN there is nothing to see");
        paste(&mut admin, check.fix.as_ref().unwrap()).await.unwrap();
        let after = examine(&mut conn, &scope).await;
        assert_eq!(status(&after, "permissions"), Status::Ok, "{:?}", after.check("permissions"));
        assert_eq!(status(&after, "version"), Status::Ok);
    }

    paste(&mut admin, "ACL SETUSER poorest on >pw resetchannels +ping").await.unwrap();
    let report = examine(&mut connect_as(&server, "poorest:pw@").await, &scope).await;
    assert!(report.checks.iter().all(|check| check.status == Status::Unknown), "{:#?}", report.checks);
    assert_eq!(report.exit_code(), 0);
}

#[tokio::test]
async fn a_user_with_all_event_channels_is_not_told_to_ask_for_narrower_ones() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let mut admin = connect(&server).await;
    paste(&mut admin, "ACL SETUSER wide on >pw ~* resetchannels &__key* +@all").await.unwrap();
    let report = examine(&mut connect_as(&server, "wide:pw@").await, &scope(&["lock:*"])).await;
    assert_eq!(health::feed(&report.facts, &report.permissions), Feed::Notifications);
    assert_eq!(status(&report, "notifications"), Status::Ok);
}

#[tokio::test]
async fn a_replica_points_to_its_master() {
    let master = Server::with(&["--repl-diskless-sync-delay", "0"]);
    let port = master.port().to_string();
    let replica = Server::with(&["--replicaof", "127.0.0.1", &port]);
    let until = Instant::now() + Duration::from_secs(20);
    let mut conn = connect(&replica).await;
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
    let writing = examine(&mut conn, &scope(&["lock:*"])).await.check("writing").unwrap().finding.clone();
    assert!(!writing.contains("may free") && writing.contains(&format!("127.0.0.1:{port}")), "{writing}");
    // The master calls its replica online only after the replica's first acknowledgement, up to a second later.
    let mut conn = connect(&master).await;
    loop {
        let report = examine(&mut conn, &scope(&["lock:*"])).await;
        let finding = report.check("replication").unwrap().finding.clone();
        if finding.contains("a master with 1 replica, 1 online") {
            break;
        }
        assert!(Instant::now() < until, "the master never called its replica online: {finding}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_server_stuck_in_a_script_is_told_as_such() {
    let server = Server::with(&["--lua-time-limit", "50"]);
    let mut busy = connect(&server).await;
    let endless = tokio::spawn(async move {
        let _: redis::RedisResult<()> = redis::cmd("EVAL").arg("while true do end").arg(0).query_async(&mut busy).await;
    });
    let mut conn = connect(&server).await;
    let until = Instant::now() + Duration::from_secs(10);
    while redis::cmd("PING").query_async::<()>(&mut conn).await.is_ok() {
        assert!(Instant::now() < until, "the script did not start");
    }
    let report = examine(&mut conn, &scope(&["lock:*"])).await;
    assert_eq!((status(&report, "ready"), report.exit_code()), (Status::Bad, 1), "{:#?}", report.checks);
    let _: () = redis::cmd("SCRIPT").arg("KILL").query_async(&mut conn).await.unwrap();
    endless.await.unwrap();
}
