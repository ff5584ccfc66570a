//! lockscope: see, judge and free live Redis locks, across lock libraries.

pub mod clock;
pub mod commands;
#[cfg(unix)]
pub mod demo;
pub mod dialects;
pub mod glob;
pub mod look;
pub mod model;
pub mod monitor;
pub mod notify;
pub mod pace;
pub mod permissions;
pub mod scan;
pub mod servers;
pub mod text;
pub mod topology;
