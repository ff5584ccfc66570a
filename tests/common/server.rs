//! A real Redis or Valkey server that belongs to one test.
//!
//! It listens on a free loopback port (or only on a Unix socket, or with TLS), keeps nothing on disk, is ready when
//! `start` returns, and is killed when the value is dropped or the test process ends in any way.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Client, Connection, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs, Value};
use tempfile::TempDir;

use super::process;
use super::program::{events, has, program, version};
use super::tls::Certificates;

const PATIENCE: Duration = Duration::from_secs(60);
/// How far the port of a cluster's bus is above the node's own, unless it is told otherwise.
pub const BUS: u16 = 10_000;

/// How a server with TLS is told its certificates.
const TLS_FILES: [&str; 12] = [
    "--tls-cert-file",
    "server.pem",
    "--tls-key-file",
    "server.key",
    "--tls-ca-cert-file",
    "ca.pem",
    // As a client of others: of its master, or of the servers that a sentinel watches.
    "--tls-client-cert-file",
    "client.pem",
    "--tls-client-key-file",
    "client.key",
    "--tls-auth-clients",
    "optional",
];

pub struct Server {
    settings: Settings,
    port: u16,
    /// Its working directory, with the log, the socket and the certificates.
    directory: TempDir,
    child: Child,
}

#[derive(Clone)]
struct Settings {
    program: PathBuf,
    listen: Listen,
    arguments: Vec<String>,
}

#[derive(Clone)]
enum Listen {
    Port,
    Socket,
    Tls(Certificates),
    /// With the directives of its config, and TLS only if there are certificates.
    Sentinel(String, Option<Certificates>),
}

/// When a server counts as ready.
#[derive(Clone, Copy, PartialEq)]
enum Ready {
    /// It answers, but may still load its data from disk.
    Answers,
    /// It has loaded its data.
    Loaded,
}

/// Why a server did not start.
enum Failed {
    /// Another process took the port before the server did.
    PortTaken,
    /// It ended, or never answered; with its log.
    Ended(String),
}

impl Server {
    /// A server with its default settings, and no persistence.
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// The same with more arguments: `Server::with(&["--notify-keyspace-events", "KEA"])`.
    pub fn with(arguments: &[&str]) -> Server {
        Server::launch(Listen::Port, arguments).unwrap_or_else(|log| panic!("the server did not start: {log}"))
    }

    /// A server that sends an event for every change of a lock.
    pub fn notifying(arguments: &[&str]) -> Server {
        Server::with(&[arguments, &["--notify-keyspace-events", events()]].concat())
    }

    /// A server that sends every event, takes a millisecond to load each key of its snapshot, and answers meanwhile;
    /// `None`, counted as left out, if the server can't.
    pub fn loading_slowly() -> Option<Server> {
        let slowly = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
        has((7, 0), "way to answer while it loads a few keys").then(|| Server::notifying(&slowly))
    }

    /// A server that listens only on a Unix socket.
    pub fn on_socket(arguments: &[&str]) -> Server {
        Server::launch(Listen::Socket, arguments).unwrap_or_else(|log| panic!("the server did not start: {log}"))
    }

    /// A server with TLS only, and certificates made for it; `None`, counted as left out, if the server was built
    /// without TLS. `--tls-auth-clients` is `optional` unless the arguments say otherwise.
    pub fn with_tls(arguments: &[&str]) -> Option<Server> {
        match Server::launch(Listen::Tls(Certificates::generate()), arguments) {
            Ok(server) => Some(server),
            Err(log) if log.contains("Failed finding TLS support") || log.contains("Bad directive") => {
                super::left_out(&format!("{} was built without TLS", program().display()));
                None
            }
            Err(log) => panic!("the server did not start: {log}"),
        }
    }

    /// The same with these certificates, which other servers have too.
    pub fn with_certificates(certificates: &Certificates, arguments: &[&str]) -> Server {
        let listen = Listen::Tls(certificates.clone());
        Server::launch(listen, arguments).unwrap_or_else(|log| panic!("the server did not start: {log}"))
    }

