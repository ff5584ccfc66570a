//! The start of every command that speaks to a server: settings, nodes, and the engine on them.

use std::io::IsTerminal;

use serde_json::{Value, json};

use crate::base::fault::Fault;
use crate::base::glob;
use crate::base::glob::Glob;
use crate::base::talk;
use crate::dialects::Recogniser;
use crate::engine::{Engine, Inventory, Options, Sampling, Stream};
use crate::lock::Key;
use crate::output::{Place, TextStyle};
use crate::server::{self, Part};
use crate::settings::cli::{Global, PaceArg};
use crate::settings::config::Config;
use crate::settings::{Outside, ReadOnly, Settings, Talk};
use crate::sources::pace::Pace;
use crate::topology::Topology;

/// A connected target.
pub struct Session {
    pub settings: Settings,
    pub topology: Topology,
    /// The address without its password.
    pub shown: String,
    /// What the server shows only a part of.
    part: Option<Part>,
}

impl Session {
    pub async fn open(global: &Global) -> Result<Session, Fault> {
        let mut session = Session::with(Settings::load(global)?).await?;
        session.recognise().await;
        if let Some(part) = session.part.as_ref().filter(|part| !matches!(part, Part::Sentinel { .. })) {
            session.say(&part.sentence());
        }
        if let Some(told) = &session.settings.protected_by {
            session.say(told);
        }
        Ok(session)
    }

    /// For a server of our own: ignores the user's environment and config.
    pub async fn private(global: &Global, url: &str) -> Result<Session, Fault> {
        let ours = Global {
            urls: vec![url.to_string()],
            no_color: global.no_color,
            ascii: global.ascii,
            quiet: global.quiet,
            verbose: global.verbose,
            pace: global.pace,
            ..Global::default()
        };
        let outside = Outside {
            env: &|name| std::env::var_os(name).filter(|_| name == "NO_COLOR"),
            read: &|path| std::fs::read_to_string(path),
            places: &crate::settings::places,
            stdout_is_terminal: std::io::stdout().is_terminal(),
        };
        Session::with(Settings::resolve(&ours, &outside, &Config::default())?).await
    }

    async fn with(settings: Settings) -> Result<Session, Fault> {
        let endpoint = settings.endpoint()?;
        let shown = endpoint.shown.clone();
        let topology = Topology::open(&endpoint).await.map_err(|error| Fault::from_redis(&error, &shown))?;
        Ok(Session { settings, topology, shown, part: None })
    }

    /// Asks whether the server is a part of something larger. Whoever can't be reached, or does not say, is taken for
    /// a server on its own: the command itself finds out.
    async fn recognise(&mut self) {
        let Ok(mut conn) = self.topology.main().connect().await else { return };
        self.part = Part::ask(&mut conn).await;
        if let Some(why) = self.part.as_ref().and_then(Part::refuses_writes) {
            self.settings.read_only.get_or_insert(ReadOnly::Server(why));
        }
    }

    pub fn recogniser(&self) -> Recogniser {
        let settings = &self.settings;
        Recogniser::new(settings.patterns.clone(), settings.extra_patterns.clone(), settings.mappings.clone())
    }

    /// The engine on all locks of the target.
    pub async fn engine(&self, pace: Pace, follow: bool) -> Result<Engine, Fault> {
        self.start(Options { follow, ..Options::following(self.recogniser(), pace) }).await
    }

    /// The engine on one key. The user named it, so it is read as a lock if it can be one.
    pub async fn engine_key(&self, key: &Key, follow: bool) -> Result<Engine, Fault> {
        let only = glob::escape(key.as_bytes());
        // A key that is not UTF-8 can't be written as a pattern, so the pattern matches all; only this key is read.
        let only =
            Glob::new(&String::from_utf8(only).unwrap_or("*".into())).map_err(|bad| Fault::usage(bad.to_string()))?;
        let recogniser = Recogniser::new(vec![only], Vec::new(), self.settings.mappings.clone());
        let inventory = Inventory::Keys(vec![key.clone()]);
        let pace = self.pace(Pace::Fast);
        self.start(Options { follow, inventory, ..Options::following(recogniser, pace) }).await
    }

    async fn start(&self, options: Options) -> Result<Engine, Fault> {
        self.holds_locks()?;
        let mut engine = Engine::start(&self.topology, options).await.map_err(|error| self.fault(&error))?;
        engine.tune(self.settings.tuning.clone());
        Ok(engine)
    }

