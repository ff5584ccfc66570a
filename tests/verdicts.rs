//! The real libraries under load: what goes wrong gets its right verdict with true numbers, and what goes well gets
//! none. Skipped, with a notice, if the Python libraries are not installed.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::judged::{DUTY, follow, said_within, until, until_state, view};
use common::{Feed, Library, Load, engine};
use lockscope::engine::Engine;
use lockscope::model::{LockView, State, Tries};
use lockscope::sources::pace::Pace;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Runs the engine while a slow action runs.
async fn during<T: Send + 'static>(engine: &mut Engine, deed: impl FnOnce() -> T + Send + 'static) -> T {
    let mut deed = tokio::task::spawn_blocking(deed);
    loop {
        tokio::select! {
            done = &mut deed => return done.expect("it does not panic"),
            _ = engine.next() => {}
        }
    }
}

/// A job of the load: threads of one library on one lock.
fn job(library: &str, name: &str, how: &Value) -> Value {
    let mut job = how.clone();
    (job["lib"], job["name"]) = (library.into(), name.into());
    job
}

#[tokio::test]
async fn a_healthy_load_gets_no_verdict() {
    let server = Feed::Notifications.server();
    let mut engine = follow(&server).await;
    let short = json!({"workers": 2, "lease": 10, "sleep": 0.1, "hold": [0.1, 0.4], "pause": [0.1, 0.3]});
    let renewed = json!({"workers": 2, "lease": 6, "renew": true, "hold": [9, 11], "pause": [0.1, 0.3]});
    let jobs = [
        job("redis-py", "lock:cart", &short),
        job("redis-py", "lock:seat", &short),
        job("python-redis-lock", "mail", &short),
        job("python-redis-lock", "report", &renewed),
    ];
    let Some(mut load) = Load::start(&server, &jobs) else { return };
    let wrong = said_within(&mut engine, Duration::from_secs(20)).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
    for key in ["lock:cart", "lock:seat", "lock:mail", "lock:report"] {
        let (attempts, failures) = load.counted(key);
        assert!(attempts > failures, "{key} was taken: {attempts} {failures}");
    }
    let report = view(&engine, "lock:report").expect("it is known");
    assert_eq!(report.dialect, "python-redis-lock");
    assert!(report.usual.is_some() || report.renewals.is_some_and(|renewals| renewals.count > 0), "it was renewed");
}

#[tokio::test]
async fn a_hot_lock_is_contended_at_the_rate_that_its_clients_count() {
    let server = Feed::Notifications.server();
    let mut engine = engine::follow(&server, Feed::Notifications, Pace::Fast).await;
    let hot = json!({"workers": 6, "lease": 10, "sleep": 0.05, "hold": [0.2, 0.4], "pause": [0.0, 0.05]});
    let hot = [job("redis-py", "lock:hot", &hot)];
    let Some(mut load) = Load::start(&server, &hot) else { return };
    until(&mut engine, "lock:hot", "is seen", |_| true).await;
    let (before, began) = (load.counted("lock:hot").1, Instant::now());
    engine.sample_by(Some(DUTY));
    let contended = until_state(&mut engine, "lock:hot", State::Contended).await;
    let sentence = contended.verdict.evidence.join("; ");
    assert!(sentence.contains("tried to take it just now and failed"), "{sentence}");
    let long = |tries: Tries| tries.span >= Duration::from_secs(8);
    let lock = until(&mut engine, "lock:hot", "has a rate", |lock| lock.tries.is_some_and(long)).await;
    let (after, took) = (load.counted("lock:hot").1, began.elapsed());
    let (tries, truth) = (lock.tries.expect("just seen"), (after - before) as f64 / took.as_secs_f64());
    let (rate, margin) = (tries.failures_per_s(), tries.margin_per_s);
    println!("{rate:.1} ± {margin:.1} failures a second sampled, {truth:.1} counted");
    assert!(tries.coverage() > 0.5 && rate > 10.0, "{tries:?}");
    assert!((rate - truth).abs() <= margin, "{rate} ± {margin} sampled, {truth} counted");
}

