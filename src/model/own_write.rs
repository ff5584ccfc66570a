//! Our own write to a lock, as the operator reports it to the table: what was done, to whom, by whom and why.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::text::{short_duration, visible};
use crate::lock::Token;

/// What was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Act {
    /// Freed. `whole`: the key was deleted; else only the holders named were taken out of it.
    Free { whole: bool },
    /// Given this much time from the moment of writing on.
    Extend(Duration),
    /// An undo of a release. `whole`: the key was restored; else only the holders named were put into it.
    PutBack { whole: bool },
}

/// A write that the server confirmed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OwnWrite {
    pub act: Act,
    /// The holders that lost the lock, kept it longer or got it back.
    pub holders: Vec<Token>,
    pub by: String,
    pub reason: Option<String>,
}

impl OwnWrite {
    /// `by anna, because the worker is dead`
    pub fn by_words(&self) -> String {
        let why = self.reason.as_ref().map(|why| format!(", because \"{}\"", visible(why.as_bytes())));
        format!("by {}{}", visible(self.by.as_bytes()), why.unwrap_or_default())
    }

    /// `put back 3.0s ago by anna`
    pub fn sentence(&self, ago_ms: u64) -> String {
        let done = match self.act {
            Act::Free { .. } => "forced".to_string(),
            Act::Extend(by) => format!("extended to {}", short_duration(by.as_millis() as u64)),
            Act::PutBack { .. } => "put back".to_string(),
        };
        format!("{done} {} ago {}", short_duration(ago_ms), self.by_words())
    }
}
