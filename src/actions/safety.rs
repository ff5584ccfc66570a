//! Whether many locks are safe to free, in a few lines: how many are, why the others are not, and what happens to living
//! holders. Pure.

use std::collections::BTreeSet;

use super::plan::Plan;
use crate::dialects::IfFreed;
use crate::model::Safe;

/// At most this many locks that are not safe are named.
const NAMED: usize = 3;

/// A line with the numbers, then one for each lock that is not simply safe.
pub fn safe_to_free<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Vec<String> {
    let judged: Vec<(&Plan, &Safe)> = plans.into_iter().filter_map(|plan| Some((plan, plan.safe.as_ref()?))).collect();
    let count = |answer: &str| judged.iter().filter(|(_, safe)| safe.advice.answer() == answer).count();
    let counts = ["yes", "not yet", "not known", "no"].map(|answer| (answer, count(answer)));
    let numbers: Vec<String> =
        counts.iter().filter(|(_, count)| *count > 0).map(|(answer, count)| format!("{answer}: {count}")).collect();
    let mut lines: Vec<String> = (!numbers.is_empty()).then(|| numbers.join(", ")).into_iter().collect();
    let others: Vec<&(&Plan, &Safe)> = judged.iter().filter(|(_, safe)| safe.advice.answer() != "yes").collect();
    lines.extend(others.iter().take(NAMED).map(|(plan, safe)| {
        let advice = safe.advice;
        format!("{}: {}; {}", plan.key, advice.answer(), advice.words())
    }));
    if others.len() > NAMED {
        lines.push(format!("and {} more that are not a yes", others.len() - NAMED));
    }
    // Each library once.
    let unknown = IfFreed::Unknown.sentence();
    let known = judged.iter().map(|(_, safe)| safe.if_freed.as_str()).filter(|sentence| *sentence != unknown);
    let consequences: BTreeSet<&str> = known.collect();
    lines.extend(consequences.into_iter().map(|sentence| format!("{sentence}.")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::{Freeing, plan};
    use crate::lock::Key;
    use crate::model::{LockView, State, Verdict};
    use crate::testkit::sample;

    fn freed(lock: &LockView) -> Plan {
        plan::free(lock, Freeing::default(), lock.at).unwrap()
    }

    #[test]
    fn those_that_are_not_safe_are_named_and_not_too_many_of_them() {
        let gone = Verdict { state: State::Orphan, evidence: Vec::new(), confidence: 0.97 };
        let long = std::time::Duration::from_secs(300);
        let orphan = LockView { verdict: gone, ttl: crate::base::time::Ttl::In(long), ..sample::redisson() };
        let live = |number| LockView { key: Key::from(format!("lock:{number}").as_str()), ..sample::redisson() };
        let lines = safe_to_free(&[freed(&orphan), freed(&live(1))]);
        assert_eq!(lines[..2], ["yes: 1, no: 1", "lock:1: no; ask the owner: it is renewing"]);
        assert!(lines.len() == 3 && lines[2].contains("IllegalMonitorStateException"), "judged once: {lines:?}");
        let many: Vec<Plan> = (0..30).map(|number| freed(&live(number))).collect();
        let lines = safe_to_free(&many);
        assert_eq!((lines.len(), lines[0].as_str()), (6, "no: 30"));
        assert!(lines[4].starts_with("and 27 more"), "{lines:?}");
        assert!(safe_to_free([]).is_empty());
    }
}
