//! A user at a command line: the binary on a test's server, with its own home where the records are kept.

use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::process::{spawn, temporary_directory};
use super::server::Server;
use super::{lockscope_at, lockscope_process};

pub struct Desk {
    home: TempDir,
    url: String,
}

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Desk {
    pub fn at(server: &Server) -> Desk {
        Desk::with_url(&server.url())
    }

    pub fn with_url(url: &str) -> Desk {
        Desk { home: temporary_directory(), url: url.into() }
    }

    /// Runs a command on the server.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_bare(&[&["-u", &self.url], arguments].concat())
    }

    /// The same without the server's URL.
    pub fn run_bare(&self, arguments: &[&str]) -> Ran {
        Ran::of(lockscope_at(self.home.path()).args(arguments).output().expect("lockscope runs"))
    }

    /// The same with more environment variables.
    pub fn run_in(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Ran {
        let mut command = lockscope_at(self.home.path());
        Ran::of(command.envs(environment.iter().copied()).args(arguments).output().expect("lockscope runs"))
    }

    /// Starts a command on the server and does not wait; its output can be read.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = lockscope_process(self.home.path());
        command.args(["-u", &self.url]).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        spawn(command).expect("lockscope starts")
    }

    /// Where its records are.
    pub fn state(&self) -> PathBuf {
        self.home.path().join("state/lockscope")
    }

    pub fn configure(&self, text: &str) {
        let place = self.home.path().join("config/lockscope");
        std::fs::create_dir_all(&place).expect("a place for the config");
        std::fs::write(place.join("config.toml"), text).expect("a config");
    }

    /// The lines of the audit file, all of them complete.
    pub fn audit(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.state().join("audit.jsonl")).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "cut short: {text}");
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"))).collect()
    }

    /// Frees a lock and returns the id of the release.
    #[track_caller]
    pub fn free(&self, key: &str, holder: &str) -> String {
        let ran = self.run(&["release", key, "--holder", holder, "--yes", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.json()["id"].as_str().expect("an id").to_string()
    }
}

impl Ran {
    pub fn of(output: Output) -> Ran {
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let ran = Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    /// The one JSON object on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// One JSON object for each line.
    #[track_caller]
    pub fn lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}"))).collect()
    }

    /// The one sentence on stderr of a refused command.
    #[track_caller]
    pub fn refusal(&self) -> &str {
        assert_eq!((self.code, self.out.as_str(), self.err.lines().count()), (1, "", 1), "{self:?}");
        self.err.strip_prefix("lockscope: ").unwrap_or_else(|| panic!("{self:?}")).trim_end()
    }
}
