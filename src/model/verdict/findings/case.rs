//! All that is known about one lock at one moment, for the findings.

use crate::base::text::{short_duration, visible};
use crate::base::time::Time;
use crate::dialects::Renewal;
use crate::lock::{Holder, Kind};
use crate::model::history::cadence::Cadence;
use crate::model::lock::Reading;
use crate::model::table::Table;
use crate::model::verdict::cause::Gone;
use crate::model::verdict::signs::Signs;
use crate::model::wants::instance::Standing;
use crate::model::{Contention, Hazards, HeldIs, Holds, Lock, State, Tuning};

pub struct Case<'a> {
    pub now: Time,
    pub lock: &'a Lock,
    pub reading: Reading,
    pub state: State,
    pub holders: &'a [Holder],
    /// What keeps locks of its library alive.
    pub renewal: Renewal,
    /// Judged at the time until which renewals would have been reported.
    pub cadence: Option<Cadence>,
    pub held: Option<(u64, HeldIs)>,
    /// Whether the connections of its only holder are open.
    pub(in crate::model) standing: Standing<'a>,
    /// What says that its only holder is gone.
    pub(in crate::model) signs: Signs,
    /// Which of several holders are gone, by their places among `holders`.
    pub(in crate::model) gone: Vec<(usize, Gone<'a>)>,
    /// The key that says that its work is done, where there is one.
    pub marker: Option<&'a Lock>,
    /// What is usual for locks of its name pattern.
    pub holds: &'a Holds,
    pub hazards: Option<&'a Hazards>,
    pub tuning: &'a Tuning,
    pub(super) table: &'a Table,
}

impl Case<'_> {
    /// Whether it is held. Nobody holds a marker.
    pub fn is_held(&self) -> bool {
        self.lock.is_held() && self.reading.kind == Kind::Lock && !self.reading.vacant
    }

    /// What would settle whether its holder lives.
    pub fn settle(&self) -> String {
        self.table.settles(self.lock, self.signs, self.now)
    }

    /// Whether only one client at a time works under it, and it is the one that took it.
    pub fn is_worked_under(&self) -> bool {
        self.reading.is_alone() && !self.reading.stays && !self.reading.test
    }

    /// One works under it now, whether others could beside it or not.
    pub fn has_one_worker(&self) -> bool {
        self.lock.has_one_holder() && !self.reading.stays && !self.reading.test
    }

    pub fn contention(&self) -> Option<&Contention> {
        self.lock.contention()
    }

    pub fn lease_ms(&self) -> Option<u64> {
        self.lock.lease_ms()
    }

    /// The lease as far as it is known: `1h00m`, or `at least 1h00m`.
    pub fn lease_words(&self) -> String {
        match self.lock.lease() {
            Some((ms, HeldIs::AtLeast)) => format!("at least {}", short_duration(ms)),
            Some((ms, _)) => short_duration(ms),
            None => "not known".into(),
        }
    }

    pub fn held_ms(&self) -> Option<u64> {
        self.held.map(|(ms, _)| ms)
    }

    /// `3.1s`, or `at least 3.1s`.
    pub fn held_words(&self) -> String {
        match self.held {
            Some((ms, HeldIs::AtLeast)) => format!("at least {}", short_duration(ms)),
            Some((ms, _)) => short_duration(ms),
            None => "an unknown time".into(),
        }
    }

    pub fn ms_since(&self, at: Time) -> u64 {
        self.now.since(at).as_millis() as u64
    }

    /// `3.1s ago`.
    pub fn ago(&self, at: Time) -> String {
        format!("{} ago", short_duration(self.ms_since(at)))
    }

    /// Whether it was at most this long ago.
    pub fn is_within(&self, at: Time, seconds: f64) -> bool {
        self.now.since(at).as_secs_f64() <= seconds
    }

    /// The name pattern of its kind, for people.
    pub fn kind_words(&self) -> String {
        match self.holds.pattern() {
            [] => "all other locks".into(),
            pattern => visible(pattern),
        }
    }

    /// The 99th percentile of hold times of its kind, if at least this many are over.
    pub fn p99_ms(&self, of_at_least: f64) -> Option<u64> {
        self.holds.p99_ms().filter(|_| self.holds.timed() as f64 >= of_at_least)
    }
}
