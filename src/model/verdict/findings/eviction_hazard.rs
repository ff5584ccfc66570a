//! The server may evict the lock while a client works under it.

use super::{Case, Lint};
use crate::model::{Eviction, Finding};

pub const LINT: Lint = Lint {
    name: "eviction-hazard",
    words: ("may be evicted while it is held", "may be evicted while they are held"),
    said_by: &[],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let Eviction::By { policy, full } = &case.hazards?.eviction else { return None };
    let can = !policy.as_bytes().starts_with(b"volatile") || case.lock.key_expires().is_some();
    if !can || *full < case.tuning.eviction_full {
        return None;
    }
    let evicted = match case.holds.ends.evicted {
        0 => String::new(),
        count => format!("; {count} holds of {} ended that way", case.kind_words()),
    };
    let (policy, full) = (policy.visible(), full * 100.0);
    Some(LINT.finding(format!("the server may drop it ({policy}, memory {full:.0} % full){evicted}"), 0.8))
}
