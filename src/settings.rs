//! The settings of this run: the command line, the environment and the config file, merged.
//!
//! [`Settings::resolve`] is the only place where they are merged. It is pure: everything from outside is in
//! [`Outside`], so that tests can provide it.

mod access;
mod again;
pub mod cli;
pub mod config;
mod elsewhere;
pub mod keys;
mod login;
mod protection;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::alerts::Rules;
use crate::base::fault::Fault;
use crate::base::glob::Glob;
use crate::base::secret::Secret;
use crate::base::text::visible;
use crate::dialects::Mapping;
use crate::http::Base;
use crate::model::Tuning;
use crate::model::figures::Folding;
use crate::settings::cli::{Environment, Global, PaceArg};
use crate::topology::HostMap;
use crate::topology::url::{Address, ServerUrl};
use config::{Config, PagerConfig, Target};
pub use elsewhere::Offered;
pub use login::Login;
use protection::Protection;
pub use protection::{ReadOnly, places};

/// The world beyond the arguments and the config file.
pub struct Outside<'a> {
    /// The raw value of a variable: it may not be valid text.
    pub env: &'a dyn Fn(&str) -> Option<OsString>,
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
    /// All names of each address; see [`places`].
    pub places: &'a dyn Fn(&[&Address]) -> Vec<BTreeSet<String>>,
    pub stdout_is_terminal: bool,
}

impl Outside<'_> {
    /// The real environment, files and terminal.
    fn real() -> Outside<'static> {
        use std::io::IsTerminal;
        Outside {
            env: &|name| std::env::var_os(name),
            read: &|path| std::fs::read_to_string(path),
            places: &places,
            stdout_is_terminal: std::io::stdout().is_terminal(),
        }
    }
}

/// How much is said on stderr.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Talk {
    /// Errors only.
    Quiet,
    Normal,
    Verbose,
    /// Everything.
    Loud,
}

/// Files for TLS; only with a `rediss://` URL.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tls {
    pub ca: Option<PathBuf>,
    /// Our client certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// The server's certificate is not checked.
    pub insecure: bool,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers to watch; only one, as long as sets of masters are not supported.
    pub servers: Vec<ServerUrl>,
    /// The target's name, if one was used.
    pub target: Option<String>,
    /// The targets of the config.
    pub targets: Vec<Offered>,
    /// The options that lead the next command to the same server, each after a space; without any secret.
    pub again: String,
    pub login: Login,
    /// The login at sentinels; `None` if none was given.
    pub sentinel_login: Option<Login>,
    pub tls: Tls,
    pub db: u32,
    /// Read only the named node of a cluster.
    pub single_node: bool,
    /// Where nodes of a cluster, or servers that sentinels name, are reached.
    pub hosts: HostMap,
    /// The names of keys are scanned on replicas.
    pub scan_on_replica: bool,
    pub environment: Option<Environment>,
    /// The patterns that replace those of the known libraries; empty without `--pattern`.
    pub patterns: Vec<Glob>,
    /// Patterns of the config and the target, beside those of the known libraries.
    pub extra_patterns: Vec<Glob>,
    pub mappings: Vec<Mapping>,
    /// Locks that are never written.
    pub protected: Vec<Glob>,
    /// The thresholds of the verdicts and findings.
    pub tuning: Tuning,
    /// `None`: the command's default.
    pub pace: Option<PaceArg>,
    pub color: bool,
    pub ascii: bool,
    pub talk: Talk,
    /// Writing was asked for with `--write`.
    pub write: bool,
    /// Why every write is refused, if it is.
    pub read_only: Option<ReadOnly>,
    /// The restrictions of other targets with the same address, in a sentence.
    pub protected_by: Option<String>,
    pub config_file: Option<PathBuf>,
    /// Rebound keys of the console's commands.
    pub keys: BTreeMap<String, Vec<String>>,
    /// The alert rules of the config, or the default ones.
    pub rules: Rules,
    /// At most this many patterns of locks have figures of their own.
    pub most_patterns: usize,
    /// Who is told of alerts, by the config.
    pub pager: PagerConfig,
}

const DEFAULT_URL: &str = "redis://127.0.0.1:6379";

impl Settings {
    /// With the real environment, files and terminal.
    pub fn load(cli: &Global) -> Result<Settings, Fault> {
        let config = Config::load(cli.config.as_deref())?;
        Settings::resolve(cli, &Outside::real(), &config)
    }

