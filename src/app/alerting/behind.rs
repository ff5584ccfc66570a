//! Which locks are behind an alert: the pattern that its labels name, and a filter for what the rule is about.

use std::collections::BTreeMap;

use crate::alerts::{Compare, Rule};
use crate::model::GroupName;
use crate::model::figures::OTHER;

/// The locks behind an alert.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Behind {
    pub group: Option<GroupName>,
    /// Parts of a filter that must all match.
    parts: Vec<String>,
}

/// What a filter compares instead of these metrics.
const MEASURES: [(&str, &str, &str); 6] = [
    ("lockscope_oldest_hold_age_seconds", "held", "s"),
    ("lockscope_waiters", "wait", ""),
    ("lockscope_waiters_max", "wait", ""),
    ("lockscope_missed_renewals_max", "missed", ""),
    ("lockscope_failures_per_second", "fail", ""),
    ("lockscope_failure_ratio", "fail", ""),
];

impl Behind {
    pub(super) fn of(rule: &Rule, labels: &BTreeMap<String, String>) -> Behind {
        let mut named: BTreeMap<&str, &str> = rule.selector.certain().into_iter().collect();
        named.extend(labels.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let group = named.get("pattern").map(|pattern| match *pattern {
            OTHER => GroupName::OtherPatterns,
            pattern => GroupName::Pattern(pattern.into()),
        });
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let field = |name: &str| named.get(name).filter(|value| !value.is_empty());
        let mut parts = Vec::new();
        parts.extend(field("state").map(|state| format!("state:{state}")));
        parts.extend(field("finding").map(|finding| format!("finding:{finding}")));
        parts.extend(field("node").map(|node| format!("node:{}", quoted(node))));
        parts.extend(measure(rule));
        Behind { group, parts }
    }

    pub fn filter_text(&self) -> String {
        self.parts.join(" and ")
    }
}

/// The sum over a pattern exceeds the threshold; of one lock it is only known that it has some.
fn measure(rule: &Rule) -> Option<String> {
    let metric = rule.metric.metric().name;
    let (_, field, unit) = MEASURES.into_iter().find(|(name, ..)| *name == metric)?;
    let Compare::Above(level) = rule.compare else { return None };
    let of_one = matches!(
        metric,
        "lockscope_oldest_hold_age_seconds" | "lockscope_waiters_max" | "lockscope_missed_renewals_max"
    );
    let level = if of_one { level.max(0.0).floor() } else { 0.0 };
    Some(format!("{field}>{level}{unit}"))
}
