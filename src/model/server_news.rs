//! What happens to servers beside failovers and restarts: nodes come and go, slots move, a clock jumps, clients write to a
//! master that was replaced.

use serde::{Deserialize, Serialize};

use crate::base::text::{counted, short_duration, visible};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ServerNews {
    /// A node joined the cluster.
    Joined { name: String, replica: bool },
    /// It left the cluster.
    Left { name: String },
    /// Slots moved between two nodes that are both masters; `locks`: how many were held in them.
    SlotsMoved { from: String, to: String, slots: u16, locks: u64 },
    /// Clients still write to a master that was replaced; what they write will be thrown away.
    SplitBrain { old: String, new: String },
    /// The server's clock gained this much while that much time passed; below zero: it lost it.
    Clock { gained_ms: i64, passed_ms: u64 },
}

impl ServerNews {
    /// The word of the JSON contract.
    pub fn name(&self) -> &'static str {
        match self {
            ServerNews::Joined { .. } => "joined",
            ServerNews::Left { .. } => "left",
            ServerNews::SlotsMoved { .. } => "slots-moved",
            ServerNews::SplitBrain { .. } => "split-brain",
            ServerNews::Clock { .. } => "clock",
        }
    }

    pub(super) fn headline(&self) -> &'static str {
        match self {
            ServerNews::Joined { .. } => "NODE JOINED",
            ServerNews::Left { .. } => "NODE LEFT",
            ServerNews::SlotsMoved { .. } => "SLOTS MOVED",
            ServerNews::SplitBrain { .. } => "SPLIT BRAIN",
            ServerNews::Clock { .. } => "CLOCK",
        }
    }

    pub(super) fn sentence(&self) -> String {
        match self {
            ServerNews::Joined { name, replica } => {
                let role = if *replica { "replica" } else { "master" };
                format!("{} joined the cluster as a {role}", visible(name.as_bytes()))
            }
            ServerNews::Left { name } => format!("{} left the cluster", visible(name.as_bytes())),
            ServerNews::SlotsMoved { from, to, slots, locks } => {
                let (slots, locks) = (counted(u64::from(*slots), "slot"), counted(*locks, "lock"));
                format!("{slots} with {locks} moved from {} to {}", visible(from.as_bytes()), visible(to.as_bytes()))
            }
            ServerNews::SplitBrain { old, new } => format!(
                "clients still write to {}, which {} has replaced; what they write there is lost when it is demoted",
                visible(old.as_bytes()),
                visible(new.as_bytes())
            ),
            ServerNews::Clock { gained_ms, passed_ms } => {
                let (gained, passed) = (short_duration(gained_ms.unsigned_abs()), short_duration(*passed_ms));
                let gained = format!("{} {gained}", if *gained_ms < 0 { "lost" } else { "gained" });
                format!("the server's clock {gained} while {passed} passed; every TTL there is off by as much")
            }
        }
    }

    /// The bytes of its names.
    pub(super) fn heap(&self) -> usize {
        match self {
            ServerNews::Joined { name, .. } | ServerNews::Left { name } => name.capacity(),
            ServerNews::SlotsMoved { from, to, .. } | ServerNews::SplitBrain { old: from, new: to } => {
                from.capacity() + to.capacity()
            }
            ServerNews::Clock { .. } => 0,
        }
    }
}
