//! The one place that judges the rhythm of a watchdog: how often it renews, how evenly, and whether it has stopped.
//!
//! Pure, and cheap enough to ask for every lock at any moment: times are arguments, nothing is allocated. The period
//! that the library is known for helps when little was seen, but never replaces what was seen.

use std::time::Duration;

use crate::base::time::Time;

/// A renewal is missed when it is later than this share of a period. Small enough to report a stopped watchdog within
/// one and a half periods, even if the period was judged 5 % too long.
const GRACE_PERCENT: u64 = 40;

/// At most this many of the newest times are used.
const MOST: usize = 17;

/// A distance of at least this many periods is a silence: the number of missing beats is not known.
const SILENCE: f64 = 3.5;

/// Distances that agree are within this share of the usual one. One alone may be an acquire in two steps, or a lease
/// extended by hand.
const AGREE: std::ops::RangeInclusive<f64> = 0.7..=1.35;

/// Among fewer distances than this, one odd one moves the median.
const FEW: usize = 3;

/// The rhythm of the renewals of one hold, at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cadence {
    /// The usual distance between two renewals.
    pub period_ms: u64,
    /// How far a renewal usually is from the time that the previous one predicted.
    pub jitter_ms: u64,
    /// When the next one is due, or was.
    pub due: Time,
    /// Renewals due since the last one that did not come.
    pub missed: u64,
    /// Time until the lock is lost without a renewal; `None` if it has no TTL.
    pub lost_in: Option<Duration>,
}

/// How often it is renewed, and whether that continues: what a verdict needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rhythm {
    pub period_ms: u64,
    /// Renewals due since the last one that did not come.
    pub missed: u64,
    /// When the last one came.
    pub last: Time,
}

/// An operator freed the lock and put it back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resumed {
    /// When it was put back; until then, when it was freed.
    pub at: Time,
    /// The renewals that had been missed when it was freed.
    pub missed: u64,
}

/// Judges the times at which a lease was given, oldest first: when the lock was taken, where that is known, and each
/// renewal. `expected_ms` is the period that the library is known for, `expires` when the lease ends as it is.
///
/// `None` while there is no rhythm: it takes two distances that agree, or one that is what the library is known for.
pub fn judge(
    given: impl Iterator<Item = Time>,
    expected_ms: Option<u64>,
    expires: Option<Time>,
    now: Time,
) -> Option<Cadence> {
    let gaps = Gaps::between(given)?;
    let period = period(gaps.all(), expected_ms)?;
    let rhythm = Rhythm::at(whole_ms(period), gaps.last, now);
    Some(Cadence {
        period_ms: rhythm.period_ms,
        jitter_ms: jitter(gaps.all(), period).round() as u64,
        due: rhythm.last + Duration::from_millis(rhythm.period_ms),
        missed: rhythm.missed,
        lost_in: expires.map(|expires| expires.since(now)),
    })
}

impl Cadence {
    /// Of a library that may leave one out: what is not later than this is not missed.
    pub fn at_the_latest(self, latest_ms: u64, now: Time) -> Cadence {
        let last = self.due - Duration::from_millis(self.period_ms);
        let missed = Rhythm::at(self.period_ms, last, now).at_the_latest(latest_ms, now).missed;
        Cadence { missed, ..self }
    }

    /// Of a lock that was put back: while it was gone, no renewal could come.
    pub fn resumed(self, resumed: Resumed, now: Time) -> Cadence {
        let period = Duration::from_millis(self.period_ms);
        let rhythm = Rhythm { period_ms: self.period_ms, missed: self.missed, last: self.due - period };
        if resumed.at <= rhythm.last {
            return self;
        }
        // One that was missed before is due since then.
        let due = if resumed.missed > 0 { self.due } else { resumed.at + period };
        Cadence { due, missed: rhythm.resumed(resumed, now).missed, ..self }
    }
}

/// The period alone. It changes only with a renewal, not with time, so it can be cached.
pub fn period_ms(given: impl Iterator<Item = Time>, expected_ms: Option<u64>) -> Option<u64> {
    period(Gaps::between(given)?.all(), expected_ms).map(whole_ms)
}

