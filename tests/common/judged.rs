//! Locks as an engine judges them while bursts of MONITOR show nearly every command.

use std::collections::BTreeMap;
use std::time::Duration;

use lockscope::engine::{Duty, Engine, Stream};
use lockscope::lock::KeyspaceId;
use lockscope::model::{LockView, State};
use lockscope::sources::pace::Pace;
use lockscope::sources::sampling::burst::Bounds;
use tokio::time::Instant;

use super::feed::Feed;
use super::{Server, engine};

const PATIENCE: Duration = Duration::from_secs(60);
/// Nearly all the time is sampled, so that the tests need not wait long.
pub const DUTY: Duty = Duty { burst: Bounds::USUAL, pause: Duration::from_millis(50), most: None };

/// Follows the locks of a server, from before anything happens on it.
pub async fn follow(server: &Server) -> Engine {
    let mut engine = engine::follow(server, Feed::Notifications, Pace::Fast).await;
    engine.sample_by(Some(DUTY));
    ready(engine).await
}

/// Runs the engine until it has met all locks and hears of every change.
pub async fn ready(mut engine: Engine) -> Engine {
    let began = Instant::now();
    while !(engine.has_inventory() && matches!(engine.nodes().next().unwrap().stream, Stream::Live(_))) {
        assert!(began.elapsed() < PATIENCE, "the engine has no events");
        engine.next().await;
    }
    engine
}

pub fn view(engine: &Engine, key: &str) -> Option<LockView> {
    let (table, now) = (engine.table(), engine.clock.now());
    table.view(table.lock_named(KeyspaceId::FIRST, key.as_bytes())?, now)
}

/// Runs the engine until the view of the lock is as wanted.
pub async fn until(engine: &mut Engine, key: &str, what: &str, seen: impl Fn(&LockView) -> bool) -> LockView {
    let began = Instant::now();
    loop {
        let lock = view(engine, key);
        if let Some(lock) = lock.as_ref().filter(|lock| seen(lock)) {
            return lock.clone();
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {key} {what}; it is {lock:#?}");
        engine.next().await;
    }
}

pub async fn until_state(engine: &mut Engine, key: &str, state: State) -> LockView {
    until(engine, key, &format!("is {}", state.label()), |lock| lock.verdict.state == state).await
}

/// Everything said of locks during this time, beyond that they are held or free: each lock and word once, with the
/// first sentence.
pub async fn said_within(engine: &mut Engine, time: Duration) -> BTreeMap<String, String> {
    let mut said = BTreeMap::new();
    let end = Instant::now() + time;
    while Instant::now() < end {
        engine.run_for(Duration::from_millis(100)).await;
        for lock in engine.snapshot().locks {
            let state = lock.verdict.state;
            let verdict = || (state.name(), lock.verdict.evidence.join("; "));
            let findings = lock.findings.iter().map(|finding| (finding.name, finding.sentence.clone()));
            let usual = matches!(state, State::Held | State::Free);
            for (word, sentence) in (!usual).then(verdict).into_iter().chain(findings) {
                said.entry(format!("{} {word}", lock.key)).or_insert(sentence);
            }
        }
    }
    said
}
