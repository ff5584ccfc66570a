//! Several nodes on one engine, on real servers: they join, leave, die and come back while events flow on the others.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::engine::{endpoint, options};
use common::{Feed, Server};
use lockscope::engine::{Engine, Reader, Stream};
use lockscope::lock::NodeId;
use lockscope::model::{Limits, Transition};
use lockscope::topology::{Node, Topology};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server whose workers take and free locks until it is dropped, and one lock that stays.
struct Busy {
    server: Server,
    stop: Arc<AtomicBool>,
    work: Option<JoinHandle<()>>,
}

impl Busy {
    fn start(name: &str) -> Busy {
        let server = Feed::Notifications.server();
        server.ask::<(), _>(&["SET", "lock:stays", name, "PX", "600000"]);
        let stop = Arc::new(AtomicBool::new(false));
        let (mut conn, over) = (server.connection(), stop.clone());
        let work = thread::spawn(move || {
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let key = format!("lock:{}", number % 5);
                redis::cmd("SET").arg(&key).arg(number).arg("PX").arg(60_000).exec(&mut conn).unwrap();
                redis::cmd("DEL").arg(&key).exec(&mut conn).unwrap();
                thread::sleep(Duration::from_millis(2));
            }
        });
        Busy { server, stop, work: Some(work) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.rest();
    }
}

impl Busy {
    fn rest(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.work.take().map(JoinHandle::join);
    }
}

/// Everything that happened, by node.
#[derive(Default)]
struct Story(Vec<Transition>);

impl Story {
    fn count(&self, node: &Node, what: &str) -> usize {
        self.0.iter().filter(|change| change.node == node.id && change.change.name() == what).count()
    }
}

async fn until(
    engine: &mut Engine,
    reader: &mut Reader,
    story: &mut Story,
    what: &str,
    done: impl Fn(&Engine, &Story) -> bool,
) {
    let began = Instant::now();
    while !done(engine, story) {
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        engine.next().await;
        let (changes, missed) = reader.take();
        assert_eq!(missed, 0);
        story.0.extend(changes);
    }
}

/// Who holds the lock that stays, by node.
fn holders(engine: &Engine) -> Vec<(NodeId, String)> {
    let locks = engine.snapshot().locks;
    let stays = locks.iter().filter(|lock| lock.key.to_string() == "lock:stays");
    let mut found: Vec<_> = stays.map(|lock| (lock.node, lock.holders[0].token.to_string())).collect();
    found.sort();
    found
}

fn is_live(engine: &Engine, node: &Node) -> bool {
    engine.node(node.id).is_some_and(|status| matches!(status.stream, Stream::Live(_)) && status.scan.is_some())
}

#[tokio::test]
async fn nodes_join_and_leave_while_events_flow_on_the_others() {
    let (a, mut b, mut c) = (Busy::start("a"), Busy::start("b"), Busy::start("c"));
    let mut topology = Topology::default();
    let [first, second] = [&a, &b].map(|busy| topology.add(&endpoint(&busy.server, Feed::Notifications)).unwrap());
    let mut engine = Engine::start(&topology, options(Limits::default())).await.expect("both answer");
    let (mut reader, mut story) = (engine.reader(), Story::default());
    let flows = |node: &Node, story: &Story, most| story.count(node, "acquired") > most;
    until(&mut engine, &mut reader, &mut story, "both flow", |engine, story| {
        [&first, &second].iter().all(|node| is_live(engine, node) && flows(node, story, 20))
    })
    .await;
    assert_eq!(holders(&engine), [(first.id, "a".into()), (second.id, "b".into())]);
    assert!(engine.snapshot().complete);

    // A third node joins and one leaves, while the other continues.
    let third = topology.add(&endpoint(&c.server, Feed::Notifications)).unwrap();
    engine.join(&third);
    assert!(!engine.snapshot().complete, "the new one was not walked yet");
    engine.leave(first.id);
    let (left, before) = (story.0.len(), story.count(&second, "acquired"));
    assert_eq!(holders(&engine), [(second.id, "b".into())]);
    assert!(engine.table().locks().all(|lock| lock.node == second.id), "nothing of the one that left is kept");
    until(&mut engine, &mut reader, &mut story, "the third flows", |engine, story| {
        is_live(engine, &third) && flows(&third, story, 50) && flows(&second, story, before + 50)
    })
    .await;
    assert_eq!(holders(&engine), [(second.id, "b".into()), (third.id, "c".into())]);
    assert!(engine.snapshot().complete, "{:?}", engine.snapshot().incomplete);
    assert!(story.0[left..].iter().all(|change| change.node != first.id), "who left says nothing any more");
    assert_eq!(engine.nodes().map(|node| node.id).collect::<Vec<_>>(), [second.id, third.id]);
    let lost: u64 = engine.nodes().map(|node| node.lost.unwrap_or(1) + node.reconnects).sum();
    assert_eq!((lost, story.count(&second, "lost"), story.count(&third, "lost")), (0, 0, 0));

    // When all is quiet, the table has what the servers have.
    b.rest();
    c.rest();
    until(&mut engine, &mut reader, &mut story, "the workers' locks are gone", |engine, _| {
        engine.table().locks().count() == 2
    })
    .await;
    assert_eq!(holders(&engine), [(second.id, "b".into()), (third.id, "c".into())]);
}

#[tokio::test]
async fn a_node_that_is_dead_at_the_start_stops_neither_the_start_nor_the_others() {
    let (alive, mut dead) = (Busy::start("alive"), Feed::Notifications.server());
    let mut topology = Topology::default();
    let [late, here] =
        [&dead, &alive.server].map(|server| topology.add(&endpoint(server, Feed::Notifications)).unwrap());
    dead.kill();
    let mut engine = Engine::start(&topology, options(Limits::default())).await.expect("one answers");
    let (mut reader, mut story) = (engine.reader(), Story::default());
    engine.run_until_inventory().await;
    assert!(matches!(engine.node(late.id).unwrap().stream, Stream::Reconnecting { .. }));
    assert_eq!(holders(&engine), [(here.id, "alive".into())]);
    assert_eq!(engine.snapshot().incomplete, Some(format!("{} does not answer", late.name)));
    dead.restart();
    dead.ask::<(), _>(&["SET", "lock:stays", "back", "PX", "600000"]);
    until(&mut engine, &mut reader, &mut story, "it comes back", |engine, _| {
        is_live(engine, &late) && engine.snapshot().complete
    })
    .await;
    assert_eq!(holders(&engine), [(late.id, "back".into()), (here.id, "alive".into())]);
    assert!(engine.node(late.id).unwrap().facts.product.known().is_some(), "what it is was asked when it came back");
}
