//! Real time in a sequence. The models take each step for a moment: a lease ends only where a step waits for it.
//!
//! A machine that stalls breaks that promise, and then a fault may be time's doing. [`Stall`] says so by the server's
//! clock. Such a run is played again from the same seed; a fault of a run in which time kept its promise always
//! counts, and so does one that comes in every run.

use super::run::{Fault, Tally};

/// The most that a step takes where nothing holds it up, in milliseconds.
const STEP_MS: i64 = 25;

/// How often a sequence is played again.
pub const REPLAYS: usize = 5;

/// Why time broke its promise in a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Stall(String);

impl std::fmt::Display for Stall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Stall {
    /// What a step that ran from one moment to another did to the promise; `ends` are those of the holds there were.
    pub fn of(from: i64, to: i64, ends: impl IntoIterator<Item = i64>) -> Option<Stall> {
        if to - from > STEP_MS {
            return Some(Stall(format!("a step took {} ms", to - from)));
        }
        let over = ends.into_iter().any(|end| (from..=to).contains(&end));
        over.then(|| Stall("a lease ran out in the middle of a step".into()))
    }
}

/// Plays until time keeps its promise or nothing fails; beside the result, why runs did not count.
pub fn settle(mut play: impl FnMut() -> Result<Tally, Fault>) -> (Result<Tally, Fault>, Vec<Stall>) {
    let mut stalls = Vec::new();
    loop {
        let mut fault = match play() {
            Ok(tally) => return (Ok(tally), stalls),
            Err(fault) => fault,
        };
        let Some(stall) = fault.stall.clone() else { return (Err(fault), stalls) };
        if stalls.len() == REPLAYS {
            fault.transcript.push(format!("time broke its promise in each of {} runs: {stall}", REPLAYS + 1));
            return (Err(fault), stalls);
        }
        stalls.push(stall);
    }
}
