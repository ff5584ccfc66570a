//! One cluster: finds its nodes from those that the user named, and keeps the map of them.
//!
//! One task ([`Cluster::keep`]) asks one node at a time how it sees the cluster: every second, and at once when a node
//! answered MOVED or a connection was lost. A view with an older epoch than the map's is outdated (a deposed master that
//! was paused, a node cut off) and not believed. Everything else reads the map and never asks.

mod asking;
mod map;
mod view;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, ErrorKind, RedisResult, ServerErrorKind};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::Instant;

use super::{Endpoint, HostMap, Node, ServerConnection, in_time, standalone};
use crate::lock::{Key, KeyspaceId, NodeId, slot_of};
use crate::model::SlotRange;
use view::{Seen, SeenRole, View};

pub use view::Myself;

pub use asking::Asking;
pub use map::{Failover, Map, Member, MemberRole};

/// How often the map is refreshed without a reason.
const EVERY: Duration = Duration::from_secs(1);
/// The least time between two refreshes.
const PAUSE: Duration = Duration::from_millis(50);
/// A node that takes longer than this is passed over for now.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same node is asked this often before another one is.
const TURNS: u32 = 5;
/// Believe an older epoch after this many refreshes in a row: it is a new cluster under the same addresses.
const OLDER: u32 = 10;
/// How often a write asks for the owner of a key before it gives up.
const ATTEMPTS: usize = 3;

/// What all nodes of one cluster or Sentinel service share.
pub struct Kin {
    pub(super) hosts: HostMap,
    /// A node said that a key is elsewhere, or a sentinel that there is a new master.
    pub(super) stale: Notify,
}

impl Kin {
    pub(super) fn new(hosts: HostMap) -> Kin {
        Kin { hosts, stale: Notify::new() }
    }
}

pub struct Cluster {
    seeds: Vec<Endpoint>,
    kin: Arc<Kin>,
    map: watch::Sender<Arc<Map>>,
    asker: Mutex<Asker>,
}

/// Whom to ask, and what must not be forgotten between two maps.
#[derive(Default)]
struct Asker {
    conn: Option<(ServerConnection, String)>,
    /// How often it was asked.
    turns: u32,
    /// The candidate to ask next.
    next: usize,
    /// Each node keeps its id, by its name in the cluster and its address.
    ids: HashMap<(String, String), NodeId>,
    older: u32,
    /// When the view was asked for that the map was drawn after.
    asked: Option<Instant>,
}

impl Cluster {
    /// Learns the nodes of the cluster from the first seed that answers.
    pub async fn open(seeds: &[Endpoint], hosts: HostMap) -> RedisResult<Cluster> {
        let kin = Arc::new(Kin::new(hosts));
        let (map, asker) = (watch::Sender::new(Arc::default()), Mutex::default());
        let cluster = Cluster { seeds: seeds.to_vec(), kin, map, asker };
        cluster.refresh().await?;
        Ok(cluster)
    }

    pub fn map(&self) -> Arc<Map> {
        self.map.borrow().clone()
    }

    /// Every new map from now on.
    pub fn changes(&self) -> watch::Receiver<Arc<Map>> {
        self.map.subscribe()
    }

