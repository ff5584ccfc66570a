//! Every change of a lock is reported as what it is, whichever feed reports it.

mod common;

use std::time::{Duration, Instant};

use common::feed::held;
use common::program::events;
use common::{Feed, Server, Watching, wait_until};

const LOCKS: &[&str] = &["-p", "lock:*"];
const PATIENCE: Duration = Duration::from_secs(30);

fn now_ms(server: &Server) -> i64 {
    let (seconds, micros): (i64, i64) = server.ask(&["TIME"]);
    seconds * 1000 + micros / 1000
}

#[test]
fn the_life_of_a_lock_is_told_by_every_feed() {
    std::thread::scope(|scope| {
        for feed in Feed::ALL {
            scope.spawn(move || life(feed));
        }
    });
}

fn life(feed: Feed) {
    let server = feed.server();
    server.cli(&["SET", "lock:before", "early", "PX", "600000"]);
    let mut watch = feed.watch(&server, LOCKS);
    let found = watch.tells("lock:before", "found");
    assert_eq!((&found["holder"], &found["previous"]), (&"early".into(), &().into()));

    for key in ["lock:a", "lock:again", "lock:short"] {
        server.cli(&["SET", key, "t-1", "NX", "PX", if key == "lock:short" { "15000" } else { "60000" }]);
    }
    for key in ["lock:a", "lock:again", "lock:short"] {
        let line = watch.tells(key, "acquired");
        assert_eq!((&line["holder"], &line["previous"]), (&"t-1".into(), &().into()), "{feed:?}");
    }
    // A renewal by PEXPIRE, and one that sets again as node-redlock and BullMQ do.
    server.cli(&["PEXPIRE", "lock:a", "90000"]);
    server.cli(&["SET", "lock:again", "t-1", "PX", "90000"]);
    for key in ["lock:a", "lock:again"] {
        let line = watch.tells(key, "renewed");
        assert_eq!((&line["holder"], &line["why"]), (&"t-1".into(), &().into()), "{feed:?}");
    }
    server.cli(&["DEL", "lock:a"]);
    let line = watch.tells("lock:a", "released");
    assert_eq!((&line["holder"], &line["previous"]), (&().into(), &"t-1".into()), "{feed:?}");
    if feed != Feed::Polling {
        server.cli(&["PEXPIRE", "lock:short", "300"]);
    }
    let line = watch.next("lock:short");
    // A shorter lease is reported as a renewal if the feed names the change.
    let line = if line["event"] == "renewed" { watch.next("lock:short") } else { line };
    assert_eq!((&line["event"], &line["previous"]), (&"expired".into(), &"t-1".into()), "{feed:?}: {}", watch.story());

    server.cli(&["SET", "lock:again", "t-2", "PX", "60000"]);
    if feed == Feed::Notifications {
        let line = watch.tells("lock:again", "taken");
        assert_eq!((&line["holder"], &line["previous"]), (&"t-2".into(), &"t-1".into()));
    } else {
        // Other feeds do not name the change: one holder left and another came.
        watch.tells("lock:again", "released");
        assert_eq!(watch.tells("lock:again", "acquired")["holder"], "t-2");
    }
    let source = if feed == Feed::Polling { "scan" } else { feed.name().trim_end_matches('s') };
    assert!(watch.lines().iter().any(|line| line["event"] == "released" && line["source"] == source), "{feed:?}");
    if feed != Feed::Polling {
        watch.tells_no_more(&server, &["lock:a", "lock:short", "lock:again", "lock:before"]);
    }
}

#[test]
fn every_way_to_end_is_told_apart_by_notifications() {
    let feed = Feed::Notifications;
    let server = feed.server();
    let mut watch = feed.watch(&server, LOCKS);
    for (key, end) in [("lock:unlink", "UNLINK"), ("lock:getdel", "GETDEL"), ("lock:rename", "RENAME")] {
        server.cli(&["SET", key, "t", "NX", "PX", "60000"]);
        watch.tells(key, "acquired");
        if end == "RENAME" {
            server.cli(&[end, key, "lock:renamed"]);
            assert_eq!(watch.tells(key, "lost")["why"], "renamed away");
            assert_eq!(watch.tells("lock:renamed", "acquired")["holder"], "t");
        } else {
            server.cli(&[end, key]);
            watch.tells(key, "released");
        }
    }
    server.cli(&["SET", "lock:overwritten", "t", "NX", "PX", "60000"]);
    watch.tells("lock:overwritten", "acquired");
    server.cli(&[
        "EVAL",
        "redis.call('DEL', KEYS[1]) redis.call('RPUSH', KEYS[1], 'no lock')",
        "1",
        "lock:overwritten",
    ]);
    let line = watch.next("lock:overwritten");
    assert!(line["event"] == "released" || line["event"] == "lost", "{line}");
    watch.tells_no_more(&server, &["lock:overwritten"]);
}

