//! Two servers that say that they are the master at the same time, with clients at both: on a Sentinel service after a
//! failover by hand and with a master that hung, and on a cluster whose bus is cut. What the deposed one has is told as
//! evidence and as a loss, and never as a lock of the keyspace; nothing is ever written there.

mod common;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use common::engine::{endpoint_at, held, options};
use common::sentinels::{SERVICE, ServiceClient};
use common::{Cluster, Sentinels, Server, lockscope};
use lockscope::engine::{Engine, Reader, Stream};
use lockscope::lock::KeyspaceId;
use lockscope::model::{Change, Ending, Limits, LostBy, State, Transition, What};
use lockscope::topology::{HostMap, Topology};

const PATIENCE: Duration = Duration::from_secs(40);

/// The engine, and everything that it told.
struct Watch {
    engine: Engine,
    reader: Reader,
    story: Vec<Transition>,
}

impl Watch {
    async fn on(topology: &Topology) -> Watch {
        let engine = Engine::start(topology, options(Limits::default())).await.expect("a master answers");
        let (reader, story) = (engine.reader(), Vec::new());
        let mut watch = Watch { engine, reader, story };
        watch.until("everything is live", Watch::is_live).await;
        watch
    }

    async fn of_service(service: &Sentinels) -> Watch {
        let (sentinel, server) = (endpoint_at(&service.sentinels[0].url()), endpoint_at("redis://nowhere"));
        let opened = Topology::of_service(SERVICE, &[sentinel], &server, HostMap::default()).await;
        Watch::on(&opened.unwrap_or_else(|trouble| panic!("{trouble:?}"))).await
    }

    async fn of_cluster(cluster: &Cluster) -> Watch {
        let seed = endpoint_at(&cluster.master(1).url());
        Watch::on(&Topology::of_cluster(&[seed], HostMap::default()).await.expect("a cluster")).await
    }

    fn is_live(&self) -> bool {
        self.engine.nodes().all(|node| matches!(node.stream, Stream::Live(_))) && self.engine.snapshot().complete
    }

    async fn until(&mut self, what: &str, done: impl Fn(&Watch) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(began.elapsed() < PATIENCE, "waited in vain: {what}; {:#?}", self.timeline());
            self.engine.next().await;
            let (changes, missed) = self.reader.take();
            assert_eq!(missed, 0);
            self.story.extend(changes);
        }
    }

    /// Lets everything come in for as long as it takes to do this.
    async fn during<T: Send + 'static>(&mut self, doing: impl FnOnce() -> T + Send + 'static) -> T {
        let doing = tokio::task::spawn_blocking(doing);
        self.until("it is done", |_| doing.is_finished()).await;
        doing.await.expect("it was done")
    }

    fn is_reigning(&self, port: u16) -> bool {
        self.engine.bystanders().any(|known| known.reigns && known.name.ends_with(&format!(":{port}")))
    }

    fn is_split(&self, key: &str) -> bool {
        self.verdict(key).is_some_and(|(state, _)| state == State::Split)
    }

    fn verdict(&self, key: &str) -> Option<(State, Vec<String>)> {
        let (table, now) = (self.engine.table(), self.engine.clock.now());
        let verdict = table.judge(table.lock_named(KeyspaceId::FIRST, key.as_bytes())?, now);
        Some((verdict.state, verdict.evidence))
    }

    fn table(&self) -> BTreeMap<String, String> {
        let held = held(&self.engine);
        let table: BTreeMap<_, _> = held.iter().cloned().collect();
        assert_eq!(table.len(), held.len(), "a lock is there twice: {held:?}");
        table
    }

    /// Whose loss was told, and whether it was proven.
    fn lost(&self, key: &str) -> Vec<(String, bool)> {
        let of_key = self.story.iter().filter(|told| told.key.to_string() == key);
        let lost = of_key.filter(|told| told.change == Change::Ended(Ending::Failover));
        lost.map(|told| (told.previous.as_ref().expect("a holder").to_string(), told.proven)).collect()
    }

    fn timeline(&self) -> Vec<String> {
        let entries = self.engine.table().timeline().from(0);
        entries.map(|(_, entry)| format!("{} {}", entry.what.name(), entry.what.sentence(|t| t.to_string()))).collect()
    }
}

fn set(key: &str, token: &str) -> redis::Cmd {
    let mut set = redis::cmd("SET");
    set.arg(key).arg(token).arg("NX").arg("PX").arg(60_000);
    set
}

/// A client that stays at one server and renews what it holds there, as a watchdog does.
struct Stays<'a> {
    server: &'a Server,
    keys: &'a [&'a str],
}

impl Stays<'_> {
    fn renew(&self) {
        for key in self.keys {
            self.server.cli(&["PEXPIRE", key, "60000"]);
        }
    }
}

