//! Rules as they are written for Prometheus. `tests/promtool.rs` has Prometheus itself read them.

use super::*;

fn exprs(rule: &str) -> Vec<String> {
    let native = if rule.contains("no_data") { "" } else { "\nno_data = 'ok'" };
    let rules = Rules::parse(&format!("default_rules = false\n[[rules]]\nname = 'N'\n{rule}{native}"));
    let rules = rules.unwrap_or_else(|fault| panic!("{rule}: {fault}"));
    rules.iter().flat_map(promql).map(|rule| rule.expr).collect()
}

#[test]
fn every_kind_of_rule_has_its_promql() {
    for (rule, expected) in [
        ("metric = 'lockscope_waiters'\nabove = 4", "lockscope_waiters > 4"),
        ("metric = 'lockscope_locks'\nselector = 'state:split'\nabove = 0", "lockscope_locks{state=\"split\"} > 0"),
        (
            "metric = 'lockscope_holds_ended_total'\nselector = 'ending:evicted or ending:flushed'\nwindow='300s'\nabove = 0",
            "increase(lockscope_holds_ended_total{ending=~\"evicted|flushed\"}[5m]) > 0",
        ),
        (
            "metric = 'lockscope_waiters'\nabove = 10\nrecover = 5",
            "lockscope_waiters > 10 or (lockscope_waiters > 5 and on (target, pattern) \
             ALERTS{alertname=\"N\", alertstate=\"firing\"})",
        ),
        ("metric = 'lockscope_waiters'\nbelow = 1\nno_data = 'keep 90s'", "last_over_time(lockscope_waiters[90s]) < 1"),
        ("metric = 'lockscope_locks'\nby = ['target']\nabove = 9", "sum by (target) (lockscope_locks) > 9"),
        ("metric = 'lockscope_waiters_max'\nby = []\nbelow = 1", "min by () (lockscope_waiters_max) < 1"),
        (
            "metric = 'lockscope_oldest_hold_age_seconds'\nselector = 'target:x'\nabove = 900",
            "(time() - min by (target, pattern) (lockscope_oldest_hold_timestamp_seconds{target=~\"(?i).*x.*\"})) > 900",
        ),
        ("metric = 'lockscope_absent'\nabove = 0", "absent(lockscope_build_info)"),
    ] {
        assert_eq!(exprs(rule), [expected], "{rule}");
    }
}

#[test]
fn what_fires_about_locks_stays_while_its_target_is_out_of_sight() {
    let rules = "default_rules = false\n[[rules]]\nname = 'N'\nmetric = 'lockscope_waiters'\nabove = 4\n\
        [[rules]]\nname = 'M'\nmetric = 'lockscope_waiters'\nby = []\nabove = 4\nno_data = 'stay 90s'\n\
        [[rules]]\nname = 'O'\nmetric = 'lockscope_up'\nbelow = 1\n";
    let exprs: Vec<String> = Rules::parse(rules).unwrap().iter().flat_map(promql).map(|rule| rule.expr).collect();
    assert_eq!(
        exprs,
        [
            "lockscope_waiters > 4 or (max without (alertname, alertstate, severity) \
             (ALERTS{alertname=\"N\", alertstate=\"firing\"}) and on (target) \
             (time() - lockscope_blind_since_timestamp_seconds < 3600 or \
             last_over_time(lockscope_up[1h]) unless on (target) lockscope_up))",
            "sum by () (lockscope_waiters) > 4 or (max without (alertname, alertstate, severity) \
             (ALERTS{alertname=\"M\", alertstate=\"firing\"}) and on () \
             (time() - lockscope_blind_since_timestamp_seconds < 90 or \
             last_over_time(lockscope_up[90s]) unless on (target) lockscope_up))",
            "lockscope_up < 1",
        ]
    );
}

#[test]
fn a_rule_that_alerts_without_data_is_two() {
    let two = exprs("metric = 'lockscope_renewals_total'\nwindow = '5m'\nabove = 0\nno_data = 'alert'");
    assert_eq!(two, ["increase(lockscope_renewals_total[5m]) > 0", "absent(lockscope_renewals_total)"]);
}

#[test]
fn texts_come_out_as_they_are() {
    assert_eq!(yaml("it's"), "'it''s'");
    assert_eq!(yaml("a\n\"b\""), r#""a\n\"b\"""#);
    assert_eq!(literal_template("{{ x }}"), "{{ \"{{\" }} x }}");
    assert_eq!(written(std::time::Duration::from_millis(90_500)), "90500ms");
    assert_eq!(
        exported(&Rules::parse("default_rules = false").unwrap(), "g"),
        "groups:\n  - name: 'g'\n    rules: []\n"
    );
}