#[test]
fn an_evicted_lock_is_lost() {
    let server = Server::notifying(&["--maxmemory-policy", "volatile-ttl"]);
    let mut watch = Feed::Notifications.watch(&server, LOCKS);
    server.cli(&["SET", "lock:evicted", "t", "NX", "PX", "60000"]);
    watch.tells("lock:evicted", "acquired");
    let info: String = server.ask(&["INFO", "memory"]);
    let used: u64 = common::server::field(&info, "used_memory").unwrap().parse().unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", &(used + 1_000_000).to_string()]);
    let filler = "x".repeat(20_000);
    let mut number = 0;
    wait_until("the lock is evicted", PATIENCE, || {
        for _ in 0..50 {
            number += 1;
            let key = format!("filler:{number}");
            let _ = server.try_ask::<redis::Value, _>(&["SET", &key, &filler, "PX", "3600000"]);
        }
        server.ask::<i64, _>(&["EXISTS", "lock:evicted"]) == 0
    });
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let line = watch.tells("lock:evicted", "lost");
    assert_eq!((&line["why"], &line["previous"]), (&"evicted".into(), &"t".into()));
}

#[test]
fn emptied_and_swapped_databases_are_noticed_by_every_feed() {
    std::thread::scope(|scope| {
        for feed in Feed::ALL {
            for command in ["FLUSHALL", "FLUSHDB", "SWAPDB"] {
                scope.spawn(move || flush(feed, command));
            }
        }
    });
}

fn flush(feed: Feed, command: &str) {
    let server = feed.server();
    let mut other = server.connection();
    redis::cmd("SELECT").arg(1).exec(&mut other).unwrap();
    for (key, token) in [("lock:same", "of-db-1"), ("lock:of-db-1", "other")] {
        redis::cmd("SET").arg(key).arg(token).arg("PX").arg(600_000).exec(&mut other).unwrap();
    }
    for key in ["lock:one", "lock:two", "lock:same"] {
        server.cli(&["SET", key, "t", "PX", "600000"]);
    }
    let mut watch = feed.start(&server, LOCKS);
    for key in ["lock:one", "lock:two", "lock:same"] {
        assert_eq!(watch.next(key)["holder"], "t");
    }
    if command == "SWAPDB" {
        server.cli(&[command, "0", "1"])
    } else {
        server.cli(&[command])
    };
    for key in ["lock:one", "lock:two", "lock:same"] {
        assert_eq!(watch.tells(key, "lost")["why"], "flushed", "{feed:?}: {}", watch.story());
    }
    if command == "SWAPDB" {
        assert_eq!(watch.next("lock:same")["holder"], "of-db-1", "{feed:?}");
        assert_eq!(watch.next("lock:of-db-1")["holder"], "other", "{feed:?}");
    }
}

const ENTER: &str = "redis.call('HINCRBY', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], 30000)";
const LEAVE: &str = "if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then redis.call('PEXPIRE', KEYS[1], 30000) \
    else redis.call('DEL', KEYS[1]) end";

#[test]
fn a_reentrant_lock_is_taken_once_and_released_once() {
    for feed in [Feed::Notifications, Feed::Tracking] {
        let server = feed.server();
        let mut watch = feed.watch(&server, LOCKS);
        let holder = "e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5d:17";
        let run = |script| drop(server.cli(&["EVAL", script, "1", "lock:re", holder]));
        run(ENTER);
        assert_eq!(watch.tells("lock:re", "acquired")["holder"], holder);
        run(ENTER);
        run(LEAVE);
        run(LEAVE);
        loop {
            let line = watch.next("lock:re");
            if line["event"] != "renewed" {
                assert_eq!((&line["event"], &line["previous"]), (&"released".into(), &holder.into()), "{feed:?}");
                break;
            }
        }
        watch.tells_no_more(&server, &["lock:re"]);
    }
}

