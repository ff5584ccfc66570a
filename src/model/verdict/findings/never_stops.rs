//! A watchdog that never stops: it renews far longer than usual, so the lease can't end a hung hold.

use super::{Case, Lint};
use crate::base::text::short_duration;
use crate::model::{Beats, Finding, State};

pub const LINT: Lint = Lint {
    name: "never-stops",
    words: ("is renewed far beyond its usual time", "are renewed far beyond their usual time"),
    said_by: &[State::Long],
    of_free: false,
    check,
};

fn check(case: &Case<'_>) -> Option<Finding> {
    let cadence = case.cadence.filter(|cadence| cadence.missed == 0 && case.is_worked_under())?;
    let last = case.lock.beats().and_then(Beats::last)?;
    let p99 = case.p99_ms(case.tuning.long_holds)?;
    let most =
        (p99 as f64 * case.tuning.never_stops_times).max(p99 as f64 + case.tuning.never_stops_beyond_s * 1_000.0);
    (case.held_ms()? as f64 > most).then(|| {
        let (held, usual, every) = (case.held_words(), short_duration(p99), short_duration(cadence.period_ms));
        let sentence = format!(
            "held for {held} and still renewed every {every}, last {}, while 99 % of the holds of {} end within {usual}",
            case.ago(last),
            case.kind_words()
        );
        LINT.finding(sentence, 0.8)
    })
}
