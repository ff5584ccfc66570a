//! `lockscope release`: frees one lock, or all that match a filter.

use std::io;

use super::act::{Actor, ended, exit_code, in_doubt};
use super::session::Session;
use super::{ls, one_lock, roster};
use crate::actions::{DryRuns, Freeing, Plan, dry_run, foresee, plan};
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::shell::quoted;
use crate::base::text;
use crate::base::time::Time;
use crate::model::LockView;
use crate::settings::cli::Release;
use crate::sources::pace::Pace;

pub async fn run(session: &Session, options: &Release) -> Result<u8, Fault> {
    match (&options.key, &options.plan) {
        (Some(key), _) => ended(one(session, options, key).await, "release", Some(key), options.json),
        (None, Some(id)) => ended(planned(session, options, id).await, "release", None, options.json),
        (None, None) => many(session, options).await,
    }
}

/// `looks`: only a preview, nothing is written.
fn actor<'a>(session: &'a Session, options: &Release, looks: bool) -> Result<Actor<'a>, Fault> {
    let who = if looks { Actor::who_looks } else { Actor::new };
    who(session, options.reason.as_deref(), options.json)
}

async fn one(session: &Session, options: &Release, typed: &str) -> Result<u8, Fault> {
    let mut actor = actor(session, options, options.dry_run)?;
    let key = one_lock::key(typed)?;
    let (mut lock, mut engine) = one_lock::find(session, &key, None).await?;
    roster::read(session, &mut engine).await;
    one_lock::look_again(&engine, &mut lock);
    let holder = options.holder.as_deref().map(|token| token_of(&lock, token, &session.settings.again)).transpose()?;
    if holder.is_none() && !lock.holders.is_empty() && options.permits.is_none() {
        return Err(say_which(&lock, "release", only_shown(options.dry_run, options.eval), &session.settings.again));
    }
    one_lock::prove(session, std::slice::from_mut(&mut lock)).await?;
    let looks = options.dry_run || !options.yes;
    let whole = options.holder.as_deref().map(|typed| one_lock::whole_token(&lock, typed, looks)).transpose()?;
    let holder = whole.flatten().or(holder);
    let found = one_lock::look_closer(session, &lock, &engine).await;
    lock.proof.waiting = Some(found.waiters.beside(&lock).in_short());
    let (dead, now) = (found.waiters.deaf(), engine.clock.now());
    let asked = Freeing { holder: holder.as_deref(), dead_waiters: &dead, force: options.force };
    let plan = match options.permits {
        Some(permits) => plan::give_back(&lock, permits, now),
        None => plan::free(&lock, asked, now),
    };
    let plan = plan.map_err(|why| Fault::finding(why.to_string()))?;
    let plan = if options.force { plan.beyond_doubt() } else { plan };
    let mut plan = if options.if_renewed { plan.even_if_renewed() } else { plan };
    foresee(&session.topology, [&mut plan]).await;
    if options.eval {
        return actor.print_evals([&plan]).map(|()| 0);
    }
    if options.dry_run {
        let kept = actor.keep_plans(&[&plan]).await;
        actor.show(&plan, kept.as_deref().ok())?;
        session.say(&how_to_perform(session, &kept, usize::from(plan.doubt.is_some())));
        return Ok(0);
    }
    if !actor.asks(&plan, options.yes)? {
        return Err(Fault::finding("nothing was changed"));
    }
    Ok(exit_code(&actor.perform(&plan).await?))
}

/// The token that was typed: unescaped if a holder has that token, else literally. One of no holder is refused later.
pub fn token_of(lock: &LockView, typed: &str, again: &str) -> Result<Vec<u8>, Fault> {
    let is_one = |token: &[u8]| lock.holders.iter().any(|holder| holder.token.as_bytes() == token);
    match text::unescape(typed) {
        Ok(token) if is_one(&token) => Ok(token),
        _ if is_one(typed.as_bytes()) => Ok(typed.as_bytes().to_vec()),
        _ if one_lock::is_shortened(typed) => Err(Fault::usage(format!(
            "the token {typed:?} is shortened, as a terminal shows it; 'lockscope show {}{again}' prints it whole",
            quoted(&lock.key.to_string())
        ))),
        Ok(token) => Ok(token),
        Err(bad) => Err(Fault::usage(format!("the holder {typed:?}: {bad}"))),
    }
}

/// The options without which a command that is pasted would write.
pub fn only_shown(dry_run: bool, eval: bool) -> &'static str {
    match (dry_run, eval) {
        (_, true) => " --dry-run --eval",
        (true, false) => " --dry-run",
        (false, false) => "",
    }
}

/// Asks the user to name a holder: nothing is freed for a holder that was not named.
pub fn say_which(lock: &LockView, command: &str, more: &str, again: &str) -> Fault {
    let each = lock.holders.iter().take(20).map(|holder| {
        let (key, holder) = (quoted(&lock.key.to_string()), quoted(&holder.token.to_string()));
        match key.starts_with('-') {
            true => format!("  lockscope {command} --holder {holder}{more}{again} -- {key}"),
            false => format!("  lockscope {command} {key} --holder {holder}{more}{again}"),
        }
    });
    Fault::usage(format!("name the holder of {} with --holder", lock.key))
        .with_detail(each.collect::<Vec<_>>().join("\n"))
}

