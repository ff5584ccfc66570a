//! Fencing tokens: a counter in a key beside the lock, in libraries that have one.

use crate::base::fault::Fault;
use crate::commands::one_lock;
use crate::commands::session::Session;
use crate::dialects::{by_name, dialect};
use crate::engine::Engine;
use crate::model::{LockView, Observation};

/// Counters read in one pipeline.
const BATCH: usize = 512;
/// A counter is never longer than this.
const DIGITS: usize = 31;

/// Reads the counters of locks whose library keeps one, and takes their views again. A counter that is missing or may
/// not be read stays unknown.
pub async fn read(session: &Session, engine: &mut Engine, locks: &mut [LockView]) -> Result<(), Fault> {
    let counter = |lock: &LockView| by_name(lock.dialect).and_then(|id| dialect(id).fencing_key(lock.key.as_bytes()));
    for node in session.topology.nodes() {
        let mut wanted: Vec<(usize, Vec<u8>)> = Vec::new();
        for (index, lock) in locks.iter().enumerate().filter(|(_, lock)| lock.node == node.id) {
            wanted.extend(counter(lock).map(|key| (index, key)));
        }
        if wanted.is_empty() {
            continue;
        }
        let mut conn = node.connect().await.map_err(|error| session.fault(&error))?;
        for batch in wanted.chunks(BATCH) {
            let mut pipe = redis::pipe();
            for (_, key) in batch {
                pipe.cmd("GETRANGE").arg(key).arg(0).arg(DIGITS);
            }
            let answers: Vec<redis::Value> =
                pipe.ignore_errors().query_async(&mut conn).await.map_err(|error| session.fault(&error))?;
            for ((index, _), answer) in batch.iter().zip(answers) {
                if let Some(token) = number(&answer) {
                    let lock = &mut locks[*index];
                    engine.observe(Observation::Fenced { node: node.id, key: lock.key.clone(), token });
                    one_lock::look_again(engine, lock);
                }
            }
        }
    }
    Ok(())
}

fn number(answer: &redis::Value) -> Option<u64> {
    let redis::Value::BulkString(digits) = answer else { return None };
    std::str::from_utf8(digits).ok()?.parse().ok()
}
