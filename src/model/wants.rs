//! Who wants a lock: waiters, attempts and their failures, and who blocks whom.

pub(in crate::model) mod blocking;
pub(in crate::model) mod client;
pub(in crate::model) mod connection;
pub(in crate::model) mod contention;
pub(in crate::model) mod demand;
pub(in crate::model) mod instance;
pub(in crate::model) mod presence;
pub(in crate::model) mod touched;
pub(in crate::model) mod tries;
pub(in crate::model) mod waits;
