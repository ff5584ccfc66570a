//! The console's loop, and the operator beside it who writes.

pub mod driver;
pub mod operator;
pub mod run;
