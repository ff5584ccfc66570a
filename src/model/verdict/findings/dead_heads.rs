//! Dead waiters at the head of a fair queue: nobody behind them is served until their time is up.

use super::{Case, Lint};
use crate::model::Finding;

pub const LINT: Lint = Lint {
    name: "dead-heads",
    words: ("has dead waiters at the head of its queue", "have dead waiters at the head of their queues"),
    said_by: &[],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let waits = case.lock.waits(case.now)?;
    let dead = waits.dead_heads.filter(|dead| *dead > 0)?;
    let behind = waits.count.saturating_sub(dead);
    let heads = if dead == 1 { "1 dead waiter is".into() } else { format!("{dead} dead waiters are") };
    let until = if dead == 1 { "its deadline" } else { "their deadlines" };
    Some(LINT.finding(format!("{heads} at the head of its queue: {behind} behind wait until {until}"), 0.9))
}