/// Renews until both servers are said to have holders of the lock that both have.
async fn until_split(watch: &mut Watch, old: Stays<'_>, key: &str) {
    let began = Instant::now();
    while !watch.is_split(key) {
        assert!(began.elapsed() < PATIENCE, "{:?} {:#?}", watch.verdict(key), watch.timeline());
        old.renew();
        let renewed = Instant::now();
        watch.until("a moment has passed", |_| renewed.elapsed() > Duration::from_millis(200)).await;
    }
}

/// What the program does on its way through a split, and what it leaves alone.
fn frees_the_right_one(url: &str, old: &Server, key: &str) {
    let refused =
        lockscope().args(["release", key, "--holder", "stays", "--yes", "-u", url]).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1), "{}", String::from_utf8_lossy(&refused.stdout));
    assert_eq!(old.ask::<String, _>(&["GET", key]), "stays");
    let done = lockscope().args(["release", key, "--holder", "follows", "--yes", "-u", url]).output().expect("it runs");
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(old.ask::<String, _>(&["GET", key]), "stays", "nothing is written at the deposed master");
}

/// After a failover: a lock that both clients take, and one that only the client at the old master has.
async fn take_at_both(watch: &mut Watch, new: &Server, old: &Server) {
    new.cli(&["SET", "lock:both", "follows", "NX", "PX", "60000"]);
    watch.until("the old master is read", |watch| watch.is_reigning(old.port())).await;
    let stays = Stays { server: old, keys: &["lock:both", "lock:only:old"] };
    for key in stays.keys {
        old.cli(&["SET", key, "stays", "NX", "PX", "60000"]);
    }
    until_split(watch, stays, "lock:both").await;
    let (_, evidence) = watch.verdict("lock:both").expect("it is known");
    let new = new.port();
    for port in [old.port(), new] {
        assert!(evidence[0].contains(&format!("127.0.0.1:{port} (epoch ")), "{evidence:#?}");
    }
    assert!(evidence[0].starts_with("stays holds it on"), "{evidence:#?}");
    assert!(evidence[1].contains(&format!("the hold on 127.0.0.1:{new} stays")), "{evidence:#?}");
    assert_ne!(watch.table().get("lock:only:old").map(String::as_str), Some("stays"), "it is no lock of the service");
}

async fn after_the_demotion(watch: &mut Watch, service: &Sentinels) {
    let told = |watch: &Watch| ["lock:both", "lock:only:old"].iter().all(|key| !watch.lost(key).is_empty());
    watch.until("the losses are told", told).await;
    for key in ["lock:both", "lock:only:old"] {
        assert_eq!(watch.lost(key), [("stays".to_string(), true)], "{:#?}", watch.timeline());
    }
    assert!(!watch.is_split("lock:both"));
    let truth = service.truth();
    watch.until("the table to be the truth", |watch| watch.table() == truth).await;
    let demoted = |watch: &Watch| watch.timeline().iter().any(|told| told.contains("thrown away when it was demoted"));
    watch.until("the timeline tells it", demoted).await;
    assert!(watch.timeline().iter().any(|told| told.starts_with("split-brain ")), "{:#?}", watch.timeline());
}

#[tokio::test]
async fn clients_at_both_masters_after_a_failover_by_hand_are_two_holders_until_the_old_one_is_demoted() {
    let service = Sentinels::start();
    service.client().ask(&set("lock:goes:on", "follows"));
    let mut watch = Watch::of_service(&service).await;
    let service = watch
        .during(move || {
            service.fail_over();
            service
        })
        .await;
    let new = service.index_of(service.master_port().expect("a master"));
    let (old, new) = (&service.servers[0], &service.servers[new]);
    // Nobody demotes it for now.
    service.sentinels.iter().for_each(Server::pause);
    take_at_both(&mut watch, new, old).await;
    assert!(!watch.is_split("lock:goes:on"), "its copy at the old master is no holder");
    service.sentinels.iter().for_each(Server::resume);
    let url = service.url();
    frees_the_right_one(&url, old, "lock:both");
    // As the sentinels do it, who are careful for half a minute after they were paused themselves.
    old.cli(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);
    after_the_demotion(&mut watch, &service).await;
}

#[tokio::test]
async fn a_master_that_hung_and_comes_back_is_read_beside_the_new_one() {
    let service = Sentinels::start();
    let mut watch = Watch::of_service(&service).await;
    service.servers[0].pause();
    let (service, new) = watch
        .during(move || {
            let new = service.wait_for_another_than(0);
            (service, new)
        })
        .await;
    service.servers[0].resume();
    take_at_both(&mut watch, &service.servers[new], &service.servers[0]).await;
    after_the_demotion(&mut watch, &service).await;
}

