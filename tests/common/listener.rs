//! A client that listens on channels, as waiters do, and can prove that no message came.

use std::time::Duration;

use redis::{Connection, Value};

use super::server::Server;

const PATIENCE: Duration = Duration::from_secs(30);

pub struct Listener {
    connection: Connection,
    /// Its own channel, to find out how far it has read.
    fence: String,
}

impl Listener {
    /// `how` is SUBSCRIBE, PSUBSCRIBE or SSUBSCRIBE.
    pub fn on(server: &Server, how: &str, channel: &str) -> Listener {
        let mut connection = server.connection();
        connection.set_read_timeout(Some(PATIENCE)).expect("a socket with timeouts");
        let id: u64 = redis::cmd("CLIENT").arg("ID").query(&mut connection).expect("a number");
        let fence = format!("fence-{id}");
        let mut listener = Listener { connection, fence: fence.clone() };
        listener.ask(how, channel);
        listener.ask("SUBSCRIBE", &fence);
        listener
    }

    fn ask(&mut self, how: &str, channel: &str) {
        let packed = redis::cmd(how).arg(channel).get_packed_command();
        self.connection.send_packed_command(&packed).expect("the server takes it");
        self.connection.recv_response().unwrap_or_else(|error| panic!("{how} {channel}: {error}"));
    }

    /// Waits for the next message: its channel and its body.
    pub fn next(&mut self) -> (String, String) {
        let answer = self.connection.recv_response().expect("a message in time");
        let (Value::Array(parts) | Value::Push { data: parts, .. }) = answer else { panic!("{answer:?}") };
        let [.., channel, body] = parts.as_slice() else { panic!("{parts:?}") };
        let text = |part: &Value| match part {
            Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("{other:?}"),
        };
        (text(channel), text(body))
    }

    /// The bodies of all messages until now. The server sends in order, so none is missed.
    pub fn heard(&mut self, server: &Server) -> Vec<String> {
        server.cli(&["PUBLISH", &self.fence, "now"]);
        let mut bodies = Vec::new();
        loop {
            match self.next() {
                (channel, _) if channel == self.fence => return bodies,
                (_, body) => bodies.push(body),
            }
        }
    }
}
