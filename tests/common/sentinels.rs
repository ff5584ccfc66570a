//! A Sentinel service that belongs to one test: a master with two replicas, three sentinels that watch them, and a simple
//! client that asks the sentinels for the master.
//!
//! A sentinel rewrites its config, so all keep their directories until the end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::{Client, Cmd, Connection, RedisResult, Value};

use super::program::events;
use super::server::{Server, field};
use super::tls::Certificates;
use super::wait_until;

const PATIENCE: Duration = Duration::from_secs(30);
/// How the service is called.
pub const SERVICE: &str = "main";

pub struct Sentinels {
    /// The master as it was at the start, then its replicas.
    pub servers: Vec<Server>,
    pub sentinels: Vec<Server>,
}

impl Sentinels {
    /// All replicas are synced, and the sentinels know them and each other.
    pub fn start() -> Sentinels {
        Sentinels::with(&[], "")
    }

    /// The same with more arguments of the servers, and more directives of the sentinels.
    pub fn with(arguments: &[&str], directives: &str) -> Sentinels {
        Sentinels::with_replicas(2, arguments, directives)
    }

    /// The same with more replicas: a failover takes one away for ten seconds, until the old master follows the new one.
    pub fn with_replicas(replicas: usize, arguments: &[&str], directives: &str) -> Sentinels {
        Sentinels::form(replicas, None, arguments, directives)
    }

    /// A master, a replica and sentinels with TLS only; `None`, counted as left out, if the server was built without TLS.
    pub fn with_tls(arguments: &[&str], directives: &str) -> Option<Sentinels> {
        Server::with_tls(&[])?;
        let arguments = [&["--tls-replication", "yes"], arguments].concat();
        Some(Sentinels::form(1, Some(Certificates::generate()), &arguments, directives))
    }

    fn form(replicas: usize, certificates: Option<Certificates>, arguments: &[&str], directives: &str) -> Sentinels {
        let usual = ["--repl-diskless-sync-delay", "0", "--notify-keyspace-events", events()];
        let arguments = [&usual[..], arguments].concat();
        let server = || match &certificates {
            Some(certificates) => Server::with_certificates(certificates, &arguments),
            None => Server::with(&arguments),
        };
        let master = server();
        let port = master.port().to_string();
        // By a command: whoever is restarted is a master at first, as one is whose config was not rewritten.
        let servers: Vec<Server> = (0..replicas).map(|_| server()).collect();
        servers.iter().for_each(|replica| drop(replica.cli(&["REPLICAOF", "127.0.0.1", &port])));
        let config = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {port} 2\nsentinel down-after-milliseconds {SERVICE} 500\n\
             sentinel failover-timeout {SERVICE} 5000\n{directives}"
        );
        let sentinels = (0..3).map(|_| Server::sentinel_over(certificates.as_ref(), &config)).collect();
        let service = Sentinels { servers: std::iter::once(master).chain(servers).collect(), sentinels };
        for replica in &service.servers[1..] {
            wait_until("the replica to be synced", PATIENCE, || {
                field(&replica.ask::<String, _>(&["INFO", "replication"]), "master_link_status") == Some("up")
            });
        }
        service.settle();
        service
    }

    /// Waits until every sentinel sees all replicas and the other sentinels well.
    pub fn settle(&self) {
        for sentinel in &self.sentinels {
            wait_until("the sentinel to know all", PATIENCE, || {
                let known: BTreeMap<String, String> = sentinel.ask(&["SENTINEL", "MASTER", SERVICE]);
                let replicas: Vec<BTreeMap<String, String>> = sentinel.ask(&["SENTINEL", "REPLICAS", SERVICE]);
                let well = |replica: &BTreeMap<String, String>| {
                    replica["flags"] == "slave" && replica["master-link-status"] == "ok"
                };
                known["num-other-sentinels"] == "2"
                    && known["flags"] == "master"
                    && replicas.iter().filter(|r| well(r)).count() == self.servers.len() - 1
            });
        }
    }

    /// The URL of the whole, by its first two sentinels.
    pub fn url(&self) -> String {
        let [first, second] = [0, 1].map(|index| self.sentinels[index].url());
        let (scheme, place) = first.split_once("://").expect("a URL");
        let (_, other) = second.split_once("://").expect("a URL");
        format!("{scheme}+sentinel://{place},{other}/{SERVICE}")
    }

    /// The port of the present master, as most of the sentinels say.
    pub fn master_port(&self) -> Option<u16> {
        let mut votes: BTreeMap<u16, usize> = BTreeMap::new();
        for sentinel in &self.sentinels {
            *votes.entry(named_by(&mut sentinel.connection())?).or_default() += 1;
        }
        votes.into_iter().find(|(_, votes)| *votes > 1).map(|(port, _)| port)
    }

    pub fn index_of(&self, port: u16) -> usize {
        self.servers.iter().position(|server| server.port() == port).expect("one of the service")
    }

    /// Waits until most of the sentinels name another master than this one, and it says that it is one.
    pub fn wait_for_another_than(&self, old: usize) -> usize {
        let old = self.servers[old].port();
        let mut new = None;
        wait_until("another master", PATIENCE, || {
            new = self.master_port().filter(|port| *port != old).map(|port| self.index_of(port));
            new.is_some_and(|new| {
                field(&self.servers[new].ask::<String, _>(&["INFO", "replication"]), "role") == Some("master")
            })
        });
        new.expect("it was found")
    }

    /// Replaces the master by hand. Returns the index of the new one.
    pub fn fail_over(&self) -> usize {
        let old = self.index_of(self.master_port().expect("a master"));
        wait_until("the failover to be accepted", PATIENCE, || {
            self.sentinels[0].try_ask::<Value, _>(&["SENTINEL", "FAILOVER", SERVICE]).is_ok()
        });
        self.wait_for_another_than(old)
    }

    pub fn client(&self) -> ServiceClient {
        let sentinels = self.sentinels.iter().map(Server::port).collect();
        ServiceClient { sentinels, connection: None }
    }

    /// Every key under `lock:` with its value, as the present master says.
    pub fn truth(&self) -> BTreeMap<String, String> {
        let mut client = self.client();
        let keys: Vec<String> = redis::from_redis_value(client.ask(redis::cmd("KEYS").arg("lock:*"))).expect("keys");
        let mut value = |key: &String| match client.ask(redis::cmd("GET").arg(key)) {
            Value::BulkString(value) => Some((key.clone(), String::from_utf8(value).expect("text"))),
            _ => None,
        };
        keys.iter().filter_map(&mut value).collect()
    }
}

