//! With any one of the comparisons before a write left out, the sequences of `tests/sequences.rs` must fail.
//!
//! A comparison that nobody misses is not needed, or not tested. The switch is process-wide and exists in debug builds
//! only, so this is a separate test file. A sequence that fails even with all comparisons proves nothing here and is
//! skipped.
#![cfg(debug_assertions)]

mod common;
mod models;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lockscope::actions::comparisons;
use models::run::{Fault, Stage};
use models::soak;
use models::subjects::{ALL, Subject};

/// The locks where a comparison matters, tried first; an unlisted comparison is tried on all locks.
const WHERE: &[(&str, &[&str])] = &[
    ("absent", &["medallion read-write lock", "plain", "redisson read-write lock"]),
    ("present", &["redisson permits"]),
    ("value", &["plain", "plain, a constant token"]),
    ("digest", &["plain, a long token"]),
    ("lease", &["redisson lock", "redisson read-write lock", "plain, a constant token"]),
    ("score", &["redis-semaphore of npm, a name for each machine"]),
    ("field", &["redisson lock", "redisson read-write lock"]),
    ("field_value", &["sidekiq-unique-jobs, two at once", "redis-semaphore of ruby"]),
    ("fields", &["redisson read-write lock"]),
    ("member", &["medallion semaphore", "symfony"]),
    ("members", &["symfony"]),
    ("element", &["medallion read-write lock"]),
    ("elements", &["medallion read-write lock"]),
    ("no_field", &["huey", "redisson read-write lock"]),
    ("no_member", &["symfony", "medallion semaphore"]),
    ("held_as", &["redisson read-write lock"]),
    ("fields_at_most", &["sidekiq-unique-jobs, two at once"]),
    ("live_at_most", &["medallion semaphore", "redis-semaphore of npm, semaphore"]),
    ("nobody_blocked", &["python-redis-lock, ids of its own"]),
    ("at_least", &["redisson permits"]),
    ("listed", &["redis-semaphore of ruby"]),
    ("no_ttl", &["redis-py", "python-redis-lock"]),
    ("ttl_at_most", &["node-redlock"]),
    ("before", &["redis-py", "medallion"]),
    ("counter", &["redisson fenced lock"]),
    ("on_record", &["plain", "redlock-py"]),
];

type Story = fn() -> Result<(), String>;

/// Comparisons that matter only at a moment that no sequence reaches: each has a story of its own.
const STORIES: &[(&str, Story)] = &[
    // The lock changes after its value was read for undo and before the write.
    ("dump", || Stage::new(8).free_what_changes(400).map(drop)),
    ("keyspace", || Stage::new(8).undo_on_another_server()),
    ("confirmed", || Stage::new(8).undo_without_an_answer()),
];

/// At most this many sequences and this much time for each comparison.
const SEQUENCES: u64 = 3_000;
const PATIENCE: Duration = Duration::from_secs(30);
/// After this many, those that failed are replayed with all comparisons; fewer if enough failed.
const PORTION: u64 = 48;
const ENOUGH: usize = 6;

fn subjects(comparison: &str) -> Vec<&'static Subject> {
    let named = WHERE.iter().find(|(name, _)| *name == comparison).map(|(_, subjects)| *subjects);
    ALL.iter().filter(|subject| named.is_none_or(|named| named.contains(&subject.name))).collect()
}

/// A sequence that fails only without the comparison: after how many it was found, and what failed.
fn noticed(stages: &mut [Stage], comparison: &'static str) -> Result<(u64, String), u64> {
    if let Some(story) = STORIES.iter().find_map(|(name, story)| (*name == comparison).then_some(story)) {
        assert_eq!(story(), Ok(()), "with everything compared");
        comparisons::switch_off(Some(comparison));
        let failed = story().err();
        comparisons::switch_off(None);
        return failed.map(|what| (1, what)).ok_or(1);
    }
    let (subjects, start) = (subjects(comparison), Instant::now());
    let mut from = 0;
    while from < SEQUENCES && start.elapsed() < PATIENCE {
        comparisons::switch_off(Some(comparison));
        let failed = failed(stages, &subjects, from..from + PORTION);
        comparisons::switch_off(None);
        for (number, subject, what) in failed {
            let steps = soak::steps(subject, number / subjects.len() as u64);
            let stage = &mut stages[0];
            let mut fails_without = || {
                comparisons::switch_off(Some(comparison));
                let failed = stage.play(subject, &steps).is_err_and(is_ours);
                comparisons::switch_off(None);
                failed && stage.play(subject, &steps).is_ok()
            };
            // Twice, since a lease may end a moment sooner or later.
            if fails_without() && fails_without() {
                return Ok((number, format!("{}: {what}", subject.name)));
            }
        }
        from += PORTION;
    }
    Err(from)
}

/// The failure is not due to timing.
fn is_ours(fault: Fault) -> bool {
    fault.stall.is_none()
}

/// The failing sequences of a range, until there are enough.
fn failed(
    stages: &mut [Stage],
    subjects: &[&'static Subject],
    range: std::ops::Range<u64>,
) -> Vec<(u64, &'static Subject, String)> {
    let (next, found) = (AtomicU64::new(range.start), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for stage in stages.iter_mut() {
            let (next, found) = (&next, &found);
            let end = range.end;
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end || found.lock().expect("no panic").len() > ENOUGH {
                        return;
                    }
                    let subject = subjects[number as usize % subjects.len()];
                    let steps = soak::steps(subject, number / subjects.len() as u64);
                    if let Err(fault) = stage.play(subject, &steps)
                        && fault.stall.is_none()
                    {
                        found.lock().expect("no panic").push((number, subject, fault.what));
                    }
                }
            });
        }
    });
    found.into_inner().expect("no panic")
}

#[test]
fn the_absence_of_each_comparison_is_noticed() {
    let only = std::env::var("LOCKSCOPE_COMPARISON").ok();
    let mut stages: Vec<Stage> = (0..2).map(Stage::new).collect();
    let mut unnoticed = Vec::new();
    // Of the comparisons with their own tests, those that can be reached here too.
    let named = STORIES.iter().map(|(name, _)| *name).chain(WHERE.iter().map(|(name, _)| *name));
    let named: Vec<&str> = named.collect();
    let all = comparisons::ALL.iter().chain(comparisons::SINGLE.iter().filter(|name| named.contains(name)));
    for comparison in all.filter(|name| only.as_ref().is_none_or(|only| only == **name)) {
        match noticed(&mut stages, comparison) {
            Ok((number, what)) => println!("{comparison:<14} after {number:>5} sequences: {what}"),
            Err(tried) => {
                println!("{comparison:<14} not noticed in {tried} sequences");
                unnoticed.push(*comparison);
            }
        }
    }
    assert!(unnoticed.is_empty(), "nothing fails without these comparisons: {}", unnoticed.join(", "));
}
