//! Attempt and failure rates of a lock, estimated from the bursts of the last minute, with their margin.
//!
//! Nothing is seen between bursts, so a rate is an estimate. Its margin is the half-width of the 95 % confidence interval:
//! from the variance between bursts where there are at least three, and never less than the Poisson margin. Pure.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::gather::Gathered;
use crate::base::time::Time;
use crate::lock::Key;
use crate::model::{Tries, TriesFrom};

/// Older bursts are dropped.
const WINDOW: Duration = Duration::from_secs(60);
/// At most this many bursts are kept.
const BURSTS: usize = 64;
const LOCKS: usize = 10_000;

/// Student's t for 95 %, by the number of bursts. Two bursts are too few for a variance.
const T: [f64; 31] = [
    0.0, 0.0, 0.0, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
];

#[derive(Debug, Default)]
pub struct Rates {
    bursts: VecDeque<Interval>,
    locks: HashMap<Key, VecDeque<Count>>,
    next: u64,
    /// The last burst that saw more locks than are kept.
    overfull: Option<u64>,
}

/// When a burst ran, and for how long it saw every command.
#[derive(Clone, Copy, Debug)]
struct Interval {
    number: u64,
    began: Time,
    ended: Time,
    looked: Duration,
}

/// What one burst saw of one lock.
#[derive(Clone, Copy, Debug)]
struct Count {
    number: u64,
    attempts: u64,
    failures: u64,
    unjudged: u64,
    unclear: u64,
}

