//! The book: which process held which lock when, how it renewed it, and what became of it. Verdicts are compared with it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What became of a process while it held its lock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fate {
    /// It works, and renews in time if it renews at all.
    Works,
    /// Its work is done and it ended; the lock stays until its lease is over, as it should.
    Left,
    Died(Instant),
    /// It keeps its connections and renews no more.
    Hangs(Instant),
}

/// One hold of one process.
#[derive(Clone, Debug)]
pub struct Turn {
    pub key: Vec<u8>,
    pub from: Instant,
    /// When it was freed, if it was.
    pub to: Option<Instant>,
    /// `None`: without an end.
    pub lease: Option<Duration>,
    /// How often it renews, if it does.
    pub period: Option<Duration>,
    pub renewals: Vec<Instant>,
    pub fate: Fate,
    /// When a process that had hung tried to free what was no longer its own.
    pub late: Option<Instant>,
}

/// What is always true of a lock.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rule {
    /// Nobody holds it: it marks something as done.
    pub marker: bool,
    /// A number of permits, which is there whether any are out or not.
    pub counts: bool,
    /// Taken by one command and given its TTL by another.
    pub in_two_steps: bool,
    /// Its users let go of their connections while they hold it.
    pub lets_go: bool,
    /// Many want it, and say so all the time.
    pub contended: bool,
}

#[derive(Default)]
pub struct Book {
    turns: Mutex<Vec<Turn>>,
    rules: Mutex<BTreeMap<Vec<u8>, Rule>>,
}

/// A time in which something was said: it is true if it was true at any moment of it.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub from: Instant,
    pub to: Instant,
}

impl Turn {
    pub fn new(key: Vec<u8>, from: Instant, lease: Option<Duration>, period: Option<Duration>) -> Turn {
        Turn { key, from, to: None, lease, period, renewals: Vec::new(), fate: Fate::Works, late: None }
    }

    /// The last time that its lease began anew, up to this moment.
    pub fn last_renewal(&self, at: Instant) -> Instant {
        self.renewals.iter().rev().copied().find(|renewal| *renewal <= at).unwrap_or(self.from)
    }

    /// When its lease is over, unless it is renewed once more.
    pub fn end_of_lease(&self) -> Option<Instant> {
        Some(self.renewals.last().copied().unwrap_or(self.from) + self.lease?)
    }

    /// When it was over.
    fn end(&self) -> Option<Instant> {
        [self.to, self.end_of_lease()].into_iter().flatten().min()
    }

    fn overlaps(&self, window: Window) -> bool {
        self.from <= window.to && self.end().is_none_or(|end| end >= window.from)
    }

    fn is_dead(&self, at: Instant) -> bool {
        matches!(self.fate, Fate::Died(when) if when <= at)
    }

    fn hangs(&self, at: Instant) -> bool {
        matches!(self.fate, Fate::Hangs(when) if when <= at)
    }

    /// A renewal is overdue, whoever is to blame: on a busy machine a healthy process may be late, too.
    fn is_overdue(&self, window: Window) -> bool {
        let Some(period) = self.period else { return false };
        let late = self.renewals.iter().copied().filter(|at| (window.from..=window.to).contains(at));
        let mut moments = late.map(|at| at - Duration::from_millis(1)).chain([window.to]);
        moments.any(|at| at.saturating_duration_since(self.last_renewal(at)) > period.mul_f64(1.2))
    }

    /// The share of its lease that was over when it was renewed, at most.
    fn latest_renewal(&self) -> f64 {
        let Some(lease) = self.lease else { return 0.0 };
        let starts = std::iter::once(self.from).chain(self.renewals.iter().copied());
        let gaps = starts.zip(&self.renewals).map(|(before, after)| after.saturating_duration_since(before));
        gaps.max().map_or(0.0, |gap| gap.as_secs_f64() / lease.as_secs_f64())
    }

