//! What every layer stands on: text made safe, globs, time, faults, processes. Knows nothing of locks or of Redis.

pub mod backoff;
pub mod clock;
pub mod fault;
pub mod glob;
pub mod histogram;
pub mod json;
pub mod nearest;
pub mod process;
pub mod rate;
pub mod secret;
pub mod serial;
pub mod server_text;
pub mod signals;
pub mod talk;
pub mod text;
pub mod time;
