//! The console's loop, and the operator that performs its writes in tasks beside it.

pub mod chronicle;
pub mod driver;
pub mod operator;
pub mod run;
pub mod switch;
mod tuning;
