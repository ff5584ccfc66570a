//! The pure model: locks, their holders, leases and histories.
//!
//! Nothing here speaks to Redis, to the terminal or to the clock; the time is always an argument. Sources hand in
//! [`Observation`]s, the [`Table`] keeps what is known, readers take [`LockView`]s out of it.

mod absent;
mod blocking;
mod cause;
mod client;
mod contention;
mod event;
mod finding;
pub mod findings;
mod hazards;
mod history;
mod holder;
mod holds;
mod judge;
mod key;
mod lock;
mod narrate;
mod node;
mod observation;
mod pattern;
pub mod proof;
mod raw;
mod resolve;
mod rivals;
mod settle;
mod slots;
mod snapshot;
mod strain;
mod table;
mod time;
mod touched;
mod transition;
mod tries;
mod tuning;
mod verdict;
mod view;
mod waits;

#[cfg(test)]
mod tests;

pub use blocking::{Blocking, Link};
pub use client::{Address, Asked, ClientRef, Connection};
pub use contention::{Contender, Contention, Former, Notice, Sample};
pub use event::{EventBatch, KeyEvent};
pub use finding::Finding;
pub use hazards::{Eviction, Hazards};
pub use history::{Beats, Hold};
pub use holder::{Holder, Kind, Mode, Token};
pub use holds::{Ends, Holds, Usual};
pub use key::{Key, NodeId};
pub use lock::Lock;
pub use observation::{Observation, Seen, Source};
pub use proof::{End, Proof, Whole};
pub use raw::{Bytes, Pair, RawValue};
pub use slots::LockRef;
pub use strain::Strain;
pub use table::{Limits, Table, Ticket};
pub use time::{Time, Ttl};
pub use transition::{Change, Ending, Transition};
pub use tries::{Tries, TriesFrom};
pub use tuning::{KNOBS, Knob, Tuning};
pub use verdict::{State, Verdict};
pub use view::{HeldIs, LockView, RenewalView, Snapshot};
pub use waits::{Waits, WaitsAt};
