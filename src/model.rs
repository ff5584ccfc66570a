//! The pure model: locks, their holders, leases and histories.
//!
//! Nothing here speaks to Redis, the terminal or the clock; the time is always an argument. Sources provide
//! [`Observation`]s, the [`Table`] keeps what is known, readers take [`LockView`]s from it.

mod deposed;
mod event;
pub mod figures;
mod first_look;
pub mod grouping;
pub mod guesses;
mod held_by;
mod history;
mod lock;
mod notable;
mod observation;
pub mod order;
mod own_write;
pub mod proof;
pub mod record;
mod server_news;
mod snapshot;
mod table;
mod timeline;
mod transition;
mod verdict;
mod view;
mod wants;

#[cfg(test)]
mod tests;

pub use deposed::{Fall, OfDeposed, Reign, Succession};
pub use event::{EventBatch, KeyEvent};
pub use first_look::Children;
pub use grouping::{Group, GroupBy, GroupName, Grouping};
pub use history::cadence;
pub use history::holds::{Ends, Holds, Usual};
pub use history::pattern::name as pattern_name;
pub use history::{Beats, Hold};
pub use lock::Lock;
pub use notable::{LostBy, Notable, What};
pub use observation::{Observation, Seen, Source};
pub use order::Column;
pub use own_write::{Act, OwnWrite};
pub use proof::{End, Proof, Whole};
pub use server_news::ServerNews;
pub use table::agenda::Ticket;
pub use table::owners::SlotRange;
pub use table::slots::LockRef;
pub use table::{Limits, Table};
pub use timeline::{Served, Timeline};
pub use transition::{Change, Ending, Transition};
pub use verdict::certainty::Certainty;
pub use verdict::finding::Finding;
pub use verdict::findings;
pub use verdict::hazards::{Eviction, Hazards};
pub use verdict::liveness::{Life, Liveness};
pub use verdict::lost::Lost;
pub use verdict::safe::{self, Advice, Pulse, Safe};
pub use verdict::signs::{RenewedBy, Says, Severity, Sign};
pub use verdict::tuning::{KNOBS, Knob, Tuning};
pub use verdict::why::{self, Why};
pub use verdict::{State, Verdict};
pub use view::{HeldIs, LockView, RenewalView, Snapshot};
pub use wants::blocking::Blocking;
pub use wants::connection::{Address, Asked, Connection};
pub use wants::contention::{Contender, Contention, Former, Loss, Notice, Sample, Spoke, Tokens};
pub use wants::demand::Demand;
pub use wants::instance::InstanceId;
pub use wants::presence::{MatchedBy, Presence};
pub use wants::touched::SOMEBODY;
pub use wants::tries::{Tries, TriesFrom};
pub use wants::waits::{Waits, WaitsAt};
