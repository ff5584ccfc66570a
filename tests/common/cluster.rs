//! A cluster that belongs to one test: masters with a replica each, and a simple client that goes where it is sent.
//!
//! The nodes keep their directories until the end, because a node without its directory exits at the next change of its
//! configuration.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use lockscope::lock::slot_of;
use redis::{Client, Cmd, Connection, RedisError, RedisResult, Value};

use super::bus::Bus;
use super::program::{events, has, version};
use super::server::{BUS, Server, field, free_port};
use super::tls::Certificates;
use super::wait_until;

const PATIENCE: Duration = Duration::from_secs(30);
/// How long a node may be silent before the others give it up.
const NODE_TIMEOUT: &str = "700";

pub struct Cluster {
    /// The masters as they were at the start, then a replica of each in the same order.
    pub nodes: Vec<Server>,
    masters: usize,
    /// The port of each node's bus, by its own port.
    buses: HashMap<u16, u16>,
    /// By which they talk, where a test may cut it.
    bus: Option<Bus>,
    /// What a node is started with.
    arguments: Vec<String>,
    certificates: Option<Certificates>,
}

impl Cluster {
    /// Masters that share the slots evenly, each with a replica that is synced.
    pub fn start(masters: usize) -> Option<Cluster> {
        Cluster::with(masters, &[])
    }

    /// The same with more arguments of the nodes.
    pub fn with(masters: usize, arguments: &[&str]) -> Option<Cluster> {
        Cluster::form(masters, 2 * masters, NODE_TIMEOUT, arguments, None, None)
    }

    /// The same, where single nodes can be cut off from the others. They wait long for each other, so that one that is cut
    /// off serves its clients for as long. `None`, counted as left out, where the server can't be told its bus port.
    pub fn start_on_bus(masters: usize) -> Option<Cluster> {
        if !has((7, 0), "choice of the cluster's bus port") {
            return None;
        }
        Cluster::form(masters, 2 * masters, "15000", &[], None, Some(Bus::default()))
    }

    /// This node and the others do not hear from each other any more; clients reach all of them.
    pub fn cut_off(&self, index: usize) {
        self.bus.as_ref().expect("a cluster on a bus").cut(index as u8 + 1);
    }

    pub fn heal(&self) {
        self.bus.as_ref().expect("a cluster on a bus").heal();
    }

    /// Masters alone, which wait long for each other: many of them ask little of the machine.
    pub fn masters(masters: usize) -> Option<Cluster> {
        Cluster::masters_with(masters, &[])
    }

    /// The same with more arguments of the nodes.
    pub fn masters_with(masters: usize, arguments: &[&str]) -> Option<Cluster> {
        Cluster::form(masters, masters, "15000", arguments, None, None)
    }

    /// Masters alone with TLS only; `None`, counted as left out, if the server was built without TLS.
    pub fn with_tls(masters: usize, arguments: &[&str]) -> Option<Cluster> {
        Server::with_tls(&[])?;
        let arguments = [&["--tls-cluster", "yes"], arguments].concat();
        Cluster::form(masters, masters, "15000", &arguments, Some(Certificates::generate()), None)
    }

