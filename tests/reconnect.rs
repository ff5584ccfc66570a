//! A server that goes away and comes back, and event streams that break: afterwards the table is correct, and nothing
//! is reported that was not seen.

mod common;

use std::time::Duration;

use common::feed::held;
use common::{Feed, Server, Watching, wait_until};
use redis::ConnectionLike;

const LOCKS: &[&str] = &["-p", "lock:*"];
const PATIENCE: Duration = Duration::from_secs(30);

/// The output of `watch` so far adds up to the same locks and holders as a fresh read of the server.
#[track_caller]
fn agrees_with_the_server(watch: &Watching, server: &Server) {
    let told = || -> Vec<(String, String)> {
        let mut holders = std::collections::BTreeMap::new();
        for line in watch.lines() {
            let key = line["key"].as_str().unwrap().to_string();
            match line["event"].as_str().unwrap() {
                "released" | "expired" | "lost" => drop(holders.remove(&key)),
                _ => drop(holders.insert(key, line["holder"].as_str().unwrap_or("").to_string())),
            }
        }
        holders.into_iter().collect()
    };
    let truth = || -> Vec<(String, String)> {
        let document = Feed::Notifications.ls(server, LOCKS);
        held(&document).into_iter().map(|(key, holders)| (key, holders.join(","))).collect()
    };
    wait_until("what was told is what is there", PATIENCE, || told() == truth());
}

#[test]
fn a_server_that_comes_back_empty_leaves_no_ghosts() {
    std::thread::scope(|scope| {
        for feed in [Feed::Notifications, Feed::Tracking] {
            scope.spawn(move || {
                let mut server = feed.server();
                let mut watch = feed.watch(&server, LOCKS);
                for key in ["lock:a", "lock:b"] {
                    server.cli(&["SET", key, "t", "NX", "PX", "600000"]);
                    watch.tells(key, "acquired");
                }
                server.kill();
                watch.says("reconnecting: ");
                server.restart();
                for key in ["lock:a", "lock:b"] {
                    let line = watch.tells(key, "lost");
                    assert_eq!((&line["cause"], &line["previous"]), (&"restart".into(), &"t".into()), "{feed:?}");
                }
                watch.says_again(&format!("by {}", feed.name()), 2);
                server.cli(&["SET", "lock:a", "u", "NX", "PX", "600000"]);
                assert_eq!(watch.next("lock:a")["holder"], "u");
                agrees_with_the_server(&watch, &server);
            });
        }
    });
}

#[test]
fn locks_that_survive_a_restart_are_not_told_as_released() {
    let feed = Feed::Notifications;
    let mut server = Server::notifying(&["--appendonly", "yes", "--appendfsync", "always"]);
    // Make loading slow enough to be noticed.
    server.cli(&["EVAL", "for n = 1, 3000 do redis.call('SET', 'other:' .. n, string.rep('x', 2000)) end", "0"]);
    let mut watch = feed.watch(&server, LOCKS);
    for key in ["lock:a", "lock:b", "lock:c"] {
        server.cli(&["SET", key, "t", "NX", "PX", "600000"]);
        watch.tells(key, "acquired");
    }
    server.kill();
    watch.says("reconnecting: ");
    server.restart();
    watch.says_again("by notifications", 2);
    server.cli(&["DEL", "lock:c"]);
    let line = watch.next("lock:c");
    // It is lost if it ended before we read it again.
    assert!(line["event"] == "released" || line["cause"] == "restart" && line["proven"] == false, "{line}");
    watch.tells_no_more(&server, &["lock:a", "lock:b"]);
    agrees_with_the_server(&watch, &server);
}

#[test]
fn a_loading_server_is_waited_for() {
    let feed = Feed::Notifications;
    let Some(mut server) = Server::loading_slowly() else { return };
    server.cli(&["EVAL", "for n = 1, 3000 do redis.call('SET', 'other:' .. n, 'x') end", "0"]);
    server.cli(&["SET", "lock:a", "t", "NX", "PX", "600000"]);
    let mut watch = feed.watch(&server, LOCKS);
    watch.tells("lock:a", "found");
    server.cli(&["SAVE"]);
    server.restart_loading();
    watch.says("loading");
    watch.says_again("by notifications", 2);
    watch.tells_no_more(&server, &["lock:a"]);
}

