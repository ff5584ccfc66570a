//! What it costs the server to ask who wants its locks: ten thousand locks, no MONITOR, at the default pace.
//!
//! Measures the processor time of the server while the engine follows its locks, minus its idle time. Waiters of half
//! the locks show in a channel and a queue, those of the others only in the key's last access; a few locks are wanted.

use std::time::{Duration, Instant};

use lockscope::engine::Engine;
use lockscope::sources::pace::Pace;

use crate::common::{Feed, Server, engine};
use crate::keyspace::uuid;
use crate::limit::{Limit, Measured};
use crate::machine::{Scheduled, disturbance};
use crate::report::{Figure, Report};

const LOCKS: usize = 10_000;
/// How many of them have a client that waits or tries to take them.
const WANTED: usize = 20;
const WINDOW: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(60);

pub fn measure(report: &mut Report) {
    let server = Server::with(&["--notify-keyspace-events", "KEA"]);
    take_all(&server);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _waiters = runtime.block_on(waiters(&server));
    let alone = over(&server, WINDOW, || std::thread::sleep(WINDOW));
    let mut engine = runtime.block_on(engine::follow(&server, Feed::Notifications, Pace::POLITE));
    runtime.block_on(until_known(&mut engine));
    let followed = over(&server, WINDOW, || runtime.block_on(engine.run_for(WINDOW)));
    let known = engine.snapshot().locks.iter().filter(|lock| lock.waits.is_some()).count();
    assert_eq!(known, LOCKS / 2, "all that have a channel were counted lately");
    let share = |scheduled: Scheduled| scheduled.ran.as_secs_f64() / WINDOW.as_secs_f64() * 100.0;
    report.add(Figure {
        name: "% of a core of the server to find who wants 10,000 locks, without MONITOR".into(),
        measured: Measured::once(share(followed) - share(alone)),
        limit: Limit::Below(1.0),
        show: |share| format!("{share:.2}"),
        command: format!(
            "CPU time of the server over {} s, less {:.2} % when nobody is there; half Redisson's, half polled",
            WINDOW.as_secs(),
            share(alone)
        ),
    });
    if let Some(text) = disturbance("the server", followed) {
        report.note(format!("polling: {text}"));
    }
}

/// The processor time of the server meanwhile.
fn over(server: &Server, window: Duration, meanwhile: impl FnOnce()) -> Scheduled {
    let (before, began) = (Scheduled::of(server.pid()), Instant::now());
    meanwhile();
    assert!(began.elapsed() < window * 2, "the machine is far too busy to measure anything");
    Scheduled::of(server.pid()).since(before)
}

/// Runs the engine until the locks are known and were asked about once.
async fn until_known(engine: &mut Engine) {
    let began = Instant::now();
    while engine.table().locks().filter(|lock| lock.contention().is_some()).count() < LOCKS / 2 {
        assert!(began.elapsed() < PATIENCE, "waited in vain for the first round");
        engine.next().await;
    }
}

fn take_all(server: &Server) {
    let mut pipe = redis::pipe();
    for number in 0..LOCKS {
        if number % 2 == 0 {
            pipe.cmd("HSET").arg(key(number)).arg(format!("{}:{number}", uuid(number))).arg(1).ignore();
        } else {
            pipe.cmd("SET").arg(key(number)).arg(uuid(number)).ignore();
        }
        pipe.cmd("PEXPIRE").arg(key(number)).arg(3_600_000).ignore();
    }
    pipe.exec(&mut server.connection()).expect("the server takes locks");
}

async fn waiters(server: &Server) -> Vec<redis::aio::PubSub> {
    let mut all = Vec::new();
    for number in 0..WANTED {
        let client = redis::Client::open(server.url()).expect("a valid URL");
        let mut waiter = client.get_async_pubsub().await.expect("a server that answers");
        let channel = format!("redisson_lock__channel:{{{}}}", key(number * 2));
        waiter.subscribe(channel).await.expect("a server that answers");
        all.push(waiter);
    }
    all
}

fn key(number: usize) -> String {
    format!("lock:order:{number:06}")
}
