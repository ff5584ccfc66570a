//! Random sequences of what lock libraries do, with an operator's releases, extensions and undos among them.
//!
//! For every dialect, on a real server, with the library's own commands: whatever happens between a preview and the
//! write, no hold is ended or changed that was not the one shown, and nothing is put back where the library itself
//! could not have put it. `LOCKSCOPE_SEQUENCES` says how many for each dialect (`make soak`: 10,000), `LOCKSCOPE_SEED`
//! where chance begins, `LOCKSCOPE_SUBJECT` names one kind of lock to try alone.

mod common;
mod models;

use std::collections::BTreeMap;

use models::run::Tally;
use models::soak::{self, Size};
use models::subjects::{ALL, Subject};

/// So many for each dialect in `make test`.
const SEQUENCES: u64 = 60;

fn chosen() -> Vec<&'static Subject> {
    let name = std::env::var("LOCKSCOPE_SUBJECT").ok();
    ALL.iter().filter(|subject| name.as_ref().is_none_or(|name| subject.name == name)).collect()
}

#[test]
fn no_sequence_of_a_library_s_steps_makes_a_write_hit_another_hold() {
    let subjects = chosen();
    let (tallies, found) = soak::run(&subjects, Size::from_environment(SEQUENCES));
    print_table(&subjects, &tallies);
    let faults: Vec<String> = found.iter().map(|found| found.to_string()).collect();
    assert!(faults.is_empty(), "{} kinds of locks failed:\n\n{}", faults.len(), faults.join("\n"));
}

fn print_table(subjects: &[&Subject], tallies: &BTreeMap<&'static str, Tally>) {
    let row = |cells: [&str; 7]| {
        let [name, rest @ ..] = cells;
        println!("{name:<38}{}", rest.map(|cell| format!("{cell:>10}")).concat());
    };
    row(["", "sequences", "freed", "extended", "refused", "undone", "not undone"]);
    for subject in subjects {
        let Some(tally) = tallies.get(subject.name) else { continue };
        let Tally { sequences, freed, extended, refused, undone, undo_refused } = *tally;
        let cells = [sequences, freed, extended, refused, undone, undo_refused].map(|number| number.to_string());
        let [a, b, c, d, e, f] = cells.each_ref().map(String::as_str);
        row([subject.name, a, b, c, d, e, f]);
    }
}
