//! lockscope on a cluster or a service, and the comparison of its table with the truth.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lockscope::base::glob::Glob;
use lockscope::dialects::Recogniser;
use lockscope::engine::{Engine, Options, Reader, Stream};
use lockscope::model::{State, Transition};
use lockscope::sources::pace::Pace;
use lockscope::topology::{HostMap, Topology};

use crate::common::desk::Desk;
use crate::common::engine::endpoint_at;
use base64::Engine as _;

use super::load::Way;
use super::place::{Fact, Truth};

/// No wait is longer.
pub const PATIENCE: Duration = Duration::from_secs(60);
const PATTERNS: [&str; 2] = ["lock:*", "mutex:*"];
const STAYING: &str = "lock:stays:";

/// The engine, and everything that it told.
pub struct Watch {
    engine: Engine,
    reader: Reader,
    story: Vec<Transition>,
    /// What had been told at the last comparison, and the truth of that time.
    compared: (usize, Truth),
}

impl Watch {
    pub async fn start(way: &Way) -> Watch {
        let at = |port: &u16| endpoint_at(&format!("redis://127.0.0.1:{port}"));
        let topology = match way {
            Way::Cluster(ports) => Topology::of_cluster(&[at(&ports[0])], HostMap::default()).await.expect("a cluster"),
            Way::Service(ports, name) => {
                let sentinels: Vec<_> = ports.iter().map(at).collect();
                let opened = Topology::of_service(name, &sentinels, &at(&1), HostMap::default()).await;
                opened.unwrap_or_else(|trouble| panic!("{trouble:?}"))
            }
        };
        let patterns = PATTERNS.map(|pattern| Glob::new(pattern).expect("a pattern")).to_vec();
        let options = Options::following(Recogniser::new(patterns, Vec::new(), Vec::new()), Pace::Fast);
        let engine = Engine::start(&topology, options).await.expect("all answer");
        let (reader, story) = (engine.reader(), Vec::new());
        let mut watch = Watch { engine, reader, story, compared: (0, Truth::new()) };
        watch.until("all nodes are live", Watch::is_live).await;
        watch
    }

    fn is_live(&self) -> bool {
        let live = |stream: &Stream| matches!(stream, Stream::Live(_));
        self.engine.nodes().all(|node| live(&node.stream) && node.scan.is_some()) && self.engine.snapshot().complete
    }

    async fn until(&mut self, what: &str, done: impl Fn(&Watch) -> bool) {
        let began = Instant::now();
        while !done(self) {
            assert!(began.elapsed() < PATIENCE, "waited in vain: {what}; {}", self.state());
            self.take_next().await;
        }
    }

    async fn take_next(&mut self) {
        self.engine.next().await;
        let (changes, missed) = self.reader.take();
        assert_eq!(missed, 0);
        self.story.extend(changes);
    }

