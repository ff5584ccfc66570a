//! The holder changed, and the previous one had not released the lock.

use super::{Case, Lint};
use crate::base::text::short_duration;
use crate::model::verdict::cause::who;
use crate::model::{Ending, Finding, State};

pub const LINT: Lint = Lint {
    name: "taken-over",
    words: ("was taken over without a release", "were taken over without a release"),
    said_by: &[State::Split],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let before = case.lock.past().last().filter(|hold| hold.ending == Ending::Taken)?;
    let so = case.is_worked_under() && case.is_within(before.until, case.tuning.taken_over_for_s);
    let held = short_duration(before.until.since(before.since).as_millis() as u64);
    let least = if before.exact { "" } else { "at least " };
    so.then(|| {
        let (ago, who) = (case.ago(before.until), who(before.holder.as_ref(), None));
        LINT.finding(
            format!("taken over {ago} from {who}, who had held it for {least}{held} and had not released it"),
            0.9,
        )
    })
}
