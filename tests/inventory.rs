//! `ls` finds every lock and nothing else, whatever is around it, and downloads no more than a lock can contain.

mod common;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::feed::held;
use common::{Server, lockscope};
use serde_json::Value;

/// `ls --json` on `url` with more arguments.
#[track_caller]
fn ls_at(url: &str, arguments: &[&str]) -> Value {
    let output = lockscope().args(["ls", "--json", "-u", url]).args(arguments).output().expect("lockscope runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}; {said}"))
}

#[track_caller]
fn ls(server: &Server, arguments: &[&str]) -> Value {
    ls_at(&server.url(), arguments)
}

fn keys(document: &Value) -> BTreeSet<String> {
    held(document).into_iter().map(|(key, _)| key).collect()
}

fn lock<'a>(document: &'a Value, key: &str) -> &'a Value {
    let locks = document["locks"].as_array().expect("a list of locks");
    locks.iter().find(|lock| lock["key"] == key).unwrap_or_else(|| panic!("no {key} in {document}"))
}

fn set_of(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn bytes_sent(server: &Server) -> u64 {
    let info: String = server.ask(&["INFO", "stats"]);
    common::server::field(&info, "total_net_output_bytes").unwrap().parse().unwrap()
}

#[test]
fn bytes_that_are_no_text_and_terminal_codes_are_harmless() {
    let server = Server::start();
    let binary: &[u8] = b"lock:\xff\x00\n";
    server.cli(&[b"SET".as_slice(), binary, b"\xfe\x01token", b"PX", b"60000"]);
    server.cli(&["SET", "lock:\u{1b}[2J\u{202e}x", "to\u{1b}]0;pwned\u{7}ken", "PX", "60000"]);
    let document = ls(&server, &["-p", "lock:*"]);
    let of_bytes = lock(&document, "lock:\\xff\\u{0}\\n");
    assert_eq!(of_bytes["key_base64"], "bG9jazr/AAo=", "{of_bytes}");
    assert_eq!(of_bytes["holders"][0]["token_base64"], "/gF0b2tlbg==", "{of_bytes}");
    let of_text = lock(&document, "lock:\\u{1b}[2J\\u{202e}x");
    assert_eq!(of_text["holders"][0]["token"], "to\\u{1b}]0;pwned\\u{7}ken", "as it is typed");
    assert_eq!(of_text["holders"][0]["token_base64"], "dG8bXTA7cHduZWQHa2Vu", "{of_text}");
    assert_eq!(of_text["key_base64"], "bG9jazobWzJK4oCueA==", "{of_text}");
    for arguments in [&["ls", "--json"][..], &["ls", "--csv"], &["ls"], &["show", "lock:\\xff\\u{0}\\n"]] {
        let output = lockscope().args(["-u", &server.url(), "-p", "lock:*"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains("xff"), "{text}");
        let obeyed = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!text.contains(obeyed), "{arguments:?}: {text:?}");
    }
}

#[test]
fn other_types_under_the_patterns_are_no_locks() {
    let server = Server::start();
    server.cli(&["RPUSH", "lock:list", "x"]);
    server.cli(&["XADD", "lock:stream", "*", "f", "v"]);
    server.cli(&["SADD", "lock:set", "a", "b"]);
    server.cli(&["ZADD", "lock:zset", "1", "a"]);
    server.cli(&["HSET", "lock:profile", "name", "Ann", "city", "Rome"]);
    server.cli(&["PFADD", "lock:hll", "a"]);
    server.cli(&["SET", "lock:string", "t", "PX", "60000"]);
    server.cli(&["HINCRBY", "lock:hash", "worker-7", "1"]);
    for patterns in [&["-p", "lock:*"][..], &[]] {
        let found = keys(&ls(&server, patterns));
        let kinds = ["lock:list", "lock:stream", "lock:set", "lock:zset", "lock:profile"];
        assert!(kinds.iter().all(|key| !found.contains(*key)), "{found:?}");
        assert!(found.contains("lock:string") && found.contains("lock:hash"), "{found:?}");
    }
}

#[test]
fn a_given_pattern_makes_any_string_a_lock_and_a_default_one_does_not() {
    let server = Server::start();
    server.cli(&["SET", "job:17", "worker-7", "PX", "60000"]);
    server.cli(&["SET", "job:18", "a long text, with spaces; certainly no token of anybody", "PX", "60000"]);
    server.cli(&["RPUSH", "job:queue", "x"]);
    server.cli(&["SET", "clock:page", "<html>a page that has nothing to do with locks</html>"]);
    assert_eq!(keys(&ls(&server, &[])), set_of(&[]));
    let given = ls(&server, &["-p", "job:*"]);
    assert_eq!(keys(&given), set_of(&["job:17", "job:18"]));
    assert_eq!(lock(&given, "job:17")["dialect"], "plain");
    // A dialect that the user names is used, and its pattern is added to the default ones.
    let told = ls(&server, &["--dialect", "redsync=job:1*"]);
    assert_eq!(lock(&told, "job:17")["dialect"], "redsync");
    assert_eq!(lock(&told, "job:17")["dialect_confidence"], 1.0);
}

#[test]
fn huge_values_are_not_downloaded() {
    let server = Server::start();
    server.cli(&["SETRANGE", "lock:huge", "104857600", "x"]);
    server.cli(&["EVAL", "redis.call('HSET', KEYS[1], 'worker-7', string.rep('x', 52428800))", "1", "lock:fat-hash"]);
    server.cli(&[
        "EVAL",
        "for n = 1, 20000 do redis.call('ZADD', KEYS[1], n, 'member-' .. n) end",
        "1",
        "lock:long-zset",
    ]);
    server.cli(&["EVAL", "redis.call('SADD', KEYS[1], string.rep('x', 10485760))", "1", "lock:fat-set"]);
    server.cli(&["SET", "lock:normal", "t", "PX", "60000"]);
    for patterns in [&["-p", "lock:*"][..], &[], &["-p", "lock:*", "--observe", "300ms"]] {
        let before = bytes_sent(&server);
        let document = ls(&server, patterns);
        let sent = bytes_sent(&server) - before;
        assert!(sent < 300_000, "{patterns:?}: {sent} bytes for a few locks");
        assert!(keys(&document).contains("lock:normal"));
        if patterns.contains(&"-p") {
            let huge = lock(&document, "lock:huge");
            assert!(huge.to_string().len() < 20_000, "{huge}");
        }
    }
    let before = bytes_sent(&server);
    lockscope().args(["show", "lock:huge", "-u", &server.url()]).assert().success();
    assert!(bytes_sent(&server) - before < 100_000);
}

#[test]
fn a_large_keyspace_is_found_completely_however_it_is_walked() {
    let server = Server::start();
    let fill = "for n = 1, 30000 do redis.call('SET', 'lock:' .. n, 'token-' .. n, 'PX', 3600000) \
        redis.call('SET', 'other:' .. n, 'x') end";
    server.cli(&["EVAL", fill, "0"]);
    for arguments in [&["-p", "lock:*"][..], &[]] {
        let document = ls(&server, arguments);
        assert_eq!((&document["complete"], &document["dropped"]), (&true.into(), &0.into()), "{arguments:?}");
        assert_eq!(keys(&document).len(), 30_000, "{arguments:?}");
    }
}

#[test]
fn a_polite_walk_and_many_patterns_find_the_same() {
    let server = Server::start();
    let fill = "for n = 1, 2000 do redis.call('SET', 'lock:' .. n, 'token-' .. n, 'PX', 3600000) \
        redis.call('SET', 'other:' .. n, 'x') end";
    server.cli(&["EVAL", fill, "0"]);
    let fast = held(&ls(&server, &["--pace", "fast"]));
    assert_eq!(fast.len(), 2_000);
    assert_eq!(held(&ls(&server, &["--pace", "polite"])), fast);
    assert_eq!(
        held(&ls(&server, &["-p", "lock:1*", "-p", "loc*", "-p", "*:17", "-p", "lock:*", "--pace", "30%"])).len(),
        2_001
    );
}

/// Stops the storm, even if the test fails.
struct Calm<'a>(&'a AtomicBool);

