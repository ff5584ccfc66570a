//! Freeing, extending and undoing, for the locks of every library on a real server.

mod common;

use std::time::Duration;

use common::Server;
use common::acting::Acting;
use common::samples::{ALL, Sample};
use lockscope::actions::Outcome;
use lockscope::model::LockView;

async fn seen(acting: &Acting, name: &str, sample: &Sample) -> LockView {
    let told = sample.told.then_some(sample.dialect);
    let lock = acting.see(&sample.key, told).await.unwrap_or_else(|| panic!("{name} is no lock"));
    assert_eq!(lock.dialect, sample.dialect, "{name}");
    lock
}

fn is_done(performed: &lockscope::actions::Performed) -> bool {
    matches!(performed.outcome, Outcome::Done { .. })
}

/// Such a lock is only a count, and a release shows in it.
fn is_counted(sample: &Sample) -> bool {
    sample.dialect == "redisson-semaphore"
}

#[tokio::test]
async fn each_library_s_lock_is_freed_and_put_back_exactly_as_it_was() {
    for (name, create) in ALL {
        let server = Server::start();
        let sample = create(&mut server.connection());
        let mut acting = Acting::on(&server).await;
        let lock = seen(&acting, name, &sample).await;
        let (before, ttl): (_, i64) = (server.everything(), server.ask(&[&b"PTTL"[..], &sample.key]));

        let freed = acting.free(&lock, None).await;
        assert!(is_done(&freed), "{name}: {freed:?}");
        assert_eq!(freed.undo, Ok(()), "{name}");
        let after = acting.see(&sample.key, sample.told.then_some(sample.dialect)).await;
        let holders = after.map_or(0, |lock| lock.holders.len());
        assert_eq!(holders, 0, "{name} is still held");
        assert_ne!(server.everything(), before, "{name}");

        let undone = acting.undo(&freed.id).await;
        assert!(is_done(&undone), "{name}: {undone:?}");
        let mut now = server.everything();
        // The key that woke the waiters stays for a moment and is not part of the lock.
        now.retain(|key, _| before.contains_key(key));
        assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{name}");
        assert_eq!(now, before, "{name}");
        let ttl_now: i64 = server.ask(&[&b"PTTL"[..], &sample.key]);
        assert!(if ttl < 0 { ttl_now == ttl } else { (1..=ttl).contains(&ttl_now) }, "{name}: {ttl_now} of {ttl}");
        let again = acting.journal.kept(&freed.id).unwrap();
        assert!(again.is_none(), "{name} can be put back only once");
    }
}

#[tokio::test]
async fn a_lock_that_changed_hands_is_left_alone() {
    for (name, create) in ALL {
        let server = Server::start();
        let sample = create(&mut server.connection());
        let mut acting = Acting::on(&server).await;
        let lock = seen(&acting, name, &sample).await;
        hand_over(&server, &sample);
        let before = server.everything();
        let performed = acting.free(&lock, None).await;
        assert!(matches!(performed.outcome, Outcome::Refused(_)), "{name}: {performed:?}");
        assert_eq!(server.everything(), before, "{name}");
        // Longer than the lease of any sample.
        if let Some(plan) = acting.plan_extend(name, &lock, Duration::from_secs(700_000)) {
            let performed = acting.perform(&plan).await;
            assert!(matches!(performed.outcome, Outcome::Refused(_)), "{name}: {performed:?}");
            let ttl: i64 = server.ask(&[&b"PTTL"[..], &sample.key]);
            assert!(!(600_000_000..=700_000_000).contains(&ttl), "{name} was extended: {ttl}");
        }
    }
}

/// Replaces the first holder by another, and changes nothing else.
fn hand_over(server: &Server, sample: &Sample) {
    let key = &sample.key[..];
    let kind: String = server.ask(&[&b"TYPE"[..], key]);
    match kind.as_str() {
        "string" => {
            let value: Vec<u8> = server.ask(&[&b"GET"[..], key]);
            let other = match is_counted(sample) {
                true => b"1".to_vec(),
                false => [&value[..value.len() - 1], &[value[value.len() - 1] ^ 1]].concat(),
            };
            server.cli(&[&b"SET"[..], key, &other, b"KEEPTTL"]);
        }
        "hash" => {
            for holder in &sample.holders {
                let value: Vec<u8> = server.ask(&[&b"HGET"[..], key, &holder.token]);
                server.cli(&[&b"HDEL"[..], key, &holder.token]);
                server.cli(&[&b"HSET"[..], key, &[&holder.token[..], b"9"].concat(), &value]);
            }
        }
        "zset" => {
            for holder in &sample.holders {
                server.cli(&[&b"ZREM"[..], key, &holder.token]);
                server.cli(&[&b"ZADD"[..], key, b"99999999999999", &[&holder.token[..], b"9"].concat()]);
            }
        }
        "set" => {
            for holder in &sample.holders {
                server.cli(&[&b"SREM"[..], key, &holder.token]);
                server.cli(&[&b"SADD"[..], key, &[&holder.token[..], b"9"].concat()]);
            }
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn what_somebody_has_taken_since_is_not_put_back() {
    for (name, create) in ALL {
        let server = Server::start();
        let sample = create(&mut server.connection());
        let mut acting = Acting::on(&server).await;
        let lock = seen(&acting, name, &sample).await;
        let freed = acting.free(&lock, None).await;
        assert!(is_done(&freed), "{name}: {freed:?}");
        // The same lock taken again, even by the same holder's name, is another hold.
        create(&mut server.connection());
        let before = server.everything();
        // Permits belong to nobody: while there are some, one can be taken back.
        if is_counted(&sample) {
            server.cli(&[&b"SET"[..], &sample.key, b"0"]);
        }
        let undone = acting.undo(&freed.id).await;
        assert!(matches!(undone.outcome, Outcome::Refused(_)), "{name}: {undone:?}");
        if !is_counted(&sample) {
            assert_eq!(server.everything(), before, "{name}");
        }
    }
}

#[tokio::test]
async fn the_operator_that_the_doctor_advises_can_do_all_of_it() {
    let server = Server::start();
    let output = common::lockscope().args(["doctor", "--json", "-p", "*", "-u", &server.url()]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the doctor's report");
    let line = report["acl"]["operator"].as_str().expect("a line to paste").replace(">PASSWORD", ">pw");
    server.cli(&line.split(' ').map(|word| word.trim_matches('\'')).collect::<Vec<_>>());
    let mut acting = Acting::as_user(&server, "lockscope-operator:pw@").await;
    for (name, create) in ALL {
        let sample = create(&mut server.connection());
        let lock = seen(&acting, name, &sample).await;
        if let Some(plan) = acting.plan_extend(name, &lock, Duration::from_secs(100_000)) {
            let longer = acting.perform(&plan).await;
            assert!(is_done(&longer), "{name}: {longer:?}");
        }
        // If holders use the same token each time, a changed lease means another hold.
        server.cli(&["FLUSHALL"]);
        let sample = create(&mut server.connection());
        let lock = seen(&acting, name, &sample).await;
        let freed = acting.free(&lock, None).await;
        assert!(is_done(&freed) && freed.undo.is_ok(), "{name}: {freed:?}");
        let undone = acting.undo(&freed.id).await;
        assert!(is_done(&undone), "{name}: {undone:?}");
        server.cli(&["FLUSHALL"]);
    }
    assert_eq!(server.refused(), [""; 0]);
}