async fn many(session: &Session, options: &Release) -> Result<u8, Fault> {
    let mut actor = actor(session, options, !options.yes)?;
    let filter = options.filter.as_deref().unwrap_or_default();
    let mut engine = session.engine(session.pace(Pace::Fast), options.observe.is_some()).await?;
    let mut locks = ls::matching(session, &mut engine, filter, options.observe).await?;
    locks.truncate(options.limit.unwrap_or(usize::MAX));
    one_lock::prove(session, &mut locks).await?;
    let now = engine.clock.now();
    let plan_of = |lock| Some((lock, plan_of(session, lock, options, now)?));
    let mut plans: Vec<(&LockView, Plan)> = locks.iter().filter_map(plan_of).collect();
    if plans.is_empty() {
        return Err(Fault::finding(format!("no lock that matches {filter:?} can be freed; nothing was changed")));
    }
    if options.eval {
        return actor.print_evals(plans.iter().map(|(_, plan)| plan)).map(|()| 0);
    }
    if !options.yes {
        foresee(&session.topology, plans.iter_mut().map(|(_, plan)| plan)).await;
        let kept = actor.keep_plans(&plans.iter().map(|(_, plan)| plan).collect::<Vec<_>>()).await;
        actor.show_all(&plans, kept.as_deref().ok())?;
        let refused = plans.iter().filter(|(_, plan)| actor.refusal(plan).is_some()).count();
        let refusals = if refused > 0 { format!(", {refused} refused") } else { String::new() };
        let freed = count(plans.len() - refused);
        let doubted = plans.iter().filter(|(_, plan)| plan.doubt.is_some()).count();
        session.say(&format!("{freed} would be freed{refusals}; {}", how_to_perform(session, &kept, doubted)));
        return Ok(0);
    }
    session.say("freeing the locks that match now; 'release --plan ID --yes' frees what a dry run showed");
    let plans: Vec<Plan> = plans.into_iter().map(|(_, plan)| plan).collect();
    perform_certain(session, &mut actor, plans, options).await
}

/// Performs exactly what a dry run showed.
async fn planned(session: &Session, options: &Release, id: &str) -> Result<u8, Fault> {
    let mut actor = actor(session, options, !options.yes)?;
    let unreadable = |why: io::Error| Fault::finding(format!("the plan {id:?} can't be read: {why}"));
    let runs = DryRuns::open().map_err(unreadable)?;
    let Some(dry_run) = runs.find(id, Clock::start().now()).map_err(unreadable)? else {
        let minutes = dry_run::LIFE.as_secs() / 60;
        return Err(Fault::finding(format!(
            "there is no plan {id:?}: a plan can be used only once (even if it was refused) and within {minutes} minutes; make \
             a new dry run"
        )));
    };
    let bound = dry_run.plans.iter().all(|plan| plan.keyspace.is_some());
    if dry_run.db != session.topology.db() || !bound && dry_run.target != session.shown {
        return Err(Fault::usage(format!(
            "the plan {id} is for {} (database {}), not for {}; give that server with --url",
            dry_run.target, dry_run.db, session.shown
        )));
    }
    if !options.yes {
        dry_run.plans.iter().try_for_each(|plan| actor.show(plan, Some(id)))?;
        session.say(&format!("{} would be freed; add --yes to free exactly these", count(dry_run.plans.len())));
        return Ok(0);
    }
    actor.is_in_data_of(&dry_run.plans).await?;
    // Spent before performing, so that no other process performs it too.
    runs.spend(&dry_run).map_err(unreadable)?;
    perform_certain(session, &mut actor, dry_run.plans, options).await
}

/// A number that may count permits is freed only with --force, which says that it is a lock.
async fn perform_certain(
    session: &Session,
    actor: &mut Actor<'_>,
    plans: Vec<Plan>,
    options: &Release,
) -> Result<u8, Fault> {
    let plans = plans.into_iter().map(|plan| if options.force { plan.beyond_doubt() } else { plan });
    let plans = plans.map(|plan| if options.if_renewed { plan.even_if_renewed() } else { plan });
    let (plans, doubted): (Vec<Plan>, Vec<Plan>) = plans.partition(|plan| plan.doubt.is_none());
    doubted.iter().filter_map(in_doubt).for_each(|why| session.say(&format!("left out: {why}")));
    let code = actor.perform_all(&plans.iter().collect::<Vec<_>>()).await?;
    Ok(code.max(u8::from(!doubted.is_empty())))
}

/// How a dry run is performed, or why it can't be.
fn how_to_perform(session: &Session, kept: &Result<String, Fault>, doubted: usize) -> String {
    let force = match doubted {
        0 => String::new(),
        _ => format!("; add --force for {}, because a number may count permits", count(doubted)),
    };
    let at = &session.settings.again;
    let minutes = dry_run::LIFE.as_secs() / 60;
    match kept {
        Ok(id) => {
            format!("within {minutes} minutes, 'lockscope release --plan {id} --yes{at}' does exactly that{force}")
        }
        Err(why) => format!("there is no plan to perform: {why}"),
    }
}

fn count(locks: usize) -> String {
    if locks == 1 { "1 lock".into() } else { format!("{locks} locks") }
}

/// Plans a release. A lock that can't be freed is left out and named.
fn plan_of(session: &Session, lock: &LockView, options: &Release, now: Time) -> Option<Plan> {
    match plan::free(lock, Freeing { force: options.force, ..Freeing::default() }, now) {
        Ok(plan) if options.if_renewed => Some(plan.even_if_renewed()),
        Ok(plan) => Some(plan),
        Err(why) => {
            session.say(&format!("left out: {why}"));
            None
        }
    }
}
