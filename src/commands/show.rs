//! `lockscope show KEY`: everything about one lock.

use std::time::Duration;

use super::fencing;
use super::session::Session;
use crate::cli::Show;
use crate::dialects::{self, Sight};
use crate::fault::Fault;
use crate::inspect::{Inspection, Subject, inspect};
use crate::model::{Key, LockView, NodeId};
use crate::monitor::Monitor;
use crate::output::{self, Notes};
use crate::text;

pub async fn run(session: &Session, options: &Show) -> Result<u8, Fault> {
    let bytes =
        text::unescape(&options.key).map_err(|bad| Fault::usage(format!("the key {:?}: {bad}", options.key)))?;
    let key = Key::from(bytes);
    let mut monitor = session.monitor_key(&key, options.observe.is_some()).await?;
    monitor.run_until_inventory().await;
    if let Some(error) =
        monitor.nodes().iter().find_map(|node| node.scan.as_ref().and_then(|scan| scan.failed.as_ref()))
    {
        return Err(session.fault(error));
    }
    monitor.run_for(options.observe.unwrap_or(Duration::ZERO)).await;
    let table = monitor.table();
    let lock = table.lock_named(NodeId(0), key.as_bytes()).and_then(|lock| table.view(lock, monitor.clock.now()));
    let Some(mut lock) = lock else { return Err(missing(session, &key).await) };
    fencing::fill(session, std::slice::from_mut(&mut lock)).await?;
    let found = look_closer(session, &lock, &monitor).await;
    let (place, notes, server) = (session.place(), notes(&lock, &monitor), session.describe(&monitor));
    super::print(|out| {
        if options.json {
            output::json::write_lock(out, &lock, &found, &place, &server, &notes)
        } else {
            output::page::write(out, &lock, &found, &place, &notes, &session.look())
        }
    })
}

/// Its waiters and the keys that belong to it. A server lost by now costs these, not the page.
async fn look_closer(session: &Session, lock: &LockView, monitor: &Monitor) -> Inspection {
    let now = monitor.clock.now();
    let (node, status) = (&session.topology.nodes()[0], &monitor.nodes()[0]);
    let subject = Subject::of(lock, status.db, &status.facts, now);
    let found = match node.connect().await {
        Ok(mut conn) => inspect(&mut conn, &subject, now).await,
        Err(error) => Err(error),
    };
    found.unwrap_or_else(|error| Inspection::failed(&subject, now, session.fault(&error).to_string()))
}

/// What the lock's library says of it.
fn notes(lock: &LockView, monitor: &Monitor) -> Notes {
    let Some(id) = dialects::by_name(lock.dialect) else { return Notes::default() };
    let dialect = dialects::dialect(id);
    let sight = Sight::of(lock, monitor.clock.now());
    let release = dialect.release(&sight);
    let mut freeing = vec!["What freeing it takes, in one step, after comparing the holder:".to_string()];
    freeing.extend(release.describe().into_iter().map(|step| format!("  {step}")));
    freeing.extend(release.hazards.iter().map(|hazard| format!("Beware: {hazard}")));
    Notes {
        waiting: vec![dialect.waiting(&sight).describe()],
        renewal: vec![dialect.renewal().describe()],
        release: freeing,
    }
}

/// Why there is nothing to show.
async fn missing(session: &Session, key: &Key) -> Fault {
    let node = &session.topology.nodes()[0];
    let kind = match node.connect().await {
        Ok(mut conn) => redis::cmd("TYPE").arg(key.as_bytes()).query_async::<String>(&mut conn).await,
        Err(error) => Err(error),
    };
    match kind {
        Err(error) => session.fault(&error),
        Ok(kind) if kind == "none" => Fault::finding(format!(
            "there is no key {key} in database {} of {}; 'lockscope ls' lists what is there",
            node.db, node.name
        )),
        Ok(kind) if session.recogniser().is_helper(key.as_bytes()) => {
            Fault::finding(format!("{key} ({kind}) belongs to a lock but is not one; 'lockscope ls' lists the locks"))
        }
        Ok(kind) => Fault::finding(format!(
            "{key} is a {kind} that reads as no lock; if it is one, say of which library with --dialect NAME=GLOB"
        )),
    }
}
