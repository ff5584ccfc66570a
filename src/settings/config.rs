//! The config file: TOML with targets, patterns and dialect mappings.
//!
//! Read and checked as a whole, so that a mistake in any part is reported with its line before anything connects.
//! [`settings`](crate::settings) merges it with the command line and the environment.

mod findings;
mod pager;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::alerts::{self, Rules};
use crate::base::fault::Fault;
use crate::base::glob::Glob;
use crate::base::nearest;
use crate::base::section::Section;
use crate::dialects::Mapping;
use crate::model::figures::Folding;
use crate::settings::cli::{Environment, PaceArg};
use crate::settings::keys::{self, Press};
use crate::topology::url::ServerUrl;
use clap::ValueEnum;
pub use findings::{Tweak, tuned};
pub use pager::PagerConfig;

/// A config file with every key explained, for `config template`.
pub const TEMPLATE: &str = include_str!("config/template.toml");

#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Where it was read from.
    pub file: Option<PathBuf>,
    pub default_target: Option<String>,
    /// Scanned in addition to the patterns of the known libraries.
    pub patterns: Vec<Glob>,
    pub mappings: Vec<Mapping>,
    /// Locks that are never written.
    pub protected: Vec<Glob>,
    /// Changes to the default findings and thresholds.
    pub findings: Vec<Tweak>,
    pub targets: BTreeMap<String, Target>,
    /// Rebound keys of the console's commands.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Alert rules, with the default ones; `None` if the file says nothing about rules.
    pub rules: Option<Rules>,
    /// At most this many patterns of locks have figures of their own.
    pub most_patterns: Option<usize>,
    /// Who is told of alerts.
    pub pager: PagerConfig,
}

/// A server by name.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub urls: Vec<ServerUrl>,
    pub user: Option<String>,
    pub password_file: Option<PathBuf>,
    /// The login at sentinels.
    pub sentinel_user: Option<String>,
    pub sentinel_password_file: Option<PathBuf>,
    pub environment: Option<Environment>,
    pub patterns: Vec<Glob>,
    pub protected: Vec<Glob>,
    /// As in [`Config::findings`], applied after them.
    pub findings: Vec<Tweak>,
    pub read_only: bool,
    pub pace: Option<PaceArg>,
    pub tls_ca: Option<PathBuf>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tls_insecure: bool,
}

/// The key of how many patterns of locks have figures of their own.
const MOST_PATTERNS: &str = "most_patterns";

const TOP: &[&str] = &[
    "default_target",
    "patterns",
    MOST_PATTERNS,
    "protected",
    "dialect",
    findings::KEY,
    "target",
    "keys",
    alerts::RULES,
    alerts::WITH_DEFAULTS,
    pager::KEY,
];
const DIALECT: &[&str] = &["name", "pattern"];
const TARGET: &[&str] = &[
    "url",
    "urls",
    "user",
    "password_file",
    "sentinel_user",
    "sentinel_password_file",
    "environment",
    "patterns",
    "protected",
    findings::KEY,
    "read_only",
    "pace",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_insecure",
];

/// The usual path of the config file; `None` without a home directory.
pub fn default_path() -> Option<PathBuf> {
    let places = etcetera::choose_base_strategy().ok()?;
    Some(places.config_dir().join("lockscope").join("config.toml"))
}

