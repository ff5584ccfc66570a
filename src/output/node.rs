//! A node as an object of the JSON contract.

use serde_json::{Value, json};

use crate::engine::{NodeStatus, Sampling};
use crate::server;

/// A node of the `server` object of the JSON documents.
pub fn node_json(node: &NodeStatus) -> Value {
    let facts = &node.facts;
    let product = facts.product.known();
    json!({
        "name": node.name,
        "db": node.db,
        "flavor": product.map(|product| product.flavor.name()),
        "version": product.map(|product| product.version.to_string()),
        "mode": facts.mode.known().copied().map(server::Mode::name),
        "role": facts.role.known().map(server::Role::name),
        "keys": facts.keys.known(),
        "stream": node.stream.name(),
        "note": node.note,
        "events": node.events,
        "events_lost": node.lost,
        "reconnects": node.reconnects,
        "scan": node.scan.as_ref().map(|scan| json!({
            "at": scan.finished.rfc3339(),
            "ms": scan.finished.since(scan.started).as_millis() as u64,
            "walked": scan.walked,
            "matched": scan.matched,
            "unread": scan.unread,
            "incomplete": node.shortfall(),
            "calls": scan.calls,
            "count": scan.count,
        })),
        "sampling": node.sampling.as_ref().map(sampling_json),
    })
}

fn sampling_json(sampling: &Sampling) -> Value {
    match sampling {
        Sampling::Starting => json!({ "state": "starting" }),
        Sampling::Refused(why) => json!({ "state": "refused", "why": why }),
        Sampling::Failed(why) => json!({ "state": "failed", "why": why }),
        Sampling::On(sampled) => json!({
            "state": "on",
            "why": sampled.cut.map(|cut| cut.why()),
            "at": sampled.at.rfc3339(),
            "commands": sampled.lines,
            "looked_ms": sampled.looked.as_millis() as u64,
            "coverage": (sampled.coverage * 1000.0).round() / 1000.0,
            "judged": sampled.judged,
        }),
    }
}
