//! The figures that lockscope promises, measured side by side on private servers.
//!
//! `cargo bench --bench figures -- [PART]... [--markdown]`; without a PART, all parts. Times depend on the machine, so
//! each figure is a ratio of two things measured in turns, a count, or processor time. If the machine is busy with
//! other things the report says so; nothing is averaged away.

#[path = "../../tests/common/mod.rs"]
mod common;
mod console;
mod contention;
mod daemon;
mod events;
mod inventory;
mod keyspace;
mod limit;
mod machine;
mod memory;
mod moment;
mod opened;
mod opening;
mod own;
mod politeness;
mod polling;
mod report;
mod stalls;
mod store;
mod topology;
mod tune;
mod typing;
mod verdicts;

use std::process::ExitCode;

use keyspace::Keyspace;
use report::Report;

/// As in the program itself.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: cargo bench --bench figures -- \
    [inventory|events|memory|verdicts|moment|politeness|polling|contention|console|typing|opening|store|daemon|tune|prometheus|topology]... \
    [--markdown] [--rounds N]";

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
    Moment,
    Politeness,
    Polling,
    Console,
    Contention,
    Typing,
    Opening,
    Store,
    Daemon,
    Tune,
    Topology,
    Prometheus,
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
            "moment" => wanted.parts.push(Part::Moment),
            "politeness" => wanted.parts.push(Part::Politeness),
            "polling" => wanted.parts.push(Part::Polling),
            "console" => wanted.parts.push(Part::Console),
            "contention" => wanted.parts.push(Part::Contention),
            "typing" => wanted.parts.push(Part::Typing),
            "opening" => wanted.parts.push(Part::Opening),
            "store" => wanted.parts.push(Part::Store),
            "daemon" => wanted.parts.push(Part::Daemon),
            "tune" => wanted.parts.push(Part::Tune),
            "topology" => wanted.parts.push(Part::Topology),
            "prometheus" => wanted.parts.push(Part::Prometheus),
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
            Part::Moment,
            Part::Events,
            Part::Polling,
            Part::Contention,
            Part::Inventory,
            Part::Politeness,
            Part::Typing,
            Part::Console,
            Part::Opening,
            Part::Store,
            Part::Daemon,
            Part::Tune,
            Part::Topology,
            Part::Prometheus,
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
    if asked(Part::Moment) {
        moment::measure(&mut report, wanted.rounds);
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
    if asked(Part::Typing) {
        typing::measure(&mut report);
    }
    if asked(Part::Console) {
        console::measure(&mut report);
    }
    if asked(Part::Store) {
        store::measure(&mut report, wanted.rounds);
    }
    if asked(Part::Daemon) {
        daemon::measure(&mut report, wanted.rounds);
    }
    if asked(Part::Tune) {
        tune::measure(&mut report, wanted.rounds);
    }
    if asked(Part::Topology) {
        topology::measure(&mut report, wanted.rounds);
    }
    if asked(Part::Prometheus) {
        own::measure(&mut report, wanted.rounds);
    }
    if [Part::Inventory, Part::Politeness, Part::Console, Part::Opening].into_iter().any(asked) {
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
        if asked(Part::Opening) {
            opening::measure(&mut report, &keyspace, wanted.rounds);
        }
    }
    if wanted.markdown {
        report.print_markdown()
    } else {
        report.print()
    }
    ExitCode::SUCCESS
}