impl Config {
    /// Reads the named file, or the one at the usual path if it exists.
    pub fn load(named: Option<&Path>) -> Result<Config, Fault> {
        let Some(path) = named.map(Path::to_path_buf).or_else(default_path) else { return Ok(Config::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => Config::parse(&text, &path),
            Err(why) if why.kind() == io::ErrorKind::NotFound && named.is_none() => Ok(Config::default()),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Err(Fault::usage(format!(
                "there is no config file {}; 'lockscope config template' prints one to start from",
                path.display()
            ))),
            Err(why) => Err(Fault::usage(format!("can't read the config file {}: {why}", path.display()))),
        }
    }

    pub fn parse(text: &str, path: &Path) -> Result<Config, Fault> {
        let name = path.display().to_string();
        let top = Section::parse(text, &name, TOP)?;
        let mut config = Config {
            file: Some(path.to_path_buf()),
            default_target: top.text("default_target")?,
            patterns: top.texts_as("patterns", glob)?,
            protected: top.texts_as("protected", glob)?,
            findings: findings::read(&top)?,
            most_patterns: most_patterns(&top)?,
            pager: pager::read(&top, path.parent().unwrap_or(Path::new("")))?,
            rules: [alerts::RULES, alerts::WITH_DEFAULTS]
                .iter()
                .any(|key| top.has(key))
                .then(|| Rules::read(&top))
                .transpose()?,
            ..Config::default()
        };
        for section in top.tables_in_list("dialect", DIALECT)? {
            let (name, pattern) = (section.required("name")?, section.required("pattern")?);
            let mapping = Mapping::parse(&format!("{name}={pattern}"));
            config.mappings.push(mapping.map_err(|why| section.wrong("name", &why.to_string()))?);
        }
        if let Some(section) = top.table("keys", &keys::names())? {
            for name in section.keys() {
                let bound = section.texts_as(&name, |text| text.parse::<Press>().map(|_| text.to_string()))?;
                config.keys.insert(name, bound);
            }
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        for (name, section) in top.tables("target", TARGET)? {
            config.targets.insert(name, target(&section, folder)?);
        }
        if let Some(name) = &config.default_target
            && !config.targets.contains_key(name)
        {
            return Err(top.wrong("default_target", &config.no_target(name)));
        }
        Ok(config)
    }

    /// The target of that name.
    pub fn target(&self, name: &str) -> Result<&Target, Fault> {
        self.targets.get(name).ok_or_else(|| Fault::usage(self.no_target(name)))
    }

    fn no_target(&self, name: &str) -> String {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        match (file, self.targets.is_empty()) {
            (None, _) => format!(
                "there is no target {name:?}, since there is no config file; 'lockscope config template' prints one"
            ),
            (Some(file), true) => format!("there is no target {name:?}: {file} has no [target.{name}]"),
            (Some(file), false) => {
                let hint = nearest::hint(name, self.targets.keys().map(String::as_str));
                format!("there is no target {name:?} in {file}{hint}")
            }
        }
    }
}

fn target(section: &Section<'_>, folder: &Path) -> Result<Target, Fault> {
    let mut urls = section.texts_as("urls", url)?;
    if let Some(text) = section.text("url")? {
        if !urls.is_empty() {
            return Err(section.wrong("url", "give either 'url' or 'urls', not both"));
        }
        urls.push(url(&text).map_err(|why| section.wrong("url", &why))?);
    }
    if urls.is_empty() {
        return Err(section.incomplete("url", "redis://host:6379"));
    }
    // Paths in the config are relative to its folder, not to the working directory.
    let file = |key: &str| -> Result<Option<PathBuf>, Fault> {
        Ok(section.text(key)?.map(|path| if path.starts_with("~/") { path.into() } else { folder.join(path) }))
    };
    Ok(Target {
        urls,
        user: section.text("user")?,
        password_file: file("password_file")?,
        sentinel_user: section.text("sentinel_user")?,
        sentinel_password_file: file("sentinel_password_file")?,
        environment: section.text_as("environment", environment)?,
        patterns: section.texts_as("patterns", glob)?,
        protected: section.texts_as("protected", glob)?,
        findings: findings::read(section)?,
        read_only: section.flag("read_only")?,
        pace: section.text_as("pace", |text| text.parse())?,
        tls_ca: file("tls_ca")?,
        tls_cert: file("tls_cert")?,
        tls_key: file("tls_key")?,
        tls_insecure: section.flag("tls_insecure")?,
    })
}

fn most_patterns(top: &Section<'_>) -> Result<Option<usize>, Fault> {
    let Some(number) = top.any_number(MOST_PATTERNS)? else { return Ok(None) };
    let whole = number.fract() == 0.0 && (1.0..=Folding::MOST as f64).contains(&number);
    let wrong = || {
        let why = format!("{MOST_PATTERNS:?} has to be a whole number from 1 to {}, not {number}", Folding::MOST);
        top.wrong(MOST_PATTERNS, &why)
    };
    whole.then_some(Some(number as usize)).ok_or_else(wrong)
}

fn glob(text: &str) -> Result<Glob, String> {
    Glob::new(text).map_err(|why| why.to_string())
}

fn url(text: &str) -> Result<ServerUrl, String> {
    ServerUrl::parse(text).map_err(|why| why.to_string())
}

fn environment(text: &str) -> Result<Environment, String> {
    Environment::from_str(text, true).map_err(|_| format!("an environment is prod, staging or dev, not {text:?}"))
}

#[cfg(test)]
mod tests;
