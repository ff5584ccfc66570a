//! `lockscope extend`: more time for a lock.

use super::act::{Actor, ended, exit_code};
use super::one_lock;
use super::release::{only_shown, say_which, token_of};
use super::session::Session;
use crate::actions::plan;
use crate::base::fault::Fault;
use crate::base::text::short_duration;
use crate::settings::cli::Extend;

pub async fn run(session: &Session, options: &Extend) -> Result<u8, Fault> {
    ended(extend(session, options).await, "extend", Some(&options.key), options.json)
}

async fn extend(session: &Session, options: &Extend) -> Result<u8, Fault> {
    plan::may_extend_by(options.ttl).map_err(|why| Fault::usage(format!("--ttl: {why}")))?;
    let who = if options.dry_run { Actor::who_looks } else { Actor::new };
    let mut actor = who(session, options.reason.as_deref(), options.json)?;
    let key = one_lock::key(&options.key)?;
    let (mut lock, engine) = one_lock::find(session, &key, None).await?;
    let holder = options.holder.as_deref().map(|token| token_of(&lock, token, &session.settings.again)).transpose()?;
    if holder.is_none() && !lock.holders.is_empty() {
        let ttl = short_duration(options.ttl.as_millis() as u64);
        let more = format!(" --ttl {ttl}{}", only_shown(options.dry_run, options.eval));
        return Err(say_which(&lock, "extend", &more, &session.settings.again));
    }
    one_lock::prove(session, std::slice::from_mut(&mut lock)).await?;
    let looks = options.dry_run || !options.yes;
    let whole = options.holder.as_deref().map(|typed| one_lock::whole_token(&lock, typed, looks)).transpose()?;
    let holder = whole.flatten().or(holder);
    let plan = plan::extend(&lock, holder.as_deref(), options.ttl, engine.clock.now());
    let plan = plan.map_err(|why| Fault::finding(why.to_string()))?;
    let plan = if options.if_renewed { plan.even_if_renewed() } else { plan };
    let plan = if options.force { plan.beyond_doubt() } else { plan };
    if options.eval {
        return actor.print_evals([&plan]).map(|()| 0);
    }
    if options.dry_run {
        return actor.show(&plan, None).map(|()| 0);
    }
    if !actor.asks(&plan, options.yes)? {
        return Err(Fault::finding("nothing was changed"));
    }
    Ok(exit_code(&actor.perform(&plan).await?))
}
