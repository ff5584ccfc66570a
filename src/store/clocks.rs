//! Whether the wall clock goes with the time that really passes. Only [`Ticks::now`] reads clocks; the rest is pure.
//!
//! The engine reads the wall clock once and then counts monotonic time. A clock that is set, or a machine that sleeps,
//! makes its times wrong. That is noticed here, and the times are corrected until the engine is started again.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::base::time::Time;
use crate::store::Reason;

/// What the clocks of the machine said when a moment was handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticks {
    pub wall: Time,
    /// Stops while the machine sleeps.
    pub awake: Duration,
    /// Counts on while the machine sleeps.
    pub asleep: Duration,
}

impl Ticks {
    /// Reads the clocks.
    pub fn now() -> Ticks {
        let since = |clock| {
            let read = clock_gettime(clock);
            Duration::new(read.tv_sec.max(0) as u64, read.tv_nsec.clamp(0, 999_999_999) as u32)
        };
        let wall = Time(since(ClockId::Realtime).as_millis() as i64);
        let awake = since(ClockId::Monotonic);
        #[cfg(target_os = "linux")]
        let asleep = since(ClockId::Boottime);
        // Elsewhere a sleep looks like a clock that was set.
        #[cfg(not(target_os = "linux"))]
        let asleep = awake;
        Ticks { wall, awake, asleep }
    }
}

/// From here on a difference is no accident of scheduling.
const APART_MS: i64 = 1_000;

/// A new run, because times before and after do not belong to one clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jump {
    pub reason: Reason,
    /// By how much the clock was set ahead, in milliseconds; not what the machine slept.
    pub set_ms: i64,
}

impl Jump {
    /// One that was not told yet, and another after it.
    pub fn both(first: Option<Jump>, second: Option<Jump>) -> Option<Jump> {
        match (first, second) {
            (Some(first), Some(second)) => Some(Jump { set_ms: first.set_ms + second.set_ms, ..first }),
            (first, second) => first.or(second),
        }
    }
}

/// Compares the clocks from moment to moment.
#[derive(Clone, Debug, Default)]
pub struct Clocks {
    /// Of the moment before, and of the first of the run: wall minus awake, asleep minus awake.
    before: Option<[i64; 2]>,
    began: i64,
    /// What is added to times of the caller's clock.
    shift_ms: i64,
}

impl Clocks {
    /// Takes the clocks at a moment of that time.
    pub fn step(&mut self, at: Time, ticks: Ticks) -> Option<Jump> {
        let awake = ticks.awake.as_millis() as i64;
        let now = [ticks.wall.0 - awake, ticks.asleep.as_millis() as i64 - awake];
        let Some(before) = self.before.replace(now) else {
            self.began = now[0];
            return None;
        };
        let (moved, slept) = (now[0] - before[0], now[1] - before[1]);
        let drifted = now[0] - self.began;
        let jump = if slept >= APART_MS && (moved - slept).abs() < APART_MS {
            Some((Reason::Suspended, 0, moved))
        } else if moved.abs() >= APART_MS {
            Some((Reason::ClockJumped, moved - slept, moved))
        } else if drifted.abs() >= APART_MS {
            Some((Reason::ClockDrifted, 0, drifted))
        } else {
            None
        };
        if let Some((_, _, by)) = jump {
            self.began = now[0];
            self.shift_ms += by;
        }
        // The caller has started its clock again: its times are right by themselves.
        let off = |shift: i64| (ticks.wall.0 - at.0 - shift).abs();
        if self.shift_ms != 0 && off(self.shift_ms) >= APART_MS && off(0) < APART_MS {
            self.shift_ms = 0;
        }
        jump.map(|(reason, set_ms, _)| Jump { reason, set_ms })
    }

    /// A time of the caller's clock as the wall clock has it.
    pub fn corrected(&self, at: Time) -> Time {
        Time(at.0.saturating_add(self.shift_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_763_000_000_000;

    /// Steps through (wall, awake, asleep, the caller's time) in seconds after noon; gives reasons and corrected times.
    fn steps(steps: &[(f64, f64, f64, f64)]) -> Vec<(Option<Reason>, f64)> {
        let mut clocks = Clocks::default();
        let time = |seconds: f64| Time(NOON + (seconds * 1_000.0) as i64);
        let told = steps.iter().map(|(wall, awake, asleep, at)| {
            let [awake, asleep] = [awake, asleep].map(|seconds| Duration::from_secs_f64(500.0 + seconds));
            let jump = clocks.step(time(*at), Ticks { wall: time(*wall), awake, asleep });
            (jump.map(|jump| jump.reason), (clocks.corrected(time(*at)).0 - NOON) as f64 / 1_000.0)
        });
        told.collect()
    }

    #[test]
    fn a_steady_clock_is_one_run() {
        let calm = steps(&[(0.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 1.0), (9.4, 9.0, 9.0, 9.0)]);
        assert_eq!(calm, [(None, 0.0), (None, 1.0), (None, 9.0)]);
    }

    #[test]
    fn a_clock_that_is_set_begins_a_run_and_corrects_the_times_after_it() {
        let ahead = steps(&[(0.0, 0.0, 0.0, 0.0), (3_601.0, 1.0, 1.0, 1.0), (3_602.0, 2.0, 2.0, 2.0)]);
        assert_eq!(ahead, [(None, 0.0), (Some(Reason::ClockJumped), 3_601.0), (None, 3_602.0)]);
        let back = steps(&[(100.0, 0.0, 0.0, 100.0), (41.0, 1.0, 1.0, 101.0)]);
        assert_eq!(back[1], (Some(Reason::ClockJumped), 41.0));
    }

    #[test]
    fn a_machine_that_slept_is_told_from_a_clock_that_was_set() {
        let slept = steps(&[(0.0, 0.0, 0.0, 0.0), (601.0, 1.0, 601.0, 1.0)]);
        assert_eq!(slept[1], (Some(Reason::Suspended), 601.0));
        let both = steps(&[(0.0, 0.0, 0.0, 0.0), (4_201.0, 1.0, 601.0, 1.0)]);
        assert_eq!(both[1].0, Some(Reason::ClockJumped));
    }

    #[test]
    fn a_slow_drift_is_noticed_once_it_is_a_second() {
        let drift: Vec<_> = (0..6).map(|n| f64::from(n) * 100.0).map(|s| (s * 1.003, s, s, s)).collect();
        let told = steps(&drift);
        assert_eq!(told.iter().filter(|(reason, _)| *reason == Some(Reason::ClockDrifted)).count(), 1);
        assert!((told[5].1 - 501.2).abs() < 0.4, "{told:?}");
    }

    #[test]
    fn an_engine_that_was_started_again_needs_no_correction() {
        let again =
            steps(&[(0.0, 0.0, 0.0, 0.0), (61.0, 1.0, 61.0, 1.0), (62.0, 2.0, 62.0, 62.0), (63.0, 3.0, 63.0, 63.0)]);
        assert_eq!(again.map_times(), [0.0, 61.0, 62.0, 63.0]);
        assert_eq!(again.iter().filter(|(reason, _)| reason.is_some()).count(), 1);
    }

    trait Times {
        fn map_times(&self) -> Vec<f64>;
    }

    impl Times for Vec<(Option<Reason>, f64)> {
        fn map_times(&self) -> Vec<f64> {
            self.iter().map(|(_, time)| *time).collect()
        }
    }
}
