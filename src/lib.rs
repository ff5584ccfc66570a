//! lockscope: see, judge and free live Redis locks, across lock libraries.

pub mod dialects;
pub mod fault;
pub mod glob;
pub mod model;
pub mod secret;
pub mod server_url;
pub mod text;
