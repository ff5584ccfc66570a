//! The connections of the clients that hold locks, as far as they are known.
//!
//! No library stores where its holder sits. A client seen to name a lock together with the holder's token is the holder's
//! client; the server's list of clients then tells its name, its library and when it is gone. Whose connections they are,
//! and what their closing says, is in `instance.rs`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::server_text::ServerText;
use crate::base::text::{is_plain, short_duration, visible};
use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::wants::instance::{InstanceId, Instances};

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

/// A connection, as the server's list of clients tells of it.
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
    /// When it last sent a command, by the list: the server tells that in whole seconds.
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
        let mut who: Vec<String> = [&self.name, &self.library].into_iter().flatten().map(ServerText::visible).collect();
        who.extend(self.user.as_ref().map(|user| format!("user {}", user.visible())));
        let who = if who.is_empty() { String::new() } else { format!(" ({})", who.join(", ")) };
        let ago = |at: Time| short_duration(now.since(at).as_millis() as u64);
        let there = match (self.closed, self.since) {
            (Some(closed), _) => format!("closed {} ago", ago(closed)),
            (None, Some(since)) => format!("open for {}", ago(since)),
            (None, None) => format!("seen {} ago", ago(self.seen)),
        };
        let idle = self.idle_ms(now).filter(|ms| *ms >= 1_000).map(|ms| format!(", idle for {}", short_duration(ms)));
        format!("{}{who}, {there}{}", self.address, idle.unwrap_or_default())
    }

    /// For how long it has sent nothing; `None` where it is closed, or nobody told.
    pub fn idle_ms(&self, now: Time) -> Option<u64> {
        self.used.filter(|_| self.closed.is_none()).map(|used| now.since(used).as_millis() as u64)
    }

    /// One of our own.
    pub fn is_ours(&self) -> bool {
        self.name.as_ref().is_some_and(|name| name.as_bytes() == OURS)
    }

    /// Whoever connects from there by that name as that user is taken for the same client.
    fn kin(&self) -> Kin {
        Kin { name: self.name.clone(), host: self.address.host().into(), user: self.user.clone() }
    }
}

/// The name that we give our own connections.
const OURS: &[u8] = b"lockscope";

/// What all connections of one client have in common.
#[derive(PartialEq, Eq, Hash)]
struct Kin {
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

/// Where a connection is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::model) struct ClientRef(u64);

/// One connection, and what tells it from another with the same address.
#[derive(Debug)]
pub(super) struct Known {
    node: NodeId,
    pub(super) connection: Connection,
    /// When it was first and last seen to name a lock together with its holder's token.
    first: Time,
    spoke: Time,
    /// When it last sent a command, as far as is known.
    used: Time,
    /// The longest that it was open between two commands.
    rested: Duration,
    /// When it was found to be gone, another connection had its address already.
    replaced: bool,
    /// What the whole list told since it closed; `None` where none was asked for since.
    pub(super) since_then: Option<SinceThen>,
}

/// What became of a client after one of its connections closed, as the whole list tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SinceThen {
    /// Another connection from there by its name and user was opened since.
    pub reopened: bool,
    /// Others from there by its name and user are open, whenever they were opened.
    pub peers: bool,
}

/// How long a connection was seen to be kept open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::model) enum Kept {
    /// For one command only, as far as is known.
    No,
    /// Without being used again.
    Idle,
    /// And used again.
    Used,
}

/// How a listed connection relates to a known one.
enum Likeness {
    Same,
    /// A later one, with the same address.
    Other,
    /// What seemed to be one connection were two.
    Mixed,
}

impl Known {
    /// Until its id is known, the age decides; within a second or two of doubt, the holder counts as alive.
    fn compare(&self, listed: &Connection) -> Likeness {
        let opened_after = |at: Time| listed.since.is_some_and(|since| since - Clients::GRAIN > at);
        match self.connection.id {
            Some(id) if listed.id == Some(id) => Likeness::Same,
            Some(_) => Likeness::Other,
            None if opened_after(self.connection.seen) => Likeness::Other,
            None if opened_after(self.first) => Likeness::Mixed,
            None => Likeness::Same,
        }
    }

