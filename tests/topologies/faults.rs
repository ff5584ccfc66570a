//! What happens to a cluster or a Sentinel service: slots that move in every way, masters that fail in every way, scripts
//! that are flushed. Each fault is one or more steps, after each of which the table has to be true.

use redis::Value;

use crate::common::cluster::moves_at_once;
use crate::common::server::field;
use crate::common::{Cluster, Sentinels, Server, wait_until};

use super::place::{Place, replicas_of};
use super::watch::PATIENCE;

/// One thing that happens.
pub struct Fault<P: 'static> {
    pub name: &'static str,
    pub steps: &'static [Step<P>],
    /// Whether the server can do it, and what it lacks if not.
    pub needs: Option<Need>,
    /// Locks that were held may be lost in it.
    pub loses: bool,
}

/// What only some servers can do, and how that is called.
pub type Need = (fn(&Server) -> bool, &'static str);

pub type Step<P> = fn(&mut P, &mut Scene);

/// Whom a fault concerns.
#[derive(Default)]
pub struct Scene {
    /// The master, as an index of the servers.
    pub master: usize,
    /// Its replica that takes over, where the fault knows it.
    pub replica: usize,
    /// Another master of the cluster.
    pub other: usize,
    /// Servers that do not answer now.
    pub passed_over: Vec<usize>,
    slots: Vec<u16>,
}

const fn fault<P: 'static>(name: &'static str, steps: &'static [Step<P>]) -> Fault<P> {
    Fault { name, steps, needs: None, loses: false }
}

/// Slots are moved, and nothing is lost.
pub const SLOTS: &[Fault<Cluster>] = &[
    fault("slots move key by key", &[move_keys]),
    fault("a slot is left half-way", &[leave_half_way, finish]),
    Fault {
        needs: Some((moves_at_once, "no atomic migration of slots")),
        ..fault("slots move at once", &[move_at_once])
    },
    Fault {
        needs: Some((moves_at_once, "no atomic migration of slots")),
        ..fault("a move at once is cancelled", &[cancel_move])
    },
    fault("the scripts are flushed", &[flush_scripts]),
    fault("a node is added, and gives all away", &[add_node, empty_node]),
];

/// Masters fail.
pub const MASTERS: &[Fault<Cluster>] = &[
    fault("a replica takes over by hand", &[take_over_by_hand]),
    Fault { loses: true, ..fault("a master dies, and comes back", &[kill, come_back]) },
    Fault { loses: true, ..fault("a master hangs, and goes on", &[hang, go_on]) },
    Fault { loses: true, ..fault("a master is restarted, empty", &[restart_empty]) },
    fault("a replica without notifications takes over", &[mute_replica_takes_over, notify_again]),
    Fault { loses: true, ..fault("the cluster is down, and comes back", &[down_and_back]) },
];

/// Masters of a Sentinel service fail.
pub const SERVICE: &[Fault<Sentinels>] = &[
    fault("the scripts are flushed", &[flush_scripts]),
    fault("a failover by hand", &[service_by_hand]),
    Fault { loses: true, ..fault("the master dies, and comes back", &[service_kill, come_back]) },
    Fault { loses: true, ..fault("the master hangs, and goes on", &[service_hang, go_on]) },
    Fault { loses: true, ..fault("the master is restarted, empty", &[service_restart]) },
    fault("a replica without notifications takes over", &[mute_service, notify_again]),
];

fn flush_scripts<P: Place>(place: &mut P, _: &mut Scene) {
    for server in place.servers() {
        // A replica follows its master, and a dead one has none.
        let _ = server.try_ask::<Value, _>(&["SCRIPT", "FLUSH"]);
    }
}

/// What was killed or hung is a server again.
fn come_back<P: Place>(place: &mut P, scene: &mut Scene) {
    place.servers()[scene.master].restart();
    scene.passed_over.clear();
}

fn go_on<P: Place>(place: &mut P, scene: &mut Scene) {
    place.servers()[scene.master].resume();
    scene.passed_over.clear();
}

fn notify_again<P: Place>(place: &mut P, _: &mut Scene) {
    for server in place.servers() {
        let _ =
            server.try_ask::<Value, _>(&["CONFIG", "SET", "notify-keyspace-events", crate::common::program::events()]);
    }
}

fn mute(server: &Server) {
    server.cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
}

/// Chooses a master with a replica, another one each time, and one more.
pub fn choose(cluster: &Cluster, round: usize) -> Scene {
    let masters: Vec<(usize, Vec<u16>)> =
        cluster.nodes.iter().enumerate().filter_map(|(index, node)| Some((index, replicas_of(node)?))).collect();
    let owns = |index: usize| !keys_of(&cluster.nodes[index]).is_empty();
    let paired: Vec<&(usize, Vec<u16>)> =
        masters.iter().filter(|(index, replicas)| !replicas.is_empty() && owns(*index)).collect();
    assert!(paired.len() > 1, "too few masters with locks and replicas");
    let (master, replicas) = paired[round % paired.len()];
    let replica = cluster.nodes.iter().position(|node| node.port() == replicas[0]).expect("one of the cluster");
    let other = paired[(round + 1) % paired.len()].0;
    Scene { master: *master, replica, other, ..Scene::default() }
}

pub fn present_master(service: &Sentinels) -> Scene {
    Scene { master: service.index_of(service.master_port().expect("a master")), ..Scene::default() }
}

fn keys_of(node: &Server) -> Vec<String> {
    node.ask(&["KEYS", "*"])
}

