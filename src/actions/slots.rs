//! What a plan may do in a cluster, where one script reaches the keys of one slot: pure.
//!
//! Everything in the lock's own slot is done in one script. A wake-up in another slot comes after it, in a script of its
//! own: it takes nothing from anybody, so that it does no harm if somebody has taken the lock meanwhile. Anything else
//! in another slot is refused.

use super::gate::Refusal;
use super::plan::Plan;
use super::write::Write;
use crate::dialects::{Step, word};
use crate::lock::{Key, slot_of};

/// What is said before a release whose waiters are woken by a second script.
const NOT_ATOMIC: &str = "In this cluster the waiters are woken by a second script, at the node of another slot: if that \
                          fails, the lock is free and they sleep on.";

/// The scripts of a plan.
pub(super) struct Scripts<'a> {
    /// What is compared and written in the lock's own slot, in one step.
    pub own: Vec<&'a Write>,
    /// The wake-ups after it, each at the key that it writes.
    pub wakes: Vec<(Key, &'a Write)>,
}

impl Plan {
    /// Refuses a plan that can't be done in one step, and says what comes after it.
    pub(super) fn within_slots(mut self) -> Result<Plan, Refusal> {
        let wakes = !self.scripts()?.wakes.is_empty();
        self.hazards.extend(wakes.then(|| NOT_ATOMIC.to_string()));
        Ok(self)
    }

    /// Its scripts. Outside a cluster there is one.
    pub(super) fn scripts(&self) -> Result<Scripts<'_>, Refusal> {
        let own = slot_of(self.key.as_bytes());
        let elsewhere = |key: &[u8]| self.clustered && slot_of(key) != own;
        if let Some(key) = self.checks.iter().filter_map(|check| check.comparison().key).find(|key| elsewhere(key)) {
            return Err(self.apart(&key));
        }
        let mut scripts = Scripts { own: Vec::new(), wakes: Vec::new() };
        for write in &self.writes {
            match (write.keys().into_iter().find(|key| elsewhere(key)), write) {
                (None, _) => scripts.own.push(write),
                (Some(list), Write::Step(Step::Signal { .. })) => scripts.wakes.push((Key::from(list), write)),
                (Some(key), _) => return Err(self.apart(&key)),
            }
        }
        Ok(scripts)
    }

    fn apart(&self, other: &[u8]) -> Refusal {
        Refusal::NotSo(format!(
            "{} and {} are in different slots of the cluster, so they can't be changed in one step; keys share a slot \
             only if their names have the same part in braces (a hash tag). Nothing was changed",
            word(self.key.as_bytes()),
            word(other)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::check::Check;
    use crate::actions::plan::{Freeing, free};
    use crate::lock::RawValue;
    use crate::model::LockView;
    use crate::testkit::sample;

    fn of(key: &str, clustered: bool) -> LockView {
        let value = RawValue::string(b"q83kL+0pZt/1xYbW7mNcR2vH");
        let dialect = "python-redis-lock";
        LockView { key: Key::from(key), value, dialect, clustered, holders: Vec::new(), ..sample::redisson() }
    }

    fn plan(key: &str, clustered: bool) -> Plan {
        let lock = of(key, clustered);
        free(&lock, Freeing { force: true, ..Freeing::default() }, lock.at).unwrap()
    }

    #[test]
    fn a_wake_up_in_another_slot_comes_after_and_the_preview_says_so() {
        let apart = plan("lock:orders", true);
        let scripts = apart.scripts().unwrap();
        assert_eq!((scripts.own.len(), scripts.wakes.len()), (1, 1));
        assert_eq!(scripts.wakes[0].0, Key::from("lock-signal:orders"));
        assert!(apart.hazards.iter().any(|hazard| hazard == NOT_ATOMIC), "{:?}", apart.hazards);
        for (key, clustered) in [("lock:{orders}", true), ("lock:orders", false)] {
            let together = plan(key, clustered);
            assert_eq!(together.scripts().unwrap().own.len(), 2, "{key}");
            assert!(!together.hazards.iter().any(|hazard| hazard == NOT_ATOMIC), "{key}");
        }
    }

    #[test]
    fn what_is_no_wake_up_is_refused_with_both_names_and_the_way() {
        let mut written = plan("lock:orders", true);
        written.writes.push(Write::Expire { key: b"other".to_vec(), ms: 1 });
        let mut compared = plan("lock:orders", true);
        compared.checks.push(Check::Present(b"other".to_vec()));
        for plan in [written, compared] {
            let why = plan.scripts().err().expect("a refusal").to_string();
            assert!(why.starts_with("lock:orders and other are in different slots"), "{why}");
            assert!(why.contains("hash tag"), "{why}");
            assert!(Plan { clustered: false, ..plan }.scripts().is_ok());
        }
    }
}
