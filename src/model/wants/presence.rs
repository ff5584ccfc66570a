//! Where a holder is: which of the server's clients it is, by what bursts of MONITOR have shown of its token, or by the
//! name, host or address that its value and the list of clients have in common.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::instance::Standing;
use crate::base::server_text::ServerText;
use crate::base::time::Time;
use crate::lock::Holder;
use crate::model::history::pattern;
use crate::model::table::Table;
use crate::model::{Connection, Lock};

/// Where a holder is, as far as is known.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Presence {
    Unknown,
    /// By this connection, and by so many more.
    Connected {
        by: MatchedBy,
        connection: Connection,
        more: usize,
    },
    /// All connections that it was seen to use are closed, this one last. `like_it`: others from there by its name and
    /// user are open; `None` where nobody looked.
    Closed {
        connection: Connection,
        like_it: Option<bool>,
    },
    /// No client goes by the name that its value tells, while others go by names like it.
    Absent,
}

/// What the holder and the client have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MatchedBy {
    /// The client was seen to use the holder's token.
    Token,
    /// The client's name is in the holder's value.
    Name,
    /// The client's address, with its port, is the holder's value.
    Address,
    /// The client's host is in the holder's value: other processes may run there.
    Host,
}

impl MatchedBy {
    pub fn name(self) -> &'static str {
        match self {
            MatchedBy::Token => "token",
            MatchedBy::Name => "name",
            MatchedBy::Address => "address",
            MatchedBy::Host => "host",
        }
    }
}

impl Presence {
    /// The connection that tells most.
    pub fn connection(&self) -> Option<&Connection> {
        match self {
            Presence::Connected { connection, .. } | Presence::Closed { connection, .. } => Some(connection),
            Presence::Unknown | Presence::Absent => None,
        }
    }

    /// Whether the holder is connected; `None` where that is not known.
    pub fn is_connected(&self) -> Option<bool> {
        match self {
            Presence::Connected { by: MatchedBy::Host, .. } | Presence::Unknown => None,
            // Heard of, and not listed yet: it may have closed right after.
            Presence::Connected { connection, .. } => connection.id.map(|_| true),
            Presence::Absent | Presence::Closed { like_it: Some(false), .. } => Some(false),
            Presence::Closed { .. } => None,
        }
    }

    /// In one clause, as it was at `now`.
    pub fn describe(&self, now: Time) -> String {
        const NONE: &str = "no such client is connected";
        match self {
            Presence::Unknown => "not known: a burst of MONITOR would show it".into(),
            Presence::Absent => NONE.into(),
            Presence::Closed { connection, like_it: Some(false) } => format!("{}; {NONE}", connection.describe(now)),
            Presence::Closed { connection, .. } => connection.describe(now),
            Presence::Connected { by, connection, more } => {
                let how = match by {
                    MatchedBy::Token | MatchedBy::Address => "",
                    MatchedBy::Name => "; by its name",
                    MatchedBy::Host => "; by its host, where others may run",
                };
                let more = if *more > 0 { format!("; and {more} more") } else { String::new() };
                format!("{}{how}{more}", connection.describe(now))
            }
        }
    }
}

/// The clients of a node, as they were last listed.
#[derive(Debug, Default)]
pub(in crate::model) struct Roster {
    connections: Vec<Connection>,
    by_name: HashMap<ServerText, Vec<u32>>,
    by_host: HashMap<Box<str>, Vec<u32>>,
    by_address: HashMap<Box<str>, u32>,
    /// What their names have in common, without the numbers in them.
    patterns: HashSet<Vec<u8>>,
}

impl Roster {
    pub fn new(connections: Vec<Connection>) -> Roster {
        let mut roster = Roster { connections, ..Roster::default() };
        for (index, connection) in (0_u32..).zip(&roster.connections) {
            if connection.is_ours() {
                continue;
            }
            if let Some(name) = &connection.name {
                roster.by_name.entry(name.clone()).or_default().push(index);
                roster.patterns.extend(pattern_of(name.as_bytes()));
            }
            roster.by_host.entry(connection.address.host().into()).or_default().push(index);
            roster.by_address.insert(connection.address.as_str().into(), index);
        }
        roster
    }

    fn find(&self, holder: &Holder) -> Option<(MatchedBy, Vec<&Connection>)> {
        let named = texts(holder).find_map(|text| self.by_name.get(&ServerText::from(text)));
        if let Some(named) = named {
            return Some((MatchedBy::Name, self.at(named)));
        }
        let address = std::str::from_utf8(holder.token.as_bytes()).ok().and_then(|text| self.by_address.get(text));
        if let Some(index) = address {
            return Some((MatchedBy::Address, self.at(&[*index])));
        }
        let there = std::str::from_utf8(bytes(&holder.host)?).ok().and_then(|host| self.by_host.get(host))?;
        Some((MatchedBy::Host, self.at(there)))
    }