fn named_by(sentinel: &mut Connection) -> Option<u16> {
    let place: Option<(String, u16)> =
        redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(SERVICE).query(sentinel).ok()?;
    Some(place?.1)
}

fn connected(port: u16) -> RedisResult<Connection> {
    let client = Client::open(format!("redis://127.0.0.1:{port}"))?;
    let connection = client.get_connection_with_timeout(Duration::from_millis(500))?;
    connection.set_read_timeout(Some(Duration::from_secs(1)))?;
    Ok(connection)
}

/// A client as an application has one: it asks the sentinels for the master, and again when that fails.
pub struct ServiceClient {
    sentinels: Vec<u16>,
    connection: Option<Connection>,
}

impl ServiceClient {
    /// The answer of the master; waits while there is none.
    #[track_caller]
    pub fn ask(&mut self, command: &Cmd) -> Value {
        let began = Instant::now();
        loop {
            let answer = self.connection().and_then(|connection| command.query(connection));
            let error = match answer {
                Ok(answer) => return answer,
                Err(error) => error,
            };
            self.connection = None;
            assert!(began.elapsed() < PATIENCE, "no master answers: {error}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The same, at the master that the first sentinel names now: as a client that follows at once.
    #[track_caller]
    pub fn ask_anew(&mut self, command: &Cmd) -> Value {
        let began = Instant::now();
        loop {
            let asked = connected(self.sentinels[0]).and_then(|mut sentinel| {
                let port = named_by(&mut sentinel).ok_or_else(|| std::io::Error::other("no master"))?;
                command.query(&mut connected(port)?)
            });
            match asked {
                Ok(answer) => return answer,
                Err(error) => assert!(began.elapsed() < PATIENCE, "no master answers: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn connection(&mut self) -> RedisResult<&mut Connection> {
        if self.connection.is_none() {
            let named = |port: &u16| named_by(&mut connected(*port).ok()?);
            let mut votes: BTreeMap<u16, usize> = BTreeMap::new();
            self.sentinels.iter().filter_map(named).for_each(|port| *votes.entry(port).or_default() += 1);
            let port = votes.into_iter().find(|(_, votes)| *votes > 1).map(|(port, _)| port);
            let port = port.ok_or_else(|| std::io::Error::other("no majority"))?;
            let mut connection = connected(port)?;
            let role: Vec<Value> = redis::cmd("ROLE").query(&mut connection)?;
            if role.first() != Some(&Value::BulkString(b"master".to_vec())) {
                return Err(std::io::Error::other("no master yet").into());
            }
            self.connection = Some(connection);
        }
        Ok(self.connection.as_mut().expect("it was made"))
    }
}
