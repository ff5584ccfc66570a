//! Real locks, taken by the real libraries through the scripts under `tests/libs`.
//!
//! `scripts/ensure-libs` installs the libraries. If it could not (for example without Node), [`Library::python`] and
//! [`Library::node`] return `None`, which counts as left out, and the test uses the library's exact commands instead
//! ([`super::samples`]).

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::process;
use super::server::{Server, target_directory};

/// A Python script that needs no server, with the interpreter that has the libraries.
pub fn alone(script: &str) -> Option<Command> {
    let mut command = Command::new(installed("py", script)?.join("bin/python"));
    command.arg(scripts().join("python").join(script).with_extension("py"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
    Some(command)
}

/// One script of a library, for one server.
pub struct Library {
    interpreter: PathBuf,
    script: PathBuf,
    packages: PathBuf,
    port: u16,
}

impl Library {
    /// `Library::python("redis_py", &server)` runs `tests/libs/python/redis_py.py`.
    pub fn python(script: &str, server: &Server) -> Option<Library> {
        let packages = installed("py", script)?;
        Some(Library {
            interpreter: packages.join("bin/python"),
            script: scripts().join("python").join(script).with_extension("py"),
            packages,
            port: server.port(),
        })
    }

    /// `Library::node("redlock_v5", &server)` runs `tests/libs/node/redlock_v5.mjs`.
    pub fn node(script: &str, server: &Server) -> Option<Library> {
        let packages = installed("node", script)?;
        Some(Library {
            interpreter: "node".into(),
            script: scripts().join("node").join(script).with_extension("mjs"),
            packages,
            port: server.port(),
        })
    }

    /// Takes a lock that expires.
    pub fn acquire(&self, name: &str, ttl: Duration) -> Taken {
        self.attempt("ttl", name, ttl).taken()
    }

    /// Takes a lock that never expires, if the library allows it.
    pub fn acquire_forever(&self, name: &str) -> Taken {
        self.attempt("forever", name, Duration::ZERO).taken()
    }

    /// Takes a lock that the library renews, if it has a watchdog.
    pub fn acquire_renewing(&self, name: &str, ttl: Duration) -> Taken {
        self.attempt("renew", name, ttl).taken()
    }

    /// Starts to take a lock without waiting for it: a waiter while somebody else holds it. The scenarios are `ttl`,
    /// `forever` and `renew`.
    pub fn attempt(&self, scenario: &str, name: &str, ttl: Duration) -> Attempt {
        Attempt { script: self.script(&[scenario, name, &ttl.as_millis().to_string()]) }
    }

    /// Starts the script in a mode that obeys line by line, for a test with thousands of locks.
    pub fn driver(&self) -> Driver {
        Driver { script: self.script(&[]) }
    }

    fn script(&self, arguments: &[&str]) -> Script {
        let mut command = Command::new(&self.interpreter);
        command.arg(&self.script).arg(self.port.to_string()).args(arguments);
        command.env("NODE_LIBS", &self.packages).env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONPATH");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process::spawn(command).unwrap_or_else(|error| panic!("{:?}: {error}", self.script));
        let input = child.stdin.take().expect("a piped input");
        let output = BufReader::new(child.stdout.take().expect("a piped output"));
        Script { child, input, output, path: self.script.clone() }
    }
}

/// A process that takes and frees locks of real libraries on order. It is killed when dropped.
pub struct Driver {
    script: Script,
}

impl Driver {
    /// Sends one order and returns its reply, each a JSON document in a line.
    pub fn order(&mut self, order: &Value) -> Value {
        writeln!(self.script.input, "{order}").unwrap_or_else(|error| panic!("{:?}: {error}", self.script.path));
        self.script.line()
    }
}

/// Many threads of the real libraries that take and free locks, and keep their own counts. Killed when dropped.
pub struct Load {
    script: Script,
}

impl Load {
    /// Starts `tests/libs/python/load.py` with these jobs, if the libraries are installed.
    pub fn start(server: &Server, jobs: &[Value]) -> Option<Load> {
        let library = Library::python("load", server)?;
        let mut script = library.script(&[&Value::from(jobs).to_string()]);
        assert_eq!(script.line()["ready"], true, "{:?}", script.path);
        Some(Load { script })
    }

    /// Attempts and failures on one lock so far, by the clients' own counts.
    pub fn counted(&mut self, key: &str) -> (u64, u64) {
        writeln!(self.script.input, "count").unwrap_or_else(|error| panic!("the load is gone: {error}"));
        let counts = self.script.line();
        let count = |word: &str| counts[key][word].as_u64().unwrap_or(0);
        (count("attempts"), count("failures"))
    }
}

/// A holder that does not have its lock yet. It is killed when dropped.
pub struct Attempt {
    script: Script,
}

impl Attempt {
    /// Waits until it has the lock.
    pub fn taken(mut self) -> Taken {
        let line = self.script.line();
        let text = |field: &str| line[field].as_str().map(str::to_owned);
        Taken {
            key: text("key").expect("the script names the key"),
            token: text("token"),
            ttl: line["ttl_ms"].as_u64().map(Duration::from_millis),
            script: self.script,
        }
    }

    pub fn pid(&self) -> u32 {
        self.script.child.id()
    }
}

/// A lock that a real library holds. When it is dropped, the holder is killed and the lock stays.
pub struct Taken {
    pub key: String,
    /// The library's own token, if it has one.
    pub token: Option<String>,
    pub ttl: Option<Duration>,
    script: Script,
}

impl Taken {
    /// Renews the lock as the library does.
    pub fn extend(&mut self) {
        self.script.tell("extend");
    }

    /// Releases the lock as the library does, and waits until it is done.
    pub fn release(mut self) {
        self.script.tell("release");
    }

    /// Ends the holder without a release.
    pub fn crash(self) {}

    /// Stops the holder at once, and its watchdog too.
    pub fn pause(&self) {
        process::signal(&self.script.child, libc::SIGSTOP);
    }

    pub fn resume(&self) {
        process::signal(&self.script.child, libc::SIGCONT);
    }

    pub fn pid(&self) -> u32 {
        self.script.child.id()
    }
}

struct Script {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    path: PathBuf,
}

impl Script {
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line from the script");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("{:?} ended, see its message above", self.path))
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.input, "{word}").unwrap_or_else(|error| panic!("{:?} is gone: {error}", self.path));
        assert_eq!(self.line()["done"], word, "{:?}", self.path);
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libs")
}

/// Where the libraries of a language are, if `scripts/ensure-libs` installed them.
fn installed(language: &str, script: &str) -> Option<PathBuf> {
    let directory = target_directory().join("libs").join(language);
    if directory.join("stamp").is_file() {
        return Some(directory);
    }
    super::left_out(&format!("the library behind {script} is not installed (scripts/ensure-libs does it)"));
    None
}
