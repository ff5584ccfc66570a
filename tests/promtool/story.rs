//! Random rules with the series that they look at, as somebody scrapes them: at times off the grid, with failed scrapes,
//! scrapes that never happened, and series that come and go.

use std::fmt::Write;
use std::sync::Arc;

use lockscope::metrics::{MetricId, Part, Series};

use crate::dice::Dice;

/// How long a story lasts, in seconds.
pub const LENGTH: i64 = 1_500;
/// Seconds from one evaluation to the next.
pub const STEP: i64 = 15;

pub struct Story {
    /// The rules in TOML.
    pub rules: String,
    pub scrapes: Vec<Scrape>,
    pub series: Vec<Told>,
}

/// Somebody asked for all series.
#[derive(Clone, Copy)]
pub struct Scrape {
    /// Seconds from the beginning.
    pub at: i64,
    pub failed: bool,
}

/// A series with its value at each scrape.
pub struct Told {
    pub series: Series,
    pub values: Vec<Option<f64>>,
}

/// What a series is like.
#[derive(Clone, Copy, PartialEq)]
enum Nature {
    /// Small numbers around a threshold of 5.
    Level,
    Counter,
    /// A time before the beginning.
    Since,
    /// 0 or 1.
    Flag,
    Rate,
}

pub fn series(metric: &str, labels: &[&str]) -> Series {
    let metric = MetricId::named(metric).unwrap_or_else(|| panic!("no metric {metric}"));
    assert_eq!(metric.metric().labels.len(), labels.len());
    Series { metric, part: Part::Value, labels: labels.iter().map(|label| Arc::from(*label)).collect() }
}

impl Story {
    /// So many random rules, with series of their own.
    pub fn random(seed: u64, rules: usize) -> Story {
        let mut dice = Dice::new(seed, 1);
        let scrapes = scrapes(&mut dice);
        let mut story = Story { rules: "default_rules = false\n".into(), scrapes, series: Vec::new() };
        story.build_info(&mut dice);
        for index in 0..rules {
            story.add(&mut dice, index);
        }
        story
    }

    /// A fleet in which everything goes wrong, for the default rules: one trouble after the other.
    pub fn of_troubles() -> Story {
        let scrapes: Vec<Scrape> =
            (0..LENGTH / STEP).map(|index| Scrape { at: index * STEP + 7, failed: false }).collect();
        let mut story = Story { rules: String::new(), scrapes, series: Vec::new() };
        let mut tell = |metric: &str, labels: &[&str], value: &dyn Fn(i64) -> Option<f64>| {
            let values = story.scrapes.iter().map(|scrape| value(scrape.at)).collect();
            story.series.push(Told { series: series(metric, labels), values });
        };
        let during = |from: i64, to: i64| move |at: i64| Some(f64::from(u8::from((from..to).contains(&at))));
        let pattern = "order:*";
        for (state, from, to) in
            [("split", 100, 160), ("orphan", 200, 300), ("stalled", 100, 150), ("no-ttl", 100, 900)]
        {
            tell("lockscope_locks", &["prod", pattern, state], &during(from, to));
        }
        tell("lockscope_findings", &["prod", pattern, "eviction-hazard"], &during(100, 1_200));
        tell("lockscope_oldest_hold_timestamp_seconds", &["prod", pattern], &|at| (at < 700).then_some(-600.0));
        tell("lockscope_waiters_max", &["prod", pattern], &|at| Some(if at > 400 { 6.0 } else { 4.0 }));
        tell("lockscope_failures_per_second", &["prod", pattern, "counted"], &|at| {
            Some(if at > 500 { 2.0 } else { 0.5 })
        });
        tell("lockscope_attempts_per_second", &["prod", pattern, "counted"], &|_| Some(10.0));
        for (pattern, released) in [(pattern, 9.0), ("marker:*", 0.0)] {
            tell("lockscope_holds_ended_total", &["prod", pattern, "expired"], &|at| Some((at / 100) as f64));
            tell("lockscope_holds_ended_total", &["prod", pattern, "released"], &|_| Some(released));
        }
        for (ending, from) in
            [("taken", 600), ("evicted", 700), ("flushed", 800), ("failover", 900), ("slot-taken", 1_000)]
        {
            tell("lockscope_holds_ended_total", &["prod", pattern, ending], &during(from, LENGTH));
        }
        tell("lockscope_up", &["prod", "a:6379"], &|at| Some(if (300..500).contains(&at) { 0.0 } else { 1.0 }));
        tell("lockscope_data_stale", &["prod", "a:6379"], &during(700, 900));
        tell("lockscope_blind_since_timestamp_seconds", &["prod", "a:6379"], &|at| {
            (300..500).contains(&at).then_some(298.5).or((700..900).contains(&at).then_some(698.0))
        });
        tell("lockscope_role_changes_total", &["prod"], &during(890, LENGTH));
        tell("lockscope_build_info", &["0.1.0", "abc"], &|at| (at < 1_000).then_some(1.0));
        story
    }

