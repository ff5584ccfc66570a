//! `lockscope doctor`: checks a server's settings, our permissions and what can harm locks, with the fix for each.
//!
//! It only reads. The checks are in [`health`](crate::server::health).

mod render;

pub use crate::output::TextStyle;
pub use render::{json, json_of_nodes, text, text_of_nodes};

use super::print;
use super::session::Session;
use crate::base::fault::Fault;
use crate::base::text::{counted, visible};
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
    print(|out| match (&reports[..], council.as_ref().zip(sentinels.as_ref())) {
        ([(_, report)], None) if nodes.len() == 1 && options.json => json(report, out),
        ([(_, report)], None) if nodes.len() == 1 => text(report, &style, out),
        (several, watched) if options.json => json_of_nodes(several, watched, out),
        (several, watched) => text_of_nodes(several, watched, &style, out),
    })?;
    let bad = sentinels.is_some_and(|check| check.status == Status::Bad);
    match failed {
        Some(failed) => Err(failed),
        None => Ok(reports.iter().map(|(_, report)| report.exit_code()).max().unwrap_or(0).max(u8::from(bad))),
    }
}

/// Slots of the cluster that nobody serves, and the masters that the other nodes gave up.
fn unserved(session: &Session) -> Option<Fault> {
    let map = session.topology.cluster()?.map();
    let masters = map.members.iter().filter(|member| member.failed && member.role == MemberRole::Master);
    let given_up: Vec<&Node> = masters.map(|member| &member.node).collect();
    let lost = map.slots.iter().filter(|(.., owner)| given_up.iter().any(|node| node.id == *owner));
    let slots = lost.map(|(first, last, _)| u64::from(last - first) + 1).sum::<u64>() + u64::from(map.unowned());
    let names: Vec<String> = given_up.iter().map(|node| visible(node.name.as_bytes())).collect();
    let who = if names.is_empty() { "no node has them".to_string() } else { format!("{} failed", names.join(", ")) };
    (slots > 0).then(|| {
        Fault::server(format!(
            "the cluster does not serve {}: {who}; unless cluster-require-full-coverage is no, it answers for no key. Start \
             the node again, or have a replica take over: CLUSTER FAILOVER TAKEOVER there",
            counted(slots, "slot")
        ))
    })
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
