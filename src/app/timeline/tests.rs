//! What the timeline tells, and what the keys do to it.

use insta::assert_snapshot;

use crate::model::{Act, LostBy, Notable, Observation, OwnWrite, State, What};
use crate::testkit::stage::{NODE, Stage};

const REDISSON: &str = "3f2a8c00-1111-4222-8333-444455556666:57";

/// What the timeline tells, oldest first: `HELD → STALLED lock:a`.
fn told(stage: &Stage) -> Vec<String> {
    let line = |entry: &Notable| {
        let key = entry.key.as_ref().map(|key| format!(" {key}")).unwrap_or_default();
        format!("{}{key}", entry.what.headline("→"))
    };
    stage.table.timeline().from(0).map(|(_, entry)| line(entry)).collect()
}

/// A lock of a watchdog that renewed it three times and then died; a healthy one beside it.
fn dying() -> Stage {
    let mut stage = Stage::new();
    stage.acquire_redisson("lock:order:8841", REDISSON, 30_000);
    stage.acquire("lock:cart:1", "web-1", 600_000);
    for _ in 0..3 {
        stage.pass(10_000);
        stage.renew("lock:order:8841", 30_000);
    }
    stage
}

/// Lets this many seconds pass, one by one.
fn seconds(stage: &mut Stage, seconds: u64) {
    for _ in 0..seconds {
        stage.pass(1_000);
    }
}

#[test]
fn a_worker_that_dies_is_told_from_held_to_free() {
    let mut stage = dying();
    seconds(&mut stage, 40);
    assert_eq!(told(&stage), ["HELD → STALLED lock:order:8841", "STALLED → FREE lock:order:8841"]);
    let entries: Vec<Notable> = stage.table.timeline().from(0).map(|(_, entry)| entry.clone()).collect();
    let sentence = |entry: &Notable| entry.what.sentence(|token| token.to_string());
    let stalled = sentence(&entries[0]);
    assert!(stalled.starts_with("renewed every 10.0s until 1") && stalled.contains("earlier, 1 missed"), "{stalled}");
    assert_eq!(sentence(&entries[1]), format!("expired; held by {REDISSON}"));
    let written = serde_json::to_string(&entries).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Notable>>(&written).unwrap(), entries, "an entry survives a file");
}

#[test]
fn a_wanted_lock_that_runs_out_and_that_nobody_takes_is_told() {
    let mut stage = Stage::new();
    for key in ["lock:given-up", "lock:handed-on"] {
        stage.acquire(key, "web", 20_000);
        stage.want(key, 4);
    }
    seconds(&mut stage, 5);
    stage.release("lock:handed-on");
    stage.acquire("lock:handed-on", "next", 600_000);
    stage.want("lock:handed-on", 4);
    seconds(&mut stage, 20);
    let wanted = ["HELD → CONTENDED lock:given-up", "HELD → CONTENDED lock:handed-on"];
    assert_eq!(told(&stage), wanted, "it may still be taken");
    seconds(&mut stage, 16);
    let later = told(&stage);
    assert_eq!(later[2], "CONTENDED → FREE lock:given-up");
    assert!(!later.contains(&"CONTENDED → FREE lock:handed-on".to_string()), "{later:?}");
    let entry = stage.table.timeline().get(2).unwrap();
    assert_eq!(entry.what.sentence(|token| token.to_string()), "expired; held by web");
}

#[test]
fn what_is_usual_is_not_told() {
    let mut stage = Stage::new();
    for n in 0..20 {
        stage.acquire(format!("lock:{n}"), "web", 5_000);
        stage.pass(300);
        stage.release(format!("lock:{n}"));
    }
    stage.acquire("lock:runs-out", "web", 500);
    seconds(&mut stage, 3);
    assert_eq!(told(&stage), Vec::<String>::new());
}

#[test]
fn a_lock_that_was_without_a_ttl_when_we_came_is_nothing_that_happened() {
    let mut stage = Stage::unscanned();
    stage.hold_unseen("lock:old", "worker-1");
    stage.scan();
    seconds(&mut stage, 3);
    assert_eq!(told(&stage), Vec::<String>::new());
    stage.acquire("lock:new", "worker-2", None);
    stage.pass(500);
    assert_eq!(told(&stage), Vec::<String>::new(), "its TTL may come with a second command");
    seconds(&mut stage, 2);
    assert_eq!(told(&stage), ["HELD → NO-TTL lock:new"]);
}

