//! The sort orders of locks: by a column, worst first, or most wanted first. Screens and commands share them.

use std::cmp::{Ordering, Reverse};

use super::LockView;
use crate::base::time::Ttl;

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

    fn compare(self, a: &LockView, b: &LockView) -> Ordering {
        match self {
            Column::State => Ordering::Equal,
            Column::Key => a.key.cmp(&b.key),
            Column::Library => a.dialect.cmp(b.dialect),
            Column::Holder => {
                let token = |lock: &LockView| lock.holders.first().map(|holder| holder.token.to_string());
                let (a, b) = (token(a), token(b));
                (a.is_none(), a).cmp(&(b.is_none(), b))
            }
            Column::Held => most_first(a.held_ms, b.held_ms),
            Column::Ttl => {
                let left = |lock: &LockView| (lock.ttl == Ttl::Never, lock.ttl.remaining());
                left(a).cmp(&left(b))
            }
            Column::Lease => most_first(a.lease_ms, b.lease_ms),
            Column::Renewals => {
                let count = |lock: &LockView| lock.renewals.as_ref().map(|renewals| renewals.count);
                most_first(count(a), count(b))
            }
            Column::Fail => most_first(a.failures_rank(), b.failures_rank()),
            Column::Wait => {
                let count = |lock: &LockView| lock.waits.map(|waits| u64::from(waits.count));
                most_first(count(a), count(b))
            }
        }
    }
}

/// The largest first, the unknown last.
fn most_first(a: Option<u64>, b: Option<u64>) -> Ordering {
    Reverse(a).cmp(&Reverse(b))
}

/// The order that answers an incident: worst state first, then held longest, then by name.
pub fn worst_first(a: &LockView, b: &LockView) -> Ordering {
    let state = a.verdict.state.cmp(&b.verdict.state);
    state.then_with(|| most_first(a.held_ms, b.held_ms)).then_with(|| (&a.key, a.node).cmp(&(&b.key, b.node)))
}

/// Sorts locks by a column, or worst first; equal locks worst first.
pub fn sort(locks: &mut [LockView], by: Option<Column>) {
    let by = by.unwrap_or(Column::State);
    locks.sort_by(|a, b| by.compare(a, b).then_with(|| worst_first(a, b)));
}

/// Most wanted first, as on the Contention screen.
pub fn hardest_first(a: &LockView, b: &LockView) -> Ordering {
    a.demand.compare(&b.demand).then_with(|| worst_first(a, b))
}
