//! A private cluster: three masters that share the slots evenly, and a replica of each.
//!
//! What an operator does to a cluster is done to it here too: slots move to another master, and a replica takes over.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisResult, cmd};

use super::acts::{Act, is_master, unfinished};
use super::fleet::Dice;
use super::server::{Home, Kind, NoServer, PrivateServer, program};
use crate::base::text;
use crate::lock::{Key, SLOTS, slot_of};
use crate::topology::{Endpoint, HostMap, Map, MemberRole, Node, ServerConnection, Topology};

const MASTERS: usize = 3;
/// How long the nodes may take to agree. On an idle machine they do within 3 s.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many slots move at once, at most.
const RUN: u16 = 100;

pub struct PrivateCluster {
    /// The masters as they were at the start, then a replica of each in the same order.
    nodes: Vec<PrivateServer>,
    /// Dropped after the nodes, which write there.
    _home: Home,
}

impl PrivateCluster {
    /// Starts the nodes and waits until all slots are served and all replicas are synced.
    pub async fn start(named: Option<&Path>) -> Result<PrivateCluster, NoServer> {
        let program = program(named)?;
        let failed = |why: String| NoServer::Failed { program: program.clone(), why };
        let home = Home::make().map_err(|why| failed(why.to_string()))?;
        let nodes =
            try_join_all((0..2 * MASTERS).map(|_| PrivateServer::start_as(Kind::Node(&home), &program))).await?;
        let cluster = PrivateCluster { nodes, _home: home };
        let formed = tokio::time::timeout(PATIENCE, cluster.form()).await;
        match formed {
            Ok(Ok(())) => Ok(cluster),
            Ok(Err(error)) => Err(failed(format!("its nodes do not form a cluster: {}", text::said(&error)))),
            Err(_) => Err(failed(format!("its nodes did not form a cluster in {PATIENCE:?}"))),
        }
    }

    async fn form(&self) -> RedisResult<()> {
        let mut lines = try_join_all(self.nodes.iter().map(PrivateServer::connect)).await?;
        for (index, line) in lines.iter_mut().enumerate() {
            if index < MASTERS {
                give_slots(line, index).await?;
            }
            cluster("SET-CONFIG-EPOCH").arg(index + 1).exec_async(line).await?;
        }
        for node in &self.nodes[1..] {
            cluster("MEET").arg("127.0.0.1").arg(node.port()).exec_async(&mut lines[0]).await?;
        }
        let all = format!("cluster_known_nodes:{}", self.nodes.len());
        for line in &mut lines {
            until(line, cluster("INFO"), &all).await?;
        }
        for index in 0..MASTERS {
            let id: String = cluster("MYID").query_async(&mut lines[index]).await?;
            cluster("REPLICATE").arg(id).exec_async(&mut lines[MASTERS + index]).await?;
        }
        for line in &mut lines {
            until(line, cluster("INFO"), "cluster_state:ok").await?;
        }
        for line in &mut lines[MASTERS..] {
            until(line, cmd("INFO").arg("replication").clone(), "master_link_status:up").await?;
        }
        for line in &mut lines {
            knows_replicas(line).await?;
        }
        Ok(())
    }

    /// By one node, which names the others.
    pub fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.nodes[0].port())
    }

    /// The masters first.
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(PrivateServer::port).collect()
    }

    pub async fn topology(&self) -> RedisResult<Topology> {
        let seeds: Vec<Endpoint> = self.nodes.iter().map(PrivateServer::endpoint).collect();
        Topology::of_cluster(&seeds, HostMap::default()).await
    }
}

fn cluster(word: &str) -> Cmd {
    let mut command = cmd("CLUSTER");
    command.arg(word);
    command
}

/// An even share of the slots.
async fn give_slots(line: &mut MultiplexedConnection, index: usize) -> RedisResult<()> {
    let share = usize::from(SLOTS) / MASTERS + 1;
    let (first, last) = (index * share, (index * share + share - 1).min(usize::from(SLOTS) - 1));
    let range: RedisResult<()> = cluster("ADDSLOTSRANGE").arg(first).arg(last).query_async(line).await;
    match range {
        Ok(()) => Ok(()),
        // Servers before 7.0.
        Err(_) => cluster("ADDSLOTS").arg((first..=last).collect::<Vec<_>>()).query_async(line).await,
    }
}

