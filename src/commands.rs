//! The headless commands, one per file. They read the same model as the console and write to any `Write`.

mod acquire;
mod act;
mod audit;
mod bundle;
mod check;
mod console;
mod contention;
mod demo;
mod discover;
pub mod doctor;
mod extend;
mod fencing;
mod info;
mod ls;
mod on_record;
mod one_lock;
mod probe;
mod record;
mod release;
mod roster;
mod rules;
mod scripts;
mod serve;
mod session;
mod show;
mod tune;
mod undo;
mod waiters;
mod watch;

use std::io::{self, BufWriter, Write};

use crate::actions::audit as audit_file;
use crate::base::fault::{Fault, quiet_pipe};
use crate::base::talk;
use crate::settings::Settings;
use crate::settings::cli::{self, Cli, Command, ConfigCommand};
use crate::settings::config;
pub use acquire::watcher;
use session::Session;

/// Runs a command and returns its exit code.
pub async fn run(cli: Cli) -> Result<u8, Fault> {
    let global = &cli.global;
    if cli.command.as_ref().is_none_or(Command::keeps_records) {
        keep_records_private()?;
    }
    let Some(command) = cli.command else {
        // Wrong rules are told before anything connects.
        Settings::load(global)?.rules_of(cli.rules.as_deref())?;
        let session = Session::open(global).await?;
        let start = Some(console::Start::new(cli.global.clone(), cli.rules, cli.store, &session));
        return console::run(session, console::Options { start, how_long: None, sampled: None }).await;
    };
    if cli.rules.is_some() {
        let why = "--rules before a command is for the console; 'check', 'tune', 'serve' and 'record' take it after their name";
        return Err(Fault::usage(why));
    }
    if cli.store.is_some() {
        let why = "--store before a command is for the console; 'check', 'tune', 'serve', 'record' and 'bundle' take it after their name";
        return Err(Fault::usage(why));
    }
    match command {
        Command::Completions { shell } => print(|out| cli::write_completions(shell, out)),
        Command::Man { page } => {
            let name = page.unwrap_or_default();
            let page = Some(name.as_str()).filter(|name| !name.is_empty());
            let mut text = Vec::new();
            match cli::write_man(page, &mut text) {
                Some(written) => written?,
                None => {
                    return Err(Fault::usage(format!("there is no command {name:?}; 'lockscope --help' lists them")));
                }
            }
            print(|out| out.write_all(&text))
        }
        Command::Config { what: ConfigCommand::Template } => print(|out| out.write_all(config::TEMPLATE.as_bytes())),
        Command::Rules { what } => rules::run(global, &what).await,
        Command::Demo(options) => demo::run(global, &options).await,
        Command::Info => info::run(&Settings::load(global)?),
        Command::Ls(options) => ls::run(&Session::open(global).await?, &options).await,
        Command::Show(options) => show::run(&Session::open(global).await?, &options).await,
        Command::Watch(options) => watch::run(&Session::open(global).await?, &options).await,
        Command::Discover(options) => discover::run(&Session::open(global).await?, &options).await,
        Command::Release(options) => release::run(&Session::open(global).await?, &options).await,
        Command::Extend(options) => extend::run(&Session::open(global).await?, &options).await,
        Command::Undo(options) => undo::run(global, &options).await,
        Command::Audit(options) => audit::run(&options),
        Command::Doctor(options) => doctor::run(&Session::open(global).await?, &options).await,
        Command::Acquire(options) => acquire::run(&Session::open(global).await?, &options).await,
        Command::Probe(options) => probe::run(&Session::open(global).await?, &options).await,
        Command::Contention(options) => contention::run(&Session::open(global).await?, &options).await,
        Command::Scripts(options) => scripts::run(&options),
        Command::Check(options) => check::run(global, &options).await,
        Command::Tune(options) => tune::run(global, &options).await,
        Command::Record(options) => record::run(global, &options).await,
        Command::Bundle(options) => bundle::run(global, &options).await,
        Command::Serve(options) => serve::run(global, &options).await,
    }
}

/// Makes the records private before they are read or written, and says so if they were not.
fn keep_records_private() -> Result<(), Fault> {
    let Ok(place) = audit_file::state_directory() else { return Ok(()) };
    let narrowed = audit_file::narrow(&place).map_err(|why| Fault::finding(why.to_string()))?;
    if let Some(sentence) = audit_file::narrowed_sentence(&narrowed) {
        talk::say(&sentence);
    }
    Ok(())
}

/// Writes to stdout, buffered; a closed pipe is not an error.
fn print(write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> io::Result<()>) -> Result<u8, Fault> {
    // A large buffer keeps the number of system calls low for documents of many megabytes.
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    quiet_pipe(write(&mut out).and_then(|()| out.flush()))?;
    Ok(0)
}
