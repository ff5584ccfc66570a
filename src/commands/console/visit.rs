//! One target in the console, from its first frame until it is left for another one or for good.
//!
//! Everything of a target (app, engine, operator) is in one value that ends with it, so that nothing of it can be seen or
//! done at the next one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::app::theme::Theme;
use crate::app::{App, RuleFile, Title, Writing};
use crate::base::fault::Fault;
use crate::base::shell::quoted;
use crate::base::text::{counted, visible};
use crate::commands::session::Session;
use crate::console::chronicle;
use crate::console::operator::Operator;
use crate::console::run::MEASURED;
use crate::console::switch::{Arrival, Opening, Switch};
use crate::engine::Engine;
use crate::settings::cli::Global;
use crate::settings::keys::Keys;
use crate::settings::{Offered, Settings, Talk};
use crate::sources::pace::Pace;

/// How the console was started, for going elsewhere and back.
#[derive(Clone, Debug)]
pub struct Start {
    pub global: Global,
    /// The rules of `--rules`, which hold everywhere.
    pub rules: Option<PathBuf>,
    /// The store of `--store`, which is of the target that the console was started with.
    pub store: Option<PathBuf>,
    /// That target, as it is offered.
    target: Offered,
}

impl Start {
    pub fn new(global: Global, rules: Option<PathBuf>, store: Option<PathBuf>, session: &Session) -> Start {
        let settings = &session.settings;
        let name = settings.target.clone().unwrap_or_else(|| session.shown.clone());
        let target = Offered { name, environment: settings.environment, read_only: settings.read_only.is_some() };
        Start { global, rules, store, target }
    }

    /// The targets of the config, and the server of the start if it is not one of them.
    fn offered(&self, settings: &Settings) -> Vec<Offered> {
        let named = settings.targets.iter().any(|target| target.name == self.target.name);
        let own = (!named && !settings.targets.is_empty()).then(|| self.target.clone());
        own.into_iter().chain(settings.targets.iter().cloned()).collect()
    }

    async fn open(self: Arc<Start>, name: String) -> Result<Arrival, Fault> {
        let here = self.clone();
        // Names are looked up and files are read.
        let load = move || Settings::elsewhere(&here.global, &here.target.name, &name);
        let settings = tokio::task::spawn_blocking(load).await.map_err(|why| Fault::server(why.to_string()))??;
        // What would be said is in the header, and stderr is the console's screen.
        let session = Session::at(Settings { talk: Talk::Quiet, ..settings }).await?;
        arrive(session, self.rules.as_deref()).await
    }

    fn switch(self: &Arc<Start>) -> Switch {
        let start = self.clone();
        Switch::by(move |name| -> Opening { Box::pin(start.clone().open(name)) })
    }
}

/// Begins to watch a target.
pub async fn arrive(session: Session, rules: Option<&Path>) -> Result<Arrival, Fault> {
    let rules = session.settings.rules_of(rules)?;
    rules.check_windows(MEASURED)?;
    let engine = session.engine_for(&rules, session.pace(Pace::POLITE)).await?;
    let Session { settings, topology, shown, .. } = session;
    Ok(Arrival { settings, topology, shown, engine, rules })
}

pub struct Visit {
    pub app: App,
    pub engine: Engine,
    pub operator: Operator,
}

/// What became of a target that was left.
pub struct Left {
    pub app: App,
    /// How many test locks were given back.
    pub given_back: u64,
    /// What could not be ended as it should be.
    pub told: Vec<String>,
    /// Not every confirmed write was done.
    pub unfinished: bool,
    pub recorded: Result<(), Fault>,
}

impl Visit {
    /// The target's protections hold before anything of it is drawn.
    pub fn new(arrival: Arrival, start: Option<&Arc<Start>>) -> Result<Visit, Fault> {
        let Arrival { settings, topology, shown, engine, rules } = arrival;
        let target = settings.target.clone().unwrap_or_else(|| shown.clone());
        let again = match settings.again.as_str() {
            // The command may be run in another environment.
            "" => format!(" -u {}", quoted(&shown)),
            again => again.into(),
        };
        let targets = start.map(|start| start.offered(&settings)).unwrap_or_default();
        let (environment, protected_by) = (settings.environment, settings.protected_by.clone());
        let title = Title { target, environment, protected_by, targets, again };
        let theme = Theme { color: settings.color, ascii: settings.ascii };
        let mut operator = Operator::new(&settings, &topology, engine.observer(), &shown, None);
        let own = start.filter(|start| start.target.name == title.target);
        if let Some(store) = own.and_then(|start| start.store.as_ref()) {
            operator.chronicle.read(chronicle::open(store, &visible(title.target.as_bytes()))?)?;
        }
        operator.switch = start.map(Start::switch).unwrap_or_default();
        let mut app = App::new(title, Keys::bound(&settings.keys)?, theme);
        app.watch_rules(rules);
        app.alerting.file = start
            .and_then(|start| start.rules.clone())
            .or_else(|| settings.config_file.clone().filter(|_| start.is_some()))
            .map(|path| RuleFile { path });
        app.writing =
            Writing::new(settings.gate().closed().map(ToString::to_string), settings.write, engine.clock.now());
        Ok(Visit { app, engine, operator })
    }

    /// Comes from another target.
    pub fn follow(&mut self, left: &Left) {
        let mut told = vec![format!("now at {}", visible(self.app.title.target.as_bytes()))];
        if left.app.writes() {
            told.push("writing is off".into());
        }
        if left.given_back > 0 {
            told.push(format!("gave back {}", counted(left.given_back, "test lock")));
        }
        told.extend(left.told.iter().cloned());
        told.extend(left.recorded.as_ref().err().map(Fault::to_string));
        self.app.come_from(&left.app, told.join("; "), self.engine.clock.now());
    }

    /// Ends everything here: finishes the write under way, gives the test locks back, closes what is recorded.
    pub async fn leave(mut self) -> Left {
        let mut told = Vec::new();
        let unfinished = self.operator.finish().await;
        told.extend(unfinished.as_ref().map(|tally| format!("left while writing: {tally}")));
        let held = self.operator.lab.held();
        let behind = self.operator.close().await;
        let given_back = held.saturating_sub(behind.len()) as u64;
        told.extend(behind);
        let recorded = self.operator.chronicle.finish().await;
        Left { app: self.app, given_back, told, unfinished: unfinished.is_some(), recorded }
    }
}
