//! Accesses with a known cause, and those without.

use super::*;
use crate::base::time::Ttl;
use crate::lock::RawValue;
use crate::model::{Limits, Observation, Seen, Source};
use crate::testkit::pretend::{self, NODE};

const S: i64 = 1_000;

/// A lock that was last read at 10 s.
fn table(source: Source) -> Table {
    table_with(source, b"worker-1")
}

fn table_with(source: Source, value: &[u8]) -> Table {
    let mut table = pretend::table(pretend::recogniser("lock:*"), Limits::default());
    table.apply(Observation::Watched { node: NODE, source });
    table.apply(Observation::Gap { node: NODE, at: Time(0) });
    look_at(&mut table, value, 10 * S);
    table
}

fn look(table: &mut Table, at: i64) {
    look_at(table, b"worker-1", at);
}

fn look_at(table: &mut Table, value: &[u8], at: i64) {
    let seen = Seen::Present { value: RawValue::string(value), ttl: Ttl::In(Duration::from_secs(600)) };
    let key = Key::from("lock:a");
    table.apply(Observation::Read { node: NODE, key, asked: Time(at), answered: Time(at), seen, source: Source::Scan });
}

fn touched(table: &mut Table, at: i64) {
    table.apply(Observation::Idle { node: NODE, key: Key::from("lock:a"), since: Time(at) });
}

fn wanted(table: &Table, now: i64) -> Option<Time> {
    table.lock_named(crate::lock::KeyspaceId::FIRST, b"lock:a").unwrap().wanted(Time(now))
}

/// The list of clients, with one that has this name.
fn listed(table: &mut Table, name: &str, at: i64) {
    let address = crate::model::Address::parse("10.0.3.9:40000").unwrap();
    let client = crate::model::Connection {
        id: Some(7),
        name: Some(name.into()),
        ..crate::model::Connection::new(address, Time(at))
    };
    let asked = crate::model::Asked::All;
    table.apply(Observation::Connections { node: NODE, at: Time(at), asked, present: vec![client] });
}

#[test]
fn several_touches_that_nothing_explains_are_somebody() {
    let mut table = table(Source::Notification);
    for at in [13 * S, 15 * S] {
        touched(&mut table, at);
        assert_eq!(wanted(&table, at), None, "events on their way, or a person who looks");
    }
    touched(&mut table, 17 * S);
    assert_eq!(wanted(&table, 20 * S), Some(Time(17 * S)));
    assert_eq!(wanted(&table, 40 * S), None, "long ago says nothing of now");
    let (lock, now) = (table.lock_named(crate::lock::KeyspaceId::FIRST, b"lock:a").unwrap(), Time(19 * S));
    let evidence = table.view(lock, now).unwrap().verdict.evidence;
    assert_eq!(
        evidence.last().unwrap(),
        "somebody reads it, and may poll for it (last 2.0s ago); who, and how often, is not known"
    );
}

#[test]
fn the_reads_of_another_lockscope_are_nobody_who_waits() {
    let mut table = table(Source::Notification);
    listed(&mut table, "lockscope-4242-0000", 11 * S);
    for at in (13..60).step_by(2).map(|s| s * S) {
        touched(&mut table, at);
        assert_eq!(wanted(&table, at), None);
    }
    assert!(!table.wants_whole_list(NODE), "there is nothing to be learnt");
}

#[test]
fn whether_another_lockscope_reads_is_asked_before_anybody_is_told_of() {
    let mut table = table(Source::Notification);
    listed(&mut table, "orders-1", 11 * S);
    for at in [13 * S, 15 * S, 17 * S] {
        touched(&mut table, at);
        assert!(wanted(&table, at).is_none() && table.wants_whole_list(NODE), "it may have come since");
    }
    listed(&mut table, crate::base::process::connection_name(), 18 * S);
    assert!(!table.wants_whole_list(NODE));
    touched(&mut table, 19 * S);
    assert_eq!(wanted(&table, 19 * S), Some(Time(19 * S)), "only this lockscope is there");
    touched(&mut table, 21 * S);
    assert!(!table.wants_whole_list(NODE), "one list is enough");
}

/// The server keeps one object for all keys whose value is 1, and one time of its last use.
#[test]
fn a_touch_of_a_number_that_keys_share_is_nobody() {
    for (value, is_shared) in
        [("1", true), ("0", true), ("9999", true), ("10000", false), ("007", false), ("-1", false)]
    {
        let mut table = table_with(Source::Notification, value.as_bytes());
        for at in [14, 16, 18] {
            touched(&mut table, at * S);
        }
        assert_eq!(wanted(&table, 18 * S).is_none(), is_shared, "{value}");
    }
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
    touched(&mut table, 77 * S);
    assert_eq!(wanted(&table, 77 * S), Some(Time(77 * S)));
}

#[test]
fn where_changes_are_not_told_a_renewal_is_not_taken_for_somebody() {
    let mut table = table(Source::Scan);
    touched(&mut table, 13 * S);
    touched(&mut table, 15 * S);
    touched(&mut table, 17 * S);
    assert_eq!(wanted(&table, 17 * S), None);
}
