//! The start of every command that speaks to a server: settings, nodes, and the engine on them.

use std::io::IsTerminal;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::alerts::Rules;
use crate::base::fault::{Exit, Fault};
use crate::base::glob;
use crate::base::glob::Glob;
use crate::base::talk;
use crate::base::text::{said, visible};
use crate::dialects::Recogniser;
use crate::engine::{Engine, Inventory, NodeStatus, Options, Stream};
use crate::lock::Key;
use crate::output::{Place, TextStyle, node_json};
use crate::server::{Part, Watched};
use crate::settings::cli::{Global, PaceArg};
use crate::settings::config::Config;
use crate::settings::{Login, Outside, ReadOnly, Settings, Talk};
use crate::sources::pace::Pace;
use crate::topology::{Endpoint, Node, Topology, is_silence};

/// Nodes that are named in a sentence.
const NAMED: usize = 3;

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
        let session = Session::at(Settings::load(global)?).await?;
        if let Some(part) = session.part.as_ref().filter(|part| !matches!(part, Part::Sentinel { .. })) {
            session.say(&part.sentence());
        }
        if let Some(why) = &session.settings.protected_by {
            session.say(why);
        }
        Ok(session)
    }

    /// The target of these settings.
    pub async fn at(settings: Settings) -> Result<Session, Fault> {
        let mut session = Session::with(settings).await?;
        session.recognise().await?;
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
        if let Some(service) = settings.servers.iter().find_map(|server| server.service.clone()) {
            let sentinels = settings.sentinels(&Login::Default)?;
            let topology = of_service(&settings, &service, &sentinels, &shown).await?;
            return Ok(Session { settings, topology, shown, part: None });
        }
        let topology = match settings.servers.iter().any(|server| server.cluster) {
            true => Topology::of_cluster(&settings.endpoints()?, settings.hosts.clone()).await,
            false => Topology::open(&endpoint).await,
        };
        let topology = topology.map_err(|error| match error.detail() {
            Some(said) if said.contains("cluster support disabled") => Fault::usage(format!(
                "{shown} is no cluster: the server there is on its own; write redis:// instead of redis+cluster://"
            )),
            _ => Fault::from_redis(&error, &shown),
        })?;
        Ok(Session { settings, topology, shown, part: None })
    }

    /// Asks whether the server is a part of something larger. A server that can't be reached, or does not say, is taken for
    /// a server on its own: the command itself finds out.
    async fn recognise(&mut self) -> Result<(), Fault> {
        if self.topology.shared().is_none() {
            for node in self.topology.nodes() {
                let Ok(node) = node.without_database() else { continue };
                let Ok(mut conn) = node.connect().await else { continue };
                self.part = Part::ask(&mut conn).await;
                if self.part.is_some() {
                    break;
                }
            }
            match &self.part {
                _ if self.settings.single_node => {}
                Some(part) if part.is_of_cluster() => self.widen().await?,
                Some(Part::Sentinel { services }) => self.serve(services.clone()).await?,
                _ => {}
            }
        }
        if let Some(why) = self.part.as_ref().and_then(Part::refuses_writes) {
            self.settings.read_only.get_or_insert(ReadOnly::Server(why));
        }
        Ok(())
    }

    /// The server is a sentinel: reads the service that it watches.
    async fn serve(&mut self, services: Vec<Watched>) -> Result<(), Fault> {
        let shown = self.shown.clone();
        let name = match &services[..] {
            // It does not let us ask; the command itself says that there are no locks here.
            [] => return Ok(()),
            [one] => String::from_utf8_lossy(one.name.as_bytes()).into_owned(),
            several => {
                let names: Vec<String> = several.iter().map(|service| service.name.visible()).collect();
                let (names, first) = (names.join(", "), &names[0]);
                let place = shown.split_once("://").map_or(shown.as_str(), |(_, place)| place);
                return Err(Fault::usage(format!(
                    "{shown} is a sentinel that watches several services: {names}; name one of them, as in \
                     redis+sentinel://{place}/{first}"
                )));
            }
        };
        // The login that let us in here.
        let sentinels = self.settings.sentinels(&self.settings.login)?;
        self.topology = of_service(&self.settings, &name, &sentinels, &shown).await?;
        self.part = None;
        let read: Vec<String> = self.topology.nodes().iter().map(|node| visible(node.name.as_bytes())).collect();
        let master = read.join(", ");
        self.say(&format!(
            "{shown} is a sentinel: the locks of its service {} are read at the master {master}",
            visible(name.as_bytes())
        ));
        Ok(())
    }

    /// The server is a node of a cluster: reads all of it. A server that does not name the others is read alone.
    async fn widen(&mut self) -> Result<(), Fault> {
        if self.settings.db != 0 {
            return Err(Fault::usage(format!(
                "{} is a node of a cluster, which has only database 0; leave the database out",
                self.shown
            )));
        }
        match Topology::of_cluster(&self.settings.endpoints()?, self.settings.hosts.clone()).await {
            Ok(topology) => {
                let masters = match topology.nodes().len() {
                    1 => "1 master is".to_string(),
                    several => format!("{several} masters are"),
                };
                (self.topology, self.part) = (topology, None);
                let shown = &self.shown;
                self.say(&format!("{shown} is a node of a cluster: {masters} read (--single-node: only this node)"));
            }
            Err(error) => self.say(&format!(
                "the other nodes of the cluster can't be asked for, so only this one is read: {}",
                self.fault(&error)
            )),
        }
        Ok(())
    }

    pub fn recogniser(&self) -> Recogniser {
        let settings = &self.settings;
        Recogniser::new(settings.patterns.clone(), settings.extra_patterns.clone(), settings.mappings.clone())
    }

    /// The engine on all locks of the target.
    pub async fn engine(&self, pace: Pace, follow: bool) -> Result<Engine, Fault> {
        self.start(Options { follow, ..Options::following(self.recogniser(), pace) }).await
    }

    /// The same for a reader of these rules: the patterns that they name have series of their own first.
    pub async fn engine_for(&self, rules: &Rules, pace: Pace) -> Result<Engine, Fault> {
        let mut engine = self.engine(pace, true).await?;
        engine.fold(self.settings.folding(rules));
        Ok(engine)
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
        let options = Options { scan_on_replica: self.settings.scan_on_replica, ..options };
        if options.scan_on_replica && self.topology.shared().is_none() {
            return Err(Fault::usage(format!(
                "--scan-on replica needs a cluster or a Sentinel service, and {} is read on its own; leave it out",
                self.shown
            )));
        }
        let mut engine = Engine::start(&self.topology, options).await.map_err(|error| self.unstarted(&error))?;
        engine.tune(self.settings.tuning.clone());
        engine.fold(self.settings.folding(&self.settings.rules));
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
        self.blamed(error, &self.shown)
    }

    /// Where slots of a cluster are not served, that is why.
    fn blamed(&self, error: &redis::RedisError, shown: &str) -> Fault {
        let fault = Fault::from_redis(error, shown);
        let cluster = self.topology.cluster().filter(|_| fault.exit == Exit::Server);
        let Some(why) = cluster.and_then(|cluster| cluster.map().unserved()) else { return fault };
        match error.code() {
            Some("CLUSTERDOWN") => Fault::server(format!(
                "the cluster of {} is down, and answers for no key: {why}; 'lockscope doctor' says what helps",
                self.shown
            )),
            Some(_) => fault,
            None => Fault::server(format!("{fault}; {why}")),
        }
    }

    /// None of the nodes could be read. Somebody has named those of a cluster to us.
    fn unstarted(&self, error: &redis::RedisError) -> Fault {
        if self.topology.cluster().is_none() || !is_silence(error) {
            return self.fault(error);
        }
        let names: Vec<String> =
            self.topology.nodes().iter().take(NAMED).map(|node| visible(node.name.as_bytes())).collect();
        Fault::server(format!(
            "the cluster of {} names its nodes by addresses that can't be reached from here, such as {} ({}); say with \
             --map-host A=B where they are",
            self.shown,
            names.join(", "),
            said(error)
        ))
    }

    /// The same of a node, by its own name in a cluster.
    pub fn fault_at(&self, node: &Node, error: &redis::RedisError) -> Fault {
        self.blamed(error, if node.is_in_cluster() { &node.name } else { &self.shown })
    }

    /// Exit code 0, or a fault if the server is lost by now. Of a cluster, all nodes: what is lost of it is told as missing.
    pub fn still_there(&self, engine: &Engine) -> Result<u8, Fault> {
        let lost = |node: &NodeStatus| match &node.stream {
            Stream::Reconnecting { why, .. } => Some(why.clone()),
            Stream::Silent { since, .. } => Some(format!("it does not answer since {}", since.rfc3339())),
            Stream::Refusing { .. } => node.refusal(),
            _ => None,
        };
        let all = engine.nodes().all(|node| lost(node).is_some());
        match engine.nodes().filter(|_| all).find_map(lost) {
            Some(why) => Err(Fault::server(format!("lost the server {}: {why}", self.shown))),
            None => Ok(0),
        }
    }

    /// The value of the label `target`: the target's name, else its address without the password.
    pub fn target_label(&self) -> Arc<str> {
        self.settings.target_label().unwrap_or_else(|_| self.shown.clone()).into()
    }

    pub fn style(&self) -> TextStyle {
        TextStyle::of_stdout(self.settings.color, self.settings.ascii)
    }

    pub fn place(&self) -> Place {
        Place { nodes: self.topology.names(), db: self.settings.db }
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

async fn of_service(
    settings: &Settings,
    service: &str,
    sentinels: &[Endpoint],
    shown: &str,
) -> Result<Topology, Fault> {
    let opened = Topology::of_service(service, sentinels, &settings.endpoint()?, settings.hosts.clone()).await;
    opened.map_err(|trouble| trouble.fault(shown, service))
}
