//! What is counted as it happens.

use proptest::prelude::*;

use super::*;
use crate::lock::{Key, Token};
use crate::model::figures::Counts;
use crate::model::tests::deeds;
use crate::model::{Act, Change, Ending, Observation, OwnWrite, State};
use crate::testkit::pretend::NODE;

fn counts(table: &Table) -> &Counts {
    &pattern(table, "lock:order:*").counts
}

fn endings(counts: &Counts) -> Vec<(&'static str, u64)> {
    let all = Ending::ALL.iter().map(|ending| (ending.word(), counts.ended(*ending)));
    all.filter(|(_, count)| *count > 0).collect()
}

#[test]
fn a_life_of_a_lock_is_counted() {
    let mut table = following();
    happens(&mut table, 1_000, "lock:order:1", &TAKE, held("a", 30_000));
    assert_eq!(endings(counts(&table)), [], "each is there, at 0");
    for at in [11_000, 21_000, 31_000] {
        happens(&mut table, at, "lock:order:1", &[KeyEvent::Expire], held("a", 30_000));
    }
    assert_eq!((counts(&table).started, counts(&table).renewed, counts(&table).late), (1, 3, 0));
    happens(&mut table, 35_000, "lock:order:1", &[KeyEvent::Del], Seen::Absent);
    happens(&mut table, 35_250, "lock:order:1", &TAKE, held("b", 30_000));
    let counts = counts(&table);
    assert_eq!((counts.started, endings(counts)), (2, vec![("released", 1)]));
    assert_eq!((counts.held.count(), counts.held.sum_s()), (1, 34.0));
    assert_eq!((counts.gaps.count(), counts.gaps.sum_s()), (3, 30.0));
    assert_eq!((counts.hand_overs.count(), counts.hand_overs.sum_s()), (1, 0.25));
}

#[test]
fn each_ending_is_counted_apart() {
    let mut table = following();
    let ends = [KeyEvent::Del, KeyEvent::Expired, KeyEvent::Evicted, KeyEvent::RenamedFrom];
    for (hold, end) in ends.into_iter().enumerate() {
        let at = 1_000 + hold as i64 * 10_000;
        happens(&mut table, at, "lock:order:1", &TAKE, held("a", 30_000));
        happens(&mut table, at + 1_000, "lock:order:1", &[end], Seen::Absent);
    }
    happens(&mut table, 50_000, "lock:order:1", &TAKE, held("a", 30_000));
    table.apply(Observation::Flushed { node: NODE, at: Time(51_000) });
    settle(&mut table, Time(51_000), |_| Seen::Absent);
    happens(&mut table, 60_000, "lock:order:1", &TAKE, held("a", 30_000));
    happens(&mut table, 61_000, "lock:order:1", &[KeyEvent::Set, KeyEvent::Expire], held("b", 30_000));
    table.apply(Observation::Gap { node: NODE, at: Time(62_000) });
    table.apply(Observation::Swept { node: NODE, started: Time(62_500) });
    settle(&mut table, Time(63_000), |_| Seen::Absent);
    let once = ["released", "expired", "evicted", "flushed", "renamed", "unseen", "taken"].map(|ending| (ending, 1));
    assert_eq!(endings(counts(&table)), once);
    assert_eq!(counts(&table).started, 7, "the one that took it over has begun too");
    assert_eq!(counts(&table).held.count(), 3, "how long the others lasted says nothing");
}

#[test]
fn a_hold_shorter_than_a_look_is_counted() {
    let mut table = following();
    happens(&mut table, 1_000, "lock:order:1", &[TAKE[0], TAKE[1], TAKE[2], KeyEvent::Del], Seen::Absent);
    let counts = counts(&table);
    assert_eq!((counts.started, endings(counts), counts.held.count()), (1, vec![("released", 1)], 1));
}

#[test]
fn what_was_held_before_us_did_not_begin_and_does_end() {
    let mut table = following();
    table.apply(Observation::Read {
        node: NODE,
        key: Key::from("lock:order:1"),
        asked: Time(1_000),
        answered: Time(1_000),
        seen: held("a", 30_000),
        source: crate::model::Source::Scan,
    });
    happens(&mut table, 5_000, "lock:order:1", &[KeyEvent::Del], Seen::Absent);
    let counts = counts(&table);
    assert_eq!((counts.started, endings(counts), counts.held.count()), (0, vec![("released", 1)], 0));
}

#[test]
fn a_renewal_after_a_pause_is_late_and_one_after_a_gap_is_not_known_to_be() {
    let mut table = following();
    happens(&mut table, 0, "lock:order:1", &TAKE, held("a", 30_000));
    for at in [5_000, 10_000, 15_000, 23_000, 28_000] {
        happens(&mut table, at, "lock:order:1", &[KeyEvent::Expire], held("a", 30_000));
    }
    assert_eq!((counts(&table).renewed, counts(&table).late), (5, 1));
    assert_eq!((counts(&table).gaps.count(), counts(&table).gaps.sum_s()), (5, 28.0));
    table.apply(Observation::Gap { node: NODE, at: Time(30_000) });
    happens(&mut table, 43_000, "lock:order:1", &[KeyEvent::Expire], held("a", 30_000));
    assert_eq!((counts(&table).renewed, counts(&table).late), (6, 1));
    assert_eq!(counts(&table).gaps.count(), 5, "others may have come in between");
}

