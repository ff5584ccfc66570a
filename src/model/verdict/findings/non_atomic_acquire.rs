//! Taken by one command and given its TTL by another one, or never: a crash in between leaves it for ever.

use super::{Case, Lint};
use crate::base::text::short_duration;
use crate::dialects::{self, Renewal};
use crate::model::{Finding, State};

pub const LINT: Lint = Lint {
    name: "non-atomic-acquire",
    words: ("is taken without its TTL", "are taken without their TTL"),
    said_by: &[State::NoTtl],
    of_free: false,
    check,
};

/// A TTL that was not set by now will not come.
const NEVER_MS: u64 = 2_000;

fn check(case: &Case<'_>) -> Option<Finding> {
    if case.reading.stays || case.reading.test || case.renewal == Renewal::NoLease {
        return None;
    }
    later(case).or_else(|| never(case))
}

fn later(case: &Case<'_>) -> Option<Finding> {
    let bare = case.contention()?.bare_ms.filter(|ms| f64::from(*ms) >= case.tuning.non_atomic_after_s * 1_000.0)?;
    let bare = short_duration(u64::from(bare));
    Some(
        LINT.finding(
            format!("it got its TTL only {bare} after it was taken: a crash in between leaves it for ever"),
            0.9,
        ),
    )
}

fn never(case: &Case<'_>) -> Option<Finding> {
    let others = case.holds.leased;
    // If the library allows locks without a TTL, a missing TTL does not show how this one was taken.
    let odd = others > 0 || dialects::dialect(case.reading.dialect).name() == "plain";
    if case.lock.expires().is_some() || !odd || case.held_ms().is_none_or(|ms| ms < NEVER_MS) {
        return None;
    }
    let usual = match others {
        0 => String::new(),
        others => format!(", and {others} holds of {} had one", case.kind_words()),
    };
    let held = case.held_words();
    let sure = if others > 0 { 0.7 } else { 0.5 };
    Some(LINT.finding(format!("held for {held} and not given a TTL{usual}: SETNX without its EXPIRE?"), sure))
}
