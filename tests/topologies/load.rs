//! Real clients under load: redis-py, node-redlock and redis-semaphore over ioredis, and rslock, each as an application uses
//! it on a cluster or on a Sentinel service. They take, renew and free locks, hold some for the whole time, and rest when
//! they are told to, so that the servers can be compared with the table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rslock::LockManager;
use serde_json::{Value, json};

use crate::common::{Driver, Library, Server, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
/// Turns that each kind of client has to make before its work counts as going on.
const ENOUGH: u64 = 3;
const STAYING: usize = 6;

/// How clients find the servers.
#[derive(Clone)]
pub enum Way {
    /// By the ports of nodes.
    Cluster(Vec<u16>),
    /// By the ports of sentinels and the name of the service.
    Service(Vec<u16>, String),
}

pub struct Load {
    libraries: Vec<Driver>,
    rslock: Rslock,
}

impl Load {
    /// The clients are connected and rest. Libraries that are not installed are counted as left out.
    pub fn start(way: &Way, any: &Server) -> Load {
        let scripts = [Library::python("keyspace_load", any), Library::node("keyspace_load", any)];
        let mut libraries: Vec<Driver> = scripts.iter().flatten().map(Library::driver).collect();
        let order = match way {
            Way::Cluster(ports) => json!({"do": "start", "cluster": ports}),
            Way::Service(ports, name) => json!({"do": "start", "sentinels": ports, "service": name}),
        };
        libraries.iter_mut().for_each(|library| drop(library.order(&order)));
        let mut load = Load { libraries, rslock: Rslock::start(way.clone()) };
        load.go();
        load.goes_on();
        load.rest();
        load
    }

    /// Locks that stay, and were lost, are taken again.
    pub fn go(&mut self) {
        self.tell("go");
        self.rslock.gate.go();
    }

    /// All end what they are at, and wait.
    pub fn rest(&mut self) {
        self.rslock.gate.close();
        self.tell("rest");
        self.rslock.gate.rest();
    }

    /// Waits until every kind of client has taken, renewed and freed some more locks.
    pub fn goes_on(&mut self) {
        let (before, began) = (self.turns(), Instant::now());
        loop {
            let mut now = self.turns();
            now.retain(|kind, turns| *turns < before[kind] + ENOUGH);
            if now.is_empty() {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the work of these does not go on: {now:?}, {before:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn turns(&mut self) -> BTreeMap<String, u64> {
        let counts = self.tell("count");
        let each = counts.iter().flat_map(|counts| counts["turns"].as_object().expect("counts"));
        let mut turns: BTreeMap<String, u64> =
            each.map(|(kind, turns)| (kind.clone(), turns.as_u64().expect("a number"))).collect();
        turns.insert("rslock".into(), self.rslock.turns.load(SeqCst));
        turns
    }

    fn tell(&mut self, word: &str) -> Vec<Value> {
        let mut told = |library: &mut Driver| {
            let answer = library.order(&json!({ "do": word }));
            assert_eq!(answer["stuck"], 0, "clients that do not end what they do: {answer}");
            answer
        };
        self.libraries.iter_mut().map(&mut told).collect()
    }
}

/// Lets a thread pass, or keeps it waiting.
#[derive(Default)]
struct Gate {
    open: AtomicBool,
    waits: AtomicBool,
    over: AtomicBool,
}

impl Gate {
    fn go(&self) {
        self.waits.store(false, SeqCst);
        self.open.store(true, SeqCst);
    }

    fn close(&self) {
        self.open.store(false, SeqCst);
    }

    fn rest(&self) {
        wait_until("rslock to rest", PATIENCE, || self.waits.load(SeqCst));
    }

    /// Waits until the gate is open; whether the work goes on.
    fn pass(&self) -> bool {
        while !self.open.load(SeqCst) && !self.over.load(SeqCst) {
            self.waits.store(true, SeqCst);
            std::thread::sleep(Duration::from_millis(2));
        }
        !self.over.load(SeqCst)
    }
}

/// rslock runs in this process.
struct Rslock {
    gate: Arc<Gate>,
    turns: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Rslock {
    fn start(way: Way) -> Rslock {
        let (gate, turns) = (Arc::new(Gate::default()), Arc::new(AtomicU64::new(0)));
        let (its_gate, its_turns) = (gate.clone(), turns.clone());
        let work = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(work(&way, &its_gate, &its_turns));
        };
        Rslock { gate, turns, thread: Some(std::thread::spawn(work)) }
    }
}

impl Drop for Rslock {
    fn drop(&mut self) {
        self.gate.over.store(true, SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn work(way: &Way, gate: &Gate, turns: &AtomicU64) {
    let mut manager = None;
    for turn in 0_u64.. {
        if !gate.pass() {
            return;
        }
        let worked = async {
            if manager.is_none() {
                manager = Some(connect(way).await?);
            }
            let manager = manager.as_ref().expect("it was just made");
            stay(manager).await?;
            let name = format!("lock:rslock:{}", turn % 10);
            let lock = manager.lock(name.as_bytes(), Duration::from_secs(30)).await.ok()?;
            let lock = manager.extend(&lock, Duration::from_secs(60)).await.ok()?;
            manager.unlock(&lock).await;
            Some(())
        };
        // A server that hangs is given up.
        match tokio::time::timeout(Duration::from_secs(2), worked).await {
            Ok(Some(())) => drop(turns.fetch_add(1, SeqCst)),
            _ => manager = None,
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Takes the locks that stay, as far as nobody has them.
async fn stay(manager: &LockManager) -> Option<()> {
    for number in 0..STAYING {
        let name = format!("lock:stays:rslock:{number}");
        if manager.query_redis_for_key_value(name.as_bytes()).await.ok()?.is_none() {
            manager.lock(name.as_bytes(), Duration::from_secs(600)).await.ok()?;
        }
    }
    Some(())
}

/// rslock has no word for sentinels: its user asks them.
async fn connect(way: &Way) -> Option<LockManager> {
    let url = |port: &u16| format!("redis://127.0.0.1:{port}");
    let mut manager = match way {
        Way::Cluster(ports) => LockManager::new_cluster(ports.iter().map(url).collect()).ok()?,
        Way::Service(ports, service) => {
            let mut master = None;
            for port in ports {
                let named = async {
                    let client = redis::Client::open(url(port)).ok()?;
                    let mut sentinel = client.get_multiplexed_async_connection().await.ok()?;
                    let mut question = redis::cmd("SENTINEL");
                    question.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
                    question.query_async::<Option<(String, u16)>>(&mut sentinel).await.ok()?
                };
                master = master.or(named.await);
            }
            LockManager::new(vec![url(&master?.1)])
        }
    };
    manager.set_retry(1, Duration::from_millis(10));
    Some(manager)
}
