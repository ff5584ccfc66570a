//! What the table knows of a node: how its changes are learnt, and what may have been missed.

use crate::base::time::Time;
use crate::lock::KeyspaceId;
use crate::model::{Hazards, Source, Tries};

#[derive(Debug)]
pub(in crate::model) struct NodeState {
    /// The keyspace that it serves.
    pub space: KeyspaceId,
    /// Named events arrive for each change.
    pub eventful: bool,
    /// Whatever happened before this may have been missed.
    pub gap: Option<Time>,
    /// When the last walk of the keyspace began that was finished.
    pub swept: Option<Time>,
    pub source: Option<Source>,
    pub hazards: Hazards,
    /// What is known of every lock that nobody was seen to try.
    pub quiet: Option<Tries>,
}

impl NodeState {
    pub fn new(space: KeyspaceId) -> NodeState {
        NodeState {
            space,
            eventful: false,
            gap: None,
            swept: None,
            source: None,
            hazards: Hazards::default(),
            quiet: None,
        }
    }

    /// Something that was last known then may have changed without our learning of it.
    pub fn missed(&self, known: Time) -> bool {
        self.gap.is_some_and(|gap| known < gap)
    }

    /// The keyspace was walked, and nothing went missing since.
    pub fn is_whole(&self) -> bool {
        self.swept.is_some_and(|started| !self.missed(started))
    }
}
