//! What the engine tells of each node: how it is watched right now, and how that went so far.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Sampling, ScanReport};
use crate::base::text;
use crate::base::time::Time;
use crate::lock::{KeyspaceId, NodeId};
use crate::model::Source;
use crate::scan::{Progress, Shortfall};
use crate::server::ServerFacts;

/// One node, and how its changes are learnt right now.
pub struct NodeStatus {
    pub id: NodeId,
    /// The keyspace that it serves.
    pub space: KeyspaceId,
    pub name: String,
    pub db: i64,
    /// It has answered, at the start or since.
    pub reached: bool,
    pub facts: ServerFacts,
    pub stream: Stream,
    /// What the source can't tell, and how to get it.
    pub note: Option<String>,
    /// Why the connections of holders can't be followed, where that is so.
    pub clients_note: Option<String>,
    pub events: u64,
    pub lost: u64,
    pub reconnects: u64,
    /// Since when every change was told, without a gap; `None` where changes go unseen.
    pub watched_since: Option<Time>,
    /// How the last walk of the keyspace went.
    pub scan: Option<ScanReport>,
    /// The walk under way, if one is.
    pub progress: Arc<Progress>,
    pub under_way: bool,
    /// What our looks and scans took of the server's time at most.
    pub spent: Duration,
    /// How sampling by MONITOR goes; `None`: it is off.
    pub sampling: Option<Sampling>,
}

impl NodeStatus {
    /// Of the node at that place: its id, its keyspace and the number of its database.
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
            reached: false,
            facts,
            stream,
            note: None,
            clients_note: None,
            events: 0,
            lost: 0,
            reconnects: 0,
            watched_since: None,
            scan: None,
            progress,
            under_way: false,
            spent: Duration::ZERO,
            sampling: None,
        }
    }

    /// It never answered, so that there is nothing to wait for.
    pub fn is_out_of_reach(&self) -> bool {
        !self.reached && matches!(self.stream, Stream::Reconnecting { .. })
    }

    /// Why its keyspace was not walked to the end, where it was not.
    pub fn unwalked(&self) -> Option<String> {
        match &self.scan {
            None if self.is_out_of_reach() => Some(format!("{} does not answer", self.name)),
            None => Some("the keyspace was not walked to its end yet".into()),
            Some(ScanReport { failed: Some(error), .. }) => {
                Some(format!("the last walk of the keyspace failed: {}", text::said(error)))
            }
            Some(_) => None,
        }
    }

    /// How far the walk under way has come, 0 to 1, as far as that can be known; `None` when none is.
    pub fn scanning(&self) -> Option<f64> {
        let walked = self.progress.walked.load(Ordering::Relaxed) as f64;
        let keys = *self.facts.keys.known()? as f64;
        self.under_way.then(|| (walked / keys.max(1.0)).min(1.0))
    }

    /// Why the last walk has not seen every lock, where it came to an end.
    pub fn shortfall(&self) -> Option<String> {
        let scan = self.scan.as_ref()?;
        let denied = (scan.denied > 0).then_some(Shortfall::Denied { keys: scan.denied });
        scan.shortfall.clone().or(denied).map(|shortfall| shortfall.to_string())
    }
}

/// The state of a node's event stream.
#[derive(Clone, PartialEq, Debug)]
pub enum Stream {
    /// Nothing is followed: only the inventory was asked for.
    Off,
    Starting,
    Live(Source),
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
            Stream::Live(Source::Notification) => "notifications",
            Stream::Live(Source::Tracking) => "tracking",
            Stream::Live(_) => "polling",
            Stream::Reconnecting { .. } => "reconnecting",
        }
    }
}