    /// It sent a command then.
    fn uses(&mut self, at: Time) {
        if at > self.used {
            self.rested = self.rested.max(at.since(self.used));
            self.used = at;
        }
    }

    pub(super) fn kept(&self) -> Kept {
        // Of a connection that no list has shown, it is not known whether it was one or two.
        if self.connection.id.is_none() {
            return Kept::No;
        }
        let opened = self.connection.since.map_or(self.first, |since| since.min(self.first));
        if self.used.since(opened) >= Clients::KEPT {
            Kept::Used
        } else if self.connection.seen.since(self.used) >= Clients::OPEN {
            Kept::Idle
        } else {
            Kept::No
        }
    }

    /// It was found closed when it had sent nothing for so long, which it had not survived before: its pool may have let
    /// it go.
    pub(super) fn closed_idle(&self) -> bool {
        let idle = self.connection.closed.map_or(Duration::ZERO, |closed| closed.since(self.used));
        // Of two ends of a rest, each may be told a second or two off.
        idle > Clients::IDLE && idle + 2 * Clients::GRAIN > self.rested
    }

    /// Whether it may have spoken at that time.
    fn is_there(&self, at: Time) -> bool {
        self.connection.closed.is_none_or(|closed| at <= closed)
    }
}

/// All known connections, bounded: the one least recently seen is dropped first.
#[derive(Debug, Default)]
pub(in crate::model) struct Clients {
    known: HashMap<u64, Known>,
    /// The connections that had each address, one after the other.
    by_address: HashMap<(NodeId, Address), Vec<u64>>,
    next: u64,
    /// Whose connections they are.
    pub(super) instances: Instances,
}

impl Clients {
    const MOST: usize = 4_096;
    /// The server tells ages in whole seconds, and takes whole seconds of its own clock for them.
    pub(super) const GRAIN: Duration = Duration::from_secs(2);
    /// An address is not given to another connection so soon after it was seen.
    const UNLISTED: Duration = Duration::from_secs(10);
    /// A connection whose first and last command are this far apart was kept. The server tells both in whole seconds.
    const KEPT: Duration = Duration::from_secs(2);
    /// A client that keeps no connection closes it long before this much time has passed since the command.
    const OPEN: Duration = Duration::from_secs(1);
    /// No pool lets go of a connection that was used this lately: the shortest usual limit is 10 s, and the list is asked
    /// for every two.
    const IDLE: Duration = Duration::from_secs(8);

    pub(super) fn get(&self, client: ClientRef) -> Option<&Known> {
        self.known.get(&client.0)
    }

    /// Something is to be learnt from the whole list: the number of a connection, or what became of its client.
    pub fn are_unlisted(&self, node: NodeId) -> bool {
        self.known.values().filter(|known| known.node == node).any(|known| match known.connection.closed {
            None => known.connection.id.is_none(),
            Some(_) => known.since_then.is_none(),
        })
    }

    /// The connections of a node that are not known to be closed.
    pub fn open(&self, node: NodeId) -> impl Iterator<Item = &Connection> {
        let here = self.known.values().filter(move |known| known.node == node);
        here.map(|known| &known.connection).filter(|connection| connection.closed.is_none())
    }

    /// A client with this address did something at that time. `None` if it may have been one of two.
    pub fn spoke(&mut self, node: NodeId, address: &Address, at: Time) -> Option<ClientRef> {
        let of = (node, address.clone());
        let had = self.by_address.get(&of).into_iter().flatten();
        // An address is reused only after its connection is gone.
        let then = had.copied().find(|id| self.known.get(id).is_some_and(|known| known.is_there(at)));
        if let Some(known) = then.and_then(|id| self.known.get_mut(&id)) {
            let opened_later = known.connection.since.is_some_and(|since| at < since - Self::GRAIN);
            let unseen = match known.connection.id {
                // Since it was last listed, another connection may have got its address.
                Some(_) => at > known.connection.seen + Self::UNLISTED,
                None => false,
            };
            if opened_later || unseen || (known.replaced && at > known.connection.seen) {
                return None;
            }
            known.connection.seen = known.connection.seen.max(at);
            known.first = known.first.min(at);
            known.spoke = known.spoke.max(at);
            known.uses(at);
            return then.map(ClientRef);
        }
        if self.known.len() >= Self::MOST {
            self.drop_oldest();
        }
        self.next += 1;
        self.by_address.entry(of).or_default().push(self.next);
        let connection = Connection::new(address.clone(), at);
        let (rested, since_then) = (Duration::ZERO, None);
        let known = Known { node, connection, first: at, spoke: at, used: at, rested, replaced: false, since_then };
        self.known.insert(self.next, known);
        Some(ClientRef(self.next))
    }

