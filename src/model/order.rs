//! The sort orders of locks: by a column, worst first, or most wanted first. Screens and commands share them.
//!
//! In every column, and whichever way it is turned, what is not known comes last.

use std::cmp::Ordering;

use super::{Demand, LockView, State, Waits};
use crate::base::time::Time;

/// A column of `ls`, also a choice of `--sort`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    State,
    Key,
    Library,
    Holder,
    Held,
    Ttl,
    Lease,
    Renewals,
    Fail,
    Wait,
}

impl Column {
    pub const ALL: [Column; 10] = [
        Column::State,
        Column::Key,
        Column::Library,
        Column::Holder,
        Column::Held,
        Column::Ttl,
        Column::Lease,
        Column::Renewals,
        Column::Fail,
        Column::Wait,
    ];

    /// The column of that name or title.
    pub fn named(text: &str) -> Option<Column> {
        let is = |column: &Column| [column.name(), column.title()].iter().any(|name| name.eq_ignore_ascii_case(text));
        Column::ALL.into_iter().find(is)
    }

    /// As `--sort` and the filter name it.
    pub fn name(self) -> &'static str {
        match self {
            Column::State => "state",
            Column::Key => "key",
            Column::Library => "library",
            Column::Holder => "holder",
            Column::Held => "held",
            Column::Ttl => "ttl",
            Column::Lease => "lease",
            Column::Renewals => "renewals",
            Column::Fail => "fail",
            Column::Wait => "wait",
        }
    }

    /// What comes first in this order, if that is not obvious.
    pub fn order(self) -> Option<&'static str> {
        match self {
            Column::State => Some("Worst first, then held longest"),
            Column::Held | Column::Lease => Some("Longest first"),
            Column::Ttl => Some("Shortest first, locks that never expire last"),
            Column::Renewals | Column::Wait => Some("Most first"),
            Column::Fail => Some("Refused attempts a second, most first"),
            Column::Key | Column::Library | Column::Holder => None,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            Column::State => "STATE",
            Column::Key => "KEY",
            Column::Library => "LIBRARY",
            Column::Holder => "HOLDER",
            Column::Held => "HELD",
            Column::Ttl => "TTL",
            Column::Lease => "LEASE",
            Column::Renewals => "RENEWALS",
            Column::Fail => "FAIL/S",
            Column::Wait => "WAIT",
        }
    }

    /// What the lock is sorted by.
    pub fn sort_key(self, lock: &LockView) -> SortKey {
        match self {
            Column::State => SortKey::Same,
            Column::Key => SortKey::Text(Some(lock.key.to_string())),
            Column::Library => SortKey::Text(Some(lock.dialect.to_string())),
            Column::Holder => SortKey::Text(lock.holders.first().map(|holder| holder.token.to_string())),
            Column::Held => SortKey::Most(lock.held_ms),
            Column::Ttl => {
                let end = lock.ttl.remaining().map(|left| lock.at + left);
                SortKey::end(end, lock.verdict.state)
            }
            Column::Lease => SortKey::Most(lock.lease_ms),
            Column::Renewals => SortKey::Most(lock.renewals.as_ref().map(|renewals| renewals.count)),
            Column::Fail => SortKey::Most(lock.failures_rank()),
            Column::Wait => SortKey::waiting(lock.waits, lock.demand, lock.wanted),
        }
    }
}

/// What a lock is sorted by in one column; `None`: not known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SortKey {
    /// All are equal.
    Same,
    /// In the order of the alphabet.
    Text(Option<String>),
    /// The largest first.
    Most(Option<u64>),
    /// The soonest first.
    Soonest(Option<End>),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum End {
    At(Time),
    Never,
}

impl SortKey {
    /// By the end of the lease; `None`: it has none.
    pub fn end(at: Option<Time>, state: State) -> SortKey {
        let never = (!state.is_free()).then_some(End::Never);
        SortKey::Soonest(at.map(End::At).or(never))
    }

    /// By how many wait, at least, as the cell says it.
    pub fn waiting(waits: Option<Waits>, demand: Demand, wanted: Option<Time>) -> SortKey {
        let seen = (demand.waiting > 0).then_some(demand.waiting).or(wanted.map(|_| 1));
        SortKey::Most(waits.map(|waits| waits.count).or(seen).map(u64::from))
    }

