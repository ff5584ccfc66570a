//! What the keys do in the lab, and what it looks like, without a server.

use std::time::Duration;

use insta::assert_snapshot;

use super::*;
use crate::app::Event;
use crate::app::writing::IDLE;
use crate::lab::Counts;
use crate::lock::Token;
use crate::testkit::stage::Stage;

/// A console that may write, on the lab.
fn lab() -> Stage {
    let mut stage = Stage::new();
    stage.press("W 6");
    stage
}

/// Types a line that takes a test lock; returns its number and the order to the loop.
fn take(stage: &mut Stage, line: &str) -> (TestId, Wanted) {
    stage.press("a ctrl-u");
    stage.write(line);
    match stage.press("enter").pop() {
        Some(Effect::Lab(id, LabOrder::Take(wanted))) => (id, wanted),
        other => panic!("{line}: {other:?}"),
    }
}

fn report(stage: &mut Stage, id: TestId, change: impl FnOnce(&mut Report)) {
    let row = stage.app.lab.rows.iter().find(|row| row.report.id == id).expect("a row");
    let mut report = row.report.clone();
    change(&mut report);
    stage.app.update(Event::Lab(vec![report]), stage.now);
    stage.compose();
}

fn held(stage: &mut Stage, line: &str) -> TestId {
    let (id, wanted) = take(stage, line);
    report(stage, id, |report| {
        report.phase = Phase::Held;
        report.token = Some(Token::from(&b"lockscope-test:web-3:812:0102030405060708090a0b0c0d0e0f10"[..]));
        report.left = Some(wanted.ttl);
    });
    id
}

#[test]
fn a_test_lock_is_asked_for_in_a_line_from_any_screen() {
    let mut stage = Stage::new();
    stage.press("W");
    for screen in ["1", "3", "5", "6"] {
        stage.press(&format!("{screen} a"));
        assert!(stage.screen().contains("take lock:test ttl=30s plain watchdog"), "{}", stage.screen());
        stage.press("esc");
    }
    stage.press("a");
    let effects = stage.press("enter");
    let [Effect::Lab(TestId(1), LabOrder::Take(wanted))] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(*wanted, Wanted::parse(USUAL).unwrap());
    let (second, _) = take(&mut stage, "lock:b reentrant");
    assert_eq!(second, TestId(2));
    stage.press("a");
    assert!(stage.screen().contains("take lock:b reentrant"), "what was asked for last is offered: {}", stage.screen());
}

#[test]
fn a_wrong_line_stays_and_says_what_is_wrong() {
    let mut stage = lab();
    stage.press("a ctrl-u");
    stage.write("lock:a ttl=9d");
    assert_eq!(stage.press("enter"), []);
    assert!(stage.screen().contains("between 100ms and 1h"), "{}", stage.screen());
    stage.press("esc :");
    stage.write("acquire lock:a often");
    assert_eq!(stage.press("enter"), []);
    assert!(stage.screen().contains("after the key come"), "{}", stage.screen());
    stage.press("ctrl-u");
    stage.write("acquire lock:a ttl=5s");
    let effects = stage.press("enter");
    assert!(
        matches!(&effects[..], [Effect::Lab(_, LabOrder::Take(wanted))] if wanted.ttl.as_secs() == 5),
        "{effects:?}"
    );
}

#[test]
fn nothing_is_taken_while_lockscope_is_read_only() {
    let mut stage = Stage::new();
    stage.press("6");
    for keys in ["a", ": a c q u i r e space x enter"] {
        assert_eq!(stage.press(keys), []);
        assert!(stage.notice().contains(":write turns writing on"), "{}", stage.notice());
        assert!(matches!(stage.app.overlay, Overlay::None));
    }
    assert!(stage.app.lab.rows.is_empty());
}

#[test]
fn keys_of_the_lab_work_there_and_say_so_elsewhere() {
    let mut stage = lab();
    for key in ["d", "n", "w", "+", "-"] {
        assert_eq!(stage.press(key), []);
        assert!(stage.notice().contains("a takes one"), "{key}: {}", stage.notice());
    }
    let id = held(&mut stage, "lock:a watchdog");
    assert_eq!(stage.press("n"), [Effect::Lab(id, LabOrder::Renew)]);
    assert_eq!(stage.press("w"), [Effect::Lab(id, LabOrder::Watchdog(false))]);
    assert_eq!(stage.press("w"), [Effect::Lab(id, LabOrder::Watchdog(true))]);
    assert_eq!(stage.press("d"), [Effect::Lab(id, LabOrder::GiveBack)]);
    stage.press("1");
    for key in ["d", "n", "w", "+", "-"] {
        assert_eq!(stage.press(key), []);
        assert!(stage.notice().contains("works in the lab; 6 shows it"), "{key}: {}", stage.notice());
    }
}