    /// Takes everything in while something is done that blocks.
    pub async fn during<T: Send + 'static>(&mut self, doing: impl FnOnce() -> T + Send + 'static) -> T {
        let doing = tokio::task::spawn_blocking(doing);
        while !doing.is_finished() {
            self.take_next().await;
        }
        doing.await.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
    }

    /// What the table says: every lock once, at its node.
    fn table(&self) -> Truth {
        let (table, now) = (self.engine.table(), self.engine.clock.now());
        let mut facts = Truth::new();
        for lock in table.locks().filter(|lock| lock.is_held()) {
            let token = table.holders(lock, now).first().map_or(Vec::new(), |holder| holder.token.as_bytes().to_vec());
            let name = self.engine.node(lock.node).map_or("", |node| &node.name);
            let owner = name.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(0);
            let before = facts.insert(lock.key.to_string(), Fact { token, owner });
            assert!(before.is_none(), "{} is there twice", lock.key);
        }
        facts
    }

    fn state(&self) -> String {
        let nodes: Vec<_> = self.engine.nodes().map(|node| (&node.name, &node.stream)).collect();
        format!("{:?} {nodes:?}", self.engine.snapshot().incomplete)
    }

    /// Waits until the table is the truth and whole, and returns how long that took.
    pub async fn is_true(&mut self, after: &str, truth: &Truth, loses: bool) -> Duration {
        let began = Instant::now();
        while self.table() != *truth || !self.is_live() {
            if began.elapsed() > PATIENCE {
                panic!(
                    "after {after} the table is not the truth: {}; {}",
                    differences(&self.table(), truth),
                    self.state()
                );
            }
            self.take_next().await;
        }
        let took = began.elapsed();
        self.tells_no_tales(after, truth, loses);
        self.compared = (self.story.len(), truth.clone());
        took
    }

    /// Of a lock that stayed only its moves are told, one that is gone is told as lost, and no holder counts as dead.
    fn tells_no_tales(&self, after: &str, truth: &Truth, loses: bool) {
        let (from, before) = &self.compared;
        let told = |key: &str| -> Vec<&Transition> {
            self.story[*from..].iter().filter(|change| change.key.to_string() == key).collect()
        };
        for (key, fact) in before.iter().filter(|(key, _)| key.starts_with(STAYING)) {
            let told = told(key);
            let words: Vec<&str> = told.iter().map(|change| change.change.name()).collect();
            match truth.get(key) {
                Some(now) if now.token == fact.token => {
                    // A master with the data of before may take over from one that lost it all, and bring the lock back.
                    let came_back = loses && matches!(words[..], [.., "lost", "acquired" | "found"]);
                    assert!(came_back || words.iter().all(|word| *word == "moved"), "after {after}: {told:#?}");
                }
                Some(_) => {}
                None => {
                    assert!(loses, "after {after}: {key} is gone, and nothing may get lost in it");
                    let ends = words.iter().filter(|word| **word != "moved").collect::<Vec<_>>();
                    assert_eq!(ends, [&"lost"], "after {after}: {told:#?}");
                }
            }
        }
        let (table, now) = (self.engine.table(), self.engine.clock.now());
        let dead = table.locks().filter(|lock| table.state(lock, now) == State::Orphan);
        let dead: Vec<String> = dead.map(|lock| format!("{} {:?}", lock.key, table.judge(lock, now))).collect();
        assert!(dead.is_empty(), "after {after}: their holders live: {dead:?}");
    }
}

/// What `lockscope ls` lists: a look with fresh eyes.
pub fn listed(url: &str) -> Truth {
    let patterns = PATTERNS.map(|pattern| ["-p", pattern]).concat();
    let ran = Desk::with_url(url).run(&[&["ls", "--json"], &patterns[..]].concat());
    let list = ran.json();
    assert_eq!((ran.code, &list["complete"]), (0, &true.into()), "{ran:?}");
    let mut facts = Truth::new();
    for lock in list["locks"].as_array().expect("locks") {
        let holder = &lock["holders"][0];
        let token = match holder["token_base64"].as_str() {
            Some(coded) => base64::engine::general_purpose::STANDARD.decode(coded).expect("base64"),
            None => holder["token"].as_str().unwrap_or_default().into(),
        };
        let owner = lock["node"].as_str().and_then(|name| name.rsplit(':').next()?.parse().ok()).unwrap_or(0);
        let key = lock["key"].as_str().expect("a name").to_string();
        assert!(facts.insert(key, Fact { token, owner }).is_none(), "twice: {lock}");
    }
    facts
}

pub fn differences(table: &Truth, truth: &Truth) -> String {
    let mut each: BTreeMap<&String, (Option<&Fact>, Option<&Fact>)> = BTreeMap::new();
    table.iter().for_each(|(key, fact)| each.entry(key).or_default().0 = Some(fact));
    truth.iter().for_each(|(key, fact)| each.entry(key).or_default().1 = Some(fact));
    each.retain(|_, (table, truth)| table != truth);
    format!("(table, truth) {each:#?}")
}
