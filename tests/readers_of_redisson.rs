//! One of several readers of Redisson's read/write lock is freed: only the hold that was shown goes, the others keep the
//! lock for as long as their own leases last, and nobody is told that the lock is free.

mod common;

use common::acting::Acting;
use common::{Desk, Server};
use lockscope::actions::{Outcome, Performed, Refusal, plan};
use lockscope::model::LockView;

const A: &str = "3f2a8c00-1111-4222-8333-444455556666:57";
const B: &str = "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9";
const C: &str = "0b5e7c1a-94f2-4d3b-8e6a-2f1c9d7b3a50:4";
const HOUR_MS: i64 = 3_600_000;

/// Enters the lock as Redisson does: one more in its field, and a lease for that entry.
fn enter(server: &Server, reader: &str, lease_ms: i64) {
    server.cli(&["HSET", "lock:rw", "mode", "read"]);
    let entry: i64 = server.ask(&["HINCRBY", "lock:rw", reader, "1"]);
    server.cli(&["SET", &lease(reader, entry), "1", "PX", &lease_ms.to_string()]);
    if left(server) < lease_ms {
        server.cli(&["PEXPIRE", "lock:rw", &lease_ms.to_string()]);
    }
}

fn lease(reader: &str, entry: i64) -> String {
    format!("{{lock:rw}}:{reader}:rwlock_timeout:{entry}")
}

fn left(server: &Server) -> i64 {
    server.ask(&["PTTL", "lock:rw"])
}

/// A lock that these have entered, each for its lease.
async fn entered(readers: &[(&str, i64)]) -> (Server, Acting) {
    let server = Server::start();
    readers.iter().for_each(|(reader, lease_ms)| enter(&server, reader, *lease_ms));
    let acting = Acting::on(&server).await;
    (server, acting)
}

/// The lease of A, the first of two readers, has run out.
async fn lapsed() -> (Server, Acting, LockView) {
    let (server, acting) = entered(&[(A, 60_000), (B, 60_000)]).await;
    server.cli(&["DEL", &lease(A, 1)]);
    let lock = acting.see(b"lock:rw", None).await.expect("a lock");
    (server, acting, lock)
}

fn is_done(performed: &Performed) -> bool {
    matches!(performed.outcome, Outcome::Done { .. })
}

#[tokio::test]
async fn a_reader_whose_lease_had_run_out_and_that_came_again_is_left_alone() {
    let (server, mut acting, lock) = lapsed().await;
    let hour = std::time::Duration::from_secs(3_600);
    let longer = plan::extend(&lock, Some(A.as_bytes()), hour, acting.clock.now()).expect("a plan");
    server.cli(&["HDEL", "lock:rw", A]);
    enter(&server, A, 60_000);
    let before = server.everything();
    for refused in
        [acting.free(&lock, Some(A.as_bytes())).await, acting.free(&lock, None).await, acting.perform(&longer).await]
    {
        let Outcome::Refused(Refusal::AnotherLease(why)) = &refused.outcome else { panic!("{refused:?}") };
        assert!(why.contains("had none when you looked"), "{why}");
    }
    assert_eq!(server.everything(), before);
    let plan = acting.plan_free(&lock, Some(A.as_bytes())).even_if_renewed();
    assert!(is_done(&acting.perform(&plan).await), "who wants it freed although it was renewed gets that");
}

#[tokio::test]
async fn a_reader_whose_lease_has_run_out_is_freed() {
    let (server, mut acting, lock) = lapsed().await;
    let freed = acting.free(&lock, Some(A.as_bytes())).await;
    assert!(is_done(&freed), "{freed:?}");
    assert_eq!(server.ask::<Vec<String>, _>(&["HKEYS", "lock:rw"]), ["mode", B]);
}

#[tokio::test]
async fn a_reader_that_entered_once_more_since_is_left_alone() {
    let (server, mut acting) = entered(&[(A, 60_000), (B, 60_000)]).await;
    let lock = acting.see(b"lock:rw", None).await.expect("a lock");
    enter(&server, A, 60_000);
    let before = server.everything();
    for refused in [acting.free(&lock, Some(A.as_bytes())).await, acting.free(&lock, None).await] {
        let Outcome::Refused(why) = &refused.outcome else { panic!("{refused:?}") };
        assert!(why.to_string().contains("has entered it 2 times now, not 1"), "{why}");
    }
    assert_eq!(server.everything(), before);
    let now = acting.see(b"lock:rw", None).await.expect("a lock");
    assert!(is_done(&acting.free(&now, Some(A.as_bytes())).await), "what was looked at again");
    assert_eq!(server.ask::<Vec<String>, _>(&["KEYS", "*timeout*"]), [lease(B, 1)], "no lease is left behind");
}