    fn lasted(&self, until: Instant) -> Duration {
        self.end().map_or(until, |end| end.min(until)).saturating_duration_since(self.from)
    }
}

impl Book {
    pub fn rule(&self, key: Vec<u8>, rule: Rule) {
        self.rules.lock().unwrap().insert(key, rule);
    }

    /// A process has taken a lock: the number of its turn.
    pub fn take(&self, turn: Turn) -> usize {
        let mut turns = self.turns.lock().unwrap();
        turns.push(turn);
        turns.len() - 1
    }

    pub fn change(&self, number: usize, change: impl FnOnce(&mut Turn)) {
        change(&mut self.turns.lock().unwrap()[number]);
    }

    pub fn turn(&self, number: usize) -> Turn {
        self.turns.lock().unwrap()[number].clone()
    }

    pub fn turns(&self) -> usize {
        self.turns.lock().unwrap().len()
    }

    pub fn locks(&self) -> usize {
        self.rules.lock().unwrap().len()
    }

    /// The names of all locks that are text.
    pub fn keys(&self) -> Vec<String> {
        let rules = self.rules.lock().unwrap();
        rules.keys().filter_map(|key| String::from_utf8(key.clone()).ok()).collect()
    }

    /// Whether somebody died who held it.
    pub fn is_dead(&self, key: &[u8]) -> bool {
        self.turns.lock().unwrap().iter().any(|turn| turn.key == key && matches!(turn.fate, Fate::Died(_)))
    }

    /// Whether anybody of the crew uses this lock.
    pub fn knows(&self, key: &[u8]) -> bool {
        self.rules.lock().unwrap().contains_key(key)
    }

    /// Whether a lock may be suspected although all is well: its process left it, or keeps no connection.
    pub fn may_be_suspected(&self, key: &[u8], window: Window) -> bool {
        let lets_go = self.rules.lock().unwrap().get(key).is_some_and(|rule| rule.lets_go);
        let turns = self.turns.lock().unwrap();
        let left = |turn: &Turn| turn.key == key && turn.overlaps(window) && turn.fate == Fate::Left;
        lets_go || turns.iter().any(left)
    }

