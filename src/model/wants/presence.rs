//! Where a holder is: which of the server's clients it is, by what bursts of MONITOR have shown of its token, or by the
//! name, host or address that its value and the list of clients have in common.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};

use super::instance::{InstanceId, Standing};
use crate::base::server_text::ServerText;
use crate::base::time::Time;
use crate::dialects::DialectId;
use crate::lock::{Holder, NodeId};
use crate::model::history::pattern;
use crate::model::table::Table;
use crate::model::{Connection, Lock};

/// Where a holder is, as far as is known.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Presence {
    Unknown,
    /// By this connection, and by this many more.
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
    /// No client has the name in its value, while other clients have names like it.
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
    /// The most informative connection.
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
            Presence::Unknown => "not known; MONITOR shows it once its holder sends a command".into(),
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
    /// When they were listed, and whether another lockscope was among them.
    listed: Time,
    beside: bool,
    /// A list since then would tell whether another lockscope reads the locks.
    wanted: Option<Time>,
    /// The holders with names like these in their values, by their library and what the names have in common.
    named: HashMap<(DialectId, Vec<u8>), Named>,
}

/// Which of the holders with names in their values are connected, by hashes of the names.
#[derive(Debug, Default)]
struct Named {
    connected: HashSet<u64>,
    missing: HashSet<u64>,
}

impl Roster {
    pub fn new(connections: Vec<Connection>, listed: Time) -> Roster {
        let beside = connections.iter().any(Connection::is_of_another_lockscope);
        let mut roster = Roster { connections, listed, beside, ..Roster::default() };
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

    /// Clients have names like the one in the holder's value, so that a missing one is a sign.
    fn names_like(&self, holder: &Holder) -> bool {
        !self.patterns.is_empty()
            && texts(holder).filter_map(pattern_of).any(|pattern| self.patterns.contains(&pattern))
    }

    /// Counts a holder of that library, and whether a client has its name.
    fn take(&mut self, dialect: DialectId, holder: &Holder) {
        let Some((name, pattern)) = self.name_of(holder) else { return };
        let connected = self.by_name.contains_key(&ServerText::from(name));
        let name = hash(name);
        let named = self.named.entry((dialect, pattern)).or_default();
        if connected {
            named.connected.insert(name)
        } else {
            named.missing.insert(name)
        };
    }

    /// Whether the holder's client is missing while the clients of other holders of its library are connected. If most are
    /// missing, the library keeps no connections, and a missing one means nothing.
    fn misses(&self, dialect: DialectId, holder: &Holder) -> bool {
        let Some((name, pattern)) = self.name_of(holder) else { return false };
        let Some(named) = self.named.get(&(dialect, pattern)) else { return false };
        let missing = named.missing.contains(&hash(name)) && self.find(holder).is_none();
        missing && !named.connected.is_empty() && named.connected.len() >= named.missing.len()
    }

    /// The name in a holder's value, if clients have names like it.
    fn name_of<'a>(&self, holder: &'a Holder) -> Option<(&'a [u8], Vec<u8>)> {
        let like = |text: &'a [u8]| Some((text, pattern_of(text).filter(|pattern| self.patterns.contains(pattern))?));
        texts(holder).find_map(like)
    }

    fn at(&self, indices: &[u32]) -> Vec<&Connection> {
        indices.iter().filter_map(|index| self.connections.get(*index as usize)).collect()
    }
}

