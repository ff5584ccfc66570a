//! The lease is shorter than holds need, and nothing renews it.

use super::{Case, Lint, suggestion};
use crate::base::text::short_duration;
use crate::model::Finding;

pub const LINT: Lint = Lint {
    name: "lease-too-short",
    words: ("has a lease too short for its holds", "have leases too short for their holds"),
    said_by: &[],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let lease = case.lease_ms().filter(|_| case.is_worked_under() && case.lock.beats().is_none())?;
    if case.holds.renewed > 0 || case.holds.ends.released == 0 {
        return None;
    }
    let p99 = case.p99_ms(case.tuning.lease_too_short_holds)?;
    (p99 as f64 >= case.tuning.lease_too_short_share * lease as f64).then(|| {
        let sentence = format!(
            "1 % of the holds of {} take at least {}, and the lease is {}: {} would leave room",
            case.kind_words(),
            short_duration(p99),
            short_duration(lease),
            short_duration(suggestion::lease_ms(p99.max(lease)))
        );
        LINT.finding(sentence, 0.8)
    })
}
