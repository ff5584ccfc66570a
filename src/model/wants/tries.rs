//! Attempts to take a lock and how many failed, with the source of the numbers and how much time they cover.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::serial;
use crate::base::time::Time;

/// Where the numbers come from; always shown beside them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TriesFrom {
    /// Counted by the scripts that take the lock, or published by its library: each one is in it.
    Counted,
    /// Seen in bursts of MONITOR: exact for the time sampled, an estimate beyond it.
    Sampled,
}

impl TriesFrom {
    /// The word of the JSON contract.
    pub fn name(self) -> &'static str {
        match self {
            TriesFrom::Counted => "counted",
            TriesFrom::Sampled => "sampled",
        }
    }

    /// Behind a rate: `4.2=c`, `4.2~m`.
    pub fn mark(self) -> &'static str {
        match self {
            TriesFrom::Counted => "=c",
            TriesFrom::Sampled => "~m",
        }
    }
}

/// Attempts in a span of time that ended at `at`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tries {
    pub attempts: u64,
    pub failures: u64,
    /// Attempts with an unknown outcome: if there are any, the number of failures is unknown.
    pub unjudged: u64,
    /// Runs of scripts that name the lock and were not understood: each may be an attempt, so neither number is known.
    pub unclear: u64,
    /// How much of the span was sampled; all of it if each attempt is counted.
    pub looked: Duration,
    pub span: Duration,
    /// Half-width of the 95 % confidence interval of the failures a second. Zero where each failure is counted.
    #[serde(with = "serial::float")]
    pub margin_per_s: f64,
    pub from: TriesFrom,
    pub at: Time,
}

impl Tries {
    /// Older numbers say nothing about the present.
    const FRESH_MS: u64 = 60_000;

    pub fn is_fresh(&self, now: Time) -> bool {
        now.ms_since(self.at) <= Self::FRESH_MS
    }

    pub fn attempts_per_s(&self) -> f64 {
        self.attempts as f64 / self.looked.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    pub fn failures_per_s(&self) -> f64 {
        self.failures as f64 / self.looked.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// A whole number to sort by: failures in a thousand seconds; `None` if unknown.
    pub fn known_rank(&self) -> Option<u64> {
        self.known_failures_per_s().map(|per_s| (per_s * 1_000.0) as u64)
    }

    /// `None` if some script runs may be attempts: a number without them would be too low.
    pub fn known_attempts_per_s(&self) -> Option<f64> {
        (self.unclear == 0).then(|| self.attempts_per_s())
    }

    /// The same of failures, or `None` if some attempts could not be judged either.
    pub fn known_failures_per_s(&self) -> Option<f64> {
        (self.unknown_why().is_none()).then(|| self.failures_per_s())
    }

    /// Why the failures are not known, as a clause.
    pub fn unknown_why(&self) -> Option<&'static str> {
        match (self.unclear, self.unjudged) {
            (1.., _) => Some("scripts that lockscope does not know used its key"),
            (0, 1..) => Some("without notifications the result of an attempt is not known"),
            (0, 0) => None,
        }
    }

    /// The share of the time that was sampled, 0 to 1.
    pub fn coverage(&self) -> f64 {
        (self.looked.as_secs_f64() / self.span.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0)
    }
}
