//! A whole cluster on one engine, on real servers under load: after a failover, a lost master and slots that move, the
//! table is what the owners say, nothing is there twice, and no lock that was held is told as lost or freed.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::Cluster;
use common::cluster::{ClusterClient, moves_at_once};
use common::engine::{endpoint_at, held, options};
use lockscope::engine::{Engine, Reader, Stream};
use lockscope::lock::slot_of;
use lockscope::model::{Limits, Transition};
use lockscope::topology::{HostMap, Topology};

const PATIENCE: Duration = Duration::from_secs(30);
/// Locks that are held from the beginning to the end.
const STAYING: usize = 60;

/// A cluster with locks that stay, and workers that take, renew and free others until it is stopped.
struct Busy {
    cluster: Cluster,
    stop: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
    work: Vec<JoinHandle<()>>,
}

fn staying(number: usize) -> String {
    format!("lock:stays:{number}")
}

fn working(worker: usize, number: usize) -> String {
    format!("lock:{worker}:{}", number % 20)
}

/// The slots below `end` of the locks that stay, and then of those that the workers use.
fn slots_below(end: u16) -> (Vec<u16>, Vec<u16>) {
    let below = |slot: &u16| *slot < end;
    let stay: Vec<u16> = (0..STAYING).map(|number| slot_of(staying(number).as_bytes())).filter(below).collect();
    let work = (0..3).flat_map(|worker| (0..20).map(move |number| slot_of(working(worker, number).as_bytes())));
    (stay.clone(), work.filter(below).filter(|slot| !stay.contains(slot)).collect())
}

impl Busy {
    fn start() -> Option<Busy> {
        Busy::on(Cluster::start(3)?)
    }

    fn on(cluster: Cluster) -> Option<Busy> {
        let mut client = cluster.client();
        for number in 0..STAYING {
            take(&mut client, &staying(number), "stayer", 600_000);
        }
        let (stop, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let work = (0..3).map(|worker| {
            let (mut client, stop, taken) = (cluster.client(), stop.clone(), taken.clone());
            thread::spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let key = working(worker, number);
                    work_once(&mut client, &key, &format!("token-{worker}-{number}"));
                    taken.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(5));
                }
            })
        });
        let work = work.collect();
        Some(Busy { cluster, stop, taken, work })
    }

    fn rest(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.work.drain(..).for_each(|work| work.join().expect("a worker that was always answered"));
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.work.drain(..).for_each(|work| drop(work.join()));
    }
}

fn take(client: &mut ClusterClient, key: &str, token: &str, ms: u64) {
    client.ask(key, redis::cmd("SET").arg(key).arg(token).arg("NX").arg("PX").arg(ms));
}

/// Takes a lock, renews it, and frees it as its holder.
fn work_once(client: &mut ClusterClient, key: &str, token: &str) {
    const FREE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    take(client, key, token, 60_000);
    client.ask(key, redis::cmd("PEXPIRE").arg(key).arg(120_000));
    client.ask(key, redis::cmd("EVAL").arg(FREE).arg(1).arg(key).arg(token));
}

/// The engine on the cluster, and everything that it told.
struct Watch {
    engine: Engine,
    reader: Reader,
    story: Vec<Transition>,
}

impl Watch {
    async fn start(busy: &Busy) -> Watch {
        let seeds = [endpoint_at(&busy.cluster.master(0).url())];
        let topology = Topology::of_cluster(&seeds, HostMap::default()).await.expect("a cluster");
        let engine = Engine::start(&topology, options(Limits::default())).await.expect("all answer");
        let (reader, story) = (engine.reader(), Vec::new());
        let mut watch = Watch { engine, reader, story };
        watch.until("all nodes are live", |watch| watch.live() == 3 && watch.engine.snapshot().complete).await;
        watch
    }

    fn live(&self) -> usize {
        let live = |stream: &Stream| matches!(stream, Stream::Live(_));
        self.engine.nodes().filter(|node| live(&node.stream) && node.scan.is_some()).count()
    }

