//! `lockscope show KEY`: everything about one lock.

use super::session::Session;
use super::{fencing, one_lock};
use crate::base::fault::Fault;
use crate::dialects::{self};
use crate::engine::Engine;
use crate::model::LockView;
use crate::output::{self, Notes};
use crate::settings::cli::Show;

pub async fn run(session: &Session, options: &Show) -> Result<u8, Fault> {
    let key = one_lock::key(&options.key)?;
    let (mut lock, mut engine) = one_lock::find(session, &key, options.observe).await?;
    fencing::read(session, &mut engine, std::slice::from_mut(&mut lock)).await?;
    let found = one_lock::look_closer(session, &lock, &engine).await;
    let (place, notes, server) = (session.place(), notes(&lock, &engine), session.describe(&engine));
    super::print(|out| {
        if options.json {
            output::json::write_lock(out, &lock, &found, &place, &server, &notes)
        } else {
            output::page::write(out, &lock, &found, &place, &notes, &session.style())
        }
    })
}

/// What the lock's library says of it.
fn notes(lock: &LockView, engine: &Engine) -> Notes {
    let Some(id) = dialects::by_name(lock.dialect) else { return Notes::default() };
    let dialect = dialects::dialect(id);
    let sight = lock.sight(engine.clock.now());
    let release = dialect.release(&sight);
    let mut freeing = vec!["What freeing it takes, in one step, after comparing the holder:".to_string()];
    freeing.extend(release.describe().into_iter().map(|step| format!("  {step}")));
    freeing.extend(release.hazards.iter().map(|hazard| format!("Beware: {hazard}")));
    Notes {
        waiting: vec![dialect.waiting(&sight).describe()],
        renewal: vec![dialect.renewal().describe(lock.ttl)],
        release: freeing,
    }
}
