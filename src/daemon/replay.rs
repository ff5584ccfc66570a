//! The rules over a recorded history: what they say at the end of it.

use std::collections::BTreeSet;
use std::time::Duration;

use super::alarm::{EVERY, LOOKBACK};
use crate::alerts::{Alert, AlertChange, Evaluator, NoData, Rules, Watched};
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::metrics::MetricId;
use crate::store::{End, Firing, Gap, History};

/// At least this much of the history is read, so that an alert is told with the time since when it lasts.
const LEAST: Duration = Duration::from_secs(3_600);
/// Without a moment for so long, nothing is known any more.
const SILENT: Duration = Duration::from_secs(10);

/// Runs the rules on the grid of the daemon, over as much of the history as they can look back to, up to `now`.
pub fn replay(history: &History, rules: Rules, now: Time) -> Result<Evaluator, Fault> {
    let from = now - reach(&rules);
    let firings = history.firings(Time(i64::MIN), from)?;
    let fired: Vec<Alert> = firings.into_iter().filter(|firing| firing.end.at() > from).map(Firing::into).collect();
    steps(history, rules, &fired, (from, now), |_| ())
}

/// The same to go on with: it fires what the log says to fire, and nothing else. Nobody was told of anything else, and what
/// somebody was told of is told again when it is over.
pub fn resumed(history: &History, rules: Rules, now: Time) -> Result<Evaluator, Fault> {
    let mut evaluator = replay(history, rules, now)?;
    let mut open = history.firings(Time(i64::MIN), now)?;
    open.retain(|firing| matches!(firing.end, End::Still(_)));
    evaluator.keep_firing(|alert| open.iter().any(|firing| firing.rule == alert.rule && firing.labels == alert.labels));
    Ok(evaluator)
}

/// The same from one time to another; `told` gets each change. A whole week takes minutes: `tune` loads it instead.
pub fn step_by_step(
    history: &History,
    rules: Rules,
    from: Time,
    now: Time,
    told: impl FnMut(AlertChange),
) -> Result<Evaluator, Fault> {
    steps(history, rules, &[], (from, now), told)
}

/// `fired`: what fires at the beginning.
fn steps(
    history: &History,
    rules: Rules,
    fired: &[Alert],
    (from, now): (Time, Time),
    mut told: impl FnMut(AlertChange),
) -> Result<Evaluator, Fault> {
    let metrics = metrics(&rules);
    let mut gaps = history.gaps(from, now)?.into_iter().filter(|gap| gap.node.is_none()).peekable();
    let mut evaluator = Evaluator::new(rules, EVERY, LOOKBACK);
    evaluator.resume(fired);
    let mut due = evaluator.next(from);
    let mut last = None;
    for moment in history.moments(&metrics, from, now) {
        let moment = moment?;
        while let Some(gap) = gaps.next_if(|gap: &Gap| gap.from < moment.at) {
            let at = last.map_or(gap.from, |last: Time| gap.from.max(last + SECOND)).min(moment.at - TICK);
            evaluate(&mut evaluator, &mut due, at, &mut told);
            evaluator.gap(at);
        }
        evaluate(&mut evaluator, &mut due, moment.at - TICK, &mut told);
        evaluator.take(&moment);
        last = Some(moment.at);
    }
    if let Some(last) = last.filter(|last| now.since(*last) >= SILENT) {
        evaluate(&mut evaluator, &mut due, last + SECOND, &mut told);
        evaluator.gap(last + SECOND);
    }
    evaluate(&mut evaluator, &mut due, now, &mut told);
    Ok(evaluator)
}

const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(1);

/// Evaluates at every time of the grid up to and with `end`.
fn evaluate(evaluator: &mut Evaluator, due: &mut Time, end: Time, told: &mut impl FnMut(AlertChange)) {
    while *due <= end {
        evaluator.evaluate(*due).into_iter().for_each(&mut *told);
        *due = evaluator.next(*due);
    }
}

/// How far back what is said now may depend on.
fn reach(rules: &Rules) -> Duration {
    let of = |rule: &crate::alerts::Rule| {
        let stays = match rule.no_data {
            NoData::Stay(longest) | NoData::Keep(longest) => longest,
            NoData::Ok | NoData::Alert => Duration::ZERO,
        };
        (rule.hold_for + rule.keep_firing_for + rule.window.unwrap_or_default()) * 2 + stays
    };
    let longest = rules.iter().map(of).max().unwrap_or_default();
    (longest + LOOKBACK).max(LEAST)
}

/// The metrics that the rules read, and whether the nodes answered.
fn metrics(rules: &Rules) -> Vec<MetricId> {
    const UP: MetricId = MetricId::of("lockscope_up");
    let all = rules.iter().flat_map(|rule| {
        let watched = Watched::new(rule.clone(), LOOKBACK, Default::default());
        watched.metrics().chain(watched.doubted_by()).collect::<Vec<_>>()
    });
    all.chain([UP]).collect::<BTreeSet<_>>().into_iter().collect()
}
