//! Attempts and failures from bursts of MONITOR, by consent.
//!
//! [`burst`] reads one burst from its connection: [`frames`] cuts it into replies, [`line`] reads each line, and [`outcomes`]
//! decides how each attempt ended. [`burst_rates`] turns several bursts into a rate with its margin.

pub mod act;
pub mod burst;
pub mod burst_rates;
mod call;
pub mod frames;
mod gather;
mod habits;
pub mod line;
pub mod outcomes;
mod owners;
mod run;
mod texts;

pub use act::{Outcome, What};
pub use habits::Scripts;
pub use outcomes::Judge;
