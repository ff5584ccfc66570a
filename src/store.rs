//! The history on disk: the series of every second, gaps, what was notable, alerts and labels, in one SQLite file.
//!
//! A [`Recorder`] writes it on a thread of its own; there is one for a file. A [`History`] reads it, also while it is
//! written, and keeps labels. Nothing here measures, judges or shows anything: the time of what is written comes with it.
//! A number that was not known is absent when it is read back.

mod body;
mod bytes;
mod changes;
mod clocks;
mod columns;
mod faults;
mod gap;
mod history;
mod joined;
mod keep;
mod label;
mod names;
mod only;
mod overlap;
mod recorder;
mod row;
mod run;
mod schema;
mod sealed;
mod writer;

pub use clocks::Ticks;
pub use columns::{Column, Columns, Span};
pub use gap::{Gap, Reason};
pub use history::{End, Firing, History, Moments, Omission, Reach, Summary, covered};
pub use keep::Keep;
pub use label::{Label, Verdict};
pub use recorder::{Recorder, Status};
pub use run::{Run, Target};
