//! The store, on real files: what goes in comes out, and no fault, crash or clock loses what was written.

#[path = "store/clocks.rs"]
mod clocks;
#[path = "store/crash.rs"]
mod crash;
#[path = "store/exact.rs"]
mod exact;
#[path = "store/faults.rs"]
mod faults;
#[path = "store/fixtures.rs"]
mod fixtures;
#[path = "store/log.rs"]
mod log;
#[path = "store/readers.rs"]
mod readers;
#[path = "store/retention.rs"]
mod retention;
