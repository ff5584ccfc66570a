//! Which nodes there are, and the one way to connect to them.
//!
//! Everything that speaks to Redis asks here for its nodes, even where there is only one, and opens its own connection
//! for its own purpose: a scan must never queue behind an event stream, nor an action behind a scan.

mod bounded;
mod cluster;
mod connection;
mod endpoint;
mod fault;
mod hosts;
mod link;
mod owner;
mod sentinel;
mod shared;
mod standalone;
mod stream;
pub mod url;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{AsyncPushSender, PubSub};
use redis::{AsyncConnectionConfig, Client, ProtocolVersion, RedisConnectionInfo, RedisResult, TlsCertificates};
use tokio::io::AsyncWriteExt;

use crate::base::process::connection_name;
use crate::lock::{Key, KeyspaceId, NodeId};
use bounded::Bounded;
use cluster::Kin;

pub use bounded::Excess;
pub use cluster::{Asking, Cluster, Failover, Map, Member, MemberRole, Myself, myself};
pub use connection::ServerConnection;
pub use endpoint::Endpoint;
pub use fault::is_silence;
pub use hosts::HostMap;
pub use link::Link;
pub use owner::Owner;
pub use sentinel::{Council, Service, Trouble};
pub use shared::Shared;
pub use stream::{Stream, config as tls};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer may take. A server that is busy for longer than this is treated as lost.
pub const ANSWER: Duration = Duration::from_secs(15);

/// One server that holds keys.
#[derive(Clone)]
pub struct Node {
    pub id: NodeId,
    /// The keyspace that it serves.
    pub space: KeyspaceId,
    /// `host:port`, or the path of the socket.
    pub name: String,
    pub db: i64,
    client: Client,
    /// The client's certificates; the streams that we open ourselves need them too.
    tls: Option<TlsCertificates>,
    /// What it shares with the other nodes of its cluster or service.
    kin: Option<Arc<Kin>>,
}

/// All nodes of a target.
#[derive(Clone, Default)]
pub struct Topology {
    /// Servers on their own.
    nodes: Vec<Node>,
    /// The id of the next node; ids are never reused.
    next: NodeId,
    /// Instead of those, nodes that serve one keyspace.
    shared: Option<Shared>,
}

impl Topology {
    /// Learns the nodes of the target behind `endpoint`.
    pub async fn open(endpoint: &Endpoint) -> RedisResult<Topology> {
        let mut topology = Topology::default();
        topology.add(endpoint)?;
        Ok(topology)
    }

    /// Learns the nodes of the cluster to which these servers belong.
    pub async fn of_cluster(seeds: &[Endpoint], hosts: HostMap) -> RedisResult<Topology> {
        let shared = Some(Shared::Cluster(Arc::new(Cluster::open(seeds, hosts).await?)));
        Ok(Topology { shared, ..Topology::default() })
    }

    /// Learns the present master of a service from its sentinels. `server`: how to log in to the service's servers.
    pub async fn of_service(
        name: &str,
        sentinels: &[Endpoint],
        server: &Endpoint,
        hosts: HostMap,
    ) -> Result<Topology, Trouble> {
        let shared = Some(Shared::Service(Arc::new(Service::open(name, sentinels, server, hosts).await?)));
        Ok(Topology { shared, ..Topology::default() })
    }

    /// The cluster or service that it is, if it is one.
    pub fn shared(&self) -> Option<&Shared> {
        self.shared.as_ref()
    }

    /// The cluster that it is, if it is one.
    pub fn cluster(&self) -> Option<&Arc<Cluster>> {
        match &self.shared {
            Some(Shared::Cluster(cluster)) => Some(cluster),
            _ => None,
        }
    }

    /// The Sentinel service that it is, if it is one.
    pub fn service(&self) -> Option<&Arc<Service>> {
        match &self.shared {
            Some(Shared::Service(service)) => Some(service),
            _ => None,
        }
    }

    /// Adds a standalone server.
    pub fn add(&mut self, endpoint: &Endpoint) -> RedisResult<Node> {
        let node = standalone::node(endpoint, self.next)?;
        self.next.0 += 1;
        self.nodes.push(node.clone());
        Ok(node)
    }

    /// The nodes that are read: all servers, or the masters of the cluster or service as they are now.
    pub fn nodes(&self) -> Vec<Node> {
        match &self.shared {
            Some(shared) => shared.map().masters().cloned().collect(),
            None => self.nodes.clone(),
        }
    }

