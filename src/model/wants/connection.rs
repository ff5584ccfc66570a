//! A client's connection, as MONITOR and the server's list of clients name it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::process::{NAME, connection_name};
use crate::base::server_text::ServerText;
use crate::base::text::{is_plain, short_duration, visible};
use crate::base::time::Time;

/// The other end of a client's connection as the server writes it: `10.0.3.7:51322`. Clients of a socket file share
/// one, so that it names nobody, and is not kept. It contains only printable characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "Box<str>", try_from = "Box<str>")]
pub struct Address(Box<str>);

impl Address {
    /// `None` if the text does not identify a single client.
    pub fn parse(text: &str) -> Option<Address> {
        let named =
            text.len() <= 64 && is_plain(text.as_bytes()) && !text.starts_with("unix:") && !text.starts_with('/');
        let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
        (named && port.is_some()).then(|| Address(text.into()))
    }

    /// The same from bytes that MONITOR shows.
    pub fn from_line(text: &[u8]) -> Option<Address> {
        std::str::from_utf8(text).ok().and_then(Address::parse)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without the port.
    pub fn host(&self) -> &str {
        self.0.rsplit_once(':').map_or(&*self.0, |(host, _)| host)
    }
}

impl From<Address> for Box<str> {
    fn from(address: Address) -> Box<str> {
        address.0
    }
}

impl TryFrom<Box<str>> for Address {
    type Error = String;

    fn try_from(text: Box<str>) -> Result<Address, String> {
        Address::parse(&text).ok_or_else(|| format!("{text:?} is no address of a client"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(self.0.as_bytes()))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// A connection, as the server's list of clients shows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Connection {
    pub address: Address,
    /// The server's id for it, which no other connection ever gets; `None` until it was listed.
    pub id: Option<u64>,
    pub name: Option<ServerText>,
    /// The client library and its version.
    pub library: Option<ServerText>,
    pub user: Option<ServerText>,
    /// When it was opened.
    pub since: Option<Time>,
    /// When it last sent a command, by the list: the server reports that in whole seconds.
    pub used: Option<Time>,
    /// When it was last seen, in a burst or in the list.
    pub seen: Time,
    /// When it was first found to be gone.
    pub closed: Option<Time>,
}

impl Connection {
    pub fn new(address: Address, seen: Time) -> Connection {
        let (id, name, library, user) = (None, None, None, None);
        Connection { address, id, name, library, user, since: None, used: None, seen, closed: None }
    }

    /// In one clause, as of `now`: who it is, and whether it is still open.
    pub fn describe(&self, now: Time) -> String {
        let ago = |at: Time| short_duration(now.since(at).as_millis() as u64);
        let there = match (self.closed, self.since) {
            (Some(closed), _) => format!("closed {} ago", ago(closed)),
            (None, Some(since)) => format!("open for {}", ago(since)),
            (None, None) => format!("seen {} ago", ago(self.seen)),
        };
        let idle = self.idle_ms(now).filter(|ms| *ms >= 1_000).map(|ms| format!(", idle for {}", short_duration(ms)));
        format!("{}, {there}{}", self.who(), idle.unwrap_or_default())
    }

    /// The same of one that is blocked in its last command.
    pub fn describe_blocked(&self, now: Time) -> String {
        let since = self.idle_ms(now).map(|ms| format!(" for {}", short_duration(ms))).unwrap_or_default();
        format!("{}, blocked{since}", self.who())
    }

    /// Its address, and what it gave as its name.
    fn who(&self) -> String {
        let mut who: Vec<String> = [&self.name, &self.library].into_iter().flatten().map(ServerText::visible).collect();
        who.extend(self.user.as_ref().map(|user| format!("user {}", user.visible())));
        if who.is_empty() { self.address.to_string() } else { format!("{} ({})", self.address, who.join(", ")) }
    }

    /// For how long it has sent nothing; `None` if it is closed, or if that is unknown.
    pub fn idle_ms(&self, now: Time) -> Option<u64> {
        self.used.filter(|_| self.closed.is_none()).map(|used| now.since(used).as_millis() as u64)
    }

    /// Of a lockscope: this one or another.
    pub fn is_ours(&self) -> bool {
        let rest = self.name.as_ref().and_then(|name| name.as_bytes().strip_prefix(NAME.as_bytes()));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-"))
    }

    /// Of another lockscope, whose reads look like those of a client that polls.
    pub fn is_of_another_lockscope(&self) -> bool {
        self.is_ours() && self.name.as_ref().is_some_and(|name| name.as_bytes() != connection_name().as_bytes())
    }

    /// Connections from the same host, with the same name and user, are taken for the same client.
    pub(super) fn kin(&self) -> Kin {
        Kin { name: self.name.clone(), host: self.address.host().into(), user: self.user.clone() }
    }
}

/// What all connections of one client have in common.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Kin {
    name: Option<ServerText>,
    host: Box<str>,
    user: Option<ServerText>,
}

/// Which connections the server was asked about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Asked {
    All,
    /// Those with these numbers.
    Ids(Vec<u64>),
}
