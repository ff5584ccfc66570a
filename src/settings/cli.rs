//! The command line: only the options and commands that clap parses.
//!
//! What the options mean together with the environment and the config is decided in [`settings`](crate::settings).
//! URLs, filters and patterns stay text here: their own parsers give better error messages, and clap would echo a URL
//! with its password.

mod alerting;
mod reading;
mod rules;
mod typed;
mod values;
mod writing;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};

use crate::base::fault::{Fault, quiet_pipe, shown};
use crate::base::talk;
use crate::base::text;
pub use alerting::{Bundle, Check, Labelling, Record, Serve, Tune, Watching, When};
pub use reading::{Contention, Demo, Discover, Doctor, Ls, Show, Watch};
pub use rules::{Export, Fire, Format, Import, RulesCommand};
pub use typed::OwnTune;
pub use values::{DemoTopology, Environment, LockKind, OnLost, PaceArg, ScanOn};
pub use writing::{Acquire, Audit, Extend, Probe, Release, Scripts, Undo};

#[derive(Parser, Debug)]
#[command(name = "lockscope", version = env!("LOCKSCOPE_VERSION"), about, max_term_width = 110, disable_help_subcommand = true)]
#[command(after_help = "Without a command the console opens.\n\
    Example: lockscope ls -u redis://cache:6379 --filter 'ttl:none or held>1m'\n\
    Exit codes: 0 fine, 1 finding or refused, 2 wrong usage, 3 could not connect, not permitted, or lost the server.")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    /// Alert rules (TOML) for the console [default: those of the config, else the default rules]
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// A history that 'serve' or 'record' writes, for the console to read
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Options of every command.
#[derive(Args, Clone, Debug, Default)]
pub struct Global {
    /// Server: redis://, rediss:// (TLS), unix://, a cluster: redis+cluster://HOST:PORT,… or a service by its sentinels: redis+sentinel://HOST:PORT,…/SERVICE [default: $LOCKSCOPE_URL, $REDIS_URL, redis://127.0.0.1:6379]
    #[arg(short, long = "url", value_name = "URL", global = true, help_heading = "Server")]
    pub urls: Vec<String>,
    /// A named target of the config file, instead of a URL
    #[arg(short, long, value_name = "NAME", global = true, conflicts_with = "urls", help_heading = "Server")]
    pub target: Option<String>,
    /// ACL user to log in as
    #[arg(long, value_name = "NAME", global = true, help_heading = "Server")]
    pub user: Option<String>,
    /// File with the password in its first line [else: $LOCKSCOPE_PASSWORD]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    pub password_file: Option<PathBuf>,
    /// ACL user to log in as at the sentinels
    #[arg(long, value_name = "NAME", global = true, help_heading = "Server")]
    pub sentinel_user: Option<String>,
    /// File with the password of the sentinels in its first line [else: $LOCKSCOPE_SENTINEL_PASSWORD]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    pub sentinel_password_file: Option<PathBuf>,
    /// Certificate of the CA that signed the server's (PEM)
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    pub tls_ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    pub tls_key: Option<PathBuf>,
    /// Do not check the server's certificate
    #[arg(long, global = true, help_heading = "Server")]
    pub insecure: bool,
    /// Read only this node, even if it belongs to a cluster or is a sentinel
    #[arg(long, global = true, help_heading = "Server")]
    pub single_node: bool,
    /// Reach a node that the cluster or the sentinels call A (host or host:port) at B; repeatable
    #[arg(long = "map-host", value_name = "A=B", global = true, help_heading = "Server")]
    pub map_hosts: Vec<String>,
    /// Scan the names of keys on a replica of each master, in a cluster or Sentinel service; locks are read on the master [default: master]
    #[arg(long, value_name = "WHERE", global = true, help_heading = "Server")]
    pub scan_on: Option<ScanOn>,
    /// Environment of the server; prod asks for more confirmation before a write
    #[arg(long, value_name = "ENV", global = true, help_heading = "Server")]
    pub env: Option<Environment>,

