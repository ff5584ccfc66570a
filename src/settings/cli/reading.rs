//! The options of the commands that look at locks and write nothing.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::DemoTopology;
use crate::base::time::duration;
use crate::model::{Column, GroupBy};

#[derive(Args, Clone, Debug)]
pub struct Ls {
    /// Only locks that match, for example 'state:no-ttl and not lib:shedlock'
    #[arg(short, long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// Sort by this column [default: worst state first, then held longest]
    #[arg(short, long, value_name = "COLUMN", ignore_case = true)]
    pub sort: Option<Column>,
    /// At most this many locks, or groups
    #[arg(short = 'n', long, value_name = "N")]
    pub limit: Option<usize>,
    /// A line for each group of locks instead of each lock
    #[arg(short, long, value_name = "BY")]
    pub group: Option<GroupBy>,
    /// Watch this long before printing, so that ages and renewals are known
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub observe: Option<Duration>,
    /// One JSON document
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// CSV with a header
    #[arg(long)]
    pub csv: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Show {
    /// The lock's key; one that begins with '-' goes after --
    pub key: String,
    /// Watch this long before printing, so that its age, renewals and past holds are known
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub observe: Option<Duration>,
    /// Explain the verdict: the evidence for and against it, its time and source, and what would settle it
    #[arg(long)]
    pub why: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Watch {
    /// Only what matters, as in the console's timeline
    #[arg(long)]
    pub notable: bool,
    /// Only locks that match
    #[arg(short, long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// Stop after this long
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Contention {
    /// Look for this long
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, default_value = "10s")]
    pub duration: Duration,
    /// Sample attempts and failures with MONITOR, which slows a busy server down
    #[arg(long)]
    pub monitor: bool,
    /// Only locks that match
    #[arg(short, long, value_name = "FILTER")]
    pub filter: Option<String>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Discover {
    /// Look at the names of at most this many keys
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: u64,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Demo {
    /// No console: watch for a while and print what was seen
    #[arg(long)]
    pub headless: bool,
    /// Stop after this long [default: 20s without the console, else when you quit]
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,
    /// The same seed plays the same fleet
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The server program to start [default: redis-server or valkey-server on the PATH]
    #[arg(long, value_name = "PATH")]
    pub server: Option<PathBuf>,
    /// One server, a cluster, or a Sentinel service; of the latter two, the master changes every so often
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    pub topology: DemoTopology,
}

#[derive(Args, Clone, Debug)]
pub struct Doctor {
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}