    fn build_info(&mut self, dice: &mut Dice) {
        self.tell(dice, Nature::Flag, "lockscope_build_info", &["0.1.0", "abc"]);
        self.rules += "[[rules]]\nname = 'Absent'\nmetric = 'lockscope_absent'\nabove = 0\nfor = '30s'\n";
    }

    fn tell(&mut self, dice: &mut Dice, nature: Nature, metric: &str, labels: &[&str]) {
        let values = values(dice, nature, &self.scrapes);
        self.series.push(Told { series: series(metric, labels), values });
    }

    /// One rule over series of a target of its own.
    fn add(&mut self, dice: &mut Dice, index: usize) {
        let target = format!("t{index:03}");
        let t = target.as_str();
        let patterns = ["lock:a:*", "lock:\"b\\", "it's"];
        let some = &patterns[..1 + dice.below(3)];
        let ended = "lockscope_holds_ended_total";
        let (metric, by, level, counted) = match index % 10 {
            0..3 => {
                for pattern in some {
                    for state in ["held", "split"] {
                        self.tell(dice, Nature::Level, "lockscope_locks", &[t, pattern, state]);
                    }
                }
                ("lockscope_locks", ["target", "state"], 5.0, false)
            }
            3..5 => {
                for pattern in some {
                    for ending in ["expired", "evicted"] {
                        self.tell(dice, Nature::Counter, ended, &[t, pattern, ending]);
                    }
                }
                (ended, ["target", "ending"], [0.0, 1.0, 2.5][dice.below(3)], true)
            }
            5 => {
                for pattern in some {
                    self.tell(dice, Nature::Since, "lockscope_oldest_hold_timestamp_seconds", &[t, pattern]);
                }
                ("lockscope_oldest_hold_age_seconds", ["target", "pattern"], 900.0, false)
            }
            6 => {
                for pattern in some {
                    self.tell(dice, Nature::Rate, "lockscope_failures_per_second", &[t, pattern, "counted"]);
                    self.tell(dice, Nature::Rate, "lockscope_attempts_per_second", &[t, pattern, "counted"]);
                }
                ("lockscope_failure_ratio", ["target", "source"], 0.4, false)
            }
            7 | 8 => {
                for pattern in some {
                    for ending in ["expired", "released"] {
                        self.tell(dice, Nature::Counter, ended, &[t, pattern, ending]);
                    }
                }
                let share = index % 10 == 8;
                let name = if share { "lockscope_holds_expired_ratio" } else { "lockscope_holds_expired" };
                (name, ["target", "pattern"], if share { 0.4 } else { 1.5 }, true)
            }
            _ => {
                for node in &["n1", "n2"][..1 + dice.below(2)] {
                    self.tell(dice, Nature::Flag, "lockscope_up", &[t, node]);
                    self.tell(dice, Nature::Flag, "lockscope_data_stale", &[t, node]);
                }
                ("lockscope_blind", ["target", "node"], 0.0, false)
            }
        };
        let above = metric == "lockscope_blind" || metric.contains("_age_") || dice.chance(0.7);
        for node in &["n1", "n2"][..1 + dice.below(2)] {
            let values = blindness(dice, &self.scrapes);
            self.series.push(Told { series: series("lockscope_blind_since_timestamp_seconds", &[t, node]), values });
            // Without it, lockscope itself is out of sight.
            if metric != "lockscope_blind" {
                self.tell(dice, Nature::Flag, "lockscope_up", &[t, node]);
            }
        }
        self.rule(dice, index, &target, (metric, by, counted), (level, above));
    }

