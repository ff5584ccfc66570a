//! One Sentinel service: finds its present master through the sentinels that watch it, and keeps the map of it.
//!
//! The service is one keyspace, and its master owns all of it. One task ([`Service::keep`]) asks all sentinels every
//! second, and at once when one of them tells of a new master or a connection was lost. Sentinels decide, and never the
//! servers: a master that was replaced answers as a master for ten seconds more. A new one is believed once it says itself
//! that it is a master.

mod council;
mod panel;
mod trouble;
mod view;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use redis::{RedisResult, Value};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;

use super::cluster::Kin;
use super::{Endpoint, HostMap, Map, Member, MemberRole, Node, ServerConnection, in_time, standalone};
use crate::base::text::visible;
use crate::lock::{KeyspaceId, NodeId, SLOTS};
use panel::Panel;
use view::{Choice, Place};

pub use council::Council;
pub use trouble::Trouble;

/// How often the sentinels are asked without a reason.
const EVERY: Duration = Duration::from_secs(1);
/// The least time between two rounds.
const PAUSE: Duration = Duration::from_millis(50);
/// A sentinel or server that takes longer than this is passed over for now.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the start waits for a failover that is under way.
const SETTLING: Duration = Duration::from_secs(10);
/// How often a write asks for the master before it gives up.
const ATTEMPTS: usize = 3;
/// What sentinels publish when there is a new master: the one that made it, and those that follow.
const CHANNELS: [&str; 2] = ["+promoted-slave", "+switch-master"];

pub struct Service {
    pub name: String,
    /// A server of the service; the others differ in their address alone.
    server: Node,
    kin: Arc<Kin>,
    map: watch::Sender<Arc<Map>>,
    panel: Mutex<Panel>,
    council: watch::Sender<Council>,
}

impl Service {
    /// A master that was named longer ago than this has to be named again before a write.
    pub const FRESH: Duration = EVERY;

    /// Learns the present master from the sentinels. `server`: how to log in to it, at whatever address.
    pub async fn open(
        name: &str,
        sentinels: &[Endpoint],
        server: &Endpoint,
        hosts: HostMap,
    ) -> Result<Service, Trouble> {
        let silent = |error| Trouble::Silent(vec![(server.shown.clone(), error)]);
        let kin = Arc::new(Kin::new(hosts));
        let panel = Mutex::new(Panel::of(sentinels, kin.clone()).map_err(silent)?);
        let server = Node {
            space: KeyspaceId::FIRST,
            kin: Some(kin.clone()),
            ..standalone::node(server, NodeId::default()).map_err(silent)?
        };
        let (map, council) = (watch::Sender::new(Arc::default()), watch::Sender::default());
        let service = Service { name: name.to_string(), server, kin, map, panel, council };
        let began = Instant::now();
        loop {
            match service.refresh().await {
                Err(Trouble::NotYet { .. }) if began.elapsed() < SETTLING => tokio::time::sleep(PAUSE).await,
                done => return done.map(|()| service),
            }
        }
    }

    pub fn map(&self) -> Arc<Map> {
        self.map.borrow().clone()
    }

    /// Its sentinels, as they were last asked.
    pub fn council(&self) -> Council {
        self.council.borrow().clone()
    }

    /// Every new map from now on.
    pub fn changes(&self) -> watch::Receiver<Arc<Map>> {
        self.map.subscribe()
    }