#[test]
fn renewals_that_are_reported_late_are_counted_each() {
    let mut table = following();
    happens(&mut table, 0, "lock:order:1", &TAKE, held("a", 30_000));
    happens(&mut table, 10_000, "lock:order:1", &[KeyEvent::Expire], held("a", 30_000));
    table.apply(Observation::Heard { node: NODE, until: Time(10_000) });
    // By its deadline this one was given in the same millisecond as the one before, or one earlier.
    for (at, left) in [(10_700, 29_299), (11_500, 29_200), (12_400, 28_300)] {
        happens(&mut table, at, "lock:order:1", &[KeyEvent::Expire], held("a", left));
    }
    assert_eq!((counts(&table).renewed, counts(&table).gaps.count()), (4, 4));
}

fn write(table: &mut Table, at: i64, act: Act, token: &str) {
    let (key, sent) = (Key::from("lock:order:1"), Time(at));
    let holders = vec![Token::from(token.as_bytes())];
    let write = Some(OwnWrite { act, holders, by: "anna".into(), reason: None });
    table.apply(Observation::Acting { node: NODE, key: key.clone(), at: sent });
    table.apply(Observation::Acted { node: NODE, key, write, sent, answered: Time(at + 1) });
}

#[test]
fn a_hold_that_we_freed_and_put_back_ended_by_force_and_began_again() {
    let mut table = following();
    happens(&mut table, 1_000, "lock:order:1", &TAKE, held("a", 30_000));
    write(&mut table, 2_000, Act::Free { whole: true }, "a");
    happens(&mut table, 2_002, "lock:order:1", &[KeyEvent::Del], Seen::Absent);
    assert_eq!((counts(&table).started, endings(counts(&table))), (1, vec![("forced", 1)]));
    write(&mut table, 3_000, Act::PutBack { whole: true }, "a");
    happens(&mut table, 3_002, "lock:order:1", &TAKE, held("a", 27_998));
    assert_eq!((counts(&table).started, endings(counts(&table))), (2, vec![("forced", 1)]), "no counter goes down");
    happens(&mut table, 9_000, "lock:order:1", &[KeyEvent::Del], Seen::Absent);
    assert_eq!((counts(&table).started, endings(counts(&table))), (2, vec![("released", 1), ("forced", 1)]));
    assert_eq!((counts(&table).held.count(), counts(&table).held.sum_s()), (1, 8.0), "it is one hold, and timed whole");
}

#[test]
fn each_reader_of_a_shared_lock_is_a_hold() {
    let mut table = following();
    let readers = |names: &[&str]| {
        let uuid = "3f2a8c00-1111-4222-8333-444455556666";
        let fields: Vec<String> = names.iter().map(|name| format!("{uuid}:{name}")).collect();
        let fields = fields.iter().map(|field| (field.as_bytes(), &b"1"[..]));
        let mode = [(&b"mode"[..], &b"read"[..])];
        Seen::Present { value: RawValue::hash(mode.into_iter().chain(fields)), ttl: Ttl::In(Duration::from_secs(30)) }
    };
    let written = [KeyEvent::Written, KeyEvent::Expire];
    let key = "lock:order:1";
    happens(&mut table, 1_000, key, &[KeyEvent::New, KeyEvent::Written, KeyEvent::Expire], readers(&["1", "2"]));
    happens(&mut table, 2_000, key, &written, readers(&["1", "2", "3"]));
    assert_eq!((counts(&table).started, endings(counts(&table))), (3, vec![]));
    happens(&mut table, 3_000, key, &[KeyEvent::Removed], readers(&["2", "3"]));
    assert_eq!((counts(&table).started, endings(counts(&table))), (3, vec![("released", 1)]));
    happens(&mut table, 4_000, key, &[KeyEvent::Expired], Seen::Absent);
    assert_eq!((counts(&table).started, endings(counts(&table))), (3, vec![("released", 1), ("expired", 2)]));
    assert_eq!(counts(&table).held.count(), 0, "how long each of them held it is not known");
}

/// Every number that must not go down.
fn all(counts: &Counts) -> Vec<u64> {
    let mut all = vec![counts.started, counts.renewed, counts.late];
    all.extend(Ending::ALL.iter().map(|ending| counts.ended(*ending)));
    all.extend(counts.held.cumulative().chain(counts.gaps.cumulative()).chain(counts.hand_overs.cumulative()));
    all.extend([counts.held.count(), counts.gaps.count(), counts.hand_overs.count()]);
    all
}

proptest! {
    #[test]
    fn counters_never_go_down_and_what_began_and_did_not_end_is_held(deeds in deeds::any(), wire in deeds::wire()) {
        let mut table = following();
        table.apply(Observation::Swept { node: NODE, started: Time(0) });
        let (mut before, mut found) = (Vec::new(), 0);
        let mut check = |table: &mut Table, now: Time| {
            found += table.take_transitions().0.iter().filter(|told| told.change == Change::Found).count() as u64;
            let known = table.patterns().next().map(|pattern| pattern.counts.clone()).unwrap_or_default();
            let after = all(&known);
            assert!(before.iter().zip(&after).all(|(before, after)| before <= after), "{before:?} {after:?}");
            before = after;
            let ended: u64 = Ending::ALL.iter().map(|ending| known.ended(*ending)).sum();
            assert_eq!(known.started + found, ended + table.held() as u64);
            // A round at every step.
            table.patrol(1_000, now + Duration::from_secs(2));
        };
        let (_, now) = deeds::play(&mut table, deeds, wire, &mut check);
        check(&mut table, now);
        table.patrol(1_000, now + Duration::from_secs(4));
        let seen: u32 = table.patterns().filter_map(|pattern| pattern.tally.as_ref()).map(|tally| tally.all()).sum();
        let by_state: u32 = table
            .patterns()
            .filter_map(|pattern| pattern.tally.as_ref())
            .flat_map(|tally| State::ALL.map(|state| tally.locks(state)))
            .sum();
        assert_eq!((seen as usize, by_state as usize), (table.held(), table.held()));
    }
}