    /// Refuses a server that has no keys at all.
    pub fn holds_locks(&self) -> Result<(), Fault> {
        match &self.part {
            Some(part @ Part::Sentinel { .. }) => Err(Fault::server(format!("{}: {}", self.shown, part.sentence()))),
            _ => Ok(()),
        }
    }

    /// The pace that was asked for, or what the command thinks right.
    pub fn pace(&self, default: Pace) -> Pace {
        match self.settings.pace {
            None => default,
            Some(PaceArg::Fast) => Pace::Fast,
            Some(PaceArg::Polite) => Pace::POLITE,
            Some(PaceArg::Percent(percent)) => Pace::Share(f64::from(percent) / 100.0),
        }
    }

    pub fn fault(&self, error: &redis::RedisError) -> Fault {
        Fault::from_redis(error, &self.shown)
    }

    /// Exit code 0, or a fault if the server is lost by now.
    pub fn still_there(&self, engine: &Engine) -> Result<u8, Fault> {
        let lost = engine.nodes().find_map(|node| match &node.stream {
            Stream::Reconnecting { why, .. } => Some(why),
            _ => None,
        });
        match lost {
            Some(why) => Err(Fault::server(format!("lost the server {}: {why}", self.shown))),
            None => Ok(0),
        }
    }

    pub fn style(&self) -> TextStyle {
        TextStyle::of_stdout(self.settings.color, self.settings.ascii)
    }

    pub fn place(&self) -> Place {
        let nodes = self.topology.nodes().iter().map(|node| (node.id, node.name.clone())).collect();
        Place { nodes, db: self.settings.db }
    }

    /// Says something on stderr, unless asked to be quiet.
    pub fn say(&self, text: &str) {
        if self.settings.talk > Talk::Quiet {
            talk::say(text);
        }
    }

    /// Says why locks may be missing, unless that was said at the start.
    pub fn say_incomplete(&self, why: &str) {
        if self.part.as_ref().is_none_or(|part| part.sentence() != why) {
            self.say(&format!("the list is incomplete: {why}"));
        }
    }

    /// The `server` object of the JSON documents.
    pub fn describe(&self, engine: &Engine) -> Value {
        let nodes: Vec<Value> = engine.nodes().map(node_json).collect();
        json!({
            "url": self.shown,
            "target": self.settings.target,
            "environment": self.settings.environment.map(|environment| environment.name()),
            "nodes": nodes,
        })
    }
}

fn node_json(node: &crate::engine::NodeStatus) -> Value {
    let facts = &node.facts;
    let product = facts.product.known();
    json!({
        "name": node.name,
        "db": node.db,
        "flavor": product.map(|product| product.flavor.name()),
        "version": product.map(|product| product.version.to_string()),
        "mode": facts.mode.known().copied().map(server::Mode::name),
        "role": facts.role.known().map(server::Role::name),
        "keys": facts.keys.known(),
        "stream": node.stream.name(),
        "note": node.note,
        "events": node.events,
        "events_lost": node.lost,
        "reconnects": node.reconnects,
        "scan": node.scan.as_ref().map(|scan| json!({
            "at": scan.finished.rfc3339(),
            "ms": scan.finished.since(scan.started).as_millis() as u64,
            "walked": scan.walked,
            "matched": scan.matched,
            "unread": scan.unread,
            "incomplete": node.shortfall(),
            "calls": scan.calls,
            "count": scan.count,
        })),
        "sampling": node.sampling.as_ref().map(sampling_json),
    })
}

fn sampling_json(sampling: &Sampling) -> Value {
    match sampling {
        Sampling::Starting => json!({ "state": "starting" }),
        Sampling::Refused(why) => json!({ "state": "refused", "why": why }),
        Sampling::Failed(why) => json!({ "state": "failed", "why": why }),
        Sampling::On(sampled) => json!({
            "state": "on",
            "why": sampled.cut.map(|cut| cut.why()),
            "at": sampled.at.rfc3339(),
            "commands": sampled.lines,
            "looked_ms": sampled.looked.as_millis() as u64,
            "coverage": (sampled.coverage * 1000.0).round() / 1000.0,
            "judged": sampled.judged,
        }),
    }
}
