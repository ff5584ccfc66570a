//! The state machine of one alert: exactly that of Prometheus.
//!
//! It is stepped once for each evaluation, with the value of the rule's expression for one set of labels. It knows no
//! labels, no series and no clock: live watching and replay step the same machine.

use crate::alerts::mutation::{self, Mutation};
use crate::alerts::{AlertState, Compare, Rule};
use crate::base::time::Time;

/// When a rule's alerts begin and end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Condition {
    pub compare: Compare,
    /// The level that a firing alert must come back to.
    pub recover: Option<f64>,
    /// In milliseconds, as the fields below.
    pub hold_for: i64,
    pub keep_firing_for: i64,
}

impl From<&Rule> for Condition {
    fn from(rule: &Rule) -> Condition {
        let millis = |duration: std::time::Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Condition {
            compare: rule.compare,
            recover: rule.recover,
            hold_for: millis(rule.hold_for),
            keep_firing_for: millis(rule.keep_firing_for),
        }
    }
}

impl Condition {
    /// What is wrong with the recovery level: it must lie on the calm side of the threshold.
    pub fn wrong_recovery(&self) -> Option<String> {
        let (key, side, level) = match (self.compare, self.recover) {
            (Compare::Above(above), Some(recover)) if recover >= above => ("above", "lower", above),
            (Compare::Below(below), Some(recover)) if recover <= below => ("below", "higher", below),
            _ => return None,
        };
        Some(format!("'recover' has to be {side} than {key} = {level}: it is where a firing alert ends"))
    }
}

/// A target that is out of sight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Unseen {
    pub since: Time,
    /// Not for too long yet: what fires stays.
    pub stays: bool,
}

/// A change of state at one evaluation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    pub from: AlertState,
    pub to: AlertState,
    /// The first evaluation of this alert in which the condition held.
    pub active_at: Time,
    pub fired_at: Option<Time>,
    /// Since when nothing was known of it, if it ended or goes on so.
    pub unknown_since: Option<Time>,
}

/// The alert of one set of labels.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    condition: Condition,
    phase: Phase,
    value: Option<f64>,
    /// Since when it only stays, because nothing is known.
    unknown_since: Option<Time>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Inactive,
    Pending {
        active_at: Time,
    },
    Firing {
        active_at: Time,
        fired_at: Time,
        /// The first evaluation since which the condition has not held.
        keep_since: Option<Time>,
    },
}

impl Machine {
    pub fn new(condition: Condition) -> Machine {
        Machine { condition, phase: Phase::Inactive, value: None, unknown_since: None }
    }

    /// One that fires since before the first evaluation.
    pub fn firing(condition: Condition, active_at: Time, fired_at: Time, value: Option<f64>) -> Machine {
        let phase = Phase::Firing { active_at, fired_at, keep_since: None };
        Machine { condition, phase, value, unknown_since: None }
    }

    /// One evaluation. `None` stands for a series that is not there. `unseen`: its target is out of sight, and what
    /// fires may stay so.
    pub fn step(&mut self, at: Time, value: Option<f64>, unseen: Option<Unseen>) -> Option<Change> {
        let before = self.phase;
        let unseen = unseen.filter(|_| matches!(before, Phase::Firing { .. }) && !mutation::is(Mutation::Stay));
        match value.filter(|value| self.level().holds(*value)) {
            // Nearly all steps of a replay.
            None if before == Phase::Inactive => return None,
            Some(value) => {
                (self.value, self.unknown_since) = (Some(value), None);
                self.held(at);
            }
            None => {
                self.unknown_since = unseen.map(|unseen| unseen.since);
                match unseen.is_some_and(|unseen| unseen.stays) {
                    true => self.held(at),
                    false => self.not_held(at),
                }
            }
        }
        if let Phase::Pending { active_at } = self.phase
            && reaches(since(at, active_at), self.condition.hold_for)
        {
            self.phase = Phase::Firing { active_at, fired_at: at, keep_since: None };
        }
        let (from, to) = (before.state(), self.phase.state());
        let told = if to == AlertState::Inactive { before } else { self.phase };
        let unknown_since = self.unknown_since;
        if to == AlertState::Inactive {
            self.unknown_since = None;
        }
        let active_at = told.active_at().unwrap_or(at);
        (from != to).then(|| Change { from, to, active_at, fired_at: told.fired_at(), unknown_since })
    }

