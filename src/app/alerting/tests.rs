//! Rules in the console: pending, then firing, the way to the locks and back, and what is not known.

use std::time::Duration;

use crate::alerts::{AlertState, Rules};
use crate::app::Screen;
use crate::testkit::stage::Stage;

const RULES: &str = r#"
default_rules = false
[[rules]]
name = "NoTtl"
metric = "lockscope_locks"
selector = "state:no-ttl"
above = 0
for = "10s"
severity = "ticket"
note = "Give it an end."
runbook = "docs/incidents/never-released.md"
[[rules]]
name = "Old"
metric = "lockscope_oldest_hold_age_seconds"
above = 60
severity = "page"
[[rules]]
name = "Fails"
metric = "lockscope_failure_ratio"
above = 0.1
severity = "ticket"
"#;

fn stage() -> Stage {
    let mut stage = Stage::new();
    stage.app.watch_rules(Rules::parse(RULES).unwrap());
    for bucket in 0..4 {
        stage.acquire(format!("stock:bucket:{bucket}"), "w", 6_000_000);
    }
    stage
}

/// So many seconds go by, each with its moment.
fn watch(stage: &mut Stage, seconds: u64) {
    for _ in 0..seconds {
        stage.pass(1_000);
        stage.measure();
        stage.compose();
    }
}

fn state_of(stage: &Stage, rule: &str) -> AlertState {
    stage.app.alerting.rows().iter().find(|row| row.id.rule == rule).unwrap().state
}

#[test]
fn an_alert_is_pending_then_fires_and_ends_with_its_cause() {
    let mut stage = stage();
    watch(&mut stage, 6);
    assert_eq!(state_of(&stage, "NoTtl"), AlertState::Inactive);
    assert!(!stage.screen().contains("firing") && !stage.screen().contains("pending"), "{}", stage.screen());
    stage.acquire("stock:bucket:9", "w", None);
    watch(&mut stage, 6);
    assert_eq!(state_of(&stage, "NoTtl"), AlertState::Pending);
    assert!(stage.screen().contains("1 pending"), "{}", stage.screen());
    watch(&mut stage, 10);
    assert_eq!(state_of(&stage, "NoTtl"), AlertState::Firing);
    for screen in ["1", "2", "3", "4", "5", "6", "1 enter"] {
        stage.press(screen);
        assert!(stage.screen().lines().next().unwrap().contains("1 firing"), "{screen}: {}", stage.screen());
    }
    stage.press("esc");
    stage.release("stock:bucket:9");
    watch(&mut stage, 6);
    assert_eq!(state_of(&stage, "NoTtl"), AlertState::Inactive);
    assert!(!stage.screen().contains("firing"), "{}", stage.screen());
}

#[test]
fn enter_goes_to_the_locks_behind_it_and_esc_comes_back() {
    let mut stage = stage();
    stage.acquire("stock:bucket:9", "w", None);
    stage.acquire("lock:other", "w", None);
    watch(&mut stage, 20);
    stage.filter("something-else");
    stage.press("4");
    let row = stage.app.alerting.rows().iter().position(|row| row.id.labels["pattern"] == "stock:bucket:*").unwrap();
    (0..row).for_each(|_| drop(stage.press("j")));
    let screen = stage.screen();
    assert!(screen.contains("Give it an end.") && screen.contains("never-released.md"), "{screen}");
    stage.press("enter");
    assert_eq!((stage.app.page.screen, stage.rows()), (Screen::Locks, vec!["stock:bucket:9".to_string()]));
    assert_eq!(stage.app.list.filter_text, "state:no-ttl");
    stage.press("esc");
    assert_eq!((stage.app.page.screen, stage.app.list.filter_text.as_str()), (Screen::Alerts, "something-else"));
}

#[test]
fn a_threshold_in_seconds_becomes_a_filter_by_age() {
    let mut stage = stage();
    watch(&mut stage, 70);
    stage.acquire("stock:bucket:8", "w", 6_000_000);
    watch(&mut stage, 6);
    assert_eq!(state_of(&stage, "Old"), AlertState::Firing);
    stage.press("4 enter");
    assert_eq!(stage.app.list.filter_text, "held>60s");
    assert_eq!(stage.rows().len(), 4, "the young one is not behind it: {:?}", stage.rows());
}

#[test]
fn what_is_not_known_is_said_and_never_called_calm() {
    let mut stage = stage();
    watch(&mut stage, 6);
    assert_eq!(state_of(&stage, "Fails"), AlertState::Unknown);
    stage.press("4");
    let screen = stage.screen();
    assert!(screen.contains("UNKNOWN") && screen.contains("no coverage"), "{screen}");
}

#[test]
fn a_paused_screen_keeps_its_alerts_and_the_rules_go_on() {
    let mut stage = stage();
    watch(&mut stage, 6);
    stage.press("4 p");
    stage.acquire("stock:bucket:9", "w", None);
    watch(&mut stage, 20);
    assert_eq!(state_of(&stage, "NoTtl"), AlertState::Inactive, "as it was");
    stage.press("p");
    stage.pass(Duration::from_secs(2).as_millis() as u64);
    watch(&mut stage, 1);
    assert_eq!(state_of(&stage, "NoTtl"), AlertState::Firing, "it was counted all the while");
}

#[test]
fn without_rules_the_screen_says_so() {
    let mut stage = Stage::new();
    stage.app.watch_rules(Rules::parse("default_rules = false").unwrap());
    stage.measure();
    stage.press("4 j enter");
    assert!(stage.screen().contains("No rules apply"), "{}", stage.screen());
}
