//! Takes in what sources say of those who want locks and of the clients that hold them.

use std::collections::HashSet;

use super::table::Table;
use super::{ClientRef, Connection, Contention, Key, Lock, Mode, NodeId, Sample, Time, Tries, Waits};

impl Table {
    pub(super) fn take_count(&mut self, node: NodeId, key: &Key, waits: Waits) {
        if let Some(contention) = self.contention_of(node, key) {
            contention.waits = Some(waits);
        }
    }

    pub(super) fn take_tries(&mut self, node: NodeId, key: &Key, tries: Tries) {
        if let Some(contention) = self.contention_of(node, key) {
            contention.tries = Some(tries);
        }
    }

    pub(super) fn take_wanted(&mut self, node: NodeId, key: &Key, at: Time) {
        if let Some(contention) = self.contention_of(node, key) {
            contention.wanted = contention.wanted.max(Some(at));
        }
    }

    pub(super) fn take_sample(&mut self, node: NodeId, key: &Key, sample: Sample) {
        let Some(place) = self.place_named(node, key.as_bytes()) else { return };
        let client = sample.spoke.as_ref().and_then(|(token, address, at)| {
            let lock = self.lock_at(place).filter(|lock| lock.is_held())?;
            let alone = lock.reading().is_some_and(|reading| matches!(reading.mode, Mode::Exclusive | Mode::Write));
            // Of a lock that many hold, one client says nothing of the others; and the holder may have changed since.
            let holds = alone && self.holders(lock, lock.confirmed).iter().any(|holder| holder.token == *token);
            holds.then(|| self.clients.spoke(node, address, *at)).flatten()
        });
        let Some(lock) = self.at(place) else { return };
        let contention = lock.contention.get_or_insert_default();
        contention.tries = sample.tries.or(contention.tries);
        contention.client = client.or(contention.client);
        for contender in sample.contenders {
            contention.contend(contender);
        }
        for (at, notice) in sample.notices {
            contention.notice(at, notice);
        }
    }

    /// Where what is known of those who want a held lock is kept.
    fn contention_of(&mut self, node: NodeId, key: &Key) -> Option<&mut Contention> {
        let place = self.place_named(node, key.as_bytes())?;
        let lock = self.at(place).filter(|lock| lock.is_held())?;
        Some(lock.contention.get_or_insert_default())
    }

    /// The connection of the lock's holder, where it is known.
    pub fn connection(&self, lock: &Lock) -> Option<&Connection> {
        self.clients.get(lock.contention()?.client?)
    }

    /// The connections of a node that hold locks, and are not known to be closed.
    pub fn open_connections(&self, node: NodeId) -> impl Iterator<Item = &Connection> {
        self.clients.open(node)
    }

    /// Forgets the connections of a node that hold none of its locks any more: `used` are those of all locks, as they
    /// were gone through since `before`.
    pub fn keep_connections(&mut self, node: NodeId, used: &HashSet<ClientRef>, before: Time) {
        self.clients.keep(node, used, before);
    }
}

impl Lock {
    /// Attempts and failures, if they were counted or sampled lately.
    pub fn tries(&self, now: Time) -> Option<Tries> {
        self.contention()?.tries.filter(|tries| tries.is_fresh(now))
    }
}
