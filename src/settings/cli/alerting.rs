//! Options of the commands that measure over time and watch alert rules.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::base::time::{Time, duration};
use crate::store::Verdict;

#[derive(Args, Clone, Debug)]
pub struct Serve {
    /// Where to listen; an address that other machines can reach needs --auth-file or --public
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9190")]
    pub listen: String,
    /// Let everybody who can reach the address read the metrics
    #[arg(long)]
    pub public: bool,
    /// Ask for the user and password in the first line of this file, written user:password
    #[arg(long, value_name = "FILE")]
    pub auth_file: Option<PathBuf>,
    /// Serve HTTPS with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "listen_key")]
    pub listen_cert: Option<PathBuf>,
    /// Key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "listen_cert")]
    pub listen_key: Option<PathBuf>,
    /// Record the history into this file too
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    #[command(flatten)]
    pub watching: Watching,
}

/// What `serve` and `record` share.
#[derive(Args, Clone, Debug)]
pub struct Watching {
    /// Alert rules (TOML) [default: those of the config, else the default rules]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Tell this Alertmanager of alerts, beside those of [pager] in the config
    #[arg(long = "alertmanager", value_name = "URL")]
    pub alertmanagers: Vec<String>,
    /// Tell nobody of alerts, whatever the config says
    #[arg(long, conflicts_with = "alertmanagers")]
    pub no_pager: bool,
    /// Sample attempts and failures with MONITOR, which slows a busy server down
    #[arg(long)]
    pub monitor: bool,
    /// Stop after this long
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,
}

#[derive(Args, Clone, Debug)]
pub struct Record {
    /// The file of the history; it is made if it is not there
    #[arg(long, value_name = "FILE")]
    pub store: PathBuf,
    /// Copy the history into this new file, also while it is recorded, and end
    #[arg(long, value_name = "FILE")]
    pub copy_to: Option<PathBuf>,
    /// Say what is in the history, and end
    #[arg(long, conflicts_with = "copy_to")]
    pub info: bool,
    #[command(flatten)]
    pub watching: Watching,
}

#[derive(Args, Clone, Debug)]
pub struct Bundle {
    /// The lock, as ls prints it
    #[arg(
        value_name = "KEY",
        required_unless_present = "episode",
        conflicts_with = "episode",
        allow_hyphen_values = true
    )]
    pub key: Option<String>,
    /// A firing of the history instead, by the number that 'record --info' lists; asks no server
    #[arg(long, value_name = "N", requires = "store")]
    pub episode: Option<u64>,
    /// A history that 'serve' or 'record' wrote: which rules fired, what happened before
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// The folder to write incident.html and incident.json into; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Watch the lock for this long first, so that renewals and ages are known
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "episode")]
    pub observe: Option<Duration>,
    /// Alert rules (TOML) whose figures are drawn [default: those of the config, else the default rules]
    #[arg(long, value_name = "FILE", requires = "episode")]
    pub rules: Option<PathBuf>,
    /// Leave tokens and values in
    #[arg(long)]
    pub reveal: bool,
}

#[derive(Args, Clone, Debug)]
pub struct Tune {
    /// The recorded history
    #[arg(long, value_name = "FILE", required_unless_present = "prometheus")]
    pub store: Option<PathBuf>,
    /// Rules and history of this Prometheus instead; --user, --password-file and --tls-ca are then for it
    #[arg(long, value_name = "URL", conflicts_with_all = ["store", "rules", "labels"])]
    pub prometheus: Option<String>,
    /// File with a bearer token for the Prometheus
    #[arg(long, value_name = "FILE", requires = "prometheus", conflicts_with = "store")]
    pub bearer_file: Option<PathBuf>,
    /// A header for the Prometheus, such as 'X-Scope-OrgID: tenant' (repeatable)
    #[arg(long = "header", value_name = "NAME: VALUE", requires = "prometheus", conflicts_with = "store")]
    pub headers: Vec<String>,
    /// How long one answer of the Prometheus may take
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration,
        default_value = "60s",
        requires = "prometheus",
        conflicts_with = "store"
    )]
    pub timeout: Duration,
    /// Alert rules (TOML) [default: those of the config, else the default rules]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Only this rule, with all its episodes
    #[arg(long, value_name = "NAME")]
    pub rule: Option<String>,
    /// Try the rule with another above, below, for or recover, such as 'above=5' (repeatable)
    #[arg(long, value_name = "KEY=VALUE", requires = "rule")]
    pub set: Vec<String>,
    /// From this time on: 2026-11-18T03:00:00Z, or how long ago, such as 2h
    #[arg(long, value_name = "WHEN", value_parser = When::parse)]
    pub from: Option<When>,
    /// Up to this time
    #[arg(long, value_name = "WHEN", value_parser = When::parse)]
    pub to: Option<When>,
    /// Keep in the store that an episode of the list was real or noise, such as 3=noise or b=noise; 3=none takes that back
    #[arg(long = "label", value_name = "N=VERDICT", requires = "rule", value_parser = Labelling::parse)]
    pub labels: Vec<Labelling>,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}

/// A time, or how long ago it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    At(Time),
    Ago(Duration),
}

impl When {
    fn parse(text: &str) -> Result<When, String> {
        let at = Time::of_rfc3339(text).map(When::At);
        let ago = || duration(text).ok().map(When::Ago);
        at.or_else(ago)
            .ok_or_else(|| "a time is written 2026-11-18T03:00:00Z, or as how long ago it was: 2h".to_string())
    }

    pub fn at(self, now: Time) -> Time {
        match self {
            When::At(at) => at,
            When::Ago(ago) => now - ago,
        }
    }
}

/// What is said of an episode, by its name in the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Labelling {
    pub name: String,
    /// `None`: nothing any more.
    pub verdict: Option<Verdict>,
}

impl Labelling {
    fn parse(text: &str) -> Result<Labelling, String> {
        let parsed = || {
            let (name, word) = text.split_once('=')?;
            let name = name.trim().to_string();
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric());
            match word.trim() {
                _ if !is_name => None,
                "none" => Some(Labelling { name, verdict: None }),
                word => Some(Labelling { name, verdict: Some(Verdict::named(word)?) }),
            }
        };
        parsed().ok_or_else(|| {
            "a label is written 3=real, 3=noise or 3=none, with the name of an episode in the list".to_string()
        })
    }
}

#[derive(Args, Clone, Debug)]
pub struct Check {
    /// Alert rules (TOML) [default: those of the config, else the default rules]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Judge by this recorded history, instead of a watch of our own
    #[arg(long, value_name = "FILE", conflicts_with_all = ["duration", "monitor"])]
    pub store: Option<PathBuf>,
    /// Watch this long
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, default_value = "10s")]
    pub duration: Duration,
    /// Take a condition that holds as firing, whatever the rule's 'for' says
    #[arg(long)]
    pub ignore_for: bool,
    /// Exit code 1 also where a rule can't be known
    #[arg(long)]
    pub unknown_fails: bool,
    /// Sample attempts and failures with MONITOR, which slows a busy server down
    #[arg(long)]
    pub monitor: bool,
    /// One JSON document
    #[arg(long)]
    pub json: bool,
}