fn hash(name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
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

/// At most this many locks are decoded for one list of clients.
const DECODED: usize = 20_000;

impl Table {
    /// Records who is connected to a node, and finds the holders with names whose clients are missing.
    pub(in crate::model) fn take_roster(&mut self, node: NodeId, present: Vec<Connection>, at: Time) {
        let mut roster = Roster::new(present, at);
        self.absent.retain(|_, (of, _)| *of != node);
        // Without names in common there is nobody to miss, and no need to go through a million locks.
        if !roster.patterns.is_empty() {
            // Who holds a lock that has moved had no need to connect to its new node yet.
            let moved = |lock: &Lock| self.moved_since(lock, lock.since).is_some();
            let here = self.locks().filter(|lock| lock.node == node && lock.asked < at && !moved(lock));
            let holders = here.take(DECODED).filter_map(|lock| {
                let (id, reading) = (lock.held_by.one()?, lock.reading?);
                Some((id, reading.dialect, self.holders(lock, lock.confirmed).into_iter().next()?))
            });
            let holders: Vec<(InstanceId, DialectId, Holder)> = holders.collect();
            holders.iter().for_each(|(_, dialect, holder)| roster.take(*dialect, holder));
            // In a cluster a client connects to each node when it first needs it: it is missing if no node lists it.
            let beside: Vec<&Roster> = self.rosters_beside(node).collect();
            let missing = holders.iter().filter(|(_, dialect, holder)| {
                roster.misses(*dialect, holder) && beside.iter().all(|other| other.find(holder).is_none())
            });
            let missing: Vec<InstanceId> = missing.map(|(id, ..)| *id).collect();
            self.absent.extend(missing.into_iter().map(|id| (id, (node, at))));
        }
        self.rosters.insert(node, roster);
    }

    /// Whether the only holder of a lock has a name in its value, and no client had it in the last list.
    pub(in crate::model) fn is_absent(&self, lock: &Lock) -> bool {
        let missing = |id| self.absent.get(&id).is_some_and(|(_, at)| lock.since < *at);
        !self.absent.is_empty() && lock.held_by.one().is_some_and(missing)
    }

    /// Whether another lockscope reads this node too; `None` where the clients were not listed since `since`.
    pub(in crate::model) fn another_lockscope(&self, node: NodeId, since: Time) -> Option<bool> {
        self.rosters.get(&node).filter(|roster| roster.beside || roster.listed > since).map(|roster| roster.beside)
    }

    /// Asks for a list of the node's clients that is newer than `since`. `false` where they can't be listed.
    pub(in crate::model) fn want_list(&mut self, node: NodeId, since: Time) -> bool {
        let roster = self.rosters.get_mut(&node);
        roster.map(|roster| roster.wanted = roster.wanted.max(Some(since))).is_some()
    }

    /// Whether a newer list of the node's clients was asked for.
    pub(in crate::model) fn is_list_wanted(&self, node: NodeId) -> bool {
        self.rosters.get(&node).is_some_and(|roster| roster.wanted.is_some())
    }

    /// Whether a connected client has the name or address of the lock's only holder.
    pub(in crate::model) fn is_connected(&self, lock: &Lock, now: Time) -> bool {
        let Some(roster) = self.rosters.get(&lock.node) else { return false };
        let found = self.holders(lock, now).first().and_then(|holder| roster.find(holder)).map(|(by, _)| by);
        matches!(found, Some(MatchedBy::Name | MatchedBy::Address))
    }

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
        let listed = self.rosters_beside(lock.node).any(|other| other.find(holder).is_some());
        let missing = roster.names_like(holder) && !listed && self.moved_since(lock, lock.since).is_none();
        if missing { Presence::Absent } else { Presence::Unknown }
    }

    /// The clients of the other nodes of the same keyspace.
    fn rosters_beside(&self, node: NodeId) -> impl Iterator<Item = &Roster> {
        let space = self.space(node);
        self.rosters.iter().filter(move |(other, _)| **other != node && self.space(**other) == space).map(|(_, it)| it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::process::connection_name;
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
        let connections = vec![
            listed("10.0.3.7:51322", "orders-1"),
            listed("10.0.3.7:51323", "orders-1"),
            listed("10.0.3.8:40000", ""),
            listed("10.0.3.9:40000", connection_name()),
        ];
        let roster = Roster::new(connections, Time(0));
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
    fn a_client_is_missed_only_where_most_of_its_like_are_there() {
        let here =
            |names: &[&str]| Roster::new(names.iter().map(|name| listed("10.0.3.7:51322", name)).collect(), Time(0));
        let holders: Vec<Holder> = (1..=4).map(|number| Holder::new(format!("worker-{number}").as_bytes())).collect();
        let missed = |mut roster: Roster| {
            holders.iter().for_each(|holder| roster.take(DialectId(0), holder));
            (1..)
                .zip(&holders)
                .filter(|(_, one)| roster.misses(DialectId(0), one))
                .map(|(n, _)| n)
                .collect::<Vec<u32>>()
        };
        assert_eq!(missed(here(&["worker-1", "worker-2", "worker-3"])), [4]);
        assert_eq!(missed(here(&["worker-1", "worker-2"])), [3, 4]);
        assert!(missed(here(&["worker-1", "worker-9"])).is_empty(), "they keep no connection");
        assert!(missed(here(&["worker-8", "worker-9"])).is_empty(), "no holder is found by its name");
        assert!(missed(here(&["mail", ""])).is_empty());
        let mut roster = here(&["worker-1", "worker-2"]);
        holders[..3].iter().for_each(|holder| roster.take(DialectId(0), holder));
        assert!(!roster.misses(DialectId(1), &holders[2]), "those are of another library");
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
