//! The locks in demand, in the order of who blocks whom: pure.
//!
//! Deadlock rings come first. Then come locks whose holders wait for nothing, the most wanted first, each followed by
//! the locks stuck behind it.

use std::collections::BTreeSet;

use crate::base::time::Time;
use crate::model::{Blocking, LockRef, LockView, Table};

/// At most this many locks are compared.
const MOST: usize = 300;

#[derive(Default)]
pub struct Contended {
    pub locks: Vec<LockView>,
    pub blocking: Blocking,
    places: Vec<LockRef>,
    /// Indices into `locks`, each with how many locks it is stuck behind.
    order: Vec<(usize, usize)>,
}

impl Contended {
    pub(super) fn of(table: &Table, now: Time) -> Contended {
        let in_demand = table.in_demand(MOST, now);
        let seen = in_demand.into_iter().filter_map(|place| Some((place, table.view(table.lock_at(place)?, now)?)));
        let (places, locks): (Vec<LockRef>, Vec<LockView>) = seen.unzip();
        let blocking = Blocking::of(&locks, now);
        let order = order(&blocking, locks.len());
        Contended { locks, blocking, places, order }
    }

    /// The locks and their places in the table, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = (LockRef, &LockView)> {
        self.order.iter().map(|(index, _)| (self.places[*index], &self.locks[*index]))
    }

    /// The index of this lock.
    pub fn index_of(&self, lock: &LockView) -> Option<usize> {
        self.locks.iter().position(|other| other.space == lock.space && other.key == lock.key)
    }

    /// How many locks it is stuck behind.
    pub fn depth(&self, index: usize) -> usize {
        self.order.iter().find(|(other, _)| *other == index).map_or(0, |(_, depth)| *depth)
    }
}

fn order(blocking: &Blocking, count: usize) -> Vec<(usize, usize)> {
    let rings = blocking.deadlocks.iter().flatten().map(|index| (*index, 0));
    let mut order: Vec<(usize, usize)> = rings.collect();
    let mut placed: BTreeSet<usize> = order.iter().map(|(index, _)| *index).collect();
    let in_rings: Vec<usize> = placed.iter().copied().collect();
    let roots = (0..count).filter(|index| blocking.link(*index).is_none_or(|link| link.behind.is_none()));
    for root in in_rings.into_iter().chain(roots) {
        if placed.insert(root) {
            order.push((root, 0));
        }
        let behind = blocking.stuck_behind(root);
        order.extend(behind.into_iter().filter(|(index, _)| placed.insert(*index)));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Holder;
    use crate::model::{Address, Connection, Contender, Tokens};
    use crate::testkit::sample;

    const NOW: Time = Time(1_000_000);

    fn lock(holder: u16, waiters: &[u16]) -> LockView {
        let address = |port: &u16| Address::parse(&format!("10.0.0.1:{port}")).unwrap();
        let contender = |port: &u16| Contender {
            token: None,
            address: Some(address(port)),
            first: NOW,
            last: NOW,
            attempts: 1,
            failures: 1,
            won: None,
            passed_over: 0,
            tokens: Tokens::default(),
        };
        let mut lock = sample::redisson();
        lock.holders = vec![Holder::new(&holder.to_be_bytes())];
        lock.connection = Some(Connection::new(address(&holder), NOW));
        (lock.at, lock.held_ms) = (NOW, Some(50_000));
        lock.contenders = waiters.iter().map(contender).collect();
        lock
    }

    #[test]
    fn roots_come_first_with_those_behind_them_and_rings_before_all() {
        // 0 is stuck behind 2; 1 is wanted by itself; 3 and 4 are a ring, and 5 is stuck behind 3.
        let locks =
            [lock(10, &[90]), lock(11, &[91]), lock(12, &[10]), lock(13, &[14, 15]), lock(14, &[13]), lock(15, &[92])];
        let order = order(&Blocking::of(&locks, NOW), locks.len());
        assert_eq!(order, [(3, 0), (4, 0), (5, 1), (1, 0), (2, 0), (0, 1)]);
    }
}
