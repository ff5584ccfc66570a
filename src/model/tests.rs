//! The table against a simulated server: with events late, repeated or out of order, it ends up with the truth.

pub(in crate::model) mod deeds;
mod deposed;
mod losses;
mod outages;
mod own_writes;
mod renewals;
mod scenarios;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::base::time::{Time, Ttl};
use crate::dialects::Recogniser;
use crate::lock::{Key, KeyspaceId, RawValue, Token};
use crate::testkit::pretend::{Keyspace, NODE, START, assert_replays, recogniser, settle, table, tell};

fn following(limits: Limits) -> Table {
    table(recogniser("lock:*"), limits)
}

fn seen(token: &str, ttl_ms: u64) -> Seen {
    Seen::Present { value: RawValue::string(token.as_bytes()), ttl: Ttl::In(Duration::from_millis(ttl_ms)) }
}

fn story(table: &mut Table) -> Vec<(&'static str, Option<String>, Option<String>)> {
    let text = |token: Option<Token>| token.map(|token| token.to_string());
    table.take_transitions().0.into_iter().map(|t| (t.change.name(), text(t.holder), text(t.previous))).collect()
}

#[test]
fn a_life_of_a_lock_is_told_in_order() {
    let mut table = following(Limits::default());
    let a = Some("tok-a".to_string());
    tell(&mut table, Time(1000), &[("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set), ("lock:a", KeyEvent::Expire)]);
    settle(&mut table, Time(1001), |_| seen("tok-a", 29_999));
    tell(&mut table, Time(11_000), &[("lock:a", KeyEvent::Expire)]);
    settle(&mut table, Time(11_001), |_| seen("tok-a", 29_999));
    let view = table.view(table.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap(), Time(12_000)).unwrap();
    assert_eq!(view.lease_ms, Some(30_000));
    assert_eq!((view.held_ms, view.held_is), (Some(11_000), Some(HeldIs::Exact)));
    assert_eq!(view.renewals.unwrap().count, 1);
    tell(&mut table, Time(15_000), &[("lock:a", KeyEvent::Del)]);
    settle(&mut table, Time(15_001), |_| Seen::Absent);
    assert_eq!(
        story(&mut table),
        [("acquired", a.clone(), None), ("renewed", a.clone(), None), ("released", None, a.clone())]
    );
    assert_eq!(table.held(), 0);
    let past = table.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap().past().next().unwrap().clone();
    assert_eq!((past.since, past.until, past.renewals), (Time(1000), Time(15_000), 1));
}

#[test]
fn a_deadline_that_passes_without_an_event_is_asked_about() {
    let mut table = following(Limits::default());
    tell(&mut table, Time(1000), &[("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set), ("lock:a", KeyEvent::Expire)]);
    settle(&mut table, Time(1000), |_| seen("t", 500));
    assert_eq!(table.to_read(NODE, 10, Time(1400)).len(), 0);
    settle(&mut table, Time(1600), |_| Seen::Absent);
    // The server deletes it when asked, and then the event is on its way: it is waited for.
    settle(&mut table, Time(1700), |_| Seen::Absent);
    assert_eq!(story(&mut table).last().unwrap().0, "expired");
}

#[test]
fn a_shorter_lease_than_before_is_not_missed() {
    let mut table = following(Limits::default());
    let take = [("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set), ("lock:a", KeyEvent::Expire)];
    for round in 0..500 {
        let at = 1_000 + round * 10;
        tell(&mut table, Time(at), &take);
        settle(&mut table, Time(at), |_| seen("t", 3_600_000));
        tell(&mut table, Time(at + 1), &[("lock:a", KeyEvent::Del)]);
        settle(&mut table, Time(at + 1), |_| Seen::Absent);
        tell(&mut table, Time(at + 2), &take);
        settle(&mut table, Time(at + 2), |_| seen("t", 3));
        assert_eq!(table.next_due(), Some(Time(at + 7)));
        settle(&mut table, Time(at + 8), |_| Seen::Absent);
        tell(&mut table, Time(at + 9), &[("lock:a", KeyEvent::Expired)]);
        settle(&mut table, Time(at + 9), |_| Seen::Absent);
        assert_eq!(story(&mut table).last().unwrap().0, "expired");
    }
}

#[test]
fn a_key_that_is_no_lock_is_left_alone_for_a_while() {
    let recogniser = Recogniser::new(vec![], vec![], vec![]);
    let mut table = Table::new(Arc::new(recogniser), Limits::default());
    let looks = |table: &mut Table, at| {
        tell(table, Time(at), &[("clock:lock", KeyEvent::Set)]);
        let tickets = table.to_read(NODE, 10, Time(at));
        let count = tickets.len();
        for ticket in tickets {
            let document = RawValue::Str { head: b"{".as_slice().into(), len: 100_000 };
            table.answer(ticket, Time(at), Time(at), Seen::Present { value: document, ttl: Ttl::Never });
        }
        count
    };
    assert_eq!(looks(&mut table, 1000), 1);
    assert_eq!(looks(&mut table, 2000), 0);
    assert_eq!(looks(&mut table, 12_000), 1);
    assert_eq!(table.held(), 0);
}

#[test]
fn a_flush_ends_every_lock_and_says_so() {
    let mut table = following(Limits::default());
    for key in ["lock:a", "lock:b"] {
        tell(&mut table, Time(1000), &[(key, KeyEvent::New), (key, KeyEvent::Set)]);
    }
    settle(&mut table, Time(1000), |_| seen("t", 60_000));
    table.apply(Observation::Flushed { node: NODE, at: Time(2000) });
    settle(&mut table, Time(2000), |_| Seen::Absent);
    assert_eq!(table.held(), 0);
    assert_eq!(story(&mut table).iter().filter(|line| line.0 == "lost").count(), 2);
}

#[test]
fn another_database_in_its_place_is_no_takeover() {
    let mut table = following(Limits::default());
    tell(&mut table, Time(1000), &[("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set)]);
    settle(&mut table, Time(1000), |_| seen("before", 60_000));
    table.apply(Observation::Flushed { node: NODE, at: Time(2000) });
    settle(&mut table, Time(2000), |_| seen("after", 60_000));
    let words: Vec<&str> = story(&mut table).iter().map(|line| line.0).collect();
    assert_eq!(words, ["acquired", "lost", "acquired"]);
}

#[test]
fn a_look_from_before_a_release_brings_no_ghost() {
    let mut table = following(Limits::default());
    // A walk has read the key, but its answer waits behind the event of the release.
    tell(&mut table, Time(1005), &[("lock:a", KeyEvent::Del)]);
    table.apply(Observation::Read {
        node: NODE,
        key: Key::from("lock:a"),
        asked: Time(1000),
        answered: Time(1010),
        seen: seen("t", 60_000),
        source: Source::Scan,
    });
    settle(&mut table, Time(1020), |_| Seen::Absent);
    assert_eq!((table.held(), story(&mut table).len()), (0, 0));
}

#[test]
fn after_a_gap_locks_are_stale_until_a_newer_sweep() {
    let mut table = following(Limits::default());
    tell(&mut table, Time(1000), &[("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set)]);
    settle(&mut table, Time(1000), |_| seen("t", 60_000));
    table.apply(Observation::Swept { node: NODE, started: Time(900) });
    assert!(table.is_complete());
    table.apply(Observation::Gap { node: NODE, at: Time(2000) });
    assert!(table.view(table.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap(), Time(2000)).unwrap().stale);
    assert!(!table.is_complete());
    // A scan that began before the gap proves nothing.
    table.apply(Observation::Swept { node: NODE, started: Time(1500) });
    assert!(!table.is_complete());
    table.apply(Observation::Swept { node: NODE, started: Time(2600) });
    settle(&mut table, Time(2700), |_| Seen::Absent);
    settle(&mut table, Time(2800), |_| Seen::Absent);
    assert!(table.is_complete());
    assert_eq!(table.held(), 0, "no ghost is left");
    table.apply(Observation::Flushed { node: NODE, at: Time(3000) });
    let free = table.view(table.lock_named(KeyspaceId::FIRST, b"lock:a").unwrap(), Time(60_000)).unwrap();
    assert_eq!((free.verdict.state, free.stale), (State::Free, false), "nobody looks again at what is gone");
}

#[test]
fn a_lock_first_heard_of_after_a_gap_has_missed_nothing() {
    let mut table = following(Limits::default());
    table.apply(Observation::Gap { node: NODE, at: Time(1000) });
    tell(&mut table, Time(1000), &[("lock:a", KeyEvent::New), ("lock:a", KeyEvent::Set)]);
    // The look is ahead of the release, whose event is waited for.
    settle(&mut table, Time(1010), |_| Seen::Absent);
    tell(&mut table, Time(1020), &[("lock:a", KeyEvent::Del)]);
    settle(&mut table, Time(1020), |_| Seen::Absent);
    let words: Vec<&str> = story(&mut table).iter().map(|line| line.0).collect();
    assert_eq!(words, ["acquired", "released"]);
}

#[test]
fn a_full_table_says_what_it_left_out() {
    let mut table = following(Limits { locks: 2, gone: 10, lost: 10, transitions: 10 });
    for key in ["lock:a", "lock:b", "lock:c"] {
        let read = Observation::Read {
            node: NODE,
            key: Key::from(key),
            asked: Time(1),
            answered: Time(1),
            seen: seen("t", 1000),
            source: Source::Scan,
        };
        table.apply(read);
    }
    assert_eq!((table.held(), table.locks_dropped()), (2, 1));
    assert!(!table.snapshot(Time(2)).complete);
}

#[test]
fn a_record_begins_with_the_nodes_and_counts_what_it_has_no_room_for() {
    let mut table = following(Limits::default());
    let gap = |at| Observation::Gap { node: NODE, at: Time(at) };
    table.apply(gap(1_000));
    assert_eq!(table.take_recorded(), (vec![], 0), "nobody records");
    table.record(5);
    (2..5).for_each(|s| table.apply(gap(s * 1_000)));
    let nodes = [
        Observation::Joined { node: NODE, space: KeyspaceId::FIRST },
        Observation::Hazards { node: NODE, hazards: Hazards::default() },
        Observation::Watched { node: NODE, source: Source::Notification },
        gap(1_000),
    ];
    assert_eq!(table.take_recorded(), (nodes.into_iter().chain([gap(2_000)]).collect(), 2));
    table.apply(gap(5_000));
    assert_eq!(table.take_recorded(), (vec![gap(5_000)], 0), "there is room again");
}

proptest! {
    #[test]
    fn late_repeated_and_disordered_events_never_corrupt_the_table(deeds in deeds::any(), wire in deeds::wire()) {
        let limits = Limits { locks: 64, gone: 2, lost: 2, transitions: 50 };
        let mut table = following(limits);
        table.record(10_000);
        let (server, now) = deeds::play(&mut table, deeds, wire, |_, _| {});
        let mut held: Vec<(Vec<u8>, String)> = table
            .locks()
            .map(|lock| (lock.key.as_bytes().to_vec(), table.holders(lock, now)[0].token.to_string()))
            .collect();
        held.sort();
        let holder = |value: &RawValue| value.as_string().map(|token| String::from_utf8_lossy(token).into_owned());
        let truth: Vec<(Vec<u8>, String)> =
            server.iter().filter_map(|(key, value)| Some((key.clone(), holder(value)?))).collect();
        prop_assert_eq!(table.held(), truth.len());
        prop_assert_eq!(held, truth);
        let other = Table::new(table.recogniser.clone(), limits);
        assert_replays(&mut table, other, &[], now);
    }
}

#[test]
fn a_test_lock_is_told_from_one_that_is_held_in_earnest() {
    let mut table = following(Limits::default());
    let ours = String::from_utf8(crate::dialects::own::test_token("web-3", 812, [7; 16])).unwrap();
    table.apply(Observation::Testing { key: Key::from("lock:chosen"), token: Token::from(&b"alice"[..]) });
    for key in ["lock:ours", "lock:chosen", "lock:alice", "lock:forever"] {
        tell(&mut table, Time(1_000), &[(key, KeyEvent::New), (key, KeyEvent::Set), (key, KeyEvent::Expire)]);
    }
    settle(&mut table, Time(1_001), |key| match key {
        b"lock:ours" => seen(&ours, 30_000),
        b"lock:forever" => Seen::Present { value: RawValue::string(ours.as_bytes()), ttl: Ttl::Never },
        _ => seen("alice", 30_000),
    });
    let state = |key: &str, at| table.state(table.lock_named(KeyspaceId::FIRST, key.as_bytes()).unwrap(), Time(at));
    assert_eq!(state("lock:ours", 2_000), State::Test);
    assert_eq!(state("lock:chosen", 2_000), State::Test);
    assert_eq!(state("lock:alice", 2_000), State::Held, "the same token on another key is somebody else's");
    assert_eq!(state("lock:forever", 2_000), State::NoTtl, "what is worse is said first");
    for at in [11_000, 21_000] {
        tell(&mut table, Time(at), &[("lock:ours", KeyEvent::Expire)]);
        settle(&mut table, Time(at + 1), |_| seen(&ours, 30_000));
    }
    let lock = table.lock_named(KeyspaceId::FIRST, b"lock:ours").unwrap();
    assert_eq!(table.state(lock, Time(25_000)), State::Test);
    assert_eq!(table.state(lock, Time(45_000)), State::Stalled);
}