    pub fn compare(&self, other: &SortKey, reversed: bool) -> Ordering {
        let turned = |order: Ordering| if reversed { order.reverse() } else { order };
        match (self, other) {
            (SortKey::Text(a), SortKey::Text(b)) => unknown_last(a, b, |a, b| turned(a.cmp(b))),
            (SortKey::Most(a), SortKey::Most(b)) => unknown_last(a, b, |a, b| turned(b.cmp(a))),
            (SortKey::Soonest(a), SortKey::Soonest(b)) => unknown_last(a, b, |a, b| turned(a.cmp(b))),
            // Locks are compared by the same column.
            _ => Ordering::Equal,
        }
    }
}

fn unknown_last<T>(a: &Option<T>, b: &Option<T>, known: impl Fn(&T, &T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => known(a, b),
        (a, b) => a.is_none().cmp(&b.is_none()),
    }
}

/// The order that answers an incident: worst first, then held longest, then by name.
pub fn worst_first(a: &LockView, b: &LockView) -> Ordering {
    let severity = a.severity().cmp(&b.severity());
    let held = |lock: &LockView| SortKey::Most(lock.held_ms);
    severity.then_with(|| held(a).compare(&held(b), false)).then_with(|| (&a.key, a.node).cmp(&(&b.key, b.node)))
}

/// Sorts locks by a column, or worst first; equal locks worst first.
pub fn sort(locks: &mut [LockView], by: Option<Column>) {
    let by = by.unwrap_or(Column::State);
    let key = |lock: &LockView| by.sort_key(lock);
    locks.sort_by(|a, b| key(a).compare(&key(b), false).then_with(|| worst_first(a, b)));
}

/// Most wanted first, as on the Contention screen.
pub fn hardest_first(a: &LockView, b: &LockView) -> Ordering {
    a.demand.compare(&b.demand).then_with(|| worst_first(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::time::Ttl;
    use crate::testkit::sample;

    #[test]
    fn a_column_is_found_by_its_name_and_by_its_title() {
        for column in Column::ALL {
            assert_eq!(Column::named(column.name()), Some(column));
            assert_eq!(Column::named(column.title()), Some(column));
            assert_eq!(Column::named(&column.title().to_lowercase()), Some(column));
        }
        assert_eq!(Column::named("size"), None);
    }

    #[test]
    fn the_unknown_comes_last_in_every_column_and_either_way() {
        let mut unknown = sample::unknown();
        (unknown.verdict.state, unknown.ttl) = (State::Free, Ttl::Never);
        let mut known = sample::redisson();
        known.demand.waiting = 3;
        for column in Column::ALL {
            let (a, b) = (column.sort_key(&known), column.sort_key(&unknown));
            let is_unknown = matches!(b, SortKey::Text(None) | SortKey::Most(None) | SortKey::Soonest(None));
            let is_known = !matches!(a, SortKey::Text(None) | SortKey::Most(None) | SortKey::Soonest(None));
            for reversed in [false, true] {
                if is_unknown && is_known {
                    assert_eq!(a.compare(&b, reversed), Ordering::Less, "{column:?}, reversed: {reversed}");
                    assert_eq!(b.compare(&a, reversed), Ordering::Greater, "{column:?}, reversed: {reversed}");
                }
            }
            let always = matches!(column, Column::State | Column::Key | Column::Library);
            assert!(is_unknown || always, "{column:?} of the sample is known");
            assert!(is_known || column == Column::Fail, "{column:?} of the other is not known");
        }
    }

    #[test]
    fn some_who_wait_are_more_than_nobody_knows() {
        let (mut some, mut three) = (sample::redisson(), sample::redisson());
        (some.waits, some.wanted) = (None, Some(Time(1)));
        (three.waits, three.demand.waiting) = (None, 3);
        let mut nobody_knows = sample::unknown();
        nobody_knows.waits = None;
        let mut locks = [nobody_knows, some, three];
        sort(&mut locks, Some(Column::Wait));
        let keys = locks.map(|lock| Column::Wait.sort_key(&lock));
        assert_eq!(keys, [SortKey::Most(Some(3)), SortKey::Most(Some(1)), SortKey::Most(None)]);
    }
}
