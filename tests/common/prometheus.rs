//! A real Prometheus that belongs to one test: it scrapes, evaluates rules, and is asked by its API.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lockscope::alerts::Prometheus as Version;
use serde_json::Value;

use super::server::free_port;
use super::{process, promtool, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Prometheus {
    child: Child,
    port: u16,
    version: Version,
    directory: tempfile::TempDir,
}

/// One series as the API gives it: its labels, and its samples in milliseconds.
#[derive(Clone, Debug)]
pub struct Raw {
    pub labels: BTreeMap<String, String>,
    pub samples: Vec<(i64, f64)>,
}

impl Prometheus {
    /// Scrapes the address with this configuration; `None`, counted as left out, if there is no Prometheus here.
    /// `config` may name `rules.yml`, which has `rules`.
    #[track_caller]
    pub fn start(config: &str, rules: &str) -> Option<Prometheus> {
        Prometheus::start_on(config, rules, |_, _| ())
    }

    /// The same with a history that it has already, as OpenMetrics with times.
    #[allow(dead_code, reason = "only the benchmark needs a long history")]
    #[track_caller]
    pub fn with_history(config: &str, rules: &str, history: &str) -> Option<Prometheus> {
        Prometheus::start_on(config, rules, |promtool, folder| {
            std::fs::write(folder.join("history"), history).expect("a file of our own");
            let made =
                promtool::run(promtool, folder, &["tsdb", "create-blocks-from", "openmetrics", "history", "data"]);
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        })
    }

    #[track_caller]
    fn start_on(config: &str, rules: &str, prepare: impl Fn(&Path, &Path)) -> Option<Prometheus> {
        let promtool = promtool::promtool()?;
        let program = promtool.with_file_name("prometheus");
        if !program.is_file() {
            super::left_out("there is no prometheus beside promtool");
            return None;
        }
        let version = promtool::version(&promtool);
        for _ in 0..10 {
            let directory = process::temporary_directory();
            std::fs::write(directory.path().join("prometheus.yml"), config).expect("a file of our own");
            std::fs::write(directory.path().join("rules.yml"), rules).expect("a file of our own");
            prepare(&promtool, directory.path());
            let port = free_port();
            let child = launch(&program, &directory, port);
            let mut prometheus = Prometheus { child, port, version, directory };
            if prometheus.is_ready() {
                return Some(prometheus);
            }
        }
        panic!("prometheus does not start")
    }

    fn is_ready(&mut self) -> bool {
        let mut ended = false;
        wait_until("prometheus to be ready", PATIENCE, || {
            ended = self.child.try_wait().expect("a child of ours").is_some();
            ended || self.get("/-/ready").is_some_and(|(status, _)| status == 200)
        });
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        assert!(!ended || log.contains("address already in use"), "prometheus ended: {log}");
        !ended
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Has it read other rules.
    pub fn change_rules(&self, rules: &str) {
        std::fs::write(self.directory.path().join("rules.yml"), rules).expect("a file of our own");
        process::signal(&self.child, libc::SIGHUP);
    }

    pub fn version(&self) -> Version {
        self.version
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_string()))
    }

    /// The result of an instant query.
    #[track_caller]
    pub fn query(&self, query: &str) -> Vec<Raw> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (status, body) = self.get(&format!("/api/v1/query?query={encoded}")).expect("an answer");
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|why| panic!("{why}: {body}"));
        assert_eq!(status, 200, "{query}: {body}");
        answer["data"]["result"].as_array().expect("a list").iter().map(raw).collect()
    }

    /// Waits until the query has a result, or none any more.
    #[track_caller]
    pub fn waits_for(&self, query: &str, there: bool) {
        wait_until(&format!("{query} (there: {there})"), PATIENCE, || self.query(query).is_empty() != there);
    }

    /// What it says about its scrapes.
    pub fn targets(&self) -> Value {
        let (_, body) = self.get("/api/v1/targets").expect("an answer");
        serde_json::from_str(&body).expect("JSON")
    }
}

fn launch(program: &PathBuf, directory: &tempfile::TempDir, port: u16) -> Child {
    let log = std::fs::File::create(directory.path().join("log")).expect("a file of our own");
    let mut command = Command::new(program);
    command.current_dir(directory.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"]);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    process::spawn(command).expect("prometheus starts")
}

fn raw(result: &Value) -> Raw {
    let labels = result["metric"].as_object().expect("labels");
    let labels = labels.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_string()));
    let samples = match &result["values"] {
        Value::Array(samples) => samples.clone(),
        _ => vec![result["value"].clone()],
    };
    let sample = |sample: &Value| {
        let seconds = sample[0].as_f64().expect("a time");
        ((seconds * 1_000.0).round() as i64, sample[1].as_str().expect("a text").parse().expect("a number"))
    };
    Raw { labels: labels.collect(), samples: samples.iter().map(sample).collect() }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
