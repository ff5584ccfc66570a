//! `lockscope release`: frees one lock, or all that match a filter.

use std::time::Duration;

use super::act::{Operator, ended, exit_code};
use super::session::Session;
use super::{ls, one_lock};
use crate::actions::{Freeing, Outcome, Plan, plan};
use crate::cli::Release;
use crate::fault::Fault;
use crate::inspect::Inspection;
use crate::model::{LockView, Time};
use crate::pace::Pace;
use crate::servers::Fact;
use crate::text;

/// Between two releases of many.
const BREATHER: Duration = Duration::from_millis(20);

pub async fn run(session: &Session, options: &Release) -> Result<u8, Fault> {
    match &options.key {
        Some(key) => ended(one(session, options, key).await, "release", Some(key), options.json),
        None => many(session, options).await,
    }
}

async fn one(session: &Session, options: &Release, typed: &str) -> Result<u8, Fault> {
    let mut operator = Operator::new(session, options.reason.as_deref(), options.json)?;
    let key = one_lock::key(typed)?;
    let (lock, monitor) = one_lock::find(session, &key, None).await?;
    let holder = options.holder.as_deref().map(|token| token_of(&lock, token)).transpose()?;
    if holder.is_none() && !lock.holders.is_empty() {
        return Err(say_which(&lock, "release", ""));
    }
    let found = one_lock::look_closer(session, &lock, &monitor).await;
    let dead = dead_waiters(&found);
    let asked = Freeing { holder: holder.as_deref(), dead_waiters: &dead, force: options.force };
    let plan = plan::free(&lock, asked, monitor.clock.now()).map_err(|why| Fault::finding(why.to_string()))?;
    if options.dry_run {
        return operator.show(&plan).map(|()| 0);
    }
    if !operator.asks(&plan, options.yes)? {
        return Err(Fault::finding("nothing was changed"));
    }
    Ok(exit_code(&operator.perform(&plan).await?))
}

/// A token as it was typed: as it is shown or, where no holder looks so, as it is. What is no holder's is refused later.
pub fn token_of(lock: &LockView, typed: &str) -> Result<Vec<u8>, Fault> {
    let is_one = |token: &[u8]| lock.holders.iter().any(|holder| holder.token.as_bytes() == token);
    match text::unescape(typed) {
        Ok(token) if is_one(&token) => Ok(token),
        _ if is_one(typed.as_bytes()) => Ok(typed.as_bytes().to_vec()),
        Ok(token) => Ok(token),
        Err(bad) => Err(Fault::usage(format!("the holder {typed:?}: {bad}"))),
    }
}

/// Nobody is freed who was not named.
pub fn say_which(lock: &LockView, command: &str, more: &str) -> Fault {
    let each = lock.holders.iter().take(20).map(|holder| {
        let (key, holder) = (quoted(&lock.key.to_string()), quoted(&holder.token.to_string()));
        match key.starts_with('-') {
            true => format!("  lockscope {command} --holder {holder}{more} -- {key}"),
            false => format!("  lockscope {command} {key} --holder {holder}{more}"),
        }
    });
    Fault::usage(format!("say whose hold of {} you mean with --holder", lock.key))
        .with_detail(each.collect::<Vec<_>>().join("\n"))
}

fn quoted(text: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/@%+,=".contains(letter);
    if !text.is_empty() && text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Those who stand in a fair queue and hear nothing any more.
fn dead_waiters(found: &Inspection) -> Vec<Vec<u8>> {
    let deaf = found.waiters.queue.iter().filter(|waiter| waiter.listens == Fact::Known(false));
    deaf.map(|waiter| waiter.id.to_vec()).collect()
}

async fn many(session: &Session, options: &Release) -> Result<u8, Fault> {
    let mut operator = Operator::new(session, options.reason.as_deref(), options.json)?;
    let filter = options.filter.as_deref().unwrap_or_default();
    let mut monitor = session.monitor(session.pace(Pace::Fast), options.observe.is_some()).await?;
    let mut locks = ls::matching(session, &mut monitor, filter, options.observe).await?;
    locks.truncate(options.limit.unwrap_or(usize::MAX));
    let now = monitor.clock.now();
    let plan_of = |lock| Some((lock, plan_of(session, lock, options.force, now)?));
    let plans: Vec<(&LockView, Plan)> = locks.iter().filter_map(plan_of).collect();
    if plans.is_empty() {
        return Err(Fault::finding(format!("no lock matches {filter:?} that could be freed; nothing was changed")));
    }
    if !options.yes {
        operator.show_all(&plans)?;
        session.say(&format!("{} would be freed; add --yes to free exactly these", count(plans.len())));
        return Ok(0);
    }
    let (mut left, mut code) = (plans.len(), 0);
    let stop = tokio::signal::ctrl_c();
    tokio::pin!(stop);
    for (_, plan) in &plans {
        // What is under way is finished; nothing else is begun.
        tokio::select! {
            biased;
            _ = &mut stop => break,
            _ = tokio::time::sleep(BREATHER) => {}
        }
        let outcome = operator.perform(plan).await?;
        left -= 1;
        code = code.max(exit_code(&outcome));
        if matches!(outcome, Outcome::Unknown(_)) {
            break;
        }
    }
    if left > 0 {
        session.say(&format!("stopped: {} of {} were not touched", left, count(plans.len())));
        code = code.max(1);
    }
    Ok(code)
}

fn count(locks: usize) -> String {
    if locks == 1 { "1 lock".into() } else { format!("{locks} locks") }
}

/// A lock that can't be freed is left out, and named.
fn plan_of(session: &Session, lock: &LockView, force: bool, now: Time) -> Option<Plan> {
    match plan::free(lock, Freeing { force, ..Freeing::default() }, now) {
        Ok(plan) => Some(plan),
        Err(why) => {
            session.say(&format!("left out: {why}"));
            None
        }
    }
}
