//! The sentinels that are asked: those that the user named, and those that they name.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::{RedisError, RedisResult};
use tokio::time::Instant;

use super::super::cluster::Kin;
use super::super::{Endpoint, Node, ServerConnection, in_time, standalone};
use super::view::{self, Answer, Choice, Place, View};
use super::{Council, PATIENCE, Trouble, named};
use crate::lock::NodeId;

/// A sentinel that did not answer is left alone for this long, so that the others do not wait for it in every round.
const REST: Duration = Duration::from_secs(2);
/// More sentinels than this are not asked.
const MOST: usize = 32;

pub struct Panel {
    watchers: Vec<Watcher>,
    kin: Arc<Kin>,
    /// The ids of the servers, by their addresses.
    pub ids: HashMap<String, NodeId>,
    /// What they said last, and when they were asked.
    pub said: Option<(Choice, Instant)>,
    quorum: Option<usize>,
}

/// One sentinel.
struct Watcher {
    name: String,
    node: Node,
    conn: Option<ServerConnection>,
    /// Its own id, once it has answered.
    id: Option<String>,
    rests_until: Option<Instant>,
}

impl Panel {
    pub fn of(named: &[Endpoint], kin: Arc<Kin>) -> RedisResult<Panel> {
        let watcher = |endpoint: &Endpoint| {
            let node = standalone::node(endpoint, NodeId::default())?;
            RedisResult::Ok(Watcher { name: node.name.clone(), node, conn: None, id: None, rests_until: None })
        };
        let watchers = named.iter().map(watcher).collect::<RedisResult<_>>()?;
        Ok(Panel { watchers, kin, ids: HashMap::new(), said: None, quorum: None })
    }

    /// All that are known, by their names.
    pub fn sentinels(&self) -> Vec<(String, Node)> {
        self.watchers.iter().map(|watcher| (watcher.name.clone(), watcher.node.clone())).collect()
    }

    /// Asks all of them for the master, and those that they name for the first time.
    pub async fn ask(&mut self, service: &str) -> Result<Choice, Trouble> {
        let asked = Instant::now();
        let (mut views, mut errors, mut unknown) = (Vec::new(), Vec::new(), false);
        let mut first = 0;
        while first < self.watchers.len() {
            let round = self.watchers[first..].iter_mut().filter(|watcher| watcher.is_awake(asked));
            for (name, answer) in join_all(round.map(|watcher| watcher.ask(service))).await {
                match answer {
                    Ok(Answer::Seen(view)) => views.push(view),
                    Ok(Answer::NoService) => unknown = true,
                    Err(error) => errors.push((name, error)),
                }
            }
            first = self.watchers.len();
            self.learn(&views);
        }
        self.quorum = views.iter().find_map(|view| view.quorum).or(self.quorum);
        if views.is_empty() {
            // Nobody else can answer, so those that did not are asked again at once.
            self.watchers.iter_mut().for_each(|watcher| watcher.rests_until = None);
            let known = if unknown { self.services().await } else { Vec::new() };
            return Err(if unknown { Trouble::NoService(known) } else { Trouble::Silent(errors) });
        }
        let masters = |places: std::collections::BTreeSet<Place>| Trouble::Disagree(places.iter().map(named).collect());
        let choice = view::choose(&views).map_err(masters)?;
        self.said = Some((choice.clone(), asked));
        Ok(choice)
    }

    /// Who of them answers, each counted once whatever it is called.
    pub fn council(&self, service: &str) -> Council {
        let mut known = HashSet::new();
        let once = |watcher: &&Watcher| watcher.id.as_ref().is_none_or(|id| known.insert(id.clone()));
        let answers = |watcher: &Watcher| (watcher.name.clone(), watcher.id.is_some() && watcher.conn.is_some());
        let sentinels = self.watchers.iter().filter(once).map(answers).collect();
        Council { service: service.to_string(), sentinels, quorum: self.quorum }
    }

    /// The services that they watch.
    async fn services(&mut self) -> Vec<String> {
        for conn in self.watchers.iter_mut().filter_map(|watcher| watcher.conn.as_mut()) {
            if let Ok(names) = view::services(conn).await {
                return names;
            }
        }
        Vec::new()
    }

    /// Takes in the sentinels that others name.
    fn learn(&mut self, views: &[View]) {
        for (id, place) in views.iter().flat_map(|view| &view.others) {
            let is_known = |watcher: &Watcher| watcher.id.as_ref() == Some(id) || watcher.name == named(place);
            if self.watchers.len() >= MOST || self.watchers.iter().any(is_known) {
                continue;
            }
            let (host, port) = self.kin.hosts.reached(&place.0, place.1);
            if let Ok(node) = self.watchers[0].node.elsewhere(host, port) {
                let (name, node) = (named(place), Node { name: named(place), ..node });
                self.watchers.push(Watcher { name, node, conn: None, id: None, rests_until: None });
            }
        }
    }
}

impl Watcher {
    fn is_awake(&self, now: Instant) -> bool {
        self.rests_until.is_none_or(|until| until <= now)
    }

    async fn ask(&mut self, service: &str) -> (String, Result<Answer, RedisError>) {
        let answer = self.answer(service).await;
        match &answer {
            Ok(Answer::Seen(view)) => (self.id, self.rests_until) = (Some(view.sentinel.clone()), None),
            Ok(Answer::NoService) => self.rests_until = None,
            Err(_) => (self.conn, self.rests_until) = (None, Some(Instant::now() + REST)),
        }
        (self.name.clone(), answer)
    }

    async fn answer(&mut self, service: &str) -> RedisResult<Answer> {
        let conn = match &mut self.conn {
            Some(conn) => conn,
            none => none.insert(in_time(PATIENCE, self.node.connect()).await?),
        };
        match view::ask(conn, service).await? {
            Answer::Seen(view) if view.sentinel.is_empty() => {
                Ok(Answer::Seen(View { sentinel: self.name.clone(), ..view }))
            }
            answer => Ok(answer),
        }
    }
}