#[test]
fn readers_come_and_go_without_ending_the_lock() {
    for feed in [Feed::Notifications, Feed::Tracking] {
        let server = feed.server();
        let mut watch = feed.watch(&server, LOCKS);
        let reader = |n: u8| format!("e9b1c3a4-5d6f-4a7b-8c9d-0e1f2a3b4c5{n}:17");
        server.cli(&[
            "EVAL",
            "redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], 60000)",
            "1",
            "lock:rw",
            &reader(1),
        ]);
        assert_eq!(watch.tells("lock:rw", "acquired")["holder"], *reader(1));
        server.cli(&["HSET", "lock:rw", &reader(2), "1"]);
        assert_eq!(watch.tells("lock:rw", "acquired")["holder"], *reader(2));
        server.cli(&["HDEL", "lock:rw", &reader(1)]);
        let line = watch.tells("lock:rw", "released");
        assert_eq!((&line["holder"], &line["previous"]), (&().into(), &(*reader(1)).into()), "{feed:?}");
        server.cli(&["DEL", "lock:rw"]);
        assert_eq!(watch.tells("lock:rw", "released")["previous"], *reader(2));
        watch.tells_no_more(&server, &["lock:rw"]);
    }
}

#[test]
fn a_lock_that_runs_out_is_told_in_time_even_if_the_server_is_late() {
    for feed in [Feed::Notifications, Feed::Tracking] {
        let server = feed.server();
        // With this many keys to check, the server expires the lock only after many seconds.
        let fill = "for n = 1, 20000 do redis.call('SET', 'session:' .. n, 'x', 'PX', 3600000 + n) end";
        server.cli(&["EVAL", fill, "0"]);
        let mut watch = feed.watch(&server, LOCKS);
        for (key, first) in [("lock:runs-out", None), ("lock:shorter-than-before", Some("3600000"))] {
            if let Some(ttl) = first {
                server.cli(&["SET", key, "t", "NX", "PX", ttl]);
                watch.tells(key, "acquired");
                server.cli(&["DEL", key]);
                watch.tells(key, "released");
            }
            server.cli(&["SET", key, "t", "NX", "PX", "400"]);
            let due = now_ms(&server) + 400;
            watch.tells(key, "acquired");
            watch.tells(key, "expired");
            let late = now_ms(&server) - due;
            assert!(late < 2_500, "{feed:?} {key}: {late} ms late");
        }
    }
}

#[test]
fn a_key_under_two_patterns_is_told_once() {
    let feed = Feed::Notifications;
    let server = feed.server();
    let mut watch = feed.watch(&server, &["-p", "lock:*", "-p", "*:both", "-p", "*ck:bot*"]);
    server.cli(&["SET", "lock:both", "t", "NX", "PX", "30000"]);
    watch.tells("lock:both", "acquired");
    for _ in 0..3 {
        server.cli(&["PEXPIRE", "lock:both", "30000"]);
        watch.tells("lock:both", "renewed");
    }
    server.cli(&["DEL", "lock:both"]);
    watch.tells("lock:both", "released");
    watch.tells_no_more(&server, &["lock:both"]);
}

#[test]
fn the_first_ttl_of_a_legacy_lock_is_no_renewal() {
    let feed = Feed::Notifications;
    let server = feed.server();
    let mut watch = feed.watch(&server, LOCKS);
    let mut connection = server.connection();
    redis::cmd("SETNX").arg("lock:legacy").arg("t").exec(&mut connection).unwrap();
    let taken = Instant::now();
    watch.tells("lock:legacy", "acquired");
    redis::cmd("EXPIRE").arg("lock:legacy").arg(30).exec(&mut connection).unwrap();
    // Later than that it can only look like a renewal.
    let in_time = taken.elapsed() < Duration::from_millis(900);
    redis::cmd("DEL").arg("lock:legacy").exec(&mut connection).unwrap();
    let line = watch.next("lock:legacy");
    assert!(line["event"] == "released" || !in_time, "{}", watch.story());
}

