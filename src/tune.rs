//! Tuning a rule: a history is loaded once, and the rule is replayed over it with one threshold after another.
//!
//! `load.rs` fills a [`Subject`] from a store; whatever else has a history fills one too. A [`Trial`] then compares the rule
//! as it is with a candidate: pure, and fast enough to be asked at every key. The command and the screen show the same trial.
//! What it does not simulate is in [`NOT_SIMULATED`].

mod calibration;
mod change;
mod coverage;
mod load;
mod logged;
mod marks;
mod outside;
mod profile;
mod scraped;
mod spans;
mod suggest;
mod trial;

pub use calibration::{Calibration, Difference, Recorded};
pub use change::Change;
pub use coverage::{Coverage, Hole};
pub use load::{Asked, load};
pub use logged::{Logged, Name};
pub use marks::{Labelled, Marks};
pub use outside::Worst;
pub use profile::Profile;
pub use scraped::Scraped;
pub use suggest::Suggestion;
pub use trial::{Listed, Subject, Trial, Tried};

/// What stands between an alert and a pager, and is not replayed.
pub const NOT_SIMULATED: [&str; 3] = ["silences", "grouping", "inhibition"];
