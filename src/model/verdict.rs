//! The verdict on a lock: one state word, the sentences behind it, and how sure they are.
//!
//! A state always has evidence; [`judge`](crate::model::Table::judge) finds both.

pub(in crate::model) mod cause;
pub(in crate::model) mod certainty;
pub(in crate::model) mod finding;
pub mod findings;
pub(in crate::model) mod hazards;
pub(in crate::model) mod judge;
pub(in crate::model) mod liveness;
pub(in crate::model) mod lost;
pub(in crate::model) mod rivals;
pub mod safe;
pub(in crate::model) mod signs;
pub(in crate::model) mod tuning;
pub mod why;

use serde::{Deserialize, Serialize};

/// The state word, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, Hash)]
pub enum State {
    /// Two may be at work under it.
    Split,
    /// The server lost it, or may have: nobody holds it there, and its holder may not know.
    Lost,
    /// Its holder is gone.
    Orphan,
    NoTtl,
    /// Its renewals have stopped coming.
    Stalled,
    /// Many clients want it.
    Contended,
    /// Held far beyond what is usual for its kind.
    Long,
    /// Its lease is nearly over, and nothing renews it.
    Expiring,
    Held,
    /// Held by lockscope itself, as a test, and nothing is wrong with it.
    Test,
    /// Marks work as done; nobody holds it.
    Done,
    /// Nobody holds it any more.
    Free,
}

impl State {
    pub const ALL: [State; 12] = [
        State::Split,
        State::Lost,
        State::Orphan,
        State::NoTtl,
        State::Stalled,
        State::Contended,
        State::Long,
        State::Expiring,
        State::Held,
        State::Test,
        State::Done,
        State::Free,
    ];

    /// Nobody holds it on the server.
    pub fn is_free(self) -> bool {
        matches!(self, State::Free | State::Lost)
    }

    /// Whether nothing is wrong.
    pub fn is_usual(self) -> bool {
        matches!(self, State::Held | State::Test | State::Done | State::Free)
    }

    /// Lower case, as JSON and the filter language write it.
    pub fn name(self) -> &'static str {
        match self {
            State::Split => "split",
            State::Lost => "lost",
            State::Orphan => "orphan",
            State::NoTtl => "no-ttl",
            State::Stalled => "stalled",
            State::Contended => "contended",
            State::Long => "long",
            State::Expiring => "expiring",
            State::Held => "held",
            State::Test => "test",
            State::Done => "done",
            State::Free => "free",
        }
    }

    /// Upper case, as tables show it.
    pub fn label(self) -> &'static str {
        match self {
            State::Split => "SPLIT",
            State::Lost => "LOST",
            State::Orphan => "ORPHAN",
            State::NoTtl => "NO-TTL",
            State::Stalled => "STALLED",
            State::Contended => "CONTENDED",
            State::Long => "LONG",
            State::Expiring => "EXPIRING",
            State::Held => "HELD",
            State::Test => "TEST",
            State::Done => "DONE",
            State::Free => "FREE",
        }
    }
}

/// A state with its evidence.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    pub state: State,
    pub evidence: Vec<String>,
    /// 0 to 1.
    pub confidence: f32,
}
