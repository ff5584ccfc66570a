//! A cluster or a Sentinel service of the test, and the truth about its locks: what the owner of each key says.

use std::collections::{BTreeMap, BTreeSet};

use redis::Value;

use crate::common::cluster::ClusterClient;
use crate::common::sentinels::SERVICE;
use crate::common::server::field;
use crate::common::{Cluster, Sentinels, Server, wait_until};

use super::load::Way;
use super::watch::PATIENCE;

/// What a lock is at its owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    pub token: Vec<u8>,
    /// The port of its owner.
    pub owner: u16,
}

pub type Truth = BTreeMap<String, Fact>;

/// Several servers that hold one keyspace.
pub trait Place: Send + 'static {
    fn way(&self) -> Way;
    /// The URL that a user gives.
    fn url(&self) -> String;
    fn servers(&mut self) -> &mut Vec<Server>;
    /// Every key with its value, as its owner says; `passed_over` do not answer.
    fn truth(&self, passed_over: &[usize]) -> Truth;
    /// Waits until all agree on who owns what, and every master has its replicas; `passed_over` take no part.
    fn settle(&self, passed_over: &[usize]);
}

/// The servers that are asked.
fn asked<'a>(servers: &'a [Server], passed_over: &'a [usize]) -> impl Iterator<Item = (usize, &'a Server)> {
    servers.iter().enumerate().filter(move |(index, _)| !passed_over.contains(index))
}

/// Which server is a master, and the ports of the replicas that are in sync with it. `None`: it is none, or dead.
pub fn replicas_of(server: &Server) -> Option<Vec<u16>> {
    let role: Vec<Value> = server.try_ask(&["ROLE"]).ok()?;
    let [Value::BulkString(word), _, Value::Array(replicas)] = &role[..] else { return None };
    let port =
        |replica: &Value| redis::from_redis_value::<(String, u16, String)>(replica.clone()).expect("a replica").1;
    (word == b"master").then(|| replicas.iter().map(port).collect())
}

/// Asks the owner of each key found on any of the servers.
fn truth_of(keys: BTreeSet<String>, mut ask: impl FnMut(&str) -> (Value, u16)) -> Truth {
    let fact = |key: String| match ask(&key) {
        (Value::BulkString(token), owner) => Some((key, Fact { token, owner })),
        _ => None,
    };
    keys.into_iter().filter_map(fact).collect()
}

fn keys_on(server: &Server) -> BTreeSet<String> {
    server.try_ask(&["KEYS", "*"]).unwrap_or_default()
}

impl Place for Cluster {
    fn way(&self) -> Way {
        Way::Cluster(self.nodes.iter().map(Server::port).collect())
    }

    fn url(&self) -> String {
        Cluster::url(self)
    }

    fn servers(&mut self) -> &mut Vec<Server> {
        &mut self.nodes
    }

    fn truth(&self, passed_over: &[usize]) -> Truth {
        let nodes = || asked(&self.nodes, passed_over).map(|(_, node)| node);
        let mut client = ClusterClient::of(nodes().map(Server::port).collect());
        truth_of(nodes().flat_map(keys_on).collect(), |key| client.ask_owner(key, redis::cmd("GET").arg(key)))
    }

    fn settle(&self, passed_over: &[usize]) {
        let slots = |node: &Server| -> Option<BTreeSet<String>> {
            let nodes: String = node.try_ask(&["CLUSTER", "NODES"]).ok()?;
            let owned = |line: &str| -> Vec<String> {
                let words: Vec<&str> = line.split(' ').collect();
                // A slot on its way is told by its two nodes alone.
                let slots = words.iter().skip(8).filter(|word| !word.starts_with('['));
                slots.map(|slots| format!("{} {slots}", words[0])).collect()
            };
            let owners = nodes.lines().flat_map(owned).collect();
            let info: String = node.try_ask(&["CLUSTER", "INFO"]).ok()?;
            (field(&info, "cluster_state") == Some("ok")).then_some(owners)
        };
        wait_until("the nodes to agree", PATIENCE, || {
            let mut views = asked(&self.nodes, passed_over).map(|(_, node)| slots(node));
            let first = views.next().flatten();
            first.is_some() && views.all(|view| view == first)
        });
        let waits = |node: &Server| {
            let info: String = node.try_ask(&["INFO", "replication"]).unwrap_or_default();
            field(&info, "role") == Some("slave") && field(&info, "master_link_status") != Some("up")
        };
        wait_until("the replicas to be in sync", PATIENCE, || {
            asked(&self.nodes, passed_over).all(|(_, node)| !waits(node))
        });
    }
}

impl Place for Sentinels {
    fn way(&self) -> Way {
        Way::Service(self.sentinels.iter().map(Server::port).collect(), SERVICE.into())
    }

    fn url(&self) -> String {
        Sentinels::url(self)
    }

    fn servers(&mut self) -> &mut Vec<Server> {
        &mut self.servers
    }

    fn truth(&self, _: &[usize]) -> Truth {
        let owner = self.master_port().expect("the sentinels name a master");
        let master = &self.servers[self.index_of(owner)];
        let mut connection = master.connection();
        truth_of(keys_on(master), |key| {
            (redis::cmd("GET").arg(key).query(&mut connection).expect("an answer of the master"), owner)
        })
    }

    fn settle(&self, passed_over: &[usize]) {
        // Those that have heard of their new master; one that has not is a master still, until the sentinels see to it.
        let waits = |server: &Server| {
            let info: String = server.try_ask(&["INFO", "replication"]).unwrap_or_default();
            field(&info, "role") == Some("slave") && field(&info, "master_link_status") != Some("up")
        };
        wait_until("the replicas to be in sync", PATIENCE, || {
            self.master_port().is_some() && asked(&self.servers, passed_over).all(|(_, server)| !waits(server))
        });
    }
}
