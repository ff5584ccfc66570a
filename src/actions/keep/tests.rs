use super::*;
use crate::actions::Refusal;
use crate::actions::plan::{Freeing, free};
use crate::actions::write::Write;
use crate::testkit::sample;

const AT: i64 = 1_790_000_900_000;

fn blob(text: &str) -> Blob {
    Blob(text.as_bytes().to_vec())
}

/// A release that is surely done, and took this away.
fn kept(things: Vec<Keep>) -> Kept {
    let lock = sample::redisson();
    let plan = free(&lock, Freeing::default(), lock.at).unwrap();
    let about = About {
        batch: None,
        id: "1-1-1".into(),
        target: "redis://a".into(),
        db: 0,
        keyspace: None,
        by: "me".into(),
        reason: None,
        at: AT,
    };
    let nothing = Kept::nothing(about, &plan, Deed::Freed);
    Kept { state: State::Confirmed, until: Some(AT + 60_000), things, ..nothing }
}

fn whole(key: &str) -> Keep {
    let what = What::Whole { key: blob(key), dump: blob("dump") };
    Keep { what, until: Some(AT + 60_000), when_emptied: false }
}

fn back(kept: &Kept, after_ms: i64) -> Result<crate::actions::Plan, Refusal> {
    kept.plan(Time(AT + after_ms))
}

#[test]
fn a_lock_is_put_back_into_a_free_place_while_its_lease_would_run() {
    let plan = back(&kept(vec![whole("lock:a")]), 10_000).unwrap();
    assert_eq!(plan.checks, [Check::Before(AT + 60_000), Check::Absent(b"lock:a".to_vec())]);
    assert_eq!(plan.commands(), ["RESTORE lock:a as it was with the TTL that would be left"]);
    let late = back(&kept(vec![whole("lock:a")]), 60_000).unwrap_err();
    assert!(late.to_string().contains("would have ended"), "{late}");
}

#[test]
fn only_what_was_surely_freed_is_put_back() {
    for state in [State::Begun, State::Unknown] {
        let unsure = Kept { state, ..kept(vec![whole("lock:a")]) };
        assert!(back(&unsure, 0).unwrap_err().to_string().contains("not known whether"));
        assert!(back(&unsure.insisted(None), 0).is_ok());
    }
    assert!(back(&Kept { deed: Deed::Extended, ..kept(vec![whole("lock:a")]) }, 0).is_err());
    assert!(back(&kept(Vec::new()), 0).is_err(), "nothing was kept");
}

#[test]
fn a_permit_that_has_ended_is_not_taken_again() {
    let scored = |member: &str, end: i64| Keep {
        what: What::Scored { key: blob("s"), member: blob(member), score: end.to_string() },
        until: None,
        when_emptied: false,
    };
    let counter = What::Permits { counter: blob("n"), permits: 2 };
    let things = vec![
        scored("a", AT + 5_000),
        scored("b", AT + 30_000),
        Keep { what: counter, until: None, when_emptied: false },
    ];
    let mut kept = kept(things);
    kept.obstacles = vec![Barrier::Ended { key: blob("s"), lease_ms: 0 }];
    let plan = back(&kept, 10_000).unwrap();
    assert!(plan.writes.contains(&Write::TakePermits { counter: b"n".to_vec(), permits: 1 }), "{plan:?}");
    assert_eq!(plan.commands().iter().filter(|line| line.starts_with("ZADD")).count(), 1);
    assert!(back(&kept, 40_000).is_err(), "both have ended");
}

#[test]
fn what_others_still_held_is_no_part_of_the_release() {
    let mut kept = kept(vec![whole("lock:a"), Keep { when_emptied: true, ..whole("lock:a:leases") }]);
    assert_eq!(kept.checks().len(), 1, "it is not known yet whether the second one goes");
    let mut last = kept.clone();
    last.settle(true, &Cleared::default());
    assert_eq!((last.things.len(), last.obstacles.len()), (2, 0));
    kept.settle(false, &Cleared::default());
    assert_eq!((kept.things.len(), &kept.obstacles[..]), (1, &[Barrier::NoRest(kept.key.clone())][..]));
}

#[test]
fn a_limit_counts_what_is_put_back() {
    let field = What::Field { key: blob("h"), field: blob("f"), value: blob("1") };
    let mut kept = kept(vec![Keep { what: field, until: None, when_emptied: false }]);
    kept.obstacles = vec![Barrier::Fields { key: blob("h"), most: 3 }];
    let plan = back(&kept, 0).unwrap();
    assert!(plan.checks.contains(&Check::FieldsAtMost { key: b"h".to_vec(), count: 2 }), "{plan:?}");
}
