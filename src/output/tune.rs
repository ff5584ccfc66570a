//! What `tune` prints: the coverage first, then the rule as it is beside the candidate, the suggestion, the episodes.
//!
//! The screen of the console takes its words and numbers from here too. A number that can't be known says why.

pub mod json;
pub mod own;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use super::TextStyle;
use crate::alerts::replay::{Episode, Kind};
use crate::alerts::{Condition, written};
use crate::base::text::{ascii_only, counted, fit_marked, harmless, short_duration, visible, wrap};
use crate::base::time::Time;
use crate::store::Verdict;
use crate::tune::{Calibration, Coverage, Listed, Marks, NOT_SIMULATED, Suggestion, Trial, Tried};

/// At most this many gaps and episodes are printed for people; JSON has all of them.
const GAPS: usize = 5;
const EPISODES: usize = 50;

/// A value as the unit of its metric is read.
pub fn figure(metric: &str, value: f64) -> String {
    match metric.ends_with("_seconds") && value >= 0.0 {
        true => short_duration((value * 1_000.0) as u64),
        false => number(value),
    }
}

/// With at most three places.
pub fn number(value: f64) -> String {
    ((value * 1_000.0).round() / 1_000.0).to_string()
}

pub fn lasted(duration: Duration) -> String {
    match duration.as_millis() {
        0 => "0s".into(),
        millis => short_duration(u64::try_from(millis).unwrap_or(u64::MAX)),
    }
}

fn wait(millis: i64) -> String {
    written(Duration::from_millis(millis.max(0) as u64))
}

/// The threshold: `> 4`.
pub fn level(metric: &str, condition: &Condition) -> String {
    format!("{} {}", condition.compare.sign(), figure(metric, condition.compare.threshold()))
}

/// The whole condition: `> 4 for 2m, recovers at 2`.
pub fn condition(metric: &str, of: &Condition) -> String {
    let held = if of.hold_for > 0 { format!(" for {}", wait(of.hold_for)) } else { String::new() };
    let recover = of.recover.map_or(String::new(), |level| format!(", recovers at {}", figure(metric, level)));
    let keep = if of.keep_firing_for > 0 { format!(", kept for {}", wait(of.keep_firing_for)) } else { String::new() };
    format!("{}{held}{recover}{keep}", level(metric, of))
}

/// To the second: the same for all who read it.
pub fn clock(at: Time) -> String {
    let text = at.rfc3339();
    text.split_once('.').map_or(text.clone(), |(seconds, _)| format!("{seconds}Z")).replacen('T', " ", 1)
}

/// How much is known, in a sentence.
pub fn coverage(of: &Coverage) -> String {
    let gaps = match of.holes.len() {
        0 => "no gaps".into(),
        gaps => counted(gaps as u64, "gap"),
    };
    // Rounded down: 99.9 % are not all of it.
    let share = (of.share() * 1_000.0).floor() / 10.0;
    format!("{share} % covered, {gaps}; {} from {} to {}", lasted(of.asked()), clock(of.from), clock(of.to))
}

/// Whether the replay can be believed: what it reproduces, and what not.
pub fn calibration(of: &Calibration) -> Vec<String> {
    let mut told = vec![match of.recorded {
        0 if of.extra == 0 => {
            "calibration: no firing was recorded in that time, and the replay has none either".to_string()
        }
        0 => "calibration: no firing was recorded in that time".to_string(),
        recorded => format!("calibration: reproduces {} of {} recorded firings", of.reproduced, recorded),
    }];
    if of.cut > 0 {
        let firings = counted(of.cut, "firing");
        told.push(format!("  {firings} that may have begun before that time are left out"));
    }
    if of.extra > 0 {
        told.push(format!("  {} of the replay were not recorded", counted(of.extra, "firing")));
    }
    for difference in of.differences.iter().take(GAPS) {
        let firing = &difference.firing;
        let to = firing.to.map_or("the end".to_string(), clock);
        let whose = if difference.was_recorded { "recorded only" } else { "replayed only" };
        told.push(format!("  {whose}: {} to {to}, {}", clock(firing.from), about(&firing.labels)));
    }
    if let more @ 1.. = of.differences.len().saturating_sub(GAPS) {
        told.push(format!("  and {} more", counted(more as u64, "difference")));
    }
    told.extend(of.reasons.iter().map(|reason| format!("  it can differ: {reason}")));
    told
}

