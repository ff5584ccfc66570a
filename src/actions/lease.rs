//! The lease as part of what was seen: it tells a hold from the next one by the same token.
//!
//! A random token does that by itself, and then a renewal is no obstacle. `1`, a host's name or a thread's number does
//! not: there the end of the lease has to be the one that was shown, unless the lock's own renewals explain it.

use super::check::{Check, Comparison, gone};
use crate::base::text::short_duration;
use crate::base::time::Ttl;
use crate::dialects::{self, unique};
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
    /// It was seen being renewed to so many milliseconds at a time: that explains a later end.
    renewed_to: Option<u64>,
}

/// A renewal is not given to the millisecond.
const RENEWED_WITHIN_MS: u64 = 250;

/// What a lease that moved means, and what to do.
pub(super) const ANEW: &str =
    "it was renewed, or taken anew by the same token, since you looked; look again and confirm, or pass --if-renewed";

impl Lease {
    pub(super) fn comparison(&self) -> Comparison {
        let (end, within) = match self.end {
            End::Never => (-1, 0),
            End::At { ms, within } => (ms, within),
        };
        let renewed_to = self.renewed_to.map_or(0, |lease| lease + RENEWED_WITHIN_MS);
        let operands = [end.to_string(), within.to_string(), renewed_to.to_string()];
        Comparison { name: "lease", key: Some(self.key.clone()), values: operands.map(String::into_bytes).to_vec() }
    }

    pub(super) fn describe(&self) -> String {
        match (self.end, self.renewed_to) {
            (End::Never, _) => "it still has no TTL".into(),
            (End::At { .. }, None) => "its lease ends when it did".into(),
            (End::At { .. }, Some(lease)) => {
                format!("its lease ends when it did, or within {}", short_duration(lease))
            }
        }
    }

    pub(super) fn moved(&self, left: Option<i64>) -> String {
        let before = match self.left {
            Ttl::Never => "it had no TTL when you looked".to_string(),
            Ttl::In(left) => format!("{} were left when you looked", short_duration(left.as_millis() as u64)),
        };
        match left {
            None | Some(-2) => gone(),
            Some(-1) => format!("it has no TTL now, and {before}: {ANEW}"),
            Some(left) => format!("it has {} left now, and {before}: {ANEW}", short_duration(left.max(0) as u64)),
        }
    }
}

/// That the lease is the one that was seen, where nothing else tells the hold from the next one by the same token.
pub(super) fn of(lock: &LockView) -> Option<Check> {
    let alone = matches!(lock.mode, Mode::Exclusive | Mode::Write);
    let stored = matches!(lock.value, RawValue::Str { .. } | RawValue::Hash { .. });
    let unique = |token: &Token| !comes_again(lock, token.as_bytes());
    if !alone || !stored || !lock.holders.is_empty() && lock.holders.iter().all(|holder| unique(&holder.token)) {
        return None;
    }
    let renewals = lock.renewals.as_ref().filter(|renewals| renewals.count > 0 && renewals.missed == Some(0));
    Some(Check::Lease(Lease {
        key: lock.key.as_bytes().to_vec(),
        end: end(lock),
        left: lock.ttl,
        renewed_to: renewals.and(lock.whole_lease_ms()).or_else(|| watchdog_lease(lock)),
    }))
}

/// What a watchdog that nobody saw at work may have renewed it to.
fn watchdog_lease(lock: &LockView) -> Option<u64> {
    let id = dialects::by_name(lock.dialect)?;
    dialects::dialect(id).watchdog_lease().map(|lease| lease.as_millis() as u64)
}

/// By the server's clock; where that was not asked, by ours.
fn end(lock: &LockView) -> End {
    const CLOCKS_APART_MS: i64 = 1_000;
    lock.proof.end.unwrap_or(match lock.ttl {
        Ttl::Never => End::Never,
        Ttl::In(left) => End::At { ms: lock.at.0 + left.as_millis() as i64, within: CLOCKS_APART_MS },
    })
}

/// Whether another hold may have the same token, or one was seen to.
pub(super) fn comes_again(lock: &LockView, token: &[u8]) -> bool {
    let before = |hold: &Hold| hold.holder.as_ref().is_some_and(|holder| holder.as_bytes() == token);
    let dialect = dialects::by_name(lock.dialect).map(dialects::dialect);
    let by_design = dialect.is_some_and(|dialect| dialect.tokens_come_again());
    let own = dialect.map_or(token, |dialect| dialect.made_for_each_hold(token));
    by_design || !unique::is_unique(own) || lock.past.iter().any(before)
}
