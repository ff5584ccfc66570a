//! `lockscope serve` as a child process, and requests to it byte by byte.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{process, server::Server, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

pub struct Serving {
    child: Child,
    /// Lines with the time at which they came, in milliseconds.
    said: Arc<Mutex<Vec<(i64, String)>>>,
    address: String,
    _home: tempfile::TempDir,
}

/// An answer: its status, its headers in lower case, its body.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

impl Serving {
    /// Serves the locks of `server` on a free port.
    pub fn start(server: &Server, arguments: &[&str]) -> Serving {
        Serving::with(server, arguments, &[])
    }

    /// The same with more environment variables.
    pub fn with(server: &Server, arguments: &[&str], environment: &[(&str, &Path)]) -> Serving {
        let home = process::temporary_directory();
        let mut command = super::lockscope_process(home.path());
        command.args(["serve", "-u", &server.url()]).args(arguments);
        if !arguments.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.envs(environment.iter().copied()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = process::spawn(command).expect("lockscope starts");
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, all) = (BufReader::new(child.stderr.take().expect("piped")), said.clone());
        std::thread::spawn(move || {
            lines.lines().map_while(Result::ok).for_each(|line| all.lock().unwrap().push((now(), line)))
        });
        let mut serving = Serving { child, said, address: String::new(), _home: home };
        let line = serving.says("serving http");
        serving.address = line.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap().to_string();
        serving
    }

    /// Waits for a line on stderr that contains `part`.
    #[track_caller]
    pub fn says(&mut self, part: &str) -> String {
        let mut found = None;
        wait_until(part, PATIENCE, || {
            found =
                self.said.lock().unwrap().iter().find(|(_, line)| line.contains(part)).map(|(_, line)| line.clone());
            let ended = self.child.try_wait().expect("a child of ours");
            assert!(ended.is_none() || found.is_some(), "it ended: {ended:?}\n{}", self.story());
            found.is_some()
        });
        found.expect("found above")
    }

    /// Everything on stderr so far.
    pub fn story(&self) -> String {
        self.lines().into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
    }

    /// The same, with the time of each line in milliseconds since the epoch.
    pub fn lines(&self) -> Vec<(i64, String)> {
        self.said.lock().unwrap().clone()
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn child(&self) -> &Child {
        &self.child
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the port is open");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// Sends these bytes and reads the answer.
    pub fn send(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("the request is read");
        Answer::read(&mut stream)
    }

    pub fn request(&self, method: &str, path: &str, headers: &[&str]) -> Answer {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        self.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes())
    }

    /// The text of `/metrics`.
    #[track_caller]
    pub fn metrics(&self) -> String {
        let answer = self.request("GET", "/metrics", &[]);
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }

    /// The value of the only series of that metric whose labels contain all these.
    pub fn value(&self, metric: &str, labels: &[&str]) -> Option<f64> {
        value(&self.metrics(), metric, labels)
    }

    /// Waits until the series has this value; `None`: until it is absent.
    #[track_caller]
    pub fn shows(&self, metric: &str, labels: &[&str], wanted: Option<f64>) {
        wait_until(&format!("{metric} {labels:?} to be {wanted:?}"), PATIENCE, || self.value(metric, labels) == wanted);
    }

    /// Asks it to end, and waits until it did.
    pub fn end(mut self, signal: libc::c_int) -> (ExitStatus, String) {
        process::signal(&self.child, signal);
        let status = self.child.wait().expect("a child of ours");
        (status, self.story())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    /// Reads until the other side closes.
    pub fn read(stream: &mut impl Read) -> Answer {
        let mut bytes = Vec::new();
        // A client that was cut off may have got its answer before.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).expect("an answer in UTF-8");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
        let headers = lines.filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_string())).collect();
        Answer { status: status.unwrap_or(0), headers, body: body.to_string() }
    }
}

/// The value of the only series of that metric whose labels contain all these.
#[track_caller]
pub fn value(text: &str, metric: &str, labels: &[&str]) -> Option<f64> {
    let lines = text.lines().filter(|line| {
        let name = line.split(['{', ' ']).next();
        name == Some(metric) && labels.iter().all(|label| line.contains(label))
    });
    let values: Vec<&str> = lines.filter_map(|line| Some(line.rsplit_once(' ')?.1)).collect();
    assert!(values.len() < 2, "{metric} {labels:?} is ambiguous: {values:?}");
    values.first().map(|value| value.parse().expect("a number"))
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}