#[tokio::test]
async fn a_killed_holder_leaves_an_orphan_and_a_stopped_one_is_stalled() {
    let server = Feed::Notifications.server();
    let Some(library) = Library::python("python_redis_lock", &server) else { return };
    let mut engine = follow(&server).await;
    let lease = Duration::from_secs(9);
    let take = move || (library.acquire_renewing("killed", lease), library.acquire_renewing("stopped", lease));
    let (killed, stopped) = during(&mut engine, take).await;
    for key in ["lock:killed", "lock:stopped"] {
        // The library renews over the connection that took the lock.
        until(&mut engine, key, "is renewed by a client that is known", |lock| {
            let open = lock.connection.as_ref().is_some_and(|connection| connection.closed.is_none());
            open && lock.renewals.as_ref().is_some_and(|renewals| renewals.period_ms.is_some())
        })
        .await;
    }
    // Most of both leases is left, so that there is time to tell of both.
    until(&mut engine, "lock:stopped", "was renewed just now", |lock| {
        lock.renewals.as_ref().is_some_and(|renewals| renewals.last_ms.is_some_and(|ago| ago < 1_000))
    })
    .await;
    killed.crash();
    stopped.pause();
    let orphan = until_state(&mut engine, "lock:killed", State::Orphan).await;
    let sentence = orphan.verdict.evidence.join("; ");
    assert!(sentence.contains("holder's connection 127.0.0.1:") && sentence.contains(" closed "), "{sentence}");
    let stalled = until_state(&mut engine, "lock:stopped", State::Stalled).await;
    let sentence = stalled.verdict.evidence.join("; ");
    assert!(sentence.contains("renewed every ") && sentence.contains("lost in "), "{sentence}");
    assert!(stalled.connection.is_some_and(|connection| connection.closed.is_none()), "its process is still there");
}

#[tokio::test]
async fn a_lock_without_a_ttl_is_an_orphan_once_its_holder_is_gone() {
    let server = Feed::Notifications.server();
    let Some(library) = Library::python("redis_py", &server).map(Arc::new) else { return };
    let mut engine = follow(&server).await;
    // The closing of a connection says something only of a client that keeps its connection: it uses it before, too.
    let first = library.clone();
    during(&mut engine, move || first.acquire_forever("lock:first")).await.release();
    engine.run_for(Duration::from_secs(3)).await;
    // One command names it. If that fell between two bursts, its client is unknown: try again.
    let mut holder = None;
    for number in 0..10 {
        let key = format!("lock:forever-{number}");
        let (library, name) = (library.clone(), key.clone());
        let taken = during(&mut engine, move || library.acquire_forever(&name)).await;
        let bare = until_state(&mut engine, &key, State::NoTtl).await;
        assert!(bare.verdict.evidence.iter().any(|sentence| sentence.contains("has no TTL")), "{bare:?}");
        // By then the burst in which it was taken has been reported.
        engine.run_for(DUTY.burst.time + Duration::from_secs(2)).await;
        if view(&engine, &key).is_some_and(|lock| lock.connection.is_some()) {
            assert_eq!(view(&engine, &key).map(|lock| lock.verdict.state), Some(State::NoTtl), "its holder is there");
            holder = Some((key, taken));
            break;
        }
        taken.release();
    }
    let (key, taken) = holder.expect("one of ten was taken during a burst");
    // It was listed while it had nothing to do: it keeps its connection.
    until(&mut engine, &key, "has a client that keeps its connection", |lock| {
        let connection = lock.connection.as_ref();
        connection.and_then(|open| Some(open.seen.since(open.used?))).is_some_and(|idle| idle >= Duration::from_secs(2))
    })
    .await;
    taken.crash();
    let orphan = until_state(&mut engine, &key, State::Orphan).await;
    let sentence = orphan.verdict.evidence.join("; ");
    assert!(sentence.contains(" closed ") && sentence.contains("has no TTL"), "{sentence}");
}

#[tokio::test]
async fn work_that_outlives_its_lease_is_told_by_its_late_release() {
    let server = Feed::Notifications.server();
    let mut engine = follow(&server).await;
    let url = server.url();
    let work = tokio::spawn(async move {
        let manager = rslock::LockManager::new(vec![url]);
        // Every second export takes longer than its lease. The others show what the library's script does.
        for number in 0.. {
            if let Ok(lock) = manager.lock("lock:export", Duration::from_millis(600)).await {
                let work = if number % 2 == 0 { 200 } else { 900 };
                tokio::time::sleep(Duration::from_millis(work)).await;
                manager.unlock(&lock).await;
            }
        }
    });
    let told = |lock: &LockView| {
        let late = |sentence: &str| sentence.contains(" tried to release it ") && sentence.contains("127.0.0.1:");
        lock.findings.iter().any(|finding| finding.name == "outlived" && late(&finding.sentence))
    };
    let lock = until(&mut engine, "lock:export", "is released too late", told).await;
    assert!(
        lock.notices.iter().any(|(_, notice)| matches!(notice, lockscope::model::Notice::Late { renewal: false, .. }))
    );
    work.abort();
}
