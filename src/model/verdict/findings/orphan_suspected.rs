//! Its holder may be gone, but nothing proves it: reported with what would settle it, and never as a state.

use super::{Case, Lint, SETTLE};
use crate::base::text::short_duration;
use crate::model::{Beats, Finding, State};

pub const LINT: Lint = Lint {
    name: "orphan-suspected",
    words: ("may have lost its holder", "may have lost their holders"),
    said_by: &[State::NoTtl, State::Stalled],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    // With its connection known, it is an orphan or it is none.
    if !case.is_worked_under() || case.connection.is_some() || matches!(case.state, State::Orphan | State::Split) {
        return None;
    }
    let (sentence, confidence) = silent(case).or_else(|| without_end(case))?;
    Some(Finding { settle: Some(SETTLE.into()), ..LINT.finding(sentence, confidence) })
}

fn silent(case: &Case<'_>) -> Option<(String, f32)> {
    let cadence = case.cadence.filter(|cadence| cadence.missed >= 2)?;
    let last = case.lock.beats().and_then(Beats::last)?;
    let every = short_duration(cadence.period_ms);
    Some((
        format!("renewed every {every} until {}, {} missed: its holder may be gone", case.ago(last), cadence.missed),
        0.6,
    ))
}

fn without_end(case: &Case<'_>) -> Option<(String, f32)> {
    let long = case.held_ms().is_some_and(|ms| ms as f64 >= case.tuning.orphan_suspected_s * 1_000.0);
    (case.lock.expires().is_none() && long)
        .then(|| (format!("held for {} without a TTL: its holder may be gone", case.held_words()), 0.5))
}