impl Rhythm {
    /// Of a library that may leave one out: what is not later than this is not missed.
    pub fn at_the_latest(self, latest_ms: u64, now: Time) -> Rhythm {
        let late = is_missed(latest_ms.max(self.period_ms), now.ms_since(self.last));
        Rhythm { missed: if late { self.missed } else { 0 }, ..self }
    }

    /// For a lock that is renewed every `period_ms`, and was last renewed at `last`.
    pub fn at(period_ms: u64, last: Time, now: Time) -> Rhythm {
        let since_ms = now.ms_since(last);
        // Nearly all are on time and every lock is judged all the time, so the common case is one comparison.
        let late = since_ms > period_ms && is_missed(period_ms, since_ms);
        let missed = if late { since_ms / period_ms.max(1) } else { 0 };
        Rhythm { period_ms, missed, last }
    }

    /// Of a lock that was put back: while it was gone, no renewal could come. What had not come before stays missed.
    pub fn resumed(self, resumed: Resumed, now: Time) -> Rhythm {
        if resumed.at <= self.last {
            return self;
        }
        Rhythm { missed: resumed.missed + Rhythm::at(self.period_ms, resumed.at, now).missed, ..self }
    }
}

/// The distances between the newest times, in milliseconds.
struct Gaps {
    gaps: [f64; MOST],
    count: usize,
    last: Time,
}

impl Gaps {
    /// `None` if there are no times.
    fn between(times: impl Iterator<Item = Time>) -> Option<Gaps> {
        let mut gaps = [0.0; MOST];
        let (mut count, mut last) = (0, None::<Time>);
        for time in times {
            if let Some(before) = last {
                if count == MOST - 1 {
                    gaps.copy_within(1..count, 0);
                    count -= 1;
                }
                gaps[count] = time.since(before).as_millis() as f64;
                count += 1;
            }
            last = Some(time);
        }
        Some(Gaps { gaps, count, last: last? })
    }

    fn all(&self) -> &[f64] {
        &self.gaps[..self.count]
    }
}

fn whole_ms(period: f64) -> u64 {
    period.round().max(1.0) as u64
}

/// Whether a renewal is overdue for a lock that was renewed every `period`, the last time `since_last` ago.
pub fn is_missed(period_ms: u64, since_last_ms: u64) -> bool {
    since_last_ms > period_ms.saturating_add(grace_ms(period_ms))
}

/// How much later than a period a renewal may come.
pub fn grace_ms(period_ms: u64) -> u64 {
    period_ms.saturating_mul(GRACE_PERCENT) / 100
}

/// The time that passed, by the periods that passed in it. The median says how many those are, so that a beat that was
/// lost or came twice does no harm. A watchdog that keeps to a schedule is a little late at both ends of the whole, not
/// at each beat: over `n` distances its jitter counts for an `n`-th, where the median has all of it.
fn period(gaps: &[f64], expected_ms: Option<u64>) -> Option<f64> {
    let near = |gap: f64, other: f64| (gap - other).abs() <= other / 4.0;
    let known = |expected: &f64| gaps.iter().any(|gap| near(*gap, *expected));
    let expected = expected_ms.filter(|ms| *ms > 0).map(|ms| ms as f64).filter(known);
    if let Some(expected) = expected.filter(|_| gaps.len() < FEW) {
        // A renewal that was told late makes a distance too short, and so few do not outvote the library's own rule.
        let seen = mean(gaps.iter().copied().filter(|gap| near(*gap, expected)));
        return seen.map(|seen| seen.max(expected));
    }
    let median = if gaps.is_empty() { return None } else { median(gaps) };
    let unit = expected.filter(|expected| near(median, *expected)).unwrap_or(median);
    if unit <= 0.0 || gaps.iter().filter(|gap| AGREE.contains(&(**gap / unit))).count() < 2 {
        return None;
    }
    let (time, periods) = gaps.iter().fold((0.0, 0.0), |(time, periods), gap| match beats_in(*gap / unit) {
        Some(beats) => (time + gap, periods + beats),
        None => (time, periods),
    });
    Some(if periods > 0.0 { time / periods } else { median })
}

fn mean(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = numbers.fold((0.0, 0.0), |(sum, count), number| (sum + number, count + 1.0));
    (count > 0.0).then_some(sum / count)
}

/// How many periods fit into a distance of this many units.
fn beats_in(units: f64) -> Option<f64> {
    match units {
        // Two renewals at once, for example by hand and then by the watchdog.
        ..0.35 => Some(0.0),
        ..1.6 => Some(1.0),
        ..SILENCE => Some(units.round()),
        _ => None,
    }
}