    /// Takes in what the server listed at `at`. Whoever was asked for and is not in it is gone.
    pub fn listed(&mut self, node: NodeId, asked: &Asked, present: Vec<Connection>, at: Time) {
        let kin = if *asked == Asked::All { kin_of(&present) } else { HashMap::new() };
        let mut present: HashMap<Address, Connection> =
            present.into_iter().map(|connection| (connection.address.clone(), connection)).collect();
        let asked: Option<HashSet<u64>> = match asked {
            Asked::All => None,
            Asked::Ids(ids) => Some(ids.iter().copied().collect()),
        };
        let mut mixed = Vec::new();
        for (id, known) in &mut self.known {
            let connection = &known.connection;
            let asked_for = asked.as_ref().is_none_or(|ids| connection.id.is_some_and(|id| ids.contains(&id)));
            // A client that spoke after the request may be missing in the answer, and an old answer says nothing new.
            if known.node != node || connection.closed.is_some() || !asked_for || connection.seen > at {
                continue;
            }
            let listed = present.remove(&connection.address);
            match listed.map(|listed| (known.compare(&listed), listed)) {
                Some((Likeness::Same, listed)) => {
                    listed.used.into_iter().for_each(|used| known.uses(used));
                    known.connection = Connection { seen: at, ..listed };
                }
                Some((Likeness::Mixed, _)) => mixed.push(*id),
                other => {
                    known.connection.closed = Some(at);
                    known.replaced = other.is_some();
                }
            }
        }
        for id in mixed {
            self.forget(id);
        }
        if asked.is_none() {
            self.learn_since(node, &kin, at);
        }
    }

    /// Takes in what the whole list tells of clients that had a connection which closed.
    fn learn_since(&mut self, node: NodeId, kin: &HashMap<Kin, Option<Time>>, at: Time) {
        for known in self.known.values_mut().filter(|known| known.node == node) {
            if known.connection.closed.is_none_or(|closed| closed > at) {
                continue;
            }
            let newest = kin.get(&known.connection.kin());
            let opened = newest.copied().flatten().is_some_and(|since| since + Self::GRAIN > known.connection.seen);
            let reopened = opened || known.since_then.is_some_and(|then| then.reopened);
            known.since_then = Some(SinceThen { reopened, peers: newest.is_some() });
        }
    }

    /// Forgets the connections of a node by which none of its locks is held any more, and which did not speak since
    /// `before`: `used` are the instances that hold some.
    pub fn keep(&mut self, node: NodeId, used: &HashSet<InstanceId>, before: Time) {
        let used: HashSet<ClientRef> = self.instances.keep(node, used, before);
        let unused = |(id, known): (&u64, &Known)| {
            (known.node == node && known.spoke < before && !used.contains(&ClientRef(*id))).then_some(*id)
        };
        let unused: Vec<u64> = self.known.iter().filter_map(unused).collect();
        for id in unused {
            self.forget(id);
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.known.iter().min_by_key(|(_, known)| known.connection.seen).map(|(id, _)| *id) {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, id: u64) {
        let Some(gone) = self.known.remove(&id) else { return };
        let of = (gone.node, gone.connection.address);
        if let Some(had) = self.by_address.get_mut(&of) {
            had.retain(|other| *other != id);
            if had.is_empty() {
                self.by_address.remove(&of);
            }
        }
    }
}

/// The clients of a list, ours left out, each with when it last opened a connection.
fn kin_of(present: &[Connection]) -> HashMap<Kin, Option<Time>> {
    let mut kin: HashMap<Kin, Option<Time>> = HashMap::new();
    for connection in present.iter().filter(|connection| !connection.is_ours()) {
        let newest = kin.entry(connection.kin()).or_default();
        *newest = (*newest).max(connection.since);
    }
    kin
}

#[cfg(test)]
mod tests;
