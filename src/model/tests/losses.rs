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

fn row(table: &Table, now: i64) -> Option<LockView> {
    table.snapshot(Time(now)).locks.into_iter().find(|lock| lock.key == Key::from("lock:a"))
}

#[test]
fn a_lock_that_was_lost_keeps_its_row_until_its_lease_would_have_ended() {
    let table = failed_over(Some(400));
    let lost = row(&table, 6_000).expect("listed");
    assert_eq!((lost.verdict.state, lost.state_label().as_ref()), (State::Lost, "LOST"));
    assert_eq!(Certainty::of(lost.verdict.confidence), Certainty::Certain);
    let said = "lost in a failover 500ms ago: taken 600ms after the last write that reached the new master; tok-a held \
                it for 4.5s and may not know: the lease would have ended in 25.0s";
    assert_eq!(lost.verdict.evidence, [said]);
    assert_eq!((lost.holders.len(), lost.held_ms, table.held()), (0, None, 0), "nobody holds it");
    let told = lost.lost.unwrap();
    assert_eq!((told.by, told.proven, told.lease_ends), (Ending::Failover, true, Some(Time(31_000))));
    assert_eq!(told.holder, Some(Token::from(&b"tok-a"[..])));
    assert_eq!(row(&table, 31_000), None, "its lease is over");
    assert_eq!(state(&table, 31_000), State::Free);
}

#[test]
fn what_may_have_been_released_is_a_guess_and_comes_after_what_was_lost() {
    for until in [None, Some(900)] {
        let table = failed_over(until);
        let lost = row(&table, 6_000).expect("listed");
        assert_eq!((lost.verdict.state, lost.state_label().as_ref()), (State::Lost, "LOST?"), "{until:?}");
        assert_eq!(lost.verdict.confidence, 0.5, "{until:?}");
        assert!(
            lost.verdict.evidence[0].starts_with("gone after a failover 500ms ago: lost, or released unseen; tok-a")
        );
        let proven = row(&failed_over(Some(400)), 6_000).unwrap();
        let orphan = Severity::new(State::Orphan, false);
        assert!(proven.severity() < lost.severity() && lost.severity() < orphan, "{until:?}");
    }
}

#[test]
fn a_lock_that_reached_the_new_master_and_is_gone_there_was_most_likely_released() {
    let table = failed_over(Some(4_900));
    assert_eq!((row(&table, 6_000), state(&table, 6_000)), (None, State::Free));
}

#[test]
fn a_lost_lock_that_another_takes_is_no_row_of_its_own() {
    let mut table = failed_over(Some(400));
    table.apply(Observation::Watched { node: NEW, source: Source::Notification });
    table.touch(NEW, b"lock:a", Time(6_000));
    look(&mut table, NEW, 6_001, &seen("tok-b", 30_000));
    look(&mut table, NEW, 7_001, &seen("tok-b", 29_000));
    table.patrol(100, Time(8_000));
    assert_eq!(table.snapshot(Time(8_000)).locks.len(), 1);
    assert_eq!((row(&table, 8_000).map(|lock| lock.verdict.state), table.held()), (Some(State::Split), 1));
}

#[test]
fn a_lock_that_its_holder_has_again_is_held_and_goes_on() {
    let mut table = failed_over(Some(400));
    table.take_transitions();
    // Another old master is promoted, and it has the lock.
    own(&mut table, NODE, 9_000);
    table.touch(NODE, b"lock:a", Time(9_000));
    look(&mut table, NODE, 9_010, &seen("tok-a", 20_000));
    look(&mut table, NODE, 10_010, &seen("tok-a", 19_000));
    assert_eq!(told(&mut table), [(Change::CameBack, false)]);
    let back = row(&table, 11_000).unwrap();
    assert_eq!((back.verdict.state, back.lost, back.held_ms), (State::Held, None, Some(10_000)));
    assert!(back.past.is_empty(), "it is the same hold: {:?}", back.past);
}

