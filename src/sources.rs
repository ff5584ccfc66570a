//! The sources: they ask or listen to one node and hand out observations. They judge nothing.

pub mod inspect;
pub mod look;
pub mod notify;
pub mod pace;
pub mod sampling;
