//! Five million keys on a private server, fifty thousand of them locks, and the server's statistics of calls.

use std::time::Instant;

use redis::{Connection, cmd};

use crate::common::Server;
use crate::common::server::field;

pub const KEYS: usize = 5_000_000;
pub const LOCKS: usize = 50_000;
const LEASE_MS: usize = 24 * 3_600_000;
const BATCH: usize = 10_000;

pub struct Keyspace {
    pub server: Server,
}

/// What a command cost the server: calls and microseconds.
#[derive(Clone, Copy)]
pub struct Cost {
    pub calls: u64,
    pub us: u64,
}

impl Keyspace {
    pub fn populate() -> Keyspace {
        let began = Instant::now();
        let server = start();
        let mut conn = server.connection();
        fill(&mut conn, KEYS - LOCKS);
        take_locks(&mut conn);
        let keys: usize = server.ask(&["DBSIZE"]);
        assert_eq!(keys, KEYS, "the keyspace is not what it should be");
        eprintln!("{KEYS} keys, {LOCKS} of them locks, in {:.0} s", began.elapsed().as_secs_f64());
        Keyspace { server }
    }

    pub fn scan_cost(&self) -> Cost {
        self.cost_of("scan")
    }

    pub fn cost_of(&self, command: &str) -> Cost {
        let info: String = self.server.ask(&["INFO", "commandstats"]);
        let line = field(&info, &format!("cmdstat_{command}")).unwrap_or_default();
        let part = |name| {
            let parts = line.split(',').filter_map(|part| part.split_once('='));
            parts.into_iter().find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
        };
        Cost { calls: part("calls"), us: part("usec") }
    }

    /// Makes the server log commands that take longer than this.
    pub fn remember_slower_than(&self, us: u64) {
        let _: () = self.server.ask(&["CONFIG", "SET", "slowlog-max-len", "1000000"]);
        let _: () = self.server.ask(&["CONFIG", "SET", "slowlog-log-slower-than", &us.to_string()]);
        let _: () = self.server.ask(&["SLOWLOG", "RESET"]);
    }

    /// How many slow SCAN calls the server logged.
    pub fn slow_scans(&self) -> u64 {
        type Entry = (u64, u64, u64, Vec<String>, String, String);
        let entries: Vec<Entry> = self.server.ask(&["SLOWLOG", "GET", "1000000"]);
        entries.iter().filter(|entry| entry.3.first().is_some_and(|name| name.eq_ignore_ascii_case("scan"))).count()
            as u64
    }
}

impl Cost {
    pub fn since(self, before: Cost) -> Cost {
        Cost { calls: self.calls - before.calls, us: self.us - before.us }
    }
}

/// Redis 7.0 and later refuse DEBUG by default; older servers do not have the setting that permits it.
fn start() -> Server {
    let server = Server::start();
    let knows: Vec<String> = server.ask(&["CONFIG", "GET", "enable-debug-command"]);
    if knows.is_empty() { server } else { Server::with(&["--enable-debug-command", "yes"]) }
}

fn fill(conn: &mut Connection, keys: usize) {
    conn.set_read_timeout(None).expect("no limit can be set on any socket");
    if cmd("DEBUG").arg("POPULATE").arg(keys).arg("key").arg(16).exec(conn).is_ok() {
        return;
    }
    for first in (0..keys).step_by(BATCH) {
        let mut pipe = redis::pipe();
        for index in first..keys.min(first + BATCH) {
            pipe.cmd("SET").arg(format!("key:{index}")).arg(format!("value:{index:010}")).ignore();
        }
        pipe.exec(conn).expect("the server takes keys");
    }
}

/// One in ten as Redisson takes them, the rest by plain SET NX.
fn take_locks(conn: &mut Connection) {
    for first in (0..LOCKS).step_by(BATCH) {
        let mut pipe = redis::pipe();
        for index in first..first + BATCH {
            if index % 10 == 0 {
                let key = format!("lock:order:{index}");
                pipe.cmd("HINCRBY").arg(&key).arg(format!("{}:{}", uuid(index), index % 97)).arg(1).ignore();
                pipe.cmd("PEXPIRE").arg(&key).arg(LEASE_MS).ignore();
            } else {
                pipe.cmd("SET").arg(format!("lock:job:{index}")).arg(uuid(index)).arg("NX").arg("PX").arg(LEASE_MS);
                pipe.ignore();
            }
        }
        pipe.exec(conn).expect("the server takes locks");
    }
}

/// A token in the shape of a random UUID, different for each number.
pub fn uuid(number: usize) -> String {
    let high = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let low = high.rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
    format!("{a:08x}-{b:04x}-4{c:03x}-9{:03x}-{:012x}", low >> 52, low & 0xffff_ffff_ffff)
}
