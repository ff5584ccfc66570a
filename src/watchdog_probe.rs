//! Watchdogs, judged from both sides: the rhythm of those that others run, and a canary lock with one of our own.
//!
//! [`cadence`] says of any lock how often it is renewed and whether that has stopped; the model asks it. [`canary`] takes,
//! renews and gives back a test lock to see how the server treats it, and `probe` shows what [`tally`] has kept of that.

pub mod cadence;
pub mod canary;
pub mod latencies;
pub mod tally;
