//! A real private server for the demo: on a loopback port, without persistence, and it ends with us.
//!
//! It is killed when the value is dropped; on Linux the kernel also kills it when this process ends in any other way.
//! Nothing is left on disk: the working directory of a server on its own is removed as soon as it runs in it, that of
//! others with their [`Home`], and the log is a file without a name.

mod find;
mod home;
mod process;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Client, IntoConnectionInfo, RedisResult};

pub(super) use find::program;
pub(super) use home::Home;

use crate::base::text;
use crate::topology::Endpoint;

/// How long a server may take to answer. It is ready within 40 ms on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many free ports to try: another process may take one before our server does.
const ATTEMPTS: usize = 20;
/// A node of a cluster listens for other nodes at a port this much higher.
const BUS: u16 = 10_000;
/// List each class by its letter: with `A`, CONFIG GET does not show `n` (new keys).
const EVENTS: &str = "Kg$lshzxen";
/// For servers before 7.0, which do not know `n`.
const EVENTS_BEFORE_NEW: &str = "Kg$lshzxe";

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum NoServer {
    #[error(
        "there is no redis-server or valkey-server on the PATH; install one (apt install redis-server, dnf install \
         valkey, brew install valkey), or say where one is with --server PATH"
    )]
    NotFound,
    #[error("--server names {}, and that is not a program", .0.display())]
    NotAProgram(PathBuf),
    #[error("{} does not start: {why}", .program.display())]
    Failed { program: PathBuf, why: String },
}

