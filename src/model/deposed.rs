//! What is learnt of a deposed master: a server that still says that it is the master of what another one owns by now.
//!
//! It takes writes until it is demoted, and forgets them then. What is read there is never the truth of the keyspace: it is
//! only evidence beside it, that two clients may hold one lock.

use serde::{Deserialize, Serialize};

use crate::base::text::visible;
use crate::base::time::Time;
use crate::lock::{Key, KeyspaceId};
use crate::model::Seen;

/// A master, and the number of the configuration that made it one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reign {
    pub name: String,
    pub epoch: Option<u64>,
}

impl Reign {
    /// `10.0.0.5:6379 (epoch 3)`.
    pub fn words(&self) -> String {
        let epoch = self.epoch.map(|epoch| format!(" (epoch {epoch})")).unwrap_or_default();
        format!("{}{epoch}", self.host())
    }

    pub fn host(&self) -> String {
        visible(self.name.as_bytes())
    }
}

/// Who was deposed, and by whom.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Succession {
    pub space: KeyspaceId,
    pub old: Reign,
    pub new: Reign,
}

/// One thing that is learnt of a deposed master.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum OfDeposed {
    /// It says that it is a master still. Said again: its connection was lost, so that changes were missed.
    Reigns {
        succession: Box<Succession>,
        at: Time,
    },
    /// What it has under a key, read while it was a master still.
    Has {
        key: Key,
        asked: Time,
        answered: Time,
        seen: Seen,
    },
    /// All its keys were gone through since, and what it has was told.
    Walked,
    Ended {
        fall: Fall,
        at: Time,
    },
}

/// How the reign of a deposed master ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Fall {
    /// It became a replica: its own writes are thrown away.
    Demoted,
    /// It does not answer any more.
    Gone,
    /// It is the master again.
    Restored,
}