fn jitter(gaps: &[f64], period: f64) -> f64 {
    let mut off = [0.0; MOST];
    for (off, gap) in off.iter_mut().zip(gaps) {
        let whole = (gap / period).round().max(1.0);
        *off = (gap - whole * period).abs();
    }
    median(&off[..gaps.len()])
}

/// The median of 1 to `MOST` numbers.
fn median(numbers: &[f64]) -> f64 {
    let mut sorted = [0.0; MOST];
    let sorted = &mut sorted[..numbers.len()];
    sorted.copy_from_slice(numbers);
    sorted.sort_unstable_by(f64::total_cmp);
    (sorted[(numbers.len() - 1) / 2] + sorted[numbers.len() / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: f64 = 10_000.0;
    const SEEDS: u64 = 5_000;

    /// Random numbers from a seed: SplitMix64.
    struct Chance(u64);

    impl Chance {
        /// From 0 up to but not including 1.
        fn share(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let bits = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((bits ^ bits >> 31) >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// A watchdog that keeps to a schedule, each beat late by up to this share of a period.
    fn schedule(chance: &mut Chance, beats: usize, late: f64) -> Vec<Time> {
        (0..beats).map(|beat| Time(((beat as f64 + chance.share() * late) * PERIOD) as i64)).collect()
    }

    fn judged(times: &[Time], expected: Option<u64>, now: Time) -> Option<Cadence> {
        judge(times.iter().copied(), expected, None, now)
    }

    fn at(seconds: &[i64]) -> Vec<Time> {
        seconds.iter().map(|seconds| Time(seconds * 1_000)).collect()
    }

    /// The share of seeds for which the period is within 5 %.
    fn within(make: impl Fn(&mut Chance) -> Vec<Time>, period: impl Fn(&[Time]) -> f64) -> f64 {
        let good = (0..SEEDS).filter(|seed| {
            let times = make(&mut Chance(*seed));
            (period(&times) / PERIOD - 1.0).abs() <= 0.05
        });
        good.count() as f64 / SEEDS as f64
    }

    fn new(times: &[Time]) -> f64 {
        judged(times, None, Time(0)).unwrap().period_ms as f64
    }

    #[test]
    fn the_period_is_right_after_five_beats_with_a_jitter_of_a_fifth() {
        let make = |chance: &mut Chance| schedule(chance, 5, 0.2);
        assert_eq!(within(make, new), 1.0);
        // What the median alone would be.
        let alone = |times: &[Time]| {
            let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64).collect();
            median(&gaps)
        };
        let alone = within(make, alone);
        assert!(alone < 0.95, "{alone}");
    }

    #[test]
    fn a_beat_that_was_lost_or_came_twice_does_no_harm() {
        let lost = |chance: &mut Chance| {
            let mut times = schedule(chance, 8, 0.2);
            times.remove(1 + (chance.share() * 6.0) as usize);
            times
        };
        assert!(within(lost, new) > 0.999);
        let twice = |chance: &mut Chance| {
            let mut times = schedule(chance, 8, 0.2);
            let beat = 1 + (chance.share() * 6.0) as usize;
            times.insert(beat, times[beat] + Duration::from_millis(40));
            times
        };
        assert!(within(twice, new) > 0.999);
    }

    #[test]
    fn a_watchdog_that_counts_from_its_own_last_beat_is_judged_as_well_as_it_can_be() {
        // Each distance is off by up to a fifth on its own, so no judgement of four of them is always within 5 %.
        let make = |chance: &mut Chance| {
            let mut time = 0.0;
            let mut beat = || {
                time += PERIOD * (0.9 + chance.share() * 0.2);
                Time(time as i64)
            };
            (0..6).map(|_| beat()).collect()
        };
        let share = within(make, new);
        assert!(share > 0.9, "{share}");
    }

    #[test]
    fn a_stalled_watchdog_is_called_within_one_and_a_half_periods_and_a_living_one_never() {
        for seed in 0..SEEDS {
            let mut chance = Chance(seed);
            let times = schedule(&mut chance, 5 + seed as usize % 20, 0.2);
            for (index, next) in times.iter().enumerate().skip(5) {
                let missed = judged(&times[..index], None, *next).unwrap().missed;
                assert_eq!(missed, 0, "seed {seed}, beat {index}");
            }
            let last = *times.last().unwrap();
            let missed = |periods: f64| judged(&times, None, last + Duration::from_millis((periods * PERIOD) as u64));
            assert!(missed(1.5).unwrap().missed == 1 && missed(1.25).unwrap().missed == 0, "seed {seed}");
        }
    }

    #[test]
    fn no_rhythm_is_made_up() {
        assert_eq!(judged(&[], Some(10_000), Time(0)), None);
        assert_eq!(judged(&at(&[0]), Some(10_000), Time(99_000)), None, "it may not have a watchdog at all");
        assert_eq!(judged(&at(&[0, 10]), None, Time(99_000)), None);
        assert_eq!(judged(&at(&[0, 4]), Some(10_000), Time(99_000)), None, "extended by hand");
        assert_eq!(judged(&at(&[0, 10]), Some(10_000), Time(16_000)).unwrap().period_ms, 10_000);
        assert_eq!(judged(&at(&[5, 5, 5]), None, Time(9_000)), None);
    }

    #[test]
    fn a_period_takes_more_than_one_interval() {
        let twice = [Time(0), Time(300), Time(9_300)];
        assert_eq!(judged(&twice, None, Time(99_000)), None, "taken in two steps, and renewed once");
        assert_eq!(judged(&twice, Some(9_000), Time(9_300)).unwrap().period_ms, 9_000);
        assert_eq!(judged(&at(&[0, 4, 13]), None, Time(99_000)), None, "extended twice by hand");
        assert_eq!(judged(&at(&[0, 9, 19]), None, Time(19_000)).unwrap().period_ms, 9_500);
    }

    #[test]
    fn one_renewal_that_was_told_late_does_not_make_a_library_quicker() {
        // Taken at 0, told at 1.6 s; renewed at 8 and 16 s.
        let times = [Time(1_600), Time(8_000)];
        assert_eq!(judged(&times, Some(8_000), Time(8_000)).unwrap().period_ms, 8_000);
        let times = [Time(1_600), Time(8_000), Time(16_000)];
        assert_eq!(judged(&times, Some(8_000), Time(16_000)).unwrap().period_ms, 8_000);
        let times = [Time(0), Time(9_000)];
        assert_eq!(judged(&times, Some(8_000), Time(9_000)).unwrap().period_ms, 9_000, "it is slower");
    }

    #[test]
    fn what_was_seen_counts_more_than_what_the_library_is_known_for() {
        let times = at(&[0, 11, 22, 33, 44, 55]);
        assert_eq!(judged(&times, Some(10_000), Time(55_000)).unwrap().period_ms, 11_000);
        assert_eq!(judged(&times, Some(30_000), Time(55_000)).unwrap().period_ms, 11_000);
    }

    #[test]
    fn a_long_silence_is_no_period() {
        let cadence = judged(&at(&[0, 10, 20, 85, 95, 105]), None, Time(105_000)).unwrap();
        assert_eq!((cadence.period_ms, cadence.missed), (10_000, 0));
    }

    #[test]
    fn the_next_is_due_and_the_lock_is_lost_when_the_lease_ends() {
        let times = at(&[0, 10, 20, 30]);
        let cadence = judge(times.iter().copied(), None, Some(Time(60_000)), Time(52_000)).unwrap();
        assert_eq!((cadence.due, cadence.missed, cadence.jitter_ms), (Time(40_000), 2, 0));
        assert_eq!(cadence.lost_in, Some(Duration::from_secs(8)));
    }

    #[test]
    fn jitter_is_how_far_the_beats_usually_are_off() {
        let cadence = judged(&at(&[0, 11, 20, 31, 40, 51, 60]), None, Time(60_000)).unwrap();
        assert_eq!((cadence.period_ms, cadence.jitter_ms), (10_000, 1_000));
    }

    #[test]
    fn only_the_newest_times_count() {
        let slow = (0..40).map(|beat| Time(beat * 60_000));
        let fast = (1..=17).map(|beat| Time(40 * 60_000 + beat * 5_000));
        let cadence = judge(slow.chain(fast), None, None, Time(0)).unwrap();
        assert_eq!(cadence.period_ms, 5_000);
    }
}
