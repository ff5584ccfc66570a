//! One planted situation as it was seen: its locks, what happened to them, and the verdicts on them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use crate::base::glob::Glob;
use crate::base::text;
use crate::demo::fleet::{DEADLOCK, Situation};
use crate::lock::Key;
use crate::model::{Change, Ending, HeldIs, LockView, State};

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
    pub(super) glob: Glob,
}

/// One verdict on the locks of a situation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    pub times: u32,
    /// The first one, with the lock's name.
    pub sentence: String,
}

/// Counts of what happened to the locks of a situation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    pub acquired: u64,
    pub renewed: u64,
    pub released: u64,
    pub expired: u64,
    pub taken: u64,
    /// Went on at another node.
    pub moved: u64,
    /// Gone, and nobody saw a release.
    pub lost: u64,
}

impl Changes {
    pub(super) fn count(&mut self, change: Change) {
        match change {
            Change::Acquired => self.acquired += 1,
            Change::Renewed => self.renewed += 1,
            Change::Taken => self.taken += 1,
            Change::Ended(Ending::Released) => self.released += 1,
            Change::Ended(Ending::Expired) => self.expired += 1,
            Change::Moved => self.moved += 1,
            Change::Ended(Ending::Unseen | Ending::Failover | Ending::SlotTaken | Ending::Restart) => self.lost += 1,
            Change::Found | Change::PutBack | Change::CameBack | Change::Ended(_) => {}
        }
    }
}

/// Ranks locks by how well they show a situation: the worst state, then the most missed and the most seen renewals.
pub(super) fn telling(lock: &LockView) -> (std::cmp::Reverse<State>, u64, u64, usize) {
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
    pub fn new(situation: &'static Situation) -> Sighting {
        Sighting {
            situation,
            lock: None,
            keys: 0,
            changes: Changes::default(),
            verdicts: BTreeMap::new(),
            lately: BTreeSet::new(),
            glob: situation.glob(),
        }
    }

    /// Takes in the verdicts on its locks at one time.
    pub(super) fn hear(&mut self, locks: &[LockView], deadlocked: &BTreeMap<Key, String>) {
        let mut now = BTreeSet::new();
        // What may have been released while its master was replaced is no claim.
        let said_so = |lock: &&LockView| lock.lost.as_ref().is_none_or(|lost| lost.proven);
        for lock in locks.iter().filter(|lock| self.glob.matches(lock.key.as_bytes())).filter(said_so) {
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

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Situation { name, key, library, what_to_see, .. } = self.situation;
        let Some(lock) = &self.lock else {
            writeln!(out, "  {name}: {key} ({library})\n      not found: {what_to_see}")?;
            return Ok(());
        };
        let more = if self.keys > 1 { format!(" and {} more", self.keys - 1) } else { String::new() };
        writeln!(out, "  {name}: {}{more} ({})", lock.key, lock.dialect)?;
        writeln!(out, "      {what_to_see}")?;
        writeln!(out, "      seen: {}", describe(lock))?;
        let Changes { acquired, renewed, released, expired, taken, moved, lost } = self.changes;
        let counts = [(acquired, "acquired"), (renewed, "renewed"), (released, "released")];
        let rare = [(expired, "expired"), (taken, "taken over"), (moved, "moved"), (lost, "lost or released unseen")];
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