impl Rates {
    /// Adds a burst that ran from `began` to `ended`.
    pub fn take<'a>(
        &mut self,
        began: Time,
        ended: Time,
        looked: Duration,
        locks: impl Iterator<Item = (&'a Key, &'a Gathered)>,
    ) {
        self.next += 1;
        let number = self.next;
        self.bursts.push_back(Interval { number, began, ended, looked });
        while self.bursts.len() > BURSTS || self.bursts.front().is_some_and(|first| ended.since(first.ended) > WINDOW) {
            self.bursts.pop_front();
        }
        let first = self.bursts.front().map_or(number, |first| first.number);
        self.locks.retain(|_, counts| {
            counts.retain(|count| count.number >= first);
            !counts.is_empty()
        });
        for (key, seen) in locks.filter(|(_, seen)| seen.attempts + seen.unclear > 0) {
            if self.locks.len() >= LOCKS && !self.locks.contains_key(key) {
                self.overfull = Some(number);
                continue;
            }
            let Gathered { attempts, failures, unjudged, unclear, .. } = *seen;
            let count = Count { number, attempts, failures, unjudged, unclear };
            self.locks.entry(key.clone()).or_default().push_back(count);
        }
        self.overfull = self.overfull.filter(|overfull| *overfull >= first);
    }

    /// Locks with attempts, or with calls that may be some.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.locks.keys()
    }

    /// The estimate for a lock with attempts.
    pub fn tries(&self, key: &Key) -> Option<Tries> {
        self.estimate(self.locks.get(key)?)
    }

    /// The estimate for a lock without attempts; `None` where some locks were left out.
    pub fn quiet(&self) -> Option<Tries> {
        if self.overfull.is_some() { None } else { self.estimate(&VecDeque::new()) }
    }

    fn estimate(&self, counts: &VecDeque<Count>) -> Option<Tries> {
        let (first, last) = (self.bursts.front()?, self.bursts.back()?);
        let looked: Duration = self.bursts.iter().map(|burst| burst.looked).sum();
        if looked.is_zero() {
            return None;
        }
        let sum = |of: fn(&Count) -> u64| counts.iter().map(of).sum::<u64>();
        let (attempts, failures, unjudged) =
            (sum(|count| count.attempts), sum(|count| count.failures), sum(|count| count.unjudged));
        let span = last.ended.since(first.began).max(looked);
        let margin_per_s = self.margin(counts, failures, looked.as_secs_f64());
        Some(Tries {
            attempts,
            failures,
            unjudged,
            unclear: sum(|count| count.unclear),
            looked,
            span,
            margin_per_s,
            from: TriesFrom::Sampled,
            at: last.ended,
        })
    }

    fn margin(&self, counts: &VecDeque<Count>, failures: u64, looked: f64) -> f64 {
        // Rule of three: none seen allows up to three (95 %).
        let chance = if failures == 0 { 3.0 } else { 2.0 * (failures as f64).sqrt() } / looked;
        let bursts = self.bursts.len();
        if bursts < 3 {
            return chance;
        }
        let rate = failures as f64 / looked;
        let mut counts = counts.iter().peekable();
        let off: f64 = self
            .bursts
            .iter()
            .map(|burst| {
                let seen = counts.next_if(|count| count.number == burst.number).map_or(0, |count| count.failures);
                (seen as f64 - rate * burst.looked.as_secs_f64()).powi(2)
            })
            .sum();
        let n = bursts as f64;
        let deviation = (off / (n - 1.0) * n).sqrt() / looked;
        chance.max(deviation * T.get(bursts).copied().unwrap_or(2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same numbers in each run.
    struct Dice(u64);

    impl Dice {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            ((mixed ^ (mixed >> 33)) >> 11) as f64 / (1u64 << 53) as f64
        }

        fn wait(&mut self, per_s: f64) -> f64 {
            -(1.0 - self.unit()).ln() / per_s
        }
    }

    fn seen(failures: u64) -> Gathered {
        Gathered { attempts: failures, failures, ..Gathered::default() }
    }

    /// A minute of failing attempts, sampled for one second in every `every`: how often the margin includes the true rate.
    fn covered(every: usize, mut failures_of: impl FnMut(&mut Dice) -> Vec<f64>) -> f64 {
        let key = Key::from("lock:a");
        let mut dice = Dice(7);
        let rounds = 600;
        let right = (0..rounds).filter(|_| {
            let times = failures_of(&mut dice);
            let mut rates = Rates::default();
            for start in (0..60).step_by(every) {
                let before = |second: usize| times.partition_point(|at| *at < second as f64);
                let within = (before(start + 1) - before(start)) as u64;
                let gathered = seen(within);
                let (began, ended) = (Time(start as i64 * 1000), Time(start as i64 * 1000 + 1000));
                rates.take(began, ended, Duration::from_secs(1), [(&key, &gathered)].into_iter());
            }
            let tries = rates.tries(&key).or(rates.quiet()).unwrap();
            let truth = times.len() as f64 / 60.0;
            (tries.failures_per_s() - truth).abs() <= tries.margin_per_s
        });
        right.count() as f64 / f64::from(rounds)
    }

    fn steady(dice: &mut Dice, per_s: f64) -> Vec<f64> {
        let mut times = Vec::new();
        let mut at = dice.wait(per_s);
        while at < 60.0 {
            times.push(at);
            at += dice.wait(per_s);
        }
        times
    }

    #[test]
    fn a_steady_rate_is_within_its_margin() {
        for per_s in [0.02, 0.2, 2.0, 40.0, 400.0] {
            let share = covered(10, |dice| steady(dice, per_s));
            assert!(share >= 0.95, "{per_s} a second: {share}");
        }
    }

    #[test]
    fn so_is_one_that_comes_in_bursts() {
        // Silent half of the time, in phases about as long as a burst.
        let bursty = |dice: &mut Dice, per_s: f64, phase: f64| {
            let mut times = Vec::new();
            let (mut from, mut on) = (0.0, dice.unit() < 0.5);
            while from < 60.0 {
                let until = from + dice.wait(1.0 / phase);
                let mut at = from + dice.wait(per_s);
                while on && at < until.min(60.0) {
                    times.push(at);
                    at += dice.wait(per_s);
                }
                (from, on) = (until, !on);
            }
            times
        };
        for (every, phase) in [(10, 0.3), (10, 1.0), (2, 1.0)] {
            let share = covered(every, |dice| bursty(dice, 50.0, phase));
            assert!(share >= 0.93, "one second in {every}, phases of {phase} s: {share}");
        }
    }

    #[test]
    fn nothing_seen_is_not_nothing_for_sure() {
        let mut rates = Rates::default();
        assert_eq!(rates.quiet(), None, "there was no burst");
        rates.take(Time(0), Time(1000), Duration::from_secs(1), std::iter::empty());
        let quiet = rates.quiet().unwrap();
        assert_eq!((quiet.attempts, quiet.margin_per_s), (0, 3.0));
        let gathered = seen(16);
        rates.take(Time(1000), Time(2000), Duration::from_secs(1), [(&Key::from("lock:a"), &gathered)].into_iter());
        let tries = rates.tries(&Key::from("lock:a")).unwrap();
        assert_eq!((tries.failures_per_s(), tries.margin_per_s, tries.coverage()), (8.0, 4.0, 1.0));
        assert_eq!(rates.tries(&Key::from("lock:b")), None);
    }

    #[test]
    fn a_minute_later_it_is_forgotten() {
        let mut rates = Rates::default();
        let (key, gathered) = (Key::from("lock:a"), seen(5));
        rates.take(Time(0), Time(1000), Duration::from_secs(1), [(&key, &gathered)].into_iter());
        rates.take(Time(61_001), Time(62_001), Duration::from_secs(1), std::iter::empty());
        assert_eq!((rates.tries(&key), rates.keys().count()), (None, 0));
        assert_eq!(rates.quiet().unwrap().span, Duration::from_secs(1));
    }

    #[test]
    fn it_stays_bounded_and_says_so() {
        let mut rates = Rates::default();
        let many: Vec<(Key, Gathered)> =
            (0..LOCKS + 1).map(|number| (Key::from(format!("lock:{number}").as_str()), seen(1))).collect();
        let all = || many.iter().map(|(key, seen)| (key, seen));
        rates.take(Time(0), Time(1), Duration::from_millis(1), all());
        assert_eq!((rates.keys().count(), rates.quiet()), (LOCKS, None));
        for at in 0..1000 {
            rates.take(Time(at), Time(at + 1), Duration::from_millis(1), all().take(3));
        }
        assert!(rates.bursts.len() <= BURSTS && rates.locks.values().all(|counts| counts.len() <= BURSTS));
        assert!(rates.quiet().is_some(), "the burst that had too many is long gone");
    }
}
