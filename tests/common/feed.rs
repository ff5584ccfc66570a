//! The three ways to learn of changes, each on a server that offers no better one.

use serde_json::Value;

use super::server::Server;
use super::watching::Watching;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Feed {
    Notifications,
    /// Notifications are off.
    Tracking,
    /// Notifications are on, but the user may neither subscribe nor track.
    Polling,
}

const POLLER: &str = "on >polls resetchannels ~* -@all +ping +hello +select +info +scan +dbsize +type +getrange +strlen \
    +hlen +hgetall +hscan +zcard +zrange +scard +smembers +sscan +llen +pttl +memory|usage +config|get";

impl Feed {
    pub const ALL: [Feed; 3] = [Feed::Notifications, Feed::Tracking, Feed::Polling];

    pub fn name(self) -> &'static str {
        match self {
            Feed::Notifications => "notifications",
            Feed::Tracking => "tracking",
            Feed::Polling => "polling",
        }
    }

    pub fn server(self) -> Server {
        let server = if self == Feed::Tracking { Server::start() } else { Server::notifying(&[]) };
        if self == Feed::Polling {
            let rule: Vec<&str> = ["ACL", "SETUSER", "poller"].into_iter().chain(POLLER.split_whitespace()).collect();
            server.cli(&rule);
        }
        server
    }

    /// Options and environment that leave `lockscope` only this feed on such a server.
    pub fn login(self) -> (Vec<&'static str>, Vec<(&'static str, &'static str)>) {
        match self {
            Feed::Polling => (vec!["--user", "poller"], vec![("LOCKSCOPE_PASSWORD", "polls")]),
            _ => (Vec::new(), Vec::new()),
        }
    }

    /// Watches the server, and returns when changes are reported as they happen.
    pub fn watch(self, server: &Server, arguments: &[&str]) -> Watching {
        self.start(server, arguments).ready(server)
    }

    /// Watches the server, and returns when it has the feed.
    pub fn start(self, server: &Server, arguments: &[&str]) -> Watching {
        let watching = match self {
            Feed::Polling => Watching::start_as(server, "poller", "polls", arguments),
            _ => Watching::start(server, arguments),
        };
        watching.says(&format!("by {}", self.name()));
        watching
    }

    /// `ls --json` with more arguments.
    #[track_caller]
    pub fn ls(self, server: &Server, arguments: &[&str]) -> Value {
        let (options, environment) = self.login();
        let mut command = super::lockscope();
        command.args(["ls", "--json", "-u", &server.url()]).args(options).args(arguments).envs(environment);
        let output = command.output().expect("lockscope runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}; {said}"))
    }
}

/// Keys and tokens of the holders in a document of `ls --json`, in order.
pub fn held(document: &Value) -> Vec<(String, Vec<String>)> {
    let text = |value: &Value| value.as_str().expect("a text").to_string();
    let mut held: Vec<(String, Vec<String>)> = document["locks"]
        .as_array()
        .expect("a list of locks")
        .iter()
        .map(|lock| {
            let holders = lock["holders"].as_array().expect("a list of holders");
            (text(&lock["key"]), holders.iter().map(|holder| text(&holder["token"])).collect())
        })
        .collect();
    held.sort();
    held
}