    async fn until(&mut self, what: &str, done: impl Fn(&Watch) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(
                began.elapsed() < PATIENCE,
                "waited in vain: {what}; {:?} {:?}",
                self.engine.snapshot().incomplete,
                self.engine.nodes().map(|node| (&node.name, &node.stream)).collect::<Vec<_>>()
            );
            self.engine.next().await;
            let (changes, missed) = self.reader.take();
            assert_eq!(missed, 0);
            self.story.extend(changes);
        }
    }

    /// Lets everything that happens come in while slots move from one node to another.
    async fn moves(&mut self, busy: Busy, slots: Vec<u16>, from: usize, to: usize) -> Busy {
        let moving = tokio::task::spawn_blocking(move || {
            let (from, to) = (&busy.cluster.nodes[from], &busy.cluster.nodes[to]);
            slots.into_iter().for_each(|slot| busy.cluster.move_slot(slot, from, to));
            busy
        });
        self.until("slots move", |_| moving.is_finished()).await;
        moving.await.expect("they moved")
    }

    async fn work_goes_on(&mut self, busy: &Busy) {
        let (taken, before) = (busy.taken.clone(), busy.taken.load(Ordering::Relaxed));
        self.until("the work goes on", |_| taken.load(Ordering::Relaxed) > before + 100).await;
    }

    fn table(&self) -> BTreeMap<String, String> {
        let held = held(&self.engine);
        let table: BTreeMap<_, _> = held.iter().cloned().collect();
        assert_eq!(table.len(), held.len(), "a lock is there twice: {held:?}");
        table
    }

    /// How often this was told of a lock that stays.
    fn told(&self, what: &str) -> usize {
        let stays = |change: &&Transition| change.key.to_string().starts_with("lock:stays:");
        self.story.iter().filter(stays).filter(|change| change.change.name() == what).count()
    }

    /// What was told of each lock of the workers is what they did: taken, renewed and freed by its holder, in turn. One
    /// that went on where nobody listened yet may be gone unseen, but never taken over or expired.
    fn reads_like_the_work(&self) {
        let mut stories: BTreeMap<String, Vec<&Transition>> = BTreeMap::new();
        for change in self.story.iter().filter(|change| !change.key.to_string().starts_with("lock:stays:")) {
            stories.entry(change.key.to_string()).or_default().push(change);
        }
        for (key, story) in stories {
            let mut holder = None;
            for change in &story {
                let fits = match change.change.name() {
                    "acquired" | "found" => holder.is_none(),
                    "renewed" | "moved" => true,
                    "released" => true,
                    _ => false,
                };
                assert!(fits, "{key}: {change:?} in {story:#?}");
                holder = if change.change.name() == "released" { None } else { change.holder.clone().or(holder) };
            }
            assert!(holder.is_none(), "{key} is not freed in {story:#?}");
        }
    }

    /// After the load has ended: the table is the truth, and the locks that stayed were only found, or moved.
    async fn is_true(&mut self, busy: &mut Busy) {
        busy.rest();
        let truth = busy.cluster.truth();
        assert_eq!(truth.len(), STAYING, "the workers freed theirs: {truth:?}");
        self.until("the table to be the truth", |watch| watch.table() == truth && watch.engine.snapshot().complete)
            .await;
        let unexpected: Vec<String> = self
            .story
            .iter()
            .filter(|change| change.key.to_string().starts_with("lock:stays:"))
            .filter(|change| !matches!(change.change.name(), "found" | "moved"))
            .map(|change| format!("{change:?}"))
            .collect();
        assert!(unexpected.is_empty(), "{unexpected:#?}");
        self.reads_like_the_work();
    }
}

