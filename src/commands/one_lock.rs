//! Finds one lock by its name, for the commands on one lock.

use std::time::Duration;

use redis::RedisResult;

use super::session::Session;
use crate::base::fault::Fault;
use crate::base::shell::quoted;
use crate::base::text;
use crate::engine::Engine;
use crate::lock::{Key, KeyspaceId};
use crate::model::{LockView, Whole};
use crate::server::ServerFacts;
use crate::sources::inspect::{self, Inspection, Subject, inspect, prove as prove_locks};

/// A key as it was typed.
pub fn key(typed: &str) -> Result<Key, Fault> {
    if typed.is_empty() {
        return Err(Fault::usage("the key is empty; give the name of a lock, as 'lockscope ls' prints it"));
    }
    let bytes = text::unescape(typed).map_err(|bad| Fault::usage(format!("the key {typed:?}: {bad}")))?;
    Ok(Key::from(bytes))
}

/// The lock, after watching it for the time given.
pub async fn find(session: &Session, key: &Key, observe: Option<Duration>) -> Result<(LockView, Engine), Fault> {
    let mut engine = session.engine_key(key, observe.is_some()).await?;
    while !engine.has_inventory() {
        // If the server is lost, the inventory will never complete.
        session.still_there(&engine)?;
        engine.next().await;
    }
    let node = session.topology.node_of(key);
    let failed = engine.node(node.id).and_then(|owner| owner.scan.as_ref()?.failed.as_ref());
    if let Some(error) = failed.or(engine.unwalkable()) {
        return Err(session.fault_at(&node, error));
    }
    engine.run_for(observe.unwrap_or(Duration::ZERO)).await;
    let table = engine.table();
    let lock =
        table.lock_named(KeyspaceId::FIRST, key.as_bytes()).and_then(|lock| table.view(lock, engine.clock.now()));
    match lock {
        Some(lock) => Ok((lock, engine)),
        None => Err(missing(session, key).await),
    }
}

/// Takes the view again, with what was learnt since.
pub fn look_again(engine: &Engine, lock: &mut LockView) {
    let known = engine.table().lock_named(lock.space, lock.key.as_bytes());
    if let Some(view) = known.and_then(|known| engine.table().view(known, lock.at)) {
        *lock = view;
    }
}

/// Its waiters and the keys that belong to it. A server lost by now costs these, not the page.
pub async fn look_closer(session: &Session, lock: &LockView, engine: &Engine) -> Inspection {
    let now = engine.clock.now();
    let node = session.topology.place(lock.space, &lock.key);
    let unknown = || ServerFacts::unknown("lost the server");
    let facts = engine.node(lock.node).map_or_else(unknown, |status| status.facts.clone());
    let subject = Subject::new(lock, node.db, &facts, now);
    let found = match session.topology.reader(lock.space, &lock.key).await {
        Ok(mut conn) => inspect(&mut conn, &subject, now).await,
        Err(error) => Err(error),
    };
    found.unwrap_or_else(|error| Inspection::failed(&subject, now, session.fault(&error).to_string()))
}

/// Reads what a write to these locks is compared with.
pub async fn prove(session: &Session, locks: &mut [LockView]) -> Result<(), Fault> {
    prove_locks(&session.topology, locks).await.map_err(|error| session.fault(&error))
}

/// Reads the part of it that shows who would have to be woken.
pub async fn prove_waits(session: &Session, lock: &mut LockView) -> RedisResult<()> {
    let mut conn = session.topology.reader(lock.space, &lock.key).await?;
    inspect::prove_waits(&mut conn, std::slice::from_mut(lock)).await
}

/// The whole value names the holder, even if only its beginning is shown. The beginning is enough for a preview, not for
/// a write: others may begin the same.
pub fn whole_token(lock: &LockView, typed: &str, looks: bool) -> Result<Option<Vec<u8>>, Fault> {
    let Whole::Sha1(sha1) = &lock.proof.value else { return Ok(None) };
    let head = lock.holders.first().map(|holder| holder.token.as_bytes().to_vec()).unwrap_or_default();
    let is_all = |bytes: &[u8]| sha1_smol::Sha1::from(bytes).digest().to_string() == *sha1;
    let unescaped = text::unescape(typed).unwrap_or_default();
    if is_all(typed.as_bytes()) || is_all(&unescaped) {
        return Ok(Some(head));
    }
    if unescaped == head && !looks {
        return Err(Fault::finding(format!(
            "only the first {} bytes of the holder of {} are shown, and others may begin the same; give the whole token, or \
             use the plan of a dry run",
            head.len(),
            lock.key
        )));
    }
    Ok(None)
}

/// Whether it is a token that ls shortened; such a token is not another holder's.
pub fn is_shortened(typed: &str) -> bool {
    typed.contains('…')
}

/// Why there is nothing to show.
async fn missing(session: &Session, key: &Key) -> Fault {
    let node = session.topology.node_of(key);
    let kind = match session.topology.reader(KeyspaceId::FIRST, key).await {
        Ok(mut conn) => redis::cmd("TYPE").arg(key.as_bytes()).query_async::<String>(&mut conn).await,
        Err(error) => Err(error),
    };
    // A module may give its types any name, so it is escaped.
    match kind.map(|kind| text::visible(kind.as_bytes())) {
        Err(error) => session.fault_at(&node, &error),
        Ok(kind) if kind == "none" => Fault::finding(format!(
            "there is no key {key} in database {} of {}; 'lockscope ls --filter {}{}' lists the locks with such a name",
            node.db,
            node.name,
            quoted(&key.to_string()),
            session.settings.again
        )),
        Ok(kind) if session.recogniser().is_helper(key.as_bytes()) => {
            let again = &session.settings.again;
            Fault::finding(format!(
                "{key} ({kind}) belongs to a lock but is not one; 'lockscope ls{again}' lists the locks"
            ))
        }
        Ok(kind) => Fault::finding(format!(
            "{key} is a {kind} that does not read as a lock; if it is one, name its library with --dialect NAME=GLOB"
        )),
    }
}
