//! How many wait for each lock, for the commands that look once.

use std::collections::HashMap;

use super::session::Session;
use crate::base::fault::Fault;
use crate::base::time::Time;
use crate::lock::Key;
use crate::model::{LockView, State, Waits};
use crate::server;
use crate::sources::inspect::is_scattered;
use crate::sources::query::{BATCH, LockQuery};
use crate::sources::waiters;

/// Counts those who wait, where the server shows them and nobody has counted them yet.
pub async fn fill(session: &Session, locks: &mut [LockView], now: Time) -> Result<(), Fault> {
    let fault = |error| session.fault(&error);
    for node in session.topology.nodes() {
        let here = locks.iter().filter(|lock| lock.node == node.id && lock.waits.is_none());
        let questions: Vec<LockQuery> = here.filter_map(|lock| LockQuery::from_view(lock, now)).collect();
        if questions.is_empty() {
            continue;
        }
        let mut conn = node.connect().await.map_err(fault)?;
        let facts = server::ask(&mut conn, node.db).await.map_err(fault)?;
        let mut counted: HashMap<Key, Waits> = HashMap::new();
        for batch in questions.chunks(BATCH) {
            counted.extend(waiters::count(&mut conn, batch, is_scattered(&facts), now).await.map_err(fault)?);
        }
        for lock in locks.iter_mut().filter(|lock| lock.node == node.id && lock.waits.is_none()) {
            if let Some(waits) = counted.get(&lock.key) {
                take(lock, *waits, session.settings.tuning.contended_waiters, now);
            }
        }
    }
    Ok(())
}

/// The same judgement as the table's, now that it is known: from `many` on it is contended.
fn take(lock: &mut LockView, waits: Waits, many: f64, now: Time) {
    lock.waits = Some(waits);
    if waits.count > 0 {
        lock.verdict.evidence.push(waits.sentence(now));
    }
    if f64::from(waits.count) >= many && (State::Contended..=State::Held).contains(&lock.verdict.state) {
        lock.verdict.state = State::Contended;
    }
}
