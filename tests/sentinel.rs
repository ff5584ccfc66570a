//! A Sentinel service on one engine, on real servers under load: through failovers the table is what the present master
//! says, nothing is there twice, and no lock that is held is told as lost or freed.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::Sentinels;
use common::engine::{endpoint_at, held, options};
use common::sentinels::{SERVICE, ServiceClient};
use lockscope::engine::{Engine, Reader, Stream};
use lockscope::model::{Change, Ending, Limits, State, Transition};
use lockscope::topology::{HostMap, Topology};

const PATIENCE: Duration = Duration::from_secs(30);
/// Locks that are held from the beginning to the end.
const STAYING: usize = 40;

/// A service with locks that stay, and workers that take, renew and free others until it is stopped.
struct Busy {
    service: Sentinels,
    stop: Arc<AtomicBool>,
    taken: Arc<AtomicU64>,
    work: Vec<JoinHandle<()>>,
}

fn staying(number: usize) -> String {
    format!("lock:stays:{number}")
}

impl Busy {
    fn start() -> Busy {
        let service = Sentinels::start();
        let mut client = service.client();
        for number in 0..STAYING {
            take(&mut client, &staying(number), "stayer", 600_000);
        }
        let (stop, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let work = (0..2).map(|worker| {
            let (mut client, stop, taken) = (service.client(), stop.clone(), taken.clone());
            thread::spawn(move || {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let key = format!("lock:{worker}:{}", number % 20);
                    work_once(&mut client, &key, &format!("token-{worker}-{number}"));
                    taken.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(5));
                }
            })
        });
        let work = work.collect();
        Busy { service, stop, taken, work }
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

fn take(client: &mut ServiceClient, key: &str, token: &str, ms: u64) {
    client.ask(redis::cmd("SET").arg(key).arg(token).arg("NX").arg("PX").arg(ms));
}

/// Takes a lock, renews it, and frees it as its holder.
fn work_once(client: &mut ServiceClient, key: &str, token: &str) {
    const FREE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    take(client, key, token, 60_000);
    client.ask(redis::cmd("PEXPIRE").arg(key).arg(120_000));
    client.ask(redis::cmd("EVAL").arg(FREE).arg(1).arg(key).arg(token));
}

/// The engine on the service, and everything that it told.
struct Watch {
    engine: Engine,
    reader: Reader,
    story: Vec<Transition>,
}

impl Watch {
    async fn start(service: &Sentinels) -> Watch {
        let (sentinel, server) = (endpoint_at(&service.sentinels[1].url()), endpoint_at("redis://nowhere"));
        let opened = Topology::of_service(SERVICE, &[sentinel], &server, HostMap::default()).await;
        let topology = opened.unwrap_or_else(|trouble| panic!("{trouble:?}"));
        let engine = Engine::start(&topology, options(Limits::default())).await.expect("the master answers");
        let (reader, story) = (engine.reader(), Vec::new());
        let mut watch = Watch { engine, reader, story };
        watch.until("the master is live", |watch| watch.is_live_at(service.servers[0].port())).await;
        watch
    }

    /// Only the server at that port is read, and nothing is missing.
    fn is_live_at(&self, port: u16) -> bool {
        let nodes: Vec<_> = self.engine.nodes().collect();
        let [node] = &nodes[..] else { return false };
        node.name == format!("127.0.0.1:{port}")
            && matches!(node.stream, Stream::Live(_))
            && self.engine.snapshot().complete
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

    /// Lets everything come in while something is done that blocks.
    async fn during<T: Send + 'static>(&mut self, what: &str, doing: impl FnOnce() -> T + Send + 'static) -> T {
        let doing = tokio::task::spawn_blocking(doing);
        self.until(what, |_| doing.is_finished()).await;
        doing.await.expect("it was done")
    }

    async fn work_goes_on(&mut self, busy: &Busy) {
        let (taken, before) = (busy.taken.clone(), busy.taken.load(Ordering::Relaxed));
        self.until("the work goes on", |_| taken.load(Ordering::Relaxed) > before + 50).await;
    }

    fn table(&self) -> BTreeMap<String, String> {
        let held = held(&self.engine);
        let table: BTreeMap<_, _> = held.iter().cloned().collect();
        assert_eq!(table.len(), held.len(), "a lock is there twice: {held:?}");
        table
    }

    fn stays(&self) -> impl Iterator<Item = &Transition> {
        self.story.iter().filter(|change| change.key.to_string().starts_with("lock:stays:"))
    }