/// Asks until the answer contains `wanted`. The caller limits the time.
async fn until(line: &mut MultiplexedConnection, question: Cmd, wanted: &str) -> RedisResult<()> {
    loop {
        let answer: String = question.query_async(line).await?;
        if answer.lines().any(|said| said.trim() == wanted) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the node knows which nodes are replicas: they hear that from each other.
async fn knows_replicas(line: &mut MultiplexedConnection) -> RedisResult<()> {
    loop {
        let nodes: String = cluster("NODES").query_async(line).await?;
        let replicas = nodes.lines().filter(|node| node.split(' ').nth(2).is_some_and(|flags| flags.contains("slave")));
        if replicas.count() == MASTERS {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What is done to the cluster while it is watched. It goes by its own view of the cluster.
pub struct Hand {
    topology: Topology,
}

impl Hand {
    pub async fn on(cluster: &PrivateCluster) -> RedisResult<Hand> {
        Ok(Hand { topology: cluster.topology().await? })
    }

    async fn map(&self) -> RedisResult<std::sync::Arc<Map>> {
        let cluster = self.topology.cluster().expect("it was opened as a cluster");
        cluster.refresh().await?;
        Ok(cluster.map())
    }

    /// Moves the slot of this lock and some after it to another master, key by key, as redis-cli does.
    pub async fn move_slots(&self, key: &str, dice: &mut Dice) -> RedisResult<Act> {
        let (map, slot) = (self.map().await?, slot_of(key.as_bytes()));
        let range = map.slots.iter().find(|(first, last, _)| (*first..=*last).contains(&slot));
        let (_, end, owner) = *range.ok_or_else(|| unfinished("a slot has no owner"))?;
        // One without slots may be a replica of which the node asked has not heard yet.
        let owns = |node: &&Node| map.slots.iter().any(|(.., owner)| *owner == node.id);
        let masters: Vec<&Node> = map.masters().filter(owns).collect();
        let others: Vec<&Node> = masters.iter().copied().filter(|node| node.id != owner).collect();
        let from = masters.iter().copied().find(|node| node.id == owner);
        let from = from.ok_or_else(|| unfinished("a slot has no master"))?;
        let to = *dice.pick(&others);
        let last = end.min(slot + RUN - 1);
        let (mut source, mut target) = (from.connect_to_write().await?, to.connect_to_write().await?);
        let ids = [id(&mut source).await?, id(&mut target).await?];
        for slot in slot..=last {
            set_slot(slot, "IMPORTING", &ids[0]).exec_async(&mut target).await?;
            set_slot(slot, "MIGRATING", &ids[1]).exec_async(&mut source).await?;
        }
        let mut keys = 0;
        for slot in slot..=last {
            keys += empty(slot, &mut source, to).await?;
        }
        for slot in slot..=last {
            // The new owner first: otherwise nobody would own it for a moment.
            set_slot(slot, "NODE", &ids[1]).exec_async(&mut target).await?;
            set_slot(slot, "NODE", &ids[1]).exec_async(&mut source).await?;
        }
        let (from, to) = (from.name.clone(), to.name.clone());
        Ok(Act::Moved { first: slot, last, key: Key::from(key), keys, from, to })
    }

    /// Has a replica take over from its master, without a loss.
    pub async fn fail_over(&self, dice: &mut Dice) -> RedisResult<Act> {
        let map = self.map().await?;
        let pair = |of: &Node| {
            let replica = map.members.iter().find(|member| member.role == MemberRole::Replica(Some(of.id)))?;
            Some((of.name.clone(), replica.node.clone()))
        };
        let pairs: Vec<(String, Node)> = map.masters().filter_map(pair).collect();
        if pairs.is_empty() {
            return Err(unfinished("no master has a replica"));
        }
        let (from, replica) = dice.pick(&pairs).clone();
        let mut line = replica.connect_to_write().await?;
        cluster("FAILOVER").exec_async(&mut line).await?;
        let began = Instant::now();
        while !is_master(&mut line).await? {
            if began.elapsed() > PATIENCE {
                return Err(unfinished("the replica did not take over"));
            }
        }
        Ok(Act::FailedOver { from, to: replica.name })
    }
}

async fn id(line: &mut ServerConnection) -> RedisResult<String> {
    cluster("MYID").query_async(line).await
}

fn set_slot(slot: u16, word: &str, node: &str) -> Cmd {
    let mut command = cluster("SETSLOT");
    command.arg(slot).arg(word).arg(node);
    command
}

/// Moves all keys of a slot to another node, and counts them.
async fn empty(slot: u16, source: &mut ServerConnection, to: &Node) -> RedisResult<usize> {
    let port = to.name.rsplit(':').next().unwrap_or_default();
    let mut moved = 0;
    loop {
        let keys: Vec<Vec<u8>> = cluster("GETKEYSINSLOT").arg(slot).arg(100).query_async(source).await?;
        if keys.is_empty() {
            return Ok(moved);
        }
        moved += keys.len();
        let mut migrate = cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(port).arg("").arg(0).arg(5000).arg("KEYS").arg(keys);
        migrate.exec_async(source).await?;
    }
}
