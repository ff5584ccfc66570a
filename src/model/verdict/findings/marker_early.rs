//! A marker says that the work is done while its lock is still held, or was taken again.

use super::{Case, Lint};
use crate::model::{Finding, HeldIs};

pub const LINT: Lint = Lint {
    name: "marker-early",
    words: ("is held though its work is marked as done", "are held though their work is marked as done"),
    said_by: &[],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let marker = case.marker?;
    let again = case.lock.taken().is_some_and(|taken| taken > marker.since);
    // If the marker existed when we first looked, it is unknown whether it came before or after.
    if !again && marker.since_is == HeldIs::AtLeast {
        return None;
    }
    let both = case.ms_since(marker.since.max(case.lock.since));
    if (both as f64) < case.tuning.marker_early_s * 1_000.0 {
        return None;
    }
    let (key, marked) = (&marker.key, case.ago(marker.since));
    let sentence = if again {
        format!("taken {}, though {key} marked its work as done {marked}", case.ago(case.lock.since))
    } else {
        format!("{key} marked its work as done {marked}, and it is still held")
    };
    Some(LINT.finding(sentence, 0.7))
}
