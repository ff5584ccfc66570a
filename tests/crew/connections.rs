//! How a library uses connections: what the server sees of a process that holds a lock.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Connection;

use crate::common::Server;
use crate::models::Wire;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Uses {
    /// One for the process, for everything it does: multiplexed, or a pool that prefers the recent one.
    One,
    /// A pool of so many, each in its turn.
    InTurn(usize),
    /// A new one for each call: redigo's `MaxIdle 0`, some proxies.
    EachCall,
    /// One for each piece of work, closed after it: PHP.
    EachWork,
    /// One that is closed after so long without use, and opened again when it is needed.
    ClosesIdle(Duration),
}

/// The connections of one process.
pub struct Connections {
    server: Arc<Server>,
    uses: Uses,
    open: VecDeque<(Connection, Instant)>,
}

impl Connections {
    pub fn new(server: Arc<Server>, uses: Uses) -> Connections {
        let mut all = Connections { server, uses, open: VecDeque::new() };
        if let Uses::InTurn(size) = uses {
            (0..size).for_each(|_| all.open.push_back((all.server.connection(), Instant::now())));
        }
        all
    }

    /// Makes one call of the library.
    pub fn call<T>(&mut self, call: impl FnOnce(&mut Wire) -> T) -> T {
        self.close_idle();
        let taken = self.open.pop_front().map(|(connection, _)| connection);
        let mut wire = Wire::new(taken.unwrap_or_else(|| self.server.connection()));
        let result = call(&mut wire);
        if self.uses != Uses::EachCall {
            self.open.push_back((wire.into_connection(), Instant::now()));
        }
        result
    }

    /// One more that waits for messages on a channel.
    pub fn subscribe(&self, channel: &[u8]) -> Connection {
        let mut connection = self.server.connection();
        let line = redis::cmd("SUBSCRIBE").arg(channel).get_packed_command();
        connection.send_packed_command(&line).expect("a server that takes it");
        connection
    }

    /// A piece of work is over.
    pub fn work_is_over(&mut self) {
        if self.uses == Uses::EachWork {
            self.open.clear();
        }
    }

    /// For pools that close what nobody used: call it now and then.
    pub fn close_idle(&mut self) {
        if let Uses::ClosesIdle(after) = self.uses {
            self.open.retain(|(_, used)| used.elapsed() < after);
        }
    }

    /// The process died: the system closes all it had.
    pub fn die(&mut self) {
        self.open.clear();
    }
}
