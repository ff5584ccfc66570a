//! Clusters: the inventory of three masters against the slowest node's own SCAN, what fifty small nodes cost at rest, and
//! how soon the table is true again after a failover.

use std::collections::BTreeMap;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lockscope::engine::Engine;
use lockscope::lock::slot_of;
use lockscope::model::Limits;
use lockscope::topology::{HostMap, Topology};

use crate::common::cluster::ClusterClient;
use crate::common::engine::{endpoint_at, held, options};
use crate::common::process::scratch;
use crate::common::server::field;
use crate::common::{Cluster, Server, lockscope_process};
use crate::keyspace::uuid;
use crate::limit::{Limit, Measured, ratio};
use crate::machine::{Scheduled, disturbance};
use crate::report::{Figure, Report};

const MASTERS: usize = 3;
/// On each master: enough that the start of the program does not matter.
const KEYS: usize = 1_000_000;
const LOCKS: usize = 10_000;
const BATCH: usize = 10_000;
const SMALL: usize = 50;
const LEASE_MS: usize = 24 * 3_600_000;
/// The locks that go through a failover.
const KEPT: usize = 3_000;
/// How long a process may take until it has read everything, and how long it is then measured at rest.
const SETTLING: Duration = Duration::from_secs(20);
const WINDOW: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(60);

pub fn measure(report: &mut Report, rounds: usize) {
    measure_inventory(report, rounds);
    measure_small_nodes(report);
    measure_failover(report);
}

fn measure_inventory(report: &mut Report, rounds: usize) {
    let Some(cluster) = Cluster::masters(MASTERS) else {
        return report.note("the server is too old for the figures of clusters".into());
    };
    populate(&cluster);
    // Nodes that compete for processors do not show whether they are walked at the same time. With fewer processors than
    // nodes, each is walked for a part of the time, and compared with the time that this part allows.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (pace, share) = if cores > MASTERS { ("fast", 1.0) } else { ("20%", 0.2) };
    let before: Vec<Scheduled> = cluster.nodes.iter().map(|node| Scheduled::of(node.pid())).collect();
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let scans: Vec<u64> = cluster.nodes.iter().map(scan_us).collect();
        let mut command = lockscope_process(&scratch("home"));
        command.args(["ls", "--url", &cluster.url(), "--pace", pace, "--json", "-p", "lock:*"]);
        let began = Instant::now();
        let ended = command.stdout(Stdio::null()).status().expect("lockscope starts");
        let wall = began.elapsed();
        assert!(ended.success(), "ls failed");
        let slowest = cluster.nodes.iter().zip(scans).map(|(node, before)| scan_us(node) - before).max();
        measured.push(wall.as_micros() as f64 * share / slowest.expect("there are nodes") as f64);
    }
    report.add(Figure {
        name: format!(
            "ls --pace {pace} of 30,000 locks among 3,000,000 keys of three masters / the time that the slowest node's SCANs \
             take at that pace"
        ),
        measured: Measured::of(measured),
        limit: Limit::AtMost(1.3),
        show: ratio,
        command: format!(
            "`lockscope ls --pace {pace} -p 'lock:*' --json`, times {share}, / the largest `cmdstat_scan` of the nodes"
        ),
    });
    for (node, before) in cluster.nodes.iter().zip(before) {
        if let Some(text) = disturbance("a node", Scheduled::of(node.pid()).since(before)) {
            report.note(format!("topology: {text}"));
        }
    }
}

/// Writes the same number of keys and locks to each master.
fn populate(cluster: &Cluster) {
    let mut numbers = 0..;
    let share = 16_384 / MASTERS + 1;
    let owner = |key: &str| usize::from(slot_of(key.as_bytes())) / share;
    let mut counts = [0; MASTERS];
    let mut pipes: Vec<redis::Pipeline> = (0..MASTERS).map(|_| redis::pipe()).collect();
    let mut connections: Vec<redis::Connection> = cluster.nodes.iter().map(Server::connection).collect();
    while counts.iter().any(|count| *count < KEYS) {
        let number: usize = numbers.next().expect("there is always one more");
        let is_lock = number.is_multiple_of(KEYS / LOCKS);
        let key = if is_lock { format!("lock:order:{number}") } else { format!("key:{number}") };
        let node = owner(&key);
        counts[node] += 1;
        match is_lock {
            true => pipes[node].cmd("SET").arg(key).arg(uuid(number)).arg("PX").arg(LEASE_MS).ignore(),
            false => pipes[node].cmd("SET").arg(key).arg(number).ignore(),
        };
        if pipes[node].len() == BATCH {
            std::mem::take(&mut pipes[node]).exec(&mut connections[node]).expect("the node takes keys");
        }
    }
    for (pipe, connection) in pipes.iter().zip(&mut connections).filter(|(pipe, _)| !pipe.is_empty()) {
        pipe.exec(connection).expect("the node takes keys");
    }
}

/// How long the node was busy with SCAN so far.
fn scan_us(node: &Server) -> u64 {
    let info: String = node.ask(&["INFO", "commandstats"]);
    let line = field(&info, "cmdstat_scan").unwrap_or_default();
    line.split(',').find_map(|part| part.strip_prefix("usec=")?.parse().ok()).unwrap_or(0)
}

