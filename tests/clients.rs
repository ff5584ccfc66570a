//! From a holder to its connection, on a real server: which client it is, and that it is gone.

mod common;

use std::time::{Duration, Instant};

use common::feed::Feed;
use common::{Server, engine, lockscope};
use lockscope::engine::Engine;
use lockscope::lock::{Key, KeyspaceId, NodeId, Token};
use lockscope::model::{Address, Connection, LockView, Observation, Sample, Spoke};
use lockscope::sources::pace::Pace;
use redis::Connection as Client;

const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "lock:order";
const TOKEN: &str = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e";

/// A client that holds the lock, by the name `orders-1`, and its address as the server writes it.
fn holder(server: &Server) -> (Client, Address) {
    let mut client = server.connection();
    redis::cmd("CLIENT").arg("SETNAME").arg("orders-1").exec(&mut client).unwrap();
    redis::cmd("SET").arg(KEY).arg(TOKEN).arg("NX").arg("PX").arg(600_000).exec(&mut client).unwrap();
    let line: String = redis::cmd("CLIENT").arg("INFO").query(&mut client).unwrap();
    let address = line.split(' ').find_map(|part| part.strip_prefix("addr=")).unwrap();
    (client, Address::parse(address).unwrap())
}

fn view(engine: &Engine) -> Option<LockView> {
    let (table, now) = (engine.table(), engine.clock.now());
    table.lock_named(KeyspaceId::FIRST, KEY.as_bytes()).and_then(|lock| table.view(lock, now))
}

async fn until(engine: &mut Engine, what: &str, condition: impl Fn(&Engine) -> bool) {
    let began = Instant::now();
    while !condition(engine) {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        engine.next().await;
    }
}

/// Tells the engine what a burst of MONITOR would have shown: the client named the lock with its token.
async fn introduce(engine: &mut Engine, address: &Address) {
    until(engine, "the lock is known", |engine| view(engine).is_some()).await;
    let spoke = vec![Spoke { token: Token::from(TOKEN.as_bytes()), address: address.clone(), at: engine.clock.now() }];
    let sample = Box::new(Sample { spoke, ..Sample::default() });
    engine.observe(Observation::Sampled { node: NodeId(0), key: Key::from(KEY), sample });
}

fn connection(engine: &Engine) -> Option<Connection> {
    view(engine)?.connection
}

#[tokio::test]
async fn a_holder_that_is_killed_is_known_to_be_gone() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let (client, address) = holder(&server);
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    introduce(&mut engine, &address).await;
    until(&mut engine, "the list tells of it", |engine| connection(engine).is_some_and(|known| known.id.is_some()))
        .await;
    let known = connection(&engine).unwrap();
    assert_eq!((known.name.clone(), known.user.clone()), (Some("orders-1".into()), Some("default".into())));
    assert!(known.since.is_some() && known.closed.is_none());
    // Later requests find it still open.
    until(&mut engine, "it was asked for again", |engine| {
        connection(engine).is_some_and(|again| again.seen > known.seen && again.closed.is_none())
    })
    .await;
    drop(client);
    until(&mut engine, "it is gone", |engine| connection(engine).is_some_and(|known| known.closed.is_some())).await;
    let told = connection(&engine).unwrap().describe(engine.clock.now());
    assert!(told.starts_with(&format!("{address} (orders-1")) && told.contains(", closed "), "{told}");
    assert_eq!(engine.table().open_connections(NodeId(0)).count(), 0, "nothing is left to ask for");
}

#[tokio::test]
async fn whoever_takes_the_lock_next_does_not_inherit_the_connection() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let (_client, address) = holder(&server);
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    introduce(&mut engine, &address).await;
    assert!(connection(&engine).is_some());
    server.cli(&["SET", KEY, "somebody-else", "PX", "600000"]);
    until(&mut engine, "it changed hands", |engine| {
        view(engine).is_some_and(|lock| lock.holders.iter().any(|holder| holder.token.as_bytes() == b"somebody-else"))
    })
    .await;
    assert_eq!(connection(&engine), None);
}

#[tokio::test]
async fn a_list_that_is_refused_is_told_and_nothing_is_made_up() {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    let (client, address) = holder(&server);
    // All but CLIENT LIST, in rules that version 6 knows as well.
    server.cli(&["ACL", "SETUSER", "default", "-client", "+client|id", "+client|setname", "+client|tracking"]);
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    introduce(&mut engine, &address).await;
    until(&mut engine, "it is told", |engine| engine.nodes().next().unwrap().clients_note.is_some()).await;
    assert_eq!(
        engine.nodes().next().unwrap().clients_note.as_deref(),
        Some("whether holders are still connected is not known: this user may not run CLIENT LIST")
    );
    drop(client);
    let known = connection(&engine).unwrap();
    assert_eq!((known.id, known.closed), (None, None), "not known to be closed");
}

#[tokio::test]
async fn blocked_clients_are_still_counted_from_the_same_list() {
    let server = Server::start();
    server.cli(&["SET", "lock:orders", "0123456789abcdef", "PX", "600000"]);
    let list = "lock-signal:orders";
    let mut blocked = server.connection();
    let waiting = std::thread::spawn(move || redis::cmd("BLPOP").arg(list).arg(20).exec(&mut blocked));
    common::wait_until("it waits", PATIENCE, || {
        let info: String = server.ask(&["INFO", "clients"]);
        info.contains("blocked_clients:1")
    });
    let arguments = ["show", "lock:orders", "--json", "--dialect", "python-redis-lock=lock:*", "-u", &server.url()];
    let output = lockscope().args(arguments).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["waiting"]["count"], &document["waiting"]["count_is"]), (&1.into(), &"at-most".into()));
    server.cli(&["LPUSH", list, "1"]);
    waiting.join().unwrap().unwrap();
}
