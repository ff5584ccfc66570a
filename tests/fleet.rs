//! The simulated fleet end to end: every planted situation gets its right verdict, none is invented, and a server
//! restart in between does not change that.
//!
//! In the default suite the fleet runs faster than production. `LOCKSCOPE_FLEET_SECONDS=120` runs it for that long at
//! production speed, as `make soak` does.

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::engine::followed;
use common::{Feed, Server};
use lockscope::demo::{DUTY, Fleet, SITUATIONS, Shape, Summary, Tempo};
use lockscope::dialects::Recogniser;
use lockscope::engine::{Engine, Options, Reader};
use lockscope::sources::pace::Pace;
use tokio::time::Instant;

/// How long to wait for verdicts that are still missing: on a loaded machine samples miss some of them.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(200);

/// How long to watch the fleet, and its speed.
fn run() -> (Duration, Tempo) {
    match std::env::var("LOCKSCOPE_FLEET_SECONDS").ok().map(|seconds| seconds.parse()) {
        Some(Ok(seconds)) => (Duration::from_secs(seconds), Tempo::REAL),
        Some(Err(why)) => panic!("LOCKSCOPE_FLEET_SECONDS is a number of seconds: {why}"),
        None => (Duration::from_secs(40), Tempo::times(1.5)),
    }
}

async fn watch(server: &Server) -> Engine {
    let options = Options::following(Recogniser::default(), Pace::POLITE);
    let mut engine = followed(server, Feed::Notifications, options).await;
    engine.sample_by(Some(DUTY));
    engine
}

/// Watches for this long.
async fn look(summary: &mut Summary, engine: &mut Engine, reader: &mut Reader, how_long: Duration) {
    let end = Instant::now() + how_long;
    let mut next = Instant::now();
    while next < end {
        next += LOOK;
        engine.run_for(next.saturating_duration_since(Instant::now())).await;
        summary.look(engine, reader);
    }
}

#[tokio::test]
async fn every_planted_situation_is_found_and_none_is_invented() {
    let (how_long, tempo) = run();
    let mut server = Feed::Notifications.server();
    let mut engine = watch(&server).await;
    let mut reader = engine.reader();
    let fleet = Fleet::start(&server.url(), 1, tempo).await.expect("the fleet");
    let mut summary = Summary::new(1, Shape::Standalone);
    look(&mut summary, &mut engine, &mut reader, how_long / 2).await;
    assert_eq!(summary.invented(), Vec::<String>::new(), "before any restart");
    server.restart();
    look(&mut summary, &mut engine, &mut reader, how_long / 4).await;
    server.restart();
    look(&mut summary, &mut engine, &mut reader, how_long / 4).await;
    // Wait for what happens only sometimes; what is invented meanwhile counts.
    let patience = Instant::now() + PATIENCE;
    while !summary.unsaid().is_empty() && Instant::now() < patience {
        look(&mut summary, &mut engine, &mut reader, Duration::from_secs(1)).await;
    }

    let mut text = Vec::new();
    summary.write(&mut text).expect("a summary");
    let text = String::from_utf8(text).expect("text");
    assert_eq!(summary.missing(), Vec::<&str>::new(), "{text}");
    // The server came back empty each time: all locks were lost, and who took one then has it beside a holder that may be
    // at work.
    let robbed = |said: &String| {
        said.contains(": split (") && said.contains("whose lease still runs")
            || said.contains(": lost (") && said.contains(": lost in a restart ")
    };
    let invented: Vec<String> = summary.invented().into_iter().filter(|said| !robbed(said)).collect();
    assert_eq!((summary.unsaid(), invented), (Vec::new(), Vec::new()), "not said, invented\n{text}");
    let globs: Vec<_> = SITUATIONS.iter().map(|situation| situation.glob()).collect();
    let snapshot = engine.snapshot();
    let planted = |key: &[u8]| globs.iter().any(|glob| glob.matches(key));
    let others = snapshot.locks.iter().filter(|lock| !planted(lock.key.as_bytes())).map(|lock| lock.key.to_string());
    assert_eq!(others.collect::<BTreeSet<_>>(), BTreeSet::new(), "of these nobody looked at the verdicts");
    fleet.stop().await;
}
