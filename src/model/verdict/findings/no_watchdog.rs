//! Never renewed, while holds come close to the end of the lease or reach it.

use super::{Case, Lint};
use crate::base::text::short_duration;
use crate::model::Finding;

pub const LINT: Lint = Lint {
    name: "no-watchdog",
    words: ("is not renewed, though holds are long", "are not renewed, though holds are long"),
    said_by: &[],
    of_free: false,
    check,
};

/// One expired hold in this many may be a crash; more are a habit.
const ONE_IN: u32 = 20;

fn check(case: &Case<'_>) -> Option<Finding> {
    let lease = case.lease_ms().filter(|_| case.is_worked_under() && case.lock.beats().is_none())?;
    let (holds, ends) = (case.holds, case.holds.ends);
    // If none is ever released, they are meant to expire.
    if holds.renewed > 0 || ends.released == 0 || (holds.timed() as f64) < case.tuning.no_watchdog_holds {
        return None;
    }
    let (kind, of) = (case.kind_words(), short_duration(lease));
    let p95 = holds.held_ms(95.0)?;
    if ends.expired >= 2 && ends.expired.saturating_mul(ONE_IN) >= ends.all() {
        let (expired, all) = (ends.expired, ends.all());
        return Some(
            LINT.finding(format!("never renewed, and {expired} of {all} holds of {kind} outlasted their lease"), 0.8),
        );
    }
    (p95 as f64 >= case.tuning.no_watchdog_share * lease as f64).then(|| {
        let up_to = short_duration(p95);
        LINT.finding(format!("never renewed, and holds of {kind} last up to {up_to} of a lease of {of}"), 0.8)
    })
}
