//! Attempts to take locks, where something on the server counts them: our scripts keep a hash ([`Counts`]), or a library
//! publishes its outcomes ([`Changelog`]). Where neither is there, [`idle`] tells when a key was last touched, which is all
//! that shows of waiters that poll. Sampling attempts with MONITOR is `sampling`'s.

mod changelog;
mod counted;
mod counter_rate;
mod idle;

pub use changelog::Changelog;
pub use counted::Counts;
pub use idle::{Idle, idle};