    /// How often this was told of a lock that stays.
    fn told(&self, what: &str) -> usize {
        self.stays().filter(|change| change.change.name() == what).count()
    }

    fn timeline(&self) -> Vec<String> {
        let entries = self.engine.table().timeline().from(0);
        entries.map(|(_, entry)| entry.what.sentence(|token| token.to_string())).collect()
    }

    /// After the load has ended: the table is what the present master says, and the locks that stayed were only found, or
    /// moved, each as often as there were failovers; none lost its holder.
    async fn is_true(&mut self, busy: &mut Busy, failovers: usize) {
        busy.rest();
        let truth = busy.service.truth();
        let stay = truth.keys().filter(|key| key.starts_with("lock:stays:")).count();
        assert_eq!(stay, STAYING, "{truth:?}");
        self.until("the table to be the truth", |watch| watch.table() == truth && watch.engine.snapshot().complete)
            .await;
        let odd: Vec<_> = self.stays().filter(|change| !matches!(change.change.name(), "found" | "moved")).collect();
        assert!(odd.is_empty(), "{odd:#?}");
        assert_eq!(self.told("moved"), failovers * STAYING);
        let (table, now) = (self.engine.table(), self.engine.clock.now());
        let orphans = table.locks().filter(|lock| table.state(lock, now) == State::Orphan).count();
        assert_eq!(orphans, 0);
    }
}

#[tokio::test]
async fn a_failover_by_hand_moves_all_locks_and_loses_none() {
    let busy = Busy::start();
    let mut watch = Watch::start(&busy.service).await;
    watch.work_goes_on(&busy).await;
    let (mut busy, new) = watch
        .during("the failover", move || {
            let new = busy.service.fail_over();
            (busy, new)
        })
        .await;
    let (began, port) = (Instant::now(), busy.service.servers[new].port());
    watch.until("the new master is live", |watch| watch.is_live_at(port)).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?} after it was known", began.elapsed());
    watch.work_goes_on(&busy).await;
    watch.is_true(&mut busy, 1).await;
    let told = watch.timeline();
    let taken = format!("127.0.0.1:{port} took over from 127.0.0.1:{}", busy.service.servers[0].port());
    assert_eq!(told.iter().filter(|sentence| **sentence == taken).count(), 1, "{told:?}");
}

#[tokio::test]
async fn a_master_that_dies_is_replaced_and_its_locks_go_on() {
    let mut busy = Busy::start();
    let mut watch = Watch::start(&busy.service).await;
    busy.service.servers[0].kill();
    let (mut busy, new) = watch
        .during("the failover", move || {
            let new = busy.service.wait_for_another_than(0);
            (busy, new)
        })
        .await;
    let port = busy.service.servers[new].port();
    watch.until("the new master is live", |watch| watch.is_live_at(port)).await;
    watch.work_goes_on(&busy).await;
    watch.is_true(&mut busy, 1).await;
    // It comes back, empty and as a master until the sentinels make it a replica.
    busy.service.servers[0].restart();
    watch.is_true(&mut busy, 1).await;
    assert_eq!(watch.engine.nodes().count(), 1);
}

#[tokio::test]
async fn a_master_that_was_paused_and_replaced_is_not_believed() {
    let busy = Busy::start();
    let mut watch = Watch::start(&busy.service).await;
    busy.service.servers[0].pause();
    let (mut busy, new) = watch
        .during("the failover", move || {
            let new = busy.service.wait_for_another_than(0);
            (busy, new)
        })
        .await;
    let port = busy.service.servers[new].port();
    watch.until("the new master is live", |watch| watch.is_live_at(port)).await;
    // One lock changes hands while the old master still has the old holder, and takes writes.
    let key = staying(7);
    busy.service.client().ask(redis::cmd("SET").arg(&key).arg("another").arg("XX").arg("KEEPTTL"));
    let holds = |watch: &Watch, who: &str| watch.table().get(&key).is_some_and(|holder| holder == who);
    watch.until("the new holder is seen", |watch| holds(watch, "another")).await;
    busy.service.servers[0].resume();
    let old = &busy.service.servers[0];
    assert_eq!(common::server::field(&old.ask::<String, _>(&["INFO", "replication"]), "role"), Some("master"));
    old.cli(&["SET", "lock:only:there", "deceived", "PX", "600000"]);
    watch.work_goes_on(&busy).await;
    busy.rest();
    let truth = busy.service.truth();
    assert!(truth[&key] == "another" && !truth.contains_key("lock:only:there"), "{truth:?}");
    watch.until("the table to be the truth", |watch| watch.table() == truth && watch.engine.snapshot().complete).await;
    let taken = watch.story.iter().filter(|change| change.key.to_string() == key && change.change.name() == "taken");
    assert_eq!(taken.count(), 1, "it changed hands once");
    assert!(watch.story.iter().all(|change| change.key.to_string() != "lock:only:there"), "nobody looks there");
}

