//! A holder of locks: a process, or all users of one token, with the connections that were seen.
//!
//! What is learnt of one of its locks holds for all of them. A closed connection is evidence only of a client that keeps
//! its connections: one that opens another for each command, or whose pool lets go of idle ones, closes them while it
//! works. So all that are known must be closed, one of them must have been kept, and none like it opened since.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

// Its hashes are quick: every verdict asks for an instance.
use hashbrown::{DefaultHashBuilder, HashMap};

use super::client::{ClientRef, Clients, Kept, Known};
use crate::base::time::Time;
use crate::lock::{Holder, NodeId, Token};
use crate::model::history::cadence::Rhythm;
use crate::model::{Address, Connection, Lock};

/// An instance at a node, by a hash of its name: small, since every lock has one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InstanceId(u64);

/// A holder by a hash of its token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::model) struct HolderId(u64);

#[derive(Debug)]
struct Instance {
    node: NodeId,
    /// The connections that it was seen to use, the one heard of last at the end.
    connections: Vec<ClientRef>,
    heard: Time,
    /// It was heard of over another connection after one of its own had closed.
    spoke_since: bool,
    /// A lock of its was renewed after all of its connections had closed.
    acted_since: bool,
}

/// All that were heard of, bounded.
#[derive(Debug, Default)]
pub(in crate::model) struct Instances {
    hasher: DefaultHashBuilder,
    known: HashMap<InstanceId, Instance, BuildHasherDefault<AsItIs>>,
}

/// An [`InstanceId`] is a hash already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Whether the connections of a holder are open.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum Standing<'a> {
    /// None is known.
    Unknown,
    /// This one is not known to be closed.
    Open(&'a Connection),
    /// All of them are closed.
    Closed(Closed<'a>),
}

impl<'a> Standing<'a> {
    /// The most informative connection.
    pub fn connection(self) -> Option<&'a Connection> {
        match self {
            Standing::Unknown => None,
            Standing::Open(connection) => Some(connection),
            Standing::Closed(closed) => Some(closed.connection),
        }
    }
}

/// A holder whose known connections are all closed.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Closed<'a> {
    /// The last of them.
    pub connection: &'a Connection,
    pub at: Time,
    pub kept: Kept,
    pub doubt: Option<Doubt>,
    /// Other connections from there by its name and user are open.
    pub peers: bool,
    /// It was heard of over another connection after one had closed.
    pub spoke_since: bool,
}

impl Closed<'_> {
    /// It shows that the holder of this lock is gone. What was kept open and not used again shows it only where nobody
    /// leaves the lock on purpose: one with an end may be meant to run out.
    pub fn is_proof(&self, lock: &Lock) -> bool {
        let kept = match self.kept {
            Kept::Used => !lock.is_left_by_processes(),
            Kept::Idle => lock.expires().is_none(),
            Kept::No => false,
        };
        kept && self.doubt.is_none()
    }

    /// Together with a renewal that did not come, it shows that too: a pool that lets go of an idle connection opens
    /// another to renew.
    pub fn is_proof_with(&self, rhythm: Option<Rhythm>) -> bool {
        let missed = rhythm.is_some_and(|rhythm| rhythm.missed > 0);
        missed && self.kept == Kept::Used && self.doubt == Some(Doubt::Idle)
    }

    /// Whether others from there by its name and user are open; `None` where nobody looked.
    pub fn like_it(&self) -> Option<bool> {
        (self.doubt != Some(Doubt::Unlisted)).then_some(self.peers || self.doubt == Some(Doubt::Reopened))
    }
}

/// Why closed connections do not show that a holder is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::model) enum Doubt {
    /// It went on after one had closed.
    LetsGo,
    /// Another from there by its name and user was opened since.
    Reopened,
    /// Nobody has looked whether another was opened since.
    Unlisted,
    /// It had not been used for longer than ever before: a pool may have let it go.
    Idle,
}

impl Instances {
    const MOST: usize = 20_000;
    /// Of one instance.
    const CONNECTIONS: usize = 64;

    /// Forgets the instances of a node that hold none of its locks, have no telling connection and were not heard of since
    /// `before`. The connections of those that stay.
    pub(super) fn keep(
        &mut self,
        node: NodeId,
        (used, telling): (&HashSet<InstanceId>, &HashSet<ClientRef>),
        before: Time,
    ) -> HashSet<ClientRef> {
        let tells = |instance: &Instance| instance.connections.iter().any(|client| telling.contains(client));
        self.known.retain(|id, instance| {
            instance.node != node || instance.heard >= before || used.contains(id) || tells(instance)
        });
        let here = self.known.values().filter(|instance| instance.node == node);
        here.flat_map(|instance| instance.connections.iter().copied()).collect()
    }