impl Drop for Calm<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[test]
fn keys_that_come_and_go_meanwhile_are_normal() {
    let server = Server::start();
    server.cli(&["EVAL", "for n = 1, 5000 do redis.call('SET', 'lock:stays:' .. n, 't', 'PX', 3600000) end", "0"]);
    let storm = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connection();
            let mut run = |line: &[&str]| redis::cmd(line[0]).arg(&line[1..]).query::<i64>(&mut connection);
            for number in (0..200).cycle().take_while(|_| storm.load(Ordering::Relaxed)) {
                // Some thousand changes a second. Without a pause it takes a whole core from those that it is to disturb.
                if number % 10 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let key = format!("lock:goes:{number}");
                if run(&["DEL", &key]).unwrap() == 0 {
                    let taken = if number % 2 == 0 {
                        run(&["SETNX", &key, "t"])
                    } else {
                        run(&["HSET", &key, "worker-7", "1"])
                    };
                    taken.unwrap();
                }
            }
        });
        let _calm = Calm(&storm);
        for arguments in [&["-p", "lock:*"][..], &["-p", "lock:*", "--observe", "500ms"]] {
            let document = ls(&server, arguments);
            let stays = keys(&document).iter().filter(|key| key.starts_with("lock:stays:")).count();
            assert_eq!((stays, &document["complete"]), (5_000, &true.into()), "{arguments:?}");
        }
    });
}