    /// A sentinel that watches a master.
    pub fn sentinel(master: &Server) -> Server {
        Server::sentinel_with(&format!("sentinel monitor watched 127.0.0.1 {} 1\n", master.port))
    }

    /// A sentinel with these directives.
    pub fn sentinel_with(config: &str) -> Server {
        Server::sentinel_over(None, config)
    }

    /// The same with TLS only, if there are certificates.
    pub fn sentinel_over(certificates: Option<&Certificates>, config: &str) -> Server {
        let listen = Listen::Sentinel(config.into(), certificates.cloned());
        Server::launch(listen, &[]).unwrap_or_else(|log| panic!("the sentinel did not start: {log}"))
    }

    fn launch(listen: Listen, arguments: &[&str]) -> Result<Server, String> {
        let arguments = arguments.iter().map(|argument| argument.to_string()).collect();
        let settings = Settings { program: program(), listen, arguments };
        for _ in 0..20 {
            match Server::attempt(settings.clone()) {
                Ok(server) => return Ok(server),
                Err(Failed::PortTaken) => continue,
                Err(Failed::Ended(log)) => return Err(log),
            }
        }
        Err("twenty free ports were all taken by others".into())
    }

    fn attempt(settings: Settings) -> Result<Server, Failed> {
        let directory = process::temporary_directory();
        let port = match &settings.listen {
            Listen::Socket => 0,
            Listen::Port => free_port(),
            Listen::Sentinel(config, certificates) => {
                let port = free_port();
                let listens = match certificates {
                    Some(certificates) => {
                        certificates.write_to(directory.path());
                        let files = TLS_FILES.chunks(2).map(|pair| format!("{} {}\n", &pair[0][2..], pair[1]));
                        format!("port 0\ntls-port {port}\ntls-replication yes\n{}", files.collect::<String>())
                    }
                    None => format!("port {port}\n"),
                };
                let config = format!("{listens}{config}");
                std::fs::write(directory.path().join("sentinel.conf"), config).expect("a config in our own directory");
                port
            }
            Listen::Tls(certificates) => {
                certificates.write_to(directory.path());
                free_port()
            }
        };
        let child = settings.spawn(port, directory.path());
        let mut server = Server { settings, port, directory, child };
        server.wait_ready(Ready::Loaded).map(|()| server)
    }

