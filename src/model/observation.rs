//! What a source saw, on its way into the [`Table`](crate::model::Table).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::time::{Time, Ttl};
use crate::lock::{Key, KeyspaceId, NodeId, RawValue, Token};
use crate::model::{
    Asked, Children, Connection, EventBatch, Hazards, OfDeposed, OwnWrite, Sample, SlotRange, Tries, Waits, What,
};

/// Where a piece of knowledge comes from; always shown beside it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Source {
    /// A keyspace notification, and the reading it caused.
    Notification,
    /// A client-side caching broadcast, and the reading it caused.
    Tracking,
    /// A scan of the keyspace, or a read of a known lock.
    Scan,
    /// A write of our own.
    Action,
}

impl Source {
    pub fn name(self) -> &'static str {
        match self {
            Source::Notification => "notification",
            Source::Tracking => "tracking",
            Source::Scan => "scan",
            Source::Action => "action",
        }
    }

    /// How a node is watched by it.
    pub fn stream(self) -> &'static str {
        match self {
            Source::Notification => "notifications",
            Source::Tracking => "tracking",
            Source::Scan | Source::Action => "polling",
        }
    }
}

/// What a look at one key found.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Seen {
    Absent,
    Present { value: RawValue, ttl: Ttl },
}

/// One thing that a source saw on one node, or that is known about the node itself. A table learns nothing in any other
/// way: another table that gets the same observations in the same order shows the same locks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Observation {
    /// Keyspace events, in order of arrival.
    Events { node: NodeId, batch: EventBatch },
    /// Keys that changed in some way the source can't name (tracking).
    Touched { node: NodeId, keys: Vec<Key>, at: Time },
    /// A look at a key. `asked` is when the question left, `answered` when the answer came. The answer may or
    /// may not include what happened in between.
    Read { node: NodeId, key: Key, asked: Time, answered: Time, seen: Seen, source: Source },
    /// The answer to a read that the table asked for, as [`Table::answer`](crate::model::Table::answer) records it.
    /// `behind`: this many events arrived after the table had asked.
    /// `moving`: its slot is on its way from that node to another, which has answered.
    Answer {
        node: NodeId,
        key: Key,
        behind: u64,
        asked: Time,
        answered: Time,
        seen: Seen,
        #[serde(default)]
        moving: bool,
    },
    /// We are about to write to a lock.
    Acting { node: NodeId, key: Key, at: Time },
    /// That write is over: sent after `sent`, its outcome known at `answered`. `None`: nothing was written, or the
    /// outcome is unknown.
    Acted { node: NodeId, key: Key, write: Option<OwnWrite>, sent: Time, answered: Time },
    /// How many wait for a lock.
    Counted { node: NodeId, key: Key, waits: Waits },
    /// Clients that are blocked in a command by which libraries wait, the first few of them. The server does not say for
    /// which lock.
    Blocked { node: NodeId, clients: Vec<Connection> },
    /// Some client last accessed the key at about this time: the server's clock for it is exact to a second.
    Idle { node: NodeId, key: Key, since: Time },
    /// Before our first look, sent at `asked`, nobody had used the key for this many whole seconds: nobody took it, renewed
    /// it or tried to take it.
    Unused { node: NodeId, key: Key, asked: Time, idle: Duration },
    /// When the server's children last ran, which falsify that; `None` if the server does not say.
    Children { node: NodeId, children: Option<Children> },
    /// Attempts to take a lock and their failures, each of them counted.
    Tried { node: NodeId, key: Key, tries: Tries },
    /// What a burst of MONITOR showed about a lock.
    Sampled { node: NodeId, key: Key, sample: Box<Sample> },
    /// What bursts of MONITOR say about every lock without a seen attempt; `None` if they say nothing.
    Quiet { node: NodeId, tries: Option<Tries> },
    /// The counter beside the lock, in libraries that number their holds.
    Fenced { node: NodeId, key: Key, token: u64 },
    /// What the server's list of clients said at `at`, when the question was sent.
    Connections { node: NodeId, at: Time, asked: Asked, present: Vec<Connection> },
    /// A full scan of the keyspace that began at `started` is done: known locks that it did not meet have to be read.
    Swept { node: NodeId, started: Time },
    /// Something that concerns the whole node, for the timeline.
    Noted { node: NodeId, at: Time, what: What },
    /// The node is watched from now on, and serves this keyspace.
    Joined { node: NodeId, space: KeyspaceId },
    /// Which nodes of a keyspace own which slots of a cluster, as known at that time.
    Owners { space: KeyspaceId, slots: Vec<SlotRange>, at: Time },
    /// The node took the place of another at that time: a failover.
    TookOver { node: NodeId, at: Time },
    /// No write to the node before it reached it after this time; `None`: that can't be said.
    Cut { node: NodeId, since: Option<Time> },
    /// The node still says that it is a master, although another one took its place.
    Deposed { node: NodeId, told: OfDeposed },
    /// The server was restarted and came back with nothing.
    Emptied { node: NodeId, at: Time },
    /// The node is not watched any more: its locks are unknown.
    Left { node: NodeId },
    /// This source reports its changes from now on. Only notifications name each change.
    Watched { node: NodeId, source: Source },
    /// Which of its settings can cost a lock.
    Hazards { node: NodeId, hazards: Hazards },
    /// The key will be a test lock of ours, held by this token, which does not mark it as one.
    Testing { key: Key, token: Token },
    /// Every key of the node may be gone or another (FLUSHALL, FLUSHDB, SWAPDB).
    Flushed { node: NodeId, at: Time },
    /// Changes before this may have been missed: the source lost its connection, could not keep up, or is new.
    Gap { node: NodeId, at: Time },
    /// The node owes an answer, and gave the last one then; `None`: it answers again, and no event was missed.
    Silent { node: NodeId, since: Option<Time>, at: Time },
    /// Every change up to this time was reported before this. Since then, silence says nothing.
    Heard { node: NodeId, until: Time },
}
