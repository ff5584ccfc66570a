//! Applies what sources report about clients that want locks and clients that hold them.

use std::collections::HashSet;

use crate::base::time::Time;
use crate::dialects;
use crate::lock::{Holder, Key, NodeId, Token};
use crate::model::held_by::HeldBy;
use crate::model::table::Table;
use crate::model::table::slots::LockRef;
use crate::model::wants::instance::Standing;
use crate::model::{Connection, Contention, InstanceId, Lock, Notice, Sample, Spoke, Tries, TriesFrom, Waits};

impl Table {
    pub(in crate::model) fn take_count(&mut self, node: NodeId, key: &Key, waits: Waits) {
        self.learn(node, key, waits.counted, |contention| contention.waits = Some(waits));
    }

    pub(in crate::model) fn take_tries(&mut self, node: NodeId, key: &Key, tries: Tries) {
        self.learn(node, key, tries.at, |contention| contention.tries = Some(tries));
    }

    /// Stores the fencing token of the current hold; the next hold has another.
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
        contention.speak(sample.spoke);
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
            self.know_clients(place, &holders);
        }
    }

    /// A client that was seen using the token of a holder is that holder's client. A token that nobody holds by may be that
    /// of a hold which was not looked at yet: it is kept until the next look.
    pub(in crate::model) fn know_clients(&mut self, place: LockRef, holders: &[Holder]) {
        let Some(lock) = self.at(place) else { return };
        let node = lock.node;
        let Some(contention) = lock.contention.as_mut().filter(|contention| !contention.spoke.is_empty()) else {
            return;
        };
        let of = |spoke: &Spoke| holders.iter().find(|holder| holder.token == spoke.token);
        let (known, unknown): (Vec<Spoke>, Vec<Spoke>) =
            std::mem::take(&mut contention.spoke).into_iter().partition(|spoke| of(spoke).is_some());
        contention.spoke = unknown;
        for spoke in known {
            if let Some(holder) = of(&spoke) {
                let id = self.clients.instance_of(node, holder);
                self.clients.heard(node, id, &spoke.address, spoke.at);
            }
        }
    }

    /// Records what is known about clients that want a held lock.
    fn learn(&mut self, node: NodeId, key: &Key, at: Time, write: impl FnOnce(&mut Contention)) {
        let Some(place) = self.place_named(self.space(node), key.as_bytes()) else { return };
        let Some(lock) = self.at(place).filter(|lock| lock.is_held()) else { return };
        write(lock.contention.get_or_insert_default());
        self.note_demand(place, at);
    }

    /// Attempts and failures, if counted or sampled recently. For a lock without a seen attempt, the sampling of the
    /// node is the answer.
    pub fn tries(&self, lock: &Lock, now: Time) -> Option<Tries> {
        lock.tries(now).or_else(|| self.quiet(lock.node).filter(|tries| tries.is_fresh(now)))
    }

    /// Whether the connections of the lock's only holder are open.
    pub(in crate::model) fn standing(&self, lock: &Lock) -> Standing<'_> {
        lock.held_by.one().map_or(Standing::Unknown, |instance| self.clients.standing(instance))
    }

    /// Something is to be learnt from the whole list of a node's clients.
    pub fn wants_whole_list(&self, node: NodeId) -> bool {
        self.clients.are_unlisted(node) || self.is_list_wanted(node)
    }

    /// The instances that hold the lock and have a known connection.
    pub fn instances<'a>(&'a self, lock: &'a Lock) -> impl Iterator<Item = InstanceId> + 'a {
        lock.held_by.instances().filter(|instance| self.clients.knows(*instance))
    }

    /// The connections of a node that hold locks and are not known to be closed.
    pub fn open_connections(&self, node: NodeId) -> impl Iterator<Item = &Connection> {
        self.clients.open(node)
    }

    /// Forgets the connections of a node that hold none of its locks any more: `used` are the instances that hold locks, as
    /// those were gone through since `before`. A lock that we freed may be put back, so its holder counts as one of them.
    pub fn keep_connections(&mut self, node: NodeId, mut used: HashSet<InstanceId>, before: Time) {
        used.extend(self.remembered().filter_map(Lock::freed_holders).flat_map(HeldBy::instances));
        self.clients.keep(node, &used, before);
    }
}

impl Lock {
    /// Its own attempts and failures, if counted or sampled recently.
    pub fn tries(&self, now: Time) -> Option<Tries> {
        self.contention()?.tries.filter(|tries| tries.is_fresh(now))
    }
}