    fn form(
        masters: usize,
        all: usize,
        node_timeout: &str,
        arguments: &[&str],
        certificates: Option<Certificates>,
        bus: Option<Bus>,
    ) -> Option<Cluster> {
        let usual = ["--cluster-enabled", "yes", "--cluster-node-timeout", node_timeout];
        let rest = ["--repl-diskless-sync-delay", "0", "--notify-keyspace-events", events()];
        let arguments = [&usual[..], &rest, arguments].concat().into_iter().map(String::from).collect();
        let mut cluster = Cluster { nodes: Vec::new(), masters, buses: HashMap::new(), bus, arguments, certificates };
        for _ in 0..all {
            cluster.start_node();
        }
        let share = 16_384 / masters + 1;
        for (index, node) in cluster.nodes.iter().enumerate() {
            if index < masters {
                let slots = index * share..((index + 1) * share).min(16_384);
                let slots: Vec<String> = slots.map(|slot| slot.to_string()).collect();
                let mut words = vec!["CLUSTER", "ADDSLOTS"];
                words.extend(slots.iter().map(String::as_str));
                node.cli(&words);
            }
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
        }
        for node in &cluster.nodes[1..] {
            cluster.meet(node);
        }
        cluster.wait_for("all to know each other", |info| field(info, "cluster_known_nodes") == Some(&all.to_string()));
        cluster.introduced();
        for index in 0..all - masters {
            let id: String = cluster.nodes[index].ask(&["CLUSTER", "MYID"]);
            cluster.nodes[masters + index].cli(&["CLUSTER", "REPLICATE", &id]);
        }
        cluster.wait_for("the slots to be served", |info| field(info, "cluster_state") == Some("ok"));
        for replica in &cluster.nodes[masters..] {
            wait_until("the replica to be synced", PATIENCE, || {
                field(&replica.ask::<String, _>(&["INFO", "replication"]), "master_link_status") == Some("up")
            });
        }
        Some(cluster)
    }

    fn start_node(&mut self) {
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let stop = self.bus.as_ref().map(Bus::stop);
        let own = stop.as_ref().map_or_else(free_port, |stop| stop.own);
        let text = own.to_string();
        if version() >= (7, 0) {
            arguments.extend(["--cluster-port", &text]);
        }
        let led = stop.as_ref().map(|stop| (stop.announced.to_string(), stop.address.to_string()));
        if let Some((announced, address)) = &led {
            arguments.extend(["--cluster-announce-ip", "127.0.0.1", "--cluster-announce-bus-port", announced]);
            arguments.extend(["--bind-source-addr", address, "--protected-mode", "no"]);
        }
        let node = match &self.certificates {
            Some(certificates) => Server::with_certificates(certificates, &arguments),
            None => Server::with(&arguments),
        };
        let bus = if version() >= (7, 0) { own } else { node.port() + BUS };
        self.buses.insert(node.port(), stop.map_or(bus, |stop| stop.announced));
        self.nodes.push(node);
    }

    /// A new master without slots, which all others know.
    pub fn add(&mut self) -> &Server {
        self.start_node();
        self.meet(self.nodes.last().expect("the new one"));
        let known = self.nodes.len().to_string();
        self.wait_for("the new node to be known", |info| {
            field(info, "cluster_known_nodes") == Some(&known) && field(info, "cluster_state") == Some("ok")
        });
        self.introduced();
        self.nodes.last().expect("the new one")
    }

    /// Waits until all nodes know all names: while two shake hands, one has another name for the other.
    fn introduced(&self) {
        let names: Vec<String> = self.nodes.iter().map(id).collect();
        for node in &self.nodes {
            wait_until("all names to be known", PATIENCE, || {
                let known: String = node.ask(&["CLUSTER", "NODES"]);
                names.iter().all(|name| known.contains(name))
            });
        }
    }