/// What else limits what can be known, a sentence each.
pub fn limits(trial: &Trial) -> Vec<String> {
    let (subject, coverage) = (&trial.subject, &trial.subject.coverage);
    let mut told = Vec::new();
    told.extend(subject.warning.clone());
    if let Some((share, needs)) = coverage.measured.filter(|(share, _)| *share < 1.0) {
        told.push(format!("measured for {:.0} % of the time: {needs}", (share * 100.0).floor()));
    }
    if let [(_, coarse), .., (from, fine)] = &coverage.steps[..] {
        let (coarse, fine) = (written(*coarse), written(*fine));
        told.push(format!(
            "before {} only one value every {coarse} is kept, since then every {fine}: older spikes may be missing",
            clock(*from)
        ));
    }
    if coverage.coarser {
        let every = written(subject.tracks.grid.interval());
        told.push(format!("evaluated every {every} and not every 5s: the series change too often to keep more"));
    }
    told
}

/// The rows that compare: what, as it is, with the candidate.
pub fn rows(trial: &Trial) -> Vec<(String, String, String)> {
    let metric = &trial.subject.metric;
    let mut rows = Vec::new();
    let mut row = |name: String, of: &dyn Fn(&Tried) -> String| {
        rows.push((name, of(&trial.current), of(&trial.candidate)));
    };
    row("threshold".into(), &|tried| level(metric, &tried.condition));
    row("for".into(), &|tried| wait(tried.condition.hold_for));
    row("recover".into(), &|tried| tried.condition.recover.map_or("none".into(), |level| figure(metric, level)));
    row("firings".into(), &|tried| tried.outcome.firings.to_string());
    row("firing time".into(), &|tried| lasted(tried.outcome.firing_time));
    row("patterns".into(), &|tried| tried.outcome.patterns.to_string());
    row("flaps".into(), &|tried| tried.outcome.flaps.to_string());
    row("near misses".into(), &|tried| tried.outcome.near_misses.to_string());
    let delay = |tried: &Tried, of: fn(crate::alerts::replay::Delay) -> Duration| {
        tried.outcome.delay.map_or("-".into(), |delay| lasted(of(delay)))
    };
    row("fires after".into(), &|tried| delay(tried, |delay| delay.median));
    row("at the latest".into(), &|tried| delay(tried, |delay| delay.longest));
    // Precision is of the labelled that fire, recall of the real ones.
    let share = |marks: &Marks, share: Option<f64>, of: usize| match share {
        Some(share) => format!("{:.0} % of n={of}", share * 100.0),
        None if marks.count() < 3 => format!("n={}, needs 3", marks.count()),
        None => "-".into(),
    };
    row("precision".into(), &|tried| share(&tried.marks, tried.marks.precision(), tried.marks.fired()));
    row("recall".into(), &|tried| share(&tried.marks, tried.marks.recall(), tried.marks.real));
    for (at, scraped) in trial.current.scraped.iter().enumerate() {
        row(format!("scraped every {}", written(scraped.every)), &|tried| match tried.scraped.get(at) {
            Some(scraped) if scraped.missed.is_empty() => format!("{}, misses none", scraped.firings),
            Some(scraped) => format!("{}, misses {}", scraped.firings, scraped.missed.len()),
            None => "-".into(),
        });
    }
    rows
}

