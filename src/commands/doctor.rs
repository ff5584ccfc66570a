//! `lockscope doctor`: checks a server's settings, our permissions and what can harm locks, with the fix for each.
//!
//! It only reads. The checks are in [`health`](crate::server::health).

mod render;

use std::io::Write;

pub use crate::output::TextStyle;
pub use render::{json, json_of_nodes, text, text_of_nodes};

use super::print;
use super::session::Session;
use crate::base::fault::Fault;
use crate::base::text::visible;
use crate::server::health::{Status, examine, sentinels};
use crate::server::permissions::Scope;
use crate::settings::cli;
use crate::topology::{MemberRole, Node};

/// Examines each server of the target and prints its report.
pub async fn run(session: &Session, options: &cli::Doctor) -> Result<u8, Fault> {
    let (style, nodes) = (session.style(), members(session));
    let patterns = session.recogniser().patterns().clone();
    let scope = Scope { beside: session.topology.shared().is_some(), ..Scope::new(patterns, session.topology.db()) };
    let council = session.topology.service().map(|service| service.council());
    let sentinels = council.as_ref().map(sentinels);
    let (mut reports, mut failed) = (Vec::new(), unserved(session));
    for node in &nodes {
        let examined = async { examine(&mut node.connect().await?, &scope).await };
        match examined.await {
            Ok(report) => reports.push((visible(node.name.as_bytes()), report)),
            Err(error) if nodes.len() == 1 => return Err(session.fault(&error)),
            // The others are told first.
            Err(error) => failed = failed.or(Some(Fault::from_redis(&error, &node.name))),
        }
    }
    print(|out| {
        // Who reads on, or keeps the output only, must know it too.
        if let Some(failed) = failed.as_ref().filter(|_| !options.json) {
            writeln!(out, "{failed}\n")?;
        }
        match (&reports[..], council.as_ref().zip(sentinels.as_ref())) {
            ([(_, report)], None) if nodes.len() == 1 && options.json => json(report, out),
            ([(_, report)], None) if nodes.len() == 1 => text(report, &style, out),
            (several, watched) if options.json => json_of_nodes(several, watched, out),
            (several, watched) => text_of_nodes(several, watched, &style, out),
        }
    })?;
    let bad = sentinels.is_some_and(|check| check.status == Status::Bad);
    match failed {
        Some(failed) => Err(failed),
        None => Ok(reports.iter().map(|(_, report)| report.exit_code()).max().unwrap_or(0).max(u8::from(bad))),
    }
}

/// Slots of the cluster that nobody serves.
fn unserved(session: &Session) -> Option<Fault> {
    let why = session.topology.cluster()?.map().unserved()?;
    Some(Fault::server(format!(
        "{why}; unless cluster-require-full-coverage is no, the cluster answers for no key. Start the node again, or have a \
         replica take over: CLUSTER FAILOVER TAKEOVER there"
    )))
}

/// The nodes to examine: of a cluster or service the replicas too, since each may be promoted.
fn members(session: &Session) -> Vec<Node> {
    match session.topology.shared() {
        Some(shared) => {
            let map = shared.map();
            let alive = map.members.iter().filter(|member| !member.failed);
            let (masters, replicas): (Vec<_>, Vec<_>) = alive.partition(|member| member.role == MemberRole::Master);
            masters.into_iter().chain(replicas).map(|member| member.node.clone()).collect()
        }
        None => session.topology.nodes(),
    }
}

#[cfg(test)]
mod tests;
