//! Where a key is written now: the one place that answers this, confirmed, for every kind of target.
//!
//! [`Topology::owner`] asks at the moment of the write. The connection that it returns then follows the key. A node of a
//! cluster that does not own a key has done nothing when it answers MOVED: the map is refreshed and the command is sent
//! to the node that it names, and if that one does not own it either, to the owner by the map. A key that is on its way (ASK) is asked for at the node named, with ASKING in the same
//! pipeline. What is still redirected after that stays an error of the server: nothing was done.
//!
//! A pipeline only reads, so that it can be sent again as a whole. A command on a key of another slot is sent to the node
//! that owns that slot.

use std::collections::{BTreeMap, HashMap};

use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, RedisFuture, RedisResult, Value};
use tokio::time::Instant;

use super::{Asking, Node, ServerConnection, Service, Shared, Topology, sentinel};
use crate::lock::{Key, KeyspaceId, NodeId, slot_of};

/// How often the answers to one request may send it on: MOVED twice, then ASK, or MOVED by the node that ASK named.
const HOPS: usize = 4;
/// A key and what belongs to it are at no more nodes than this.
const OTHERS: usize = 16;

/// The node that owns a key, and a connection to it that follows the key.
pub struct Owner {
    topology: Topology,
    key: Key,
    writes: bool,
    node: Node,
    conn: ServerConnection,
    /// Other nodes to which it was sent, by their addresses.
    others: HashMap<String, ServerConnection>,
    /// When it was last confirmed to be the owner.
    confirmed: Instant,
}

/// Where an answer sends those who ask for a key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Onward {
    address: String,
    /// The key is on its way there (ASK); else the node there owns it (MOVED).
    asking: bool,
}

impl Topology {
    /// Where a write to this key goes now, confirmed, with a connection for writes. In a cluster: the owner by a map that
    /// is not older than a second. Of a Sentinel service: the master that most of the sentinels named within the last
    /// second, and that says on this very connection that it is one.
    pub async fn owner(&self, space: KeyspaceId, key: &Key) -> RedisResult<Owner> {
        Owner::open(self, space, key, true).await
    }

    /// The same for what is read beside a write. Its reads do not count as use of a key.
    pub async fn reader(&self, space: KeyspaceId, key: &Key) -> RedisResult<Owner> {
        Owner::open(self, space, key, false).await
    }

    /// The node to which a write of this key goes now.
    async fn confirmed(&self, space: KeyspaceId, key: &Key) -> RedisResult<Node> {
        match &self.shared {
            Some(Shared::Cluster(cluster)) => cluster.owner(key).await,
            Some(Shared::Service(service)) => service.owner().await,
            None => Ok(self.place(space, key)),
        }
    }
}

impl Owner {
    async fn open(topology: &Topology, space: KeyspaceId, key: &Key, writes: bool) -> RedisResult<Owner> {
        let node = topology.confirmed(space, key).await?;
        let conn = connect(&node, writes).await.map_err(|error| node.blame(error))?;
        let (topology, key, others) = (topology.clone(), key.clone(), HashMap::new());
        let mut owner = Owner { topology, key, writes, node, conn, others, confirmed: Instant::now() };
        owner.is_master().await.map_err(|error| owner.node.blame(error))?;
        Ok(owner)
    }

    /// Of a Sentinel service: the server says on this connection that it is a master.
    async fn is_master(&mut self) -> RedisResult<()> {
        let asks = self.writes && self.topology.service().is_some();
        if asks && !sentinel::says_master(&mut self.conn).await? {
            return Err(std::io::Error::other("a failover is under way: the named master is a replica").into());
        }
        Ok(())
    }

    /// Of a Sentinel service: confirms the master again where that is too long ago. Nothing else would tell: a master that
    /// was replaced takes writes, and forgets them.
    async fn confirm(&mut self) -> RedisResult<()> {
        if !self.writes || self.topology.service().is_none() || self.confirmed.elapsed() < Service::FRESH {
            return Ok(());
        }
        let node = self.topology.confirmed(KeyspaceId::FIRST, &self.key).await?;
        if node.id != self.node.id {
            (self.conn, self.node) = (connect(&node, true).await?, node);
        }
        self.is_master().await?;
        self.confirmed = Instant::now();
        Ok(())
    }

    /// The node that the connection leads to now.
    pub fn node(&self) -> &Node {
        &self.node
    }

    async fn send(&mut self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let answers = self.follow(pipeline).await;
        answers.map_err(|error| self.node.blame(error))
    }