    fn meet(&self, other: &Server) {
        let [port, bus] = [other.port(), self.buses[&other.port()]].map(|port| port.to_string());
        self.nodes[0].cli(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
    }

    fn wait_for(&self, what: &str, done: impl Fn(&str) -> bool) {
        for node in &self.nodes {
            wait_until(what, PATIENCE, || done(&node.ask::<String, _>(&["CLUSTER", "INFO"])));
        }
    }

    pub fn master(&self, index: usize) -> &Server {
        &self.nodes[index]
    }

    pub fn replica_of(&self, index: usize) -> &Server {
        &self.nodes[self.masters + index]
    }

    /// The URL of the whole, by its first two nodes.
    pub fn url(&self) -> String {
        let [first, second] = [0, 1].map(|index| self.nodes[index].url());
        let (scheme, place) = first.split_once("://").expect("a URL");
        let (_, other) = second.split_once("://").expect("a URL");
        format!("{scheme}+cluster://{place},{other}")
    }

    pub fn client(&self) -> ClusterClient {
        ClusterClient::of(self.nodes.iter().map(Server::port).collect())
    }

    /// Every key under `lock:` with its value, as its owner says.
    pub fn truth(&self) -> BTreeMap<String, String> {
        let mut keys: Vec<String> = Vec::new();
        for node in &self.nodes {
            keys.extend(node.try_ask::<Vec<String>, _>(&["KEYS", "lock:*"]).unwrap_or_default());
        }
        let mut client = self.client();
        let value = |key: &String| match client.ask(key, redis::cmd("GET").arg(key)) {
            Value::BulkString(value) => Some((key.clone(), String::from_utf8(value).expect("text"))),
            _ => None,
        };
        keys.iter().filter_map(value).collect()
    }

    /// Replaces the master by its replica, without a loss.
    pub fn fail_over(&self, index: usize) {
        let replica = self.replica_of(index);
        replica.cli(&["CLUSTER", "FAILOVER"]);
        wait_until("the replica to be the master", PATIENCE, || {
            field(&replica.ask::<String, _>(&["INFO", "replication"]), "role") == Some("master")
        });
    }

    /// Makes the replica the master of its master's slots, whatever the others say.
    pub fn take_over(&self, index: usize) {
        let replica = self.replica_of(index);
        replica.cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
        wait_until("the replica to be the master", PATIENCE, || role(replica) == "master");
    }

    /// Begins to move a slot: keys that leave it are asked for at the target.
    pub fn open_slot(&self, slot: u16, from: &Server, to: &Server) {
        let (slot, source, target) = (slot.to_string(), id(from), id(to));
        to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]);
        from.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]);
    }

    /// Moves up to `most` keys of a slot that is open.
    pub fn migrate(&self, slot: u16, from: &Server, to: &Server, most: usize) -> Vec<String> {
        let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &most.to_string()]);
        for key in &keys {
            from.cli(&["MIGRATE", "127.0.0.1", &to.port().to_string(), key, "0", "5000"]);
        }
        keys
    }

    /// The target owns the slot from now on.
    pub fn close_slot(&self, slot: u16, from: &Server, to: &Server) {
        let target = id(to);
        for node in [to, from].into_iter().chain(&self.nodes) {
            let _ = node.try_ask::<Value, _>(&["CLUSTER", "SETSLOT", &slot.to_string(), "NODE", &target]);
        }
    }

    /// Moves a slot as redis-cli does.
    pub fn move_slot(&self, slot: u16, from: &Server, to: &Server) {
        self.open_slot(slot, from, to);
        while !self.migrate(slot, from, to, 10).is_empty() {}
        self.close_slot(slot, from, to);
    }

    /// Begins to move slots with all their keys at once, as new servers can ([`moves_at_once`]).
    pub fn begin_move(&self, slots: &[u16], from: &Server, to: &Server) {
        let words: Vec<String> = slots.iter().flat_map(|slot| [slot.to_string(), slot.to_string()]).collect();
        let slots = words.iter().map(String::as_str);
        let target = id(to);
        let (at, command): (&Server, Vec<&str>) = match from.is_valkey() {
            true => (
                from,
                ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE"].into_iter().chain(slots).chain(["NODE", &target]).collect(),
            ),
            false => (to, ["CLUSTER", "MIGRATION", "IMPORT"].into_iter().chain(slots).collect()),
        };
        at.cli(&command);
    }

    /// The same, until it is done.
    pub fn move_at_once(&self, slots: &[u16], from: &Server, to: &Server) {
        self.begin_move(slots, from, to);
        wait_until("the slots to have moved", PATIENCE, || slots.iter().all(|slot| owns(to, *slot)));
    }

    /// Cancels the moves that were begun and are not over.
    pub fn cancel_moves(&self, from: &Server, to: &Server) {
        match from.is_valkey() {
            true => from.cli(&["CLUSTER", "CANCELSLOTMIGRATIONS"]),
            false => to.cli(&["CLUSTER", "MIGRATION", "CANCEL", "ALL"]),
        };
    }

    /// Waits until every node names the same owner of a key. Slots that move faster than the nodes tell each other of it
    /// have several owners for a while.
    pub fn agree(&self, key: &str) {
        let named = |node: &Server| match node.try_ask::<Value, _>(&["EXISTS", key]) {
            Ok(_) => Some(node.port()),
            Err(error) => error.redirect_node().map(|(address, _)| port_of(address)),
        };
        wait_until("all nodes to name one owner", PATIENCE, || {
            let first = named(&self.nodes[0]);
            first.is_some() && self.nodes.iter().all(|node| named(node) == first)
        });
    }
}

