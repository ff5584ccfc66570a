//! Permits that nobody gave back: out far longer than the others. One past its own end is free, and no leak.

use super::{Case, Lint};
use crate::base::text::short_duration;
use crate::lock::Mode;
use crate::model::Finding;

pub const LINT: Lint = Lint {
    name: "leaked-permits",
    words: ("has permits that nobody gave back", "have permits that nobody gave back"),
    said_by: &[],
    of_free: false,
    check,
};

/// Fewer holders do not show what is usual.
const HOLDERS: usize = 4;
/// A permit held for less is not leaked, even if the others are held for very short times.
const LEAST_MS: u64 = 60_000;

fn check(case: &Case<'_>) -> Option<Finding> {
    if case.reading.mode != Mode::Permit {
        return None;
    }
    let mut ages: Vec<u64> =
        case.holders.iter().filter_map(|holder| holder.since).map(|since| case.ms_since(since)).collect();
    if ages.len() < HOLDERS {
        return None;
    }
    ages.sort_unstable();
    let median = ages[ages.len() / 2 - 1];
    let most = (median as f64 * case.tuning.leaked_permits_times).max(LEAST_MS as f64);
    let leaked = ages.iter().filter(|age| **age as f64 >= most).count();
    (leaked > 0).then(|| {
        let (all, longest, usual) = (ages.len(), short_duration(ages[ages.len() - 1]), short_duration(median));
        let sentence = format!(
            "{leaked} of {all} permits held far longer than usual: {longest}, while half are held for at most {usual}"
        );
        LINT.finding(sentence, 0.6)
    })
}
