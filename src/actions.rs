//! Every write: planned, admitted at one gate, and then performed exactly as planned.
//!
//! [`plan`] is pure: from what the operator saw it makes a [`Plan`], which is what the dialog shows and what runs.
//! [`Gate::admit`] is the only way to a write: read-only, protected locks and locks that are freed only by force stop
//! there. [`perform`] compares the holder once more inside the script that writes.

pub mod audit;
mod check;
pub mod comparisons;
pub mod dry_run;
mod gate;
mod journal;
mod keep;
mod keyspace;
mod lease;
mod perform;
pub mod plan;
mod program;
mod queue;
mod result;
mod safety;
mod semaphore;
mod slots;
mod staying;
mod tally;
mod write;

pub use dry_run::DryRuns;
pub use gate::{Admission, Gate, Refusal};
pub use journal::{Context, Journal, NoUndo, last_batch, last_done};
pub use keep::{Deed, Happened, Kept};
pub use keyspace::Keyspace;
pub use perform::{Outcome, Performed, foresee, perform};
pub use plan::{Action, Freeing, Plan};
pub use queue::Cleared;
pub use safety::safe_to_free;
pub use tally::Tally;
