//! The sources: each asks or listens to one node and returns observations. They judge nothing.

pub mod attempts;
pub mod clients;
pub mod inspect;
pub mod look;
pub mod notify;
pub mod pace;
pub mod query;
mod replies;
pub mod sampling;
pub mod waiters;