/// What a server is started as.
#[derive(Clone, Copy)]
pub enum Kind<'a> {
    Alone,
    /// A node of a cluster.
    Node(&'a Home),
    /// A master or replica that sentinels watch.
    Replicated(&'a Home),
    /// A sentinel with these directives.
    Sentinel(&'a Home, &'a str),
}

/// A server that we own.
pub struct PrivateServer {
    child: Child,
    port: u16,
    log: File,
}

/// Why one attempt failed.
enum Miss {
    PortTaken,
    Failed(String),
}

impl From<io::Error> for Miss {
    fn from(why: io::Error) -> Miss {
        Miss::Failed(why.to_string())
    }
}

impl PrivateServer {
    /// Starts the program given, or the first server found on the PATH, and waits until it answers. Keyspace
    /// notifications are on.
    pub async fn start(program: Option<&Path>) -> Result<PrivateServer, NoServer> {
        PrivateServer::start_as(Kind::Alone, &find::program(program)?).await
    }

    /// The same as a part of something larger.
    pub async fn start_as(kind: Kind<'_>, program: &Path) -> Result<PrivateServer, NoServer> {
        let program = program.to_path_buf();
        for _ in 0..ATTEMPTS {
            match PrivateServer::attempt(kind, &program).await {
                Ok(server) => return Ok(server),
                Err(Miss::PortTaken) => {}
                Err(Miss::Failed(why)) => return Err(NoServer::Failed { program, why }),
            }
        }
        Err(NoServer::Failed { program, why: format!("{ATTEMPTS} free ports were all taken by others") })
    }

    async fn attempt(kind: Kind<'_>, program: &Path) -> Result<PrivateServer, Miss> {
        let port = free_port(kind)?;
        let log = tempfile::tempfile()?;
        let (room, passing) = match kind.home() {
            Some(home) => (home.room(&port.to_string())?, None),
            None => {
                let directory = tempfile::Builder::new().prefix("lockscope-demo-").tempdir()?;
                (directory.path().to_path_buf(), Some(directory))
            }
        };
        let mut command = Command::new(program);
        command.current_dir(&room).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
        command.args(kind.arguments(port, &room)?);
        // The user's settings are not meant for it.
        command
            .env_remove("LOCKSCOPE_PASSWORD")
            .env_remove("LOCKSCOPE_SENTINEL_PASSWORD")
            .env_remove("LOCKSCOPE_URL")
            .env_remove("REDIS_URL");
        let child = process::spawn(command)?;
        let mut server = PrivateServer { child, port, log };
        // It runs in the directory and does not need its name. Remove it now, so that nothing is left however we end.
        passing.map_or(Ok(()), tempfile::TempDir::close)?;
        server.ready(kind).await?;
        Ok(server)
    }

    /// Waits until the server answers, checks that it is ours, and turns the events on.
    async fn ready(&mut self, kind: Kind<'_>) -> Result<(), Miss> {
        let began = Instant::now();
        loop {
            if self.child.try_wait()?.is_some() {
                let log = self.log();
                let taken = log.contains("Address already in use");
                return Err(if taken { Miss::PortTaken } else { Miss::Failed(last_lines(&log)) });
            }
            match self.greet(kind).await {
                Ok(pid) if pid == self.pid() => return Ok(()),
                // Another process took the port and answers; ours will fail to bind.
                Ok(_) => {}
                Err(error) if began.elapsed() > PATIENCE => {
                    return Err(Miss::Failed(format!("no answer in {PATIENCE:?}: {}", text::said(&error))));
                }
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Turns the events on if the server is ours. Returns the server's process id.
    async fn greet(&self, kind: Kind<'_>) -> RedisResult<u32> {
        let mut conn = self.connect().await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut conn).await?;
        let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok()).unwrap_or(0);
        let has_keys = !matches!(kind, Kind::Sentinel(..));
        if pid == self.pid() && has_keys && notify(&mut conn, EVENTS).await.is_err() {
            notify(&mut conn, EVENTS_BEFORE_NEW).await?;
        }
        Ok(pid)
    }

    pub async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        Client::open(self.url())?.get_multiplexed_async_connection().await
    }

    /// The URL for every client.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The same for our own topology.
    pub fn endpoint(&self) -> Endpoint {
        let info = self.url().into_connection_info().expect("the URL of a loopback port is valid");
        Endpoint { shown: self.url(), info, tls: None }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn log(&mut self) -> String {
        let mut text = Vec::new();
        let read = self.log.rewind().and_then(|()| self.log.read_to_end(&mut text));
        match read {
            Ok(_) => String::from_utf8_lossy(&text).into_owned(),
            Err(why) => format!("its log can't be read: {why}"),
        }
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        // It has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn notify(conn: &mut MultiplexedConnection, classes: &str) -> RedisResult<()> {
    redis::cmd("CONFIG").arg("SET").arg("notify-keyspace-events").arg(classes).query_async(conn).await
}

impl<'a> Kind<'a> {
    /// Where it keeps its files, if it has any.
    fn home(self) -> Option<&'a Home> {
        match self {
            Kind::Alone => None,
            Kind::Node(home) | Kind::Replicated(home) | Kind::Sentinel(home, _) => Some(home),
        }
    }

    fn arguments(self, port: u16, room: &Path) -> io::Result<Vec<String>> {
        let port = port.to_string();
        if let Kind::Sentinel(_, directives) = self {
            std::fs::write(room.join("sentinel.conf"), format!("port {port}\nbind 127.0.0.1\n{directives}"))?;
            return Ok(["sentinel.conf", "--sentinel"].map(String::from).to_vec());
        }
        let basic = ["--bind", "127.0.0.1", "--port", &port, "--daemonize", "no", "--loglevel", "notice"];
        let fleeting = ["--save", "", "--appendonly", "no"];
        // A replica is synced at once, over the wire.
        let synced = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"];
        let node = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        let parts: &[&[&str]] = match self {
            Kind::Alone | Kind::Sentinel(..) => &[&basic, &fleeting],
            Kind::Replicated(_) => &[&basic, &fleeting, &synced],
            Kind::Node(_) => &[&basic, &fleeting, &synced, &node],
        };
        Ok(parts.concat().into_iter().map(String::from).collect())
    }
}

/// A loopback port that nobody listens on at this moment; for a node of a cluster, the port of its bus is free too.
fn free_port(kind: Kind<'_>) -> io::Result<u16> {
    for _ in 0..1000 {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let bus = port.checked_add(BUS);
        let free = || bus.is_some_and(|bus| TcpListener::bind(("127.0.0.1", bus)).is_ok());
        if !matches!(kind, Kind::Node(_)) || free() {
            return Ok(port);
        }
    }
    Err(io::Error::other("there is no free port below 55536 for a node of a cluster"))
}

/// The last lines of a server's log, in one line.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(4)..].join(" / ");
    if last.is_empty() { "it ended without a word".into() } else { last }
}
