//! What a round over the table sees.

use super::*;
use crate::base::server_text::ServerText;
use crate::lock::Key;
use crate::model::figures::Rates;
use crate::model::{Hazards, Observation, State, Tries, TriesFrom, Waits, WaitsAt};
use crate::testkit::pretend::NODE;

fn count(table: &mut Table, key: &str, count: u32, at: WaitsAt, counted: i64) {
    let waits = Waits { count, at, at_least: false, dead_heads: None, counted: Time(counted) };
    table.apply(Observation::Counted { node: NODE, key: Key::from(key), waits });
}

#[test]
fn locks_are_counted_by_state_and_the_oldest_hold_is_known() {
    let mut table = following();
    happens(&mut table, 1_000, "lock:order:1", &TAKE, held("a", 300_000));
    happens(&mut table, 5_000, "lock:order:2", &TAKE, held("b", 300_000));
    let forever = Seen::Present { value: RawValue::string(b"c"), ttl: Ttl::Never };
    happens(&mut table, 6_000, "lock:cart", &TAKE[..2], forever);
    assert!(table.rounded().is_none() && pattern(&table, "lock:cart").tally.is_none(), "nothing was counted yet");
    table.patrol(100, Time(10_000));
    assert_eq!(table.rounded(), Some(Time(10_000)));
    let order = tally(&table, "lock:order:*");
    assert_eq!((order.locks(State::Held), order.all(), order.oldest), (2, 2, Some(Time(1_000))));
    assert_eq!(tally(&table, "lock:cart").locks(State::NoTtl), 1);
    happens(&mut table, 11_000, "lock:order:1", &[KeyEvent::Del], Seen::Absent);
    happens(&mut table, 11_000, "lock:order:2", &[KeyEvent::Del], Seen::Absent);
    table.patrol(100, Time(12_000));
    let order = tally(&table, "lock:order:*");
    assert_eq!((order.locks(State::Held), order.all(), order.oldest), (0, 0, None));
}

#[test]
fn a_round_in_slices_is_told_when_it_is_whole() {
    let mut table = following();
    for number in 0..10 {
        happens(&mut table, 1_000, &format!("lock:order:{number}"), &TAKE, held("a", 300_000));
    }
    for slice in 0..3 {
        table.patrol(3, Time(10_000 + slice * 250));
        assert!(pattern(&table, "lock:order:*").tally.is_none());
    }
    table.patrol(3, Time(10_750));
    assert_eq!(tally(&table, "lock:order:*").all(), 10);
}

#[test]
fn waiters_are_unknown_until_they_are_counted_and_when_that_is_long_ago() {
    let mut table = following();
    for number in 1..=3 {
        happens(&mut table, 1_000, &format!("lock:order:{number}"), &TAKE, held("a", 300_000));
    }
    table.patrol(100, Time(2_000));
    assert_eq!(tally(&table, "lock:order:*").waiters, None);
    count(&mut table, "lock:order:1", 9, WaitsAt::Blocked, 3_000);
    table.patrol(100, Time(4_000));
    assert_eq!(tally(&table, "lock:order:*").waiters, None, "at most 9 is no number");
    count(&mut table, "lock:order:2", 5, WaitsAt::Channel, 5_000);
    count(&mut table, "lock:order:3", 2, WaitsAt::Queue, 5_000);
    table.patrol(100, Time(6_000));
    assert_eq!(tally(&table, "lock:order:*").waiters, Some((7, 5)));
    table.patrol(100, Time(21_000));
    assert_eq!(tally(&table, "lock:order:*").waiters, None);
}

#[test]
fn missed_renewals_are_known_where_there_is_a_rhythm() {
    let mut table = following();
    happens(&mut table, 0, "lock:order:1", &TAKE, held("a", 30_000));
    table.patrol(100, Time(1_000));
    assert_eq!(tally(&table, "lock:order:*").missed, None);
    for at in [5_000, 10_000, 15_000] {
        happens(&mut table, at, "lock:order:1", &[KeyEvent::Expire], held("a", 30_000));
    }
    table.patrol(100, Time(16_000));
    assert_eq!(tally(&table, "lock:order:*").missed, Some(0));
    table.patrol(100, Time(26_000));
    let order = tally(&table, "lock:order:*");
    assert_eq!((order.missed, order.locks(State::Stalled)), (Some(2), 1));
}