#[test]
fn a_lost_connection_makes_nobody_better() {
    let mut stage = dying();
    seconds(&mut stage, 17);
    stage.lose();
    seconds(&mut stage, 2);
    stage.come_back();
    seconds(&mut stage, 2);
    let story = ["HELD → STALLED lock:order:8841", "GAP BEGINS", "GAP ENDS"];
    assert_eq!(told(&stage), story, "while nothing is known of a lock, nothing is told of it");
}

#[test]
fn locks_that_a_restart_took_are_one_entry_and_a_line_until_it_is_dismissed() {
    let mut stage = Stage::new();
    for n in 0..5_004 {
        stage.acquire(format!("lock:{n:04}"), "web", 600_000);
    }
    stage.lose();
    stage.pass(2_000);
    stage.come_back_empty();
    seconds(&mut stage, 3);
    assert_eq!(told(&stage), ["GAP BEGINS", "RESTART", "GAP ENDS", "LOST"]);
    let screen = stage.screen();
    assert_eq!(
        screen.lines().nth(3),
        Some(" 5,004 locks lost at 14:13:24 (restart)  3 shows what happened, D dismisses this"),
        "{screen}"
    );
    for keys in ["2", "3", "5", "6", "1"] {
        stage.press(keys);
        assert!(stage.screen().contains("5,004 locks lost"), "on every screen");
    }
    stage.press("D");
    assert!(!stage.screen().contains("5,004 locks lost"));
    stage.press("D");
    assert_eq!(stage.notice(), "there is nothing to dismiss: no locks were lost");
    stage.acquire("lock:again", "web", 600_000);
    stage.flush();
    seconds(&mut stage, 3);
    assert!(stage.screen().contains(" 1 lock lost at 14:13:26 (flush)"), "{}", stage.screen());
}

#[test]
fn locks_that_ended_while_nobody_watched_are_not_called_lost() {
    let mut stage = Stage::new();
    stage.acquire("lock:a", "web", 600_000);
    stage.pass(1_000);
    stage.lose();
    stage.release_unheard("lock:a");
    stage.pass(1_000);
    stage.come_back();
    seconds(&mut stage, 3);
    assert_eq!(told(&stage), ["GAP BEGINS", "GAP ENDS", "ENDED UNSEEN lock:a"]);
    assert_eq!(stage.app.timeline.losses(), None, "its holder may have released it");
}

#[test]
fn what_we_write_is_told_with_by_whom_and_why() {
    let mut stage = dying();
    seconds(&mut stage, 17);
    let write = |act, reason: Option<&str>| OwnWrite {
        act,
        holders: vec![REDISSON.as_bytes().into()],
        by: "anna".into(),
        reason: reason.map(String::from),
    };
    stage.write_ourselves("lock:order:8841", write(Act::Free { whole: true }, Some("worker-7 is dead")));
    seconds(&mut stage, 1);
    stage.write_ourselves("lock:order:8841", write(Act::PutBack { whole: true }, None));
    seconds(&mut stage, 2);
    let story = ["HELD → STALLED lock:order:8841", "FREED lock:order:8841", "PUT BACK lock:order:8841"];
    assert_eq!(told(&stage), story, "its watchdog gets another chance, which is no news");
    let freed = stage.table.timeline().get(1).unwrap().what.sentence(|token| token.to_string());
    assert_eq!(freed, "by anna, because \"worker-7 is dead\"; it was STALLED");
}

#[test]
fn the_last_five_minutes_take_two_keys() {
    let mut stage = dying();
    seconds(&mut stage, 40);
    stage.acquire("lock:late", "worker-9", None);
    seconds(&mut stage, 295);
    stage.press("3");
    let all = stage.screen();
    assert!(all.contains("HELD → STALLED") && all.contains("HELD → NO-TTL"), "{all}");
    stage.press("s");
    let recent = stage.screen();
    assert!(!recent.contains("HELD → STALLED") && recent.contains("HELD → NO-TTL"), "{recent}");
    assert!(recent.contains("1 of 1 in the last 5m00s"), "{recent}");
    stage.press("s s");
    assert_eq!(stage.app.timeline.since, None);
    stage.press("1 :");
    stage.write("since 1h");
    stage.press("enter");
    assert!(stage.screen().contains("1 of 3 in the last 1h00m"), "{}", stage.screen());
    stage.press(":");
    stage.write("since soon");
    stage.press("enter");
    assert!(stage.screen().contains("write :since 5m"), "{}", stage.screen());
}