/// The suggestion with its reason and what follows from it, or why there is none.
pub fn suggestion(trial: &Trial) -> Vec<String> {
    let subject = &trial.subject;
    let Suggestion { level, worst, margin, firings, marks, a_week } = match &trial.suggestion {
        Err(why) => return vec![format!("no suggestion: {why}")],
        Ok(suggestion) => suggestion,
    };
    let compare = trial.candidate.condition.compare;
    let (key, side) = match compare.sign() {
        ">" => ("above", "highest"),
        _ => ("below", "lowest"),
    };
    let incidents = match marks.real {
        0 => "no episode is labelled real, so that all of it is taken for calm".to_string(),
        real => format!("outside the {} labelled real", counted(real as u64, "episode")),
    };
    let lasts = match trial.candidate.condition.hold_for {
        0 => String::new(),
        millis => format!(" that lasted for {}", wait(millis)),
    };
    let about = about(&subject.tracks.tracks[worst.track].labels);
    let week = match a_week {
        Some(week) if *week <= 1.0 => "at most one page a week".to_string(),
        Some(week) => format!("about {week:.1} a week"),
        None => format!("{} of history are too short to say how many a week", lasted(subject.coverage.recorded)),
    };
    let caught = match marks.real {
        0 => String::new(),
        real => format!(", and in {} of {real} real episodes", marks.real_fired),
    };
    let margin = match margin {
        true => ", plus a tenth, rounded",
        false => ", without a margin, which would miss a real episode",
    };
    let same = if *level == trial.current.condition.compare.threshold() { ", as it is" } else { "" };
    vec![
        format!("suggestion: {key} = {}{same}", number(*level)),
        format!(
            "the {side} value{lasts} was {} ({about}, {}){margin}; {incidents}",
            figure(&subject.metric, worst.value),
            clock(worst.from)
        ),
        format!("with it the rule fires {}{caught}: {week}", counted(*firings, "time")),
    ]
}

/// The labels that tell alerts apart.
pub fn about(labels: &BTreeMap<String, String>) -> String {
    let named = labels.iter().filter(|(name, _)| !["target", "pattern"].contains(&name.as_str()));
    let pattern = labels.get("pattern").map(|pattern| harmless(pattern));
    let others = named.map(|(name, value)| format!("{} {}", harmless(name), harmless(value)));
    let all: Vec<String> = pattern.into_iter().chain(others).collect();
    if all.is_empty() { "everything".into() } else { all.join(", ") }
}

/// What became of an episode, by the rule as it is and by the candidate.
pub fn became(listed: &Listed, changed: bool) -> &'static str {
    match (listed.episode.kind, listed.fires_now, listed.fires_then) {
        (_, true, true) => "fires",
        (_, true, false) => "no longer fires",
        (_, false, true) if changed => "would fire",
        (Kind::NearlyLongEnough, ..) => "nearly long enough",
        (Kind::NearlyFarEnough, ..) => "nearly far enough",
        (Kind::Fired, ..) => "fires",
    }
}

pub fn verdict(listed: &Listed) -> &'static str {
    listed.verdict.map_or("-", Verdict::name)
}

/// How long it lasted, or lasts.
pub fn length(episode: &Episode) -> String {
    format!("{}{}", lasted(episode.to.since(episode.from)), if episode.lasts { "+" } else { "" })
}

/// What is left out, for every reader to know.
pub fn not_simulated() -> String {
    format!("not simulated: {}", NOT_SIMULATED.join(", "))
}

/// One rule in full.
pub fn write(out: &mut impl Write, trial: &Trial, style: &TextStyle) -> io::Result<()> {
    let subject = &trial.subject;
    let mut line = |text: String| {
        let text = if style.ascii { ascii_only(&text) } else { text };
        // Only what is too long: a table keeps its spaces.
        let width = style.width.filter(|width| text.width() > *width);
        wrap(&text, width).iter().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
    };
    line(format!(
        "{} ({}): {} {}",
        visible(subject.rule.as_bytes()),
        subject.severity,
        visible(subject.expression.as_bytes()),
        condition(&subject.metric, &subject.condition)
    ))?;
    for sentence in subject.calibration.iter().flat_map(calibration) {
        line(sentence)?;
    }
    line(coverage(&subject.coverage))?;
    for hole in subject.coverage.holes.iter().take(GAPS) {
        line(format!("  gap {} to {}: {}", clock(hole.from), clock(hole.to), hole.why))?;
    }
    if let more @ 1.. = subject.coverage.holes.len().saturating_sub(GAPS) {
        line(format!("  and {} more", counted(more as u64, "gap")))?;
    }
    for limit in limits(trial) {
        line(limit)?;
    }
    line(String::new())?;
    let changed = trial.is_changed();
    line(format!("{:<20}  {:<20}  {}", "", "as it is", if changed { "candidate" } else { "" }))?;
    for (name, now, then) in rows(trial) {
        line(format!("{name:<20}  {now:<20}  {}", if changed { then } else { String::new() }))?;
    }
    for tried in [&trial.current, &trial.candidate].iter().take(1 + usize::from(changed)) {
        if tried.is_noisy() {
            let an_hour = tried.an_hour;
            line(format!("noisy: {} fires {an_hour:.1} times an hour", level(&subject.metric, &tried.condition)))?;
        }
    }
    line(String::new())?;
    for sentence in suggestion(trial) {
        line(sentence)?;
    }
    if let Some(why) = &subject.unscraped {
        line(format!("scraped more rarely: {why}"))?;
    }
    line(not_simulated())?;
    line(String::new())?;
    write_episodes(out, trial, style)
}

