//! Files of rules as people write them, right and wrong.

use super::*;
use crate::alerts::{Compare, NoData, Severity};

fn wrong(text: &str) -> String {
    match Rules::parse(text) {
        Ok(rules) => panic!("{text} was taken: {} rules", rules.len()),
        Err(fault) => {
            assert_eq!(fault.exit_code(), 2);
            fault.to_string()
        }
    }
}

#[test]
fn the_template_is_the_default_rules() {
    let rules = Rules::parse(DEFAULT_RULES).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(rules, Rules::default_rules());
    assert_eq!(rules.len(), 15);
    rules.check_windows(Duration::from_secs(60)).expect("a scrape a minute is enough for every window");
    for rule in rules.iter() {
        assert!(!rule.note.is_empty(), "{} has no note", rule.name);
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(&rule.runbook);
        assert!(rule.runbook.starts_with("docs/incidents/") && page.is_file(), "{}: {}", rule.name, rule.runbook);
    }
    // Each number has its reason above it.
    let reasons = DEFAULT_RULES.split("\n\n").filter(|part| part.contains("[[rules]]"));
    assert_eq!(reasons.filter(|part| part.starts_with("# ")).count(), 15);
}

#[test]
fn every_key_is_read() {
    let rules = Rules::parse(
        r#"
        default_rules = false
        [[rules]]
        name = "Waits"
        metric = "lockscope_waiters_max"
        selector = "orders:*"
        by = ["target"]
        above = 10
        recover = 2.5
        for = "1m30s"
        keep_firing_for = "2m"
        no_data = "keep 10m"
        severity = "page"
        note = "Look."
        runbook = "https://wiki/locks"
        [[rules]]
        name = "Dropped"
        metric = "lockscope_holds_ended_total"
        window = "5m"
        below = -1
        "#,
    )
    .unwrap();
    let rule = rules.named("Waits").expect("the rule");
    assert_eq!((rule.compare, rule.recover, rule.severity), (Compare::Above(10.0), Some(2.5), Severity::Page));
    assert_eq!((rule.hold_for, rule.keep_firing_for), (Duration::from_secs(90), Duration::from_secs(120)));
    assert_eq!((rule.no_data, rule.labels()), (NoData::Keep(Duration::from_secs(600)), vec!["target"]));
    assert_eq!((rule.note.as_str(), rule.runbook.as_str()), ("Look.", "https://wiki/locks"));
    assert!(rules.name_pattern("orders:eu:*") && !rules.name_pattern("cart:*"));
    let other = rules.named("Dropped").expect("the rule");
    assert_eq!((other.compare, other.severity), (Compare::Below(-1.0), Severity::Ticket));
    assert_eq!(
        other.no_data,
        NoData::Stay(Duration::from_secs(3_600)),
        "an outage does not end what fires about locks"
    );
}

#[test]
fn a_file_changes_and_switches_off_default_rules_by_name() {
    let text = r#"
        [[rules]]
        name = "LockHeldTooLong"
        above = 3600
        selector = "orders:*"
        [[rules]]
        name = "LockEvictionHazard"
        off = true
        [[rules]]
        name = "Mine"
        metric = "lockscope_waiters"
        above = 100
    "#;
    let rules = Rules::parse(text).unwrap();
    assert_eq!(rules.len(), 15, "one less, one more");
    assert!(rules.named("LockEvictionHazard").is_none() && rules.named("Mine").is_some());
    let (changed, before) = (rules.named("LockHeldTooLong").unwrap(), Rules::default_rules());
    let before = before.named("LockHeldTooLong").unwrap();
    assert_eq!((changed.compare, changed.selector.as_str()), (Compare::Above(3_600.0), "orders:*"));
    assert_eq!((changed.hold_for, &changed.note, changed.severity), (before.hold_for, &before.note, before.severity));
    assert!(Rules::parse("default_rules = false").unwrap().is_empty());
    assert_eq!(Rules::parse("").unwrap(), Rules::default_rules());
}

