//! `lockscope undo`: puts back a freed lock, if the release happened, in the same data, and the lock is still free.
//! Each doubt is reported, and needs an option of its own.

mod list;

use std::io::IsTerminal;

use super::act::{Actor, ended, exit_code};
use super::session::Session;
use crate::actions::{Deed, Happened, Journal, Kept, Keyspace, last_done};
use crate::base::clock::Clock;
use crate::base::fault::Fault;
use crate::base::text::{self, short_duration};
use crate::base::time::Time;
use crate::lock::KeyspaceId;
use crate::settings::cli::{Global, Undo};
use crate::topology::Owner;

pub async fn run(global: &Global, options: &Undo) -> Result<u8, Fault> {
    if options.list {
        return list::run(options.json);
    }
    let session = Session::open(global).await?;
    let mut key = None;
    let result = undo(&session, options, &mut key).await;
    ended(result, "undo", key.as_deref(), options.json)
}

/// Sets `key` to the record's key once the record is known.
async fn undo(session: &Session, options: &Undo, key: &mut Option<String>) -> Result<u8, Fault> {
    let mut actor = Actor::new(session, options.reason.as_deref(), options.json)?;
    let named = options.id.as_deref().map(|id| named(actor.journal(), id)).transpose()?;
    let now = Clock::start().now();
    let kept = match named {
        Some(kept) => kept,
        None => last(session, actor.journal(), now).await?,
    };
    let lock = kept.lock();
    let reader = session.topology.reader(KeyspaceId::FIRST, &lock);
    let mut conn = reader.await.map_err(|error| session.fault(&error))?;
    let here = Keyspace::read(&mut conn).await.map_err(|error| session.fault(&error))?;
    *key = Some(text::visible(&kept.key.0));
    let kept = match &here {
        Ok(here) => kept.by_clock_of(here),
        Err(_) => kept,
    };
    let asks = !options.yes && std::io::stdin().is_terminal();
    let mut doubts = Vec::new();
    if let Some(doubt) = in_this_data(session, &kept, &here)? {
        doubts.push((doubt, options.force, "--force"));
    }
    if let Some(doubt) = freed(session, &mut conn, &kept).await? {
        doubts.push((doubt, options.force, "--force"));
    }
    let when = kept.freed_when(now);
    if let Some(later) = actor.journal().freed_since(&kept).map_err(unreadable)?.filter(|_| kept.is_whole()) {
        let holders: Vec<String> = later.holders.iter().map(|token| text::visible(&token.0)).collect();
        let since = short_duration(now.since(Time(later.about.at)).as_millis() as u64);
        is_free(session, &mut conn, &kept, now).await?;
        return Err(Fault::finding(format!(
            "{when}; {} held it since, and was freed {since} ago ({}): the earlier holder is not put back",
            holders.join(", "),
            later.id()
        )));
    }
    doubts.push((
        format!("{when}; nobody watched it since, so others may have held it"),
        options.unwatched,
        "--unwatched",
    ));
    let kept = if doubts.len() > 1 { kept.insisted(here.ok()) } else { kept };
    let mut plan = kept.plan(now).map_err(|why| Fault::finding(why.to_string()))?;
    for (doubt, settled, option) in doubts {
        // A user who is asked sees the doubt before answering.
        if !settled && !asks && (options.yes || option == "--force") {
            // No option puts it back where somebody holds it.
            is_free(session, &mut conn, &kept, now).await?;
            return Err(Fault::finding(format!("{doubt}; {option} puts it back anyway")));
        }
        plan.hazards.push(format!("{doubt}."));
    }
    if options.id.is_none() {
        session.say(&format!("undo {}: {when}", kept.id()));
    }
    if !actor.asks(&plan, options.yes)? {
        return Err(Fault::finding("nothing was changed"));
    }
    Ok(exit_code(&actor.perform(&plan).await?))
}

/// Fails where somebody has the place of what was freed.
async fn is_free(session: &Session, conn: &mut Owner, kept: &Kept, now: Time) -> Result<(), Fault> {
    let taken = kept.taken(conn, now).await.map_err(|error| session.fault(&error))?;
    let why = |taken: String| Fault::finding(format!("{}; not put back: {taken}", kept.freed_when(now)));
    taken.map_or(Ok(()), |taken| Err(why(taken)))
}

fn unreadable(why: std::io::Error) -> Fault {
    Fault::finding(format!("the record of freed locks can't be read: {why}"))
}

fn named(journal: &Journal, id: &str) -> Result<Kept, Fault> {
    journal.kept(id).map_err(unreadable)?.ok_or_else(|| {
        Fault::finding(format!(
            "nothing is kept under {id:?}: it was put back already, or is not an id; 'lockscope undo --list' lists them"
        ))
    })
}

/// The user's last release in the target's data.
async fn last(session: &Session, journal: &Journal, now: Time) -> Result<Kept, Fault> {
    let here = Keyspace::read_all(&session.topology).await.map_err(|error| session.fault(&error))?;
    let db = session.topology.db();
    let done = journal.done_here(&here, &session.shown, db).map_err(unreadable)?;
    match last_done(done, now) {
        Ok(Some(kept)) => Ok(kept),
        Ok(None) => Err(Fault::finding(format!(
            "nothing was freed on {} (database {db}) that could be put back; 'lockscope undo --list' lists what was freed \
             elsewhere",
            session.shown
        ))),
        Err(why) => {
            let told = why.told(&session.topology, now, &session.settings.again).await;
            Err(told.map_or_else(|error| session.fault(&error), Fault::finding))
        }
    }
}

/// Checks that this is the data that it was freed in; returns the doubt, if any.
fn in_this_data(session: &Session, kept: &Kept, here: &Result<Keyspace, String>) -> Result<Option<String>, Fault> {
    let about = &kept.about;
    let (same_db, same_address) = (about.db == session.topology.db(), about.target == session.shown);
    let doubt = match (here, &about.keyspace) {
        (Ok(here), Some(then)) => here.continues(then).err(),
        (Err(why), _) => Some(why.clone()),
        (_, None) => Some("the server did not identify itself then".into()),
    };
    match doubt {
        None if same_db => Ok(None),
        Some(why) if same_db && same_address => Ok(Some(format!("{} was freed on {}: {why}", about.id, about.target))),
        _ => Err(Fault::usage(format!(
            "{} was freed on {} (database {}), not on {}; give that server with --url",
            about.id, about.target, about.db, session.shown
        ))),
    }
}

/// Checks that it was freed at all; returns the doubt, if any.
async fn freed(session: &Session, conn: &mut Owner, kept: &Kept) -> Result<Option<String>, Fault> {
    if kept.deed != Deed::Freed {
        return Ok(None);
    }
    match kept.happened(conn).await.map_err(|error| session.fault(&error))? {
        Happened::Yes => Ok(None),
        Happened::No => Err(Fault::finding(kept.not_freed())),
        Happened::CanNotTell => Ok(Some(kept.perhaps_freed())),
    }
}
