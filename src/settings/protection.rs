//! What the config forbids at an address, no matter how the address was given.
//!
//! A target's `read_only`, `environment` and `protected` guard a server, not a name: they apply to every URL with that
//! address. If several targets have it, the strictest rules apply. A tunnel under another address can't be recognised.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::Outside;
use crate::base::glob::Glob;
use crate::base::text;
use crate::settings::cli::{Environment, Global};
use crate::settings::config::Config;
use crate::topology::url::Address;

/// Why every write is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadOnly {
    /// `--read-only`.
    Asked,
    /// By the target of this name.
    Target(String),
    /// The server itself takes no writes; why.
    Server(String),
}

/// The strictest rules that apply to an address.
#[derive(Debug)]
pub(super) struct Protection {
    pub read_only: Option<ReadOnly>,
    pub environment: Option<Environment>,
    pub protected: Vec<Glob>,
    /// The rules added by targets that were not chosen by name, in a sentence.
    pub why: Option<String>,
}

impl Protection {
    pub(super) fn of(
        cli: &Global,
        outside: &Outside<'_>,
        config: &Config,
        chosen: Option<&str>,
        addresses: &[&Address],
    ) -> Protection {
        let mut found = Protection {
            read_only: cli.read_only.then_some(ReadOnly::Asked),
            environment: cli.env,
            protected: config.protected.clone(),
            why: None,
        };
        let mut here = targets_at(config, outside, addresses);
        // The chosen target first: the user knows its rules, so they are not mentioned.
        here.sort_by_key(|name| Some(name.as_str()) != chosen);
        let strictest = here.iter().map(|name| rank(config.targets[*name].environment)).max().unwrap_or(0);
        let mut why = Vec::new();
        for name in here {
            let target = &config.targets[name];
            let mut words = Vec::new();
            if target.read_only && found.read_only.is_none() {
                found.read_only = Some(ReadOnly::Target(name.clone()));
                words.push("read-only".to_string());
            }
            if let Some(environment) = target.environment.filter(|_| rank(target.environment) == strictest)
                && strictest > rank(found.environment)
            {
                found.environment = Some(environment);
                words.push(environment.name().to_string());
            }
            let is_new = |glob: &&Glob| !found.protected.iter().any(|known| known.as_str() == glob.as_str());
            let more: Vec<Glob> = target.protected.iter().filter(is_new).cloned().collect();
            words.extend(more.iter().map(|glob| format!("protects {}", text::visible(glob.as_str().as_bytes()))));
            found.protected.extend(more);
            if Some(name.as_str()) != chosen && !words.is_empty() {
                let name = text::visible(name.as_bytes());
                why.push(format!("{}: target {name} has this address", words.join(", ")));
            }
        }
        found.why = (!why.is_empty()).then(|| why.join("; "));
        found
    }
}

/// How much care an environment needs.
fn rank(environment: Option<Environment>) -> u8 {
    match environment {
        None => 0,
        Some(Environment::Dev) => 1,
        Some(Environment::Staging) => 2,
        Some(Environment::Prod) => 3,
    }
}

/// The names of all targets with one of these addresses.
fn targets_at<'a>(config: &'a Config, outside: &Outside<'_>, addresses: &[&Address]) -> Vec<&'a String> {
    let candidates: Vec<(&String, &Address)> = config
        .targets
        .iter()
        .flat_map(|(name, target)| target.urls.iter().map(move |url| (name, &url.address)))
        .filter(|(_, theirs)| addresses.iter().any(|ours| may_be_same(ours, theirs)))
        .collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    let all: Vec<&Address> = addresses.iter().copied().chain(candidates.iter().map(|(_, address)| *address)).collect();
    let places = (outside.places)(&all);
    let (ours, theirs) = places.split_at(addresses.len());
    let same = candidates.iter().zip(theirs).filter(|(_, theirs)| ours.iter().any(|ours| !ours.is_disjoint(theirs)));
    let names: BTreeSet<&String> = same.map(|((name, _), _)| *name).collect();
    names.into_iter().collect()
}

/// Whether a lookup is needed: a different port is a different server on any host.
fn may_be_same(one: &Address, other: &Address) -> bool {
    match (one, other) {
        (Address::Tcp { port, .. }, Address::Tcp { port: other, .. }) => port == other,
        (Address::Unix(_), Address::Unix(_)) => true,
        _ => false,
    }
}

/// How long all name lookups together may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// All names of each address: two addresses that share a name are the same server.
pub fn places(addresses: &[&Address]) -> Vec<BTreeSet<String>> {
    let (answers, inbox) = mpsc::channel();
    let mut places: Vec<BTreeSet<String>> = Vec::new();
    let mut asked = 0;
    for (index, address) in addresses.iter().enumerate() {
        places.push(match address {
            Address::Unix(path) => {
                let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
                [path.display().to_string(), real.display().to_string()].into()
            }
            Address::Tcp { host, port } => {
                let (host, port) = (host.trim_end_matches('.').to_ascii_lowercase(), *port);
                if host.parse::<IpAddr>().is_err() && host != "localhost" {
                    // A thread still waiting when the time is up ends with the process.
                    let (answers, name) = (answers.clone(), host.clone());
                    asked += 1;
                    std::thread::spawn(move || {
                        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect::<Vec<_>>);
                        let _ = answers.send((index, found.unwrap_or_default()));
                    });
                }
                [place(&host, port)].into()
            }
        });
    }
    let until = Instant::now() + PATIENCE;
    for _ in 0..asked {
        let Ok((index, found)) = inbox.recv_timeout(until.saturating_duration_since(Instant::now())) else { break };
        places[index].extend(found.iter().map(|found| place(&found.ip().to_string(), found.port())));
    }
    places
}

/// One canonical name: this machine has many names for itself.
fn place(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        // A connection to an unspecified address (0.0.0.0, ::) reaches this machine too.
        Ok(address) if address.is_loopback() || address.is_unspecified() => format!("localhost:{port}"),
        Ok(address) => format!("{address}:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}