#[test]
fn enter_goes_to_the_lock_and_esc_comes_back() {
    let mut stage = dying();
    seconds(&mut stage, 17);
    stage.acquire("lock:late", "worker-9", None);
    seconds(&mut stage, 2);
    stage.press("3 j enter");
    assert_eq!(stage.app.scene.lock.as_ref().unwrap().key.to_string(), "lock:order:8841");
    assert!(stage.screen().contains("lock:order:8841   STALLED"), "{}", stage.screen());
    stage.press("esc");
    assert!(stage.app.in_timeline());
    assert!(stage.screen().contains("2 of 2"), "one is where one was: {}", stage.screen());
    stage.lose();
    stage.press("g enter");
    assert_eq!(stage.notice(), "this is not about one lock");
}

#[test]
fn the_selection_stays_on_its_entry_when_others_come() {
    let mut stage = dying();
    seconds(&mut stage, 17);
    stage.lose();
    stage.compose();
    stage.press("3 j");
    stage.come_back();
    let screen = stage.screen();
    assert!(screen.contains("2 of 3") || screen.contains("3 of 3"), "{screen}");
    let row = screen.lines().find(|line| line.starts_with('▌')).unwrap();
    assert!(row.contains("HELD → STALLED"), "{screen}");
}

#[test]
fn one_filter_is_for_states_and_keys_and_never_hides_a_restart() {
    let mut stage = dying();
    seconds(&mut stage, 40);
    stage.acquire("lock:late", "worker-9", None);
    seconds(&mut stage, 2);
    stage.lose();
    stage.come_back();
    stage.press("3");
    for (filter, shown) in [("state:stalled", 4), ("late", 3), ("holder:worker-9", 3), ("lib:redisson", 4), ("zzz", 2)]
    {
        stage.filter(filter);
        let screen = stage.screen();
        assert_eq!(stage.app.scene.timeline.listed, shown, "{filter}: {screen}");
        assert!(stage.screen().contains(&format!("({shown} shown)")), "{}", stage.screen());
    }
}

#[test]
fn a_paused_timeline_stands_still() {
    let mut stage = dying();
    stage.press("3 p");
    seconds(&mut stage, 20);
    stage.compose();
    let screen = stage.screen();
    assert_eq!(stage.app.scene.timeline.listed, 0, "{screen}");
    stage.press("p");
    let screen = stage.screen();
    assert_eq!(stage.app.scene.timeline.listed, 1, "{screen}");
}

#[test]
fn an_empty_timeline_and_feed_claim_no_more_than_they_saw() {
    let mut stage = Stage::new();
    stage.press("3");
    assert!(stage.screen().contains("Nothing that matters was seen since 14:13:21."), "{}", stage.screen());
    stage.press("v");
    assert!(stage.screen().contains("Nothing was seen since 14:13:21."), "{}", stage.screen());
    for n in 0..2_100 {
        stage.pass(1_000);
        stage.acquire(format!("lock:{n}"), "web", 600);
    }
    stage.filter("zzz");
    let oldest = stage.app.feed.changes.front().unwrap().at.rfc3339();
    let claim = format!("Nothing that matches the filter was seen since {}.", &oldest[11..19]);
    assert!(stage.screen().contains(&claim), "{claim}\n{}", stage.screen());
    stage.press("v");
    assert!(stage.app.in_timeline());
}

#[test]
fn private_screens_do_not_name_holders_in_the_timeline() {
    let mut stage = dying();
    seconds(&mut stage, 40);
    stage.press("3 P");
    let screen = stage.screen();
    assert!(screen.contains("(hidden)") && !screen.contains("3f2a"), "{screen}");
}

fn incident() -> Stage {
    let mut stage = dying();
    seconds(&mut stage, 40);
    stage.acquire("job-lock:default:nightly", "worker-7", None);
    seconds(&mut stage, 2);
    for n in 0..40 {
        stage.acquire(format!("lock:{n:02}"), "web", 600_000);
    }
    stage.table.apply(Observation::Noted { node: NODE, at: stage.now, what: What::Sampling { on: true } });
    stage.lose();
    seconds(&mut stage, 4);
    stage.come_back_empty();
    seconds(&mut stage, 2);
    stage.press("3");
    stage
}