    /// Clients have names like those that the holder's value tells: then one that is missing says something.
    fn names_like(&self, holder: &Holder) -> bool {
        !self.patterns.is_empty()
            && texts(holder).filter_map(pattern_of).any(|pattern| self.patterns.contains(&pattern))
    }

    fn at(&self, indices: &[u32]) -> Vec<&Connection> {
        indices.iter().filter_map(|index| self.connections.get(*index as usize)).collect()
    }
}

/// What of a holder may be a client's name.
fn texts(holder: &Holder) -> impl Iterator<Item = &[u8]> {
    [Some(holder.token.as_bytes()), bytes(&holder.client), bytes(&holder.host)].into_iter().flatten()
}

/// A name without the numbers in it: `orders-*`; `None` where it has no numbers, or nothing else.
fn pattern_of(name: &[u8]) -> Option<Vec<u8>> {
    let mut pattern = Vec::new();
    pattern::write(name, &mut pattern);
    let (numbers, words) = (pattern.contains(&b'*'), pattern.iter().any(u8::is_ascii_alphabetic));
    (numbers && words).then_some(pattern)
}

fn bytes(text: &Option<ServerText>) -> Option<&[u8]> {
    text.as_ref().map(ServerText::as_bytes)
}

impl Table {
    /// Where a holder of the lock is.
    pub(in crate::model) fn presence(&self, lock: &Lock, holder: &Holder) -> Presence {
        let instance = self.clients.instance_of(lock.node, holder);
        match self.clients.standing(instance) {
            Standing::Open(connection) => {
                let more = self.clients.open_of(instance).saturating_sub(1);
                return Presence::Connected { by: MatchedBy::Token, connection: connection.clone(), more };
            }
            Standing::Closed(closed) => {
                return Presence::Closed { connection: closed.connection.clone(), like_it: closed.like_it() };
            }
            Standing::Unknown => {}
        }
        let Some(roster) = self.rosters.get(&lock.node) else { return Presence::Unknown };
        if let Some((by, found)) = roster.find(holder)
            && let Some(connection) = found.iter().max_by_key(|connection| connection.used)
        {
            return Presence::Connected { by, connection: (*connection).clone(), more: found.len() - 1 };
        }
        if roster.names_like(holder) { Presence::Absent } else { Presence::Unknown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Address;

    fn listed(address: &str, name: &str) -> Connection {
        let name = Some(name.into()).filter(|_| !name.is_empty());
        Connection { id: Some(1), name, ..Connection::new(Address::parse(address).unwrap(), Time(0)) }
    }

    fn found(roster: &Roster, holder: &Holder) -> Option<(MatchedBy, usize)> {
        roster.find(holder).map(|(by, found)| (by, found.len()))
    }

    #[test]
    fn a_holder_is_found_by_name_address_or_host() {
        let roster = Roster::new(vec![
            listed("10.0.3.7:51322", "orders-1"),
            listed("10.0.3.7:51323", "orders-1"),
            listed("10.0.3.8:40000", ""),
            listed("10.0.3.9:40000", "lockscope"),
        ]);
        assert_eq!(found(&roster, &Holder::new(b"orders-1")), Some((MatchedBy::Name, 2)));
        assert_eq!(found(&roster, &Holder::new(b"10.0.3.8:40000")), Some((MatchedBy::Address, 1)));
        let on_host = |host: &str| Holder { host: Some(host.into()), ..Holder::new(b"token") };
        assert_eq!(found(&roster, &on_host("10.0.3.7")), Some((MatchedBy::Host, 2)));
        assert_eq!(found(&roster, &on_host("orders-1")), Some((MatchedBy::Name, 2)), "clients are named by their host");
        assert_eq!(found(&roster, &on_host("10.0.3.9")), None, "we hold nothing");
        assert_eq!(found(&roster, &Holder::new(b"\xff")), None);
        assert!(roster.names_like(&Holder::new(b"orders-7")), "such clients have names, and it is not among them");
        assert!(!roster.names_like(&Holder::new(b"invoices-7")) && !roster.names_like(&Holder::new(b"42")));
    }

    #[test]
    fn a_host_does_not_show_that_a_process_is_there() {
        let connection = listed("10.0.3.7:51322", "");
        let at = |by| Presence::Connected { by, connection: connection.clone(), more: 0 };
        assert_eq!(at(MatchedBy::Host).is_connected(), None);
        assert_eq!(at(MatchedBy::Name).is_connected(), Some(true));
        let unlisted = Connection { id: None, ..connection.clone() };
        let heard = Presence::Connected { by: MatchedBy::Token, connection: unlisted, more: 0 };
        assert_eq!(heard.is_connected(), None, "it may have closed right after it was heard of");
        let closed = |like_it| Presence::Closed { connection: connection.clone(), like_it };
        assert_eq!(closed(Some(true)).is_connected(), None, "another of them may be its own");
        assert_eq!(closed(None).is_connected(), None);
        assert_eq!(closed(Some(false)).is_connected(), Some(false));
    }
}
