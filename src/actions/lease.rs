//! The lease as part of what was seen: it distinguishes a hold from the next one by the same token.
//!
//! A random token does that by itself, and then a renewal is no obstacle. `1`, a host's name or a thread's number does
//! not: there the end of the lease has to be the one that was shown, or one on the beat of renewals that were seen. That a
//! library is known to renew explains nothing: its next hold by the same thread is given the same lease.

use super::check::{Check, Comparison, gone};
use crate::base::text::short_duration;
use crate::base::time::Ttl;
use crate::dialects::{self, unique, word};
use crate::lock::{Mode, RawValue, Token};
use crate::model::{End, Hold, LockView};

/// The lease of one hold.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Lease {
    key: Vec<u8>,
    /// By the server's clock.
    end: End,
    /// What was left of it.
    left: Ttl,
    /// The renewals that were seen: they explain a later end.
    renewed: Option<Renewed>,
}

/// How a lease was seen being renewed, in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
struct Renewed {
    /// The TTL after each renewal.
    to: u64,
    every: u64,
    /// How far each one may be from where the one before it said it would be.
    off: u64,
}

/// What is left is read a moment after a renewal, and the lease is known to the nearest round number.
const LEASE_WITHIN_MS: u64 = 250;
/// The least and the most that a renewal may be off its beat. The script allows a tenth of the period in all.
const OFF_MS: std::ops::RangeInclusive<u64> = 50..=250;

impl Renewed {
    /// `None` unless the lock was renewed at regular times until now.
    fn of(lock: &LockView) -> Option<Renewed> {
        let renewals = lock.renewals.as_ref().filter(|renewals| renewals.count > 0 && renewals.missed == Some(0))?;
        let off = (2 * renewals.jitter_ms?).clamp(*OFF_MS.start(), *OFF_MS.end());
        Some(Renewed { to: lock.whole_lease_ms()?, every: renewals.period_ms?, off })
    }
}

impl Lease {
    pub(super) fn comparison(&self) -> Comparison {
        let (end, within) = match self.end {
            End::Never => (-1, 0),
            End::At { ms, within } => (ms, within),
        };
        let (to, every, off) =
            self.renewed.map_or((0, 0, 0), |renewed| (renewed.to + LEASE_WITHIN_MS, renewed.every, renewed.off));
        let operands = [end.to_string(), within.to_string(), to.to_string(), every.to_string(), off.to_string()];
        Comparison { name: "lease", key: Some(self.key.clone()), values: operands.map(String::into_bytes).to_vec() }
    }

    pub(super) fn describe(&self) -> String {
        match (self.end, self.renewed) {
            (End::Never, _) => format!("{} still has no TTL", word(&self.key)),
            (End::At { .. }, None) => format!("the TTL of {} still ends at the moment that you saw", word(&self.key)),
            (End::At { .. }, Some(Renewed { every, .. })) => format!(
                "the TTL of {} still ends at the moment that you saw, or a multiple of its renewal period ({}) later",
                word(&self.key),
                short_duration(every)
            ),
        }
    }

    /// What to say of the lease that was found instead, by what is left of it.
    pub(super) fn moved(&self, left: Option<i64>) -> String {
        let before = match self.left {
            Ttl::Never => "it had no TTL when you looked".to_string(),
            Ttl::In(left) => format!("{} were left when you looked", short_duration(left.as_millis() as u64)),
        };
        let again = match self.renewed {
            None => format!("{AGAIN}; no renewal was seen that explains it"),
            Some(Renewed { every, .. }) => {
                format!("{AGAIN}; its new end does not fit its renewals every {}", short_duration(every))
            }
        };
        match left {
            None | Some(-2) => gone(),
            Some(-1) => format!("it has no TTL now, and {before}: {again}"),
            Some(left) => format!("it has {} left now, and {before}: {again}", short_duration(left.max(0) as u64)),
        }
    }
}

/// What another lease means. What to do about it depends on who asks: a person looks again, a script takes an option.
pub(super) const AGAIN: &str = "it was renewed, or taken again by the same token, since you looked";

/// That the lease of each of these holders is the one that was seen, where nothing else distinguishes its hold from the next
/// one by the same token.
pub(super) fn checks<'a>(lock: &LockView, holders: impl IntoIterator<Item = &'a Token>) -> Vec<Check> {
    if matches!(lock.mode, Mode::Exclusive | Mode::Write) {
        return of_key(lock).into_iter().collect();
    }
    holders.into_iter().filter_map(|token| of_holder(lock, token.as_bytes())).collect()
}

/// The lease of one of several holders. Their renewals can't be told apart, so none explains a later end.
pub(super) fn of_holder(lock: &LockView, token: &[u8]) -> Option<Check> {
    if !comes_again(lock, token) {
        return None;
    }
    match lock.proof.leases.iter().find(|lease| lease.holder.as_bytes() == token) {
        Some(lease) => {
            Some(Check::Lease(Lease { key: lease.key.clone(), end: lease.end, left: lease.left, renewed: None }))
        }
        // It was asked for, and had run out.
        None => keys_of(lock, token).into_iter().next().filter(|_| lock.proof.end.is_some()).map(Check::Lapsed),
    }
}

/// The keys beside the lock with the leases of this reader, one for each of its entries.
pub(super) fn keys_of(lock: &LockView, token: &[u8]) -> Vec<Vec<u8>> {
    let dialect = dialects::by_name(lock.dialect).filter(|_| lock.mode == Mode::Read).map(dialects::dialect);
    dialect.map(|dialect| dialect.leases(&lock.sight(lock.at), token)).unwrap_or_default()
}

/// The lease of a key that has one holder.
fn of_key(lock: &LockView) -> Option<Check> {
    let stored = matches!(lock.value, RawValue::Str { .. } | RawValue::Hash { .. });
    let unique = |token: &Token| !comes_again(lock, token.as_bytes());
    if !stored || !lock.holders.is_empty() && lock.holders.iter().all(|holder| unique(&holder.token)) {
        return None;
    }
    Some(Check::Lease(Lease {
        key: lock.key.as_bytes().to_vec(),
        end: end(lock),
        left: lock.ttl,
        renewed: Renewed::of(lock),
    }))
}

/// By the server's clock; where that was not asked, by ours.
fn end(lock: &LockView) -> End {
    const CLOCKS_APART_MS: i64 = 1_000;
    lock.proof.end.unwrap_or(match lock.ttl {
        Ttl::Never => End::Never,
        Ttl::In(left) => End::At { ms: lock.at.0 + left.as_millis() as i64, within: CLOCKS_APART_MS },
    })
}

/// Whether another hold may have the same token, or was seen with it.
pub(super) fn comes_again(lock: &LockView, token: &[u8]) -> bool {
    let before = |hold: &Hold| hold.holder.as_ref().is_some_and(|holder| holder.as_bytes() == token);
    let dialect = dialects::by_name(lock.dialect).map(dialects::dialect);
    let by_design = dialect.is_some_and(|dialect| dialect.tokens_come_again());
    let own = dialect.map_or(token, |dialect| dialect.made_for_each_hold(token));
    by_design || !unique::is_unique(own) || lock.past.iter().any(before)
}