#[test]
fn the_timeline_at_80x24() {
    assert_snapshot!(incident().screen());
}

#[test]
fn the_timeline_at_140x40() {
    let mut stage = incident();
    stage.resize(140, 40);
    assert_snapshot!(stage.screen());
}

#[test]
fn a_million_locks_are_visited_in_slices() {
    let mut stage = Stage::new();
    for n in 0..1_000 {
        stage.acquire(format!("lock:{n}"), "worker", None);
    }
    let (table, now) = (&mut stage.table, stage.now + std::time::Duration::from_secs(5));
    let told = |table: &crate::model::Table| table.timeline().end();
    table.patrol(100, now);
    assert_eq!(told(table), 100, "no more than it was allowed");
    for _ in 0..9 {
        table.patrol(100, now);
    }
    assert_eq!(told(table), 1_000, "the next slices come with the next turns");
    assert!(!table.patrol(100, now), "and the next round a second later");
    let entry = table.timeline().get(0).unwrap();
    assert!(matches!(entry.what, What::State { from: State::Held, to: State::NoTtl, .. }), "{entry:?}");
}

#[test]
fn a_lock_that_many_want_is_told_once_and_not_with_each_hold() {
    let mut stage = Stage::new();
    for n in 0..5 {
        stage.acquire("lock:hot", &format!("web-{n}"), 30_000);
        stage.want("lock:hot", 8);
        seconds(&mut stage, 2);
        stage.release("lock:hot");
        stage.acquire("lock:hot", "web-in-between", 30_000);
        stage.want("lock:hot", 0);
        seconds(&mut stage, 2);
        stage.release("lock:hot");
    }
    assert_eq!(told(&stage), ["HELD → CONTENDED lock:hot"]);
    stage.acquire("lock:hot", "web-9", 60_000);
    seconds(&mut stage, 20);
    assert_eq!(told(&stage), ["HELD → CONTENDED lock:hot", "CONTENDED → HELD lock:hot"]);
}

#[test]
fn a_lock_that_was_evicted_or_taken_over_is_told() {
    let mut stage = Stage::new();
    stage.acquire("lock:a", "old", 600_000);
    stage.acquire("lock:b", "web", 600_000);
    stage.take_over("lock:a", "new", 600_000);
    stage.evict("lock:b");
    seconds(&mut stage, 3);
    assert_eq!(told(&stage), ["TAKEN lock:a", "LOST lock:b", "HELD → SPLIT lock:a"]);
    let losses = stage.app.timeline.losses().cloned();
    stage.compose();
    let seen = stage.app.timeline.losses().unwrap();
    assert_eq!((losses, seen.locks, seen.causes.clone()), (None, 1, vec![LostBy::Eviction]));
    let lost = stage.table.timeline().get(1).unwrap();
    assert_eq!(lost.what.sentence(|token| token.to_string()), "was evicted; held by web");
}

#[test]
fn a_lock_that_is_taken_over_again_and_again_is_one_line_with_a_count() {
    let mut stage = Stage::new();
    stage.acquire("lock:a", "worker-0", 600_000);
    stage.acquire("lock:b", "other", 600_000);
    stage.pass(1_000);
    stage.take_over("lock:b", "somebody", 600_000);
    for number in 1..=41 {
        stage.pass(1_000);
        stage.take_over("lock:a", &format!("worker-{number}"), 600_000);
    }
    stage.press("3");
    let screen = stage.screen();
    let taken: Vec<&str> = screen.lines().filter(|line| line.contains("lock:a") && line.contains("TAKEN")).collect();
    assert!(taken.iter().any(|line| line.contains("41 times; last: ")), "{screen}");
    assert!(taken.len() <= 2, "a line, and the selected entry below\n{screen}");
    // The selection stays with its line while the line is renewed.
    stage.press("j");
    let selected = |stage: &Stage| stage.app.scene.timeline.selected().and_then(|entry| entry.key.clone());
    let before = selected(&stage);
    stage.pass(1_000);
    stage.take_over("lock:a", "worker-42", 600_000);
    stage.compose();
    assert_eq!(selected(&stage), before);
}
