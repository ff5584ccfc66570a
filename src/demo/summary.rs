//! What a headless demo saw: the locks by state and library, and each planted situation with its verdicts: which were
//! right, which are missing, and which are false.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::Duration;

use super::fleet::{DEADLOCK, SITUATIONS, Situation, Tally};
use crate::base::glob::Glob;
use crate::base::text;
use crate::engine::{Engine, Reader};
use crate::lock::Key;
use crate::model::{Blocking, Change, Ending, HeldIs, LockView, Snapshot, State};
use crate::server::Product;

/// One situation as it was seen.
#[derive(Clone, Debug)]
pub struct Sighting {
    pub situation: &'static Situation,
    /// The lock that shows it best, from the last snapshot that had one.
    pub lock: Option<LockView>,
    /// How many locks it had in that snapshot.
    pub keys: usize,
    pub changes: Changes,
    /// The verdicts on its locks, by state word or finding name.
    pub verdicts: BTreeMap<&'static str, Said>,
    /// The verdicts of the last snapshot, with their locks: a verdict that continues counts once.
    lately: BTreeSet<(&'static str, Key)>,
    glob: Glob,
}

/// One verdict on the locks of a situation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    pub times: u32,
    /// The first one, with the lock's name.
    pub sentence: String,
}

/// Search at most this many wanted locks for deadlocks.
const WANTED: usize = 200;

/// Counts of what happened to the locks of a situation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    pub acquired: u64,
    pub renewed: u64,
    pub released: u64,
    pub expired: u64,
    pub taken: u64,
}

impl Changes {
    fn count(&mut self, change: Change) {
        match change {
            Change::Acquired => self.acquired += 1,
            Change::Renewed => self.renewed += 1,
            Change::Taken => self.taken += 1,
            Change::Ended(Ending::Released) => self.released += 1,
            Change::Ended(Ending::Expired) => self.expired += 1,
            Change::Found | Change::PutBack | Change::Moved | Change::Ended(_) => {}
        }
    }
}

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
}

