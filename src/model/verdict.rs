//! The verdict on a lock: one state word, the sentences behind it, and how sure they are.
//!
//! Only what can be told from the lock itself is judged here; a state without evidence is never given.

use super::Ttl;

/// The state word, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    NoTtl,
    Held,
    /// Marks work as done; nobody holds it.
    Done,
    /// Nobody holds it any more.
    Free,
}

impl State {
    pub const ALL: [State; 4] = [State::NoTtl, State::Held, State::Done, State::Free];

    /// Lower case, as JSON and the filter language write it.
    pub fn name(self) -> &'static str {
        match self {
            State::NoTtl => "no-ttl",
            State::Held => "held",
            State::Done => "done",
            State::Free => "free",
        }
    }

    /// Upper case, as tables show it.
    pub fn label(self) -> &'static str {
        match self {
            State::NoTtl => "NO-TTL",
            State::Held => "HELD",
            State::Done => "DONE",
            State::Free => "FREE",
        }
    }
}

/// A state with its evidence.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    pub state: State,
    pub evidence: Vec<String>,
    /// 0 to 1.
    pub confidence: f32,
}

impl Verdict {
    /// Judges a lock that is held, by its TTL alone.
    pub fn of_held(ttl: Ttl, library_has_no_lease: bool, confidence: f32) -> Verdict {
        match ttl {
            Ttl::Never => {
                let why = if library_has_no_lease {
                    "it has no TTL, as all locks of this library: if its holder died, it stays until somebody frees it"
                } else {
                    "it has no TTL: if its holder died, it stays until somebody frees it"
                };
                Verdict { state: State::NoTtl, evidence: vec![why.into()], confidence }
            }
            Ttl::In(_) => Verdict { state: State::Held, evidence: Vec::new(), confidence },
        }
    }
}