    /// The names of all nodes, replicas included: they may be masters later.
    pub fn names(&self) -> BTreeMap<NodeId, String> {
        let name = |node: &Node| (node.id, node.name.clone());
        match &self.shared {
            Some(shared) => shared.map().members.iter().map(|member| name(&member.node)).collect(),
            None => self.nodes.iter().map(name).collect(),
        }
    }

    /// The node at which a key of the target is read and written.
    pub fn node_of(&self, key: &Key) -> Node {
        let owner = || self.shared.as_ref()?.map().owner(key).cloned();
        owner().or_else(|| self.nodes().into_iter().next()).expect("a target has a node")
    }

    /// The database of the target, on all its nodes.
    pub fn db(&self) -> i64 {
        self.nodes().first().map_or(0, |node| node.db)
    }

    /// The node at which this lock is read and written.
    pub fn place(&self, space: KeyspaceId, key: &Key) -> Node {
        let alone = self.nodes.iter().find(|node| node.space == space).cloned();
        alone.unwrap_or_else(|| self.node_of(key))
    }
}

impl Node {
    /// A connection for commands and their replies.
    pub async fn connect(&self) -> RedisResult<ServerConnection> {
        let mut conn = self.connection(self.login_settings(), config()).await?;
        introduce(&mut conn).await;
        Ok(conn)
    }

    /// A connection for writes, without CLIENT NO-TOUCH: several Redis and Valkey versions of 2024 and 2025 crash when
    /// a client with NO-TOUCH wakes one that is blocked on a list (redis/redis#14415).
    pub async fn connect_to_write(&self) -> RedisResult<ServerConnection> {
        let mut conn = self.connection(self.login_settings(), config()).await?;
        let mut name = redis::cmd("CLIENT");
        let _ = name.arg("SETNAME").arg(connection_name()).exec_async(&mut conn).await;
        Ok(conn)
    }

    /// A RESP3 connection whose pushes go to `pushes`.
    pub async fn connect_with_pushes(&self, pushes: impl AsyncPushSender) -> RedisResult<ServerConnection> {
        let login = self.login_settings().set_protocol(ProtocolVersion::RESP3);
        let mut conn = self.connection(login, config().set_push_sender(pushes)).await?;
        introduce(&mut conn).await;
        Ok(conn)
    }

    /// A connection for subscriptions.
    pub async fn subscriber(&self) -> RedisResult<PubSub> {
        in_time(CONNECT, self.introduced_subscriber()).await
    }

    async fn connection(
        &self,
        login: RedisConnectionInfo,
        config: AsyncConnectionConfig,
    ) -> RedisResult<ServerConnection> {
        in_time(CONNECT, async { ServerConnection::over(self.stream().await?, &login, config).await }).await
    }

    fn login_settings(&self) -> RedisConnectionInfo {
        self.client.get_connection_info().redis_settings().clone()
    }

    /// The client crate's subscriber can only subscribe, so we log in and set the name on its stream first. The
    /// database does not matter to it.
    async fn introduced_subscriber(&self) -> RedisResult<PubSub> {
        let (mut stream, login) = (Bounded::of_messages(self.stream().await?), self.login());
        let mut greetings = redis::pipe();
        if let Some(password) = &login.password {
            greetings.cmd("AUTH").arg(login.username.as_deref().unwrap_or("default")).arg(password);
        }
        greetings.cmd("CLIENT").arg("SETNAME").arg(connection_name());
        stream.write_all(&greetings.get_packed_pipeline()).await?;
        let mut decoder = Default::default();
        for (number, _) in greetings.cmd_iter().enumerate() {
            let answer = redis::parse_redis_value_async(&mut decoder, &mut stream).await;
            // Naming is optional; ignore a refusal. A failed login is an error.
            if number + 1 < greetings.len() {
                answer?.extract_error()?;
            }
        }
        PubSub::new(&RedisConnectionInfo::default(), stream).await
    }
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_response_timeout(Some(ANSWER))
}

/// Names the connection, and asks that our reads do not count as use of a key. Both are optional; ignore a refusal.
async fn introduce(conn: &mut ServerConnection) {
    let mut greetings = redis::pipe();
    greetings.cmd("CLIENT").arg("SETNAME").arg(connection_name());
    greetings.cmd("CLIENT").arg("NO-TOUCH").arg("ON").ignore_errors();
    let _ = greetings.query_async::<Vec<redis::Value>>(conn).await;
}

/// Fails after `limit`.
pub async fn in_time<T>(limit: Duration, doing: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    match tokio::time::timeout(limit, doing).await {
        Ok(done) => done,
        Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
    }
}
