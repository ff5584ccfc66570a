//! `lockscope show KEY`: everything about one lock.

use super::session::Session;
use super::{fencing, one_lock, roster};
use crate::actions::plan::{self, Preview};
use crate::base::fault::Fault;
use crate::dialects;
use crate::engine::Engine;
use crate::model::{LockView, Why};
use crate::output::{self, Notes};
use crate::settings::cli::Show;
use crate::sources::inspect::Inspection;

pub async fn run(session: &Session, options: &Show) -> Result<u8, Fault> {
    let key = one_lock::key(&options.key)?;
    let (mut lock, mut engine) = one_lock::find(session, &key, options.observe).await?;
    if options.observe.is_none() {
        roster::read(session, &mut engine).await;
        one_lock::look_again(&engine, &mut lock);
    }
    fencing::read(session, &mut engine, std::slice::from_mut(&mut lock)).await?;
    let found = one_lock::look_closer(session, &lock, &engine).await;
    // What freeing would wake depends on who waits for it, by whichever library it may be of. Lost by now, it costs that.
    let mut proved = lock.clone();
    let _ = one_lock::prove_waits(session, &mut proved).await;
    let (place, notes, server) = (session.place(), notes(&proved, &found, &engine), session.describe(&engine));
    let why = options.why.then(|| Why::of(&lock));
    super::print(|out| {
        if options.json {
            output::json::write_lock(out, &lock, &found, &place, &server, &notes, why.as_ref())
        } else if let Some(why) = &why {
            output::page::write_why(out, &lock, &found, why, (&session.style(), &session.settings.again))
        } else {
            output::page::write(out, &lock, &found, &place, &notes, (&session.style(), &session.settings.again))
        }
    })
}

/// What the lock's library says of it.
fn notes(lock: &LockView, found: &Inspection, engine: &Engine) -> Notes {
    let Some(id) = dialects::by_name(lock.dialect) else { return Notes::default() };
    let dialect = dialects::dialect(id);
    let now = engine.clock.now();
    let sight = lock.sight(now);
    let freeing = match plan::preview(lock, &found.waiters.deaf(), now) {
        Ok(Preview { commands, hazards }) => {
            let first = "To free it, after comparing the holder, in one step:".to_string();
            let commands = commands.into_iter().map(|command| format!("  {command}"));
            let hazards = hazards.into_iter().map(|hazard| format!("Beware: {hazard}"));
            [first].into_iter().chain(commands).chain(hazards).collect()
        }
        Err(why) => vec![why.to_string()],
    };
    Notes {
        waiting: vec![dialect.waiting(&sight).describe()],
        renewal: vec![dialect.renewal().describe(lock.ttl)],
        release: freeing,
    }
}