    fn rule(
        &mut self,
        dice: &mut Dice,
        index: usize,
        target: &str,
        (metric, by, counted): (&str, [&str; 2], bool),
        (level, above): (f64, bool),
    ) {
        let mut selector = format!("target:{target}");
        if metric == "lockscope_locks" {
            selector += [" state:split", " not state:split", " lock", ""][dice.below(4)];
        }
        let (side, back) = if above { ("above", -1.0) } else { ("below", 1.0) };
        let out = &mut self.rules;
        let _ = write!(out, "[[rules]]\nname = 'Rule{index:03}'\nmetric = '{metric}'\nselector = '{selector}'\n");
        let _ = writeln!(out, "{side} = {level:?}");
        if dice.chance(0.6) {
            let _ = writeln!(out, "for = '{}s'", [15, 30, 37, 45, 60, 120][dice.below(6)]);
        }
        if dice.chance(0.4) {
            let _ = writeln!(out, "keep_firing_for = '{}s'", [15, 30, 47, 60, 300][dice.below(5)]);
        }
        if dice.chance(0.4) {
            let step = if level == 0.0 || level < 1.0 { 0.15 } else { (level * 0.3_f64).min(60.0) };
            let _ = writeln!(out, "recover = {:?}", level + back * step);
        }
        if dice.chance(0.25) {
            let by = &by[..dice.below(3)];
            let _ = writeln!(out, "by = {by:?}");
        }
        if counted {
            let _ = writeln!(out, "window = '{}'", ["90s", "2m", "5m"][dice.below(3)]);
            if dice.chance(0.6) {
                let _ = writeln!(out, "no_data = '{}'", ["alert", "ok", "stay 47s", "stay 4m"][dice.below(4)]);
            }
        } else if dice.chance(0.7) {
            let policies = ["alert", "keep 40s", "keep 3m", "keep 10m", "ok", "stay 47s", "stay 100500ms", "stay 1h"];
            let _ = writeln!(out, "no_data = '{}'", policies[dice.below(policies.len())]);
        }
    }
}

/// When somebody asked, never on the grid of evaluations.
fn scrapes(dice: &mut Dice) -> Vec<Scrape> {
    let every = [5, 15, 30][dice.below(3)];
    let mut scrapes: Vec<Scrape> = Vec::new();
    let (mut at, mut failing) = (0, false);
    while at < LENGTH - every {
        let jitter = dice.below(every as usize / 5) as i64;
        let mut when = at + 1 + jitter;
        if when % STEP == 0 {
            when += 1;
        }
        if scrapes.last().is_none_or(|last| last.at < when) {
            scrapes.push(Scrape { at: when, failed: failing });
        }
        failing = dice.chance(if failing { 0.6 } else { 0.03 });
        at += every;
        // Whoever asks was away: no scrape, and no stale marker either.
        if dice.chance(0.02) {
            at += [60, 200, 290, 310, 420][dice.below(5)];
        }
    }
    scrapes
}

fn values(dice: &mut Dice, nature: Nature, scrapes: &[Scrape]) -> Vec<Option<f64>> {
    let mut value = first(dice, nature);
    let mut present = dice.chance(0.8);
    let mut all = Vec::new();
    for scrape in scrapes {
        if dice.chance(if present { 0.02 } else { 0.25 }) {
            present = !present;
        }
        value = next(dice, nature, value);
        all.push((present && !scrape.failed).then_some(value));
    }
    all
}

/// Since when something is out of sight, now and then.
fn blindness(dice: &mut Dice, scrapes: &[Scrape]) -> Vec<Option<f64>> {
    let mut since = None;
    let mut all = Vec::new();
    for scrape in scrapes {
        if dice.chance(if since.is_some() { 0.15 } else { 0.06 }) {
            since = match since {
                // It is noticed a little later than it began.
                None => Some(scrape.at as f64 - 1.0 - dice.below(30) as f64 / 10.0),
                Some(_) => None,
            };
        }
        all.push(since.filter(|_| !scrape.failed));
    }
    all
}

fn first(dice: &mut Dice, nature: Nature) -> f64 {
    match nature {
        Nature::Since => -(dice.below(900) as f64),
        Nature::Counter => dice.below(4) as f64,
        Nature::Level | Nature::Flag | Nature::Rate => 0.0,
    }
}

fn next(dice: &mut Dice, nature: Nature, value: f64) -> f64 {
    match nature {
        Nature::Level if dice.chance(0.2) => match dice.below(40) {
            0 => f64::NAN,
            1 => f64::INFINITY,
            _ => dice.below(10) as f64,
        },
        Nature::Counter if dice.chance(0.02) => dice.below(2) as f64,
        Nature::Counter if dice.chance(0.15) => value + 1.0 + dice.below(3) as f64,
        Nature::Since if dice.chance(0.02) => value + 200.0,
        Nature::Flag if dice.chance(0.1) => 1.0 - value,
        Nature::Rate if dice.chance(0.2) => dice.below(5) as f64,
        _ => value,
    }
}