    /// Where locks live, as a Redis glob; replaces the patterns of all known libraries
    #[arg(short, long = "pattern", value_name = "GLOB", global = true, help_heading = "Locks")]
    pub patterns: Vec<String>,
    /// Read the keys under GLOB as locks of this library, for example redsync='job:*'
    #[arg(long = "dialect", value_name = "NAME=GLOB", global = true, help_heading = "Locks")]
    pub dialects: Vec<String>,
    /// Share of the server's time that scanning may take: fast, polite (10%) or N%
    #[arg(long, value_name = "PACE", global = true, help_heading = "Locks")]
    pub pace: Option<PaceArg>,

    /// Allow writing to the server
    #[arg(long, global = true, help_heading = "Safety")]
    pub write: bool,
    /// Refuse every write, in every command
    #[arg(long, global = true, conflicts_with = "write", help_heading = "Safety")]
    pub read_only: bool,

    /// Config file [default: lockscope/config.toml in the XDG config directory]
    #[arg(long, value_name = "FILE", global = true, help_heading = "General")]
    pub config: Option<PathBuf>,
    /// No colours [also: $NO_COLOR, or output that is not a terminal]
    #[arg(long, global = true, help_heading = "General")]
    pub no_color: bool,
    /// ASCII only
    #[arg(long, global = true, help_heading = "General")]
    pub ascii: bool,
    /// Only errors on stderr
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "General")]
    pub quiet: bool,
    /// More messages on stderr; twice for even more
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "General")]
    pub verbose: u8,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// List the locks, worst first
    #[command(after_help = "Example: lockscope ls --filter 'state:no-ttl or ttl<5s' --observe 20s --json")]
    Ls(Ls),
    /// Everything about one lock
    #[command(after_help = "Example: lockscope show lock:order:8841\n\
        Bytes that can't be typed are written as ls shows them: \\x00, \\n, \\u{1b}, and \\\\ for a backslash.")]
    Show(Show),
    /// One line for each change of a lock, as it happens
    #[command(after_help = "Example: lockscope watch --filter 'lib:redisson' --for 30s --json\n\
        --notable leaves out what is usual: it prints changes of state (HELD to STALLED to ORPHAN), locks that were lost or \
        taken over, restarts, and gaps in the watching.")]
    Watch(Watch),
    /// Contention of each lock: who waits, attempts and failures, the most contended first
    #[command(after_help = "Example: lockscope contention --for 20s --monitor\n\
        Without --monitor only waiters are counted. MONITOR shows every command of the server and lowers the throughput of \
        a busy one by a third while it runs. It runs in bursts of 1s with pauses of 1s, for at most 10s in all. Only \
        what is done to locks is kept.\n\
        4.2~m ±0.6: sampled, with the half-width of the 95 % confidence interval; 4.2=c: counted one by one; ?: not known.")]
    Contention(Contention),
    /// Find keyspaces that look like locks, with the patterns to use
    #[command(after_help = "Example: lockscope discover -u redis://cache:6379 --sample 1000000")]
    Discover(Discover),
    /// Check the server's settings and permissions, with the fix for each hazard
    #[command(after_help = "Example: lockscope doctor -u rediss://cache:6380 --user lockwatch")]
    Doctor(Doctor),
    /// Evaluate the alert rules, for cron and CI; exit code 1 when one fires
    #[command(after_help = "Example: lockscope check --for 30s --json\n\
        Without --store it watches for a while. A rule whose 'for' is longer than that is pending at most: --ignore-for takes \
        it as firing. With --store it judges by what 'record' or 'serve' wrote up to now, and asks no server.\n\
        A rule is unknown where what it needs was not measured, such as failed attempts without --monitor.")]
    Check(Check),
    /// Replay alert rules over a recorded history: would they have fired, and with another threshold?
    #[command(after_help = "Example: lockscope tune --store locks.history --rule LockManyWaiters --set above=7\n\
        It tells how much of the time is covered, what fired, how long and how late, what nearly fired, and what a Prometheus \
        that reads every 15s or 60s would miss; the rule as it is beside the candidate. Without --rule it lists all rules.\n\
        It asks no server. Silences, grouping and inhibition of a pager are not simulated.\n\
        With --prometheus it reads the alerting rules of your Prometheus and lists which can be tuned; with --rule it replays \
        that one over the last week there (--from, --to), and first says how many of the recorded firings that reproduces.")]
    Tune(Tune),
    /// Record the history of all patterns of locks into a file, without a terminal
    #[command(after_help = "Example: lockscope record --store locks.history --for 1h\n\
        It runs until SIGTERM or Ctrl-C, logs alerts that fire, and keeps the file within 2 GiB. One process records into a \
        file; any number may read it meanwhile.")]
    Record(Record),
    /// The daemon: metrics for Prometheus, history, alert rules
    #[command(after_help = "Example: lockscope serve --listen 127.0.0.1:9190 --store locks.history\n\
        It answers /metrics and /healthz, GET and HEAD only, and runs until SIGTERM or Ctrl-C. It needs no terminal; systemd \
        may start it with Type=notify. Alerts that fire are logged on stderr.\n\
        Without --monitor nobody counts failed attempts: their series are absent, and rules about them are unknown.")]
    Serve(Serve),
    /// An incident as one HTML page and JSON, to be handed over: a lock, or an alert that fired
    #[command(
        after_help = "Example: lockscope bundle lock:order:8841 --observe 20s --store locks.history --out incident-1\n\
        The page opens without a network and contains no script. Tokens and values are left out unless --reveal is given; names \
        of locks, hosts and addresses are in it."
    )]
    Bundle(Bundle),
    /// Free a lock, if it is still held by the holder that you saw
    #[command(
        after_help = "Example: lockscope release lock:order:8841 --holder 9c1e0b7a --reason 'worker-7 is gone'\n\
        It compares the holder and frees the lock in one step, wakes the waiters of the lock's library, writes down what \
        was done (lockscope audit), and keeps what was freed (lockscope undo).\n\
        Many at once: lockscope release --filter 'state:stalled and lib:redisson', a dry run unless --yes."
    )]
    Release(Release),
    /// Give a lock more time, or a TTL to one that has none
    #[command(after_help = "Example: lockscope extend lock:nightly --holder worker-7 --ttl 10m")]
    Extend(Extend),
    /// Put back what was freed, if its place is still free and nobody held it since
    #[command(after_help = "Example: lockscope undo\n\
        Without an ID it undoes your last action on this target, and nothing earlier.\n\
        A script needs --unwatched, because nobody watched whether others held the lock in between. --force is needed \
        where the answer to the release was lost, or where the server was restarted or replaced since.")]
    Undo(Undo),
    /// What was done with lockscope on this machine: by whom, when, why
    #[command(after_help = "Example: lockscope audit --json | jq 'select(.outcome == \"done\")'")]
    Audit(Audit),
    /// Take a test lock: leave it there, hold it, or run a command under it
    #[command(after_help = "Example: lockscope acquire lock:report --ttl 30s --wait 5s -- ./report.sh\n\
        Without a command or --hold the lock stays until its TTL ends. A command always has a watchdog and finds \
        LOCKSCOPE_KEY and LOCKSCOPE_TOKEN in its environment. lockscope ends with its exit code (128 plus the number of \
        the signal that ended it). The command does not inherit LOCKSCOPE_PASSWORD, LOCKSCOPE_SENTINEL_PASSWORD or the password in LOCKSCOPE_URL. Exit code 1: the lock \
        was not obtained, or was lost.\n\
        If lockscope itself is killed, the command and its process group are ended by SIGTERM, and after --grace by \
        SIGKILL, unless --on-lost warn. A process that left the group (setsid, a daemon) runs on. For a command on a \
        terminal this works only on Linux.")]
    Acquire(Acquire),
    /// A canary lock: how long acquire, renew and release take, and whether renewals are late or lost
    #[command(after_help = "Example: lockscope probe --for 5m --ttl 3s -u redis://cache:6379\n\
        It takes a test lock, renews it three times and gives it back, again and again, with the scripts that \
        applications use. It goes on when the server pauses or restarts. Ctrl-C ends it early. Exit code 1: the lock was \
        lost, or somebody else has it; 3: the server could not be reached, or was away at the end.")]
    Probe(Probe),
    /// The Lua scripts with their SHA1, ready for an application
    #[command(after_help = "Example: lockscope scripts acquire > acquire.lua")]
    Scripts(Scripts),
    /// A private server with a simulated fleet of lock users, and the console on it
    #[command(after_help = "Example: lockscope demo --headless --for 20s --topology cluster\n\
        It needs a redis-server or valkey-server on the PATH, touches no other server, and cleans up after itself.")]
    Demo(Demo),
    /// Version, paths, libraries and settings in use
    #[command(after_help = "Example: lockscope info --target orders")]
    Info,
    /// Shell completions on stdout
    #[command(
        after_help = "Example: lockscope completions bash > ~/.local/share/bash-completion/completions/lockscope"
    )]
    Completions { shell: clap_complete::Shell },
    /// The manual page on stdout
    #[command(after_help = "Example: lockscope man ls | man -l -")]
    Man {
        /// The command to describe [default: lockscope as a whole]
        #[arg(value_name = "COMMAND")]
        page: Option<String>,
    },
    /// The config file
    #[command(after_help = "Example: lockscope config template > ~/.config/lockscope/config.toml")]
    Config {
        #[command(subcommand)]
        what: ConfigCommand,
    },
    /// The alert rules: a template, and to and from Prometheus
    #[command(after_help = "Example: lockscope rules export > /etc/prometheus/lockscope.rules.yml")]
    Rules {
        #[command(subcommand)]
        what: RulesCommand,
    },
}

