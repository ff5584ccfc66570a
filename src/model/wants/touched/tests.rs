//! Accesses with a known cause, and those without.

use super::*;
use crate::base::time::Ttl;
use crate::lock::RawValue;
use crate::model::{Limits, Observation, Seen, Source};
use crate::testkit::pretend::{self, NODE};

const S: i64 = 1_000;

/// A lock that was last read at 10 s.
fn table(source: Source) -> Table {
    let mut table = pretend::table(pretend::recogniser("lock:*"), Limits::default());
    table.apply(Observation::Watched { node: NODE, source });
    table.apply(Observation::Gap { node: NODE, at: Time(0) });
    look(&mut table, 10 * S);
    table
}

fn look(table: &mut Table, at: i64) {
    let seen = Seen::Present { value: RawValue::string(b"worker-1"), ttl: Ttl::In(Duration::from_secs(600)) };
    let key = Key::from("lock:a");
    table.apply(Observation::Read { node: NODE, key, asked: Time(at), answered: Time(at), seen, source: Source::Scan });
}

fn touched(table: &mut Table, at: i64) {
    table.apply(Observation::Idle { node: NODE, key: Key::from("lock:a"), since: Time(at) });
}

fn wanted(table: &Table, now: i64) -> Option<Time> {
    table.lock_named(crate::lock::KeyspaceId::FIRST, b"lock:a").unwrap().wanted(Time(now))
}

#[test]
fn two_touches_that_nothing_explains_are_somebody() {
    let mut table = table(Source::Notification);
    touched(&mut table, 13 * S);
    assert_eq!(wanted(&table, 13 * S), None, "one may be an event on its way");
    touched(&mut table, 15 * S);
    assert_eq!(wanted(&table, 15 * S), Some(Time(15 * S)));
    touched(&mut table, 17 * S);
    assert_eq!(wanted(&table, 20 * S), Some(Time(17 * S)));
    assert_eq!(wanted(&table, 40 * S), None, "long ago says nothing of now");
    let (lock, now) = (table.lock_named(crate::lock::KeyspaceId::FIRST, b"lock:a").unwrap(), Time(19 * S));
    let evidence = table.view(lock, now).unwrap().verdict.evidence;
    assert_eq!(
        evidence.last().unwrap(),
        "somebody tries to take it or looks at it (seen 2.0s ago), how often is not known"
    );
}

#[test]
fn our_own_looks_are_nobody() {
    let mut table = table(Source::Notification);
    for at in (10..60).map(|s| s * S) {
        // The record is exact to a second, so it may show our read up to a second late or early.
        touched(&mut table, at + 900);
        look(&mut table, at + S);
        assert_eq!(wanted(&table, at + S), None);
    }
}

#[test]
fn a_look_that_is_told_late_takes_back_what_it_explains() {
    let mut table = table(Source::Notification);
    touched(&mut table, 13 * S);
    look(&mut table, 13 * S);
    touched(&mut table, 13 * S);
    touched(&mut table, 14 * S);
    assert_eq!(wanted(&table, 15 * S), None);
}

#[test]
fn the_same_touch_seen_twice_is_one() {
    let mut table = table(Source::Notification);
    for _ in 0..10 {
        touched(&mut table, 13 * S);
        touched(&mut table, 14 * S);
    }
    assert_eq!(wanted(&table, 14 * S), None, "a second is the grain of the clock");
}

#[test]
fn visits_far_apart_are_nobody_who_waits() {
    let mut table = table(Source::Notification);
    touched(&mut table, 13 * S);
    touched(&mut table, 73 * S);
    assert_eq!(wanted(&table, 73 * S), None);
    touched(&mut table, 75 * S);
    assert_eq!(wanted(&table, 75 * S), Some(Time(75 * S)));
}

#[test]
fn where_changes_are_not_told_a_renewal_is_not_taken_for_somebody() {
    let mut table = table(Source::Scan);
    touched(&mut table, 13 * S);
    touched(&mut table, 15 * S);
    assert_eq!(wanted(&table, 15 * S), None);
}
