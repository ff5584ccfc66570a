//! What must not happen: writes on read-only targets, to protected locks, without permission, or to other holders.
//!
//! Each refusal is one sentence, and leaves the server exactly as it was.

mod common;

use std::time::Duration;

use common::acting::{Acting, settings};
use common::program::has;
use common::samples::{ALL, NOT_EXTENDED};
use common::{Desk, Listener, Server};
use lockscope::actions::{Freeing, Outcome, Performed, plan};
use serde_json::{Value, json};

const A: &str = "3f2a8c00-1111-4222-8333-444455556666:57";
const UUID: &str = "3f2a8c00-1111-4222-8333-444455556666";

fn why(performed: &Performed) -> String {
    match &performed.outcome {
        Outcome::Refused(why) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

fn is_done(performed: &Performed) -> bool {
    matches!(performed.outcome, Outcome::Done { .. })
}

#[test]
fn a_read_only_target_stays_as_it_is() {
    let server = Server::start();
    server.cli(&["SET", "lock:gone", "t", "PX", "600000"]);
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    let desk = Desk::at(&server);
    let id = desk.free("lock:gone", "t");
    desk.configure(&format!("[target.shop]\nurl = \"{}\"\nread_only = true\n", server.url()));
    let (before, recorded) = (server.everything(), desk.audit().len());
    for arguments in [
        &["release", "lock:a", "--holder", "t", "--yes"][..],
        &["release", "--filter", "lock:a", "--yes"],
        &["extend", "lock:a", "--holder", "t", "--ttl", "1h", "--yes"],
        &["undo", &id, "--yes"],
    ] {
        for ran in
            [desk.run(&[arguments, &["--read-only"]].concat()), desk.run_bare(&[arguments, &["-t", "shop"]].concat())]
        {
            assert!(ran.refusal().contains("read-only"), "{arguments:?}: {ran:?}");
        }
        let forced = desk.run_bare(&[arguments, &["-t", "shop", "--write"]].concat());
        assert!(forced.refusal().contains("read_only"), "{arguments:?}: {forced:?}");
        let told = desk.run_bare(&[arguments, &["-t", "shop", "--json"]].concat());
        assert_eq!(told.code, 1, "{arguments:?}");
    }
    assert_eq!(server.everything(), before);
    assert!(server.ask::<i64, _>(&["PTTL", "lock:a"]) <= 600_000);
    assert_eq!(desk.audit().len(), recorded, "nothing was attempted");
}

#[test]
fn a_dry_run_on_a_read_only_target_shows_what_would_be_done_and_that_it_may_not() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    let desk = Desk::at(&server);
    let before = server.everything();
    for arguments in [
        &["release", "lock:a", "--holder", "t", "--dry-run"][..],
        &["release", "--filter", "key:lock:a"],
        &["extend", "lock:a", "--holder", "t", "--ttl", "1h", "--dry-run"],
    ] {
        let shown = desk.run(&[arguments, &["--read-only"]].concat());
        let refused = shown.out.contains("refused ") || shown.out.contains("lock:a can't be freed: ");
        assert!(shown.code == 0 && shown.out.contains("lock:a") && refused, "{shown:?}");
        assert!(!shown.err.contains("--plan"), "there is nothing to perform: {shown:?}");
        let told = desk.run(&[arguments, &["--read-only", "--json"]].concat()).json();
        assert!(told["refused"].as_str().is_some_and(|why| why.contains("read-only")), "{told}");
        assert!(told["plan"].is_null(), "{told}");
    }
    assert_eq!(server.everything(), before);
}

#[tokio::test]
async fn the_console_writes_only_when_that_was_turned_on() {
    let server = Server::start();
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:a", None).await.unwrap();
    let free = acting.plan_free(&lock, None);
    let longer = plan::extend(&lock, None, Duration::from_secs(3_600), acting.clock.now()).unwrap();
    let freely = settings(&server.url(), |_| {});
    let read_only = settings(&server.url(), |global| global.read_only = true);
    let before = server.everything();
    for gate in [freely.gate().for_console(false), read_only.gate().for_console(true)] {
        acting.gate = gate;
        for plan in [&free, &longer] {
            let performed = acting.perform(plan).await;
            assert!(why(&performed).contains("read-only"), "{performed:?}");
        }
    }
    assert_eq!(server.everything(), before);
    assert!(server.ask::<i64, _>(&["PTTL", "lock:a"]) <= 600_000);
    acting.gate = freely.gate().for_console(true);
    let freed = acting.perform(&free).await;
    assert!(is_done(&freed));
    let back = acting.kept(&freed.id).plan(acting.clock.now()).unwrap();
    acting.gate = freely.gate().for_console(false);
    assert!(why(&acting.perform(&back).await).contains("read-only"));
    assert!(!server.ask::<bool, _>(&["EXISTS", "lock:a"]));
}

#[test]
fn protected_locks_are_out_of_reach() {
    let server = Server::start();
    for key in ["payments-lock:1", "orders-lock:1", "lock:free"] {
        server.cli(&["SET", key, "t", "PX", "600000"]);
    }
    let desk = Desk::at(&server);
    server.cli(&["SET", "payments-lock:2", "t", "PX", "600000"]);
    let id = desk.free("payments-lock:2", "t");
    desk.configure(&format!(
        "protected = [\"payments*\"]\n[target.shop]\nurl = \"{}\"\nprotected = [\"orders*\"]\n",
        server.url()
    ));
    let before = server.everything();
    for key in ["payments-lock:1", "orders-lock:1"] {
        for arguments in [
            &["release", key, "--holder", "t", "--yes", "-t", "shop"][..],
            &["extend", key, "--holder", "t", "--ttl", "1h", "--yes", "-t", "shop"],
        ] {
            let ran = desk.run_bare(arguments);
            assert!(ran.refusal().contains("protected"), "{ran:?}");
        }
        let shown = desk.run_bare(&["release", key, "--holder", "t", "--dry-run", "-t", "shop"]);
        assert!(shown.code == 0 && shown.out.contains("protected"), "{shown:?}");
    }
    assert!(desk.run_bare(&["undo", &id, "--yes", "--unwatched", "-t", "shop"]).refusal().contains("protected"));
    assert_eq!(server.everything(), before);
    // The target's own patterns apply at its address, whatever name is used.
    let ran = desk.run(&["release", "--filter", "*lock*", "--yes", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let mut lines = ran.lines();
    lines.sort_by_key(|line| line["key"].to_string());
    let outcomes: Vec<_> = lines.iter().map(|line| (line["key"].as_str().unwrap(), &line["outcome"])).collect();
    let (done, refused) = (json!("done"), json!("refused"));
    assert_eq!(outcomes, [("lock:free", &done), ("orders-lock:1", &refused), ("payments-lock:1", &refused)]);
    let mut left: Vec<String> = server.ask(&["KEYS", "*"]);
    left.sort();
    assert_eq!(left, ["orders-lock:1", "payments-lock:1"]);
}

/// An operator on the server who may do everything except what `rules` take away.
async fn restricted(server: &Server, rules: &[&str]) -> Acting {
    server.cli(&[&["ACL", "SETUSER", "op", "reset", "on", ">pw", "~*", "&*", "+@all"], rules].concat());
    Acting::as_user(server, "op:pw@").await
}

#[tokio::test]
async fn without_scripts_only_the_server_s_own_compare_and_delete_is_used() {
    let server = Server::start();
    let native = server.knows("DELEX") || server.knows("DELIFEQ");
    for rules in [&["-@scripting"][..], &["-eval"], &["-@scripting", "-acl"]] {
        server.cli(&["FLUSHALL"]);
        server.cli(&["SCRIPT", "FLUSH"]);
        // A random token: the server's own compare-and-delete does not compare the lease.
        server.cli(&["SET", "lock:a", UUID, "PX", "600000"]);
        server.cli(&["HSET", "lock:h", A, "1"]);
        let mut acting = restricted(&server, rules).await;
        let (plain, hash) = (acting.see(b"lock:a", None).await.unwrap(), acting.see(b"lock:h", None).await.unwrap());
        let before = server.everything();
        let performed = acting.free(&hash, None).await;
        assert!(why(&performed).contains("EVAL") && why(&performed).contains("nothing was changed"), "{performed:?}");
        let longer = plan::extend(&plain, None, Duration::from_secs(3_600), acting.clock.now()).unwrap();
        assert!(why(&acting.perform(&longer).await).contains("EVAL"));
        assert_eq!(server.everything(), before, "{rules:?}");
        assert!(server.ask::<i64, _>(&["PTTL", "lock:a"]) <= 600_000);

        server.cli(&["SET", "lock:a", "another's", "KEEPTTL"]);
        let performed = acting.free(&plain, None).await;
        assert!(!why(&performed).is_empty());
        assert_eq!(server.ask::<String, _>(&["GET", "lock:a"]), "another's", "{rules:?}");

        server.cli(&["SET", "lock:a", UUID, "KEEPTTL"]);
        let performed = acting.free(&plain, None).await;
        assert_eq!(is_done(&performed), native, "{rules:?}: {performed:?}");
        assert_eq!(server.ask::<bool, _>(&["EXISTS", "lock:a"]), !native, "{rules:?}");
    }
}

#[tokio::test]
async fn a_release_that_would_be_stopped_half_way_does_not_begin() {
    // Before version 7 permissions can't be asked for without trying.
    if !has((7, 0), "way to ask what a user may do") {
        return;
    }
    let server = Server::start();
    server.cli(&["HSET", "lock:h", A, "1"]);
    server.cli(&["SET", "lock:python", "q6bGZ0cQ1m3yq8Vb0h9s5kXo"]);
    server.cli(&["HSET", "SEMAPHORE:s:GRABBED", "0", "1749999000.5"]);
    server.cli(&["SET", "downloads", "3"]);
    server.cli(&["ZADD", "{downloads}:timeout", "99999999999999", "\u{1}234567890abcdef"]);
    let mut listener = Listener::on(&server, "PSUBSCRIBE", "redisson*");
    let before = server.everything();
    for (key, dialect, rules) in [
        ("lock:h", "redisson", &["-publish"][..]),
        ("lock:h", "redisson", &["-del"]),
        ("lock:h", "redisson", &["resetchannels"]),
        ("lock:python", "python-redis-lock", &["-del"]),
        ("lock:python", "python-redis-lock", &["-lpush"]),
        ("lock:python", "python-redis-lock", &["-pexpire"]),
        ("SEMAPHORE:s:GRABBED", "redis-semaphore", &["-lpush"]),
        ("SEMAPHORE:s:GRABBED", "redis-semaphore", &["resetkeys", "~*GRABBED"]),
        ("{downloads}:timeout", "redisson-permits", &["-incrby"]),
        ("{downloads}:timeout", "redisson-permits", &["-publish"]),
        ("{downloads}:timeout", "redisson-permits", &["resetkeys", "~*timeout", "%R~downloads"]),
    ] {
        // Users who may not ask for their permissions are stopped in time too.
        for more in [&[][..], &["-acl"]] {
            let rules = [rules, more].concat();
            let mut acting = restricted(&server, &rules).await;
            let lock = acting.see(key.as_bytes(), Some(dialect)).await.unwrap();
            let performed = acting.free(&lock, None).await;
            assert!(!why(&performed).is_empty());
            assert_eq!(server.everything(), before, "{key} with {rules:?}: {performed:?}");
            assert_eq!(listener.heard(&server), [""; 0], "{key} with {rules:?}");
        }
    }
}

/// If permissions can't be asked for, a partial write is at least not called a refusal. If they can, no write is
/// partial.
#[tokio::test]
async fn what_was_stopped_half_way_is_told_as_such() {
    let server = Server::start();
    let grabbed = "SEMAPHORE:s:GRABBED";
    server.cli(&["HSET", grabbed, "0", "1749999000.5"]);
    server.cli(&["HSET", "lock:h", A, "1"]);
    let mut acting = restricted(&server, &["-lpush", "-del"]).await;
    let lock = acting.see(grabbed.as_bytes(), None).await.unwrap();
    let before = server.everything();
    let performed = acting.free(&lock, None).await;
    if server.version() < (7, 0, 0) {
        let Outcome::Unknown(told) = &performed.outcome else { panic!("{performed:?}") };
        assert!(told.starts_with("it was stopped half-way: ") && told.ends_with("the lock is gone now"), "{told}");
    } else {
        assert!(!why(&performed).is_empty());
        assert_eq!(server.everything(), before);
    }
    // If its first write is refused, nothing has changed.
    let lock = acting.see(b"lock:h", None).await.unwrap();
    let refused = why(&acting.free(&lock, None).await);
    let words = if server.version() < (7, 0, 0) { "the server refused it" } else { "may not run DEL" };
    assert!(refused.contains(words), "{refused}");
    assert!(server.ask::<bool, _>(&["EXISTS", "lock:h"]));
}

#[tokio::test]
async fn a_script_that_the_server_forgot_is_sent_again() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    for _ in 0..3 {
        server.cli(&["SET", "lock:a", "t"]);
        let lock = acting.see(b"lock:a", None).await.unwrap();
        let plan = acting.plan_free(&lock, None);
        server.cli(&["SCRIPT", "FLUSH"]);
        assert!(is_done(&acting.perform(&plan).await));
        assert!(!server.ask::<bool, _>(&["EXISTS", "lock:a"]));
    }
}

#[test]
fn a_refusal_is_a_result_in_json_too() {
    let server = Server::start();
    for key in ["lock:a", "payments"] {
        server.cli(&["SET", key, "t", "PX", "600000"]);
    }
    let desk = Desk::at(&server);
    desk.configure("protected = [\"payments\"]\n");
    let before = server.everything();
    for (arguments, key, words) in [
        (&["release", "lock:a", "--holder", "other", "--yes"][..], json!("lock:a"), "has another holder now: t"),
        (&["release", "payments", "--holder", "t", "--yes"], json!("payments"), "protected"),
        (&["release", "lock:a", "--holder", "t", "--yes", "--read-only"], json!("lock:a"), "read-only"),
        (&["release", "lock:gone", "--holder", "t", "--yes"], json!("lock:gone"), "there is no key lock:gone"),
        (&["extend", "lock:a", "--holder", "other", "--ttl", "1h", "--yes"], json!("lock:a"), "has another holder now"),
        (&["extend", "lock:a", "--holder", "t", "--ttl", "1s", "--yes"], json!("lock:a"), "never shortens"),
        (&["undo", "1-2-3", "--yes"], Value::Null, "nothing is kept"),
    ] {
        let ran = desk.run(&[arguments, &["--json"]].concat());
        let told = ran.json();
        assert_eq!((ran.code, ran.err.as_str()), (1, ""), "{arguments:?}");
        assert_eq!((&told["schema"], &told["action"]), (&json!("lockscope/1"), &json!(arguments[0])), "{told}");
        assert_eq!((&told["outcome"], &told["key"]), (&json!("refused"), &key), "{told}");
        assert!(told["why"].as_str().unwrap().contains(words), "{told}");
        assert!(told["commands"].is_array() && told["woke"].is_null() && told["id"].is_null(), "{told}");
        // The same for people.
        assert!(desk.run(arguments).refusal().contains(words), "{arguments:?}");
    }
    assert_eq!(server.everything(), before);
}

#[test]
fn whatever_bytes_a_lock_is_made_of_it_is_compared_freed_and_put_back() {
    let server = Server::start();
    let desk = Desk::at(&server);
    let long = vec![b'x'; 600];
    for (key, token) in [
        (&b"lock:a"[..], &b"\xff\x00\xfe"[..]),
        (b"lock:\x00\xff\x1b[31m", b"\x1b]0;title\x07"),
        (b"lock with spaces", b"a token of 'several' \"words\""),
        (b"lock\nof\r\nlines", b"one\ntwo"),
        (b"lock:\\x41", b"back\\slash \\x41"),
        ("lock:锁\u{202e}".as_bytes(), "ключ".as_bytes()),
        (b"lock:*?[a]", b"*"),
        (b"lock:empty", b""),
        (b"--lock", b"--yes"),
        (b"lock:long", &long),
        (&[b"lock:", &long[..]].concat(), b"t"),
    ] {
        server.cli(&[b"SET", key, token]);
        server.cli(&["SET", "lock:bystander", "t"]);
        let (shown_key, shown) = (lockscope::base::text::visible(key), lockscope::base::text::visible(token));
        let before = server.everything();
        let holder = |token: &str| format!("--holder={token}");
        let wrong = desk.run(&["release", &holder(&format!("{shown}!")), "--yes", "--", &shown_key]);
        assert_eq!(wrong.code, 1, "{wrong:?}");
        assert_eq!(server.everything(), before, "{shown_key}");
        let ran = desk.run(&["release", &holder(&shown), "--yes", "--json", "--", &shown_key]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(ran.json()["key"], json!(shown_key));
        assert!(ran.out.bytes().all(|byte| byte == b'\n' || !byte.is_ascii_control()), "{:?}", ran.out);
        assert!(!server.ask::<bool, _>(&[b"EXISTS", key]), "{shown_key}");
        let id = ran.json()["id"].as_str().unwrap().to_string();
        let back = desk.run(&["undo", &id, "--yes", "--unwatched"]);
        assert_eq!(back.code, 0, "{back:?}");
        assert_eq!(server.everything(), before, "{shown_key}");
        server.cli(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn a_large_value_is_compared_whole() {
    let server = Server::start();
    let value = |last: u8| [&b"holder-7:"[..], &vec![b'x'; 100_000], &[last]].concat();
    let set = |value: &[u8]| drop(server.cli(&[b"SET", &b"lock:big"[..], value]));
    set(&value(b'a'));
    let mut acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:big", None).await.unwrap();
    for other in [[&b"holder-8:"[..], &value(b'a')[9..]].concat(), value(b'a')[..100_000].to_vec(), b"x".to_vec()] {
        set(&other);
        let performed = acting.free(&lock, None).await;
        assert_eq!(why(&performed), "it has another holder now", "{} bytes", other.len());
        assert_eq!(server.ask::<Vec<u8>, _>(&["GET", "lock:big"]), other);
    }
    set(&value(b'a'));
    let freed = acting.free(&lock, None).await;
    assert!(is_done(&freed), "{freed:?}");
    assert!(is_done(&acting.undo(&freed.id).await));
    assert_eq!(server.ask::<Vec<u8>, _>(&["GET", "lock:big"]), value(b'a'));
}

#[test]
fn an_extension_never_shortens_and_never_hits_another_holder() {
    let server = Server::start();
    let desk = Desk::at(&server);
    server.cli(&["SET", "lock:a", "t", "PX", "600000"]);
    server.cli(&["SET", "lock:never", "t"]);
    let left = |key: &str| server.ask::<i64, _>(&["PTTL", key]);
    let extend =
        |key: &str, holder: &str, ttl: &str| desk.run(&["extend", key, "--holder", holder, "--ttl", ttl, "--yes"]);

    assert!(extend("lock:a", "t", "1m").refusal().contains("never shortens"));
    assert!(extend("lock:a", "other", "1h").refusal().contains("has another holder now: t"));
    assert!((500_000..=600_000).contains(&left("lock:a")));
    assert_eq!(left("lock:never"), -1);

    let ran = extend("lock:a", "t", "1h");
    assert!(ran.code == 0 && ran.out.contains("extended lock:a to 1h00m"), "{ran:?}");
    assert!((3_000_000..=3_600_000).contains(&left("lock:a")));
    assert_eq!(extend("lock:never", "t", "1h").code, 0);
    assert!((3_000_000..=3_600_000).contains(&left("lock:never")));
}

#[tokio::test]
async fn an_extension_is_compared_where_it_is_written() {
    let server = Server::start();
    let mut acting = Acting::on(&server).await;
    let hour = Duration::from_secs(3_600);
    for (set_up, change, words) in [
        (&["SET", "lock:a", "t", "PX", "600000"][..], &["SET", "lock:a", "u", "KEEPTTL"][..], "another holder now: u"),
        (&["SET", "lock:a", "t", "PX", "600000"], &["DEL", "lock:a"], "is gone"),
        (&["SET", "lock:a", "t", "PX", "600000"], &["PEXPIRE", "lock:a", "7200000"], "more than asked for"),
        (&["SET", "lock:a", "t", "PX", "600000"], &["PERSIST", "lock:a"], "no TTL now"),
        (&["SET", "lock:a", "t"], &["PEXPIRE", "lock:a", "7200000"], "left now"),
        (&["HSET", "lock:a", A, "1"], &["HDEL", "lock:a", A], "any more"),
    ] {
        server.cli(&["DEL", "lock:a"]);
        server.cli(set_up);
        let lock = acting.see(b"lock:a", None).await.unwrap();
        let plan = plan::extend(&lock, None, hour, acting.clock.now()).unwrap();
        server.cli(change);
        let before = (server.everything(), server.ask::<i64, _>(&["PTTL", "lock:a"]));
        let performed = acting.perform(&plan).await;
        assert!(why(&performed).contains(words), "{change:?}: {performed:?}");
        assert_eq!(server.everything(), before.0, "{change:?}");
        let left: i64 = server.ask(&["PTTL", "lock:a"]);
        assert!(left == before.1 || left >= 0 && left <= before.1 && before.1 - left < 60_000, "{change:?}: {left}");
    }
}

#[tokio::test]
async fn what_a_ttl_would_destroy_is_not_given_one() {
    let reasons = [
        ("redisson group lock", "keeps its own lease"),
        ("redisson semaphore", "can't be given a TTL"),
        ("redisson permits", "keeps its own lease"),
        ("medallion semaphore", "keeps its own lease"),
        ("a set of leases", "keeps its own lease"),
        ("redis-semaphore of npm, semaphore", "keeps its own lease"),
        ("symfony", "keeps its own lease"),
        ("symfony readers", "keeps its own lease"),
        ("sidekiq-unique-jobs", "can't be given a TTL"),
        ("sidekiq-unique-jobs while executing", "can't be given a TTL"),
        ("sidekiq-unique-jobs 9", "can't be given a TTL"),
        ("huey", "can't be given a TTL"),
        ("redis-semaphore of ruby", "can't be given a TTL"),
    ];
    assert_eq!(reasons.map(|(name, _)| name), NOT_EXTENDED);
    for (name, words) in reasons {
        let server = Server::start();
        let (_, create) = ALL.iter().find(|(known, _)| *known == name).unwrap();
        let sample = create(&mut server.connection());
        let acting = Acting::on(&server).await;
        let lock = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await.unwrap();
        let refusal = plan::extend(&lock, None, Duration::from_secs(3_600), acting.clock.now()).unwrap_err();
        assert!(refusal.to_string().contains(words), "{name}: {refusal}");
    }
}

#[tokio::test]
async fn a_holder_who_is_not_there_is_not_planned_for() {
    let server = Server::start();
    server.cli(&["HSET", "lock:h", A, "1"]);
    let acting = Acting::on(&server).await;
    let lock = acting.see(b"lock:h", None).await.unwrap();
    let asked = Freeing { holder: Some(b"somebody"), ..Freeing::default() };
    let refusal = plan::free(&lock, asked, acting.clock.now()).unwrap_err();
    assert_eq!(refusal.to_string(), format!("lock:h has another holder now: {A}"));
}