#[tokio::test]
async fn a_failover_by_hand_moves_the_locks_and_loses_none() {
    let Some(mut busy) = Busy::start() else { return };
    let mut watch = Watch::start(&busy).await;
    busy.cluster.fail_over(0);
    let promoted = format!("127.0.0.1:{}", busy.cluster.replica_of(0).port());
    let began = Instant::now();
    watch
        .until("the new master is live", |watch| {
            watch.live() == 3 && watch.engine.nodes().any(|node| node.name == promoted)
        })
        .await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    watch.work_goes_on(&busy).await;
    watch.is_true(&mut busy).await;
    let here = |number: &usize| slot_of(staying(*number).as_bytes()) < 16_384 / 3;
    assert_eq!(watch.told("moved"), (0..STAYING).filter(here).count(), "each lock of the old master moved once");
    assert_eq!(watch.engine.nodes().count(), 3, "the old master is not read any more");
    let told: Vec<String> = watch
        .engine
        .table()
        .timeline()
        .from(0)
        .map(|(_, entry)| entry.what.sentence(|token| token.to_string()))
        .collect();
    let failover = format!("{promoted} took over 5,462 slots from 127.0.0.1:{}", busy.cluster.master(0).port());
    assert_eq!(told.iter().filter(|sentence| **sentence == failover).count(), 1, "{told:?}");
}

#[tokio::test]
async fn a_master_that_dies_is_replaced_and_its_locks_go_on() {
    let Some(mut busy) = Busy::start() else { return };
    let mut watch = Watch::start(&busy).await;
    busy.cluster.nodes[1].kill();
    let promoted = format!("127.0.0.1:{}", busy.cluster.replica_of(1).port());
    watch
        .until("the new master is live", |watch| {
            watch.live() == 3 && watch.engine.nodes().any(|node| node.name == promoted)
        })
        .await;
    watch.work_goes_on(&busy).await;
    watch.is_true(&mut busy).await;
    // It comes back as a replica, and is not taken for a second holder of anything.
    busy.cluster.nodes[1].restart();
    watch.is_true(&mut busy).await;
    assert_eq!(watch.engine.nodes().count(), 3);
}

#[tokio::test]
async fn slots_that_are_migrated_take_their_locks_along() {
    let Some(busy) = Busy::start() else { return };
    let mut watch = Watch::start(&busy).await;
    let (stay, work) = slots_below(5_000);
    let mut busy = watch.moves(busy, [work, stay.clone()].concat(), 0, 2).await;
    watch.until("all moves were told", |watch| watch.told("moved") == stay.len()).await;
    watch.is_true(&mut busy).await;
    assert_eq!(watch.told("moved"), stay.len());
}

#[tokio::test]
async fn a_slot_that_is_left_half_way_hides_no_lock() {
    let Some(mut busy) = Busy::start() else { return };
    // Several locks of one slot.
    let (mut client, tagged) = (busy.cluster.client(), |number: usize| format!("lock:{{half}}:{number}"));
    let slot = slot_of(b"half");
    let from =
        (0..3).find(|index| busy.cluster.master(*index).try_ask::<Option<String>, _>(&["GET", "{half}"]).is_ok());
    let (from, to) = (from.expect("its owner"), (from.expect("its owner") + 1) % 3);
    for number in 0..10 {
        take(&mut client, &tagged(number), "tagged", 600_000);
    }
    let mut watch = Watch::start(&busy).await;
    let (source, target) = (busy.cluster.master(from), busy.cluster.master(to));
    busy.cluster.open_slot(slot, source, target);
    assert_eq!(busy.cluster.migrate(slot, source, target, 5).len(), 5);
    // One is taken and one is freed at the target, while the source owns the slot.
    take(&mut client, &tagged(10), "late", 600_000);
    let gone = (0..10).map(tagged).find(|key| source.try_ask::<Option<String>, _>(&["GET", key]).is_err());
    let gone = gone.expect("one has moved");
    client.ask(&gone, redis::cmd("DEL").arg(&gone));
    let mut expected: BTreeMap<String, String> = (0..10).map(|number| (tagged(number), "tagged".to_string())).collect();
    expected.insert(tagged(10), "late".into());
    expected.remove(&gone);
    let of_slot = |watch: &Watch| -> BTreeMap<String, String> {
        watch.table().into_iter().filter(|(key, _)| key.starts_with("lock:{half}")).collect()
    };
    watch.until("the locks of the open slot are known", |watch| of_slot(watch) == expected).await;
    // A new reader sees the same.
    let seeds = [endpoint_at(&target.url())];
    let topology = Topology::of_cluster(&seeds, HostMap::default()).await.expect("a cluster");
    let once = lockscope::engine::Options { follow: false, ..options(Limits::default()) };
    let mut engine = Engine::start(&topology, once).await.expect("all answer");
    engine.run_until_inventory().await;
    let mut listed = held(&engine);
    listed.retain(|(key, _)| key.starts_with("lock:{half}"));
    assert_eq!(listed, expected.clone().into_iter().collect::<Vec<_>>());
    // It is finished, and all go on at the target.
    while !busy.cluster.migrate(slot, source, target, 10).is_empty() {}
    busy.cluster.close_slot(slot, source, target);
    let name = format!("127.0.0.1:{}", target.port());
    watch
        .until("they are at the target", |watch| {
            let at = |lock: &lockscope::model::Lock| watch.engine.node(lock.node).is_some_and(|node| node.name == name);
            let table = watch.engine.table();
            of_slot(watch) == expected
                && table.locks().filter(|lock| slot_of(lock.key.as_bytes()) == slot).all(at)
                && watch.engine.snapshot().complete
        })
        .await;
    let wrong: Vec<&Transition> = watch
        .story
        .iter()
        .filter(|change| change.key.to_string().starts_with("lock:{half}") && change.key.to_string() != gone)
        .filter(|change| !matches!(change.change.name(), "found" | "moved") && change.key.to_string() != tagged(10))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for number in 0..11 {
        client.ask(&tagged(number), redis::cmd("DEL").arg(tagged(number)));
    }
    watch.is_true(&mut busy).await;
}