    /// Whether a word, a state or a finding, is true of a lock. A word that is not listed here is false.
    pub fn is_true(&self, key: &[u8], word: &str, window: Window) -> bool {
        let rule = self.rules.lock().unwrap().get(key).copied().unwrap_or_default();
        let turns = self.turns.lock().unwrap();
        let of_it: Vec<&Turn> = turns.iter().filter(|turn| turn.key == key && turn.from <= window.to).collect();
        let now: Vec<&Turn> = of_it.iter().copied().filter(|turn| turn.overlaps(window)).collect();
        let any = |says: &dyn Fn(&Turn) -> bool| now.iter().any(|turn| says(turn));
        // Whether it is free in between: at its beginning, its end, or whenever a turn of this time ended.
        let moments = now.iter().filter_map(|turn| turn.end()).chain([window.from, window.to]);
        let is_free = |at: Instant| !now.iter().any(|turn| turn.from < at && turn.end().is_none_or(|end| end > at));
        match word {
            "done" => rule.marker,
            "held" | "free" if rule.counts => true,
            "held" => !now.is_empty(),
            "free" => moments.into_iter().any(is_free),
            // What gets its TTL by a second command has none for a moment.
            "no-ttl" => any(&|turn| turn.lease.is_none() || rule.in_two_steps && turn.from >= window.from),
            "orphan" => {
                !now.is_empty()
                    && any(&|turn| turn.is_dead(window.to))
                    && now.iter().all(|turn| self.is_over(turn, window))
            }
            // The renewals of a dead process have stopped, too.
            "stalled" => any(&|turn| {
                turn.period.is_some() && (turn.is_dead(window.to) || turn.hangs(window.to) || turn.is_overdue(window))
            }),
            "orphan-suspected" => {
                any(&|turn| turn.is_dead(window.to) || turn.hangs(window.to) || turn.is_overdue(window))
            }
            "dead-holder" => any(&|turn| turn.is_dead(window.to)),
            "expiring" => any(&|turn| {
                let left = turn.lease.map(|lease| {
                    let end = turn.last_renewal(window.to) + lease;
                    (end.saturating_duration_since(window.to).as_secs_f64(), lease.as_secs_f64())
                });
                left.is_some_and(|(left, lease)| left <= 0.15 * lease)
            }),
            "split" => of_it.iter().any(|turn| {
                let believed = turn.late.or(turn.hangs(window.to).then_some(window.to));
                believed.is_some_and(|until| until + Duration::from_secs(31) >= window.from)
            }),
            "outlived" => of_it.iter().any(|turn| turn.late.is_some() || turn.fate != Fate::Works),
            "contended" => rule.contended,
            "non-atomic-acquire" => rule.in_two_steps || any(&|turn| turn.lease.is_none()),
            "renewed-late" => any(&|turn| turn.latest_renewal() >= 0.7),
            "long" | "never-stops" | "leaked-permits" => {
                let usual = of_it.iter().filter(|turn| turn.fate == Fate::Works && turn.to.is_some());
                let usual = usual.map(|turn| turn.lasted(window.to)).max();
                any(&|turn| usual.is_some_and(|usual| turn.lasted(window.to) > usual * 2))
            }
            "lease-too-long" => {
                let longest = of_it.iter().filter(|turn| turn.to.is_some()).map(|turn| turn.lasted(window.to)).max();
                let long = |turn: &&&Turn| turn.lease.zip(longest).is_some_and(|(lease, most)| lease > most * 10);
                of_it.iter().filter(long).count() > 0
            }
            // Of those that nobody meant to run out.
            "no-watchdog" | "lease-too-short" => {
                let meant = of_it.iter().filter(|turn| turn.fate != Fate::Left);
                let share = |turn: &Turn| turn.lease.map(|lease| turn.lasted(window.to).div_duration_f64(lease));
                let shares: Vec<f64> = meant.filter_map(|turn| share(turn)).collect();
                let reached = |least: f64| shares.iter().filter(|share| **share >= least).count();
                reached(0.99) >= 2 || reached(0.75) * 2 > shares.len()
            }
            _ => false,
        }
    }

    /// Its process is dead, or its time was up before anything was said.
    fn is_over(&self, turn: &Turn, window: Window) -> bool {
        turn.is_dead(window.to) || turn.end().is_some_and(|end| end <= window.to)
    }

    /// What the book says of a lock, for a failed test.
    pub fn story(&self, key: &[u8], window: Window) -> String {
        let ago = |at: Instant| match at <= window.to {
            true => format!("{:.1}s before", (window.to - at).as_secs_f64()),
            false => format!("{:.1}s after", (at - window.to).as_secs_f64()),
        };
        let turns = self.turns.lock().unwrap();
        let near = Window { from: window.from - Duration::from_secs(5), to: window.to + Duration::from_secs(5) };
        let of_it = turns.iter().filter(|turn| turn.key == key && turn.overlaps(near));
        let tell = |turn: &Turn| {
            let renewals: Vec<String> = turn.renewals.iter().rev().take(3).map(|at| ago(*at)).collect();
            let end = turn.end().map_or("never".into(), ago);
            let fate = match turn.fate {
                Fate::Works => "works".into(),
                Fate::Left => "left it on purpose".into(),
                Fate::Died(at) => format!("died {}", ago(at)),
                Fate::Hangs(at) => format!("hung {}", ago(at)),
            };
            format!(
                "taken {}, lease {:?}, renewed each {:?}, last {renewals:?}, over {end}: {fate}",
                ago(turn.from),
                turn.lease,
                turn.period
            )
        };
        of_it.map(tell).collect::<Vec<_>>().join("; ")
    }
}
