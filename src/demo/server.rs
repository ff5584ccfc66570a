//! A real private server for the demo: on a loopback port, without persistence, and it ends with us.
//!
//! It is killed when the value is dropped; on Linux the kernel also kills it when this process ends in any other way.
//! Nothing is left on disk: its working directory is removed as soon as the server runs in it, and its log is a file
//! without a name.

mod find;
mod process;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Client, IntoConnectionInfo, RedisResult};

use crate::base::text;
use crate::topology::Endpoint;

/// How long a server may take to answer. It is ready within 40 ms on an idle machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many free ports to try: another process may take one before our server does.
const ATTEMPTS: usize = 20;
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
        let program = find::program(program)?;
        for _ in 0..ATTEMPTS {
            match PrivateServer::attempt(&program).await {
                Ok(server) => return Ok(server),
                Err(Miss::PortTaken) => {}
                Err(Miss::Failed(why)) => return Err(NoServer::Failed { program, why }),
            }
        }
        Err(NoServer::Failed { program, why: format!("{ATTEMPTS} free ports were all taken by others") })
    }

    async fn attempt(program: &Path) -> Result<PrivateServer, Miss> {
        let port = free_port()?;
        let log = tempfile::tempfile()?;
        let directory = tempfile::Builder::new().prefix("lockscope-demo-").tempdir()?;
        let mut command = Command::new(program);
        command.current_dir(directory.path()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--daemonize", "no", "--loglevel", "notice"]);
        command.args(["--save", "", "--appendonly", "no"]);
        // The user's settings are not meant for it.
        command
            .env_remove("LOCKSCOPE_PASSWORD")
            .env_remove("LOCKSCOPE_SENTINEL_PASSWORD")
            .env_remove("LOCKSCOPE_URL")
            .env_remove("REDIS_URL");
        let child = process::spawn(command)?;
        let mut server = PrivateServer { child, port, log };
        // The server runs in it and does not need its name. Remove it now, so that nothing is left however we end.
        directory.close()?;
        server.ready().await?;
        Ok(server)
    }

    /// Waits until the server answers, checks that it is ours, and turns the events on.
    async fn ready(&mut self) -> Result<(), Miss> {
        let began = Instant::now();
        loop {
            if self.child.try_wait()?.is_some() {
                let log = self.log();
                let taken = log.contains("Address already in use");
                return Err(if taken { Miss::PortTaken } else { Miss::Failed(last_lines(&log)) });
            }
            match self.greet().await {
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
    async fn greet(&self) -> RedisResult<u32> {
        let mut conn = self.connect().await?;
        let info: String = redis::cmd("INFO").arg("server").query_async(&mut conn).await?;
        let pid = info.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok()).unwrap_or(0);
        if pid == self.pid() && notify(&mut conn, EVENTS).await.is_err() {
            notify(&mut conn, EVENTS_BEFORE_NEW).await?;
        }
        Ok(pid)
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
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

/// A loopback port that nobody listens on at this moment.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The last lines of a server's log, in one line.
fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(4)..].join(" / ");
    if last.is_empty() { "it ended without a word".into() } else { last }
}
