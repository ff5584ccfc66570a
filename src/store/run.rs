//! A run: one stretch of recording under one clock, by one process.

use crate::base::time::Time;
use crate::store::Reason;

/// What is recorded. A file belongs to one target, which its name identifies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Without a password: the name from the config, or the URL as it is shown.
    pub name: String,
    /// One line on the server at the beginning of the run: product, version, run id.
    pub server: String,
}

/// A run as the file has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    pub number: u64,
    /// The first and the last moment.
    pub from: Time,
    pub to: Time,
    /// How many moments it has; in coarser steps as many as there were.
    pub moments: u64,
    /// What kept it from continuing the run before.
    pub after: Reason,
    /// Of the lockscope that recorded it.
    pub version: String,
    pub target: Target,
}
