//! lockscope: see, judge and free live Redis locks, across lock libraries.

pub mod commands;
pub mod dialects;
pub mod glob;
pub mod model;
pub mod permissions;
pub mod servers;
pub mod text;