/// Takes, renews and frees locks, each time at the master that is named then, until it is told to stop.
fn work(mut client: ServiceClient, worker: usize, stop: std::sync::Arc<std::sync::atomic::AtomicBool>) {
    const FREE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    for number in 0.. {
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        let (key, token) = (format!("lock:job:{}", number % 10), format!("{worker}-{number}"));
        client.ask_anew(&set(&key, &token));
        client.ask_anew(redis::cmd("PEXPIRE").arg(&key).arg(60_000));
        client.ask_anew(redis::cmd("EVAL").arg(FREE).arg(1).arg(&key).arg(&token));
    }
}

#[tokio::test]
async fn a_failover_by_hand_whose_clients_follow_splits_no_lock() {
    let service = Sentinels::start();
    for number in 0..20 {
        service.client().ask(&set(&format!("lock:stays:{number}"), "stayer"));
    }
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let workers: Vec<_> = (0..2)
        .map(|worker| {
            let (client, stop) = (service.client(), stop.clone());
            std::thread::spawn(move || work(client, worker, stop))
        })
        .collect();
    let mut watch = Watch::of_service(&service).await;
    let service = watch
        .during(move || {
            service.fail_over();
            service
        })
        .await;
    let old = service.servers[0].port();
    watch.until("the old master is read", |watch| watch.is_reigning(old)).await;
    // Every lock is handed over while the old master still has it with its old holder.
    let mut client = service.client();
    for number in 0..20 {
        client.ask_anew(
            redis::cmd("SET").arg(format!("lock:stays:{number}")).arg("another").arg("XX").arg("PX").arg(60_000),
        );
    }
    watch.until("the old master is demoted", |watch| !watch.is_reigning(old)).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    workers.into_iter().for_each(|worker| worker.join().expect("a worker that was always answered"));
    let entries = watch.engine.table().timeline().from(0);
    let wrong: Vec<&What> = entries
        .map(|(_, entry)| &entry.what)
        .filter(|what| match what {
            What::State { why: Some(why), .. } => why.contains("holds it on"),
            What::Server(news) => news.name() == "split-brain",
            What::Lost { cause, .. } => matches!(cause, LostBy::Deposed { .. }),
            _ => false,
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(
        watch.table().iter().filter(|(key, _)| key.starts_with("lock:stays:")).all(|(_, holder)| holder == "another")
    );
}

#[tokio::test]
async fn clients_on_each_side_of_a_cut_cluster_are_two_holders_until_it_heals() {
    let Some(cluster) = Cluster::start_on_bus(3) else { return };
    let key = "lock:{both}";
    let index =
        (0..3).find(|index| cluster.master(*index).try_ask::<u8, _>(&["EXISTS", key]).is_ok()).expect("an owner");
    let (old, new) = (cluster.master(index), cluster.replica_of(index));
    cluster.client().ask("lock:{both}:on", &set("lock:{both}:on", "follows"));
    let mut watch = Watch::of_cluster(&cluster).await;
    cluster.cut_off(index);
    cluster.take_over(index);
    watch.until("the deposed master is read", |watch| watch.is_reigning(old.port())).await;
    // The other side learns of the new master; its own side does not.
    let other = cluster.master((index + 1) % 3);
    common::wait_until("the other side follows", PATIENCE, || {
        let moved = other.try_ask::<u8, _>(&["EXISTS", key]).expect_err("another one owns it");
        moved.redirect_node().is_some_and(|(place, _)| place.ends_with(&format!(":{}", new.port())))
    });
    new.cli(&["SET", key, "follows", "NX", "PX", "60000"]);
    let stays = Stays { server: old, keys: &[key, "lock:{both}:only"] };
    stays.keys.iter().for_each(|key| drop(old.cli(&["SET", key, "stays", "NX", "PX", "60000"])));
    until_split(&mut watch, stays, key).await;
    let (_, evidence) = watch.verdict(key).expect("it is known");
    for server in [old, new] {
        assert!(evidence[0].contains(&format!("127.0.0.1:{} (epoch ", server.port())), "{evidence:#?}");
    }
    assert!(!watch.is_split("lock:{both}:on"), "its copy at the old master is no holder");
    let url = other.url();
    frees_the_right_one(&url, old, key);
    cluster.heal();
    watch.until("it is demoted", |watch| !watch.is_reigning(old.port())).await;
    for key in stays_keys(key) {
        assert_eq!(watch.lost(&key), [("stays".to_string(), true)], "{:#?}", watch.timeline());
    }
    let truth = cluster.truth();
    watch.until("the table to be the truth", |watch| watch.table() == truth && !watch.is_split(key)).await;
}

fn stays_keys(key: &str) -> [String; 2] {
    [key.to_string(), "lock:{both}:only".to_string()]
}
