//! A private Sentinel service: a master, two replicas, and three sentinels that watch them.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, RedisResult, cmd};

use super::DemoError;
use super::acts::{Act, unfinished};
use super::fleet::Dice;
use super::server::{Home, Kind, NoServer, PrivateServer, program};
use crate::base::text;
use crate::topology::{Endpoint, HostMap, Topology};

/// What the sentinels call the master.
pub const SERVICE: &str = "demo";
/// How long the servers may take to know each other. On an idle machine they do within 3 s.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a failover may take; a second is usual.
const FAILOVER: Duration = Duration::from_secs(15);

pub struct PrivateService {
    /// The master as it was at the start, then its replicas.
    servers: Vec<PrivateServer>,
    sentinels: Vec<PrivateServer>,
    /// Dropped after the servers, which write there.
    _home: Home,
}

impl PrivateService {
    /// Starts all of them, and waits until the replicas are synced and the sentinels know everybody.
    pub async fn start(named: Option<&Path>) -> Result<PrivateService, NoServer> {
        let program = program(named)?;
        let failed = |why: String| NoServer::Failed { program: program.clone(), why };
        let home = Home::make().map_err(|why| failed(why.to_string()))?;
        let servers = try_join_all((0..3).map(|_| PrivateServer::start_as(Kind::Replicated(&home), &program))).await?;
        // A sentinel asks for replicas when it starts, and then only every ten seconds.
        formed(replicated(&servers)).await.map_err(failed)?;
        // Five seconds: on a busy machine a healthy server may be silent for one.
        let directives = format!(
            "sentinel monitor {SERVICE} 127.0.0.1 {} 2\nsentinel down-after-milliseconds {SERVICE} 5000\n\
             sentinel failover-timeout {SERVICE} 20000\n",
            servers[0].port()
        );
        let sentinel = || PrivateServer::start_as(Kind::Sentinel(&home, &directives), &program);
        let sentinels = try_join_all((0..3).map(|_| sentinel())).await?;
        formed(acquainted(&sentinels)).await.map_err(failed)?;
        Ok(PrivateService { servers, sentinels, _home: home })
    }

    /// By one sentinel, which names the others.
    pub fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/{SERVICE}", self.sentinels[0].port())
    }

    pub async fn topology(&self) -> Result<Topology, DemoError> {
        let sentinels: Vec<Endpoint> = self.sentinels.iter().map(PrivateServer::endpoint).collect();
        let opened = Topology::of_service(SERVICE, &sentinels, &self.servers[0].endpoint(), HostMap::default()).await;
        opened.map_err(|trouble| DemoError::Service(trouble.fault(&self.url(), SERVICE).to_string()))
    }

    /// The ports of the sentinels.
    pub fn sentinels(&self) -> Vec<u16> {
        self.sentinels.iter().map(PrivateServer::port).collect()
    }
}

/// Waits for the servers, but not for ever. An error says what is wrong with them.
async fn formed(forming: impl Future<Output = RedisResult<()>>) -> Result<(), String> {
    match tokio::time::timeout(PATIENCE, forming).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("its servers do not form a service: {}", text::said(&error))),
        Err(_) => Err(format!("its servers did not form a service in {PATIENCE:?}")),
    }
}

/// Makes all but the first replicas of it, and waits until they are synced.
async fn replicated(servers: &[PrivateServer]) -> RedisResult<()> {
    let mut lines = try_join_all(servers[1..].iter().map(PrivateServer::connect)).await?;
    for line in &mut lines {
        replicate(servers[0].port()).exec_async(line).await?;
    }
    for line in &mut lines {
        while field(&replication(line).await?, "master_link_status") != Some("up") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Waits until each sentinel knows everybody.
async fn acquainted(sentinels: &[PrivateServer]) -> RedisResult<()> {
    for sentinel in sentinels {
        let mut line = sentinel.connect().await?;
        while !knows_all(&mut line).await? {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    Ok(())
}

/// Two replicas and two other sentinels.
async fn knows_all(line: &mut MultiplexedConnection) -> RedisResult<bool> {
    let mut ask = cmd("SENTINEL");
    let master: Vec<String> = ask.arg("MASTER").arg(SERVICE).query_async(line).await?;
    let says = |name: &str| master.chunks(2).any(|pair| pair[0] == name && pair.get(1).is_some_and(|n| n == "2"));
    Ok(says("num-slaves") && says("num-other-sentinels"))
}

fn replicate(port: u16) -> Cmd {
    let mut command = cmd("REPLICAOF");
    command.arg("127.0.0.1").arg(port);
    command
}

async fn replication(line: &mut MultiplexedConnection) -> RedisResult<String> {
    cmd("INFO").arg("replication").query_async(line).await
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The port of the master that a sentinel names.
pub async fn master_by(sentinel: u16) -> RedisResult<u16> {
    let mut line = line_to(sentinel).await?;
    let mut ask = cmd("SENTINEL");
    let (_, port): (String, u16) = ask.arg("GET-MASTER-ADDR-BY-NAME").arg(SERVICE).query_async(&mut line).await?;
    Ok(port)
}

async fn line_to(port: u16) -> RedisResult<MultiplexedConnection> {
    Client::open(format!("redis://127.0.0.1:{port}"))?.get_multiplexed_async_connection().await
}

/// What is done to the service while it is watched.
pub struct Hand {
    sentinels: Vec<u16>,
}

impl Hand {
    pub fn on(service: &PrivateService) -> Hand {
        Hand { sentinels: service.sentinels() }
    }

    /// A planned failover without a loss: writes wait at the old master until it is a replica of the new one. By itself it
    /// would go on taking locks for ten seconds, and then lose them.
    pub async fn fail_over(&self, dice: &mut Dice) -> RedisResult<Act> {
        let sentinel = *dice.pick(&self.sentinels);
        let old = master_by(sentinel).await?;
        let mut master = line_to(old).await?;
        let wait = FAILOVER.as_millis() as u64;
        cmd("CLIENT").arg("PAUSE").arg(wait).arg("WRITE").exec_async(&mut master).await?;
        let switched = match tokio::time::timeout(FAILOVER, self.switch(sentinel, old, &mut master)).await {
            Ok(switched) => switched,
            Err(_) => Err(unfinished("the sentinels did not finish it in time")),
        };
        if let Ok(new) = switched {
            replicate(new).exec_async(&mut master).await?;
        }
        cmd("CLIENT").arg("UNPAUSE").exec_async(&mut master).await?;
        let name = |port| format!("127.0.0.1:{port}");
        Ok(Act::FailedOver { from: name(old), to: name(switched?) })
    }

    /// Waits until a replica has everything, has it promoted, and returns its port.
    async fn switch(&self, sentinel: u16, old: u16, master: &mut MultiplexedConnection) -> RedisResult<u16> {
        let began = Instant::now();
        loop {
            let info = replication(master).await?;
            let offset = field(&info, "master_repl_offset").unwrap_or_default().to_string();
            let synced = |name| field(&info, name).is_some_and(|said| said.contains(&format!("offset={offset},")));
            // The master's own pings to its replicas go on, so both may never be equal at one moment.
            if synced("slave0") && synced("slave1") || began.elapsed() > Duration::from_secs(1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut line = line_to(sentinel).await?;
        cmd("SENTINEL").arg("FAILOVER").arg(SERVICE).exec_async(&mut line).await?;
        loop {
            let new = master_by(sentinel).await?;
            if new != old && field(&replication(&mut line_to(new).await?).await?, "role") == Some("master") {
                return Ok(new);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
