//! A flood of lock events: how many a second one thread reads and applies to the model, and whether any is lost.
//!
//! The flood waits in the server's output buffer until it is read, so that only the reading is measured. A first cycle
//! of taking, renewing and releasing shows how many events a cycle makes.

use std::time::{Duration, Instant};

use lockscope::engine::{Engine, NodeStatus, Reader, Stream};
use lockscope::lock::{KeyspaceId, RawValue};
use lockscope::sources::pace::Pace;
use redis::Connection;

use crate::common::engine::follow;
use crate::common::{Feed, Server};
use crate::keyspace::uuid;
use crate::limit::{Limit, Measured, whole};
use crate::machine::{self, Scheduled, disturbance};
use crate::report::{Figure, Report};

const KEYS: usize = 10_000;
/// How often each key is taken, renewed and released.
const CYCLES: usize = 40;
const LEAST: f64 = 300_000.0;
const PATIENCE: Duration = Duration::from_secs(60);

/// One flood.
struct Flood {
    events: u64,
    lost: u64,
    wall: Duration,
    busy: Duration,
}

pub fn measure(report: &mut Report, rounds: usize) {
    let floods: Vec<Flood> = (0..rounds)
        .map(|_| {
            // Its own thread and runtime, so that only the reader's processor time is measured.
            let reader = std::thread::spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.expect("a runtime").block_on(flood())
            });
            reader.join().expect("the reader ends well")
        })
        .collect();
    let by = |time: fn(&Flood) -> Duration| {
        Measured::of(floods.iter().map(|flood| flood.events as f64 / time(flood).as_secs_f64()).collect())
    };
    let (events, lost) = floods.iter().fold((0, 0), |(events, lost), flood| (events + flood.events, lost + flood.lost));
    report.add(Figure {
        name: "lock events a second read and taken into the model".into(),
        measured: by(|flood| flood.wall),
        limit: Limit::AtLeast(LEAST),
        show: whole,
        command: format!("SET NX PX, PEXPIRE, DEL on {} keys, by keyspace notifications", whole(KEYS as f64)),
    });
    report.add(Figure {
        name: "the same for each second of processor time".into(),
        measured: by(|flood| flood.busy),
        limit: Limit::AtLeast(LEAST),
        show: whole,
        command: "CPU time of the one thread that reads and keeps the table".into(),
    });
    report.add(Figure {
        name: format!("events lost of {}", whole(events as f64)),
        measured: Measured::once(lost as f64),
        limit: Limit::AtMost(0.0),
        show: whole,
        command: "and afterwards the table is what the server holds".into(),
    });
    let waited = floods.iter().map(|flood| flood.wall.saturating_sub(flood.busy)).sum();
    let ran = floods.iter().map(|flood| flood.busy).sum();
    if let Some(text) = disturbance("the reader", Scheduled { ran, waited }) {
        report.note(format!("events: {text}, or for the server"));
    }
}

async fn flood() -> Flood {
    let server = Server::with(&["--notify-keyspace-events", "KEA", "--client-output-buffer-limit", "pubsub 0 0 0"]);
    // Servers that have events for new keys send them only with this flag (n).
    let _ = server.try_ask::<(), _>(&["CONFIG", "SET", "notify-keyspace-events", "KEg$lshzxetdn"]);
    let mut conn = server.connection();
    let (mut engine, mut reader) = engine(&server).await;
    let per_cycle = {
        cycle(&mut conn, 0..1, 0);
        until(&mut engine, &mut reader, "the events of one cycle", |engine| engine.nodes().next().unwrap().events >= 4)
            .await;
        engine.run_for(Duration::from_millis(200)).await;
        engine.nodes().next().unwrap().events
    };
    for round in 1..=CYCLES {
        cycle(&mut conn, 0..KEYS, round);
    }
    // The last round ends with every other lock held.
    take(&mut conn, (0..KEYS).step_by(2), CYCLES + 1);
    let of_a_take = per_cycle - 2;
    let expected = per_cycle * (1 + KEYS * CYCLES) as u64 + of_a_take * (KEYS / 2) as u64;

    let (began, busy, seen) = (Instant::now(), machine::thread_time(), engine.nodes().next().unwrap().events);
    until(&mut engine, &mut reader, "the flood", |engine| {
        let node = engine.nodes().next().unwrap();
        // What was sent to a connection that is gone never comes.
        if let Stream::Reconnecting { why, .. } = &node.stream {
            panic!("the stream was lost after {} of {expected} events: {why}", node.events);
        }
        assert_eq!(node.reconnects, 0, "a lost connection after {} of {expected} events", node.events);
        node.events + lost(node) >= expected
    })
    .await;
    let (wall, busy) = (began.elapsed(), machine::thread_time() - busy);
    let node = engine.nodes().next().unwrap();
    assert_eq!(
        (node.events + lost(node), node.reconnects),
        (expected, 0),
        "events that nobody sent, or a lost connection"
    );
    let flood = Flood { events: node.events - seen, lost: lost(node), wall, busy };
    until(&mut engine, &mut reader, "the table to be what the server holds", agrees).await;
    flood
}

fn lost(node: &NodeStatus) -> u64 {
    node.lost.expect("what notifications lose is counted")
}

async fn engine(server: &Server) -> (Engine, Reader) {
    let mut engine = follow(server, Feed::Notifications, Pace::Fast).await;
    let mut reader = engine.reader();
    until(&mut engine, &mut reader, "notifications", |engine| {
        matches!(engine.nodes().next().unwrap().stream, Stream::Live(_)) && engine.has_inventory()
    })
    .await;
    assert_eq!(engine.nodes().next().unwrap().stream.name(), "notifications");
    (engine, reader)
}

/// Runs the engine until the condition holds.
async fn until(engine: &mut Engine, reader: &mut Reader, what: &str, condition: impl Fn(&Engine) -> bool) {
    let began = Instant::now();
    while !condition(engine) {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        engine.next().await;
        reader.take();
    }
}

fn cycle(conn: &mut Connection, keys: std::ops::Range<usize>, round: usize) {
    take(conn, keys.clone(), round);
    let mut pipe = redis::pipe();
    for number in keys {
        pipe.cmd("PEXPIRE").arg(key(number)).arg(3_600_000).ignore();
        pipe.cmd("DEL").arg(key(number)).ignore();
    }
    pipe.exec(conn).expect("the server takes commands");
}

fn take(conn: &mut Connection, keys: impl Iterator<Item = usize>, round: usize) {
    let mut pipe = redis::pipe();
    for number in keys {
        pipe.cmd("SET").arg(key(number)).arg(uuid(number + round * KEYS)).arg("NX").arg("PX").arg(3_000_000).ignore();
    }
    pipe.exec(conn).expect("the server takes commands");
}

fn key(number: usize) -> String {
    format!("lock:order:{number}")
}

/// Every other lock is held, by the token of the last round.
fn agrees(engine: &Engine) -> bool {
    let held = |number: usize| {
        let lock = engine.table().lock_named(KeyspaceId::FIRST, key(number).as_bytes()).filter(|lock| lock.is_held());
        lock.map(|lock| lock.value().clone())
    };
    engine.table().held() == KEYS / 2
        && (0..KEYS).all(|number| {
            let token = (number % 2 == 0).then(|| uuid(number + (CYCLES + 1) * KEYS));
            held(number) == token.map(|token| RawValue::string(token.as_bytes()))
        })
}
