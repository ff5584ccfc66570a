//! A real Alertmanager that belongs to one test, with a receiver of ours behind it.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::scripted::{Scripted, answer};
use super::server::{free_port, target_directory};
use super::serving::Answer;
use super::{process, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

pub struct Alertmanager {
    child: Child,
    program: PathBuf,
    port: u16,
    directory: tempfile::TempDir,
    /// Who is told by it.
    webhook: Scripted,
}

impl Alertmanager {
    /// `None`, counted as left out, if there is none here.
    #[track_caller]
    pub fn start() -> Option<Alertmanager> {
        let given = std::env::var_os("LOCKSCOPE_ALERTMANAGER").filter(|path| !path.is_empty()).map(PathBuf::from);
        let fetched = target_directory().join("servers/alertmanager-0.25/alertmanager");
        let Some(program) = given.or_else(|| fetched.is_file().then_some(fetched)) else {
            super::left_out("there is no Alertmanager: run scripts/ensure-prometheus, which fetches one");
            return None;
        };
        let webhook = Scripted::start(|_| Some(answer(200, "text/plain", "")));
        let directory = process::temporary_directory();
        let config = format!(
            "route: {{receiver: us, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}\n\
             receivers: [{{name: us, webhook_configs: [{{url: '{}/hook', send_resolved: true}}]}}]\n",
            webhook.url()
        );
        std::fs::write(directory.path().join("config.yml"), config).expect("a file of our own");
        let templates = program.with_file_name("root/usr/share/prometheus/alertmanager");
        std::os::unix::fs::symlink(templates, directory.path().join("templates")).expect("a link of our own");
        let port = free_port();
        let child = launch(&program, &directory, port);
        let mut manager = Alertmanager { child, program, port, directory, webhook };
        for _ in 0..10 {
            if manager.is_ready() {
                return Some(manager);
            }
            // Another program took the port.
            manager.port = free_port();
            manager.again();
        }
        panic!("the Alertmanager does not start")
    }

    fn is_ready(&mut self) -> bool {
        let mut ended = false;
        wait_until("the Alertmanager to be ready", PATIENCE, || {
            ended = self.child.try_wait().expect("a child of ours").is_some();
            ended || self.get("/-/ready").is_some_and(|(status, _)| status == 200)
        });
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        assert!(!ended || log.contains("address already in use"), "the Alertmanager ended: {log}");
        !ended
    }

    fn get(&self, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).ok()?;
        let answer = Answer::read(&mut stream);
        Some((answer.status, answer.body))
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The alerts that it has for active.
    pub fn alerts(&self) -> Vec<Value> {
        let (_, body) = self.get("/api/v2/alerts").expect("an answer");
        serde_json::from_str(&body).expect("a list")
    }

    /// What it told its receiver about alerts in that state.
    pub fn told(&self, status: &str) -> Vec<Value> {
        let bodies =
            self.webhook.asked().into_iter().map(|asked| serde_json::from_str::<Value>(&asked.body).expect("JSON"));
        let alerts = bodies.flat_map(|body| body["alerts"].as_array().expect("a list").clone());
        alerts.filter(|alert| alert["status"] == status).collect()
    }

    /// Stops it; what it knew is gone.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again at the same port.
    pub fn again(&mut self) {
        self.stop();
        let _ = std::fs::remove_dir_all(self.directory.path().join("data"));
        self.child = launch(&self.program, &self.directory, self.port);
    }

    /// The same, and waits until it answers.
    pub fn restart(&mut self) {
        self.again();
        assert!(self.is_ready(), "its port is taken");
    }
}

fn launch(program: &PathBuf, directory: &tempfile::TempDir, port: u16) -> Child {
    let log = std::fs::File::create(directory.path().join("log")).expect("a file of our own");
    let mut command = Command::new(program);
    command.current_dir(directory.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.args(["--config.file=config.yml", "--storage.path=data", "--cluster.listen-address="]);
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    process::spawn(command).expect("the Alertmanager starts")
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        self.stop();
    }
}
