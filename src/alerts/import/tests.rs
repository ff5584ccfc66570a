//! Rules that go out and come back, and rules of others.

use super::*;
use crate::alerts::{Rules, exported};

fn imported(yaml: &str) -> Imported {
    import(yaml).unwrap_or_else(|why| panic!("{why}\n{yaml}"))
}

fn rule(rest: &str) -> String {
    format!("groups:\n- name: g\n  rules:\n  - alert: A\n    labels: {{severity: page}}\n    {rest}\n")
}

#[test]
fn the_default_rules_come_back_as_they_were() {
    let rules = Rules::default_rules();
    let back = imported(&exported(&rules, "g"));
    assert!(back.refused.is_empty() && back.remarks.is_empty(), "{:?} {:?}", back.refused, back.remarks);
    assert_eq!(Rules::parse(&back.toml()).unwrap(), rules);
}

#[test]
fn every_form_that_we_export_comes_back() {
    let text = r#"
default_rules = false
[[rules]]
name = "Recovers"
metric = "lockscope_waiters"
selector = "pattern:orders:*"
above = 10.5
recover = -3
for = "90s"
note = "it's {{ $labels.pattern }} \"quoted\"\nand two lines"
[[rules]]
name = "Keeps"
metric = "lockscope_waiters_max"
by = ["target"]
below = 1e-7
no_data = "keep 40s"
[[rules]]
name = "NoSeries"
metric = "lockscope_holds_ended_total"
selector = '(ending:evicted or ending:flushed) key:"a (b)"'
window = "1500ms"
above = 0
no_data = "alert"
severity = "info"
runbook = "https://x/{{y}}"
[[rules]]
name = "Share"
metric = "lockscope_holds_expired_ratio"
by = []
window = "5m"
above = 0.4
recover = 0.25
no_data = "alert"
[[rules]]
name = "Old"
metric = "lockscope_oldest_hold_age_seconds"
selector = "not target:x"
above = 900
no_data = "keep 3m"
keep_firing_for = "1d"
[[rules]]
name = "Blind"
metric = "lockscope_blind"
above = 0
"#;
    let rules = Rules::parse(text).unwrap();
    let yaml = exported(&rules, "g");
    let back = imported(&yaml);
    assert!(back.refused.is_empty(), "{:?}\n{yaml}", back.refused);
    let again = Rules::parse(&back.toml()).unwrap_or_else(|fault| panic!("{fault}\n{}", back.toml()));
    assert_eq!(exported(&again, "g"), yaml);
    for (one, other) in again.iter().zip(rules.iter()) {
        let same = Rule { selector: other.selector.clone(), ..one.clone() };
        assert_eq!(&same, other, "all but the way its selector is written");
    }
}

#[test]
fn simple_rules_of_others_are_taken() {
    for (expr, expected) in [
        ("expr: lockscope_waiters   >5", "metric = \"lockscope_waiters\"\nabove = 5\n"),
        (
            "expr: |\n      4 <\n        lockscope_waiters_max{}  # many",
            "metric = \"lockscope_waiters_max\"\nabove = 4\n",
        ),
        ("expr: lockscope_locks{state='orphan'} > 0", "selector = \"state:orphan\"\nabove = 0\n"),
        ("expr: sum by(target)(lockscope_locks{state=~'split|orphan'}) > 2", "by = [\"target\"]\nabove = 2\n"),
        ("expr: increase(lockscope_renewals_late_total[10m]) > 3 * 2", "above = 6\nwindow = \"10m\"\n"),
        (
            "expr: time() - min by (target, pattern) (lockscope_oldest_hold_timestamp_seconds) > 600",
            "metric = \"lockscope_oldest_hold_age_seconds\"\nabove = 600\n",
        ),
        ("expr: absent(lockscope_build_info)", "metric = \"lockscope_absent\"\nabove = 0\n"),
    ] {
        let back = imported(&rule(expr));
        assert!(back.toml().contains(expected), "{expr}: {:?} {}", back.refused, back.toml());
    }
}

#[test]
fn what_can_not_be_taken_is_named_with_the_reason() {
    for (rest, part) in [
        ("expr: up == 0", "'=='"),
        ("expr: up < 1", "no metric of lockscope"),
        ("expr: lockscope_waiters >= 5", "'>='"),
        ("expr: lockscope_waiters > 5 and lockscope_up == 1", "\"and\" joins"),
        ("expr: lockscope_waiters{pattern='orders'} > 5", "names it exactly"),
        ("expr: lockscope_waiters{job='x'} > 5", "no label \"job\""),
        ("expr: rate(lockscope_renewals_total[5m]) > 5", "nothing like it from lockscope_renewals_total"),
        ("expr: lockscope_renewals_total > 5", "window"),
        ("expr: avg by (target) (lockscope_locks) > 5", "nothing like it"),
        ("expr: histogram_quantile(0.9, rate(lockscope_hold_duration_seconds_bucket[5m])) > 5", "is a histogram"),
        ("expr: lockscope_waiters offset 5m > 5", "nothing like it"),
        ("expr: increase(lockscope_renewals_total[5m]) > 5\n    for: soon", "no duration"),
        ("expr: absent(lockscope_up)", "nothing like it"),
        ("expr: lockscope_up < 1\n    mystery: 1", "\"mystery\""),
        ("for: 5m", "no 'expr'"),
        (
            "expr: lockscope_waiters > 9 or (lockscope_waiters > 5 and on (target, pattern) ALERTS{alertname=\"B\", alertstate=\"firing\"})",
            "another alert",
        ),
        (
            "expr: lockscope_waiters > 9 or (lockscope_waiters > 5 and on (target) ALERTS{alertname=\"A\", alertstate=\"firing\"})",
            "nothing like it",
        ),
    ] {
        let back = imported(&rule(rest));
        let [(_, name, why)] = &back.refused[..] else { panic!("{rest}: {:?}", back.rules) };
        assert!(name == "A" && why.contains(part), "{rest}: {why}");
        assert!(back.rules.is_empty());
    }
    let recorded = imported("groups:\n- rules:\n  - record: a:b\n    expr: up\n");
    assert!(recorded.refused[0].2.contains("records a series"));
}

#[test]
fn what_differs_in_a_rule_of_others_is_told() {
    let back = imported(
        "groups:\n- rules:\n  - alert: A\n    expr: lockscope_up < 1\n    for: 1h30m\n    labels: {severity: warning, team: x}\n    annotations: {summary: 'down {{ $labels.node }}', dashboard: z}\n",
    );
    let told: Vec<&str> = back.remarks.iter().map(|(_, _, why)| why.as_str()).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[0].contains("\"warning\" is \"ticket\"") && told[1].contains("team") && told[2].contains("dashboard"));
    assert!(back.toml().contains("for = \"90m\"") && back.toml().contains("note = "));
}

#[test]
fn a_file_that_is_none_is_told() {
    for (text, part) in [("a: 1", "no groups"), ("groups: [", "not valid YAML"), ("", "no groups")] {
        assert!(import(text).expect_err(text).contains(part), "{text}");
    }
}