    /// What the target is called, in a store and in the label `target`: its name, or its address without a password.
    pub fn target_label(&self) -> Result<String, Fault> {
        match &self.target {
            Some(name) => Ok(visible(name.as_bytes())),
            None => Ok(self.endpoint()?.shown),
        }
    }

    /// The alert rules of a file, or those that apply without one.
    pub fn rules_of(&self, file: Option<&Path>) -> Result<Rules, Fault> {
        let Some(path) = file else { return Ok(self.rules.clone()) };
        let place = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|why| {
            Fault::usage(format!("can't read --rules {place}: {why}; 'lockscope rules template' prints some"))
        })?;
        Rules::parse(&text).map_err(|fault| fault.at(&place))
    }

    /// How patterns of locks are folded where these rules apply: those that they name have figures of their own first.
    pub fn folding(&self, rules: &Rules) -> Folding {
        let rules = rules.clone();
        Folding { most: self.most_patterns, first: Arc::new(move |pattern| rules.name_pattern(pattern)) }
    }

    /// Who is told of alerts: those of the config, and these.
    pub fn pager_with(&self, alertmanagers: &[String]) -> Result<PagerConfig, Fault> {
        let mut pager = self.pager.clone();
        for url in alertmanagers {
            pager.alertmanagers.push(Base::read(url, "--alertmanager")?);
        }
        Ok(pager)
    }

    pub fn resolve(cli: &Global, outside: &Outside<'_>, config: &Config) -> Result<Settings, Fault> {
        let (servers, target_name) = servers(cli, outside, config)?;
        let nothing = Target::default();
        let target = match &target_name {
            Some(name) => config.target(name)?,
            None => &nothing,
        };
        let server = match servers.as_slice() {
            [one] => one,
            _ => {
                return Err(Fault::usage(
                    "more than one server (a Redlock set) is not supported yet; give a single --url",
                ));
            }
        };
        if cli.single_node && (server.cluster || server.service.is_some()) {
            let scheme = if server.cluster { "redis+cluster://" } else { "redis+sentinel://" };
            return Err(Fault::usage(format!("--single-node reads one node; name it as redis:// instead of {scheme}")));
        }
        let addresses: Vec<&Address> = servers.iter().flat_map(ServerUrl::addresses).collect();
        let protection = Protection::of(cli, outside, config, target_name.as_deref(), &addresses);
        if let (true, Some(ReadOnly::Target(name))) = (cli.write, &protection.read_only) {
            return Err(Fault::finding(format!(
                "the target {name:?} is marked read_only in the config; leave out --write"
            )));
        }
        Ok(Settings {
            login: Login::of(cli, outside, server, target)?,
            sentinel_login: Login::of_sentinels(cli, outside, target)?,
            tls: tls(cli, outside, server, target)?,
            db: server.db,
            single_node: cli.single_node,
            hosts: HostMap::parse(&cli.map_hosts)?,
            environment: protection.environment,
            patterns: cli.patterns.iter().map(|text| Glob::new(text).map_err(usage)).collect::<Result<_, _>>()?,
            extra_patterns: config.patterns.iter().chain(&target.patterns).cloned().collect(),
            mappings: mappings(cli, config)?,
            protected: protection.protected,
            tuning: config::tuned(config.findings.iter().chain(&target.findings)),
            scan_on_replica: cli.scan_on == Some(cli::ScanOn::Replica),
            pace: cli.pace.or(target.pace),
            color: color(cli, outside),
            ascii: cli.ascii,
            talk: talk(cli),
            write: cli.write,
            read_only: protection.read_only,
            protected_by: protection.why,
            config_file: config.file.clone(),
            keys: config.keys.clone(),
            pager: config.pager.clone(),
            rules: config.rules.clone().unwrap_or_else(Rules::default_rules),
            most_patterns: config.most_patterns.unwrap_or(Folding::USUAL),
            again: again::again(cli, &servers),
            targets: elsewhere::offered(config),
            target: target_name,
            servers,
        })
    }
}

