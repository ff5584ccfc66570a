//! What a headless demo saw: the locks by state and library, and each planted situation with its verdicts: which were
//! right, which are missing, and which are false.

mod sighting;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use super::acts::Act;
use super::fleet::{SITUATIONS, Situation, Tally};
use super::stage::Shape;
use crate::engine::{Engine, Reader};
use crate::lock::{Key, NodeId};
use crate::model::{Blocking, Change, LockView, ServerNews, Snapshot, State, What};
use crate::server::Product;
use sighting::telling;

pub use sighting::{Said, Sighting};

/// Search at most this many wanted locks for deadlocks.
const WANTED: usize = 200;

/// Remember at most this many locks that have moved.
const MOVED: usize = 10_000;

/// While another server takes over, clients wait, and hold what they have for longer than usual: what is said of that is true.
const DELAYED: [&str; 3] = ["long", "expiring", "lease-too-short"];

/// The whole summary.
pub struct Summary {
    pub seed: u64,
    pub watched: Duration,
    pub workers: usize,
    /// The workers' own counts.
    pub tally: BTreeMap<String, Tally>,
    pub sightings: Vec<Sighting>,
    /// The locks at the end.
    pub locks: Vec<LockView>,
    pub server: String,
    /// How we learnt of changes.
    pub source: &'static str,
    pub events: u64,
    pub lost_events: Option<u64>,
    /// The last errors that the workers got.
    pub failures: Vec<String>,
    /// What was done to the topology, and when.
    pub acts: Vec<(Duration, Act)>,
    /// The locks that were told to have moved, and from where to where slots were.
    moved: BTreeSet<Key>,
    reshards: BTreeSet<(String, String)>,
    /// The failovers that were told: from where to where.
    failovers: BTreeSet<(String, String)>,
    /// The first entry of the timeline that was not read yet.
    unread: u64,
    /// The events of each node, and how many of them were lost, when it was last asked: nodes leave, and count again when
    /// they are back.
    counted: BTreeMap<NodeId, (u64, Option<u64>)>,
}

impl Summary {
    pub fn new(seed: u64, shape: Shape) -> Summary {
        let planted = |situation: &&Situation| situation.in_clusters || shape != Shape::Cluster;
        Summary {
            seed,
            watched: Duration::ZERO,
            workers: 0,
            tally: BTreeMap::new(),
            sightings: SITUATIONS.iter().filter(planted).map(Sighting::new).collect(),
            locks: Vec::new(),
            server: String::new(),
            source: "off",
            events: 0,
            lost_events: Some(0),
            failures: Vec::new(),
            acts: Vec::new(),
            moved: BTreeSet::new(),
            reshards: BTreeSet::new(),
            failovers: BTreeSet::new(),
            unread: 0,
            counted: BTreeMap::new(),
        }
    }

    /// Takes in the engine's current state, and what happened since the last call.
    pub fn look(&mut self, engine: &Engine, reader: &mut Reader) {
        self.count_events(engine);
        let timeline = engine.table().timeline();
        for (_, entry) in timeline.from(self.unread) {
            match &entry.what {
                What::Failover { from, to, .. } => self.failovers.insert((from.clone(), to.clone())),
                What::Server(ServerNews::SlotsMoved { from, to, .. }) => {
                    self.reshards.insert((from.clone(), to.clone()))
                }
                _ => false,
            };
        }
        self.unread = timeline.end();
        for transition in reader.take().0 {
            if transition.change == Change::Moved && self.moved.len() < MOVED {
                self.moved.insert(transition.key.clone());
            }
            if let Some(sighting) = self.sighting_of(&transition.key) {
                sighting.changes.count(transition.change);
            }
        }
        let snapshot = engine.snapshot();
        self.see(&snapshot);
        let deadlocked = deadlocked(engine);
        for sighting in &mut self.sightings {
            sighting.hear(&snapshot.locks, &deadlocked);
        }
    }

    pub(super) fn finish(&mut self, engine: &Engine, reader: &mut Reader, watched: Duration) {
        self.look(engine, reader);
        self.watched = watched;
        self.locks = engine.snapshot().locks.into_iter().filter(|lock| !lock.verdict.state.is_free()).collect();
        let names: Vec<&str> = engine.nodes().map(|node| node.name.as_str()).collect();
        for node in engine.nodes() {
            let product = node.facts.product.known().map(Product::to_string).unwrap_or_else(|| "a server".into());
            self.server = match names.len() {
                1 => format!("{product} at {}", names[0]),
                count => format!("{product}, {count} masters at {}", names.join(", ")),
            };
            self.source = node.stream.name();
        }
    }

    fn count_events(&mut self, engine: &Engine) {
        for node in engine.nodes() {
            let (events, lost) = self.counted.insert(node.id, (node.events, node.lost)).unwrap_or((0, Some(0)));
            let restarted = node.events < events;
            let since = |now: u64, before: u64| if restarted { now } else { now.saturating_sub(before) };
            self.events += since(node.events, events);
            let lost = node.lost.zip(lost).map(|(now, before)| since(now, before));
            self.lost_events = self.lost_events.zip(lost).map(|(all, lost)| all + lost);
        }
    }

    fn sighting_of(&mut self, key: &Key) -> Option<&mut Sighting> {
        self.sightings.iter_mut().find(|sighting| sighting.glob.matches(key.as_bytes()))
    }

    fn see(&mut self, snapshot: &Snapshot) {
        for sighting in &mut self.sightings {
            let held = |lock: &&LockView| !lock.verdict.state.is_free() && sighting.glob.matches(lock.key.as_bytes());
            let locks: Vec<&LockView> = snapshot.locks.iter().filter(held).collect();
            if let Some(best) = locks.iter().max_by_key(|lock| telling(lock)) {
                sighting.lock = Some((*best).clone());
                sighting.keys = locks.len();
            }
        }
    }