/// Whether slots can be moved at once.
pub fn moves_at_once(node: &Server) -> bool {
    node.version() >= if node.is_valkey() { (9, 0, 0) } else { (8, 4, 0) }
}

/// Whether it says itself that it owns a slot.
pub fn owns(node: &Server, slot: u16) -> bool {
    let nodes: String = node.ask(&["CLUSTER", "NODES"]);
    let own = nodes.lines().find(|line| line.contains("myself,master")).unwrap_or_default();
    own.split(' ').skip(8).filter(|word| !word.starts_with('[')).any(|word| {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let number = |text: &str| text.parse::<u16>().expect("a slot");
        (number(first)..=number(last)).contains(&slot)
    })
}

/// `master` or `slave`.
pub fn role(node: &Server) -> String {
    let info: String = node.ask(&["INFO", "replication"]);
    field(&info, "role").expect("a server that tells its role").to_string()
}

pub fn id(node: &Server) -> String {
    node.ask(&["CLUSTER", "MYID"])
}

/// A client as an application has one: it asks the node that it believes to own the key, and goes where that sends it.
pub struct ClusterClient {
    ports: Vec<u16>,
    at: usize,
    places: HashMap<u16, u16>,
    connections: HashMap<u16, Connection>,
}

impl ClusterClient {
    /// Which knows the nodes at these ports.
    pub fn of(ports: Vec<u16>) -> ClusterClient {
        ClusterClient { ports, at: 0, places: HashMap::new(), connections: HashMap::new() }
    }

    /// The answer of the key's owner; waits while there is none.
    #[track_caller]
    pub fn ask(&mut self, key: &str, command: &Cmd) -> Value {
        self.ask_owner(key, command).0
    }

    /// The same with the port of the owner, also for a key that is on its way and was asked for at the node that it goes to.
    #[track_caller]
    pub fn ask_owner(&mut self, key: &str, command: &Cmd) -> (Value, u16) {
        let (slot, began) = (slot_of(key.as_bytes()), Instant::now());
        loop {
            let port = self.places.get(&slot).copied().unwrap_or(self.ports[self.at % self.ports.len()]);
            let error = match self.send(port, command, false) {
                Ok(answer) => return (answer, port),
                Err(error) => error,
            };
            match (error.code(), error.redirect_node()) {
                (Some("MOVED"), Some((address, _))) => {
                    self.places.insert(slot, port_of(address));
                }
                (Some("ASK"), Some((address, _))) => {
                    if let Ok(answer) = self.send(port_of(address), command, true) {
                        return (answer, port);
                    }
                }
                _ => {
                    // Down, busy or gone: another node knows more in a moment.
                    (self.at, _) = (self.at + 1, self.places.remove(&slot));
                    std::thread::sleep(Duration::from_millis(20));
                }
            }
            assert!(began.elapsed() < PATIENCE, "nobody answers for {key}: {error}");
        }
    }

    fn send(&mut self, port: u16, command: &Cmd, asking: bool) -> RedisResult<Value> {
        let connection = match self.connections.entry(port) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let client = Client::open(format!("redis://127.0.0.1:{port}"))?;
                let connection = client.get_connection_with_timeout(Duration::from_millis(500))?;
                connection.set_read_timeout(Some(Duration::from_secs(2)))?;
                new.insert(connection)
            }
        };
        if asking {
            redis::cmd("ASKING").exec(connection)?;
        }
        let answer = command.query(connection);
        if answer.as_ref().is_err_and(|error: &RedisError| error.code().is_none()) {
            self.connections.remove(&port);
        }
        answer
    }
}

fn port_of(address: &str) -> u16 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a redirect with a port")
}