/// A lockscope at rest: its processor time over the window, and its memory.
struct Rest {
    share: f64,
    bytes: f64,
}

fn measure_small_nodes(report: &mut Report) {
    let Some(cluster) = Cluster::masters(SMALL) else { return };
    let mut client = cluster.client();
    for number in 0..SMALL {
        take(&mut client, number);
    }
    let all = at_rest(&["--url", &cluster.url()]);
    let one = at_rest(&["--url", &cluster.master(0).url(), "--single-node"]);
    report.add(Figure {
        name: "fifty nodes at rest: % of a core of lockscope".into(),
        measured: Measured::once(all.share),
        limit: Limit::Below(5.0),
        show: |share| format!("{share:.2}"),
        command: format!("CPU time of `lockscope watch` on 50 masters over {} s", WINDOW.as_secs()),
    });
    report.add(Figure {
        name: "the same: MB of memory for each node".into(),
        measured: Measured::once((all.bytes - one.bytes) / (SMALL - 1) as f64 / 1e6),
        limit: Limit::Below(2.0),
        show: ratio,
        command: format!("resident memory, less {:.1} MB of the same on one node", one.bytes / 1e6),
    });
}

fn at_rest(target: &[&str]) -> Rest {
    let mut command = lockscope_process(&scratch("home"));
    command.arg("watch").args(target).args(["--for", "120s", "--json"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("lockscope starts");
    std::thread::sleep(SETTLING);
    let before = cpu_seconds(&child);
    let began = Instant::now();
    std::thread::sleep(WINDOW);
    let share = (cpu_seconds(&child) - before) / began.elapsed().as_secs_f64() * 100.0;
    let statm = std::fs::read_to_string(format!("/proc/{}/statm", child.id())).unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).expect("it still runs");
    child.kill().expect("it is ours");
    let _ = child.wait();
    // SAFETY: asks for a constant.
    Rest { share, bytes: pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64 }
}

/// The processor time of all threads of a process.
fn cpu_seconds(child: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: f64 = after_name.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    // SAFETY: asks for a constant.
    ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

fn measure_failover(report: &mut Report) {
    let Some(mut cluster) = Cluster::start(MASTERS) else { return };
    let mut client = cluster.client();
    let kept: BTreeMap<String, String> = (0..KEPT).map(|number| take(&mut client, number)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut engine = runtime.block_on(async {
        let topology = Topology::of_cluster(&[endpoint_at(&cluster.master(0).url())], HostMap::default()).await;
        let mut engine =
            Engine::start(&topology.expect("a cluster"), options(Limits::default())).await.expect("all answer");
        until(&mut engine, |engine| is_true(engine, &kept)).await;
        engine
    });
    let mut measured = Vec::new();
    for index in 0..MASTERS {
        let replica = cluster.replica_of(index);
        let name = format!("127.0.0.1:{}", replica.port());
        let promoted = promotion_of(replica);
        // The last one is killed, the others are replaced by hand.
        match index + 1 == MASTERS {
            true => cluster.nodes[index].kill(),
            false => drop(replica.cli(&["CLUSTER", "FAILOVER"])),
        }
        let at = runtime.block_on(async {
            let at = loop {
                engine.run_for(Duration::from_millis(1)).await;
                match promoted.try_recv() {
                    Ok(at) => break at,
                    Err(mpsc::TryRecvError::Empty) => {}
                    Err(mpsc::TryRecvError::Disconnected) => panic!("the replica was not promoted"),
                }
            };
            let is_there = |engine: &Engine| engine.nodes().any(|node| node.name == name) && is_true(engine, &kept);
            until(&mut engine, is_there).await;
            at
        });
        measured.push(at.elapsed().as_secs_f64());
    }
    report.add(Figure {
        name: "s from the promotion of a replica until the table is true again, 3,000 locks on three masters".into(),
        measured: Measured::of(measured),
        limit: Limit::AtMost(2.0),
        show: ratio,
        command: "twice `CLUSTER FAILOVER`, once a master that is killed; every lock with its holder, and complete"
            .into(),
    });
}

/// Takes a lock that stays.
fn take(client: &mut ClusterClient, number: usize) -> (String, String) {
    let (key, token) = (format!("lock:stays:{number}"), uuid(number));
    client.ask(&key, redis::cmd("SET").arg(&key).arg(&token).arg("PX").arg(LEASE_MS));
    (key, token)
}

fn is_true(engine: &Engine, kept: &BTreeMap<String, String>) -> bool {
    engine.snapshot().complete && held(engine).into_iter().collect::<BTreeMap<_, _>>() == *kept
}

/// Runs the engine until this holds.
async fn until(engine: &mut Engine, holds: impl Fn(&Engine) -> bool) {
    let began = Instant::now();
    while !holds(engine) {
        assert!(began.elapsed() < PATIENCE, "waited in vain for the table");
        engine.run_for(Duration::from_millis(10)).await;
    }
}

/// When the replica says for the first time that it is a master.
fn promotion_of(replica: &Server) -> mpsc::Receiver<Instant> {
    let (tell, told) = mpsc::channel();
    let mut connection = replica.connection();
    std::thread::spawn(move || {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let info: String = redis::cmd("INFO").arg("replication").query(&mut connection).expect("it answers");
            if field(&info, "role") == Some("master") {
                let _ = tell.send(Instant::now());
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    told
}
