//! `tune --json`: one document for one rule or for all of them.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::json::SCHEMA;
use super::became;
use crate::alerts::Compare;
use crate::alerts::replay::{Episode, Kind};
use crate::base::json::write_value;
use crate::base::time::Time;
use crate::store::Verdict;
use crate::tune::{Calibration, Coverage, Listed, Marks, NOT_SIMULATED, Trial, Tried};

/// `store`: where the history is from. `whole`: with every episode.
pub fn write(out: &mut impl Write, source: &str, trials: &[Trial], whole: bool) -> io::Result<()> {
    let document = json!({
        "schema": SCHEMA,
        "source": source,
        "not_simulated": NOT_SIMULATED,
        "rules": trials.iter().map(|trial| rule(trial, whole)).collect::<Vec<_>>(),
    });
    write_value(out, &document)?;
    writeln!(out)
}

fn rule(trial: &Trial, whole: bool) -> Value {
    let subject = &trial.subject;
    let mut rule = json!({
        "rule": subject.rule,
        "severity": subject.severity,
        "expression": subject.expression,
        "calibration": subject.calibration.as_ref().map(calibration),
        "coverage": coverage(&subject.coverage, trial),
        "series": subject.tracks.tracks.len(),
        "warning": subject.warning,
        "current": tried(&trial.current),
        "candidate": trial.is_changed().then(|| tried(&trial.candidate)),
        "labels": labels(&trial.current.marks),
        "suggestion": suggestion(trial),
        "no_suggestion": trial.suggestion.as_ref().err(),
    });
    if whole {
        let rows = trial.episodes();
        rule["episodes"] = rows.iter().map(|listed| listed_episode(trial, listed)).collect();
        rule["episodes_left_out"] = trial.candidate.outcome.left_out.into();
    }
    rule
}

fn calibration(of: &Calibration) -> Value {
    json!({
        "recorded": of.recorded,
        "reproduced": of.reproduced,
        "extra": of.extra,
        "cut": of.cut,
        "differences": of.differences.iter().map(|difference| json!({
            "from": difference.firing.from.rfc3339(),
            "to": difference.firing.to.map(Time::rfc3339),
            "labels": difference.firing.labels,
            "only": if difference.was_recorded { "recorded" } else { "replayed" },
        })).collect::<Vec<_>>(),
        "why": of.reasons,
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

fn coverage(of: &Coverage, trial: &Trial) -> Value {
    json!({
        "from": of.from.rfc3339(),
        "to": of.to.rfc3339(),
        "share": (of.share() * 10_000.0).floor() / 10_000.0,
        "recorded_ms": millis(of.recorded),
        "evaluated_every_ms": millis(trial.subject.tracks.grid.interval()),
        "measured": of.measured.map(|(share, _)| (share * 10_000.0).floor() / 10_000.0),
        "gaps": of.holes.iter().map(|hole| json!({
            "from": hole.from.rfc3339(),
            "to": hole.to.rfc3339(),
            "why": hole.why,
        })).collect::<Vec<_>>(),
        "steps": of.steps.iter().map(|(from, step)| json!({
            "from": from.rfc3339(),
            "step_ms": millis(*step),
        })).collect::<Vec<_>>(),
    })
}

fn tried(of: &Tried) -> Value {
    let (condition, outcome) = (&of.condition, &of.outcome);
    let level = condition.compare.threshold();
    json!({
        "above": matches!(condition.compare, Compare::Above(_)).then_some(level),
        "below": matches!(condition.compare, Compare::Below(_)).then_some(level),
        "for_ms": condition.hold_for,
        "recover": condition.recover,
        "keep_firing_for_ms": condition.keep_firing_for,
        "firings": outcome.firings,
        "firings_per_hour": (of.an_hour * 1_000.0).round() / 1_000.0,
        "noisy": of.is_noisy(),
        "firing_ms": millis(outcome.firing_time),
        "patterns": outcome.patterns,
        "flaps": outcome.flaps,
        "near_misses": outcome.near_misses,
        "delay_ms": outcome.delay.map(|delay| millis(delay.median)),
        "longest_delay_ms": outcome.delay.map(|delay| millis(delay.longest)),
        "precision": of.marks.precision(),
        "recall": of.marks.recall(),
        "scraped": of.scraped.iter().map(|scraped| json!({
            "every_ms": millis(scraped.every),
            "firings": scraped.firings,
            "missed": scraped.missed.iter().map(|episode: &Episode| episode.from.rfc3339()).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

fn labels(marks: &Marks) -> Value {
    json!({ "real": marks.real, "noise": marks.noise })
}

fn suggestion(trial: &Trial) -> Option<Value> {
    let suggestion = trial.suggestion.as_ref().ok()?;
    let worst = &suggestion.worst;
    Some(json!({
        "level": finite(suggestion.level),
        "margin": suggestion.margin,
        "worst_value": finite(worst.value),
        "worst_at": worst.from.rfc3339(),
        "worst_labels": trial.subject.tracks.tracks[worst.track].labels,
        "firings": suggestion.firings,
        "firings_per_week": suggestion.a_week.map(|week| (week * 1_000.0).round() / 1_000.0),
        "real_fired": suggestion.marks.real_fired,
        "why": super::suggestion(trial),
    }))
}

fn listed_episode(trial: &Trial, listed: &Listed) -> Value {
    let episode = &listed.episode;
    let fired = episode.kind == Kind::Fired;
    json!({
        "name": listed.name.to_string(),
        "number": listed.name.number(),
        "labels": trial.subject.tracks.tracks[episode.track].labels,
        "from": episode.from.rfc3339(),
        "fired": fired.then(|| Time::rfc3339(episode.fired)),
        "to": (!episode.lasts).then(|| episode.to.rfc3339()),
        "peak": finite(trial.peak(episode)),
        "what": became(listed, trial.is_changed()),
        "fires_now": listed.fires_now,
        "fires_with_candidate": listed.fires_then,
        "label": listed.verdict.map(Verdict::name),
    })
}