#[tokio::test]
async fn a_node_that_is_added_gets_slots_and_is_read() {
    let Some(mut busy) = Busy::start() else { return };
    let mut watch = Watch::start(&busy).await;
    busy.cluster.add();
    let name = format!("127.0.0.1:{}", busy.cluster.nodes[6].port());
    watch.until("the new node is read", |watch| watch.engine.nodes().any(|node| node.name == name)).await;
    let (stay, work) = slots_below(2_500);
    let mut busy = watch.moves(busy, [work, stay.clone()].concat(), 0, 6).await;
    watch.until("all moves were told", |watch| watch.told("moved") == stay.len()).await;
    watch.is_true(&mut busy).await;
    assert_eq!(watch.told("moved"), stay.len());
}

#[tokio::test]
async fn slots_that_move_all_at_once_are_no_second_acquire() {
    let Some(busy) = Busy::start() else { return };
    if !moves_at_once(busy.cluster.master(0)) {
        return common::left_to_the_matrix("the server has no atomic migration of slots");
    }
    let mut busy = busy;
    let mut watch = Watch::start(&busy).await;
    let (source, target) = (busy.cluster.master(0), busy.cluster.master(1));
    busy.cluster.begin_move(&(0..=2_500).collect::<Vec<u16>>(), source, target);
    let moved = |number: &usize| slot_of(staying(*number).as_bytes()) <= 2_500;
    let expected = (0..STAYING).filter(moved).count();
    watch.until("the locks have moved", |watch| watch.told("moved") == expected).await;
    watch.is_true(&mut busy).await;
    assert_eq!(watch.told("moved"), expected);
}

