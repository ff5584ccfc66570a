//! The details of locks on a real server: who waits for them, which keys belong to them, and what we may not ask.

mod common;

use std::time::Duration;

use common::feed::Feed;
use common::program::has;
use common::{Library, Server, engine, lockscope, wait_until};
use lockscope::base::time::Time;
use lockscope::dialects::{Mapping, Recogniser};
use lockscope::engine::Engine;
use lockscope::lock::{Key, KeyspaceId, NodeId};
use lockscope::model::{Limits, Observation, Seen, Source, Table};
use lockscope::server;
use lockscope::sources::inspect::{Inspection, Subject, inspect};
use lockscope::sources::look::{Wanted, look};
use lockscope::sources::pace::Pace;
use lockscope::sources::waiters::{Count, Counted};
use redis::aio::MultiplexedConnection;
use serde_json::Value;

const HOLDER: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57";
const FIRST: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9";
const SECOND: &str = "5a6b7c8d-5e2f-4a3b-8c6d-7e8f9a0b1c2d:31";
const SOON: Duration = Duration::from_secs(20);

async fn connect_as(server: &Server, login: &str) -> MultiplexedConnection {
    let client = redis::Client::open(server.url().replace("redis://", &format!("redis://{login}"))).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// Inspects a key over a connection with this login, after reading it over one that may read everything.
async fn closer_as(server: &Server, key: &str, login: &str) -> Inspection {
    let mut all = connect_as(server, "").await;
    let seen = look(&mut all, &[Wanted { key: key.as_bytes(), hint: None }]).await.unwrap().remove(0);
    let seen: Seen = seen.expect("nothing changes it");
    let now = Time(1_000_000);
    let mut table =
        Table::new(Recogniser::new(Vec::new(), Vec::new(), Vec::<Mapping>::new()).into(), Limits::default());
    let (node, key, source) = (NodeId(0), Key::from(key), Source::Scan);
    table.apply(Observation::Read { node, key: key.clone(), asked: now, answered: now, seen, source });
    let view =
        table.lock_named(KeyspaceId::FIRST, key.as_bytes()).and_then(|lock| table.view(lock, now)).expect("a lock");
    let facts = server::ask(&mut all, 0).await.unwrap();
    let subject = Subject::new(&view, 0, &facts, now);
    inspect(&mut connect_as(server, login).await, &subject, now).await.unwrap()
}

async fn closer(server: &Server, key: &str) -> Inspection {
    closer_as(server, key, "").await
}

fn take(server: &Server, name: &str) {
    server.cli(&["HSET", name, HOLDER, "1"]);
    server.cli(&["PEXPIRE", name, "30000"]);
}

/// Subscribes for as long as the value lives.
async fn subscriber(server: &Server, channel: &str) -> redis::aio::PubSub {
    let mut pubsub = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
    pubsub.subscribe(channel).await.unwrap();
    pubsub
}

fn names(found: &Inspection) -> Vec<String> {
    found.keys.iter().map(|key| key.key.to_string()).collect()
}

#[tokio::test]
async fn processes_that_wait_for_a_redisson_lock_are_counted_by_its_channel() {
    let server = Server::start();
    take(&server, "lock:order");
    let nobody = closer(&server, "lock:order").await;
    assert_eq!(nobody.waiters.exact(), Some(0));
    let channel = "redisson_lock__channel:{lock:order}";
    let (_one, _two) = (subscriber(&server, channel).await, subscriber(&server, channel).await);
    let _other = subscriber(&server, "redisson_lock__channel:{lock:other}").await;
    let found = closer(&server, "lock:order").await;
    assert_eq!((found.waiters.exact(), found.waiters.counted), (Some(2), Some(Counted::Subscribers)));
    assert_eq!(found.waiters.describe(), format!("2 processes are subscribed to {channel}"));
    assert_eq!(names(&found), ["lock:order"], "companions that are not there are left out");
}

#[tokio::test]
async fn a_waiter_on_a_sharded_channel_counts_too() {
    if !has((7, 0), "sharded channels") {
        return;
    }
    let server = Server::start();
    take(&server, "lock:order");
    let mut sharded = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let _: redis::Value =
        redis::cmd("SSUBSCRIBE").arg("redisson_lock__channel:{lock:order}").query(&mut sharded).unwrap();
    assert_eq!(closer(&server, "lock:order").await.waiters.exact(), Some(1));
}

#[tokio::test]
async fn a_dead_head_of_a_fair_queue_is_found() {
    let server = Server::start();
    take(&server, "lock:print");
    let [seconds, _]: [i64; 2] = server.ask::<Vec<i64>, _>(&["TIME"]).try_into().unwrap();
    for (waiter, wait) in [("gone:1", -5), (FIRST, 100), (SECOND, 400)] {
        server.cli(&["RPUSH", "redisson_lock_queue:{lock:print}", waiter]);
        let deadline = ((seconds + wait) * 1_000).to_string();
        server.cli(&["ZADD", "redisson_lock_timeout:{lock:print}", &deadline, waiter]);
    }
    server.cli(&["SET", "redisson_lock_token:{lock:print}", "17"]);
    let _second = subscriber(&server, &format!("redisson_lock__channel:{{lock:print}}:{SECOND}")).await;
    let found = closer(&server, "lock:print").await;
    assert_eq!((found.waiters.exact(), found.waiters.counted), (Some(3), Some(Counted::Queue)));
    let queue: Vec<_> = found.waiters.in_order(0).map(|(waiter, health)| (waiter.id.to_vec(), health.name())).collect();
    let expected = [("gone:1", "deadline-passed"), (FIRST, "dead-head"), (SECOND, "listening")];
    assert_eq!(queue, expected.map(|(id, health)| (id.as_bytes().to_vec(), health)));
    let left = found.waiters.queue[1].left_ms.unwrap();
    assert!((90_000..=100_000).contains(&left), "{left} ms by the server's clock");
    assert_eq!(
        names(&found),
        [
            "lock:print",
            "redisson_lock_queue:{lock:print}",
            "redisson_lock_timeout:{lock:print}",
            "redisson_lock_token:{lock:print}"
        ]
    );
    assert_eq!(found.keys[1].length(), Some(3));
}

#[tokio::test]
async fn a_long_queue_is_fetched_in_part_and_counted_whole() {
    let server = Server::start();
    take(&server, "lock:print");
    let mut push = vec!["RPUSH".to_string(), "redisson_lock_queue:{lock:print}".into()];
    push.extend((0..3_000).map(|n| format!("w:{n}")));
    server.cli(&push);
    let found = closer(&server, "lock:print").await;
    assert_eq!((found.waiters.exact(), found.waiters.queue.len()), (Some(3_000), 50));
    assert!(found.waiters.queue.iter().all(|waiter| waiter.left_ms.is_none()));
}

#[tokio::test]
async fn what_may_not_be_asked_is_unknown_and_never_zero() {
    let server = Server::start();
    take(&server, "lock:order");
    let allow = |user: &str, rules: &[&str]| {
        let rules = [&["ACL", "SETUSER", user, "on", ">pw", "resetchannels", "~lock:*"], rules].concat();
        server.cli(&rules);
    };
    // May read neither the queue's key nor the channels.
    allow("poor", &["+type", "+pttl", "+hlen", "+hgetall", "+llen", "+lrange", "+memory|usage"]);
    let found = closer_as(&server, "lock:order", "poor:pw@").await;
    assert!(matches!(&found.waiters.count, Count::Unknown(why) if why.contains("may not run")), "{:?}", found.waiters);
    assert_eq!(found.waiters.exact(), None);
    let hidden: Vec<_> = found.keys.iter().filter(|key| key.unread().is_some()).collect();
    assert!(hidden.len() >= 3 && hidden.iter().all(|key| key.length().is_none() && key.ttl.is_none()), "{hidden:#?}");
    // May ask about the channels but not the queue: at least those who listen.
    let _one = subscriber(&server, "redisson_lock__channel:{lock:order}").await;
    allow("half", &["+type", "+pttl", "+pubsub"]);
    let found = closer_as(&server, "lock:order", "half:pw@").await;
    assert_eq!(found.waiters.count, Count::AtLeast(1), "{:?}", found.waiters);
}

#[tokio::test]
async fn a_waiter_of_python_redis_lock_is_an_upper_bound() {
    let server = Server::start();
    let library = Library::python("python_redis_lock", &server);
    // With the library itself, or with its exact commands.
    let held = library.as_ref().map(|library| library.acquire("orders", Duration::from_secs(30)));
    if held.is_none() {
        server.cli(&["SET", "lock:orders", "q83kL+0pZt/1xYbW7mNcR2vH", "EX", "30"]);
    }
    let found = closer(&server, "lock:orders").await;
    assert_eq!((found.waiters.exact(), found.waiters.counted), (Some(0), Some(Counted::BlockedClients)));
    let _waiter = library.as_ref().map(|library| library.attempt("ttl", "orders", Duration::from_secs(30)));
    let blocked = held.is_none().then(|| {
        let mut conn = server.connection();
        std::thread::spawn(move || {
            let _: redis::RedisResult<redis::Value> =
                redis::cmd("BLPOP").arg("lock-signal:orders").arg(20).query(&mut conn);
        })
    });
    let list = || server.ask::<String, _>(&["CLIENT", "LIST"]);
    wait_until("a blocked client", SOON, || list().contains("cmd=blpop"));
    let found = closer(&server, "lock:orders").await;
    assert_eq!(found.waiters.count, Count::AtMost(1), "{:?}", found.waiters);
    assert!(found.waiters.describe().contains("the server does not say on which"));
    server.cli(&["LPUSH", "lock-signal:orders", "1"]);
    if let Some(blocked) = blocked {
        blocked.join().unwrap();
    }
}

#[tokio::test]
async fn readers_and_their_leases_belong_together() {
    let server = Server::start();
    server.cli(&["HSET", "lock:catalogue", "mode", "read", HOLDER, "2"]);
    server.cli(&["PEXPIRE", "lock:catalogue", "30000"]);
    for n in 1..=2 {
        server.cli(&["SET", &format!("{{lock:catalogue}}:{HOLDER}:rwlock_timeout:{n}"), "1", "PX", "30000"]);
    }
    let found = closer(&server, "lock:catalogue").await;
    assert_eq!(found.keys.len(), 3, "{:?}", names(&found));
    assert_eq!(found.waiters.on.as_deref(), Some(&b"redisson_rwlock:{lock:catalogue}"[..]));
}

/// Has the engine inspect `lock:order`, and waits for the result.
async fn inspected(engine: &mut Engine) -> Box<Inspection> {
    let order = Key::from("lock:order");
    engine.inspect(KeyspaceId::FIRST, &order);
    let found = async {
        loop {
            engine.next().await;
            if let Some((_, key, found)) = engine.take_inspected() {
                assert_eq!(key, order);
                return found;
            }
        }
    };
    tokio::time::timeout(SOON, found).await.expect("an answer")
}

#[tokio::test]
async fn the_engine_looks_closer_and_survives_a_lost_server() {
    let mut server = Server::with(&["--notify-keyspace-events", "KEA"]);
    take(&server, "lock:order");
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    engine.run_until_inventory().await;
    engine.inspect(KeyspaceId::FIRST, &Key::from("lock:unknown"));
    assert_eq!(inspected(&mut engine).await.waiters.exact(), Some(0));
    server.kill();
    let lost = inspected(&mut engine).await;
    assert!(lost.failed.is_some() && matches!(lost.waiters.count, Count::Unknown(_)), "{lost:?}");
    server.restart();
    server.cli(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    take(&server, "lock:order");
    assert_eq!(inspected(&mut engine).await.failed, None, "connected anew");
}

#[tokio::test]
async fn show_tells_waiters_and_keys() {
    let server = Server::start();
    take(&server, "lock:order");
    let _one = subscriber(&server, "redisson_lock__channel:{lock:order}").await;
    let show = |more: &[&str]| {
        let mut command = lockscope();
        let output = command.args(["-u", &server.url(), "show", "lock:order"]).args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let page = show(&[]);
    for part in [
        "waiters    1 process is subscribed to redisson_lock__channel:{lock:order}",
        "keys       lock:order hash, 1 element, TTL ",
    ] {
        assert!(page.contains(part), "{part} is missing in\n{page}");
    }
    let json: Value = serde_json::from_str(&show(&["--json"])).unwrap();
    assert_eq!(
        (&json["contention"]["waiters"], &json["contention"]["waiters_source"]),
        (&1.into(), &"subscribers".into())
    );
    assert_eq!((&json["waiting"]["count"], &json["waiting"]["count_is"]), (&1.into(), &"exact".into()));
    assert_eq!(json["keys"][0]["key"], "lock:order");
}

#[tokio::test]
async fn show_of_a_lock_that_is_polled_for_knows_no_number_of_waiters() {
    let server = Server::start();
    server.cli(&["SET", "lock:x", "a61c9f10c0de11ee8f3a0242ac120002", "EX", "30"]);
    let output = lockscope().args(["-u", &server.url(), "show", "lock:x", "--json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["contention"], &json["waiting"]["count"]), (&Value::Null, &Value::Null));
    assert!(json["waiting"]["why"].as_str().unwrap().contains("the server keeps no list of them"), "{json}");
}