    /// When it may change while the value stays as it is: earlier evaluations change nothing. `None`: never.
    pub fn changes_at(&self) -> Option<Time> {
        let Condition { hold_for, keep_firing_for, .. } = self.condition;
        match self.phase {
            Phase::Pending { active_at } => Some(Time(active_at.0.saturating_add(hold_for))),
            Phase::Firing { keep_since, .. } => keep_since.map(|since| Time(since.0.saturating_add(keep_firing_for))),
            Phase::Inactive => None,
        }
    }

    /// What the next value is compared with: of an alert that fires, its recovery level.
    pub fn level(&self) -> Compare {
        let Condition { compare, recover, .. } = self.condition;
        let firing = matches!(self.phase, Phase::Firing { .. }) && !mutation::is(Mutation::Recovery);
        // A level on the wrong side of the threshold counts for nothing.
        let lower = recover.filter(|level| firing && compare.with(*level).holds(compare.threshold()));
        lower.map_or(compare, |level| compare.with(level))
    }

    fn held(&mut self, at: Time) {
        match &mut self.phase {
            Phase::Inactive => self.phase = Phase::Pending { active_at: at },
            Phase::Pending { .. } => {}
            Phase::Firing { keep_since, .. } => *keep_since = None,
        }
    }

    fn not_held(&mut self, at: Time) {
        match &mut self.phase {
            Phase::Inactive => {}
            Phase::Pending { .. } => self.phase = Phase::Inactive,
            Phase::Firing { keep_since, .. } => {
                let keep = self.condition.keep_firing_for;
                let first = *keep_since.get_or_insert(at);
                if keep == 0 || !within(since(at, first), keep) {
                    self.phase = Phase::Inactive;
                }
            }
        }
    }

    pub fn state(&self) -> AlertState {
        self.phase.state()
    }

    /// Of the last evaluation in which the condition held.
    pub fn value(&self) -> Option<f64> {
        self.value
    }

    /// The first evaluation of the current alert in which the condition held.
    pub fn active_at(&self) -> Option<Time> {
        self.phase.active_at()
    }

    pub fn fired_at(&self) -> Option<Time> {
        self.phase.fired_at()
    }

    /// Since when it only stays, because nothing is known.
    pub fn unknown_since(&self) -> Option<Time> {
        self.unknown_since
    }
}

impl Phase {
    fn state(self) -> AlertState {
        match self {
            Phase::Inactive => AlertState::Inactive,
            Phase::Pending { .. } => AlertState::Pending,
            Phase::Firing { .. } => AlertState::Firing,
        }
    }

    fn active_at(self) -> Option<Time> {
        match self {
            Phase::Inactive => None,
            Phase::Pending { active_at } | Phase::Firing { active_at, .. } => Some(active_at),
        }
    }

    fn fired_at(self) -> Option<Time> {
        match self {
            Phase::Firing { fired_at, .. } => Some(fired_at),
            Phase::Inactive | Phase::Pending { .. } => None,
        }
    }
}

fn since(at: Time, earlier: Time) -> i64 {
    at.0.saturating_sub(earlier.0)
}

fn reaches(lasted: i64, wanted: i64) -> bool {
    lasted >= wanted + i64::from(mutation::is(Mutation::For))
}

fn within(lasted: i64, limit: i64) -> bool {
    lasted < limit + i64::from(mutation::is(Mutation::Keep))
}

#[cfg(test)]
mod tests;
