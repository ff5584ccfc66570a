//! Random sequences of what lock libraries do, mixed with an operator's releases, extensions and undos.
//!
//! For every dialect, on a real server, with the library's own commands: whatever happens between a preview and the
//! write, only the hold that was shown is ended or changed, and nothing is put back where the library itself could not
//! have put it. `LOCKSCOPE_SEQUENCES` sets the number for each dialect (`make soak`: 10,000), `LOCKSCOPE_SEED` the
//! first seed, and `LOCKSCOPE_SUBJECT` one kind of lock to test alone.

mod common;
mod models;

use std::collections::BTreeMap;

use common::Server;
use models::driven;
use models::run::{Fault, Stage, Tally};
use models::soak::{self, Replayed, Report, Size};
use models::stall::{REPLAYS, Stall, settle};
use models::subjects::{ALL, Subject};

/// The number for each dialect in `make test`.
const SEQUENCES: u64 = 60;

/// The number for each dialect of real libraries: more than two hundred in all.
const REAL_SEQUENCES: u64 = 30;

fn chosen(all: &'static [Subject]) -> Vec<&'static Subject> {
    let name = std::env::var("LOCKSCOPE_SUBJECT").ok();
    all.iter().filter(|subject| name.as_ref().is_none_or(|name| subject.name == name)).collect()
}

#[test]
fn no_sequence_of_a_library_s_steps_makes_a_write_hit_another_hold() {
    run(chosen(ALL), Size::from_environment(SEQUENCES, "LOCKSCOPE_SEQUENCES"));
}

#[test]
fn no_sequence_of_a_real_library_s_steps_makes_a_write_hit_another_hold() {
    let server = Server::start();
    let installed = chosen(driven::ALL).into_iter().filter(|subject| subject.is_installed(&server)).collect();
    driven::dismiss();
    run(installed, Size::from_environment(REAL_SEQUENCES, "LOCKSCOPE_REAL_SEQUENCES"));
}

#[test]
fn what_is_put_back_is_what_was_taken_away_from_a_lock_that_changes() {
    let (mut stage, mut freed) = (Stage::new(9), 0);
    // A lock that changes too fast is left alone, and on a busy machine most of the time it does.
    for _ in 0..10 {
        freed += stage.free_what_changes(200).unwrap_or_else(|what| panic!("{what}"));
        if freed > 10 {
            break;
        }
    }
    assert!(freed > 10, "it was freed only {freed} times");
}

fn fault(stall: Option<Stall>) -> Result<Tally, Fault> {
    Err(Fault { what: "a wrong hold ended".into(), transcript: Vec::new(), stall })
}

/// The stall of a run in which a step took a second.
fn stall() -> Option<Stall> {
    Stall::of(0, 1_000, [])
}

#[test]
fn a_fault_counts_where_no_time_passed() {
    let mut runs = 0;
    let (result, stalls) = settle(|| {
        runs += 1;
        fault(Stall::of(0, 3, [90]))
    });
    assert!(result.is_err() && stalls.is_empty());
    assert_eq!(runs, 1, "it is not tried until it passes");
}

#[test]
fn a_fault_after_a_stall_is_played_again_and_named() {
    let mut runs = 0;
    let (result, stalls) = settle(|| {
        runs += 1;
        if runs < 3 { fault(stall()) } else { Ok(Tally::default()) }
    });
    assert!(result.is_ok());
    assert_eq!(stalls.len(), 2);
}

#[test]
fn a_fault_that_comes_after_every_stall_counts() {
    let mut runs = 0;
    let (result, stalls) = settle(|| {
        runs += 1;
        fault(stall())
    });
    assert!(result.is_err());
    assert_eq!((runs, stalls.len()), (REPLAYS + 1, REPLAYS));
}

#[test]
fn a_fault_that_comes_again_once_time_keeps_its_promise_counts() {
    let mut runs = 0;
    let (result, _) = settle(|| {
        runs += 1;
        fault(stall().filter(|_| runs == 1))
    });
    assert!(result.is_err());
    assert_eq!(runs, 2);
}

#[test]
fn a_stall_is_a_long_step_or_a_lease_that_ends_in_one() {
    assert!(Stall::of(100, 104, [90, 105, 60_000]).is_none());
    assert!(Stall::of(100, 104, [103]).is_some(), "it ended in the middle");
    assert!(Stall::of(100, 200, []).is_some(), "a tenth of a second");
}

fn run(subjects: Vec<&'static Subject>, size: Size) {
    let Report { tallies, found, replayed } = soak::run(&subjects, size);
    print_table(&subjects, &tallies);
    print_replays(&replayed);
    let faults: Vec<String> = found.iter().map(|found| found.to_string()).collect();
    assert!(faults.is_empty(), "{} kinds of locks failed:\n\n{}", faults.len(), faults.join("\n"));
    if std::env::var("LOCKSCOPE_SUBJECT").is_err() && size.sequences >= SEQUENCES {
        assert_enough_was_done(&subjects, &tallies);
    }
}

/// A run in which nothing was freed, refused or put back proves nothing.
fn assert_enough_was_done(subjects: &[&Subject], tallies: &BTreeMap<&'static str, Tally>) {
    let mut dialects = BTreeMap::<&str, Tally>::new();
    for subject in subjects {
        dialects.entry(subject.dialect).or_default().add(&tallies[subject.name]);
    }
    for (dialect, Tally { sequences, freed, refused, undone, .. }) in dialects {
        let enough = freed >= sequences / 5 && refused >= sequences / 12 && undone >= sequences / 40;
        assert!(enough, "{dialect}: of {sequences} sequences {freed} freed, {refused} were refused, {undone} undid");
    }
}

/// Lists the replayed sequences: in these runs real time passed, which the models do not know.
fn print_replays(replayed: &[Replayed]) {
    let runs: usize = replayed.iter().map(|replayed| replayed.stalls.len()).sum();
    println!("{} sequences were played again, in {runs} runs, since time passed in a step", replayed.len());
    replayed.iter().for_each(|replayed| println!("  {replayed}"));
}

fn print_table(subjects: &[&Subject], tallies: &BTreeMap<&'static str, Tally>) {
    let row = |cells: [&str; 8]| {
        let [dialect, name, rest @ ..] = cells;
        println!("{dialect:<20} {name:<42}{}", rest.map(|cell| format!("{cell:>11}")).concat());
    };
    row(["dialect", "kind", "sequences", "freed", "extended", "refused", "undone", "not undone"]);
    for subject in subjects {
        let Some(tally) = tallies.get(subject.name) else { continue };
        let Tally { sequences, freed, extended, refused, undone, undo_refused } = *tally;
        let cells = [sequences, freed, extended, refused, undone, undo_refused].map(|number| number.to_string());
        let [a, b, c, d, e, f] = cells.each_ref().map(String::as_str);
        row([subject.dialect, subject.name, a, b, c, d, e, f]);
    }
    for (subject, what) in subjects.iter().filter_map(|subject| Some((subject, subject.not_stored?))) {
        println!("left out of {}: leases that run out; no server has {what}", subject.name);
    }
}
