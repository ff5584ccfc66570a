//! The `[pager]` of a config: who is told of alerts. Without it nobody is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::alerts::Severity;
use crate::base::fault::Fault;
use crate::base::section::Section;
use crate::base::time::duration;
use crate::http::{Base, Files};

pub(super) const KEY: &str = "pager";
const KEYS: &[&str] = &[
    "alertmanager",
    "command",
    "severities",
    "timeout",
    "resend",
    "user",
    "password_file",
    "bearer_file",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_insecure",
];
/// How long a receiver may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// After what time an Alertmanager hears again that an alert fires, as from Prometheus.
const RESEND: Duration = Duration::from_secs(60);

/// Who is told of alerts.
#[derive(Clone, Debug)]
pub struct PagerConfig {
    pub alertmanagers: Vec<Base>,
    /// How the Alertmanagers are asked.
    pub files: Files,
    /// A program and its arguments.
    pub command: Vec<String>,
    /// Only alerts of these; empty: all.
    pub severities: Vec<Severity>,
    pub timeout: Duration,
    pub resend: Duration,
}

impl Default for PagerConfig {
    fn default() -> PagerConfig {
        PagerConfig {
            alertmanagers: Vec::new(),
            files: Files::default(),
            command: Vec::new(),
            severities: Vec::new(),
            timeout: TIMEOUT,
            resend: RESEND,
        }
    }
}

impl PagerConfig {
    /// Whether nobody is told.
    pub fn is_off(&self) -> bool {
        self.alertmanagers.is_empty() && self.command.is_empty()
    }
}

/// The table `pager` of the config. Paths in it are relative to the config's folder.
pub(super) fn read(top: &Section<'_>, folder: &Path) -> Result<PagerConfig, Fault> {
    let Some(section) = top.table(KEY, KEYS)? else { return Ok(PagerConfig::default()) };
    let file = |key: &str| -> Result<Option<PathBuf>, Fault> { Ok(section.text(key)?.map(|path| folder.join(path))) };
    let config = PagerConfig {
        alertmanagers: section
            .texts_as("alertmanager", |text| Base::read(text, "alertmanager").map_err(|fault| fault.to_string()))?,
        files: Files {
            user: section.text("user")?,
            password_file: file("password_file")?,
            bearer_file: file("bearer_file")?,
            headers: Vec::new(),
            ca: file("tls_ca")?,
            cert: file("tls_cert")?,
            key: file("tls_key")?,
            insecure: section.flag("tls_insecure")?,
        },
        command: section.texts_as("command", |text| Ok(text.to_string()))?,
        severities: section.texts_as("severities", |text| {
            Severity::named(text).ok_or_else(|| format!("a severity is page, ticket or info, not {text:?}"))
        })?,
        timeout: section.text_as("timeout", duration)?.unwrap_or(TIMEOUT),
        resend: section.text_as("resend", duration)?.unwrap_or(RESEND),
    };
    if config.timeout < Duration::from_millis(100) {
        return Err(section.wrong("timeout", "a receiver needs at least 100ms; write timeout = \"10s\""));
    }
    if config.resend < Duration::from_secs(1) {
        return Err(section.wrong("resend", "an alert is sent again after 1s at the earliest; write resend = \"1m\""));
    }
    if config.command.first().is_some_and(|program| program.is_empty()) {
        return Err(section.wrong("command", "the command has no program; write command = [\"/usr/local/bin/page\"]"));
    }
    if config.is_off() {
        return Err(section
            .wrong("timeout", "[pager] names nobody; add alertmanager = [\"http://127.0.0.1:9093\"] or a command"));
    }
    Ok(config)
}
