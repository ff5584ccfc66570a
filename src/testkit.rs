//! What the unit tests of several modules share: sample locks, and a whole console in memory.

pub mod sample;
pub mod stage;
