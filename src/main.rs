//! The binary: reads the command line, runs the command, turns its result into an exit code.

#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use lockscope::base::fault::Fault;
use lockscope::commands;
use lockscope::commands::watcher;
use lockscope::settings::cli::Cli;

/// A flood of events means many small allocations: with this allocator a third more events are processed.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == watcher::WORD) {
        return ExitCode::from(watcher::run());
    }
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(early) => return ended(early.print()),
    };
    // One thread: sources, table and output take turns, so nothing needs a mutex.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    ended(match runtime {
        Ok(runtime) => runtime.block_on(commands::run(cli)),
        Err(why) => Err(why.into()),
    })
}

fn ended(result: Result<u8, Fault>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(fault) => {
            let _ = fault.print(&mut std::io::stderr());
            ExitCode::from(fault.exit_code())
        }
    }
}
