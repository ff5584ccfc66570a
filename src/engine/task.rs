//! What the tasks of a node work with, and the messages that they send to their driver.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::replication::Position;
use super::{Sampling, ScanReport};
use crate::base::clock::Clock;
use crate::base::time::Time;
use crate::dialects::Recogniser;
use crate::lock::Key;
use crate::model::{Observation, Seen, Ticket};
use crate::server::health::Check;
use crate::sources::inspect::Inspection;
use crate::sources::notify::Standing;
use crate::sources::pace::Budget;
use crate::topology::Node;

/// A message from a task to its driver.
pub(super) enum Incoming {
    Observed(Observation),
    /// Observations that were made together.
    Page(Vec<Observation>),
    Standing(Standing),
    Scanned(ScanReport),
    /// How far its replication stream has come.
    Position(Position),
    /// Whether it answers for keys: a node of a cluster that is down does not.
    Serves(bool),
    /// A source reconnected.
    Reconnected,
    Inspected(Key, Box<Inspection>),
    /// A round of asking who wants locks is over.
    Counted,
    /// The list of clients was requested; the reason if it was refused.
    Listed(Option<String>),
    /// What this user may not do there.
    Lacks(Vec<Check>),
    /// A burst is over, or failed.
    Sampled(Sampling),
    Looked {
        asked: Time,
        answered: Time,
        looks: Vec<(Ticket, Looked)>,
    },
}

/// What became of a ticket.
pub(super) enum Looked {
    Seen(Seen),
    /// Its slot is on its way to another node, which was asked.
    Moving(Seen),
    /// It changed while we read it, or could not be asked: ask again.
    Again,
    /// Another node owns it by now.
    Elsewhere,
}

impl Incoming {
    /// Whether a reader may see a change, beyond the passing of time.
    pub fn is_news(&self) -> bool {
        match self {
            Incoming::Page(seen) => !seen.iter().all(|seen| matches!(seen, Observation::Idle { .. })),
            Incoming::Position(_)
            | Incoming::Counted
            | Incoming::Listed(None)
            | Incoming::Observed(Observation::Heard { .. }) => false,
            _ => true,
        }
    }
}

impl From<Observation> for Incoming {
    fn from(observation: Observation) -> Incoming {
        Incoming::Observed(observation)
    }
}

impl From<Vec<Observation>> for Incoming {
    fn from(page: Vec<Observation>) -> Incoming {
        Incoming::Page(page)
    }
}

impl From<Standing> for Incoming {
    fn from(standing: Standing) -> Incoming {
        Incoming::Standing(standing)
    }
}

/// What each task of a node works with.
#[derive(Clone)]
pub(super) struct Task {
    pub node: Node,
    pub recogniser: Arc<Recogniser>,
    pub budget: Arc<Budget>,
    pub clock: Clock,
    pub out: mpsc::Sender<Incoming>,
}

impl Task {
    /// Sends to the driver; `false` when it is gone.
    pub async fn tell(&self, incoming: impl Into<Incoming>) -> bool {
        self.out.send(incoming.into()).await.is_ok()
    }
}
