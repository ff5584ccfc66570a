//! Recording is asked for, shown, and ended; and what a store has is told beside the rules.

use std::collections::BTreeMap;

use super::*;
use crate::alerts::{Rules, Severity};
use crate::app::{Event, Past};
use crate::store::{End, Firing};
use crate::testkit::stage::Stage;

fn command(stage: &mut Stage, text: &str) -> Vec<Effect> {
    stage.press(":");
    stage.write(text);
    stage.press("enter")
}

fn happens(stage: &mut Stage, recorded: Recorded) {
    stage.app.update(Event::Recorded(recorded), stage.now);
    stage.compose();
}

fn header(stage: &mut Stage) -> String {
    stage.screen().lines().next().unwrap_or_default().to_string()
}

#[test]
fn it_is_shown_while_it_runs_and_only_one_file_is_written() {
    let mut stage = Stage::new();
    assert_eq!(command(&mut stage, "record off"), []);
    assert!(stage.notice().contains(":record FILE begins"), "{}", stage.notice());
    assert_eq!(command(&mut stage, "record /tmp/a b.history"), [Effect::Record(Some("/tmp/a b.history".into()))]);
    assert!(!header(&mut stage).contains("REC"), "not before the file is open");
    assert_eq!(command(&mut stage, "record other"), [], "one at a time");
    happens(&mut stage, Recorded::Began("/tmp/a b.history".into()));
    assert!(header(&mut stage).contains("REC ") && stage.notice().contains("/tmp/a b.history"), "{}", stage.screen());
    assert_eq!(command(&mut stage, "record other"), []);
    assert!(stage.notice().contains(":record off ends it first"), "{}", stage.notice());
    happens(&mut stage, Recorded::Trouble(Some("no room left on the disk".into())));
    assert!(header(&mut stage).contains("REC FAILS"), "{}", stage.screen());
    command(&mut stage, "record");
    assert!(stage.notice().contains("no room left"), "{}", stage.notice());
    happens(&mut stage, Recorded::Trouble(None));
    assert!(!header(&mut stage).contains("FAILS"));
    assert_eq!(command(&mut stage, "record off"), [Effect::Record(None)]);
    happens(&mut stage, Recorded::Ended(None));
    assert!(!header(&mut stage).contains("REC") && stage.notice().contains("all is written"), "{}", stage.screen());
}

#[test]
fn a_file_that_can_not_be_recorded_into_is_one_sentence() {
    let mut stage = Stage::new();
    command(&mut stage, "record x");
    happens(&mut stage, Recorded::Ended(Some("process 7 already records into x: stop it first".into())));
    assert!(stage.notice().contains("process 7") && !header(&mut stage).contains("REC"));
    assert_eq!(command(&mut stage, "record y").len(), 1, "another file can be named");
}

const RULES: &str = "default_rules = false\n[[rules]]\nname = \"NoTtl\"\nmetric = \"lockscope_locks\"\n\
    selector = \"state:no-ttl\"\nabove = 0\n[[rules]]\nname = \"Calm\"\nmetric = \"lockscope_up\"\nbelow = 1\n";

#[test]
fn what_fired_before_the_console_was_opened_is_told_beside_its_rule() {
    let mut stage = Stage::new();
    stage.app.watch_rules(Rules::parse(RULES).unwrap());
    stage.measure();
    let firing = |number, from: u64, end: End| Firing {
        number,
        rule: "NoTtl".into(),
        severity: Severity::Page,
        labels: BTreeMap::from([("pattern".to_string(), "lock:*".to_string())]),
        value: Some(1.0),
        threshold: 0.0,
        active_at: Time(stage.now.0 - from as i64 * 1_000),
        from: Time(stage.now.0 - from as i64 * 1_000),
        end,
    };
    let past = Past {
        store: "/var/lib/locks.history".into(),
        firings: vec![firing(3, 900, End::NotSeen(stage.now)), firing(9, 600, End::Over(Time(stage.now.0 - 540_000)))],
        oldest: Some(Time(stage.now.0 - 90_000_000)),
        newest: Some(stage.now),
        ..Past::default()
    };
    stage.app.update(Event::Past(Box::new(past)), stage.now);
    stage.press("4");
    let screen = stage.screen();
    assert!(screen.contains("recorded in locks.history: fired 2 times in the last 24h, the last time"), "{screen}");
    assert!(screen.contains("(1m00s)"), "{screen}");
    stage.press("j");
    assert!(stage.screen().contains("locks.history: did not fire in the last 24h"), "{}", stage.screen());
    let young = Past { oldest: Some(Time(stage.now.0 - 300_000)), newest: Some(stage.now), ..Past::default() };
    stage.app.update(Event::Past(Box::new(young)), stage.now);
    assert!(stage.screen().contains("did not fire in the last 5m00s"), "no longer than it reaches: {}", stage.screen());
    stage.pass(60_000);
    assert!(stage.screen().contains("nothing is recorded"), "a dead recorder is no calm: {}", stage.screen());
    let gone = Past { trouble: Some("locks.history is damaged".into()), ..Past::default() };
    stage.app.update(Event::Past(Box::new(gone)), stage.now);
    assert!(stage.screen().contains("store: locks.history is damaged"), "{}", stage.screen());
}
