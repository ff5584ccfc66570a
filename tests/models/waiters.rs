//! python-redis-lock with ids of the caller's own, which read as anybody's, and clients that really sleep for it.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::strings::{Free, Renew, Strings, Take};
use super::{Held, Hold, Library, Snapshot, Wire, Wish};
use crate::common::{Server, wait_until};

const SIGNAL: &str = "lock-signal:nightly";

pub struct Sleepers {
    strings: Strings,
    port: u16,
    asleep: Vec<TcpStream>,
}

impl Sleepers {
    pub fn on(server: &Server) -> Sleepers {
        let token = |_, serial, _| format!("nightly-{serial}").into_bytes();
        let free = Free::Signal(SIGNAL);
        let strings = Strings { key: b"lock:nightly", take: Take::Set, renew: Renew::Expire, free, token, beside: &[] };
        Sleepers { strings, port: server.port(), asleep: Vec::new() }
    }

    /// Sleeps as the library does, until there is an item.
    fn sleep(&mut self, wire: &mut Wire) {
        // What a release left a moment ago wakes it at once.
        if wire.run::<Option<Vec<u8>>>(&[b"LPOP", SIGNAL.as_bytes()]).is_some() {
            return;
        }
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        let pop = redis::cmd("BLPOP").arg(SIGNAL).arg(0).get_packed_command();
        stream.write_all(&pop).and_then(|()| stream.set_nonblocking(true)).expect("a server that takes it");
        self.asleep.push(stream);
        until_asleep(wire, self.asleep.len());
    }

    /// Takes out those who were woken.
    fn awake(&mut self) -> usize {
        let before = self.asleep.len();
        let is_asleep =
            |stream: &mut TcpStream| stream.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        let start = Instant::now();
        // The answer to whoever woke it may come first.
        while self.asleep.len() == before && start.elapsed() < Duration::from_secs(1) {
            self.asleep.retain_mut(is_asleep);
        }
        before - self.asleep.len()
    }
}

/// Waits until the server has so many clients that sleep.
fn until_asleep(wire: &mut Wire, wanted: usize) {
    let asleep = || {
        let list: String = wire.run(&[b"CLIENT", b"LIST"]);
        list.lines().filter(|line| line.contains("cmd=blpop") && line.contains("flags=b")).count() == wanted
    };
    wait_until("the clients that sleep", Duration::from_secs(10), asleep);
}

impl Library for Sleepers {
    /// Sleepers of an earlier sequence are gone when the server has noticed it.
    fn set_up(&mut self, wire: &mut Wire) {
        until_asleep(wire, 0);
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        self.strings.keys()
    }

    fn token(&self, process: u64, serial: u64, salt: u8) -> Vec<u8> {
        self.strings.token(process, serial, salt)
    }

    fn acquire(&mut self, wire: &mut Wire, wish: &Wish) -> bool {
        let taken = self.strings.acquire(wire, wish);
        if !taken && self.asleep.len() < 2 {
            self.sleep(wire);
        }
        taken
    }

    fn renew(&mut self, wire: &mut Wire, hold: &Hold, lease: Option<u64>) -> bool {
        self.strings.renew(wire, hold, lease)
    }

    fn release(&mut self, wire: &mut Wire, hold: &Hold) -> bool {
        let freed = self.strings.release(wire, hold);
        if freed && !self.asleep.is_empty() {
            self.awake();
        }
        freed
    }

    fn expire(&mut self, wire: &mut Wire, hold: &Hold) {
        self.strings.expire(wire, hold);
    }

    fn held(&self, snapshot: &Snapshot) -> Vec<Held> {
        self.strings.held(snapshot)
    }

    fn waiting(&self) -> usize {
        self.asleep.len()
    }

    fn wakes(&mut self) -> Result<(), String> {
        match self.asleep.is_empty() || self.awake() > 0 {
            true => Ok(()),
            false => Err("freed, but those who sleep for it sleep on".into()),
        }
    }

    fn owns(&self, key: &[u8]) -> bool {
        self.strings.owns(key)
    }
}