#[tokio::test]
async fn a_master_that_comes_back_empty_has_lost_all_and_that_is_proven() {
    let mut busy = Busy::start();
    busy.rest();
    let mut watch = Watch::start(&busy.service).await;
    let proves =
        busy.service.servers[0].ask::<String, _>(&["INFO", "persistence"]).contains("rdb_last_load_keys_loaded");
    // Faster than the sentinels notice.
    busy.service.servers[0].restart();
    watch.until("the losses are told", |watch| watch.told("lost") == STAYING).await;
    let wrong: Vec<_> = watch
        .stays()
        .filter(|change| change.change.name() == "lost")
        .filter(|change| change.change != Change::Ended(Ending::Restart) || change.proven != proves)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let truth = busy.service.truth();
    watch.until("the table to be the truth", |watch| watch.table() == truth).await;
    assert!(truth.is_empty(), "{truth:?}");
}

/// The link of the replicas is cut, a lock is taken, and the master dies: no replica ever heard of the lock.
#[tokio::test]
async fn a_lock_that_no_replica_heard_of_is_lost_and_that_is_proven() {
    let mut busy = Busy::start();
    busy.rest();
    let mut watch = Watch::start(&busy.service).await;
    let master = &busy.service.servers[0];
    let mut connection = master.connection();
    // All of our connections are in use before new ones are refused.
    redis::cmd("SET").arg("lock:first").arg("w").arg("PX").arg(600_000).exec(&mut connection).unwrap();
    watch.until("the first is seen", |watch| watch.table().contains_key("lock:first")).await;
    // Replicas that have lost their link can't log in again; everybody else is logged in already.
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("locked").exec(&mut connection).unwrap();
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica").exec(&mut connection).unwrap();
    let begun = watch.engine.clock.now();
    let positioned = |watch: &Watch| watch.engine.nodes().filter_map(|node| node.positioned).max();
    watch.until("its position is known", |watch| positioned(watch).is_some_and(|at| at > begun)).await;
    let known = positioned(&watch).expect("it was just seen");
    // Later by more than an event may be late.
    watch.until("a later position", |watch| positioned(watch).is_some_and(|at| at.ms_since(known) > 600)).await;
    redis::cmd("SET").arg("lock:late").arg("robbed").arg("PX").arg(600_000).exec(&mut connection).unwrap();
    redis::cmd("DEL").arg(staying(3)).exec(&mut connection).unwrap();
    let gone = |watch: &Watch| watch.table().contains_key("lock:late") && !watch.table().contains_key(&staying(3));
    watch.until("both are seen", gone).await;
    busy.service.servers[0].kill();
    let (mut busy, new) = watch
        .during("the failover", move || {
            let new = busy.service.wait_for_another_than(0);
            (busy, new)
        })
        .await;
    let port = busy.service.servers[new].port();
    watch.until("the new master is live", |watch| watch.is_live_at(port)).await;
    let of_late = |change: &&Transition| change.key.to_string() == "lock:late" && change.change.name() == "lost";
    watch.until("the loss is told", |watch| watch.story.iter().any(|change| of_late(&change))).await;
    let lost = watch.story.iter().find(of_late).expect("it was just seen");
    assert_eq!((lost.change, lost.proven), (Change::Ended(Ending::Failover), true), "{lost:?}");
    assert_eq!(lost.previous.as_ref().map(ToString::to_string).as_deref(), Some("robbed"));
    busy.rest();
    let truth = busy.service.truth();
    assert!(truth.contains_key(&staying(3)), "the release did not reach it either");
    watch.until("the table to be the truth", |watch| watch.table() == truth).await;
    let tells = |watch: &Watch| watch.timeline().iter().any(|told| told.contains("did not survive the failover"));
    watch.until("the timeline tells it", tells).await;
    // Another takes it, and nobody has told its old holder.
    take(&mut busy.service.client(), "lock:late", "another", 60_000);
    let is_split = |watch: &Watch| {
        let (table, now) = (watch.engine.table(), watch.engine.clock.now());
        let lock = table.locks().find(|lock| lock.is_held() && lock.key.to_string() == "lock:late");
        lock.is_some_and(|lock| table.state(lock, now) == State::Split)
    };
    watch.until("both may be at work", is_split).await;
}
