//! What the unit tests of several modules share: sample locks, a pretended server, and a whole console in memory.

pub mod pretend;
pub mod sample;
pub mod stage;
pub mod tuned;