impl Command {
    /// Whether it reads or writes the records of actions.
    pub fn keeps_records(&self) -> bool {
        use Command::{Acquire, Audit, Bundle, Extend, Probe, Release, Undo};
        matches!(self, Bundle(_) | Release(_) | Extend(_) | Undo(_) | Audit(_) | Acquire(_) | Probe(_))
    }
}

#[derive(Subcommand, Clone, Debug)]
pub enum ConfigCommand {
    /// A config file with every key explained, on stdout
    #[command(after_help = "Example: lockscope config template > ~/.config/lockscope/config.toml")]
    Template,
}

/// Why there is no command to run: help was asked for, or the command line is wrong.
#[derive(Debug)]
pub struct Early {
    pub text: String,
    /// 0 for help and version, which belong on stdout, else 2.
    pub exit_code: u8,
}

impl Early {
    /// Prints it to stdout or stderr and returns the exit code.
    pub fn print(&self) -> Result<u8, Fault> {
        if self.exit_code == 0 {
            let mut out = io::stdout().lock();
            quiet_pipe(out.write_all(self.text.as_bytes()).and_then(|()| out.flush()))?;
        } else {
            talk::say_all(&self.text);
        }
        Ok(self.exit_code)
    }
}

impl Cli {
    /// Reads the arguments, the program's name first.
    pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Early> {
        let args: Vec<OsString> = args.into_iter().collect();
        Cli::try_parse_from(&args).map_err(|why| {
            let mut text = why.render().to_string();
            // clap quotes what it does not understand, and that may be a misplaced URL with a password, or part of one.
            let may_be_url = |arg: &&str| arg.contains("://") || arg.contains('@') && arg.contains(':');
            for arg in args.iter().filter_map(|arg| arg.to_str()).filter(may_be_url) {
                text = text.replace(arg, &shown(arg));
            }
            match why.kind() {
                _ if !why.use_stderr() => Early { text, exit_code: 0 },
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => Early { text, exit_code: 2 },
                _ => Early { text: format!("lockscope: {}\n", sentence(&text)), exit_code: 2 },
            }
        })
    }
}

/// Turns clap's paragraphs into one line: the error and its tips. The usage is left out: `--help` has it.
fn sentence(said: &str) -> String {
    let mut parts = said.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    let wrong = parts.next().unwrap_or_default();
    let mut line = wrong.trim_start_matches("error: ").to_string();
    for tip in parts.filter_map(|part| part.strip_prefix("tip: ").map(String::from)) {
        line.push_str(&format!("; {tip}"));
    }
    line.push_str("; see 'lockscope --help'");
    text::visible(line.as_bytes())
}

/// Writes the completions for a shell.
pub fn write_completions(shell: clap_complete::Shell, out: &mut impl Write) -> io::Result<()> {
    // The generator panics when its writer fails, and a closed pipe must not cause a panic.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "lockscope", &mut script);
    out.write_all(&script)
}

/// Writes the manual page of the program, or of one command; `None` if there is no such command.
pub fn write_man(page: Option<&str>, out: &mut impl Write) -> Option<io::Result<()>> {
    let mut root = Cli::command();
    root.build();
    let command = match page {
        None => root,
        Some(name) => root.find_subcommand(name)?.clone(),
    };
    Some(clap_mangen::Man::new(command).render(out))
}

#[cfg(test)]
mod tests;