impl Summary {
    pub fn new(seed: u64) -> Summary {
        let sighting = |situation: &'static Situation| Sighting {
            situation,
            lock: None,
            keys: 0,
            changes: Changes::default(),
            verdicts: BTreeMap::new(),
            lately: BTreeSet::new(),
            glob: situation.glob(),
        };
        Summary {
            seed,
            watched: Duration::ZERO,
            workers: 0,
            tally: BTreeMap::new(),
            sightings: SITUATIONS.iter().map(sighting).collect(),
            locks: Vec::new(),
            server: String::new(),
            source: "off",
            events: 0,
            lost_events: Some(0),
        }
    }

    /// Takes in the engine's current state, and what happened since the last call.
    pub fn look(&mut self, engine: &Engine, reader: &mut Reader) {
        for transition in reader.take().0 {
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
        self.locks = engine.snapshot().locks.into_iter().filter(|lock| lock.verdict.state != State::Free).collect();
        for node in engine.nodes() {
            let product = node.facts.product.known().map(Product::to_string);
            self.server = format!("{} at {}", product.unwrap_or_else(|| "a server".into()), node.name);
            self.source = node.stream.name();
            self.events += node.events;
            self.lost_events = self.lost_events.zip(node.lost).map(|(all, lost)| all + lost);
        }
    }

    fn sighting_of(&mut self, key: &Key) -> Option<&mut Sighting> {
        self.sightings.iter_mut().find(|sighting| sighting.glob.matches(key.as_bytes()))
    }

    fn see(&mut self, snapshot: &Snapshot) {
        for sighting in &mut self.sightings {
            let held =
                |lock: &&LockView| lock.verdict.state != State::Free && sighting.glob.matches(lock.key.as_bytes());
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
            sighting.invented().map(said).collect::<Vec<_>>()
        };
        self.sightings.iter().flat_map(of).collect()
    }

    /// 0 if every situation was found, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.missing().is_empty())
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

/// Ranks locks by how well they show a situation: the worst state, then the most missed and the most seen renewals.
fn telling(lock: &LockView) -> (std::cmp::Reverse<State>, u64, u64, usize) {
    let renewals = lock.renewals.as_ref();
    let missed = renewals.and_then(|renewals| renewals.missed).unwrap_or(0);
    let count = renewals.map_or(0, |renewals| renewals.count);
    (std::cmp::Reverse(lock.verdict.state), missed, count, lock.holders.len())
}

/// All verdicts on a lock beyond that it is held, each word with its sentence.
fn said(lock: &LockView) -> impl Iterator<Item = (&'static str, String)> {
    let state = lock.verdict.state;
    let verdict = (!state.is_usual()).then(|| (state.name(), lock.verdict.evidence.join("; ")));
    verdict.into_iter().chain(lock.findings.iter().map(|finding| (finding.name, finding.sentence.clone())))
}

impl Sighting {
    /// Takes in the verdicts on its locks at one time.
    fn hear(&mut self, locks: &[LockView], deadlocked: &BTreeMap<Key, String>) {
        let mut now = BTreeSet::new();
        for lock in locks.iter().filter(|lock| self.glob.matches(lock.key.as_bytes())) {
            let deadlock = deadlocked.get(&lock.key).map(|sentence| (DEADLOCK, sentence.clone()));
            for (word, sentence) in said(lock).chain(deadlock) {
                let new = Said { times: 0, sentence: format!("{}: {sentence}", lock.key) };
                let said = self.verdicts.entry(word).or_insert(new);
                said.times += u32::from(!self.lately.contains(&(word, lock.key.clone())));
                now.insert((word, lock.key.clone()));
            }
        }
        self.lately = now;
    }

    /// The verdicts that should have appeared and did not.
    pub fn unsaid(&self) -> Vec<&'static str> {
        self.situation.shows.iter().copied().filter(|word| !self.verdicts.contains_key(word)).collect()
    }

    /// The verdicts that are false.
    pub fn invented(&self) -> impl Iterator<Item = (&'static str, &Said)> {
        let Situation { shows, may, .. } = self.situation;
        let known = |word: &&'static str| shows.contains(word) || may.contains(word);
        self.verdicts.iter().map(|(word, said)| (*word, said)).filter(move |(word, _)| !known(word))
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Situation { name, key, library, what_to_see, .. } = self.situation;
        let Some(lock) = &self.lock else {
            writeln!(out, "  {name}: {key} ({library})\n      not found: {what_to_see}")?;
            return Ok(());
        };
        let more = if self.keys > 1 { format!(" and {} more", self.keys - 1) } else { String::new() };
        writeln!(out, "  {name}: {}{more} ({})", lock.key, lock.dialect)?;
        writeln!(out, "      {what_to_see}")?;
        writeln!(out, "      seen: {}", describe(lock))?;
        let Changes { acquired, renewed, released, expired, taken } = self.changes;
        let counts = [(acquired, "acquired"), (renewed, "renewed"), (released, "released")];
        let rare = [(expired, "expired"), (taken, "taken over")];
        let changes: Vec<String> = counts
            .iter()
            .chain(rare.iter().filter(|(count, _)| *count > 0))
            .map(|(count, word)| format!("{word} {count}"))
            .collect();
        writeln!(out, "      in all: {}", changes.join(", "))?;
        if !self.verdicts.is_empty() {
            let times = |(word, said): (&&str, &Said)| match said.times {
                1 => format!("{word} once"),
                times => format!("{word} {times} times"),
            };
            let words: Vec<String> = self.verdicts.iter().map(times).collect();
            writeln!(out, "      verdicts: {}", words.join(", "))?;
        }
        Ok(())
    }
}

/// One lock in one line.
fn describe(lock: &LockView) -> String {
    let mut parts = vec![lock.verdict.state.label().to_string()];
    match lock.holders.as_slice() {
        [] => {}
        [one] => parts.push(format!("by {}", text::short_token(&one.token.to_string()))),
        many => parts.push(format!("by {} {}", many.len(), lock.mode.name())),
    }
    if let (Some(held), Some(how)) = (lock.held_ms, lock.held_is) {
        let at_least = if how == HeldIs::AtLeast { "at least " } else { "" };
        parts.push(format!("for {at_least}{}", text::short_duration(held)));
    }
    let mut line = parts.join(" ");
    match (lock.ttl.remaining(), lock.whole_lease_ms()) {
        (None, _) => line.push_str("; no TTL"),
        (Some(left), lease) => {
            line.push_str(&format!("; TTL {}", text::short_duration(left.as_millis() as u64)));
            if let Some(lease) = lease {
                line.push_str(&format!(" of {}", text::short_duration(lease)));
            }
        }
    }
    if let Some(renewals) = lock.renewals.as_ref().filter(|renewals| renewals.count > 0) {
        line.push_str(&format!("; renewed {} times", renewals.count));
        if let Some(last) = renewals.last_ms {
            line.push_str(&format!(", last {} ago", text::short_duration(last)));
        }
        if let Some(missed) = renewals.missed.filter(|missed| *missed > 0) {
            line.push_str(&format!(", {missed} missed"));
        }
    }
    line
}
