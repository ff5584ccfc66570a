//! One node as the header and the servers screen show it, with its rates over the last second.

use std::time::Duration;

use crate::base::time::Time;
use crate::engine::{NodeStatus, Sampling, Stream};
use crate::lock::NodeId;
use crate::server::health::Check;
use crate::server::{Part, ServerFacts};

/// One node, as the header and the servers screen show it.
#[derive(Clone, Debug)]
pub struct NodeScene {
    pub id: NodeId,
    pub name: String,
    pub db: i64,
    /// It serves a keyspace together with others.
    pub in_cluster: bool,
    pub facts: ServerFacts,
    pub stream: Stream,
    /// Why it answers for no key, and since when.
    pub refusal: Option<String>,
    /// Slots of its cluster that nobody serves, and why.
    pub unserved: Option<String>,
    /// The last moment of which everything is known, while more is not.
    pub blind_since: Option<Time>,
    pub note: Option<String>,
    pub clients_note: Option<String>,
    /// What this user may not do there.
    pub lacks: Vec<Check>,
    /// How many slots it owns; `None`: it is not in a cluster.
    pub slots: Option<usize>,
    /// How long every change was reported, without a gap; `None` if changes are missed.
    pub watched_for: Option<Duration>,
    /// The state of sampling by MONITOR, in a word and in a sentence; `None`: it is off.
    pub sampling: Option<(String, String)>,
    /// Why MONITOR does not run, although it is wanted.
    pub unsampled: Option<String>,
    pub events: u64,
    /// `None`: some, and nobody counted them.
    pub lost: Option<u64>,
    pub reconnects: u64,
    pub events_per_s: Option<f64>,
    /// The share of the server's time that we used, at most.
    pub cost: Option<f64>,
    pub scanned_ago: Option<Duration>,
    pub scan_took: Option<Duration>,
    /// Progress of the running scan, 0 to 1.
    pub scanning: Option<f64>,
    /// Keys that were skipped because they are too large for a lock.
    pub too_large: u64,
    /// Where the names of the last scan came from, if not from the node as usual.
    pub names: Option<String>,
    /// Why the last scan was incomplete.
    pub shortfall: Option<String>,
    sampled: (Time, u64, Duration),
}

impl NodeScene {
    /// Rates are measured over at least a second.
    const SAMPLE: Duration = Duration::from_millis(1_000);

    /// What is seen of only a part, because the rest is not watched.
    pub fn part(&self) -> Option<Part> {
        self.facts.part().filter(|_| !self.in_cluster)
    }

    /// It does not answer, or for no key.
    pub fn is_away(&self) -> bool {
        matches!(self.stream, Stream::Silent { .. } | Stream::Refusing { .. } | Stream::Reconnecting { .. })
    }

    pub(super) fn of(node: &NodeStatus, slots: Option<usize>, before: Option<&NodeScene>, now: Time) -> NodeScene {
        let scan = node.scan.as_ref();
        let sample = (now, node.events, node.spent);
        let (sampled, events_per_s, cost) = match before {
            None => (sample, None, None),
            Some(before) => {
                let (at, events, spent) = before.sampled;
                let passed = now.since(at);
                if passed < Self::SAMPLE {
                    (before.sampled, before.events_per_s, before.cost)
                } else {
                    let rate = node.events.saturating_sub(events) as f64 / passed.as_secs_f64();
                    let cost = node.spent.saturating_sub(spent).as_secs_f64() / passed.as_secs_f64();
                    (sample, Some(rate), Some(cost))
                }
            }
        };
        NodeScene {
            id: node.id,
            name: node.name.clone(),
            db: node.db,
            in_cluster: node.in_cluster,
            facts: node.facts.clone(),
            stream: node.stream.clone(),
            refusal: node.refusal(),
            unserved: node.unserved.clone(),
            blind_since: node.blind_since,
            note: node.note.clone(),
            clients_note: node.clients_note.clone(),
            lacks: node.lacks.clone(),
            slots,
            watched_for: node.watched_since.map(|since| now.since(since)),
            sampling: node.sampling.as_ref().map(|sampling| (sampling.word(), sampling.sentence(now))),
            unsampled: match &node.sampling {
                Some(Sampling::Refused(why) | Sampling::Failed(why)) => Some(why.clone()),
                _ => None,
            },
            events: node.events,
            lost: node.lost,
            reconnects: node.reconnects,
            events_per_s,
            cost,
            scanned_ago: scan.map(|scan| now.since(scan.finished)),
            scan_took: scan.map(|scan| scan.finished.since(scan.started)),
            scanning: node.scanning(),
            too_large: scan.map_or(0, |scan| scan.unread - scan.denied),
            names: scan.and_then(|scan| Some(scan.names.as_ref()?.sentence(&node.name))),
            shortfall: node.shortfall(),
            sampled,
        }
    }
}
