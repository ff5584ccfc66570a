//! A canary lock with a watchdog of our own: [`canary`] takes, renews and releases it to see how the server treats it.
//!
//! `probe` shows what [`tally`] counted. How often other holders renew is judged by the model, in
//! [`cadence`](crate::model::cadence).

pub mod canary;
pub mod latencies;
pub mod tally;
