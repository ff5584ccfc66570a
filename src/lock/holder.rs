//! Who holds a lock, read from its stored value.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::server_text::ServerText;
use crate::base::text;
use crate::base::time::Time;

/// The bytes that identify a holder on the server: a value, a hash field or a set member.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token(Box<[u8]>);

impl Token {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&[u8]> for Token {
    fn from(bytes: &[u8]) -> Self {
        Token(bytes.into())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::visible(&self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

/// One holder of a lock. Only the token is always there; the rest is what its library stores.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Holder {
    pub token: Token,
    pub host: Option<ServerText>,
    pub pid: Option<u64>,
    pub thread: Option<ServerText>,
    /// A name the holder gave itself: a worker, a job, a task.
    pub client: Option<ServerText>,
    /// Re-entrancy count.
    pub count: Option<i64>,
    /// When it took the lock, as the value says.
    pub since: Option<Time>,
    /// When this holder's own lease ends, where each holder has one.
    pub until: Option<Time>,
    /// This holder's mode, where it differs from the lock's.
    pub mode: Option<Mode>,
}

impl Holder {
    pub fn new(token: &[u8]) -> Holder {
        Holder {
            token: Token::from(token),
            host: None,
            pid: None,
            thread: None,
            client: None,
            count: None,
            since: None,
            until: None,
            mode: None,
        }
    }
}

impl Holder {
    /// The common name of all holders in one process, if the token has it: the instance of a thread, or machine and process.
    /// Else the token itself.
    pub fn instance(&self) -> Instance<'_> {
        match (&self.client, &self.thread, &self.host, self.pid) {
            (Some(client), Some(_), ..) => Instance::Client(client.as_bytes()),
            (_, _, Some(host), Some(pid)) => Instance::Process(host.as_bytes(), pid),
            _ => Instance::Token(self.token.as_bytes()),
        }
    }
}

/// What distinguishes one process that holds locks from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Instance<'a> {
    Client(&'a [u8]),
    Process(&'a [u8], u64),
    Token(&'a [u8]),
}

/// How a lock is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Mode {
    Exclusive,
    Read,
    Write,
    Permit,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Read => "read",
            Mode::Write => "write",
            Mode::Permit => "permit",
        }
    }
}

/// What a key is to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    Lock,
    /// "This work is done": set once with a TTL so that the work is not repeated. Nobody holds it.
    Marker,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Lock => "lock",
            Kind::Marker => "marker",
        }
    }
}