/// Some of the slots in which it has locks now.
fn slots_with_locks(node: &Server) -> Vec<u16> {
    let mut slots: Vec<u16> = keys_of(node).iter().map(|key| lockscope::lock::slot_of(key.as_bytes())).collect();
    slots.sort_unstable();
    slots.dedup();
    slots.truncate(slots.len().div_ceil(2).min(12));
    slots
}

fn move_keys(cluster: &mut Cluster, scene: &mut Scene) {
    let (from, to) = (cluster.master(scene.master), cluster.master(scene.other));
    for slot in slots_with_locks(from) {
        cluster.move_slot(slot, from, to);
    }
}

fn leave_half_way(cluster: &mut Cluster, scene: &mut Scene) {
    let (from, to) = (cluster.master(scene.master), cluster.master(scene.other));
    scene.slots = slots_with_locks(from);
    for (index, slot) in scene.slots.iter().enumerate() {
        cluster.open_slot(*slot, from, to);
        // Of every second slot the locks have moved.
        cluster.migrate(*slot, from, to, index % 2);
    }
}

fn finish(cluster: &mut Cluster, scene: &mut Scene) {
    let (from, to) = (cluster.master(scene.master), cluster.master(scene.other));
    for slot in std::mem::take(&mut scene.slots) {
        while !cluster.migrate(slot, from, to, 10).is_empty() {}
        cluster.close_slot(slot, from, to);
    }
}

fn move_at_once(cluster: &mut Cluster, scene: &mut Scene) {
    let (from, to) = (cluster.master(scene.master), cluster.master(scene.other));
    cluster.move_at_once(&slots_with_locks(from), from, to);
}

fn cancel_move(cluster: &mut Cluster, scene: &mut Scene) {
    let (from, to) = (cluster.master(scene.master), cluster.master(scene.other));
    cluster.begin_move(&slots_with_locks(from), from, to);
    cluster.cancel_moves(from, to);
}

fn add_node(cluster: &mut Cluster, scene: &mut Scene) {
    cluster.add();
    let (from, to) = (cluster.master(scene.master), cluster.nodes.last().expect("the new one"));
    scene.slots = slots_with_locks(from);
    for slot in &scene.slots {
        cluster.move_slot(*slot, from, to);
    }
}

fn empty_node(cluster: &mut Cluster, scene: &mut Scene) {
    let (from, to) = (cluster.nodes.last().expect("the new one"), cluster.master(scene.other));
    for slot in std::mem::take(&mut scene.slots) {
        cluster.move_slot(slot, from, to);
    }
    // It may be a replica of anybody by its own choice: without slots it is nobody's owner.
    assert!(keys_of(from).is_empty() || replicas_of(from).is_none(), "it has nothing of its own left");
}

fn is_master(server: &Server) -> bool {
    replicas_of(server).is_some()
}

fn take_over_by_hand(cluster: &mut Cluster, scene: &mut Scene) {
    cluster.nodes[scene.replica].cli(&["CLUSTER", "FAILOVER"]);
    wait_until("the replica to take over", PATIENCE, || is_master(&cluster.nodes[scene.replica]));
}

fn kill(cluster: &mut Cluster, scene: &mut Scene) {
    cluster.nodes[scene.master].kill();
    scene.passed_over.push(scene.master);
    wait_until("the replica to take over", PATIENCE, || is_master(&cluster.nodes[scene.replica]));
}

fn hang(cluster: &mut Cluster, scene: &mut Scene) {
    cluster.nodes[scene.master].pause();
    scene.passed_over.push(scene.master);
    wait_until("the replica to take over", PATIENCE, || is_master(&cluster.nodes[scene.replica]));
}

fn restart_empty(cluster: &mut Cluster, scene: &mut Scene) {
    cluster.nodes[scene.master].restart();
    let still = &cluster.nodes[scene.master];
    assert!(is_master(still), "it came back before anybody noticed");
}

fn mute_replica_takes_over(cluster: &mut Cluster, scene: &mut Scene) {
    mute(&cluster.nodes[scene.replica]);
    take_over_by_hand(cluster, scene);
}

fn down_and_back(cluster: &mut Cluster, scene: &mut Scene) {
    cluster.nodes[scene.replica].kill();
    cluster.nodes[scene.master].kill();
    let says = |state: &str| {
        let info = cluster.nodes[scene.other].ask::<String, _>(&["CLUSTER", "INFO"]);
        field(&info, "cluster_state") == Some(state)
    };
    wait_until("the cluster to be down", PATIENCE, || says("fail"));
    cluster.nodes[scene.master].restart();
    cluster.nodes[scene.replica].restart();
}

fn service_by_hand(service: &mut Sentinels, _: &mut Scene) {
    service.fail_over();
}

fn service_kill(service: &mut Sentinels, scene: &mut Scene) {
    service.servers[scene.master].kill();
    scene.passed_over.push(scene.master);
    service.wait_for_another_than(scene.master);
}

fn service_hang(service: &mut Sentinels, scene: &mut Scene) {
    service.servers[scene.master].pause();
    scene.passed_over.push(scene.master);
    service.wait_for_another_than(scene.master);
}

fn service_restart(service: &mut Sentinels, scene: &mut Scene) {
    service.servers[scene.master].restart();
}

fn mute_service(service: &mut Sentinels, scene: &mut Scene) {
    for (index, server) in service.servers.iter().enumerate() {
        if index != scene.master && !is_master(server) {
            mute(server);
        }
    }
    service.fail_over();
}
