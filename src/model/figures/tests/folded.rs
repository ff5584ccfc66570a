//! Which patterns have figures of their own.

use super::*;
use std::sync::Arc;

use crate::base::glob::{Glob, Globs};
use crate::model::figures::{Folding, OTHER};

const HOUR: i64 = 3_600_000;

fn folding(most: usize, first: &[&str]) -> Table {
    let mut table = table(recogniser("*"), Limits::default());
    let first = Globs::new(first.iter().map(|glob| Glob::new(glob).unwrap()).collect());
    table.fold(Folding { most, first: Arc::new(move |name| first.matches(name.as_bytes())) });
    table
}

fn take(table: &mut Table, at: i64, key: &str) {
    happens(table, at, key, &TAKE, held("a", 10 * HOUR as u64));
}

fn names(table: &Table) -> Vec<String> {
    let mut names: Vec<String> = table.patterns().map(|pattern| pattern.name.to_string()).collect();
    names.sort();
    names
}

/// The pattern of a held lock.
fn of(table: &Table, key: &str) -> String {
    let lock = table.locks().find(|lock| lock.key.as_bytes() == key.as_bytes()).unwrap();
    table.pattern_of(lock).to_string()
}

#[test]
fn the_first_come_have_their_own_and_the_rest_share() {
    let mut table = folding(2, &[]);
    for key in ["a:1", "b:1", "a:2", "c:1", "d:1", "c:2"] {
        take(&mut table, 1_000, key);
    }
    table.patrol(100, Time(2_000));
    assert_eq!((names(&table), table.patterns_folded()), (vec!["a:*".into(), "b:*".into(), OTHER.to_string()], 2));
    assert_eq!((of(&table, "a:2"), of(&table, "c:1")), ("a:*".to_string(), OTHER.to_string()));
    assert_eq!((pattern(&table, OTHER).counts.started, tally(&table, OTHER).all()), (3, 3));
    assert_eq!((pattern(&table, "a:*").counts.started, tally(&table, "a:*").all()), (2, 2));
}

#[test]
fn those_that_rules_name_come_first() {
    let mut table = folding(2, &["pay:*", "a:*"]);
    for (at, key) in [(1_000, "a:1"), (2_000, "b:1"), (3_000, "c:1"), (4_000, "pay:1"), (5_000, "pay:b:1")] {
        take(&mut table, at, key);
    }
    assert_eq!(names(&table), ["a:*", OTHER, "pay:*"], "the last come that no rule names has made room");
    assert_eq!((of(&table, "b:1"), of(&table, "pay:b:1")), (OTHER.to_string(), OTHER.to_string()));
    assert_eq!(table.patterns_folded(), 3);
    table.patrol(100, Time(6_000));
    assert_eq!((tally(&table, "pay:*").all(), tally(&table, OTHER).all()), (1, 3));
}

#[test]
fn a_pattern_that_nobody_uses_is_forgotten_and_its_place_given_away() {
    let mut table = folding(1, &[]);
    take(&mut table, 0, "a:1");
    take(&mut table, 0, "b:1");
    happens(&mut table, 1_000, "a:1", &[KeyEvent::Del], Seen::Absent);
    table.patrol(100, Time(2_000));
    assert_eq!((names(&table), table.patterns_folded()), (vec!["a:*".into(), OTHER.to_string()], 1));
    table.patrol(100, Time(HOUR + 500));
    assert_eq!(names(&table), ["a:*", OTHER], "an hour after its last event it is still known");
    table.patrol(100, Time(HOUR + 3_000));
    assert_eq!((names(&table), of(&table, "b:1")), (vec!["b:*".into(), OTHER.to_string()], "b:*".to_string()));
    assert_eq!(table.patterns_folded(), 0);
    take(&mut table, HOUR + 4_000, "a:1");
    assert_eq!((names(&table), of(&table, "a:1")), (vec!["b:*".into(), OTHER.to_string()], OTHER.to_string()));
    assert_eq!(pattern(&table, "b:*").counts.started, 0, "what happened before was counted elsewhere");
}

#[test]
fn a_pattern_with_a_lock_is_not_forgotten() {
    let mut table = folding(1, &[]);
    take(&mut table, 0, "a:1");
    for hour in 1..5 {
        table.patrol(100, Time(hour * HOUR - 1_000));
    }
    assert_eq!(pattern(&table, "a:*").counts.started, 1);
}

#[test]
fn more_patterns_than_there_are_groups_are_counted() {
    let mut table = folding(1, &["pay:*"]);
    let letters =
        |number: usize| -> String { format!("{number:04}").bytes().map(|digit| (digit + 49) as char).collect() };
    for number in 0..1_500 {
        take(&mut table, 1_000, &letters(number));
    }
    assert_eq!(table.patterns_folded(), 1_499);
    take(&mut table, 2_000, "pay:1");
    assert_eq!((names(&table), table.patterns_folded()), (vec![OTHER.to_string(), "pay:*".into()], 1_500));
    table.patrol(10_000, Time(3_000));
    assert_eq!((tally(&table, OTHER).all(), tally(&table, "pay:*").all()), (1_500, 1));
}

#[test]
fn names_are_made_visible_and_none_looks_like_the_others() {
    let mut table = folding(10, &[]);
    for key in ["lock\n:1", "other", "größe:1", "\u{202e}x"] {
        take(&mut table, 1_000, key);
    }
    assert_eq!(names(&table), ["\\u{202e}x", "größe:*", "lock\\n:*", OTHER]);
    assert_eq!((of(&table, "other"), table.patterns_folded()), (OTHER.to_string(), 1));
}
