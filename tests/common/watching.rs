//! `lockscope watch --json` as a child process, and its output so far.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::process;
use super::server::Server;

const PATIENCE: Duration = Duration::from_secs(30);

pub struct Watching {
    child: Child,
    told: Arc<Told>,
    /// How many lines about each key the test has read.
    taken: HashMap<String, usize>,
    fences: usize,
    _home: tempfile::TempDir,
}

#[derive(Default)]
struct Told {
    lines: Mutex<Lines>,
    news: Condvar,
}

#[derive(Default)]
struct Lines {
    out: Vec<Value>,
    err: Vec<String>,
}

impl Watching {
    /// Watches `server` with more arguments: `-p`, `--filter`, `--pace`.
    pub fn start(server: &Server, arguments: &[&str]) -> Watching {
        Watching::spawn(server, arguments, &[])
    }

    /// The same as an ACL user.
    pub fn start_as(server: &Server, user: &str, password: &str, arguments: &[&str]) -> Watching {
        let arguments: Vec<&str> = ["--user", user].iter().chain(arguments).copied().collect();
        Watching::spawn(server, &arguments, &[("LOCKSCOPE_PASSWORD", password)])
    }

    fn spawn(server: &Server, arguments: &[&str], environment: &[(&str, &str)]) -> Watching {
        let home = process::temporary_directory();
        let mut command = super::lockscope_process(home.path());
        command.args(["watch", "--json", "-u", &server.url()]).args(arguments).envs(environment.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process::spawn(command).expect("lockscope starts");
        let told = Arc::new(Told::default());
        collect(child.stdout.take().expect("piped"), told.clone(), |lines, line| {
            lines.out.push(serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line}")));
        });
        collect(child.stderr.take().expect("piped"), told.clone(), |lines, line| lines.err.push(line));
        Watching { child, told, taken: HashMap::new(), fences: 0, _home: home }
    }

    /// Waits until a new lock is reported as acquired: from then on every change is reported.
    pub fn ready(mut self, server: &Server) -> Watching {
        loop {
            if self.fence(server) == "acquired" {
                return self;
            }
        }
    }

    /// Takes a lock and waits until it is reported: then every earlier change was reported too.
    #[track_caller]
    pub fn fence(&mut self, server: &Server) -> String {
        self.fences += 1;
        let key = format!("lock:fence-{}", self.fences);
        server.cli(&["SET", &key, "fence", "NX", "PX", "600000"]);
        let line = self.next(&key);
        line["event"].as_str().expect("an event").to_string()
    }

    /// The next line about this key.
    #[track_caller]
    pub fn next(&mut self, key: &str) -> Value {
        let index = *self.taken.entry(key.to_string()).or_default();
        let find = |lines: &Lines| lines.out.iter().filter(|line| line["key"] == key).nth(index).cloned();
        let line = self.wait(&format!("line {} about {key}", index + 1), find);
        *self.taken.entry(key.to_string()).or_default() += 1;
        line
    }

    /// The next line about this key, which must be this event.
    #[track_caller]
    pub fn tells(&mut self, key: &str, event: &str) -> Value {
        let line = self.next(key);
        assert_eq!(line["event"], event, "{line}\nall: {}", self.story());
        line
    }

    /// There are no lines about these keys but those that the test has read.
    #[track_caller]
    pub fn tells_no_more(&mut self, server: &Server, keys: &[&str]) {
        self.fence(server);
        for key in keys {
            let taken = self.taken.get(*key).copied().unwrap_or(0);
            let lines: Vec<Value> = self.lines().into_iter().filter(|line| line["key"] == *key).skip(taken).collect();
            assert!(lines.is_empty(), "{lines:?}");
        }
    }

    /// Waits for a line on stderr that contains `part`.
    #[track_caller]
    pub fn says(&self, part: &str) -> String {
        self.wait(part, |lines| lines.err.iter().find(|line| line.contains(part)).cloned())
    }

    /// Waits until this many lines on stderr contain `part`.
    #[track_caller]
    pub fn says_again(&self, part: &str, times: usize) {
        self.wait(part, |lines| (lines.err.iter().filter(|line| line.contains(part)).count() >= times).then_some(()));
    }

    #[track_caller]
    fn wait<T>(&self, what: &str, find: impl Fn(&Lines) -> Option<T>) -> T {
        let end = Instant::now() + PATIENCE;
        let mut lines = self.told.lines.lock().expect("no reader panics");
        loop {
            if let Some(found) = find(&lines) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(lines);
                panic!("waited in vain for {what}\n{}", self.story());
            }
            lines = self.told.news.wait_timeout(lines, left).expect("no reader panics").0;
        }
    }

    pub fn lines(&self) -> Vec<Value> {
        self.told.lines.lock().expect("no reader panics").out.clone()
    }

    pub fn stderr(&self) -> Vec<String> {
        self.told.lines.lock().expect("no reader panics").err.clone()
    }

    /// All output so far, for the message of a failing test.
    pub fn story(&self) -> String {
        let tell = |line: &Value| format!("{} {} {} why {}", line["key"], line["event"], line["holder"], line["why"]);
        let lines: Vec<String> = self.lines().iter().map(tell).collect();
        format!("{}\nstderr: {}", lines.join("\n"), self.stderr().join("\n"))
    }

    /// Waits until the process has ended by itself.
    #[track_caller]
    pub fn exit_code(&mut self) -> Option<i32> {
        let mut status = None;
        super::wait_until("watch ends", PATIENCE, || {
            status = self.child.try_wait().expect("a child of ours");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(from: impl Read + Send + 'static, told: Arc<Told>, keep: impl Fn(&mut Lines, String) + Send + 'static) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            keep(&mut told.lines.lock().expect("no reader panics"), line);
            told.news.notify_all();
        }
    });
}
