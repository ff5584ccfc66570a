//! Its holder may be gone, but nothing proves it: reported with what would settle it, and never as a state.

use super::{Case, Lint};
use crate::base::text::short_duration;
use crate::model::wants::client::Kept;
use crate::model::wants::instance::{Doubt, Standing};
use crate::model::{Beats, Finding, State};

pub const LINT: Lint = Lint {
    name: "orphan-suspected",
    words: ("may have lost its holder", "may have lost their holders"),
    said_by: &[State::NoTtl, State::Stalled],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    // A lock whose holder has an open connection is no orphan.
    let open = matches!(case.standing, Standing::Open(_));
    if !case.has_one_worker() || open || matches!(case.state, State::Orphan | State::Split) {
        return None;
    }
    let (sentence, confidence) =
        silent(case).or_else(|| closed(case)).or_else(|| signed(case)).or_else(|| without_end(case))?;
    Some(Finding { settle: Some(case.settle()), ..LINT.finding(sentence, confidence) })
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

/// Its connection is closed, which is no proof.
fn closed(case: &Case<'_>) -> Option<(String, f32)> {
    let Standing::Closed(closed) = case.standing else { return None };
    let long_enough = case.now.since(closed.at).as_secs_f64() >= case.tuning.orphan_closed_s;
    let renewed = case.lock.beats().and_then(Beats::last).is_some_and(|last| last > closed.at);
    let why = match closed.doubt {
        None => "it may have left the lock to run out",
        // Where others like it are connected, a pool has let one of them go.
        Some(Doubt::Idle) if !closed.peers => "it was idle, so a pool may have closed it",
        Some(_) => return None,
    };
    let suspect = long_enough && !renewed && closed.kept != Kept::No;
    suspect.then(|| {
        let (address, ago) = (&closed.connection.address, case.ago(closed.at));
        (format!("its holder's connection {address} closed {ago}: its holder may be gone ({why})"), 0.5)
    })
}

/// One sign, which may be there at the first look.
fn signed(case: &Case<'_>) -> Option<(String, f32)> {
    // A watchdog that is late is stalled first: a second missed renewal makes it suspect.
    let suspect = case.signs.count() > 0 && case.state != State::Stalled;
    suspect.then(|| (format!("{}: its holder may be gone", case.signs.sentence()), case.signs.confidence()))
}

fn without_end(case: &Case<'_>) -> Option<(String, f32)> {
    let long = case.held_ms().is_some_and(|ms| ms as f64 >= case.tuning.orphan_suspected_s * 1_000.0);
    (case.lock.expires().is_none() && long)
        .then(|| (format!("held for {} without a TTL: its holder may be gone", case.held_words()), 0.5))
}