/// Which servers, and by which target: the more explicit wins.
fn servers(cli: &Global, outside: &Outside<'_>, config: &Config) -> Result<(Vec<ServerUrl>, Option<String>), Fault> {
    if !cli.urls.is_empty() {
        let urls = cli.urls.iter().map(|text| ServerUrl::parse(text));
        return Ok((urls.collect::<Result<_, _>>()?, None));
    }
    if let Some(name) = &cli.target {
        return Ok((config.target(name)?.urls.clone(), Some(name.clone())));
    }
    for variable in ["LOCKSCOPE_URL", "REDIS_URL"] {
        if let Some(text) = set(outside, variable)? {
            return Ok((vec![ServerUrl::parse(&text).map_err(|fault| fault.at(variable))?], None));
        }
    }
    if let Some(name) = &config.default_target {
        return Ok((config.target(name)?.urls.clone(), Some(name.clone())));
    }
    Ok((vec![ServerUrl::parse(DEFAULT_URL)?], None))
}

/// An environment variable that is set to something.
fn set(outside: &Outside<'_>, variable: &str) -> Result<Option<String>, Fault> {
    let Some(value) = (outside.env)(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
    // An unreadable value is an error, not an unset variable.
    let no_text = |_| Fault::usage(format!("{variable} is no UTF-8 text; set it again, or unset it"));
    value.into_string().map(Some).map_err(no_text)
}

fn first_line(outside: &Outside<'_>, path: &Path) -> Result<Secret, Fault> {
    let text = (outside.read)(&home(outside, path))
        .map_err(|why| Fault::usage(format!("can't read the password file {}: {why}", path.display())))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Secret::new(line)),
        _ => Err(Fault::usage(format!(
            "the password file {} has nothing in its first line, where the password belongs",
            path.display()
        ))),
    }
}

/// Expands `~/` to the home directory; the shell does this for arguments, but not for the config.
fn home(outside: &Outside<'_>, path: &Path) -> PathBuf {
    let Ok(rest) = path.strip_prefix("~") else { return path.to_path_buf() };
    // A path may not be valid text.
    match (outside.env)("HOME").filter(|home| !home.is_empty()) {
        Some(home) => Path::new(&home).join(rest),
        None => path.to_path_buf(),
    }
}

fn tls(cli: &Global, outside: &Outside<'_>, server: &ServerUrl, target: &Target) -> Result<Tls, Fault> {
    let asked = [&cli.tls_ca, &cli.tls_cert, &cli.tls_key].into_iter().any(Option::is_some) || cli.insecure;
    if asked && !server.tls {
        return Err(Fault::usage(format!(
            "--tls-ca, --tls-cert, --tls-key and --insecure need a rediss:// URL, and {server} is not one"
        )));
    }
    let pick = |ours: &Option<PathBuf>, theirs: &Option<PathBuf>| {
        ours.as_ref().or(theirs.as_ref()).map(|path| home(outside, path))
    };
    let client = match (pick(&cli.tls_cert, &target.tls_cert), pick(&cli.tls_key, &target.tls_key)) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        _ => {
            return Err(Fault::usage(
                "a client certificate and its key go together; give both --tls-cert and --tls-key",
            ));
        }
    };
    let insecure = cli.insecure || server.insecure || target.tls_insecure;
    Ok(Tls { ca: pick(&cli.tls_ca, &target.tls_ca), client, insecure })
}

fn mappings(cli: &Global, config: &Config) -> Result<Vec<Mapping>, Fault> {
    // The first mapping that matches a key decides, so those of the command line come first.
    let ours = cli.dialects.iter().map(|text| Mapping::parse(text).map_err(usage));
    ours.chain(config.mappings.iter().cloned().map(Ok)).collect()
}

fn color(cli: &Global, outside: &Outside<'_>) -> bool {
    let is = |variable: &str| (outside.env)(variable).filter(|value| !value.is_empty());
    let dumb = is("TERM").is_some_and(|term| term == "dumb");
    outside.stdout_is_terminal && !cli.no_color && !dumb && is("NO_COLOR").is_none()
}

fn talk(cli: &Global) -> Talk {
    match (cli.quiet, cli.verbose) {
        (true, _) => Talk::Quiet,
        (false, 0) => Talk::Normal,
        (false, 1) => Talk::Verbose,
        (false, _) => Talk::Loud,
    }
}

fn usage(why: impl ToString) -> Fault {
    Fault::usage(why.to_string())
}

#[cfg(test)]
mod tests;