#[tokio::test]
async fn a_lock_lasts_no_longer_than_the_readers_that_stay() {
    let (server, mut acting) = entered(&[(B, 30_000), (A, HOUR_MS)]).await;
    let lock = acting.see(b"lock:rw", None).await.expect("a lock");
    let freed = acting.free(&lock, Some(A.as_bytes())).await;
    assert!(is_done(&freed), "{freed:?}");
    assert!((1..=30_000).contains(&left(&server)), "writers wait for {} ms", left(&server));
    let put_back = acting.undo(&freed.id).await;
    assert!(is_done(&put_back), "{put_back:?}");
    assert!(left(&server) > HOUR_MS - 60_000, "what was put back ends in {} ms", left(&server));
}

#[tokio::test]
async fn a_reader_that_came_since_keeps_its_whole_lease() {
    let (server, mut acting) = entered(&[(B, 30_000), (A, HOUR_MS)]).await;
    let lock = acting.see(b"lock:rw", None).await.expect("a lock");
    enter(&server, B, 600_000);
    enter(&server, C, 900_000);
    assert!(is_done(&acting.free(&lock, Some(A.as_bytes())).await));
    assert!((840_000..=900_000).contains(&left(&server)), "{} ms", left(&server));
}

/// Whose end is not known keeps the time that the lock has.
#[tokio::test]
async fn a_reader_without_a_lease_of_its_own_keeps_the_lock_as_long_as_it_was() {
    for unknown in ["gone", "never ends", "too many"] {
        let (server, mut acting) = entered(&[(B, 30_000), (C, 40_000), (A, HOUR_MS)]).await;
        match unknown {
            "gone" => server.cli(&["DEL", &lease(B, 1)]),
            "never ends" => server.cli(&["PERSIST", &lease(B, 1)]),
            _ => server.cli(&["HSET", "lock:rw", B, "9223372036854775807"]),
        };
        let lock = acting.see(b"lock:rw", None).await.expect("a lock");
        assert!(is_done(&acting.free(&lock, Some(A.as_bytes())).await), "{unknown}");
        assert!(left(&server) > HOUR_MS - 60_000, "{unknown}: {} ms", left(&server));
    }
}

#[test]
fn a_lock_that_others_hold_is_not_told_as_freed() {
    let server = Server::start();
    let desk = Desk::at(&server);
    enter(&server, A, 60_000);
    enter(&server, B, 60_000);
    let ran = desk.run(&["release", "lock:rw", "--holder", A, "--dry-run"]);
    let line = |start: &str| ran.out.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_default();
    assert!(line("loses it").ends_with(A) && line("keeps it").ends_with(B), "{}", ran.out);
    assert!(ran.out.contains("PEXPIRE lock:rw <the longest lease of the readers that stay>"), "{}", ran.out);
    let ran = desk.run(&["release", "lock:rw", "--holder", A, "--yes"]);
    assert!(ran.out.starts_with(&format!("freed {A}'s share of lock:rw; 1 other still holds it")), "{ran:?}");
    let ran = desk.run(&["release", "lock:rw", "--holder", B, "--yes"]);
    assert!(ran.out.starts_with("freed lock:rw;"), "{ran:?}");

    // The same where each holder is a member of a sorted set.
    let tokens = ["q6bGZ0cQ1m3yq8Vb0h9s5kXo2n7Jr4tLw1eUzPaYdcA=", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="];
    server.cli(&["ZADD", "invoice-lock", "99999999999999", tokens[0], "99999999999999", tokens[1]]);
    let release = ["release", "invoice-lock", "--holder", tokens[0], "--dialect", "symfony=invoice-lock", "--yes"];
    let ran = desk.run(&release);
    let share = format!("freed {}'s share of invoice-lock; 1 other still holds it", tokens[0]);
    assert!(ran.out.starts_with(&share), "{ran:?}");
}