    /// Waits until the server answers, and checks that it is ours.
    fn wait_ready(&mut self, when: Ready) -> Result<(), Failed> {
        let start = Instant::now();
        loop {
            if self.child.try_wait().expect("a child of ours").is_some() {
                let log = self.log();
                let taken = log.contains("Address already in use");
                return Err(if taken { Failed::PortTaken } else { Failed::Ended(log) });
            }
            match self.try_connection().and_then(|mut connection| process_id(&mut connection, when)) {
                Ok(pid) if pid == self.pid() => return Ok(()),
                // Another process took the port and answers; ours will fail to bind.
                Ok(_) => {}
                // It is up, and refuses strangers as the test wants.
                Err(error) if is_refusal(&error) => return Ok(()),
                Err(error) if start.elapsed() > PATIENCE => {
                    return Err(Failed::Ended(format!("no answer in {PATIENCE:?}: {error}; {}", self.log())));
                }
                Err(_) => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The URL for `lockscope -u`, without any password.
    pub fn url(&self) -> String {
        match &self.settings.listen {
            Listen::Port | Listen::Sentinel(_, None) => format!("redis://127.0.0.1:{}", self.port),
            Listen::Tls(_) | Listen::Sentinel(_, Some(_)) => format!("rediss://localhost:{}", self.port),
            Listen::Socket => format!("redis+unix://{}", self.socket().display()),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The directory of the server's files: `ca.pem`, `client.pem` and `client.key` with TLS.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A connection of the test's own.
    pub fn connection(&self) -> Connection {
        self.try_connection().unwrap_or_else(|error| panic!("no connection to the test's server: {error}"))
    }

    fn try_connection(&self) -> RedisResult<Connection> {
        let password = match self.settings.argument("--requirepass") {
            Some(password) => format!(":{password}@"),
            None => String::new(),
        };
        let client = match &self.settings.listen {
            Listen::Port | Listen::Sentinel(_, None) => {
                Client::open(format!("redis://{password}127.0.0.1:{}", self.port))?
            }
            Listen::Tls(certificates) | Listen::Sentinel(_, Some(certificates)) => {
                certificates.client(&format!("rediss://{password}localhost:{}", self.port))?
            }
            Listen::Socket => {
                let query = self.settings.argument("--requirepass").map(|p| format!("?pass={p}")).unwrap_or_default();
                Client::open(format!("redis+unix://{}{query}", self.socket().display()))?
            }
        };
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        connection.set_write_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// Runs one command: `server.cli(&["SET", "k", "v"])`.
    #[track_caller]
    pub fn cli<A: ToRedisArgs>(&self, command: &[A]) -> Value {
        self.ask(command)
    }

    /// Runs one command and converts its reply to the type wanted.
    #[track_caller]
    pub fn ask<T: FromRedisValue, A: ToRedisArgs>(&self, command: &[A]) -> T {
        self.try_ask(command).unwrap_or_else(|error| panic!("the command failed: {error}"))
    }

    pub fn try_ask<T: FromRedisValue, A: ToRedisArgs>(&self, command: &[A]) -> RedisResult<T> {
        let mut line = redis::Cmd::new();
        for argument in command {
            line.arg(argument);
        }
        line.query(&mut self.try_connection()?)
    }

    /// The content of every key, to check that nothing changed.
    pub fn everything(&self) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
        let keys: Vec<Vec<u8>> = self.ask(&["KEYS", "*"]);
        let content = |key: Vec<u8>| {
            let kind: String = self.ask(&[&b"TYPE"[..], &key]);
            let mut content: Vec<Vec<u8>> = match kind.as_str() {
                // They have no order, and DUMP writes them in a random one.
                "set" => self.ask(&[&b"SMEMBERS"[..], &key]),
                "hash" => {
                    let pairs: Vec<(Vec<u8>, Vec<u8>)> = self.ask(&[&b"HGETALL"[..], &key]);
                    pairs.into_iter().map(|(field, value)| [field, value].join(&b'=')).collect()
                }
                _ => self.ask::<Option<Vec<u8>>, _>(&[&b"DUMP"[..], &key]).into_iter().collect(),
            };
            content.sort();
            (!content.is_empty()).then_some((key, content))
        };
        keys.into_iter().filter_map(content).collect()
    }

    /// Major, minor and patch. For Valkey its own number, not the Redis version it is compatible with.
    pub fn version(&self) -> (u32, u32, u32) {
        let info: String = self.ask(&["INFO", "server"]);
        let text = field(&info, "valkey_version").or(field(&info, "redis_version")).expect("a version in INFO");
        let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        (next(), next(), next())
    }

    pub fn is_valkey(&self) -> bool {
        field(&self.ask::<String, _>(&["INFO", "server"]), "valkey_version").is_some()
    }

    /// Whether the server has a command: `server.knows("DELEX")`.
    pub fn knows(&self, command: &str) -> bool {
        let answer: Vec<Value> = self.ask(&["COMMAND", "INFO", command]);
        answer.first().is_some_and(|first| !matches!(first, Value::Nil))
    }

    /// What the server refused to anybody, from its ACL log. Before version 7 it also logs subcommands that it does not
    /// know.
    pub fn refused(&self) -> Vec<String> {
        let log: Vec<BTreeMap<String, Value>> = self.ask(&["ACL", "LOG", "1000"]);
        let unknown = |entry: &BTreeMap<String, Value>| {
            let grown = ["acl", "client", "pubsub"].map(|command| Value::BulkString(command.into()));
            version() < (7, 0) && grown.contains(&entry["object"])
        };
        log.iter().filter(|entry| !unknown(entry)).map(|entry| format!("{entry:?}")).collect()
    }

    /// Kills the server, as a crash would. Its data is gone; `restart` brings an empty one back on the same port.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Kills the server if it still runs, and starts it again at the same address.
    pub fn restart(&mut self) {
        self.start_again(Ready::Loaded);
    }

    /// The same, but returns while the server may still load its data from disk.
    pub fn restart_loading(&mut self) {
        self.start_again(Ready::Answers);
    }

    fn start_again(&mut self, when: Ready) {
        let start = Instant::now();
        loop {
            self.kill();
            self.child = self.settings.spawn(self.port, self.directory.path());
            match self.wait_ready(when) {
                Ok(()) => return,
                Err(Failed::PortTaken) if start.elapsed() < PATIENCE => {}
                Err(Failed::PortTaken) => panic!("somebody else has taken port {} meanwhile", self.port),
                Err(Failed::Ended(log)) => panic!("the server did not start again: {log}"),
            }
        }
    }

    /// Stops the server without closing its connections: it accepts input and answers nothing.
    pub fn pause(&self) {
        process::signal(&self.child, libc::SIGSTOP);
    }

    pub fn resume(&self) {
        process::signal(&self.child, libc::SIGCONT);
    }

    /// The last lines of the server's log.
    pub fn log(&self) -> String {
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Settings {
    fn spawn(&self, port: u16, directory: &Path) -> Child {
        let log = std::fs::File::create(directory.join("log")).expect("a log file in our own directory");
        let mut command = Command::new(&self.program);
        if let Listen::Sentinel(..) = self.listen {
            command.args(["sentinel.conf", "--sentinel"]);
        }
        command.current_dir(directory).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a second handle of the log")).stderr(log);
        command.args(["--bind", "127.0.0.1", "--daemonize", "no"]).arg("--dir").arg(directory);
        if !matches!(self.listen, Listen::Sentinel(..)) {
            command.args(["--save", "", "--appendonly", "no"]);
        }
        match &self.listen {
            Listen::Sentinel(..) => &mut command,
            Listen::Port => command.args(["--port", &port.to_string()]),
            Listen::Socket => command.args(["--port", "0", "--unixsocket", "socket"]),
            Listen::Tls(_) => command.args(["--port", "0", "--tls-port", &port.to_string()]).args(TLS_FILES),
        };
        // Last, so that they override the others.
        command.args(&self.arguments);
        process::spawn(command).unwrap_or_else(|error| panic!("{} does not start: {error}", self.program.display()))
    }

    fn argument(&self, name: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|argument| argument == name)?;
        self.arguments.get(at + 1).map(String::as_str)
    }
}

/// Cargo's target directory.
pub fn target_directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory above tmp").into()
}

/// A loopback port that nobody listens on now, low enough for a node of a cluster: before version 7 its bus has the port that
/// is 10,000 above.
pub fn free_port() -> u16 {
    loop {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free loopback port");
        let port = listener.local_addr().expect("the address of a bound listener").port();
        if port <= u16::MAX - BUS {
            return port;
        }
    }
}

/// The process id of a server that is ready.
fn process_id(connection: &mut Connection, when: Ready) -> RedisResult<u32> {
    let info: String = redis::cmd("INFO").query(connection)?;
    if when == Ready::Loaded && field(&info, "loading") == Some("1") {
        return Err(std::io::Error::from(std::io::ErrorKind::WouldBlock).into());
    }
    Ok(field(&info, "process_id").and_then(|pid| pid.parse().ok()).unwrap_or(0))
}

fn is_refusal(error: &redis::RedisError) -> bool {
    matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm))
        || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
}

/// A field of an INFO answer.
pub fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}