    async fn follow(&mut self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        self.confirm().await?;
        let mut answers = self.conn.req_packed_commands(pipeline, 0, pipeline.len()).await?;
        if self.topology.cluster().is_none() {
            return Ok(answers);
        }
        let mut tried = vec![self.node.id];
        for _ in 0..HOPS {
            let onward: Vec<(usize, Onward, u16)> = answers.iter().enumerate().filter_map(redirect).collect();
            let own = slot_of(self.key.as_bytes());
            let moved = onward.iter().find(|(_, onward, slot)| !onward.asking && *slot == own);
            if let Some((_, Onward { address, .. }, _)) = moved {
                if self.move_to(address, &tried).await.is_err() {
                    return Ok(answers);
                }
                tried.push(self.node.id);
                answers = self.conn.req_packed_commands(pipeline, 0, pipeline.len()).await?;
                continue;
            }
            let mut there: BTreeMap<Onward, Vec<usize>> = BTreeMap::new();
            onward.into_iter().for_each(|(index, onward, _)| there.entry(onward).or_default().push(index));
            if there.is_empty() {
                break;
            }
            for (onward, indices) in there {
                self.send_on(pipeline, &onward, &indices, &mut answers).await?;
            }
        }
        Ok(answers)
    }

    /// Sends some of the commands to another node, and puts its answers in their places. A node that can't be reached
    /// leaves them as they are. An error means that a command was sent and not answered.
    async fn send_on(
        &mut self,
        pipeline: &Pipeline,
        onward: &Onward,
        indices: &[usize],
        answers: &mut [Value],
    ) -> RedisResult<()> {
        let mut some = redis::pipe();
        for (index, command) in pipeline.cmd_iter().enumerate() {
            if indices.contains(&index) {
                some.add_command(command.clone());
            }
        }
        let Ok(conn) = self.other(&onward.address).await else { return Ok(()) };
        let answered = match onward.asking {
            true => Asking(conn).req_packed_commands(&some, 0, some.len()).await,
            false => conn.req_packed_commands(&some, 0, some.len()).await,
        };
        if answered.is_err() {
            self.others.remove(&onward.address);
        }
        for (index, answer) in indices.iter().zip(answered?) {
            answers[*index] = answer;
        }
        Ok(())
    }

    /// Goes to the node that owns the key now: the one at this address, or the one that the map names. An error means
    /// that both were tried.
    async fn move_to(&mut self, address: &str, tried: &[NodeId]) -> RedisResult<()> {
        let disagree = || RedisError::from(std::io::Error::other("the nodes do not agree who owns the key"));
        let cluster = self.topology.cluster().ok_or_else(disagree)?;
        // The answer names an owner even if nobody else can be asked.
        let _ = cluster.refresh().await;
        let map = cluster.map();
        let named = map.members.iter().map(|member| &member.node).find(|node| node.name == address);
        let untried = [named, map.owner(&self.key)].into_iter().flatten().find(|node| !tried.contains(&node.id));
        let node = match (untried, tried) {
            (Some(node), _) => node.clone(),
            // One that the map does not know yet, or by another name.
            (None, [_]) => Node { name: address.to_string(), ..self.node.sibling(address)? },
            (None, _) => return Err(disagree()),
        };
        self.conn = connect(&node, self.writes).await?;
        self.node = node;
        Ok(())
    }

    async fn other(&mut self, address: &str) -> RedisResult<&mut ServerConnection> {
        if !self.others.contains_key(address) {
            if self.others.len() >= OTHERS {
                self.others.clear();
            }
            let conn = connect(&self.node.sibling(address)?, self.writes).await?;
            self.others.insert(address.to_string(), conn);
        }
        self.others.get_mut(address).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected).into())
    }
}

async fn connect(node: &Node, writes: bool) -> RedisResult<ServerConnection> {
    match writes {
        true => node.connect_to_write().await,
        false => node.connect().await,
    }
}

/// Where an answer sends us, and for which slot.
fn redirect((index, answer): (usize, &Value)) -> Option<(usize, Onward, u16)> {
    let Value::ServerError(error) = answer else { return None };
    let asking = match error.code() {
        "MOVED" => false,
        "ASK" => true,
        _ => return None,
    };
    let error = RedisError::from(error.clone());
    let (address, slot) = error.redirect_node()?;
    Some((index, Onward { address: address.to_string(), asking }, slot))
}

impl ConnectionLike for Owner {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let mut one = redis::pipe();
            one.add_command(command.clone());
            self.send(&one).await?.into_iter().next().unwrap_or(Value::Nil).extract_error()
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move { Ok(self.send(pipeline).await?.into_iter().skip(offset).take(count).collect()) })
    }

    fn get_db(&self) -> i64 {
        self.conn.get_db()
    }
}
