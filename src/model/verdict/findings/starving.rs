//! A client tries again and again, and others get the lock.

use super::{Case, Lint};
use crate::base::text::short_duration;
use crate::model::verdict::cause::who;
use crate::model::{Contender, Finding};

pub const LINT: Lint = Lint {
    name: "starving",
    words: ("has a contender that starves", "have contenders that starve"),
    said_by: &[],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let waits_ms = |contender: &Contender| case.ms_since(contender.won.unwrap_or(contender.first));
    let starves = |contender: &&Contender| {
        contender.is_waiting(case.now)
            && f64::from(contender.passed_over) >= case.tuning.starving_passed
            && waits_ms(contender) as f64 >= case.tuning.starving_s * 1_000.0
    };
    let worst = case.contention()?.contenders().iter().filter(starves).max_by_key(|contender| contender.passed_over)?;
    let sentence = format!(
        "{} has tried for {} ({} failures seen) while others got it {} times",
        who(worst.token.as_ref(), worst.address.as_ref()),
        short_duration(waits_ms(worst)),
        worst.failures,
        worst.passed_over
    );
    Some(LINT.finding(sentence, 0.8))
}
