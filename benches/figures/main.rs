//! The figures that lockscope promises, measured side by side on private servers.
//!
//! `cargo bench --bench figures -- [PART]... [--markdown]`; without a PART, all parts. Times depend on the machine, so
//! each figure is a ratio of two things measured in turns, a count, or processor time. If the machine is busy with
//! other things the report says so; nothing is averaged away.

#[path = "../../tests/common/mod.rs"]
mod common;
mod console;
mod contention;
mod events;
mod inventory;
mod keyspace;
mod limit;
mod machine;
mod memory;
mod opened;
mod politeness;
mod polling;
mod report;
mod stalls;
mod verdicts;

use std::process::ExitCode;

use keyspace::Keyspace;
use report::Report;

/// As in the program itself.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: cargo bench --bench figures -- \
    [inventory|events|memory|verdicts|politeness|polling|contention|console]... [--markdown] [--rounds N]";

/// The arguments.
struct Wanted {
    parts: Vec<Part>,
    markdown: bool,
    /// How often each side of a comparison is measured.
    rounds: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Inventory,
    Events,
    Memory,
    Verdicts,
    Politeness,
    Polling,
    Console,
    Contention,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    // This program starts itself again for what must be measured in a fresh process.
    if std::env::args().nth(1).as_deref() == Some(memory::CHILD) {
        return memory::child(arguments.nth(1).as_deref());
    }
    match wanted(arguments) {
        Ok(wanted) => measure(&wanted),
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn wanted(mut arguments: impl Iterator<Item = String>) -> Result<Wanted, String> {
    let mut wanted = Wanted { parts: Vec::new(), markdown: false, rounds: 5 };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "inventory" => wanted.parts.push(Part::Inventory),
            "events" => wanted.parts.push(Part::Events),
            "memory" => wanted.parts.push(Part::Memory),
            "verdicts" => wanted.parts.push(Part::Verdicts),
            "politeness" => wanted.parts.push(Part::Politeness),
            "polling" => wanted.parts.push(Part::Polling),
            "console" => wanted.parts.push(Part::Console),
            "contention" => wanted.parts.push(Part::Contention),
            "--markdown" => wanted.markdown = true,
            "--rounds" => {
                let rounds = arguments.next().and_then(|text| text.parse().ok()).filter(|rounds| *rounds > 0);
                wanted.rounds = rounds.ok_or("--rounds wants a number")?;
            }
            // Cargo adds this.
            "--bench" => {}
            other => return Err(format!("there is no part {other:?}")),
        }
    }
    if wanted.parts.is_empty() {
        wanted.parts = vec![
            Part::Memory,
            Part::Verdicts,
            Part::Events,
            Part::Polling,
            Part::Contention,
            Part::Inventory,
            Part::Politeness,
            Part::Console,
        ];
    }
    Ok(wanted)
}

fn measure(wanted: &Wanted) -> ExitCode {
    let mut report = Report::new();
    let asked = |part| wanted.parts.contains(&part);
    if asked(Part::Memory) {
        memory::measure(&mut report);
    }
    if asked(Part::Verdicts) {
        verdicts::measure(&mut report, wanted.rounds);
    }
    if asked(Part::Events) {
        events::measure(&mut report, wanted.rounds);
    }
    if asked(Part::Polling) {
        polling::measure(&mut report);
    }
    if asked(Part::Contention) {
        contention::measure(&mut report, wanted.rounds);
    }
    if asked(Part::Console) {
        console::measure(&mut report);
    }
    if asked(Part::Inventory) || asked(Part::Politeness) || asked(Part::Console) {
        let keyspace = Keyspace::populate();
        if asked(Part::Inventory) {
            inventory::measure(&mut report, &keyspace, wanted.rounds);
        }
        if asked(Part::Politeness) {
            politeness::measure(&mut report, &keyspace, wanted.rounds);
        }
        if asked(Part::Console) {
            console::measure_opening(&mut report, &keyspace, wanted.rounds);
        }
    }
    if wanted.markdown {
        report.print_markdown()
    } else {
        report.print()
    }
    ExitCode::SUCCESS
}
