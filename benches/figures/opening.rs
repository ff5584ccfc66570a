//! How soon an opening on five million keys knows something: until the first locks found are judged, and until it is
//! known which of 10,000 clients hold them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use lockscope::dialects::Recogniser;
use lockscope::engine::{Engine, Options};
use lockscope::lock::KeyspaceId;
use lockscope::model::{LockView, Presence, State};
use lockscope::sources::pace::Pace;

use crate::common::engine::{endpoint_at, start};
use crate::keyspace::{Keyspace, uuid};
use crate::limit::{Limit, Measured, whole};
use crate::machine::{Scheduled, disturbance, thread_id};
use crate::report::{Figure, Report};

const CLIENTS: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Connected clients, each named like the holder of a lock.
struct Clients(Vec<TcpStream>);

impl Clients {
    fn connect(keyspace: &Keyspace) -> Clients {
        let _: () = keyspace.server.ask(&["CONFIG", "SET", "maxclients", &(CLIENTS + 1_000).to_string()]);
        let connect = |number: usize| {
            let mut stream = TcpStream::connect(("127.0.0.1", keyspace.server.port())).expect("one more client");
            let line = redis::cmd("CLIENT").arg("SETNAME").arg(uuid(number)).get_packed_command();
            stream.write_all(&line).expect("a server that takes it");
            stream.read_exact(&mut [0; 5]).expect("OK");
            stream
        };
        Clients((0..CLIENTS).map(connect).collect())
    }
}

/// What one opening took, in milliseconds.
struct Opened {
    judged: f64,
    matched: f64,
}

pub fn measure(report: &mut Report, keyspace: &Keyspace, rounds: usize) {
    let clients = Clients::connect(keyspace);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let before = Scheduled::of(thread_id());
    let opened: Vec<Opened> = (0..rounds).map(|_| runtime.block_on(open(&keyspace.server.url()))).collect();
    let scheduled = Scheduled::of(thread_id()).since(before);
    drop(clients.0);
    report.add(Figure {
        name: "ms until the first of 50,000 locks among 5,000,000 keys are judged".into(),
        measured: Measured::of(opened.iter().map(|one| one.judged).collect()),
        limit: Limit::AtMost(1_000.0),
        show: whole,
        command: "from before the connection is opened, at the polite pace, beside 10,000 clients".into(),
    });
    report.add(Figure {
        name: "ms from then until it is known which of 10,000 clients holds one".into(),
        measured: Measured::of(opened.iter().map(|one| one.matched).collect()),
        limit: Limit::AtMost(2_000.0),
        show: whole,
        command: "by the names of clients in CLIENT LIST; from when the lock was found".into(),
    });
    if let Some(text) = disturbance("lockscope", scheduled) {
        report.note(format!("opening: {text}"));
    }
}

async fn open(url: &str) -> Opened {
    let began = Instant::now();
    let (mut engine, _) = start(&endpoint_at(url), Options::following(Recogniser::default(), Pace::POLITE)).await;
    let mut first = None;
    let (lock, found) = loop {
        engine.next().await;
        first = first.or_else(|| engine.table().locks().next().map(|_| Instant::now()));
        if let Some(lock) = named(&engine) {
            break (lock, Instant::now());
        }
        assert!(began.elapsed() < PATIENCE, "no lock whose holder is connected was found");
    };
    assert_eq!(lock.verdict.state, State::Held, "{:?}", lock.verdict);
    let first = first.expect("a lock was found");
    while !is_matched(&engine, &lock) {
        assert!(found.elapsed() < PATIENCE, "its client was not found: {:?}", lock.holders);
        engine.next().await;
    }
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Opened { judged: ms(first - began), matched: ms(found.elapsed()) }
}

/// A lock whose holder has the name of a client.
fn named(engine: &Engine) -> Option<LockView> {
    let (table, now) = (engine.table(), engine.clock.now());
    let is_named = |key: &[u8]| {
        let digits = key.strip_prefix(b"lock:job:").and_then(|digits| std::str::from_utf8(digits).ok());
        digits.and_then(|digits| digits.parse::<usize>().ok()).is_some_and(|number| number < CLIENTS)
    };
    table.view(table.locks().find(|lock| is_named(lock.key.as_bytes()))?, now)
}

fn is_matched(engine: &Engine, lock: &LockView) -> bool {
    let (table, now) = (engine.table(), engine.clock.now());
    let view = table.lock_named(KeyspaceId::FIRST, lock.key.as_bytes()).and_then(|lock| table.view(lock, now));
    view.is_some_and(|lock| matches!(lock.presence.first(), Some(Presence::Connected { .. })))
}
