//! How much of the time that was asked for is known at all. Comes before any number.

use std::time::Duration;

use crate::base::text::short_duration;
use crate::base::time::Time;

/// Less than this, and nothing is suggested.
pub const ENOUGH: f64 = 0.8;

/// From a shorter history nothing is suggested either.
const LEAST: Duration = Duration::from_secs(600);

/// A time of which nothing, or not everything, is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hole {
    pub from: Time,
    pub to: Time,
    /// For people.
    pub why: String,
}

/// What a history has of the time that was asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct Coverage {
    /// What was asked for.
    pub from: Time,
    pub to: Time,
    /// Of that time, how long something was recorded.
    pub recorded: Duration,
    /// Oldest first.
    pub holes: Vec<Hole>,
    /// From which time on there is a value each so often, oldest first. What is older is coarser.
    pub steps: Vec<(Time, Duration)>,
    /// What the rule needs and is not always measured, and the share of the time for which it was.
    pub measured: Option<(f64, &'static str)>,
    /// Evaluations are further apart than the daemon's, because there was too much to keep in memory.
    pub coarser: bool,
}

impl Coverage {
    pub fn asked(&self) -> Duration {
        self.to.since(self.from)
    }

    /// From 0 to 1.
    pub fn share(&self) -> f64 {
        let asked = self.asked().as_secs_f64();
        if asked <= 0.0 { 0.0 } else { (self.recorded.as_secs_f64() / asked).min(1.0) }
    }

    /// Why it is too little to suggest anything.
    pub fn is_too_little(&self) -> Option<String> {
        let percent = |share: f64| format!("{:.0} %", (share * 100.0).floor());
        if self.share() < ENOUGH {
            return Some(format!("only {} of the time is covered, and 80 % are needed", percent(self.share())));
        }
        if self.recorded < LEAST {
            return Some(format!("only {} are recorded, and 10m are needed", short(self.recorded)));
        }
        let (share, needs) = self.measured?;
        (share < ENOUGH).then(|| format!("it was measured for only {} of the time: {needs}", percent(share)))
    }
}

fn short(duration: Duration) -> String {
    short_duration(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
