//! The findings: each is a small file with a `check` that makes a sentence with numbers from the facts about a lock.
//!
//! A new one is a file with a `LINT`, a place in [`ALL`], its thresholds in [`Tuning`](crate::model::Tuning) and a scenario in tests/scenarios.
//! Nothing here asks a server: all that a check may use is in the [`Case`].

mod case;
mod dead_heads;
mod dead_holder;
mod eviction_hazard;
mod freed_by_other;
mod leaked_permits;
mod lease_too_long;
mod lease_too_short;
mod marker_early;
mod never_stops;
mod no_watchdog;
mod non_atomic_acquire;
mod orphan_suspected;
mod outlived;
mod renewed_by_nobody_known;
mod renewed_late;
mod starving;
mod suggestion;
mod taken_over;

pub use case::Case;

use crate::base::time::Time;
use crate::dialects;
use crate::lock::Holder;
use crate::model::table::Table;
use crate::model::verdict::cause::Gone;
use crate::model::verdict::signs::Signs;
use crate::model::{Finding, Lock, LockView, State};

/// The advice on how to find the client behind a token.
pub(super) const SETTLE: &str = "sample with MONITOR: it shows whether its holder's client is still connected";

/// One kind of finding.
pub struct Lint {
    pub name: &'static str,
    /// The verb for one lock and for several: "is renewed too late", "are renewed too late".
    words: (&'static str, &'static str),
    /// States whose own sentence says the same.
    said_by: &'static [State],
    /// Also reported for a lock that nobody holds any more.
    of_free: bool,
    check: fn(&Case<'_>) -> Option<Finding>,
}

/// All of them, the worst first.
pub const ALL: [Lint; 17] = [
    taken_over::LINT,
    outlived::LINT,
    freed_by_other::LINT,
    orphan_suspected::LINT,
    dead_holder::LINT,
    dead_heads::LINT,
    marker_early::LINT,
    non_atomic_acquire::LINT,
    renewed_by_nobody_known::LINT,
    renewed_late::LINT,
    never_stops::LINT,
    starving::LINT,
    leaked_permits::LINT,
    no_watchdog::LINT,
    lease_too_short::LINT,
    lease_too_long::LINT,
    eviction_hazard::LINT,
];

pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|lint| lint.name)
}

impl Lint {
    /// "3 locks are renewed too late".
    fn summary(&self, count: usize) -> String {
        match count {
            1 => format!("1 lock {}", self.words.0),
            count => format!("{count} locks {}", self.words.1),
        }
    }

    fn finding(&self, sentence: String, confidence: f32) -> Finding {
        Finding { name: self.name, sentence, confidence, settle: None }
    }
}

/// A sentence for each finding that any of these locks has, the worst first, with its name.
pub fn summaries(locks: &[LockView]) -> Vec<(&'static str, String)> {
    let count = |lint: &Lint| locks.iter().filter(|lock| lock.findings.iter().any(|one| one.name == lint.name)).count();
    let counted = ALL.iter().map(|lint| (lint, count(lint))).filter(|(_, count)| *count > 0);
    counted.map(|(lint, count)| (lint.name, lint.summary(count))).collect()
}

/// Whether a state's own sentence says what the finding says.
pub(in crate::model) fn is_said_by(name: &str, state: State) -> bool {
    ALL.iter().any(|lint| lint.name == name && lint.said_by.contains(&state))
}

impl Table {
    /// What is wrong with a lock or with how it is used, the worst first.
    pub(in crate::model) fn findings(
        &self,
        lock: &Lock,
        holders: &[Holder],
        (state, signs): (State, Signs),
        now: Time,
    ) -> Vec<Finding> {
        let Some(case) = self.case(lock, holders, (state, signs), now) else { return Vec::new() };
        let wanted = |lint: &&Lint| (case.is_held() || lint.of_free) && !self.tuning.is_silenced(lint.name);
        ALL.iter().filter(wanted).filter_map(|lint| (lint.check)(&case)).collect()
    }

    /// Those of several holders that are gone, by their places.
    fn gone_holders<'a>(&'a self, lock: &Lock, holders: &[Holder], now: Time) -> Vec<(usize, Gone<'a>)> {
        let followed = self.followed(lock, now);
        let gone = |(index, holder): (usize, &Holder)| {
            let share = lock.held_by.share(self.clients.holder_id(&holder.token))?;
            Some((index, self.share_gone(lock, share, followed)?))
        };
        holders.iter().enumerate().filter_map(gone).collect()
    }

    fn case<'a>(
        &'a self,
        lock: &'a Lock,
        holders: &'a [Holder],
        (state, signs): (State, Signs),
        now: Time,
    ) -> Option<Case<'a>> {
        let reading = lock.reading()?;
        Some(Case {
            now,
            lock,
            reading,
            state,
            holders,
            renewal: dialects::dialect(reading.dialect).renewal(),
            cadence: lock.cadence(self.heard_until(lock, now)),
            held: self.held_for(lock, now),
            standing: self.standing(lock),
            signs,
            gone: self.gone_holders(lock, holders, now),
            marker: self.marker_of(lock),
            holds: self.holds(lock),
            hazards: self.hazards_of(lock),
            tuning: &self.tuning,
            table: self,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::sample;

    #[test]
    fn several_locks_make_one_sentence() {
        let finding = |name| Finding { name, sentence: String::new(), confidence: 1.0, settle: None };
        let late = LockView { findings: vec![finding("renewed-late"), finding("starving")], ..sample::redisson() };
        let other = LockView { findings: vec![finding("renewed-late")], ..sample::redisson() };
        assert_eq!(
            summaries(&[late, other, sample::redisson()]),
            [
                ("renewed-late", "2 locks are renewed too late".to_string()),
                ("starving", "1 lock has a contender that starves".into())
            ]
        );
    }

    #[test]
    fn names_are_words_that_a_config_can_have() {
        let names: Vec<&str> = names().collect();
        for (index, name) in names.iter().enumerate() {
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
            assert!(!names[..index].contains(name), "{name}");
        }
    }
}
