//! The trouble was there before lockscope came: what the first answer says of a dead worker's lock, and of healthy ones, on
//! real servers.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use common::judged::{ready, until, view};
use common::{Feed, Server, binary, engine, lockscope, row, wait_until};
use lockscope::model::{Life, LockView, State};
use lockscope::sources::pace::Pace;
use redis::Connection;
use serde_json::Value;
use terminal::Terminal;

const PATIENCE: Duration = Duration::from_secs(30);
/// Medallion's token: the machine, the process, and a GUID for each hold. It renews after 0.3 of the lease, always.
const DEAD: &str = "WEB7_4711_0f8fad5bd9cb469fa16570867728950e";
const LIVE: &str = "WEB8_4712_1f8fad5bd9cb469fa16570867728950e";
/// Redisson's holder: an instance and a thread. It renews after a third of the lease, if the application wants it.
const DEAD_THREAD: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57";
const LIVE_THREAD: &str = "3f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:12";

fn take(client: &mut Connection, key: &str, token: &str, lease_ms: u64) {
    redis::cmd("SET").arg(key).arg(token).arg("NX").arg("PX").arg(lease_ms).exec(client).unwrap();
}

fn enter(client: &mut Connection, key: &str, thread: &str, lease_ms: u64) {
    redis::cmd("HINCRBY").arg(key).arg(thread).arg(1).exec(client).unwrap();
    redis::cmd("PEXPIRE").arg(key).arg(lease_ms).exec(client).unwrap();
}

