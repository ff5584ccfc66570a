//! What a client did to a lock, as a burst shows it.

use crate::base::time::Time;
use crate::lock::{Key, Token};
use crate::model::Address;

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Won,
    Lost,
    /// Notifications are off, so nothing shows which writes took effect.
    Unknown,
}

impl Outcome {
    /// By whether its write took effect.
    pub fn by(wrote: Option<bool>) -> Outcome {
        match wrote {
            Some(true) => Outcome::Won,
            Some(false) => Outcome::Lost,
            None => Outcome::Unknown,
        }
    }
}

/// One thing that a client did to a lock.
#[derive(Clone, PartialEq, Debug)]
pub struct Act {
    pub key: Key,
    pub at: Time,
    /// The token it used, where it used one.
    pub token: Option<Token>,
    pub address: Option<Address>,
    pub what: What,
}

#[derive(Clone, PartialEq, Debug)]
pub enum What {
    Tried(Outcome),
    Renewed,
    Released,
    /// A renewal or release by a client that no longer held the lock.
    Late {
        renewal: bool,
    },
    /// Deleted without comparing the holder, by a client that was not seen to hold it. `holder` is known only where another
    /// client was seen to hold it.
    FreedBy {
        holder: Option<Token>,
    },
    /// Ran a script that names it and that may or may not be an attempt.
    Unclear,
}
