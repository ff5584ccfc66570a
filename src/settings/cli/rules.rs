//! Options of `rules`: alert rules for other programs, and from them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::base::time::duration;

#[derive(Subcommand, Clone, Debug)]
pub enum RulesCommand {
    /// The default rules with every key and number explained, on stdout
    #[command(after_help = "Example: lockscope rules template > rules.toml")]
    Template,
    /// The rules for Prometheus: on stdout, or with a dashboard and tests in a folder
    #[command(after_help = "Example: lockscope rules export --tests --store locks.history --out prometheus/\n\
        With --out it writes lockscope.rules.yml and lockscope.dashboard.json (for Grafana) there, and with --tests \
        lockscope.rules.test.yml: the newest recorded firing of each rule, for 'promtool test rules'. Files of those names \
        are replaced. It asks no server.")]
    Export(Export),
    /// Rules of Prometheus as rules of lockscope, on stdout
    #[command(after_help = "Example: lockscope rules import lockscope.rules.yml > rules.toml\n\
        It reads what 'rules export' wrote, and simple rules of others: a metric of lockscope, compared with a number. A rule \
        is taken only if it means exactly the same; the others are named on stderr with the reason, and the exit code is 1.")]
    Import(Import),
    /// Send a test alert of a rule to everybody whom the pager tells
    #[command(after_help = "Example: lockscope rules fire LockOrphan --test --alertmanager http://127.0.0.1:9093\n\
        It sends one alert with the label test=\"true\", which ends by itself, to the Alertmanagers and the command of [pager] \
        in the config and to --alertmanager, and says what each of them answered. Exit code 3: one of them did not take it.")]
    Fire(Fire),
}

#[derive(Args, Clone, Debug)]
pub struct Fire {
    /// The rule
    pub name: String,
    /// Only tests can be fired by hand
    #[arg(long)]
    pub test: bool,
    /// Alert rules (TOML) [default: those of the config, else the default rules]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Tell this Alertmanager, beside those of [pager] in the config
    #[arg(long = "alertmanager", value_name = "URL")]
    pub alertmanagers: Vec<String>,
}

#[derive(Args, Clone, Debug)]
pub struct Import {
    /// A rules file of Prometheus (YAML)
    pub file: PathBuf,
}

#[derive(Args, Clone, Debug)]
pub struct Export {
    /// For which program
    #[arg(long, value_name = "FORMAT", default_value = "prometheus")]
    pub format: Format,
    /// Write tests too, cut from the recorded history of --store
    #[arg(long)]
    pub tests: bool,
    /// Alert rules (TOML) [default: those of the config, else the default rules]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// The recorded history to cut tests from
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// The folder to write into; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How often the tests scrape and evaluate: as your Prometheus does
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "15s")]
    pub interval: Duration,
}

/// The programs that rules are written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    Prometheus,
}