#[tokio::test]
async fn a_master_that_was_paused_and_replaced_is_not_believed() {
    let Some(mut busy) = Busy::start() else { return };
    let mut watch = Watch::start(&busy).await;
    let promoted = format!("127.0.0.1:{}", busy.cluster.replica_of(0).port());
    busy.cluster.master(0).pause();
    watch
        .until("the new master is live", |watch| {
            watch.live() == 3 && watch.engine.nodes().any(|node| node.name == promoted)
        })
        .await;
    // One lock changes hands while the old master still has the old holder.
    let key = (0..STAYING).map(staying).find(|key| slot_of(key.as_bytes()) < 5_000).expect("one of sixty");
    let mut client = busy.cluster.client();
    client.ask(&key, redis::cmd("SET").arg(&key).arg("another").arg("XX").arg("KEEPTTL"));
    let holds = |watch: &Watch, who: &str| watch.table().get(&key).is_some_and(|holder| holder == who);
    watch.until("the new holder is seen", |watch| holds(watch, "another")).await;
    busy.cluster.master(0).resume();
    watch.work_goes_on(&busy).await;
    busy.rest();
    let truth = busy.cluster.truth();
    assert_eq!((truth.len(), truth[&key].as_str()), (STAYING, "another"));
    watch.until("the table to be the truth", |watch| watch.table() == truth && watch.engine.snapshot().complete).await;
    let back = watch.story.iter().filter(|change| change.key.to_string() == key && change.change.name() == "taken");
    assert_eq!(back.count(), 1, "it changed hands once");
    watch.reads_like_the_work();
}

/// Without notifications: what tracking tells of a key is only that it changed.
#[tokio::test]
async fn slots_move_and_masters_change_without_notifications_too() {
    let Some(cluster) = Cluster::start(3) else { return };
    for node in &cluster.nodes {
        node.cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    }
    let Some(busy) = Busy::on(cluster) else { return };
    let mut watch = Watch::start(&busy).await;
    let (stay, work) = slots_below(3_000);
    let mut busy = watch.moves(busy, [work, stay.clone()].concat(), 0, 2).await;
    watch.until("all moves were told", |watch| watch.told("moved") == stay.len()).await;
    busy.cluster.fail_over(1);
    watch.work_goes_on(&busy).await;
    busy.rest();
    let truth = busy.cluster.truth();
    watch.until("the table to be the truth", |watch| watch.table() == truth && watch.engine.snapshot().complete).await;
    let wrong = |change: &&Transition| !matches!(change.change.name(), "found" | "moved");
    let stays = watch.story.iter().filter(|change| change.key.to_string().starts_with("lock:stays:"));
    let wrong: Vec<&Transition> = stays.filter(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_cluster_that_is_down_is_stale_and_comes_back_with_what_is_left() {
    let Some(mut busy) = Busy::start() else { return };
    busy.rest();
    let mut watch = Watch::start(&busy).await;
    busy.cluster.nodes[4].kill();
    busy.cluster.nodes[1].kill();
    watch.until("the loss is told", |watch| !watch.engine.snapshot().complete).await;
    common::wait_until("the cluster to be down", PATIENCE, || {
        busy.cluster.master(0).ask::<String, _>(&["CLUSTER", "INFO"]).contains("cluster_state:fail")
    });
    let refuse = |watch: &Watch| watch.engine.nodes().filter(|node| node.refusal().is_some()).count();
    watch.until("the others to say that they answer for no key", |watch| refuse(watch) == 2).await;
    let failed = format!("slots are not served: 127.0.0.1:{} failed", busy.cluster.nodes[1].port());
    watch.until("the reason", |watch| watch.engine.incomplete().is_some_and(|why| why.contains(&failed))).await;
    let why = watch.engine.incomplete().unwrap();
    assert!(why.starts_with("the cluster is down and answers for no key since 20"), "{why}");
    assert_eq!(watch.table().len(), STAYING, "what can't be read is not gone");
    let rows = watch.engine.snapshot().locks;
    assert!(rows.iter().all(|row| row.stale), "what is shown is from before");
    busy.cluster.nodes[1].restart();
    let truth = busy.cluster.truth();
    assert!(truth.len() < STAYING, "a third was lost: {}", truth.len());
    watch.until("the table to be the truth", |watch| watch.table() == truth && watch.engine.snapshot().complete).await;
    assert_eq!(watch.told("lost"), STAYING - truth.len());
    assert_eq!(watch.told("released"), 0);
    watch.until("all to answer for keys again", |watch| refuse(watch) == 0).await;
    let rows = watch.engine.snapshot().locks;
    assert!(rows.iter().filter(|row| row.lost.is_none()).all(|row| !row.stale), "{rows:#?}");
}