/// Renews a lock on a connection of its own until it is dropped.
struct Watchdog(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Watchdog {
    fn start(mut client: Connection, key: &'static str, lease_ms: u64, period: Duration) -> Watchdog {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut next = std::time::Instant::now() + period;
            while !stopped.load(Ordering::Relaxed) {
                if std::time::Instant::now() >= next {
                    redis::cmd("PEXPIRE").arg(key).arg(lease_ms).exec(&mut client).unwrap();
                    next += period;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Watchdog(stop, Some(thread))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().into_iter().for_each(|thread| thread.join().expect("it does not panic"));
    }
}

/// Waits until nobody has used the key for so long, by the server's clock.
fn rests(server: &Server, key: &str, seconds: i64) {
    let idle = || server.ask::<i64, _>(&["OBJECT", "IDLETIME", key]);
    wait_until("it rests", PATIENCE, || idle() >= seconds);
}

fn ls(server: &Server, arguments: &[&str]) -> Vec<Value> {
    let output =
        lockscope().args(["ls", "--json", "-p", "lock:*", "-u", &server.url()]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    document["locks"].as_array().unwrap().clone()
}

fn named<'a>(locks: &'a [Value], key: &str) -> &'a Value {
    locks.iter().find(|lock| lock["key"] == key).unwrap_or_else(|| panic!("{key} is not listed: {locks:#?}"))
}

fn is_not_doubted(lock: &Value) {
    assert_eq!((&lock["state"], &lock["liveness"]["is"]), (&"held".into(), &"unknown".into()), "{lock:#}");
    assert_eq!((lock["findings"].as_array().map(Vec::len), &lock["confidence"]), (Some(0), &1.0.into()), "{lock:#}");
}

/// A worker that renewed its lock for a while and died, another that goes on, and one whose lock has no end at all.
fn after_the_damage(server: &Server) -> Watchdog {
    let mut client = server.connection();
    take(&mut client, "lock:live", LIVE, 20_000);
    redis::cmd("SET").arg("lock:forever").arg("nightly-report").exec(&mut client).unwrap();
    let watchdog = Watchdog::start(client, "lock:live", 20_000, Duration::from_secs(6));
    let mut client = server.connection();
    take(&mut client, "lock:dead", DEAD, 20_000);
    redis::cmd("PEXPIRE").arg("lock:dead").arg(20_000).exec(&mut client).unwrap();
    drop(client);
    rests(server, "lock:dead", 14);
    watchdog
}

#[test]
fn a_dead_workers_lock_is_on_top_of_the_first_list_with_a_reason_that_is_true() {
    let server = Server::start();
    let _watchdog = after_the_damage(&server);
    let locks = ls(&server, &[]);
    let dead = &locks[0];
    assert_eq!(dead["key"], "lock:dead", "{locks:#?}");
    assert_eq!(dead["state"], "held", "one sign is a suspicion: {dead:#}");
    assert_eq!(dead["confidence"], 1.0, "that it is held is certain");
    assert_eq!((&dead["liveness"]["is"], &dead["liveness"]["confidence"]), (&"suspected".into(), &0.6.into()));
    let sign = &dead["liveness"]["signs"][0];
    assert_eq!((&sign["name"], &sign["says"]), (&"silent".into(), &"gone".into()), "{dead:#}");
    let said = dead["evidence"][0].as_str().unwrap();
    assert!(said.starts_with("no renewal for at least 1") && said.ends_with("its holder may be gone"), "{said}");
    assert_eq!(dead["findings"][0]["name"], "orphan-suspected");
    let (lease, held) = (dead["lease_ms"].as_u64().unwrap(), dead["held_ms"].as_u64().unwrap());
    assert!((17_500..=20_000).contains(&lease) && dead["lease_is"] == "at-least", "{lease}");
    assert!(held >= 10_000 && dead["held_is"] == "at-least", "{held}");
    is_not_doubted(named(&locks, "lock:live"));
    assert_eq!(named(&locks, "lock:forever")["state"], "no-ttl");
}

#[test]
fn show_says_that_it_is_held_and_what_is_known_of_its_holder() {
    let server = Server::start();
    let _watchdog = after_the_damage(&server);
    let show = |key: &str| {
        let output = lockscope().args(["show", key, "-u", &server.url()]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let dead = show("lock:dead");
    assert!(dead.contains("lock:dead  HELD?\n"), "{dead}");
    assert!(dead.contains("state      held (certain); its holder may be gone\n"), "{dead}");
    assert!(dead.contains("liveness   its holder may be gone: no renewal for at least 1"), "{dead}");
    assert!(
        dead.contains(", until renewed or late, or sample with MONITOR ('lockscope contention --monitor -u "),
        "{dead}"
    );
    let live = show("lock:live");
    assert!(live.contains("state      held (certain); whether its holder lives is not known yet\n"), "{live}");
    assert!(!live.contains("orphan-suspected"), "{live}");
}

#[test]
fn the_first_screen_shows_the_dead_workers_lock_on_top() {
    let server = Feed::Notifications.server();
    let _watchdog = after_the_damage(&server);
    let program = binary();
    let terminal = Terminal::start(program.to_str().unwrap(), &["-u", &server.url(), "-p", "lock:*"], &[]);
    let all = ["lock:dead", "lock:live", "lock:forever"];
    let listed = |text: &str| row(text, "HELD?", "lock:dead") && all.iter().all(|key| text.contains(key));
    wait_until("the dead worker's lock is marked", PATIENCE, || listed(&terminal.screen().contents()));
    let text = terminal.screen().contents();
    let place = |key: &str| text.lines().position(|line| line.contains(key)).unwrap_or_else(|| panic!("{text}"));
    assert!(place("lock:dead") < place("lock:forever") && place("lock:dead") < place("lock:live"), "{text}");
    assert!(text.contains("no renewal for at least"), "the first is selected, and says why: {text}");
}

#[tokio::test]
async fn a_redisson_lock_is_suspected_once_another_of_its_name_was_renewed() {
    let server = Feed::Notifications.server();
    let mut client = server.connection();
    enter(&mut client, "lock:job:1", DEAD_THREAD, 18_000);
    drop(client);
    rests(&server, "lock:job:1", 6);
    let mut client = server.connection();
    enter(&mut client, "lock:job:2", LIVE_THREAD, 18_000);
    let _watchdog = Watchdog::start(client, "lock:job:2", 18_000, Duration::from_secs(6));
    rests(&server, "lock:job:1", 10);
    let mut engine = ready(engine::follow(&server, Feed::Notifications, Pace::Fast).await).await;
    let suspected = |lock: &LockView| lock.liveness.as_ref().is_some_and(|liveness| liveness.is == Life::Suspected);
    let lock = until(&mut engine, "lock:job:1", "is suspected", suspected).await;
    assert_eq!(lock.verdict.state, State::Held, "{lock:#?}");
    let why = &lock.findings[0].sentence;
    assert!(why.contains("though locks with names like it are renewed every 6.0s"), "{why}");
    let first = engine.snapshot().locks.remove(0);
    assert_eq!(first.key.to_string(), "lock:job:1");
    let live = view(&engine, "lock:job:2").unwrap();
    assert_eq!(live.liveness.map(|liveness| liveness.is), Some(Life::Lives));
}

/// Puts a key back as it would be after so many seconds in which nobody used it.
fn age(client: &mut Connection, key: &str, seconds: u64) {
    let left: u64 = redis::cmd("PTTL").arg(key).query(client).unwrap();
    let value: Vec<u8> = redis::cmd("DUMP").arg(key).query(client).unwrap();
    let mut restore = redis::cmd("RESTORE");
    restore.arg(key).arg(left - seconds * 1_000).arg(value).arg("REPLACE").arg("IDLETIME").arg(seconds);
    restore.exec(client).unwrap();
}

#[test]
fn a_lone_redisson_lock_below_what_a_watchdog_leaves_is_doubted_and_its_condition_is_told() {
    let server = Server::start();
    let mut client = server.connection();
    enter(&mut client, "lock:lone", DEAD_THREAD, 30_000);
    enter(&mut client, "mail-lock:fixed", LIVE_THREAD, 60_000);
    age(&mut client, "lock:lone", 18);
    age(&mut client, "mail-lock:fixed", 40);
    let output = lockscope().args(["show", "lock:lone", "-u", &server.url()]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("lock:lone  HELD?\n"), "{shown}");
    let reason = "though its library renews its usual lease every 10.0s, unless the caller gave it as a fixed one";
    assert!(shown.contains("no renewal for at least 1") && shown.contains(reason), "{shown}");
    let periods: Vec<&str> =
        shown.split("watch it for ").skip(1).map(|rest| rest.split(['s', ';']).next().unwrap()).collect();
    assert!(
        periods.len() > 1 && periods.windows(2).all(|pair| pair[0] == pair[1]),
        "one number, not {periods:?}: {shown}"
    );
    let output = lockscope().args(["ls", "--json", "-u", &server.url()]).output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    is_not_doubted(named(document["locks"].as_array().unwrap(), "mail-lock:fixed"));
}

#[test]
fn a_fixed_lease_of_a_living_holder_is_not_doubted() {
    let server = Server::start();
    let mut client = server.connection();
    enter(&mut client, "lock:job:1", LIVE_THREAD, 20_000);
    rests(&server, "lock:job:1", 12);
    let locks = ls(&server, &[]);
    is_not_doubted(&locks[0]);
    assert!(locks[0]["lease_ms"].as_u64().unwrap() >= 17_500, "what was left then is known: {:#}", locks[0]);
}

#[test]
fn a_server_that_keeps_no_idle_times_tells_nothing_and_fails_nothing() {
    let server = Server::with(&["--maxmemory-policy", "allkeys-lfu"]);
    let mut client = server.connection();
    take(&mut client, "lock:job", DEAD, 10_000);
    // Half of the lease is gone: a look that told more would have to tell it.
    wait_until("time passes", PATIENCE, || server.ask::<i64, _>(&["PTTL", "lock:job"]) < 4_000);
    let locks = ls(&server, &[]);
    is_not_doubted(&locks[0]);
    assert!(locks[0]["lease_ms"].as_u64().unwrap() <= 4_000);
}

#[test]
fn a_user_who_may_not_ask_for_idle_times_gets_the_list_without_them() {
    let server = Server::start();
    let rule = "on >watches ~* resetchannels -@all +ping +hello +select +info +scan +dbsize +type +getrange +strlen \
        +hlen +hgetall +zcard +zrange +scard +smembers +llen +pttl +memory|usage +config|get";
    let rule: Vec<&str> = ["ACL", "SETUSER", "watcher"].into_iter().chain(rule.split_whitespace()).collect();
    server.cli(&rule);
    let mut client = server.connection();
    take(&mut client, "lock:job", DEAD, 12_000);
    rests(&server, "lock:job", 8);
    let output = lockscope()
        .args(["ls", "--json", "-p", "lock:*", "-u", &server.url(), "--user", "watcher"])
        .env("LOCKSCOPE_PASSWORD", "watches")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    is_not_doubted(&document["locks"][0]);
}

#[test]
fn a_snapshot_within_the_time_makes_it_no_evidence_and_one_before_it_does_not() {
    let server = Server::start();
    let mut client = server.connection();
    let saved = |server: &Server| {
        let before: i64 = server.ask(&["LASTSAVE"]);
        wait_until("a second has passed since the last snapshot", PATIENCE, || {
            let (now, _): (i64, i64) = server.ask(&["TIME"]);
            now > before
        });
        server.cli(&["BGSAVE"]);
        wait_until("it is saved", PATIENCE, || server.ask::<i64, _>(&["LASTSAVE"]) > before);
    };
    take(&mut client, "lock:early", DEAD, 22_000);
    rests(&server, "lock:early", 2);
    saved(&server);
    rests(&server, "lock:early", 4);
    take(&mut client, "lock:late", LIVE, 16_000);
    rests(&server, "lock:late", 11);
    let locks = ls(&server, &[]);
    let early = named(&locks, "lock:early");
    is_not_doubted(early);
    assert!(early["lease_ms"].as_u64().unwrap() < 10_000, "no more than what is left is known: {early:#}");
    assert_eq!(named(&locks, "lock:late")["liveness"]["is"], "suspected", "{locks:#?}");
}

#[tokio::test]
async fn two_signs_that_have_nothing_to_do_with_each_other_make_an_orphan_likely() {
    let server = Feed::Notifications.server();
    let worker = |name: &str| {
        let mut client = server.connection();
        redis::cmd("CLIENT").arg("SETNAME").arg(name).exec(&mut client).unwrap();
        client
    };
    let mut dead = worker("worker-1");
    take(&mut dead, "lock:job:1", "worker-1", 30_000);
    drop(dead);
    let mut live = worker("worker-2");
    take(&mut live, "lock:job:2", "worker-2", 30_000);
    let _watchdog = Watchdog::start(live, "lock:job:2", 30_000, Duration::from_secs(2));
    rests(&server, "lock:job:1", 6);
    let mut engine = ready(engine::follow(&server, Feed::Notifications, Pace::Fast).await).await;
    let orphan = |lock: &LockView| lock.verdict.state == State::Orphan;
    let lock = until(&mut engine, "lock:job:1", "is an orphan", orphan).await;
    assert!((0.7..0.9).contains(&lock.verdict.confidence), "{:?}", lock.verdict);
    let why = &lock.verdict.evidence[0];
    assert!(
        why.contains("locks with names like it are renewed every") && why.contains("no client has its holder's name"),
        "{why}"
    );
    let live = view(&engine, "lock:job:2").unwrap();
    assert_eq!((live.verdict.state, live.findings.len()), (State::Held, 0), "{live:#?}");
}

#[tokio::test]
async fn what_nobody_has_read_yet_is_no_silence() {
    let server = Feed::Notifications.server();
    let mut client = server.connection();
    enter(&mut client, "lock:job:1", LIVE_THREAD, 4_000);
    let watchdog = Watchdog::start(client, "lock:job:1", 4_000, Duration::from_millis(600));
    let mut engine = ready(engine::follow(&server, Feed::Notifications, Pace::Fast).await).await;
    let steady = |lock: &LockView| lock.renewals.as_ref().is_some_and(|renewals| renewals.period_ms.is_some());
    until(&mut engine, "lock:job:1", "has a rhythm", steady).await;
    // Nothing is read meanwhile: everything runs in this thread.
    std::thread::sleep(Duration::from_secs(2));
    let lock = view(&engine, "lock:job:1").unwrap();
    assert_eq!((lock.verdict.state, lock.findings.len()), (State::Held, 0), "it is renewed all the time: {lock:#?}");
    drop(watchdog);
    until(&mut engine, "lock:job:1", "stalls", |lock| lock.verdict.state == State::Stalled).await;
}

/// The server keeps one object for all keys whose value is a small number, and with it one time of the last use.
#[test]
fn a_lock_with_the_value_of_an_old_key_is_not_as_old() {
    let server = Feed::Notifications.server();
    let mut client = server.connection();
    take(&mut client, "page:cached", "1", 600_000);
    rests(&server, "page:cached", 5);
    take(&mut client, "lock:report", "1", 60_000);
    let locks = ls(&server, &[]);
    let lock = named(&locks, "lock:report");
    let (held, lease) = (lock["held_ms"].as_u64().unwrap_or(0), lock["lease_ms"].as_u64().unwrap_or(0));
    assert!(held < 4_000 && lease <= 60_000, "{lock:#}");
}