#[test]
fn a_lock_that_was_released_and_comes_back_with_an_old_master_is_not_acquired() {
    let mut table = taken();
    tell(&mut table, Time(3_000), &[("lock:a", KeyEvent::Del)]);
    settle(&mut table, Time(3_001), |_| Seen::Absent);
    assert_eq!(told(&mut table), [(Change::Ended(Ending::Released), false)]);
    own(&mut table, NEW, 5_000);
    table.touch(NEW, b"lock:a", Time(5_000));
    look(&mut table, NEW, 5_010, &seen("tok-a", 20_000));
    look(&mut table, NEW, 6_010, &seen("tok-a", 19_000));
    assert_eq!(told(&mut table), [(Change::CameBack, false)]);
    // Another holder can only have taken it.
    let mut table = taken();
    tell(&mut table, Time(3_000), &[("lock:a", KeyEvent::Del)]);
    settle(&mut table, Time(3_001), |_| Seen::Absent);
    own(&mut table, NEW, 5_000);
    table.touch(NEW, b"lock:a", Time(5_000));
    table.take_transitions();
    look(&mut table, NEW, 5_010, &seen("tok-b", 20_000));
    look(&mut table, NEW, 6_010, &seen("tok-b", 19_000));
    assert_eq!(told(&mut table), [(Change::Acquired, false)]);
}

#[test]
fn what_the_server_says_that_it_dropped_is_lost_and_what_is_gone_unseen_is_not() {
    for (event, by) in [(KeyEvent::Evicted, Ending::Evicted), (KeyEvent::RenamedFrom, Ending::Renamed)] {
        let mut table = taken();
        tell(&mut table, Time(3_000), &[("lock:a", event)]);
        settle(&mut table, Time(3_001), |_| Seen::Absent);
        let lost = row(&table, 4_000).and_then(|lock| lock.lost).expect("listed");
        assert_eq!((lost.by, lost.proven), (by, true));
    }
    let mut table = taken();
    table.apply(Observation::Flushed { node: NODE, at: Time(3_000) });
    settle(&mut table, Time(3_001), |_| Seen::Absent);
    assert_eq!(row(&table, 4_000).and_then(|lock| lock.lost).map(|lost| lost.by), Some(Ending::Flushed));
    let mut table = taken();
    table.apply(Observation::Gap { node: NODE, at: Time(3_000) });
    table.apply(Observation::Swept { node: NODE, started: Time(3_100) });
    look(&mut table, NODE, 3_200, &Seen::Absent);
    assert_eq!((told(&mut table), row(&table, 4_000)), (vec![(Change::Ended(Ending::Unseen), false)], None));
}

#[test]
fn a_lost_lock_without_a_ttl_stays_for_a_minute() {
    let mut table = following(Limits::default());
    tell(&mut table, Time(1_000), &[("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set)]);
    let forever = Seen::Present { value: RawValue::string(b"tok-a"), ttl: Ttl::Never };
    settle(&mut table, Time(1_001), |_| forever.clone());
    tell(&mut table, Time(5_000), &[("lock:a", KeyEvent::Evicted)]);
    settle(&mut table, Time(5_001), |_| Seen::Absent);
    let lost = row(&table, 64_999).expect("listed");
    assert_eq!(lost.lost.unwrap().lease_ends, None);
    assert!(lost.verdict.evidence[0].ends_with("the lease had no end"), "{:?}", lost.verdict.evidence);
    assert_eq!(row(&table, 65_000), None);
}

#[test]
fn of_locks_that_are_lost_together_only_so_many_are_listed_and_the_others_counted() {
    let mut table = following(Limits { lost: 5, gone: 10, ..Limits::default() });
    let names: Vec<String> = (0..40).map(|number| format!("lock:{number}")).collect();
    for name in &names {
        tell(&mut table, Time(1_000), &[(name, KeyEvent::New), (name, KeyEvent::Set), (name, KeyEvent::Expire)]);
    }
    settle(&mut table, Time(1_001), |_| seen("tok", 29_999));
    for name in &names {
        tell(&mut table, Time(3_000), &[(name, KeyEvent::Evicted)]);
    }
    settle(&mut table, Time(3_001), |_| Seen::Absent);
    table.patrol(1_000, Time(4_000));
    let seen = table.snapshot(Time(4_000));
    assert_eq!((seen.locks.len(), seen.lost_beyond, table.held()), (5, 35, 0));
    assert!(seen.locks.iter().all(|lock| lock.verdict.state == State::Lost));
    // Others that come and go do not push them out.
    for round in 0..30 {
        let name = format!("lock:other:{round}");
        tell(&mut table, Time(5_000), &[(&name, KeyEvent::New), (&name, KeyEvent::Set), (&name, KeyEvent::Del)]);
        settle(&mut table, Time(5_001), |_| Seen::Absent);
    }
    assert_eq!(table.snapshot(Time(6_000)).locks.len(), 5);
    table.patrol(1_000, Time(31_001));
    let seen = table.snapshot(Time(31_001));
    assert_eq!((seen.locks.len(), seen.lost_beyond), (0, 0));
    assert!(table.remembered().count() <= 10, "they are forgotten like all others");
}