#[test]
fn attempts_are_summed_by_source_and_what_was_not_judged_is_unknown() {
    let mut table = following();
    let tries = |from, attempts, failures, unjudged, unclear| Tries {
        attempts,
        failures,
        unjudged,
        unclear,
        looked: Duration::from_secs(2),
        span: Duration::from_secs(2),
        margin_per_s: 0.0,
        from,
        at: Time(2_000),
    };
    let tried = |table: &mut Table, key: &str, tries| {
        table.apply(Observation::Tried { node: NODE, key: Key::from(key), tries });
    };
    for name in ["lock:order:1", "lock:order:2", "lock:cart:1", "lock:mail:1"] {
        happens(&mut table, 1_000, name, &TAKE, held("a", 300_000));
    }
    tried(&mut table, "lock:order:1", tries(TriesFrom::Counted, 10, 4, 0, 0));
    tried(&mut table, "lock:order:2", tries(TriesFrom::Counted, 6, 0, 0, 0));
    tried(&mut table, "lock:cart:1", tries(TriesFrom::Counted, 6, 0, 1, 0));
    // Its attempts are remembered when nobody holds it.
    happens(&mut table, 2_000, "lock:order:2", &[KeyEvent::Del], Seen::Absent);
    table.patrol(100, Time(3_000));
    let rates = |table: &Table, name: &str| (tally(table, name).counted, tally(table, name).sampled);
    assert_eq!(rates(&table, "lock:order:*"), (Some(Rates { attempts: Some(8.0), failures: Some(2.0) }), None));
    assert_eq!(rates(&table, "lock:cart:*"), (Some(Rates { attempts: Some(3.0), failures: None }), None));
    assert_eq!(rates(&table, "lock:mail:*"), (None, None));
    table.apply(Observation::Quiet { node: NODE, tries: Some(tries(TriesFrom::Sampled, 0, 0, 0, 0)) });
    table.patrol(100, Time(5_000));
    assert_eq!(rates(&table, "lock:mail:*"), (None, Some(Rates { attempts: Some(0.0), failures: Some(0.0) })));
}

#[test]
fn locks_that_were_not_confirmed_are_counted_as_that_and_nothing_else() {
    let mut table = following();
    happens(&mut table, 1_000, "lock:order:1", &TAKE, held("a", 300_000));
    happens(&mut table, 1_000, "lock:order:2", &TAKE, held("a", 300_000));
    table.patrol(100, Time(2_000));
    assert!(!table.has_stale(NODE));
    table.apply(Observation::Gap { node: NODE, at: Time(3_000) });
    assert!(table.has_stale(NODE));
    happens(&mut table, 3_500, "lock:order:1", &[KeyEvent::Expire], held("a", 300_000));
    table.patrol(100, Time(4_000));
    let order = tally(&table, "lock:order:*");
    assert_eq!((order.unconfirmed, order.all(), order.locks(State::Held)), (1, 1, 1));
    assert!(table.has_stale(NODE));
    table.apply(Observation::Swept { node: NODE, started: Time(4_500) });
    settle(&mut table, Time(5_000), |_| held("a", 300_000));
    table.patrol(100, Time(6_000));
    assert_eq!((tally(&table, "lock:order:*").unconfirmed, table.has_stale(NODE)), (0, false));
}

#[test]
fn a_finding_that_was_seen_stays_at_nought() {
    let mut table = following();
    happens(&mut table, 1_000, "lock:order:1", &TAKE, held("a", 300_000));
    let found = |table: &Table| {
        let names = crate::model::findings::names().zip(pattern(table, "lock:order:*").findings);
        names.filter_map(|(name, count)| Some((name, count?))).collect::<Vec<_>>()
    };
    table.patrol(100, Time(2_000));
    assert_eq!(found(&table), []);
    let hazards = Hazards::of_memory(&ServerText::from("allkeys-lru"), 100, 100);
    table.apply(Observation::Hazards { node: NODE, hazards });
    table.patrol(100, Time(12_000));
    assert_eq!(found(&table), [("eviction-hazard", 1)]);
    table.apply(Observation::Hazards { node: NODE, hazards: Hazards::default() });
    table.patrol(100, Time(21_000));
    assert_eq!(found(&table), [("eviction-hazard", 1)], "they are looked for every ten seconds");
    table.patrol(100, Time(22_000));
    assert_eq!(found(&table), [("eviction-hazard", 0)]);
}