    /// Keeps the map current for as long as it is polled.
    pub async fn keep(&self) {
        let (mut ears, mut heard) = (JoinSet::new(), HashSet::new());
        loop {
            for (name, node) in self.panel.lock().await.sentinels() {
                if heard.insert(name) {
                    ears.spawn(listen(node, self.kin.clone()));
                }
            }
            while let Some(ended) = ears.try_join_next() {
                if let Err(failed) = ended
                    && failed.is_panic()
                {
                    std::panic::resume_unwind(failed.into_panic());
                }
            }
            let _ = tokio::time::timeout(EVERY, self.kin.stale.notified()).await;
            // With nobody to ask, or no agreement, the map stays as it is.
            if let Err(Trouble::NotYet { .. }) = self.refresh().await {
                // It is about to be the master.
                self.kin.stale.notify_one();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asks all sentinels who the master is now.
    pub async fn refresh(&self) -> Result<(), Trouble> {
        let mut panel = self.panel.lock().await;
        let asked = panel.ask(&self.name).await;
        let council = panel.council(&self.name);
        self.council.send_if_modified(|known| std::mem::replace(known, council.clone()) != council);
        let choice = asked?;
        let map = self.map();
        let name = named(&choice.master);
        let is_known = map.masters().next().is_some_and(|master| master.name == name);
        if !is_known {
            let node = self.node(NodeId::default(), &choice.master).map_err(|error| unreached(&name, error))?;
            match is_master(&node).await {
                Ok(true) => {}
                Ok(false) => return Err(Trouble::NotYet { master: name }),
                // Most of the sentinels have left the old one: what it says does not count any more.
                Err(_) if !map.members.is_empty() && choice.is_of_majority() => {}
                Err(error) => return Err(unreached(&name, error)),
            }
        }
        let drawn = self.draw(&choice, &map, &mut panel.ids).map_err(|error| unreached(&name, error))?;
        self.map.send_if_modified(|current| {
            let differs = drawn.differs(current);
            let version = current.version + u64::from(differs);
            *current = Arc::new(Map { version, ..drawn });
            differs
        });
        Ok(())
    }

    /// The master to write to: most of the sentinels have named it within the last second. A master that was replaced takes
    /// writes for ten seconds more, and forgets them.
    pub async fn owner(&self) -> RedisResult<Node> {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            if let Some(master) = self.agreed().await {
                return Ok(master);
            }
            if let Err(trouble) = self.refresh().await {
                why = trouble.fault("the service", &self.name).to_string();
            }
        }
        if why.is_empty() {
            let name = visible(self.name.as_bytes());
            why = match self.panel.lock().await.said.as_ref().map(|(choice, _)| choice) {
                Some(choice) if !choice.is_of_majority() => format!(
                    "{} of the {} sentinels of {name} answered with its master, and a write needs most of them; start those \
                     that are silent",
                    choice.votes, choice.sentinels
                ),
                _ => format!("the master of {name} is changing; try again when it has settled"),
            };
        }
        Err(std::io::Error::other(why).into())
    }

    async fn agreed(&self) -> Option<Node> {
        let panel = self.panel.lock().await;
        let (choice, asked) = panel.said.as_ref()?;
        let master = self.map().masters().next()?.clone();
        let is_named = choice.is_of_majority() && asked.elapsed() < Self::FRESH && master.name == named(&choice.master);
        is_named.then_some(master)
    }

    /// The map with this master. Known nodes stay as they are: making one reads its certificates.
    fn draw(&self, choice: &Choice, known: &Map, ids: &mut HashMap<String, NodeId>) -> RedisResult<Map> {
        let mut id_of = |place: &Place| {
            let next = NodeId(u16::try_from(ids.len()).unwrap_or(u16::MAX));
            *ids.entry(named(place)).or_insert(next)
        };
        let master = id_of(&choice.master);
        let mut members = Vec::with_capacity(choice.replicas.len() + 1);
        for place in std::iter::once(&choice.master).chain(&choice.replicas) {
            let id = id_of(place);
            let node = match known.members.iter().find(|member| member.node.id == id) {
                Some(member) => member.node.clone(),
                None => self.node(id, place)?,
            };
            let role = if id == master { MemberRole::Master } else { MemberRole::Replica(Some(master)) };
            members.push(Member { node, role, failed: false, epoch: choice.epoch });
        }
        members.sort_by_key(|member| member.node.id);
        Ok(Map { version: 0, epoch: choice.epoch, members, slots: vec![(0, SLOTS - 1, master)] })
    }

    fn node(&self, id: NodeId, place: &Place) -> RedisResult<Node> {
        let (host, port) = self.kin.hosts.reached(&place.0, place.1);
        Ok(Node { id, name: named(place), ..self.server.elsewhere(host, port)? })
    }
}

fn unreached(master: &str, error: redis::RedisError) -> Trouble {
    Trouble::Unreached { master: master.to_string(), error }
}

/// An address as text.
fn named((host, port): &Place) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

async fn is_master(node: &Node) -> RedisResult<bool> {
    let mut conn = in_time(PATIENCE, node.connect()).await?;
    in_time(PATIENCE, says_master(&mut conn)).await
}

/// Whether the server at the other end says that it is a master. Who may not ask for its role may read INFO.
pub async fn says_master(conn: &mut ServerConnection) -> RedisResult<bool> {
    match redis::cmd("ROLE").query_async::<Vec<Value>>(conn).await {
        Ok(role) => Ok(matches!(role.first(), Some(Value::BulkString(word)) if word == b"master")),
        Err(error) if error.code() == Some("NOPERM") => {
            let info: String = redis::cmd("INFO").arg("replication").query_async(conn).await?;
            Ok(info.lines().any(|line| line == "role:master"))
        }
        Err(error) => Err(error),
    }
}

/// Waits for what a sentinel publishes about masters, for as long as it is polled.
async fn listen(sentinel: Node, kin: Arc<Kin>) {
    loop {
        if let Ok(mut subscriber) = sentinel.subscriber().await
            && subscriber.subscribe(&CHANNELS[..]).await.is_ok()
        {
            // There may be a new one since it was asked.
            kin.stale.notify_one();
            let mut messages = subscriber.on_message();
            while messages.next().await.is_some() {
                kin.stale.notify_one();
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}
