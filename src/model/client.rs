//! The clients of the server that hold locks, as far as they are known: the bridge from a holder's token to a connection.
//!
//! No library stores where its holder sits. A client seen to name a lock together with the holder's token is the holder's
//! client; the server's list of clients then tells its name, its library and when it is gone.

use std::collections::HashMap;
use std::fmt;

use super::{NodeId, Time};

/// The other end of a client's connection as the server writes it: `10.0.3.7:51322`. Clients of a socket file share
/// one, so that it names nobody, and is not kept.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(Box<str>);

impl Address {
    /// `None` where the text names no single client.
    pub fn parse(text: &str) -> Option<Address> {
        let named = text.len() <= 64 && !text.starts_with("unix:") && !text.starts_with('/');
        let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
        (named && port.is_some()).then(|| Address(text.into()))
    }

    /// The same of bytes that MONITOR shows.
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

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::text::visible(self.0.as_bytes()))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// A connection, as the server's list of clients tells of it. Texts are as clients gave them: show them escaped.
#[derive(Clone, PartialEq, Debug)]
pub struct Connection {
    pub address: Address,
    /// The server's number for it, which no other connection ever gets; `None` until it was listed.
    pub id: Option<u64>,
    pub name: Option<String>,
    /// The client library and its version.
    pub library: Option<String>,
    pub user: Option<String>,
    /// When it was opened.
    pub since: Option<Time>,
    /// When it was last seen, in a burst or in the list.
    pub seen: Time,
    /// When it was first found to be gone.
    pub closed: Option<Time>,
}

impl Connection {
    pub fn new(address: Address, seen: Time) -> Connection {
        Connection { address, id: None, name: None, library: None, user: None, since: None, seen, closed: None }
    }
}

/// Which connections the server was asked about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    All,
    /// Those with these numbers.
    Ids(Vec<u64>),
}

/// Where a connection is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClientRef(u64);

/// All that are known, bounded: of too many the one goes that was seen least lately.
#[derive(Debug, Default)]
pub(super) struct Clients {
    known: HashMap<u64, (NodeId, Connection)>,
    by_address: HashMap<(NodeId, Address), u64>,
    next: u64,
}

impl Clients {
    const MOST: usize = 4_096;

    pub fn get(&self, client: ClientRef) -> Option<&Connection> {
        self.known.get(&client.0).map(|(_, connection)| connection)
    }

    /// The connections of a node that are not known to be closed.
    pub fn open(&self, node: NodeId) -> impl Iterator<Item = &Connection> {
        let here = self.known.values().filter(move |(of, _)| *of == node);
        here.map(|(_, connection)| connection).filter(|connection| connection.closed.is_none())
    }

    /// A client with this address did something at that time.
    pub fn spoke(&mut self, node: NodeId, address: &Address, at: Time) -> ClientRef {
        let of = (node, address.clone());
        if let Some(id) = self.by_address.get(&of)
            && let Some((_, known)) = self.known.get_mut(id)
            // An address is given to another connection once the first is gone.
            && known.closed.is_none_or(|closed| at <= closed)
        {
            known.seen = known.seen.max(at);
            return ClientRef(*id);
        }
        if self.known.len() >= Self::MOST {
            self.drop_oldest();
        }
        self.next += 1;
        self.by_address.insert(of, self.next);
        self.known.insert(self.next, (node, Connection::new(address.clone(), at)));
        ClientRef(self.next)
    }

    /// Takes in what the server listed at `at`. Whoever was asked for and is not in it is gone.
    pub fn listed(&mut self, node: NodeId, asked: &Asked, present: Vec<Connection>, at: Time) {
        let mut present: HashMap<Address, Connection> =
            present.into_iter().map(|connection| (connection.address.clone(), connection)).collect();
        for (of, known) in self.known.values_mut() {
            let asked_for = match asked {
                Asked::All => true,
                Asked::Ids(ids) => known.id.is_some_and(|id| ids.contains(&id)),
            };
            // Who spoke after the question was sent may not be in the answer.
            if *of != node || known.closed.is_some() || !asked_for || known.seen > at {
                continue;
            }
            match present.remove(&known.address) {
                Some(listed) if known.id.is_none_or(|id| listed.id == Some(id)) => {
                    *known = Connection { seen: at, ..listed }
                }
                _ => known.closed = Some(at),
            }
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.known.iter().min_by_key(|(_, (_, connection))| connection.seen).map(|(id, _)| *id);
        if let Some((node, gone)) = oldest.and_then(|id| self.known.remove(&id)) {
            let of = (node, gone.address);
            if self.by_address.get(&of) == oldest.as_ref() {
                self.by_address.remove(&of);
            }
        }
    }
}
