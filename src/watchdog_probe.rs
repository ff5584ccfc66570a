//! Watchdogs: the rhythm of the renewals of a lock, judged from when they came. The model asks it.

pub mod cadence;
