//! Any number of readers on one engine, on a real server: each gets every transition, and none takes from another.

mod common;

use std::time::{Duration, Instant};

use common::engine::{followed, options};
use common::{Feed, Server};
use lockscope::engine::{Engine, Reader, Stream};
use lockscope::model::{Limits, Transition};

const PATIENCE: Duration = Duration::from_secs(60);
/// The number of transitions kept for a reader that does not read.
const KEPT: usize = 50;
const CYCLES: usize = 60;

fn told(changes: &[Transition]) -> Vec<(String, &'static str)> {
    changes.iter().map(|change| (change.key.to_string(), change.change.name())).collect()
}

fn cycle(server: &Server, number: usize) {
    let key = format!("lock:{number}");
    server.ask::<(), _>(&["SET", &key, "holder", "NX", "PX", "60000"]);
    server.ask::<(), _>(&["DEL", &key]);
}

/// Follows until the reader has this many transitions.
async fn until(engine: &mut Engine, reader: &mut Reader, story: &mut Vec<Transition>, most: usize) {
    let began = Instant::now();
    while story.len() < most {
        assert!(began.elapsed() < PATIENCE, "waited in vain for {most} transitions: {:?}", told(story));
        engine.next().await;
        story.extend(reader.take().0);
    }
}

#[tokio::test]
async fn two_readers_get_every_transition_and_a_third_is_told_what_it_missed() {
    let server = Feed::Notifications.server();
    let limits = Limits { transitions: KEPT, ..Limits::default() };
    let mut engine = followed(&server, Feed::Notifications, options(limits)).await;
    let (mut first, mut second, mut idle) = (engine.reader(), engine.reader(), engine.reader());
    while !(engine.has_inventory() && engine.nodes().all(|node| matches!(node.stream, Stream::Live(_)))) {
        engine.next().await;
    }
    // The second reader has its own task, and reads whenever something changed.
    let (all, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let reading = tokio::spawn(async move {
        while second.changed().await {
            let (changes, missed) = second.take();
            assert_eq!(missed, 0);
            for change in changes {
                let _ = all.send(change);
            }
        }
    });
    let (mut story, mut other) = (Vec::new(), Vec::new());
    for number in 0..CYCLES {
        cycle(&server, number);
        until(&mut engine, &mut first, &mut story, 2 * (number + 1)).await;
        while other.len() < story.len() {
            tokio::select! {
                change = heard.recv() => other.extend(change),
                _ = engine.next() => {}
            }
        }
    }
    let expected = (0..CYCLES).flat_map(|n| ["acquired", "released"].map(|what| (format!("lock:{n}"), what)));
    assert_eq!(told(&story), expected.collect::<Vec<_>>());
    assert_eq!(other, story, "the second one has the same story");
    let (kept, missed) = idle.take();
    assert_eq!((kept.as_slice(), missed as usize), (&story[story.len() - KEPT..], story.len() - KEPT));
    assert_eq!(idle.take(), (Vec::new(), 0), "it is told once");
    drop(engine);
    reading.await.expect("it ends with the engine");
}

#[tokio::test]
async fn a_reader_in_another_task_gets_a_snapshot_when_it_asks_for_one() {
    let server = Feed::Notifications.server();
    server.ask::<(), _>(&["SET", "lock:a", "holder", "PX", "60000"]);
    let mut engine = followed(&server, Feed::Notifications, options(Limits::default())).await;
    engine.run_until_inventory().await;
    let (mut one, mut two) = (engine.reader(), engine.reader());
    let asking = tokio::spawn(async move { (one.snapshot().await, two.snapshot().await) });
    let driving = tokio::spawn(async move {
        engine.run_for(PATIENCE).await;
    });
    let (one, two) = asking.await.expect("snapshots");
    driving.abort();
    for snapshot in [one, two] {
        let keys: Vec<String> = snapshot.expect("a snapshot").locks.iter().map(|lock| lock.key.to_string()).collect();
        assert_eq!(keys, ["lock:a"]);
    }
}
