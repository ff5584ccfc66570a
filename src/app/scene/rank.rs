//! What locks are sorted by: pure. Keys are not copied; the caller of `compare` looks them up.

use std::cmp::Ordering;

use crate::app::Order;
use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId};
use crate::model::order::SortKey;
use crate::model::{Column, Lock, LockRef, LockView, Severity, Table};

/// A lock's sort key. `P`: the lock's place.
pub(super) struct Rank<P> {
    pub place: P,
    severity: Severity,
    /// It is better by now, and keeps its place for a moment: below those that are as bad as it was.
    stays: bool,
    /// Longest first, the unknown last.
    held: SortKey,
    by: SortKey,
}

impl Rank<LockRef> {
    /// From what the table stores: decodes only what the order needs.
    pub fn new(place: LockRef, lock: &Lock, severity: Severity, table: &Table, order: Order, now: Time) -> Self {
        // What is over was held for as long as it was held.
        let past = || lock.past().last().map(|hold| hold.until.since(hold.since).as_millis() as u64);
        let held = table.held_for(lock, now).map(|(ms, _)| ms).or_else(|| past().filter(|_| !lock.is_held()));
        let by = match order.column {
            Column::State | Column::Key => SortKey::Same,
            Column::Library => {
                let name = lock.reading().map(|reading| crate::dialects::dialect(reading.dialect).name());
                SortKey::Text(name.map(str::to_string))
            }
            Column::Holder => SortKey::Text(table.holders(lock, now).first().map(|holder| holder.token.to_string())),
            Column::Held => SortKey::Most(held.filter(|_| lock.is_held())),
            Column::Ttl => SortKey::end(lock.expires(), severity.state),
            Column::Lease => SortKey::Most(lock.lease().map(|(ms, _)| ms)),
            Column::Fail => SortKey::Most(table.tries(lock, now).and_then(|tries| tries.known_rank())),
            Column::Wait => SortKey::waiting(lock.waits(now), lock.demand(now), lock.wanted(now)),
            Column::Renewals => SortKey::Most(lock.beats().map(|beats| beats.count)),
        };
        Rank { place, severity, stays: false, held: SortKey::Most(held), by }
    }

    /// For a lock that keeps its place for a moment, although it is not as bad any more.
    pub fn at_least(self, severity: Severity) -> Self {
        Rank { stays: severity < self.severity, severity: severity.min(self.severity), ..self }
    }
}

impl Rank<usize> {
    /// A lock of a paused screen.
    pub fn frozen(place: usize, lock: &LockView, order: Order) -> Self {
        let by = match order.column {
            Column::Key => SortKey::Same,
            column => column.sort_key(lock),
        };
        Rank { place, severity: lock.severity(), stays: false, held: SortKey::Most(lock.held_ms), by }
    }
}

impl<P> Rank<P> {
    fn badness(&self) -> (Severity, bool) {
        (self.severity, self.stays)
    }

    /// Which of two is shown first. `name`: the key of the lock at a place; `None` if the lock is gone.
    pub fn compare<'a>(
        &self,
        other: &Self,
        order: Order,
        name: impl Fn(&P) -> Option<(&'a Key, KeyspaceId)>,
    ) -> Ordering {
        let turned = |by: Ordering| if order.reversed { by.reverse() } else { by };
        let key = |place: &P| name(place).map(|(key, _)| key);
        let by = match order.column {
            Column::Key => turned(key(&self.place).cmp(&key(&other.place))),
            // As equal locks are, below.
            Column::State if !order.reversed => Ordering::Equal,
            Column::State => {
                let severity = turned(self.badness().cmp(&other.badness()));
                severity.then_with(|| self.held.compare(&other.held, order.reversed))
            }
            _ => self.by.compare(&other.by, order.reversed),
        };
        // Equal locks are worst first, whichever way the column is turned.
        let worst = || self.badness().cmp(&other.badness()).then_with(|| self.held.compare(&other.held, false));
        by.then_with(worst).then_with(|| name(&self.place).cmp(&name(&other.place)))
    }
}
