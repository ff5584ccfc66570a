//! The verdict on a lock: one state word, the sentences behind it, and how sure they are.
//!
//! Only what can be told from the lock itself is judged here; a state without evidence is never given.

use super::{Hold, Time};
use crate::text::short_duration;

/// The state word, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    NoTtl,
    /// Its renewals have stopped coming.
    Stalled,
    /// Many wait for it.
    Contended,
    Held,
    /// Held by lockscope itself, as a test, and nothing speaks against it.
    Test,
    /// Marks work as done; nobody holds it.
    Done,
    /// Nobody holds it any more.
    Free,
}

impl State {
    pub const ALL: [State; 7] =
        [State::NoTtl, State::Stalled, State::Contended, State::Held, State::Test, State::Done, State::Free];

    /// Lower case, as JSON and the filter language write it.
    pub fn name(self) -> &'static str {
        match self {
            State::NoTtl => "no-ttl",
            State::Stalled => "stalled",
            State::Contended => "contended",
            State::Held => "held",
            State::Test => "test",
            State::Done => "done",
            State::Free => "free",
        }
    }

    /// Upper case, as tables show it.
    pub fn label(self) -> &'static str {
        match self {
            State::NoTtl => "NO-TTL",
            State::Stalled => "STALLED",
            State::Contended => "CONTENDED",
            State::Held => "HELD",
            State::Test => "TEST",
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
    pub(super) fn no_ttl_sentence(all_of_the_library: bool) -> String {
        let whose = if all_of_the_library { ", as all locks of this library" } else { "" };
        format!("it has no TTL{whose}: if its holder died, it stays until somebody frees it")
    }

    pub(super) fn free_sentence(last: &Hold, now: Time) -> String {
        let ago = short_duration(now.since(last.until).as_millis() as u64);
        let held = short_duration(last.until.since(last.since).as_millis() as u64);
        let least = if last.exact { "" } else { "at least " };
        format!("{} {ago} ago, after {least}{held}", last.ending.name())
    }
}
