//! `lockscope record`: the daemon without a port, and what its file has.

use std::net::TcpListener;
use std::path::PathBuf;

use super::session::Session;
use crate::alerts::Rules;
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::daemon::{Daemon, Ended, Protection, Receivers, SECOND};
use crate::output::history;
use crate::settings::Settings;
use crate::settings::cli::{Global, Record, Watching};
use crate::sources::pace::Pace;
use crate::store::History;

pub async fn run(global: &Global, options: &Record) -> Result<u8, Fault> {
    if let Some(copy) = &options.copy_to {
        History::open(&options.store)?.copy_to(copy)?;
        return Ok(0);
    }
    if options.info {
        let store = History::open(&options.store)?;
        let (summary, firings) = (store.summary()?, store.firings(Time(0), Time(i64::MAX))?);
        return super::print(|out| history::write(out, &summary, &firings));
    }
    let (rules, receivers) = (rules(global, &options.watching)?, receivers(global, &options.watching)?);
    let session = Session::open(global).await?;
    let outlets = Outlets { store: Some(options.store.clone()), port: None, receivers };
    follow(&session, &options.watching, rules, outlets).await
}

/// The rules that were asked for. One whose window is too short for a sample each second is refused.
pub fn rules(global: &Global, options: &Watching) -> Result<Rules, Fault> {
    let rules = Settings::load(global)?.rules_of(options.rules.as_deref())?;
    rules.check_windows(SECOND)?;
    Ok(rules)
}

/// Who is told of alerts, if anybody is.
pub fn receivers(global: &Global, options: &Watching) -> Result<Option<Receivers>, Fault> {
    if options.no_pager {
        return Ok(None);
    }
    Receivers::read(&Settings::load(global)?.pager_with(&options.alertmanagers)?)
}

/// Where what is measured goes.
pub struct Outlets {
    pub store: Option<PathBuf>,
    pub port: Option<(TcpListener, Protection)>,
    pub receivers: Option<Receivers>,
}

/// Runs the daemon.
pub async fn follow(session: &Session, options: &Watching, rules: Rules, outlets: Outlets) -> Result<u8, Fault> {
    let named = rules.clone();
    let daemon = Daemon {
        target: session.target_label(),
        address: session.shown.clone(),
        duration: options.duration,
        rules,
        store: outlets.store,
        port: outlets.port,
        receivers: outlets.receivers,
        say: &|sentence| session.say(sentence),
    };
    let start = async || {
        let mut engine = session.engine_for(&named, session.pace(Pace::POLITE)).await?;
        engine.sample(options.monitor);
        Ok(engine)
    };
    match daemon.run(start).await? {
        Ended::Asked => Ok(0),
        Ended::Over(engine) => session.still_there(&engine),
    }
}
