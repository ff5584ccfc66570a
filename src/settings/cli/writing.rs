//! Options of the commands that write, and of those that list what was written.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;

use super::values::{LockKind, OnLost};
use crate::base::time::duration;

#[derive(Args, Clone, Debug)]
pub struct Release {
    /// The lock's key; one that begins with '-' goes after --
    #[arg(required_unless_present_any = ["filter", "plan"])]
    pub key: Option<String>,
    /// Free all locks that match, instead of one; a dry run unless --yes
    #[arg(short, long, value_name = "FILTER", conflicts_with_all = ["key", "holder"])]
    pub filter: Option<String>,
    /// Free exactly what the dry run with this id showed, or refuse
    #[arg(long, value_name = "ID", conflicts_with_all = ["key", "holder", "filter", "limit", "observe", "permits"])]
    pub plan: Option<String>,
    /// The holder that you saw, as ls shows it; nobody else's lock is freed
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub holder: Option<String>,
    /// Why, for the audit file
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// With --dry-run: print the guarded 'redis-cli EVAL' that does the same, for a runbook
    #[arg(long, requires = "dry_run", conflicts_with_all = ["json", "plan"])]
    pub eval: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Free even where it does or may do harm: the lock of a BullMQ job, a number that may count permits
    #[arg(long)]
    pub force: bool,
    /// Give this many permits back to a semaphore, instead of freeing a lock
    #[arg(long, value_name = "N", conflicts_with_all = ["filter", "holder"], value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub permits: Option<u64>,
    /// Where the holder's token is not unique: also after a renewal that you did not see
    #[arg(long)]
    pub if_renewed: bool,
    /// With --filter: free at most this many
    #[arg(short = 'n', long, value_name = "N", requires = "filter", conflicts_with = "key")]
    pub limit: Option<usize>,
    /// With --filter: watch this long first, so that renewals and states are known
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "filter", conflicts_with = "key")]
    pub observe: Option<Duration>,
    /// One JSON object for each lock
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Extend {
    /// The lock's key; one that begins with '-' goes after --
    pub key: String,
    /// The holder that you saw, as ls shows it
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub holder: Option<String>,
    /// The new TTL, counted from now, from 1s to 30 days
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Duration,
    /// Why, for the audit file
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// With --dry-run: print the guarded 'redis-cli EVAL' that does the same, for a runbook
    #[arg(long, requires = "dry_run", conflicts_with = "json")]
    pub eval: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Extend even a number that may count the permits of a semaphore
    #[arg(long)]
    pub force: bool,
    /// Where the holder's token is not unique: also after a renewal that you did not see
    #[arg(long)]
    pub if_renewed: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Undo {
    /// The id that 'release' printed [default: your last action on this target]
    pub id: Option<String>,
    /// List what can be put back, and do nothing; asks no server
    #[arg(short, long, conflicts_with_all = ["id", "yes"])]
    pub list: bool,
    /// Also where nobody watched since it was freed, so others may have held the lock in between
    #[arg(long)]
    pub unwatched: bool,
    /// Also where it is not known whether the release happened, or whether the server still has the same data
    #[arg(long)]
    pub force: bool,
    /// Why, for the audit file
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Audit {
    /// Only the last N
    #[arg(short = 'n', long, value_name = "N")]
    pub limit: Option<usize>,
    /// The lines of the file as they are
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Acquire {
    /// The lock's key; one that begins with '-' goes after --
    pub key: String,
    /// Its lease: it expires after this long
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub ttl: Duration,
    /// How it is stored: a string, or a hash that counts entries, as in Redisson
    #[arg(long = "as", value_name = "KIND", default_value = "plain")]
    pub form: LockKind,
    /// The holder's token [default: lockscope-test:HOST:PID:RANDOM]
    #[arg(long, value_name = "TOKEN", allow_hyphen_values = true)]
    pub token: Option<String>,
    /// Renew it every third of its TTL while it is held; without --hold until Ctrl-C
    #[arg(long)]
    pub watchdog: bool,
    /// Wait at most this long for somebody else to give it back
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub wait: Option<Duration>,
    /// Hold it this long, then give it back
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "command")]
    pub hold: Option<Duration>,
    /// What to do with the command when the lock is lost: kill it, or only warn
    #[arg(long, value_name = "WHAT", default_value = "kill", requires = "command")]
    pub on_lost: OnLost,
    /// How long a command that is asked to end may take before it is killed
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10s", requires = "command")]
    pub grace: Duration,
    /// One JSON document, after what the command itself writes
    #[arg(long)]
    pub json: bool,
    /// A command to run under the lock
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args, Clone, Debug)]
pub struct Scripts {
    /// Print only the text of this script
    pub name: Option<String>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Probe {
    /// Stop after this long
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, default_value = "30s")]
    pub duration: Duration,
    /// The lease of the canary lock; a third of it passes between two renewals
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "3s")]
    pub ttl: Duration,
    /// The canary's key [default: lockscope:probe:HOST:PID]
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}
