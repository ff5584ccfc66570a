//! What locks are sorted by: pure. Keys are not copied; the caller of `compare` looks them up.

use std::cmp::{Ordering, Reverse};

use crate::app::Order;
use crate::base::time::Time;
use crate::lock::{Holder, Key, KeyspaceId};
use crate::model::Column;
use crate::model::{Lock, LockRef, LockView, State, Table};

/// A lock's sort key. `P`: the lock's place.
pub(super) struct Rank<P> {
    pub place: P,
    state: State,
    /// Longest first, the unknown last.
    held: Option<u64>,
    by: By,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Nothing,
    Text(&'static str),
    Token(bool, Option<String>),
    /// The largest first, the unknown last.
    Most(Reverse<Option<u64>>),
    Soonest(bool, Option<Time>),
}

impl Rank<LockRef> {
    /// From what the table stores: decodes only what the order needs.
    pub fn new(place: LockRef, lock: &Lock, state: State, table: &Table, order: Order, now: Time) -> Self {
        let held = table.held_for(lock, now).map(|(ms, _)| ms);
        let by = match order.column {
            Column::State | Column::Key => By::Nothing,
            Column::Library => {
                By::Text(lock.reading().map_or("", |reading| crate::dialects::dialect(reading.dialect).name()))
            }
            Column::Holder => By::token(&table.holders(lock, now)),
            Column::Held => By::Most(Reverse(held)),
            Column::Ttl => By::Soonest(lock.expires().is_none(), lock.expires()),
            Column::Lease => By::Most(Reverse(lock.lease().map(|(ms, _)| ms))),
            Column::Fail => By::Most(Reverse(table.tries(lock, now).and_then(|tries| tries.known_rank()))),
            Column::Wait => By::Most(Reverse(lock.waits(now).map(|waits| u64::from(waits.count)))),
            Column::Renewals => By::Most(Reverse(lock.beats().map(|beats| beats.count))),
        };
        Rank { place, state, held, by }
    }
}

impl Rank<usize> {
    /// A lock of a paused screen.
    pub fn frozen(place: usize, lock: &LockView, order: Order, at: Time) -> Self {
        let by = match order.column {
            Column::State | Column::Key => By::Nothing,
            Column::Library => By::Text(lock.dialect),
            Column::Holder => By::token(&lock.holders),
            Column::Held => By::Most(Reverse(lock.held_ms)),
            Column::Ttl => {
                let expires = lock.ttl.remaining().map(|left| at + left);
                By::Soonest(expires.is_none(), expires)
            }
            Column::Lease => By::Most(Reverse(lock.lease_ms)),
            Column::Fail => By::Most(Reverse(lock.failures_rank())),
            Column::Wait => By::Most(Reverse(lock.waits.map(|waits| u64::from(waits.count)))),
            Column::Renewals => By::Most(Reverse(lock.renewals.as_ref().map(|renewals| renewals.count))),
        };
        Rank { place, state: lock.verdict.state, held: lock.held_ms, by }
    }
}

impl By {
    fn token(holders: &[Holder]) -> Self {
        let token = holders.first().map(|holder| holder.token.to_string());
        By::Token(token.is_none(), token)
    }
}

impl<P> Rank<P> {
    /// Which of two is shown first. `name`: the key of the lock at a place; `None` if the lock is gone.
    pub fn compare<'a>(
        &self,
        other: &Self,
        order: Order,
        name: impl Fn(&P) -> Option<(&'a Key, KeyspaceId)>,
    ) -> Ordering {
        let key = |place: &P| name(place).map(|(key, _)| key);
        let by = match order.column {
            Column::Key => key(&self.place).cmp(&key(&other.place)),
            _ => self.by.cmp(&other.by),
        };
        let by = by.then_with(|| self.state.cmp(&other.state)).then_with(|| other.held.cmp(&self.held));
        let by = if order.reversed { by.reverse() } else { by };
        by.then_with(|| name(&self.place).cmp(&name(&other.place)))
    }
}
