//! What is told of locks that are gone after a failover or a restart, and when it is proven.

use super::*;
use crate::lock::{NodeId, SLOTS};

const NEW: NodeId = NodeId(1);

/// A lock that was seen to be taken at one second, of a keyspace whose nodes change.
fn taken() -> Table {
    let mut table = following(Limits::default());
    for node in [NODE, NEW] {
        table.apply(Observation::Joined { node, space: KeyspaceId::FIRST });
    }
    own(&mut table, NODE, 0);
    let events = [("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set), ("lock:a", KeyEvent::Expire)];
    tell(&mut table, Time(1_000), &events);
    settle(&mut table, Time(1_001), |_| seen("tok-a", 29_999));
    table.take_transitions();
    table
}

fn own(table: &mut Table, node: NodeId, at: i64) {
    table.apply(Observation::Owners { space: KeyspaceId::FIRST, slots: vec![(0, SLOTS - 1, node)], at: Time(at) });
}

fn look(table: &mut Table, node: NodeId, now: i64, seen: &Seen) {
    let tickets = table.to_read(node, 10, Time(now));
    for ticket in tickets {
        table.answer(ticket, Time(now), Time(now), seen.clone());
    }
}

fn told(table: &mut Table) -> Vec<(Change, bool)> {
    table.take_transitions().0.into_iter().map(|told| (told.change, told.proven)).collect()
}

fn state(table: &Table, now: i64) -> State {
    table.state(table.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap(), Time(now))
}

/// The new node takes over at five seconds, and got what was written until then.
fn failed_over(until: Option<i64>) -> Table {
    let mut table = taken();
    table.apply(Observation::TookOver { node: NEW, at: Time(5_000) });
    own(&mut table, NEW, 5_000);
    look(&mut table, NEW, 5_010, &Seen::Absent);
    assert_eq!(told(&mut table), [], "what it got is not known yet");
    table.apply(Observation::Cut { node: NEW, since: until.map(Time) });
    look(&mut table, NEW, 5_500, &Seen::Absent);
    table
}

#[test]
fn a_lock_that_never_reached_the_new_master_is_lost_and_that_is_proven() {
    let mut table = failed_over(Some(400));
    assert_eq!(told(&mut table), [(Change::Ended(Ending::Failover), true)]);
    // Its old holder works on while another takes it.
    table.apply(Observation::Watched { node: NEW, source: Source::Notification });
    table.touch(NEW, b"lock:a", Time(6_000));
    look(&mut table, NEW, 6_001, &seen("tok-b", 30_000));
    look(&mut table, NEW, 7_001, &seen("tok-b", 29_000));
    assert_eq!(state(&table, 8_000), State::Split);
    assert_ne!(state(&table, 31_500), State::Split, "the old lease is over");
}

#[test]
fn a_lock_that_may_have_reached_it_may_have_been_released() {
    for until in [None, Some(900), Some(4_900)] {
        assert_eq!(told(&mut failed_over(until)), [(Change::Ended(Ending::Failover), false)], "{until:?}");
    }
}

#[test]
fn a_new_master_that_does_not_say_what_it_got_is_not_waited_for_for_ever() {
    let mut table = taken();
    table.apply(Observation::TookOver { node: NEW, at: Time(5_000) });
    own(&mut table, NEW, 5_000);
    look(&mut table, NEW, 5_010, &Seen::Absent);
    assert_eq!(told(&mut table), []);
    look(&mut table, NEW, 8_500, &Seen::Absent);
    assert_eq!(told(&mut table), [(Change::Ended(Ending::Failover), false)]);
}

#[test]
fn a_lock_that_is_gone_with_its_slot_is_no_failover() {
    let mut table = taken();
    own(&mut table, NEW, 5_000);
    look(&mut table, NEW, 5_010, &Seen::Absent);
    assert_eq!(told(&mut table), [(Change::Ended(Ending::SlotTaken), false)]);
}

#[test]
fn a_server_that_comes_back_empty_has_lost_everything() {
    for empty in [true, false] {
        let mut table = taken();
        table.apply(Observation::Gap { node: NODE, at: Time(5_000) });
        table.apply(Observation::Noted { node: NODE, at: Time(5_100), what: What::Restarted });
        if empty {
            table.apply(Observation::Emptied { node: NODE, at: Time(5_100) });
        }
        table.apply(Observation::Swept { node: NODE, started: Time(5_200) });
        look(&mut table, NODE, 5_300, &Seen::Absent);
        assert_eq!(told(&mut table), [(Change::Ended(Ending::Restart), empty)]);
    }
}

/// A lock of the old master that is renewed every three seconds, until the last time at 10 s; the new one takes over then.
fn renewed_until_a_failover() -> Table {
    let mut table = taken();
    for at in [4_000, 7_000, 10_000] {
        tell(&mut table, Time(at), &[("lock:a", KeyEvent::Expire)]);
        settle(&mut table, Time(at + 1), |_| seen("tok-a", 29_999));
    }
    table.apply(Observation::TookOver { node: NEW, at: Time(11_000) });
    own(&mut table, NEW, 11_000);
    table.apply(Observation::Watched { node: NEW, source: Source::Notification });
    look(&mut table, NEW, 11_010, &seen("tok-a", 28_990));
    assert_eq!(table.take_transitions().0.last().map(|told| told.change), Some(Change::Moved));
    table
}

#[test]
fn a_holder_that_renews_at_the_replaced_master_is_not_told_dead() {
    let table = renewed_until_a_failover();
    for now in [14_000, 18_000, 22_900] {
        assert_eq!(state(&table, now), State::Held, "{now}");
    }
    assert!(matches!(state(&table, 36_000), State::Orphan), "nobody came for it");
}

#[test]
fn a_holder_that_was_found_at_the_new_master_is_missed_there_at_once() {
    let mut table = renewed_until_a_failover();
    let mut batch = EventBatch::new(Time(13_000));
    batch.push(b"lock:a", KeyEvent::Expire);
    table.apply(Observation::Events { node: NEW, batch });
    look(&mut table, NEW, 13_001, &seen("tok-a", 29_999));
    assert_eq!(state(&table, 15_000), State::Held);
    assert_eq!(state(&table, 24_000), State::Orphan, "three of its own periods");
}
