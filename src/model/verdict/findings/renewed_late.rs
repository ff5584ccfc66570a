//! Its watchdog renews so late that one slow renewal loses the lock.

use super::{Case, Lint};
use crate::base::text::short_duration;
use crate::dialects::Renewal;
use crate::model::Finding;

pub const LINT: Lint = Lint {
    name: "renewed-late",
    words: ("is renewed too late", "are renewed too late"),
    said_by: &[],
    of_free: false,
    check,
};

/// At least this many renewals must be seen first.
const BEATS: u64 = 3;
/// A library that renews late by design may be this much later still.
const LATER: f64 = 0.05;

fn check(case: &Case<'_>) -> Option<Finding> {
    let cadence = case.cadence.filter(|_| case.reading.is_alone())?;
    let lease = case.lease_ms().filter(|_| case.lock.beats().is_some_and(|beats| beats.count >= BEATS))?;
    let usual = match case.renewal {
        Renewal::Watchdog { share } | Renewal::Optional { share } => f64::from(share) + LATER,
        Renewal::Manual | Renewal::NoLease => 0.0,
    };
    let most = case.tuning.renewed_late_share.max(usual) * lease as f64;
    (cadence.period_ms as f64 > most).then(|| {
        let (every, of) = (short_duration(cadence.period_ms), short_duration(lease));
        let spare = short_duration(lease.saturating_sub(cadence.period_ms));
        LINT.finding(format!("renewed every {every} with a lease of {of}: only {spare} to spare"), 0.9)
    })
}