#[test]
fn a_key_that_was_no_lock_and_becomes_one_is_seen() {
    for feed in [Feed::Notifications, Feed::Tracking] {
        let server = feed.server();
        server.cli(&["RPUSH", "lock:queue", "x"]);
        let mut watch = feed.watch(&server, LOCKS);
        server.cli(&["RPUSH", "lock:queue", "y"]);
        watch.fence(&server);
        server.cli(&["SET", "lock:queue", "t", "PX", "60000"]);
        assert_eq!(watch.next("lock:queue")["holder"], "t", "{feed:?}");
    }
}

/// They are gone before anybody can look: the event's own name says that they are no locks.
#[test]
fn lists_and_sets_that_come_and_go_are_not_told_as_locks() {
    let server = Feed::Notifications.server();
    let mut watch = Feed::Notifications.watch(&server, LOCKS);
    let mut connection = server.connection();
    let mut passes = redis::pipe();
    for _ in 0..100 {
        passes.cmd("RPUSH").arg("lock:queue").arg("job").cmd("LPOP").arg("lock:queue");
        passes.cmd("SADD").arg("lock:members").arg("worker").cmd("SREM").arg("lock:members").arg("worker");
    }
    passes.exec(&mut connection).unwrap();
    watch.tells_no_more(&server, &["lock:queue", "lock:members"]);
}

#[test]
fn the_feed_in_use_is_always_visible() {
    for feed in Feed::ALL {
        let server = feed.server();
        server.cli(&["SET", "lock:a", "t", "PX", "60000"]);
        let document = feed.ls(&server, &["-p", "lock:*", "--observe", "300ms"]);
        let node = &document["server"]["nodes"][0];
        assert_eq!(node["stream"], feed.name(), "{node}");
        assert_eq!(node["note"].is_null(), feed == Feed::Notifications, "{node}");
        assert_eq!(held(&document), [("lock:a".to_string(), vec!["t".to_string()])]);
        assert_eq!(feed.ls(&server, &["-p", "lock:*"])["server"]["nodes"][0]["stream"], "off");
    }
}

#[test]
fn notifications_turned_on_and_off_meanwhile_break_nothing() {
    let feed = Feed::Tracking;
    let server = feed.server();
    let mut watch = feed.watch(&server, LOCKS);
    server.cli(&["SET", "lock:stays", "t", "PX", "600000"]);
    watch.tells("lock:stays", "acquired");
    for (setting, name) in [(events(), "by notifications"), ("", "by tracking"), (events(), "by notifications")] {
        let before = watch.stderr().iter().filter(|line| line.contains(name)).count();
        server.cli(&["CONFIG", "SET", "notify-keyspace-events", setting]);
        watch.says_again(name, before + 1);
        let key = format!("lock:{}", watch.stderr().len());
        server.cli(&["SET", &key, "t", "NX", "PX", "600000"]);
        let line = watch.next(&key);
        // It is `found` if it came before the first walk of the new feed was done.
        assert!(line["event"] == "acquired" || line["event"] == "found", "{line}");
        server.cli(&["DEL", &key]);
        watch.tells(&key, "released");
    }
    watch.tells_no_more(&server, &["lock:stays"]);
}

#[test]
fn a_lesser_source_goes_on_while_it_looks_for_a_better_one() {
    let feeds = [Feed::Tracking, Feed::Polling].map(|feed| (feed, feed.server()));
    let watches = feeds.each_ref().map(|(feed, server)| feed.start(server, LOCKS));
    // Longer than it waits before it looks. Each start of a source leaves a gap, and says by which it follows.
    std::thread::sleep(Duration::from_secs(33));
    for ((feed, _), watch) in feeds.iter().zip(&watches) {
        let started = watch.stderr().iter().filter(|line| line.contains(&format!("by {}", feed.name()))).count();
        assert_eq!(started, 1, "{feed:?}: {:?}", watch.stderr());
    }
}

#[test]
fn locks_of_another_database_are_not_ours() {
    for feed in [Feed::Notifications, Feed::Tracking] {
        let server = feed.server();
        let mut watch = feed.watch(&server, LOCKS);
        let mut other = server.connection();
        redis::cmd("SELECT").arg(3).exec(&mut other).unwrap();
        redis::cmd("SET").arg("lock:there").arg("t").exec(&mut other).unwrap();
        watch.tells_no_more(&server, &["lock:there"]);
        drop::<Watching>(watch);
    }
}
