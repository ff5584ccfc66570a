//! The console's own writes on a cluster and on a Sentinel service, typed in a terminal: between each question and its answer
//! another server takes over, and what is written is written there and nowhere else.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::path::Path;

use common::process::temporary_directory;
use common::server::field;
use common::{Cluster, Sentinels, Server, binary, wait_until};
use lockscope::lock::slot_of;
use redis::Value;
use serde_json::Value as Json;
use terminal::{PATIENCE, Terminal};

/// Both in one slot.
const KEY: &str = "lock:{a}";
const OURS: &str = "lock:ours:{a}";

trait Whole {
    fn url(&self) -> String;
    fn servers(&self) -> &[Server];
    /// The server that owns the locks now.
    fn owner(&self) -> &Server;
    /// Gives them to another one, without a loss.
    fn take_over(&self);
}

fn says_master(server: &Server) -> bool {
    field(&server.ask::<String, _>(&["INFO", "replication"]), "role") == Some("master")
}

impl Whole for Cluster {
    fn url(&self) -> String {
        Cluster::url(self)
    }

    fn servers(&self) -> &[Server] {
        &self.nodes
    }

    fn owner(&self) -> &Server {
        let owner = self.nodes.iter().find(|node| node.try_ask::<Value, _>(&["EXISTS", KEY]).is_ok());
        owner.expect("its slot has an owner")
    }

    /// Its replica takes over at first, and then the slot moves from one master to the next: a server that is replaced and
    /// takes over again at once does not write for seconds.
    fn take_over(&self) {
        let slot = slot_of(KEY.as_bytes());
        let shard = usize::from(slot / 5_462);
        match says_master(self.replica_of(shard)) {
            false => self.fail_over(shard),
            true => {
                let masters: Vec<&Server> = self.nodes.iter().filter(|node| says_master(node)).collect();
                let at = masters.iter().position(|node| node.port() == self.owner().port()).expect("one of them");
                self.move_slot(slot, masters[at], masters[(at + 1) % masters.len()]);
                self.agree(KEY);
            }
        }
    }
}

impl Whole for Sentinels {
    fn url(&self) -> String {
        Sentinels::url(self)
    }

    fn servers(&self) -> &[Server] {
        &self.servers
    }

    fn owner(&self) -> &Server {
        &self.servers[self.index_of(self.master_port().expect("the sentinels name a master"))]
    }

    fn take_over(&self) {
        let new = &self.servers[self.fail_over()];
        // The next one is chosen among those that follow this one: what it has is a continuation of what this one has.
        let follows = |server: &&Server| {
            let info: String = server.ask(&["INFO", "replication"]);
            field(&info, "master_port") == Some(&new.port().to_string())
                && field(&info, "master_link_status") == Some("up")
        };
        let replicas = || self.servers.iter().filter(|server| !says_master(server));
        wait_until("the replicas to follow it", PATIENCE, || replicas().filter(follows).count() == replicas().count());
    }
}

/// What every server that still takes writes, and must not get any, has: its keys, and what is left of the lock's time.
fn deposed(whole: &impl Whole) -> Vec<(u16, impl PartialEq + std::fmt::Debug, i64)> {
    let owner = whole.owner().port();
    let others = whole.servers().iter().filter(|server| server.port() != owner && says_master(server));
    let holds = others.filter(|server| server.try_ask::<Value, _>(&["EXISTS", KEY]).is_ok());
    holds.map(|server| (server.port(), server.everything(), server.ask(&["PTTL", KEY]))).collect()
}

/// The actions on record that came to an end.
fn ended(home: &Path) -> Vec<Json> {
    let text = std::fs::read_to_string(home.join("state/lockscope/audit.jsonl")).unwrap_or_default();
    let parse = |line: &str| serde_json::from_str::<Json>(line).unwrap_or_else(|why| panic!("{why}: {line}"));
    text.lines().map(parse).filter(|line| !line["outcome"].is_null()).collect()
}

/// Presses a key, lets another server take over while the question is open, and answers it.
fn answer(terminal: &mut Terminal, home: &Path, keys: &str, told: &str, whole: &impl Whole) {
    terminal.press(keys);
    terminal.wait_for("the question", |screen| screen.contains("Type y"));
    whole.take_over();
    let (before, untouched) = (ended(home).len(), deposed(whole));
    terminal.press("y\r");
    wait_until("the answer to be on record", PATIENCE, || ended(home).len() > before);
    terminal.wait_for("what came of it", |screen| screen.contains(told));
    let last = ended(home).pop().expect("it is on record");
    let owner = format!("127.0.0.1:{}", whole.owner().port());
    assert_eq!((&last["outcome"], &last["node"]), (&"done".into(), &owner.as_str().into()), "{last}");
    for (port, had, left) in &untouched {
        let now = deposed(whole);
        let Some((_, has, ttl)) = now.iter().find(|(other, ..)| other == port) else { continue };
        assert!(has == had && ttl <= left, "{last} changed {port} too: {had:?}, {has:?}");
    }
}

fn holder(whole: &impl Whole, key: &str) -> Option<String> {
    whole.owner().ask(&["GET", key])
}

/// Gives a lock more time, frees it, puts it back, takes a test lock and gives it back: each time another server has taken over
/// since the question.
fn every_write_goes_to_the_owner(whole: &impl Whole) {
    let home = temporary_directory();
    whole.owner().cli(&["SET", KEY, "worker-1", "PX", "100000"]);
    let (url, state) = (whole.url(), home.path().join("state"));
    let arguments = ["-u", &url, "-p", "lock:*", "--env", "dev", "--write"];
    let environment = [("XDG_STATE_HOME", state.to_str().unwrap())];
    let mut terminal = Terminal::start(binary().to_str().unwrap(), &arguments, &environment);
    let listed = |screen: &str| screen.contains(KEY) && screen.contains("1 lock") && screen.contains("live");
    terminal.wait_for("the lock", listed);

    let before: i64 = whole.owner().ask(&["PTTL", KEY]);
    answer(&mut terminal, home.path(), "e", "extended lock", whole);
    assert!(whole.owner().ask::<i64, _>(&["PTTL", KEY]) > before, "it got more time");
    answer(&mut terminal, home.path(), "x", "freed", whole);
    assert_eq!(holder(whole, KEY), None);
    answer(&mut terminal, home.path(), "u", "put lock:{a} back", whole);
    assert_eq!(holder(whole, KEY).as_deref(), Some("worker-1"));

    terminal.press("a");
    terminal.wait_for("the line", |screen| screen.contains("take "));
    whole.take_over();
    terminal.press(&format!("\x15{OURS} ttl=30s token=tester watchdog\r"));
    wait_until("the test lock is taken", PATIENCE, || holder(whole, OURS).as_deref() == Some("tester"));
    terminal.wait_for("its row", |screen| screen.contains("1 test"));
    whole.take_over();
    terminal.press("q");
    terminal.wait_for_end();
    assert_eq!(holder(whole, OURS), None, "it was given back where it is now");
    assert_eq!(holder(whole, KEY).as_deref(), Some("worker-1"));
}

#[test]
fn on_a_cluster_a_confirmed_write_goes_to_the_master_that_took_over() {
    let Some(cluster) = Cluster::start(3) else { return };
    every_write_goes_to_the_owner(&cluster);
}

#[test]
fn on_a_service_a_confirmed_write_goes_to_the_master_that_took_over() {
    every_write_goes_to_the_owner(&Sentinels::with_replicas(
        5,
        &[],
        "sentinel failover-timeout main 1000\nsentinel parallel-syncs main 5\n",
    ));
}
