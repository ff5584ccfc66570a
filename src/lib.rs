//! lockscope: see, judge and free live Redis locks, across lock libraries.

pub mod dialects;
pub mod glob;
pub mod look;
pub mod model;
pub mod pace;
pub mod text;
pub mod topology;