    /// Makes room by leaving out the half that was heard of least lately.
    fn make_room(&mut self) {
        if self.known.len() < Self::MOST {
            return;
        }
        let mut heard: Vec<Time> = self.known.values().map(|instance| instance.heard).collect();
        let (_, middle, _) = heard.select_nth_unstable(Self::MOST / 2);
        let middle = *middle;
        self.known.retain(|_, instance| instance.heard > middle);
    }
}

impl Clients {
    /// Whether anything is known of the instance.
    pub fn knows(&self, id: InstanceId) -> bool {
        self.instances.known.contains_key(&id)
    }

    pub fn instance_of(&self, node: NodeId, holder: &Holder) -> InstanceId {
        InstanceId(self.instances.hasher.hash_one((node, holder.instance())))
    }

    /// The holder as such: a thread of an instance is one of many.
    pub fn holder_id(&self, token: &Token) -> HolderId {
        HolderId(self.instances.hasher.hash_one(token))
    }

    /// The instance spoke from this address at that time.
    pub fn heard(&mut self, node: NodeId, id: InstanceId, address: &Address, at: Time) {
        let Some(client) = self.spoke(node, address, at) else { return };
        self.instances.make_room();
        let new = Instance { node, connections: Vec::new(), heard: at, spoke_since: false, acted_since: false };
        let mut instance = self.instances.known.remove(&id).unwrap_or(new);
        let closed_before = |known: &Known| known.connection.closed.is_some_and(|closed| closed < at);
        let others = instance.connections.iter().filter(|other| **other != client);
        instance.spoke_since |= others.filter_map(|other| self.get(*other)).any(closed_before);
        instance.heard = instance.heard.max(at);
        instance.connections.retain(|other| *other != client && self.get(*other).is_some());
        if instance.connections.len() == Instances::CONNECTIONS {
            instance.connections.remove(0);
        }
        instance.connections.push(client);
        self.instances.known.insert(id, instance);
    }

    /// The instance took or renewed a lock at that time, so it lives, even if a connection had closed before.
    pub fn alive(&mut self, id: InstanceId, at: Time) {
        let Standing::Closed(closed) = self.standing(id) else { return };
        // What it did may be reported a moment after the closing that followed it.
        if at > closed.at + Clients::GRAIN
            && let Some(instance) = self.instances.known.get_mut(&id)
        {
            instance.acted_since = true;
        }
    }

    pub fn standing(&self, id: InstanceId) -> Standing<'_> {
        // Of most instances nothing is known.
        self.instances.known.get(&id).map_or(Standing::Unknown, |instance| self.standing_of(instance))
    }

    #[inline(never)]
    fn standing_of(&self, instance: &Instance) -> Standing<'_> {
        let known = || instance.connections.iter().filter_map(|client| self.get(*client));
        let open = known().filter(|known| known.connection.closed.is_none());
        if let Some(open) = open.max_by_key(|known| known.connection.seen) {
            return Standing::Open(&open.connection);
        }
        let Some(last) = known().max_by_key(|known| known.connection.closed) else { return Standing::Unknown };
        let Some(at) = last.connection.closed else { return Standing::Unknown };
        let kept = known().map(Known::kept).max().unwrap_or(Kept::No);
        let doubt = match last.since_then {
            _ if instance.spoke_since || instance.acted_since => Some(Doubt::LetsGo),
            None => Some(Doubt::Unlisted),
            Some(then) if then.reopened => Some(Doubt::Reopened),
            Some(_) => last.closed_idle().then_some(Doubt::Idle),
        };
        let peers = last.since_then.is_some_and(|then| then.peers);
        let (connection, spoke_since) = (&last.connection, instance.spoke_since);
        Standing::Closed(Closed { connection, at, kept, doubt, peers, spoke_since })
    }

    /// How many of the connections that the instance was seen to use are open.
    pub fn open_of(&self, id: InstanceId) -> usize {
        let connections = self.instances.known.get(&id).map(|instance| instance.connections.as_slice());
        let known = connections.unwrap_or_default().iter().filter_map(|client| self.get(*client));
        known.filter(|known| known.connection.closed.is_none()).count()
    }
}

#[cfg(test)]
mod tests;