#[test]
fn contenders_are_counted_by_keys_and_not_by_late_reports() {
    let mut stage = lab();
    let id = held(&mut stage, "lock:a");
    for wanted in 1..=3 {
        assert_eq!(stage.press("+"), [Effect::Lab(id, LabOrder::Contend(wanted))]);
    }
    report(&mut stage, id, |report| report.contenders = 1);
    assert_eq!(stage.press("+"), [Effect::Lab(id, LabOrder::Contend(4))]);
    let other = held(&mut stage, "lock:b");
    for wanted in 1..=12 {
        assert_eq!(stage.press("+"), [Effect::Lab(other, LabOrder::Contend(wanted))]);
    }
    assert_eq!(stage.press("+"), [], "sixteen in the whole lab");
    assert!(stage.notice().contains("16 contenders"), "{}", stage.notice());
    assert_eq!(stage.press("k -"), [Effect::Lab(id, LabOrder::Contend(3))]);
}

#[test]
fn read_only_again_keeps_what_is_held_and_lets_contenders_go() {
    let mut stage = lab();
    let id = held(&mut stage, "lock:a watchdog");
    stage.press("+ +");
    stage.pass(IDLE.as_millis() as u64 - 1);
    assert!(stage.app.writes());
    stage.now = stage.now + Duration::from_millis(1);
    let effects = stage.app.update(Event::Changes(Vec::new(), 0), stage.now);
    assert_eq!(effects, [Effect::Lab(id, LabOrder::Contend(0))]);
    assert!(stage.notice().contains("test locks are kept, contenders stop"), "{}", stage.notice());
    for key in ["+", "n", "w", "a"] {
        assert_eq!(stage.press(key), [], "{key}");
    }
    assert!(stage.screen().contains("HELD     lock:a"), "{}", stage.screen());
    stage.app.notice = None;
    let screen = stage.screen();
    assert!(screen.contains("d give back") && !screen.contains("+ contend"), "{screen}");
    assert!(screen.contains("this lock is kept, and no other is taken"), "{screen}");
    assert_eq!(stage.press("d"), [Effect::Lab(id, LabOrder::GiveBack)], "what we took may be given back at any time");
}

#[test]
fn what_became_of_it_is_told_once() {
    let mut stage = lab();
    let (id, _) = take(&mut stage, "lock:a");
    let why = "lock:a is held by worker-7, for another 8.1s".to_string();
    report(&mut stage, id, |report| report.phase = Phase::Refused(why.clone()));
    assert!(stage.notice().contains("not taken: lock:a is held by worker-7"), "{}", stage.notice());
    stage.app.notice = None;
    report(&mut stage, id, |report| report.phase = Phase::Refused(why));
    assert_eq!(stage.notice(), "");
    assert!(stage.screen().contains("held by worker-7, for another 8.1s"), "{}", stage.screen());
    stage.press("P");
    report(&mut stage, id, |report| report.phase = Phase::Lost("it is held by worker-7".into()));
    assert!(stage.screen().contains("lost lock:a: (hidden)"), "{}", stage.screen());
    stage.app.notice = None;
    assert!(!stage.screen().contains("worker-7"), "{}", stage.screen());
    assert_eq!(stage.press("d"), [Effect::Lab(id, LabOrder::Forget)]);
    assert!(stage.app.lab.rows.is_empty());
    stage.app.update(Event::Lab(vec![Report::new(id, &Wanted::parse(USUAL).unwrap())]), stage.now);
    assert!(stage.app.lab.rows.is_empty(), "a report that comes late brings nothing back");
}

#[test]
fn contenders_go_on_among_themselves_until_they_are_sent_away() {
    let mut stage = lab();
    let id = held(&mut stage, "lock:a");
    stage.press("+ +");
    report(&mut stage, id, |report| (report.phase, report.contenders) = (Phase::Released, 2));
    assert_eq!(stage.press("+"), [], "nobody new comes");
    assert_eq!(stage.press("-"), [Effect::Lab(id, LabOrder::Contend(1))]);
    assert_eq!(stage.press("d"), [Effect::Lab(id, LabOrder::Contend(0))]);
    assert_eq!(stage.press("d"), [Effect::Lab(id, LabOrder::Forget)]);
}

