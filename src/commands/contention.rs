//! `lockscope contention`: the demand for each lock, the highest first.
//!
//! Waiters are counted where the server shows them. Attempts and failures need `--monitor`: bursts of MONITOR cost a
//! busy server some of its throughput, so they are few, short, and only with consent.

use std::collections::HashSet;
use std::time::Duration;

use tokio::time::Instant;

use super::session::Session;
use super::{ls, waiters};
use crate::base::fault::Fault;
use crate::base::signals::Signals;
use crate::base::text::short_duration;
use crate::engine::{Duty, Engine, Sampled, Sampling};
use crate::filter::Filter;
use crate::lock::Kind;
use crate::model::order;
use crate::model::{LockView, Snapshot};
use crate::output::{self, wanted};
use crate::settings::cli::Contention;
use crate::sources::pace::Pace;
use crate::sources::sampling::burst::Bounds;

/// MONITOR runs for half of the time, and never longer than this in total.
const MOST: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);
/// How long the first burst may exceed the requested time.
const FIRST_BURST: Duration = Duration::from_secs(5);
const RANGE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(86_400));

pub async fn run(session: &Session, options: &Contention) -> Result<u8, Fault> {
    if options.duration < RANGE.0 || options.duration > RANGE.1 {
        return Err(Fault::usage("--for is between 100ms and 24h"));
    }
    let filter: Option<Filter> = options.filter.as_deref().map(str::parse).transpose()?;
    let mut engine = session.engine(session.pace(Pace::Fast), true).await?;
    ls::take_inventory(session, &mut engine, None).await?;
    if options.monitor {
        engine.sample_by(Some(Duty { burst: Bounds::default(), pause: PAUSE, most: Some(MOST) }));
    } else {
        session.say(
            "only waiters are counted; --monitor also samples attempts and failures, and slows a busy server down while \
             it runs",
        );
    }
    follow(&mut engine, options.duration).await?;
    waiters::count(session, &mut engine).await?;
    let mut snapshot = engine.snapshot();
    let mut locks = locks(&engine, &mut snapshot);
    let place = session.place();
    ls::keep_matching(&mut locks, filter.as_ref(), &place);
    locks.sort_by(order::hardest_first);
    let server = session.describe(&engine);
    if options.json {
        super::print(|out| output::json::write_list(out, &snapshot, &locks, &place, &server))?;
    } else {
        // The table for people has only locks in demand; JSON has all.
        let calm = locks.iter().filter(|lock| !lock.demand.is_any() && !lock.verdict.state.is_free()).count();
        locks.retain(|lock| lock.demand.is_any());
        super::print(|out| wanted::write(out, &locks, &session.style()))?;
        if calm > 0 {
            session.say(&others(calm, coverage(&engine)));
        }
    }
    tell_unknown(session, &locks);
    if let Some(why) = &snapshot.incomplete {
        session.say_incomplete(why);
    }
    tell_sampling(session, &engine);
    session.still_there(&engine)
}

/// The least share of the time that was sampled at a node; `None` without samples.
fn coverage(engine: &Engine) -> Option<f64> {
    let sampled = engine.nodes().filter_map(|node| match &node.sampling {
        Some(Sampling::On(sampled)) => Some(sampled.coverage),
        _ => None,
    });
    sampled.reduce(f64::min)
}

/// What is known of the locks that are not in the table.
fn others(count: usize, sampled: Option<f64>) -> String {
    let locks = if count == 1 { "lock" } else { "locks" };
    let nobody = format!("{count} other {locks}: nobody waits on a channel or in a queue");
    match sampled {
        Some(share) => format!("{nobody}, and nobody was refused in the sampled {:.0} % of the time", share * 100.0),
        None => format!("{nobody}; whether somebody polls is not known without --monitor"),
    }
}

/// Runs the engine for that long, or until a signal. Waits for the first burst.
async fn follow(engine: &mut Engine, how_long: Duration) -> Result<(), Fault> {
    let mut signals = Signals::listen()?;
    let began = Instant::now();
    loop {
        let starting = engine.nodes().any(|node| matches!(node.sampling, Some(Sampling::Starting)));
        let ends = began + if starting { how_long + FIRST_BURST } else { how_long };
        tokio::select! {
            biased;
            _ = signals.next() => return Ok(()),
            _ = tokio::time::sleep_until(ends) => return Ok(()),
            _ = engine.next() => {}
        }
        for node in engine.nodes() {
            if let Some(Sampling::Refused(why)) = &node.sampling {
                return Err(Fault::server(format!("{} can't be sampled: {why}", node.name)));
            }
        }
    }
}

/// All locks, and those that clients tried to take but are free now.
fn locks(engine: &Engine, snapshot: &mut Snapshot) -> Vec<LockView> {
    let mut locks = std::mem::take(&mut snapshot.locks);
    locks.retain(|lock| lock.kind == Kind::Lock);
    for node in engine.nodes() {
        let Some(Sampling::On(sampled)) = &node.sampling else { continue };
        let id = node.id;
        let listed: HashSet<_> = locks.iter().filter(|lock| lock.node == id).map(|lock| lock.key.clone()).collect();
        let table = engine.table();
        let free = sampled.wanted.iter().filter(|key| !listed.contains(*key));
        let free = free.filter_map(|key| table.view(table.lock_named(node.space, key.as_bytes())?, snapshot.at));
        locks.extend(free);
    }
    locks
}

/// Why rates of sampled locks are not known, with the first lock for each reason.
fn tell_unknown(session: &Session, locks: &[LockView]) {
    let mut reasons: Vec<&str> = Vec::new();
    for lock in locks {
        let Some(why) = lock.tries.and_then(|tries| tries.unknown_why()).filter(|why| !reasons.contains(why)) else {
            continue;
        };
        reasons.push(why);
        let others =
            locks.iter().filter(|lock| lock.tries.and_then(|tries| tries.unknown_why()) == Some(why)).count() - 1;
        let others = match others {
            0 => String::new(),
            1 => "; the same for 1 other lock".into(),
            many => format!("; the same for {many} other locks"),
        };
        session.say(&format!("the failure rate of {} is not known: {why}{others}", lock.key));
    }
}

/// Reports what was sampled, in a sentence per node.
fn tell_sampling(session: &Session, engine: &Engine) {
    for node in engine.nodes() {
        match &node.sampling {
            Some(Sampling::On(sampled)) => session.say(&sentence(&node.name, sampled)),
            Some(Sampling::Failed(why)) => session.say(&format!("the last burst on {} failed: {why}", node.name)),
            _ => {}
        }
    }
}

fn sentence(name: &str, sampled: &Sampled) -> String {
    let looked = short_duration(sampled.looked.as_millis() as u64);
    let mut text = format!(
        "looked at every command of {name} for {looked}, {:.0} % of the time; {} in the last burst",
        sampled.coverage * 100.0,
        sampled.lines
    );
    if let Some(cut) = sampled.cut {
        text.push_str(&format!(", which was cut short: {}", cut.why()));
    }
    if !sampled.judged {
        text.push_str(
            "; whether a SET NX succeeded is not known, because notify-keyspace-events is off or can't be read",
        );
    }
    text
}
