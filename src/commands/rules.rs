//! `lockscope rules …`: the alert rules for other programs, and from them. Asks no Redis.

mod cut;
mod export;
mod fire;
mod import;

use std::io::Write;

use crate::alerts::DEFAULT_RULES;
use crate::base::fault::Fault;
use crate::settings::cli::{Global, RulesCommand};

pub async fn run(global: &Global, what: &RulesCommand) -> Result<u8, Fault> {
    match what {
        RulesCommand::Template => super::print(|out| out.write_all(DEFAULT_RULES.as_bytes())),
        RulesCommand::Export(options) => export::run(global, options),
        RulesCommand::Import(options) => import::run(global, options),
        RulesCommand::Fire(options) => fire::run(global, options).await,
    }
}
