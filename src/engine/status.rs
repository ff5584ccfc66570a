//! What the engine reports about each node: how it is watched, and how well that worked so far.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Sampling, ScanReport};
use crate::base::fault::Fault;
use crate::base::text;
use crate::base::time::Time;
use crate::lock::{KeyspaceId, NodeId};
use crate::model::Source;
use crate::scan::{Progress, Shortfall};
use crate::server::health::Check;
use crate::server::{Part, ServerFacts};
use crate::topology::is_silence;

/// One node, and how we learn of its changes.
pub struct NodeStatus {
    pub id: NodeId,
    /// The keyspace that it serves.
    pub space: KeyspaceId,
    pub name: String,
    pub db: i64,
    /// It serves a keyspace together with others, which are watched too.
    pub in_cluster: bool,
    /// It answered at least once.
    pub reached: bool,
    pub facts: ServerFacts,
    pub stream: Stream,
    /// Slots of its cluster that nobody serves, and why.
    pub unserved: Option<String>,
    /// What the source can't report, and how to get it.
    pub note: Option<String>,
    /// Why the connections of holders can't be followed; `None` if they can.
    pub clients_note: Option<String>,
    /// What this user may not do there, and what that costs.
    pub lacks: Vec<Check>,
    pub events: u64,
    /// Events that were dropped; `None`: some, and nobody counted them.
    pub lost: Option<u64>,
    pub reconnects: u64,
    /// The last moment of which everything is known, while more is not: it does not answer, or its locks were not confirmed.
    pub blind_since: Option<Time>,
    /// Since when every change was reported, without a gap; `None` if changes are missed.
    pub watched_since: Option<Time>,
    /// When it last said how far its replication stream has come.
    pub positioned: Option<Time>,
    /// The report of the last walk.
    pub scan: Option<ScanReport>,
    /// The progress of the current walk, and whether there is one.
    pub progress: Arc<Progress>,
    pub under_way: bool,
    /// The most that our reads and scans took of the server's time.
    pub spent: Duration,
    /// The state of sampling by MONITOR; `None`: it is off.
    pub sampling: Option<Sampling>,
}

impl NodeStatus {
    /// A node that was not reached yet, by its id, its keyspace and the number of its database.
    pub(crate) fn new(
        (id, space, db): (NodeId, KeyspaceId, i64),
        name: String,
        facts: ServerFacts,
        stream: Stream,
        progress: Arc<Progress>,
    ) -> NodeStatus {
        NodeStatus {
            id,
            space,
            name,
            db,
            in_cluster: false,
            reached: false,
            facts,
            stream,
            unserved: None,
            note: None,
            clients_note: None,
            lacks: Vec::new(),
            events: 0,
            lost: Some(0),
            reconnects: 0,
            blind_since: None,
            watched_since: None,
            positioned: None,
            scan: None,
            progress,
            under_way: false,
            spent: Duration::ZERO,
            sampling: None,
        }
    }

    /// What is seen of only a part, because the rest is not watched.
    pub fn part(&self) -> Option<Part> {
        self.facts.part().filter(|_| !self.in_cluster)
    }

    /// Why it answers for no key, and since when; `None`: it does.
    pub fn refusal(&self) -> Option<String> {
        let Stream::Refusing { since, .. } = self.stream else { return None };
        let why = self.unserved.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        Some(format!("the cluster is down and answers for no key since {}{why}", since.rfc3339()))
    }

    /// It never answered, so there is nothing to wait for.
    pub fn is_out_of_reach(&self) -> bool {
        !self.reached && matches!(self.stream, Stream::Reconnecting { .. })
    }

    /// Why its keyspace was not walked to the end; `None` if it was.
    pub fn unwalked(&self) -> Option<String> {
        match &self.scan {
            None if self.is_out_of_reach() => Some(match &self.stream {
                Stream::Reconnecting { why, .. } if self.in_cluster => self.unreached(why),
                _ => format!("{} does not answer", self.name),
            }),
            None if self.refusal().is_some() => self.refusal(),
            None => Some("the first scan of the keyspace has not ended yet".into()),
            Some(ScanReport { failed: Some(error), .. }) if self.in_cluster => Some(match is_silence(error) {
                true => self.unreached(&text::said(error)),
                false => Fault::from_redis(error, &self.name).to_string(),
            }),
            Some(ScanReport { failed: Some(error), .. }) => {
                Some(format!("the last scan of the keyspace failed: {}", text::said(error)))
            }
            Some(_) => None,
        }
    }

    fn unreached(&self, why: &str) -> String {
        format!("{} could not be read ({why}); if it is reached at another address, say so with --map-host", self.name)
    }

    /// The progress of the current walk, from 0 to 1, as far as it is known; `None` if there is no walk.
    pub fn scanning(&self) -> Option<f64> {
        let walked = self.progress.walked.load(Ordering::Relaxed) as f64;
        let keys = *self.facts.keys.known()? as f64;
        self.under_way.then(|| (walked / keys.max(1.0)).min(1.0))
    }

    /// Why the last walk did not see every lock, although it ended.
    pub fn shortfall(&self) -> Option<String> {
        let scan = self.scan.as_ref()?;
        let denied = (scan.denied > 0).then_some(Shortfall::Denied { keys: scan.denied });
        scan.shortfall.clone().or(denied).map(|shortfall| shortfall.to_string())
    }
}

/// The state of a node's event stream.
#[derive(Clone, PartialEq, Debug)]
pub enum Stream {
    /// Nothing is followed: only the inventory was requested.
    Off,
    Starting,
    Live(Source),
    /// Connected, but an answer is overdue; the last one came then.
    Silent {
        source: Source,
        since: Time,
    },
    /// It answers, but for no key since then: the cluster is down.
    Refusing {
        source: Source,
        since: Time,
    },
    /// Lost; the last answer came then.
    Reconnecting {
        why: String,
        since: Time,
    },
}

impl Stream {
    pub fn name(&self) -> &'static str {
        match self {
            Stream::Off => "off",
            Stream::Starting => "starting",
            Stream::Live(source) => source.stream(),
            Stream::Silent { .. } => "silent",
            Stream::Refusing { .. } => "refusing",
            Stream::Reconnecting { .. } => "reconnecting",
        }
    }
}