#[test]
fn a_paused_server_is_waited_for_and_nothing_is_made_up() {
    let feed = Feed::Notifications;
    let server = feed.server();
    let mut watch = feed.watch(&server, LOCKS);
    server.cli(&["SET", "lock:stays", "t", "NX", "PX", "600000"]);
    server.cli(&["SET", "lock:runs-out", "t", "NX", "PX", "1000"]);
    watch.tells("lock:stays", "acquired");
    watch.tells("lock:runs-out", "acquired");
    server.pause();
    // It is silent until it counts as lost.
    watch.says("reconnecting: ");
    assert!(watch.lines().iter().all(|line| line["event"] != "lost" && line["event"] != "released"));
    server.resume();
    watch.tells("lock:runs-out", "expired");
    watch.says_again("by notifications", 2);
    watch.tells_no_more(&server, &["lock:stays"]);
    agrees_with_the_server(&watch, &server);
}

#[test]
fn a_short_pause_changes_nothing() {
    let feed = Feed::Notifications;
    let server = feed.server();
    let mut watch = feed.watch(&server, LOCKS);
    server.cli(&["SET", "lock:a", "t", "NX", "PX", "600000"]);
    watch.tells("lock:a", "acquired");
    let mut connection = server.connection();
    server.pause();
    // Waits in the socket until the server resumes.
    let release = std::thread::spawn(move || connection.req_command(redis::cmd("DEL").arg("lock:a")).unwrap());
    wait_until("the guard has asked once more", PATIENCE, {
        let began = std::time::Instant::now();
        move || began.elapsed() > Duration::from_millis(1_500)
    });
    server.resume();
    release.join().unwrap();
    watch.tells("lock:a", "released");
    assert!(!watch.stderr().iter().any(|line| line.contains("reconnecting: ")), "{}", watch.story());
}

#[test]
fn a_subscriber_that_was_cut_off_finds_what_it_missed() {
    let feed = Feed::Notifications;
    let server = feed.server();
    let mut watch = feed.watch(&server, LOCKS);
    for key in ["lock:released", "lock:taken", "lock:stays"] {
        server.cli(&["SET", key, "t", "NX", "PX", "600000"]);
        watch.tells(key, "acquired");
    }
    // In one transaction, so that no event reports the changes.
    let mut pipe = redis::pipe();
    pipe.cmd("MULTI").cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub").cmd("DEL").arg("lock:released");
    pipe.cmd("SET").arg("lock:taken").arg("u").cmd("SET").arg("lock:new").arg("n").arg("PX").arg(600_000).cmd("EXEC");
    pipe.exec(&mut server.connection()).unwrap();
    assert_eq!(watch.tells("lock:released", "lost")["why"], "gone unseen");
    watch.tells("lock:taken", "lost");
    assert_eq!(watch.tells("lock:taken", "acquired")["holder"], "u");
    assert_eq!(watch.tells("lock:new", "found")["holder"], "n");
    watch.tells_no_more(&server, &["lock:stays"]);
    agrees_with_the_server(&watch, &server);
}

#[test]
fn a_tracker_that_was_cut_off_is_back() {
    let feed = Feed::Tracking;
    let server = feed.server();
    let mut watch = feed.watch(&server, LOCKS);
    server.cli(&["SET", "lock:a", "t", "NX", "PX", "600000"]);
    watch.tells("lock:a", "acquired");
    server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    server.cli(&["DEL", "lock:a"]);
    let line = watch.next("lock:a");
    assert!(line["event"] == "released" || line["event"] == "lost", "{line}");
    watch.says_again("by tracking", 2);
    server.cli(&["SET", "lock:b", "t", "NX", "PX", "600000"]);
    assert_eq!(watch.next("lock:b")["holder"], "t");
    agrees_with_the_server(&watch, &server);
}

#[test]
fn a_flood_that_overflows_the_subscriber_is_healed() {
    let feed = Feed::Notifications;
    let server = Server::notifying(&["--client-output-buffer-limit", "pubsub", "64kb", "0", "0"]);
    let mut watch = feed.watch(&server, LOCKS);
    server.cli(&["SET", "lock:stays", "t", "NX", "PX", "600000"]);
    watch.tells("lock:stays", "acquired");
    // More in one event loop of the server than the buffer holds.
    let flood = "for n = 1, 5000 do local key = 'lock:' .. (n % 40) \
        if redis.call('EXISTS', key) == 1 then redis.call('DEL', key) else redis.call('SET', key, 'f-' .. n, 'PX', 600000) end end";
    server.cli(&["EVAL", flood, "0"]);
    watch.says("reconnecting: ");
    watch.says_again("by notifications", 2);
    agrees_with_the_server(&watch, &server);
    watch.tells_no_more(&server, &["lock:stays"]);
}
