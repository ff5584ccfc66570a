//! The base of every layer: text made safe, globs, time, faults, processes. Knows nothing of locks or of Redis.

pub mod backoff;
pub mod clock;
pub mod diff;
pub mod fault;
pub mod glob;
pub mod histogram;
pub mod json;
pub mod nearest;
pub mod process;
pub mod rate;
pub mod secret;
pub mod section;
pub mod serial;
pub mod server_text;
pub mod shell;
pub mod signals;
pub mod talk;
pub mod text;
pub mod time;
pub mod yaml;
