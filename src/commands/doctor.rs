//! `lockscope doctor`: checks a server's settings, our permissions and what can harm locks, with the fix for each.
//!
//! It only reads. The checks are in [`health`](crate::server::health).

mod render;

pub use crate::output::TextStyle;
pub use render::{json, text};

use super::print;
use super::session::Session;
use crate::base::fault::Fault;
use crate::server::health::examine;
use crate::server::permissions::Scope;
use crate::settings::cli;

/// Examines the target and prints the report.
pub async fn run(session: &Session, options: &cli::Doctor) -> Result<u8, Fault> {
    let node = session.topology.main();
    let scope = Scope::new(session.recogniser().patterns().clone(), node.db);
    let mut conn = node.connect().await.map_err(|error| session.fault(&error))?;
    let report = examine(&mut conn, &scope).await.map_err(|error| session.fault(&error))?;
    let style = session.style();
    print(|out| if options.json { json(&report, out) } else { text(&report, &style, out) })?;
    Ok(report.exit_code())
}

#[cfg(test)]
mod tests;
