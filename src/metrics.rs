//! What is measured over time: one table of metrics, and the samples of one moment. Pure.
//!
//! `serve` exposes them, `record` stores them, rules name them, and the docs list them: all read [`METRICS`]. A sample that
//! is not known is absent; there is no zero that means unknown.

pub mod dashboard;
pub mod exposition;
mod patterns;
mod series;
mod table;

pub use patterns::of_table;
pub(crate) use patterns::seconds;
pub use series::{Moment, Part, Sample, Series};
pub use table::{Kind, METRICS, Metric, MetricId};
