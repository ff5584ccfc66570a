//! Takes in what sources say of those who want locks and of the clients that hold them.

use std::collections::HashSet;

use crate::base::time::Time;
use crate::dialects;
use crate::lock::{Holder, Key, NodeId, Token};
use crate::model::table::Table;
use crate::model::table::slots::LockRef;
use crate::model::{ClientRef, Connection, Contention, Lock, Notice, Sample, Tries, TriesFrom, Waits};

impl Table {
    pub(in crate::model) fn take_count(&mut self, node: NodeId, key: &Key, waits: Waits) {
        self.learn(node, key, waits.counted, |contention| contention.waits = Some(waits));
    }

    pub(in crate::model) fn take_tries(&mut self, node: NodeId, key: &Key, tries: Tries) {
        self.learn(node, key, tries.at, |contention| contention.tries = Some(tries));
    }

    /// It belongs to the hold: the next one has another.
    pub(in crate::model) fn take_fence(&mut self, node: NodeId, key: &Key, token: u64) {
        let Some(place) = self.place_named(self.space(node), key.as_bytes()) else { return };
        if let Some(lock) = self.at(place).filter(|lock| lock.is_held()) {
            lock.contention.get_or_insert_default().fencing_token = Some(token);
        }
    }

    pub(in crate::model) fn take_wanted(&mut self, node: NodeId, key: &Key, at: Time) {
        self.learn(node, key, at, |contention| contention.wanted = contention.wanted.max(Some(at)));
    }

    pub(in crate::model) fn take_sample(&mut self, node: NodeId, key: &Key, sample: Sample) {
        let Some(place) = self.place_named(self.space(node), key.as_bytes()) else { return };
        let late = sample.notices.iter().any(|(_, notice)| matches!(notice, Notice::Late { .. }));
        let holders = self.lock_at(place).filter(|lock| late && lock.is_held());
        let holders = holders.map(|lock| self.holders(lock, lock.confirmed)).unwrap_or_default();
        let Some(lock) = self.at(place) else { return };
        let dialect = lock.reading().map(|reading| dialects::dialect(reading.dialect));
        let before: Vec<Token> = lock.past().filter(|_| late).filter_map(|hold| hold.holder.clone()).collect();
        let contention = lock.contention.get_or_insert_default();
        // What is counted is exact: a sample adds nothing to it.
        let counted = contention.tries.filter(|tries| tries.from == TriesFrom::Counted);
        let counted = counted.filter(|counted| sample.tries.is_none_or(|tries| counted.is_fresh(tries.at)));
        contention.tries = counted.or(sample.tries).or(contention.tries);
        contention.spoke = sample.spoke.or(contention.spoke.take());
        let seen = sample.contenders.iter().map(|contender| contender.last).max();
        for contender in sample.contenders {
            contention.contend(contender);
        }
        let holds = |token: &Token| dialect.is_none_or(|dialect| dialect.holds_by(token.as_bytes()));
        sample.held.into_iter().filter(holds).for_each(|token| contention.saw_held(token));
        for (at, notice) in sample.notices {
            // Many libraries clean up after each failed attempt: only who held it can have outlived it.
            if let Notice::Late { token, .. } = &notice {
                let held = before.contains(token) || contention.was_held_by(token);
                if !held || holders.iter().any(|holder| holder.token == *token) {
                    continue;
                }
            }
            contention.notice(at, notice);
        }
        if let Some(at) = sample.tries.map(|tries| tries.at).or(seen) {
            self.note_demand(place, at);
        }
        if let Some(lock) = self.lock_at(place).filter(|lock| lock.is_held()) {
            let holders = self.holders(lock, lock.confirmed);
            self.know_client(place, &holders);
        }
    }

    /// Whoever was seen to go by the token of the only holder is the holder's client. A token that nobody holds by may
    /// be that of a hold which was not looked at yet: it is kept until the next look.
    pub(in crate::model) fn know_client(&mut self, place: LockRef, holders: &[Holder]) {
        let Some(lock) = self.lock_at(place) else { return };
        let alone = lock.reading().is_some_and(|reading| reading.is_alone());
        let Some((token, address, at)) = lock.contention().and_then(|contention| contention.spoke.as_ref()) else {
            return;
        };
        // Of a lock that many hold, one client says nothing of the others.
        if !alone || holders.iter().all(|holder| holder.token != *token) {
            return;
        }
        let (node, address, at) = (lock.node, address.clone(), *at);
        let client = self.clients.spoke(node, &address, at);
        if let Some(contention) = self.at(place).and_then(|lock| lock.contention.as_mut()) {
            contention.client = client.or(contention.client);
            contention.spoke = None;
        }
    }

    /// Writes down what is known of those who want a lock that is held.
    fn learn(&mut self, node: NodeId, key: &Key, at: Time, write: impl FnOnce(&mut Contention)) {
        let Some(place) = self.place_named(self.space(node), key.as_bytes()) else { return };
        let Some(lock) = self.at(place).filter(|lock| lock.is_held()) else { return };
        write(lock.contention.get_or_insert_default());
        self.note_demand(place, at);
    }

    /// Attempts and failures, if they were counted or sampled lately. Of a lock that nobody was seen to try while others
    /// were looked at, that is known too.
    pub fn tries(&self, lock: &Lock, now: Time) -> Option<Tries> {
        lock.tries(now).or_else(|| self.quiet(lock.node).filter(|tries| tries.is_fresh(now)))
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
    /// Attempts and failures of its own, if they were counted or sampled lately.
    pub fn tries(&self, now: Time) -> Option<Tries> {
        self.contention()?.tries.filter(|tries| tries.is_fresh(now))
    }
}
