//! Attempts to take locks, where something on the server counts them: our scripts keep a hash ([`Counts`]), or a library
//! publishes its outcomes ([`Changelog`]). Where neither exists, [`idle`] reads when a key was last used: the
//! only trace of waiters that poll. `sampling` samples attempts with MONITOR.

mod changelog;
mod counted;
mod counter_rate;
mod idle;

pub use changelog::Changelog;
pub use counted::Counts;
pub use idle::{Idle, idle};