#[test]
fn the_list_is_sorted_filtered_and_cut_as_asked() {
    let server = Server::start();
    for (key, ttl) in [("lock:b", "30000"), ("lock:a", "60000"), ("lock:c", "10000")] {
        server.cli(&["SET", key, "t", "PX", ttl]);
    }
    server.cli(&["SET", "lock:forever", "t"]);
    let names = |arguments: &[&str]| -> Vec<String> {
        let document = ls(&server, arguments);
        let locks = document["locks"].as_array().unwrap().iter();
        locks.map(|lock| lock["key"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(names(&["--sort", "key"]), ["lock:a", "lock:b", "lock:c", "lock:forever"]);
    assert_eq!(names(&["--sort", "key", "--limit", "2"]), ["lock:a", "lock:b"]);
    assert_eq!(names(&["--limit", "1"]), ["lock:forever"], "the worst first");
    assert_eq!(names(&["--filter", "state:no-ttl"]), ["lock:forever"]);
    assert_eq!(names(&["--filter", "ttl<40s", "--sort", "ttl"]), ["lock:c", "lock:b"]);
    assert_eq!(names(&["--filter", "key:nothing-like-this"]), [""; 0]);
    let output = lockscope().args(["ls", "--csv", "--sort", "key", "-u", &server.url()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0].split(',').nth(1)), (5, Some("key")), "{text}");
    assert!(lines[1].starts_with("held,lock:a,") && lines[4].starts_with("no-ttl,lock:forever,"), "{text}");
    assert!(String::from_utf8(output.stderr).unwrap().is_empty());
}

#[test]
fn a_marker_stands_beside_the_lock_of_its_id() {
    let server = Server::start();
    server.cli(&["SET", "lock:order-17", "t", "PX", "60000"]);
    server.cli(&["SET", "completed:order-17", "1", "NX", "PX", "60000"]);
    let document = ls(&server, &[]);
    let (lock_of_17, marker) = (lock(&document, "lock:order-17"), lock(&document, "completed:order-17"));
    assert_eq!((&lock_of_17["kind"], &lock_of_17["related"]), (&"lock".into(), &"completed:order-17".into()));
    assert_eq!((&marker["kind"], &marker["related"]), (&"marker".into(), &"lock:order-17".into()));
    assert_eq!((&marker["state"], &marker["dialect"]), (&"done".into(), &"marker".into()));
}

#[test]
fn another_database_is_another_place() {
    let server = Server::start();
    let mut connection = server.connection();
    redis::cmd("SET").arg("lock:zero").arg("t").exec(&mut connection).unwrap();
    redis::cmd("SELECT").arg(5).exec(&mut connection).unwrap();
    redis::cmd("SET").arg("lock:five").arg("t").exec(&mut connection).unwrap();
    let url = format!("{}/5", server.url());
    for arguments in [&[][..], &["--observe", "300ms"]] {
        let document = ls_at(&url, arguments);
        assert_eq!(keys(&document), set_of(&["lock:five"]));
        assert_eq!(lock(&document, "lock:five")["db"], 5);
    }
}

#[test]
fn a_unix_socket_will_do() {
    let server = Server::on_socket(&["--notify-keyspace-events", common::program::events()]);
    server.cli(&["SET", "lock:a", "t", "PX", "60000"]);
    for url in [format!("unix://{}", server.socket().display()), server.url()] {
        let document = ls_at(&url, &["--observe", "300ms"]);
        assert_eq!(keys(&document), set_of(&["lock:a"]));
        assert_eq!(document["server"]["nodes"][0]["stream"], "notifications");
    }
}

#[test]
fn tls_with_its_authority_or_unchecked() {
    for events in [common::program::events(), ""] {
        let Some(server) = Server::with_tls(&["--notify-keyspace-events", events]) else { return };
        server.cli(&["SET", "lock:a", "t", "PX", "60000"]);
        let ca = server.directory().join("ca.pem");
        let stream = if events.is_empty() { "tracking" } else { "notifications" };
        for trust in [&["--tls-ca", ca.to_str().unwrap()][..], &["--insecure"]] {
            // Notifications and tracking have their own connections, which need the same certificates.
            let document = ls(&server, &[trust, &["--observe", "300ms"]].concat());
            assert_eq!(keys(&document), set_of(&["lock:a"]));
            assert_eq!(document["server"]["nodes"][0]["stream"], stream, "{document}");
        }
    }
}

#[test]
fn a_filter_by_age_that_one_look_can_not_answer_says_so() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "worker-1", "PX", "600000"]);
    let asked = |filter: &str, more: &[&str]| {
        let url = server.url();
        let ran = lockscope().args(["ls", "-u", &url, "-p", "lock:*", "--filter", filter]).args(more).output();
        let ran = ran.expect("lockscope runs");
        (String::from_utf8_lossy(&ran.stdout).into_owned(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    for filter in ["held>1m", "lock and (missed>1 or renewals>3)"] {
        let (out, err) = asked(filter, &[]);
        assert!(
            err.contains("one look does not show") && err.contains("'--observe 20s' watches first"),
            "{filter}: {err}"
        );
        assert!(!out.contains("one look"), "{out}");
    }
    assert!(!asked("ttl:none", &[]).1.contains("one look"), "one look tells that");
    assert!(!asked("held>1m", &["--observe", "100ms"]).1.contains("one look"), "it was watched");
    assert!(!asked("held>1m", &["--quiet"]).1.contains("one look"));
}
