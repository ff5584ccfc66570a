//! The connections of the clients that hold locks, as far as they are known.
//!
//! No library stores where its holder sits. A client seen to name a lock together with the holder's token is the holder's
//! client; the server's list of clients then shows its name, its library and when it is gone. `instance.rs` knows whose
//! connections they are, and what it means when they close.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::base::time::Time;
use crate::lock::NodeId;
use crate::model::wants::connection::{Address, Asked, Connection, Kin};
use crate::model::wants::instance::{InstanceId, Instances};

/// Where a connection is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::model) struct ClientRef(u64);

/// One connection, and what distinguishes it from another with the same address.
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
    /// What the whole client list showed since it closed; `None` if none was read since.
    pub(super) since_then: Option<SinceThen>,
}

/// What became of a client after one of its connections closed, by the whole list of clients.
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

    /// It closed after it had been idle for longer than ever before: its pool may have closed it.
    pub(super) fn closed_idle(&self) -> bool {
        let idle = self.connection.closed.map_or(Duration::ZERO, |closed| closed.since(self.used));
        // Each end of a rest may be reported a second or two off.
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
    /// The server reports ages in whole seconds, computed from whole seconds of its own clock.
    pub(super) const GRAIN: Duration = Duration::from_secs(2);
    /// An address is not given to another connection so soon after it was seen.
    const UNLISTED: Duration = Duration::from_secs(10);
    /// A connection whose first and last command are this far apart was kept. The server reports both in whole seconds.
    const KEPT: Duration = Duration::from_secs(2);
    /// A client that keeps no connection closes it long before this much time has passed since the command.
    const OPEN: Duration = Duration::from_secs(1);
    /// No pool lets go of a connection that was used this lately: the shortest usual limit is 10 s, and the list is asked
    /// for every two.
    const IDLE: Duration = Duration::from_secs(8);

    /// How long a closed connection is known after it closed, though its client holds nothing: a lock may be put back.
    const REMEMBERED: Duration = Duration::from_secs(600);

    /// A restart is noticed this long after it at the latest; closed connections may be noticed first.
    const NOTICED: Duration = Duration::from_secs(10);

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

    /// Takes in what the server listed at `at`. A connection that was asked for and is not listed is gone.
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

    /// Updates clients that had a closed connection, by the whole list of clients.
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
    /// `before`: `used` are the instances that hold some. Kept connections that have closed are known for some time.
    pub fn keep(&mut self, node: NodeId, used: &HashSet<InstanceId>, before: Time) {
        // What a closed connection says of its client must outlast a release that is undone.
        let told = |(_, known): &(&u64, &Known)| {
            known.connection.closed.is_some_and(|at| at + Self::REMEMBERED >= before) && known.kept() != Kept::No
        };
        let telling: HashSet<ClientRef> = self.known.iter().filter(told).map(|(id, _)| ClientRef(*id)).collect();
        let used: HashSet<ClientRef> = self.instances.keep(node, (used, &telling), before);
        let unused = |(id, known): (&u64, &Known)| {
            (known.node == node && known.spoke < before && !used.contains(&ClientRef(*id))).then_some(*id)
        };
        let unused: Vec<u64> = self.known.iter().filter_map(unused).collect();
        for id in unused {
            self.forget(id);
        }
    }

    /// The server was restarted, as was noticed at `at`: that closed every connection, and so says nothing of its client.
    pub fn cut_off(&mut self, node: NodeId, at: Time) {
        let by_restart = |known: &Known| known.connection.closed.is_none_or(|closed| closed + Self::NOTICED >= at);
        let cut = self.known.iter().filter(|(_, known)| known.node == node && by_restart(known));
        for id in cut.map(|(id, _)| *id).collect::<Vec<_>>() {
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
