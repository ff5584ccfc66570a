//! Counts who waits for each lock, for commands that read once. The table judges what it means.

use super::session::Session;
use crate::base::fault::Fault;
use crate::engine::Engine;
use crate::model::Observation;
use crate::server;
use crate::sources::inspect::is_scattered;
use crate::sources::query::{BATCH, LockQuery};
use crate::sources::waiters;

/// Counts waiters where the server shows them and the table has no count yet.
pub async fn count(session: &Session, engine: &mut Engine) -> Result<(), Fault> {
    let fault = |error| session.fault(&error);
    for node in session.topology.nodes() {
        let now = engine.clock.now();
        let unknown = engine.table().locks().filter(|lock| lock.node == node.id && lock.waits(now).is_none());
        let questions = unknown.filter_map(|lock| LockQuery::new(lock, now)).filter(LockQuery::counts_waiters);
        let questions: Vec<LockQuery> = questions.collect();
        if questions.is_empty() {
            continue;
        }
        let mut conn = node.connect().await.map_err(fault)?;
        let facts = server::ask(&mut conn, node.db).await.map_err(fault)?;
        let (mut counted, clients) =
            waiters::count_blocked(&mut conn, &questions, node.db, now).await.map_err(fault)?;
        for batch in questions.chunks(BATCH) {
            let now = engine.clock.now();
            counted.extend(waiters::count(&mut conn, batch, is_scattered(&facts), now).await.map_err(fault)?);
        }
        engine.observe(Observation::Blocked { node: node.id, clients });
        for (key, waits) in counted {
            engine.observe(Observation::Counted { node: node.id, key, waits });
        }
    }
    Ok(())
}