    /// The situations without any lock found.
    pub fn missing(&self) -> Vec<&'static str> {
        let unseen = self.sightings.iter().filter(|sighting| sighting.lock.is_none());
        unseen.map(|sighting| sighting.situation.name).collect()
    }

    /// The situations with missing verdicts, and which.
    pub fn unsaid(&self) -> Vec<String> {
        let unsaid = |sighting: &Sighting| {
            let words = sighting.unsaid();
            (!words.is_empty()).then(|| format!("{}: {}", sighting.situation.name, words.join(", ")))
        };
        self.sightings.iter().filter_map(unsaid).collect()
    }

    /// The false verdicts, by situation.
    pub fn invented(&self) -> Vec<String> {
        let of = |sighting: &Sighting| {
            let name = sighting.situation.name;
            let said = |(word, said): (&str, &Said)| format!("{name}: {word} ({})", said.sentence);
            let is_late = |word: &str| !self.acts.is_empty() && DELAYED.contains(&word);
            sighting.invented().filter(|(word, _)| !is_late(word)).map(said).collect::<Vec<_>>()
        };
        self.sightings.iter().flat_map(of).collect()
    }

    /// What was done to the topology and not told, or could not be done.
    pub fn untold(&self) -> Vec<&Act> {
        let among = |told: &BTreeSet<(String, String)>, from: &str, to: &str| told.contains(&(from.into(), to.into()));
        let is_told = |act: &Act| match act {
            Act::Moved { key, from, to, .. } => self.moved.contains(key) && among(&self.reshards, from, to),
            Act::FailedOver { from, to } => among(&self.failovers, from, to),
            Act::Failed { .. } => false,
        };
        self.acts.iter().map(|(_, act)| act).filter(|act| !is_told(act)).collect()
    }

    /// 0 if every situation was found and every change of the topology told, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.missing().is_empty() || !self.untold().is_empty())
    }

    /// Writes it for people.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let seconds = self.watched.as_secs_f64();
        writeln!(out, "{}, seed {}, {} workers", self.server, self.seed, self.workers)?;
        let rate = self.events as f64 / seconds.max(0.001);
        write!(out, "watched for {seconds:.1}s by {}: {} events, {rate:.0} per second", self.source, self.events)?;
        match self.lost_events {
            Some(0) => writeln!(out)?,
            Some(lost) => writeln!(out, ", {lost} lost")?,
            None => writeln!(out, ", some lost")?,
        }
        let of = |state: State| self.locks.iter().filter(|lock| lock.verdict.state == state).count();
        let states = State::ALL.iter().filter(|state| of(**state) > 0);
        let states: Vec<String> = states.map(|state| format!("{} {}", of(*state), state.label())).collect();
        writeln!(out, "\nLocks at the end: {}", states.join(", "))?;
        let mut libraries: BTreeMap<&str, usize> = BTreeMap::new();
        for lock in &self.locks {
            *libraries.entry(lock.dialect).or_default() += 1;
        }
        for (library, count) in libraries {
            writeln!(out, "  {count:>4}  {library}")?;
        }
        self.write_acts(out)?;
        writeln!(out, "\nSituations")?;
        self.sightings.iter().try_for_each(|sighting| sighting.write(out))?;
        let missing = self.missing();
        match missing.len() {
            0 => writeln!(out, "\nAll {} situations were found.", self.sightings.len())?,
            _ => writeln!(out, "\nNot found: {}.", missing.join(", "))?,
        }
        match self.unsaid().as_slice() {
            [] => writeln!(out, "Each got its right verdicts.")?,
            unsaid => writeln!(out, "Not said so far: {}.", unsaid.join("; "))?,
        }
        match self.invented().as_slice() {
            [] => writeln!(out, "Nothing was invented."),
            invented => writeln!(out, "Invented: {}.", invented.join("; ")),
        }
    }

    fn write_acts(&self, out: &mut impl Write) -> io::Result<()> {
        if self.acts.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nTopology")?;
        for (at, act) in &self.acts {
            writeln!(out, "  after {:.1}s: {act}", at.as_secs_f64())?;
        }
        let (moved, lost) = self
            .sightings
            .iter()
            .fold((0, 0), |(moved, lost), sighting| (moved + sighting.changes.moved, lost + sighting.changes.lost));
        writeln!(out, "  locks that went on at another node: {moved}; lost or released unseen: {lost}")?;
        match self.untold().as_slice() {
            [] => writeln!(out, "  All of it was told."),
            untold => {
                let untold: Vec<String> = untold.iter().map(ToString::to_string).collect();
                writeln!(out, "  Not told: {}.", untold.join("; "))
            }
        }
    }
}

/// The locks whose holders wait for each other, each with a sentence.
fn deadlocked(engine: &Engine) -> BTreeMap<Key, String> {
    let (table, now) = (engine.table(), engine.clock.now());
    let wanted = table.in_demand(WANTED, now);
    let locks: Vec<LockView> = wanted.into_iter().filter_map(|place| table.view(table.lock_at(place)?, now)).collect();
    let rings = Blocking::of(&locks, now).deadlocks;
    let words = |ring: &Vec<usize>| {
        let keys: Vec<Key> = ring.iter().filter_map(|index| Some(locks.get(*index)?.key.clone())).collect();
        let names: Vec<String> = keys.iter().map(Key::to_string).collect();
        keys.into_iter().map(move |key| (key, format!("holders wait for each other: {}", names.join(", "))))
    };
    rings.iter().flat_map(words).collect()
}