    /// Keeps the map current for as long as it is polled.
    pub async fn keep(&self) {
        loop {
            let _ = tokio::time::timeout(EVERY, self.kin.stale.notified()).await;
            // Nobody to ask: the map stays as it is, and the nodes' own streams tell that they are lost.
            let _ = self.refresh().await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks how the cluster is now. An error means that nobody answered.
    pub async fn refresh(&self) -> RedisResult<()> {
        let mut asker = self.asker.lock().await;
        self.ask_again(&mut asker).await
    }

    /// The node that owns a key now, by a map that is not older than a second.
    pub async fn owner(&self, key: &Key) -> RedisResult<Node> {
        let mut asker = self.asker.lock().await;
        for _ in 0..ATTEMPTS {
            let is_fresh = asker.asked.is_some_and(|at| at.elapsed() < EVERY);
            if let Some(owner) = self.map().owner(key).filter(|_| is_fresh) {
                return Ok(owner.clone());
            }
            self.ask_again(&mut asker).await?;
        }
        let why = format!("nobody owns its slot {}, or the nodes do not agree who does", slot_of(key.as_bytes()));
        Err((ErrorKind::Server(ServerErrorKind::ClusterDown), "no owner", why).into())
    }

    async fn ask_again(&self, asker: &mut Asker) -> RedisResult<()> {
        let began = Instant::now();
        let (view, host) = self.ask(asker).await?;
        let known = self.map();
        if view.epoch() < known.epoch && asker.older < OLDER {
            // Somebody else may know more.
            (asker.older, asker.conn) = (asker.older + 1, None);
            return Ok(());
        }
        (asker.older, asker.asked) = (0, Some(began));
        let map = self.draw(&view, &host, &known, &mut asker.ids)?;
        self.map.send_if_modified(|current| {
            let differs = map.differs(current);
            let version = current.version + u64::from(differs);
            *current = Arc::new(Map { version, ..map });
            differs
        });
        Ok(())
    }

    /// The view of the node that was asked last, or of the next one that answers, with the host under which it was asked.
    async fn ask(&self, asker: &mut Asker) -> RedisResult<(View, String)> {
        if asker.turns < TURNS
            && let Some((conn, host)) = &mut asker.conn
            && let Ok(view) = view_of(conn).await
        {
            asker.turns += 1;
            return Ok((view, host.clone()));
        }
        (asker.conn, asker.turns) = (None, 1);
        let mut failed = None;
        let candidates = self.candidates()?;
        for _ in 0..candidates.len() {
            let node = &candidates[asker.next % candidates.len()];
            asker.next = (asker.next + 1) % candidates.len();
            let asked = async {
                let mut conn = in_time(PATIENCE, node.connect()).await?;
                let view = view_of(&mut conn).await?;
                RedisResult::Ok((view, conn))
            };
            match asked.await {
                Ok((view, conn)) => {
                    let host = node.host();
                    asker.conn = Some((conn, host.clone()));
                    return Ok((view, host));
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        Err(failed.unwrap_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected).into()))
    }

    /// The known nodes, then those that the user named.
    fn candidates(&self) -> RedisResult<Vec<Node>> {
        let mut nodes: Vec<Node> = self.map().members.iter().map(|member| member.node.clone()).collect();
        for seed in &self.seeds {
            nodes.push(standalone::node(seed, NodeId::default())?);
        }
        Ok(nodes)
    }

    /// Draws the map after a view. `host`: where a node is whose address is empty. Known nodes stay as they are: making
    /// one reads its certificates.
    fn draw(
        &self,
        view: &View,
        host: &str,
        known: &Map,
        ids: &mut HashMap<(String, String), NodeId>,
    ) -> RedisResult<Map> {
        let mut members = Vec::with_capacity(view.members.len());
        let mut named: HashMap<&str, NodeId> = HashMap::new();
        for seen in &view.members {
            let (name, address) = self.address(seen, host);
            let next = NodeId(u16::try_from(ids.len()).unwrap_or(u16::MAX));
            let id = *ids.entry((seen.id.clone(), name.clone())).or_insert(next);
            named.insert(&seen.id, id);
            let node = match known.members.iter().find(|member| member.node.id == id) {
                Some(member) => member.node.clone(),
                None => self.node(id, name, address)?,
            };
            members.push((node, seen));
        }
        let mut slots: Vec<SlotRange> = Vec::new();
        for (node, seen) in members.iter().filter(|(_, seen)| seen.role == SeenRole::Master) {
            slots.extend(seen.slots.iter().map(|(first, last)| (*first, *last, node.id)));
        }
        slots.sort_unstable();
        let member = |(node, seen): (Node, &Seen)| {
            let role = match &seen.role {
                SeenRole::Master => MemberRole::Master,
                SeenRole::Replica(of) => MemberRole::Replica(named.get(of.as_str()).copied()),
            };
            Member { node, role, failed: seen.failed, epoch: seen.epoch }
        };
        let mut members: Vec<Member> = members.into_iter().map(member).collect();
        members.sort_by_key(|member| member.node.id);
        Ok(Map { version: 0, epoch: view.epoch(), members, slots })
    }

    /// The address that the cluster gives a node, as text, and where to reach it.
    fn address(&self, seen: &Seen, asked: &str) -> (String, (String, u16)) {
        let tls = matches!(self.seeds[0].info.addr(), ConnectionAddr::TcpTls { .. });
        let host = match &seen.hostname {
            // A certificate is for a name rather than an address.
            Some(name) if tls => name,
            _ if seen.ip.is_empty() => asked,
            _ => &seen.ip,
        };
        let name = if host.contains(':') { format!("[{host}]:{}", seen.port) } else { format!("{host}:{}", seen.port) };
        (name, self.kin.hosts.reached(host, seen.port))
    }

    fn node(&self, id: NodeId, name: String, (host, port): (String, u16)) -> RedisResult<Node> {
        let seed = standalone::node(&self.seeds[0], id)?;
        let node = seed.elsewhere(host, port)?;
        Ok(Node { id, space: KeyspaceId::FIRST, name, kin: Some(self.kin.clone()), ..node })
    }
}

async fn view_of(conn: &mut ServerConnection) -> RedisResult<View> {
    Ok(View::parse(&nodes_of(conn).await?))
}

/// What a node says of itself; `None`: it does not name itself.
pub async fn myself(conn: &mut ServerConnection) -> RedisResult<Option<Myself>> {
    Ok(Myself::parse(&nodes_of(conn).await?))
}

async fn nodes_of(conn: &mut ServerConnection) -> RedisResult<String> {
    in_time(PATIENCE, redis::cmd("CLUSTER").arg("NODES").query_async(conn)).await
}

impl Node {
    /// It is one of several that serve one keyspace, and the map says which of them owns a key.
    pub fn is_in_cluster(&self) -> bool {
        self.kin.is_some()
    }

    /// It answered that a key is elsewhere, or was lost: the map may be outdated.
    pub fn doubts_map(&self) {
        if let Some(kin) = &self.kin {
            kin.stale.notify_one();
        }
    }

    /// The node of the same cluster at the address that an ASK names; an empty host is this one's.
    pub fn sibling(&self, address: &str) -> RedisResult<Node> {
        let unreadable = || std::io::Error::other("a redirect without an address");
        let (host, port) = address.rsplit_once(':').ok_or_else(unreadable)?;
        let port = port.parse().map_err(|_| unreadable())?;
        let host = if host.is_empty() { self.host() } else { host.to_string() };
        let (host, port) = match &self.kin {
            Some(kin) => kin.hosts.reached(&host, port),
            None => (host, port),
        };
        self.elsewhere(host, port)
    }

    fn host(&self) -> String {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
            _ => "127.0.0.1".into(),
        }
    }

    /// The same server without a choice of its database, which a sentinel does not have.
    pub fn without_database(&self) -> RedisResult<Node> {
        let info = self.client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_db(0);
        let client = standalone::client(info.set_redis_settings(settings), self.tls.as_ref())?;
        Ok(Node { client, db: 0, ..self.clone() })
    }

    /// The same login and certificates at another address.
    pub(super) fn elsewhere(&self, host: String, port: u16) -> RedisResult<Node> {
        let info = self.client.get_connection_info().clone();
        let addr = match info.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let client = standalone::client(info.set_addr(addr), self.tls.as_ref())?;
        Ok(Node { client, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    /// Draws one map after the other, as a node of the cluster sees it.
    fn maps(views: &[&str]) -> Vec<Map> {
        let info = "redis://127.0.0.1:1".into_connection_info().unwrap();
        let seeds = vec![Endpoint { shown: "a cluster".into(), info, tls: None }];
        let kin = Arc::new(Kin::new(HostMap::default()));
        let (map, asker) = (watch::Sender::new(Arc::default()), Mutex::default());
        let cluster = Cluster { seeds, kin, map, asker };
        let (mut ids, mut drawn) = (HashMap::new(), vec![Map::default()]);
        for view in views {
            let map = cluster.draw(&View::parse(view), "127.0.0.1", drawn.last().unwrap(), &mut ids).unwrap();
            drawn.push(map);
        }
        drawn.split_off(1)
    }

    fn told(map: &Map, before: &Map) -> Vec<(String, String, u16)> {
        map.failovers(before).into_iter().map(|failover| (failover.names.0, failover.names.1, failover.slots)).collect()
    }

    #[test]
    fn a_replica_that_took_over_is_told_though_its_old_master_has_not_said_so_yet() {
        let [before, between, after] = &maps(&[
            "a 127.0.0.1:1@11 master - 0 0 1 connected 0-99\nb 127.0.0.1:2@12 slave a 0 0 1 connected\n",
            "a 127.0.0.1:1@11 master - 0 0 1 connected\nb 127.0.0.1:2@12 master - 0 0 2 connected 0-99\n",
            "a 127.0.0.1:1@11 slave b 0 0 2 connected\nb 127.0.0.1:2@12 master - 0 0 2 connected 0-99\n",
        ])[..] else {
            panic!()
        };
        assert_eq!(told(between, before), [("127.0.0.1:1".to_string(), "127.0.0.1:2".to_string(), 100)]);
        assert_eq!(told(after, between), [], "only once");
        assert_eq!(told(after, before).len(), 1, "also where nobody looked in between");
    }

    #[test]
    fn slots_that_another_master_gets_are_no_failover() {
        let [before, after] = &maps(&[
            "a 127.0.0.1:1@11 master - 0 0 1 connected 0-99\nb 127.0.0.1:2@12 master - 0 0 2 connected 100-199\n",
            "a 127.0.0.1:1@11 master - 0 0 1 connected\nb 127.0.0.1:2@12 master - 0 0 3 connected 0-199\n",
        ])[..] else {
            panic!()
        };
        assert_eq!(told(after, before), []);
    }
}
