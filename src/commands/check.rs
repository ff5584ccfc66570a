//! `lockscope check`: evaluates the alert rules once, over a watch of its own or over a recorded history.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::session::Session;
use super::{ls, waiters};
use crate::alerts::{AlertState, Evaluator, Rules};
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::signals::Signals;
use crate::base::talk;
use crate::base::text::short_duration;
use crate::base::time::Time;
use crate::daemon::{LOOKBACK, Own, SECOND, replay};
use crate::engine::Engine;
use crate::output::TextStyle;
use crate::output::alerts::{self, Entry};
use crate::settings::cli::{Check, Global};
use crate::settings::{Settings, Talk};
use crate::sources::pace::Pace;
use crate::store::History;

/// The shortest watch: an evaluation needs two moments.
const SHORTEST: Duration = Duration::from_secs(1);
/// How much longer it may take until every lock was judged once.
const ROUND: Duration = Duration::from_secs(30);

pub async fn run(global: &Global, options: &Check) -> Result<u8, Fault> {
    if options.duration < SHORTEST {
        return Err(Fault::usage("--for is 1s or longer: one evaluation a second"));
    }
    let settings = Settings::load(global)?;
    let mut rules = settings.rules_of(options.rules.as_deref())?;
    rules.check_windows(SECOND)?;
    if options.ignore_for {
        rules = rules.at_once();
    }
    let (evaluator, now) = match &options.store {
        Some(path) => recorded(path, rules)?,
        None => watched(&Session::open(global).await?, rules, options).await?,
    };
    let mut entries: Vec<Entry> = evaluator.status().flat_map(|status| alerts::entries(&status, now)).collect();
    entries.sort_by_key(|entry| (entry.state == AlertState::Inactive, entry.state, entry.severity));
    let style = TextStyle::of_stdout(settings.color, settings.ascii);
    super::print(|out| match options.json {
        true => alerts::write_json(out, &entries),
        false => alerts::write(out, &entries, &style),
    })?;
    if settings.talk > Talk::Quiet {
        tell(&entries, options);
    }
    let any = |state: AlertState| entries.iter().any(|entry| entry.state == state);
    let failed = any(AlertState::Firing) || options.unknown_fails && any(AlertState::Unknown);
    Ok(u8::from(failed))
}

/// Watches for the time that was asked for, and evaluates every second.
async fn watched(session: &Session, rules: Rules, options: &Check) -> Result<(Evaluator, Time), Fault> {
    let mut signals = Signals::listen()?;
    let mut engine = session.engine_for(&rules, session.pace(Pace::Fast)).await?;
    engine.sample(options.monitor);
    ls::take_inventory(session, &mut engine, None).await?;
    waiters::count(session, &mut engine).await?;
    let (target, own) = (session.target_label(), Own::new());
    let mut evaluator = Evaluator::new(rules, SECOND, LOOKBACK);
    let began = engine.clock.now();
    let ends = Instant::now() + options.duration;
    let mut second = tokio::time::interval(SECOND);
    second.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => return Err(Fault::finding("interrupted: nothing was judged")),
            _ = second.tick() => {
                let mut moment = engine.moment(&target);
                own.add(&mut moment);
                evaluator.take(&moment);
                evaluator.evaluate(moment.at);
                if is_over(&engine, began, ends) {
                    session.still_there(&engine)?;
                    return Ok((evaluator, moment.at));
                }
            }
            _ = engine.next() => {}
        }
    }
}

/// The time is over, and every lock was judged since the beginning.
fn is_over(engine: &Engine, began: Time, ends: Instant) -> bool {
    let judged = engine.table().rounded().is_some_and(|round| round >= began);
    Instant::now() >= ends && (judged || Instant::now() >= ends + ROUND)
}

/// Runs the rules over the recorded history up to now.
fn recorded(path: &Path, rules: Rules) -> Result<(Evaluator, Time), Fault> {
    let now = Clock::start().now();
    Ok((replay(&History::open(path)?, rules, now)?, now))
}

/// Says what a script that only looks at the exit code would miss.
fn tell(entries: &[Entry], options: &Check) {
    let count = |state: AlertState| entries.iter().filter(|entry| entry.state == state).count();
    let rules = |count: usize| if count == 1 { "1 rule is".to_string() } else { format!("{count} rules are") };
    if let pending @ 1.. = count(AlertState::Pending) {
        let alerts = if pending == 1 { "1 alert is".to_string() } else { format!("{pending} alerts are") };
        let long = match options.store {
            None => format!(
                ": a watch of {} does not show whether the condition lasts; --ignore-for takes it as firing, --store judges \
                 by a recorded history",
                short_duration(options.duration.as_millis() as u64)
            ),
            Some(_) => String::new(),
        };
        talk::say(&format!("{alerts} pending{long}"));
    }
    if let unknown @ 1.. = count(AlertState::Unknown) {
        talk::say(&format!("{} unknown: that nothing fires there does not mean that all is well", rules(unknown)));
    }
    for entry in entries.iter().filter(|entry| entry.state == AlertState::Inactive) {
        if let Some(warning) = &entry.why {
            talk::say(&format!("{}: {warning}", entry.rule));
        }
    }
    if let quiet @ 1.. = count(AlertState::Inactive) {
        talk::say(&format!("{} quiet", rules(quiet)));
    }
}