#[test]
fn a_mistake_is_one_sentence_with_its_line_and_the_fix() {
    let locks = "[[rules]]\nname = 'A'\nmetric = 'lockscope_locks'\n";
    let ended = "[[rules]]\nname = 'A'\nmetric = 'lockscope_holds_ended_total'\n";
    for (text, line, part) in [
        ("[[rules]]\nname = 'A'\nmetric = 'lockscope_lock'\nabove = 0".into(), 3, "did you mean \"lockscope_locks\""),
        (
            "[[rules]]\nname = 'A'\nmetric = 'waiters_max'\nabove = 0".into(),
            3,
            "did you mean \"lockscope_waiters_max\"?",
        ),
        ("[[rules]]\nname = 'A'\nmetric = 'cpu'\nabove = 0".into(), 3, "docs/alerts.md lists the metrics"),
        ("[[rules]]\nname = 'A'\nmetric = 'lockscope_hold_duration_seconds'\nabove = 0".into(), 3, "is a histogram"),
        ("[[rules]]\nname = 'A'\nabove = 0".into(), 1, "has no \"metric\""),
        ("[[rules]]\nmetric = 'lockscope_locks'\nabove = 0".into(), 1, "has no \"name\""),
        ("[[rules]]\nname = ' '".into(), 2, "a rule needs a name"),
        ("[[rules]]\nname = \"a\\nb\"".into(), 2, "without control characters"),
        (format!("[[rules]]\nname = '{}'", "n".repeat(200)), 2, "at most 128 characters"),
        (format!("{locks}above = 1\nbelow = 1"), 5, "either 'above' or 'below'"),
        (locks.to_string(), 2, "has no threshold; add above = 0"),
        (format!("{locks}above = 'x'"), 4, "a number, without quotes"),
        (format!("{locks}above = nan"), 4, "a number"),
        (format!("{locks}above = 5\nrecover = 5"), 5, "has to be lower than above = 5"),
        (format!("{locks}below = 5\nrecover = 4.5"), 5, "has to be higher than below = 5"),
        (format!("{locks}above = 0\nwindow = '5m'"), 5, "takes no window; remove it"),
        (format!("{ended}above = 0"), 3, "add window = \"5m\""),
        (format!("{ended}above = 0\nwindow = '5m'\nno_data = 'keep 1m'"), 6, "make the window longer"),
        (format!("{locks}above = 0\nno_data = 'panic'"), 5, "\"ok\", \"stay 1h\", \"keep 10m\" or \"alert\""),
        (format!("{locks}above = 0\nno_data = 'keep 0s'"), 5, "keeps nothing"),
        (format!("{locks}above = 0\nno_data = 'stay 0s'"), 5, "no time"),
        (format!("{locks}above = 0\nfor = 5"), 5, "a text in quotes, not a number"),
        (format!("{locks}above = 0\nfor = '5'"), 5, "500ms, 30s, 5m or 2h"),
        (format!("{locks}above = 0\nfor = '5us'"), 5, "whole milliseconds"),
        (format!("{locks}above = 0\nseverity = 'pgae'"), 5, "did you mean \"page\"?"),
        (format!("{locks}above = 0\nselector = 'held>1m'"), 5, "do not carry \"held\""),
        (format!("{locks}above = 0\nselector = 'state:orphn'"), 5, "did you mean \"orphan\"?"),
        (
            format!("{locks}above = 0\nselector = 'ending:expired'"),
            5,
            "has no label \"ending\", only target, pattern, state",
        ),
        (format!("{locks}above = 0\nby = ['patern']"), 5, "did you mean \"pattern\"?"),
        (format!("{locks}above = 0\nserverity = 'page'"), 5, "did you mean \"severity\"?"),
        (format!("{locks}above = 0\n{locks}above = 1"), 6, "two rules named \"A\""),
        ("[[rule]]\nname = 'A'".into(), 1, "did you mean \"rules\"?"),
        ("[[rules]\nname = 'A'".into(), 1, "not valid TOML"),
        ("[[rules]]\nname = 'LockSplit'\nrecover = 1".into(), 3, "has to be lower than above = 0"),
    ] {
        let said = wrong(&text);
        assert!(said.starts_with(&format!("line {line}: ")) && said.contains(part), "{text}\n{said}");
    }
    let clash = format!("{locks}above = 0\nno_data = 'alert'\n{}above = 0", locks.replace("'A'", "'ANoData'"));
    assert!(wrong(&clash).contains("rename it"));
}

#[test]
fn a_window_has_to_hold_two_samples() {
    let rules = "[[rules]]\nname = 'A'\nmetric = 'lockscope_renewals_total'\nwindow = '90s'\nabove = 0";
    let rules = Rules::parse(rules).unwrap();
    rules.check_windows(Duration::from_secs(45)).expect("two samples");
    let fault = rules.check_windows(Duration::from_secs(60)).expect_err("less than two samples");
    assert!(
        fault
            .to_string()
            .ends_with("has a window of 90s, which is less than two samples, one every 1m; make it at least 2m")
    );
}
