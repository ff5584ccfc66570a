//! The lease is far longer than holds need: after a crash everybody waits for the rest of it.

use super::{Case, Lint, suggestion};
use crate::base::text::short_duration;
use crate::model::Finding;

pub const LINT: Lint = Lint {
    name: "lease-too-long",
    words: ("has a lease far longer than its holds", "have leases far longer than their holds"),
    said_by: &[],
    of_free: false,
    check,
};

/// If at least this share of holds ends by a release, the locks are not meant to expire.
const RELEASED: f64 = 0.9;

fn check(case: &Case<'_>) -> Option<Finding> {
    // What is left is part of it: a lease that is too long shows at the first look.
    let (lease, _) = case.lock.lease().filter(|_| case.reading.is_alone() && !case.reading.test)?;
    let p99 = case.p99_ms(case.tuning.lease_holds)?;
    let ends = case.holds.ends;
    let released = f64::from(ends.released) >= RELEASED * f64::from(ends.all());
    let far = lease as f64 >= case.tuning.lease_too_long_times * p99.max(1) as f64;
    let long = lease as f64 >= case.tuning.lease_too_long_s * 1_000.0;
    (released && far && long).then(|| {
        let sentence = format!(
            "99 % of the holds of {} end within {}, but the lease is {}: {} would be enough, and a crash would cost less",
            case.kind_words(),
            short_duration(p99),
            case.lease_words(),
            short_duration(suggestion::lease_ms(p99))
        );
        LINT.finding(sentence, 0.8)
    })
}
