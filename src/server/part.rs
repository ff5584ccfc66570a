//! A server that shows only a part of the locks, or an old copy of them: a cluster node, a replica, a sentinel.
//!
//! A cluster and the service of a sentinel are read as a whole unless `--single-node` was given. Where only a part is read,
//! every reader says what it can't see here, and writes are sent to the master by its address.

use redis::Value;
use redis::aio::ConnectionLike;

use super::{InfoText, Mode, Role, ServerFacts, read};
use crate::base::server_text::ServerText;

/// Why the locks of one server are not all there is, or not the latest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    ClusterNode,
    /// With the address of its master. In a cluster, reads are answered with MOVED.
    Replica {
        master: ServerText,
        in_cluster: bool,
    },
    /// With the services that it watches, where they are known.
    Sentinel {
        services: Vec<Watched>,
    },
}

/// A service that a sentinel watches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watched {
    pub name: ServerText,
    pub master: ServerText,
}

impl Part {
    fn new(mode: Option<Mode>, role: Option<&Role>) -> Option<Part> {
        let in_cluster = mode == Some(Mode::Cluster);
        match role {
            Some(Role::Sentinel) => Some(Part::Sentinel { services: Vec::new() }),
            Some(Role::Replica(upstream)) => Some(Part::Replica { master: upstream.master.clone(), in_cluster }),
            _ if mode == Some(Mode::Sentinel) => Some(Part::Sentinel { services: Vec::new() }),
            _ => in_cluster.then_some(Part::ClusterNode),
        }
    }

    /// What kind of server this is. `None`: a server on its own, or one that does not let us ask.
    pub async fn ask(conn: &mut impl ConnectionLike) -> Option<Part> {
        let info: String = redis::cmd("INFO").query_async(conn).await.ok()?;
        let info = InfoText::parse(&info);
        let part = Part::new(Mode::from_info(&info), Role::from_info(&info).as_ref())?;
        if !matches!(part, Part::Sentinel { .. }) {
            return Some(part);
        }
        let masters = redis::cmd("SENTINEL").arg("MASTERS").query_async(conn).await.and_then(read::<Vec<Value>>);
        Some(Part::Sentinel { services: masters.unwrap_or_default().into_iter().filter_map(watched).collect() })
    }

    /// The rest of the keyspace is at other nodes of its cluster.
    pub fn is_of_cluster(&self) -> bool {
        matches!(self, Part::ClusterNode | Part::Replica { in_cluster: true, .. })
    }

    /// Its keys can't be read here, whatever the user may do.
    pub fn is_closed(&self) -> bool {
        matches!(self, Part::Replica { in_cluster: true, .. })
    }

    /// Two or three words for the header.
    pub fn name(&self) -> &'static str {
        match self {
            Part::ClusterNode => "one node of a cluster",
            Part::Replica { .. } => "replica",
            Part::Sentinel { .. } => "sentinel",
        }
    }

    /// What is missing here, and where it is.
    pub fn sentence(&self) -> String {
        match self {
            Part::ClusterNode => "this is one node of a cluster: the locks of its other nodes are not here \
                 (without --single-node all masters are read)"
                .into(),
            Part::Replica { master, in_cluster: true } => format!(
                "this is a replica in a cluster, which does not let its keys be read; look at its master {}",
                master.visible()
            ),
            Part::Replica { master, in_cluster: false } => format!(
                "this is a replica of {}: a lock is seen only once it is replicated, so some may be missing or old",
                master.visible()
            ),
            Part::Sentinel { services } => {
                let named: Vec<String> = services.iter().map(|service| service.master.visible()).collect();
                match named.as_slice() {
                    [] => "this is a sentinel, which holds no locks; connect to the master that it watches".into(),
                    named => format!(
                        "this is a sentinel, which holds no locks; connect to the master that it watches: {}",
                        named.join(", ")
                    ),
                }
            }
        }
    }

    /// Why nothing is written here; a cluster node takes writes of its own keys.
    pub fn refuses_writes(&self) -> Option<String> {
        match self {
            Part::ClusterNode => None,
            Part::Replica { master, .. } => {
                Some(format!("this is a replica; connect to its master {} to write", master.visible()))
            }
            Part::Sentinel { .. } => Some(self.sentence()),
        }
    }
}

impl ServerFacts {
    /// What only a part is seen of, as far as it is known.
    pub fn part(&self) -> Option<Part> {
        Part::new(self.mode.known().copied(), self.role.known())
    }
}

/// One entry of SENTINEL MASTERS, which is a flat list of names and values, or a map.
fn watched(entry: Value) -> Option<Watched> {
    let fields: std::collections::HashMap<String, String> = read(entry).ok()?;
    let master = format!("{}:{}", fields.get("ip")?, fields.get("port")?).into();
    Some(Watched { name: fields.get("name")?.clone().into(), master })
}