#[test]
fn there_are_only_so_many_and_those_that_are_over_make_room() {
    let mut stage = lab();
    let ids: Vec<TestId> = (0..MOST).map(|number| held(&mut stage, &format!("lock:{number}"))).collect();
    stage.press("a");
    assert_eq!(stage.press("enter"), []);
    assert!(stage.notice().contains("there are 16 test locks, the most"), "{}", stage.notice());
    for id in &ids {
        report(&mut stage, *id, |report| report.phase = Phase::Released);
    }
    for number in 0..2 * MOST {
        let id = held(&mut stage, &format!("lock:again:{number}"));
        report(&mut stage, id, |report| report.phase = Phase::Released);
    }
    assert_eq!(stage.app.lab.rows.len(), ROWS);
    assert!(!stage.app.lab.rows.iter().any(|row| row.report.id == ids[0]));
}

#[test]
fn the_selection_sticks_to_the_test_lock() {
    let mut stage = lab();
    let ids: Vec<TestId> = ["lock:a", "lock:b", "lock:c"].map(|line| held(&mut stage, line)).to_vec();
    stage.press("k k k");
    report(&mut stage, ids[0], |report| report.phase = Phase::Released);
    stage.press("d");
    assert_eq!(stage.press("G n"), [Effect::Lab(ids[2], LabOrder::Renew)]);
    assert_eq!(stage.press("g n"), [Effect::Lab(ids[1], LabOrder::Renew)]);
}

#[test]
fn a_paused_screen_stands_still_while_the_lab_goes_on() {
    let mut stage = lab();
    let id = held(&mut stage, "lock:a");
    stage.press("p");
    stage.app.notice = None;
    let before = stage.screen();
    report(&mut stage, id, |report| report.renewals = 77);
    stage.app.notice = None;
    assert_eq!(stage.screen(), before);
    stage.press("p");
    assert!(stage.screen().contains("77"), "{}", stage.screen());
}

#[test]
fn a_test_lock_that_somebody_removes_is_looked_after() {
    let mut stage = lab();
    stage.acquire("lock:a", "lockscope-test:web-3:812:0102030405060708090a0b0c0d0e0f10", 30_000);
    stage.acquire("lock:b", "worker-7", 30_000);
    let id = held(&mut stage, "lock:a");
    held(&mut stage, "lock:b");
    let change = |key: &str, previous: &str| Transition {
        change: Change::Ended(crate::model::Ending::Released),
        key: key.into(),
        previous: Some(Token::from(previous.as_bytes())),
        proven: false,
        ..stage.app.feed.changes[0].clone()
    };
    let ours = "lockscope-test:web-3:812:0102030405060708090a0b0c0d0e0f10";
    let changes = vec![change("lock:b", "worker-7"), change("lock:c", ours), change("lock:a", ours)];
    let effects = stage.app.update(Event::Changes(changes, 0), stage.now);
    assert_eq!(effects, [Effect::Lab(id, LabOrder::Check)], "and no other");
}

/// A busy lab.
fn busy() -> Stage {
    let mut stage = lab();
    let refused = take(&mut stage, "lock:order:8841 reentrant").0;
    let why = "lock:order:8841 is held by 3f2a8c00-1111-4222-8333-444455556666:57, for another 8.1s";
    report(&mut stage, refused, |report| report.phase = Phase::Refused(why.into()));
    let lost = held(&mut stage, "lock:仓库 ttl=5s");
    report(&mut stage, lost, |report| report.phase = Phase::Lost("its lease of 5s ended without a renewal".into()));
    let id = held(&mut stage, "lock:test ttl=30s plain watchdog");
    stage.press("+ + +");
    report(&mut stage, id, |report| {
        (report.renewals, report.contenders, report.failures_per_s) = (4, 3, Some(29.64));
        report.counts = Counts { failures: 1_203, obtained: 2, troubles: 1 };
        report.left = Some(Duration::from_millis(21_400));
    });
    stage.app.notice = None;
    stage
}

#[test]
fn the_lab_at_80x24() {
    assert_snapshot!(busy().screen());
}

#[test]
fn the_lab_at_140x40() {
    let mut stage = busy();
    stage.resize(140, 40);
    assert_snapshot!(stage.screen());
}

#[test]
fn the_empty_lab() {
    let mut stage = Stage::new();
    stage.press("6");
    assert_snapshot!(stage.screen());
}

#[test]
fn nothing_but_ascii_where_that_is_asked_for_and_no_size_is_too_small() {
    let mut stage = busy();
    stage.app.theme.ascii = true;
    assert!(stage.screen().is_ascii(), "{}", stage.screen());
    for (width, height) in [(1, 1), (60, 12), (61, 13), (300, 5)] {
        stage.resize(width, height);
        stage.draw();
    }
}