fn write_episodes(out: &mut impl Write, trial: &Trial, style: &TextStyle) -> io::Result<()> {
    let episodes = trial.episodes();
    if episodes.is_empty() {
        return writeln!(out, "no episodes: nothing fired, and nothing nearly did");
    }
    let left_out = trial.candidate.outcome.left_out + episodes.len().saturating_sub(EPISODES) as u64;
    let shown = &episodes[episodes.len().saturating_sub(EPISODES)..];
    let mut table = vec![["#", "START", "LASTED", "FIRED AFTER", "PEAK", "WHAT", "LABEL", "ABOUT"].map(String::from)];
    for listed in shown {
        let episode = &listed.episode;
        table.push([
            listed.name.to_string(),
            clock(episode.from),
            length(episode),
            if episode.kind == Kind::Fired { lasted(episode.fired.since(episode.from)) } else { "-".into() },
            figure(&trial.subject.metric, trial.peak(episode)),
            became(listed, trial.is_changed()).to_string(),
            verdict(listed).to_string(),
            about(&trial.subject.tracks.tracks[episode.track].labels),
        ]);
    }
    write_table(out, &table, style)?;
    match left_out {
        0 => Ok(()),
        more => writeln!(out, "{} not listed", counted(more, "older episode")),
    }
}

/// Columns as wide as their widest cell; the last one is cut at the end of the terminal.
fn write_table<const N: usize>(out: &mut impl Write, table: &[[String; N]], style: &TextStyle) -> io::Result<()> {
    let width = |column: usize| table.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in table {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.width())));
        let line = cells.collect::<Vec<_>>().join("  ");
        let line = if style.ascii { ascii_only(&line) } else { line };
        let mark = if style.ascii { '~' } else { '…' };
        let line = style.width.map_or(line.clone(), |width| fit_marked(&line, width, mark));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn suggested(level: f64, current: &Condition) -> String {
    if level == current.compare.threshold() { "as it is".into() } else { number(level) }
}

/// A line for each rule.
pub fn write_all(out: &mut impl Write, trials: &[Trial], style: &TextStyle) -> io::Result<()> {
    if let Some(trial) = trials.first() {
        writeln!(out, "{}", coverage(&trial.subject.coverage))?;
        writeln!(out)?;
    }
    let head = ["RULE", "SEVERITY", "THRESHOLD", "FIRINGS", "FIRING", "PATTERNS", "FLAPS", "NEAR", "SUGGESTED"];
    let mut table = vec![head.map(String::from)];
    for Trial { subject, current, suggestion, .. } in trials {
        let outcome = &current.outcome;
        let unknown = subject.warning.is_some() || subject.coverage.measured.is_some_and(|(share, _)| share == 0.0);
        // That nothing fired says nothing where nothing was measured.
        let count = |count: String| if unknown { "?".to_string() } else { count };
        table.push([
            visible(subject.rule.as_bytes()),
            subject.severity.clone(),
            condition(&subject.metric, &subject.condition),
            count(outcome.firings.to_string()),
            count(lasted(outcome.firing_time)),
            count(outcome.patterns.to_string()),
            count(outcome.flaps.to_string()),
            count(outcome.near_misses.to_string()),
            suggestion.as_ref().map_or("-".into(), |suggestion| suggested(suggestion.level, &current.condition)),
        ]);
    }
    write_table(out, &table, style)?;
    writeln!(out, "{}", not_simulated())
}
