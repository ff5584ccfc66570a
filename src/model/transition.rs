//! What happened to a lock: one entry per change, as `watch` prints it.

use serde::{Deserialize, Serialize};

use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId, NodeId, Token};
use crate::model::Source;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    /// Seen for the first time, already held.
    Found,
    Acquired,
    Renewed,
    /// Our undo put it back: the hold continues.
    PutBack,
    /// It was gone, and is there again with its old holder, without having been taken: its server has other data now.
    CameBack,
    /// The holder changed without a release in between.
    Taken,
    /// Another node of the keyspace has it now: a failover, or its slot moved. The hold continues.
    Moved,
    Ended(Ending),
}

/// Why a hold is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ending {
    Released,
    Expired,
    /// Dropped by the server's eviction policy.
    Evicted,
    /// FLUSHALL, FLUSHDB or SWAPDB.
    Flushed,
    /// Renamed away.
    Renamed,
    /// Not there any more when another server took its node's place.
    Failover,
    /// Not there any more after its server was restarted.
    Restart,
    /// Not there any more when another node took its slot.
    SlotTaken,
    /// Gone while we were not watching: the cause is unknown.
    Unseen,
    /// Another client took it over while it was held.
    Taken,
    /// Freed by an operator here.
    Forced,
}

impl Ending {
    pub const ALL: [Ending; 11] = [
        Ending::Released,
        Ending::Expired,
        Ending::Evicted,
        Ending::Flushed,
        Ending::Renamed,
        Ending::Failover,
        Ending::Restart,
        Ending::SlotTaken,
        Ending::Unseen,
        Ending::Taken,
        Ending::Forced,
    ];

    /// One word, as metrics and the store name it.
    pub fn word(self) -> &'static str {
        match self {
            Ending::Released => "released",
            Ending::Expired => "expired",
            Ending::Evicted => "evicted",
            Ending::Flushed => "flushed",
            Ending::Renamed => "renamed",
            Ending::Failover => "failover",
            Ending::Restart => "restart",
            Ending::SlotTaken => "slot-taken",
            Ending::Unseen => "unseen",
            Ending::Taken => "taken",
            Ending::Forced => "forced",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Ending::Released => "released",
            Ending::Expired => "expired",
            Ending::Evicted => "evicted",
            Ending::Flushed => "flushed",
            Ending::Renamed => "renamed away",
            Ending::Failover => "gone after a failover",
            Ending::Restart => "gone after a restart",
            Ending::SlotTaken => "gone with its slot",
            Ending::Unseen => "gone unseen",
            Ending::Taken => "taken over",
            Ending::Forced => "forced",
        }
    }
}

impl Ending {
    /// The server lost the hold, or may have: its holder was not seen to release it.
    pub fn is_loss(self) -> bool {
        use Ending::*;
        matches!(self, Evicted | Flushed | Renamed | Failover | Restart | SlotTaken | Unseen)
    }

    /// The server did something to the lock, so that its holder may go on without knowing. What is only gone unseen was most
    /// likely released while nobody watched.
    pub fn is_untold(self) -> bool {
        self.is_loss() && self != Ending::Unseen
    }

    /// The event of the server itself proves the loss.
    pub fn is_told_by_server(self) -> bool {
        matches!(self, Ending::Evicted | Ending::Flushed | Ending::Renamed)
    }
}

impl Change {
    /// The word of the JSON contract.
    pub fn name(self) -> &'static str {
        match self {
            Change::Found | Change::PutBack | Change::CameBack => "found",
            Change::Acquired => "acquired",
            Change::Renewed => "renewed",
            Change::Taken => "taken",
            Change::Moved => "moved",
            Change::Ended(Ending::Released) => "released",
            Change::Ended(Ending::Expired) => "expired",
            Change::Ended(Ending::Forced) => "forced",
            Change::Ended(_) => "lost",
        }
    }

    /// The same for people, with more distinctions than the contract has.
    pub fn word(self) -> &'static str {
        match self {
            Change::PutBack => "put back",
            Change::CameBack => "came back",
            _ => self.name(),
        }
    }
}

/// One change of one lock.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Transition {
    pub at: Time,
    pub space: KeyspaceId,
    pub node: NodeId,
    pub key: Key,
    pub change: Change,
    /// Who holds it now; `None` after an ending, or if the hold was over before it was read.
    pub holder: Option<Token>,
    /// Who held it before.
    pub previous: Option<Token>,
    /// Of a loss: its holder can't have released it. Without a proof it may have, where nobody watched.
    #[serde(default)]
    pub proven: bool,
    pub source: Source,
}
