//! Alert rules and their evaluation: pure.
//!
//! Rules name the series of [`metrics`](crate::metrics). One evaluator, with the state machine of Prometheus, serves live
//! watching, replay and export, so that they can't differ. The time is an argument.

mod alert;
mod beside;
mod blind;
mod column;
mod doubt;
mod edit;
mod evaluator;
mod expression;
mod import;
mod machine;
pub mod mutation;
mod promql;
mod read;
pub mod replay;
mod rule;
mod rules;
mod status;
mod test_file;
mod watched;
mod write;

pub use alert::{Alert, AlertChange, AlertState, Severity};
pub use column::{Cursor, Point, Prometheus, Reading};
pub use edit::edited;
pub use evaluator::Evaluator;
pub use import::{Imported, import};
pub use machine::{Change, Condition, Machine, Unseen};
pub use promql::{Exported, Op, Recovery, Split, Stay, exported, promql, runbook_key, split};
pub use read::written;
pub use rule::{Compare, NoData, Rule};
pub use rules::{DEFAULT_RULES, RULES, Rules, WITH_DEFAULTS};
pub use status::RuleStatus;
pub use test_file::{Excerpt, selector, test_file, values};
pub use watched::Watched;
pub use write::toml;
