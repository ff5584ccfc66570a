//! Many locks at once: those that a filter hides, what the first choice is, and the lists that keep their selections.

use super::*;
use crate::app::{Event, Screen, Title};
use crate::testkit::sample;
use crate::testkit::stage::Stage;

const LEASE: u64 = 600_000;

/// Three locks, on a server where writing is on.
fn three() -> Stage {
    let mut stage = Stage::new();
    stage.app.title = Title { environment: Some(Environment::Dev), ..stage.app.title.clone() };
    for name in ["lock:a", "lock:b", "lock:c"] {
        stage.acquire(name, &format!("{name}-worker"), LEASE);
    }
    stage.compose();
    stage.press("W");
    stage
}

fn asked(stage: &Stage) -> (String, Vec<String>) {
    let Overlay::Dialog(dialog) = &stage.app.overlay else { panic!("no question: {}", stage.notice()) };
    let choice = dialog.choice();
    (choice.label.clone(), choice.plans.iter().map(|plan| plan.key.to_string()).collect())
}

#[test]
fn marks_that_the_filter_hides_are_told_and_the_visible_ones_offered_first() {
    let mut stage = three();
    stage.press("*");
    stage.filter("lock:a or lock:b");
    stage.press("x");
    let (label, keys) = asked(&stage);
    assert_eq!(label, "free 2 locks (no: 2) that you see; 1 is hidden by the filter");
    assert_eq!(keys, ["lock:a", "lock:b"]);
    stage.press("tab");
    let (label, keys) = asked(&stage);
    assert_eq!((label.as_str(), keys.len()), ("free 3 locks (no: 3), of which 1 is hidden by the filter", 3));
    let screen = stage.screen();
    assert!(screen.contains("hidden    marked, and the filter does not show it: lock:c"), "{screen}");
    assert!(screen.contains("and press enter to free 3 locks (no: 3), of"), "{screen}");
}

#[test]
fn marks_that_are_all_hidden_say_so() {
    let mut stage = three();
    stage.press("*");
    stage.acquire("job:x", "w", LEASE);
    stage.filter("job");
    stage.press("x");
    let (label, keys) = asked(&stage);
    assert_eq!((label.as_str(), keys.len()), ("free 3 locks (no: 3), of which 3 are hidden by the filter", 3));
    stage.press("esc");
    // A single mark is asked about like a selected lock, and it is another one.
    stage.filter("lock:c");
    stage.press("esc * * g space");
    stage.filter("job");
    stage.press("x");
    let screen = stage.screen();
    assert_eq!(asked(&stage).1.len(), 1);
    assert!(screen.contains("the filter does not show it: lock:"), "{screen}");
}

#[test]
fn a_visible_mark_is_not_called_hidden() {
    let mut stage = three();
    stage.press("*");
    stage.filter("lock:");
    stage.press("x");
    assert_eq!(asked(&stage).0, "free 3 locks (no: 3)");
}

#[test]
fn a_proof_offers_to_free_first_and_a_doubt_more_time() {
    // Renewed every 10 s, then silent: the watchdog is late, and its holder may live.
    let mut stage = Stage::new();
    stage.acquire_redisson("lock:a", "3f2a8c00-1111-4222-8333-444455556666:57", 30_000);
    for _ in 0..4 {
        stage.pass(10_000);
        stage.renew("lock:a", 30_000);
    }
    stage.pass(16_000);
    stage.compose();
    stage.press("W x");
    assert_eq!(asked(&stage).0, "give it 1m00s", "{}", stage.screen());
    stage.press("tab");
    assert_eq!(asked(&stage).0, "free it");
    stage.press("esc");
    // Two more are missed: nothing lives there.
    let mut stage = Stage::new();
    stage.acquire_redisson("lock:a", "3f2a8c00-1111-4222-8333-444455556666:57", 300_000);
    for _ in 0..4 {
        stage.pass(10_000);
        stage.renew("lock:a", 300_000);
    }
    stage.pass(100_000);
    stage.compose();
    let state = stage.app.scene.rows[0].verdict.state;
    assert_eq!(state, crate::model::State::Orphan, "{}", stage.screen());
    stage.press("W x");
    assert_eq!(asked(&stage).0, "free it", "{}", stage.screen());
    // Without an end, and with a proof: an end comes second.
    let mut stage = three();
    let (mut dead, mut found) = (sample::forever(), sample::inspection());
    (dead.verdict.state, dead.verdict.confidence) = (crate::model::State::Orphan, 0.9);
    dead.findings.clear();
    found.waiters.queue.clear();
    let id = LockId::of(&dead);
    stage.app.ask(Wish::Free, vec![id.clone()], stage.now);
    stage.app.take_seen(Wish::Free, vec![dead], stage.now);
    stage.app.take_closer_look(&id, &found, stage.now);
    assert_eq!(asked(&stage).0, "free it", "{}", stage.screen());
    stage.press("tab");
    assert_eq!(asked(&stage).0, "give it 5m00s", "{}", stage.screen());
    // Without an end, and without a proof: an end first.
    let mut stage = Stage::new();
    stage.acquire("lock:forever", "worker-2", None);
    stage.compose();
    stage.press("W x");
    assert_eq!(asked(&stage).0, "give it 5m00s");
}

/// Two locks of threads that renewed them every 10 s until so long ago.
fn silent(lease: u64, for_ms: u64) -> Stage {
    let mut stage = Stage::new();
    let locks = [("lock:a", "57"), ("lock:b", "58")];
    for (name, thread) in locks {
        stage.acquire_redisson(name, &format!("3f2a8c00-1111-4222-8333-444455556666:{thread}"), lease);
    }
    for _ in 0..4 {
        stage.pass(10_000);
        locks.iter().for_each(|(name, _)| stage.renew(name, lease));
    }
    stage.pass(for_ms);
    stage.compose();
    stage
}

#[test]
fn marked_locks_in_doubt_are_offered_more_time_first_and_proven_ones_are_freed_first() {
    // One renewal of each is late: their holders may live.
    let mut stage = silent(30_000, 16_000);
    stage.press("W * x");
    let (label, keys) = asked(&stage);
    assert_eq!((label.as_str(), keys.len()), ("give 2 locks 1m00s", 2), "{}", stage.screen());
    stage.press("tab");
    assert!(asked(&stage).0.starts_with("free 2 locks"), "{}", stage.screen());
    // Several are missed: nothing lives there, so nothing is in the way of freeing them.
    let mut stage = silent(300_000, 100_000);
    stage.press("W * x");
    assert_eq!(asked(&stage).0, "free 2 locks", "{}", stage.screen());
    stage.press("tab");
    assert_eq!(asked(&stage).0, "free 2 locks", "it is the only choice");
    // One of three is in doubt: that one gets the time.
    stage.press("esc");
    stage.acquire("lock:forever", "worker-2", None);
    stage.pass(2_000);
    stage.compose();
    stage.press("* * x");
    let (label, keys) = asked(&stage);
    assert_eq!((label.as_str(), keys.as_slice()), ("give 1 of 3 locks 5m00s", &["lock:forever".to_string()][..]));
    stage.press("tab");
    assert!(asked(&stage).0.starts_with("free 3 locks ("), "{}", asked(&stage).0);
}

#[test]
fn more_time_for_marked_locks_says_which_of_them_the_filter_hides() {
    let mut stage = silent(30_000, 16_000);
    stage.press("W *");
    stage.filter("lock:a");
    stage.press("x");
    let mut offered = Vec::new();
    for _ in 0..4 {
        offered.push(asked(&stage).0);
        stage.press("tab");
    }
    let seen = |label: &String| label.contains("that you see; 1 is hidden by the filter");
    let both = |label: &String| label.contains("2 locks") && label.contains(", of which 1 is hidden by the filter");
    assert!(offered[..2].iter().all(seen) && offered[2..].iter().all(both), "{offered:?}");
    assert!(offered[0].starts_with("give 1 lock 1m00s") && offered[2].starts_with("give 2 locks 1m00s"), "{offered:?}");
}

#[test]
fn locks_whose_extension_was_refused_together_are_not_offered_to_be_freed() {
    let mut stage = silent(30_000, 16_000);
    stage.press("W");
    let locks = stage.app.scene.rows.clone();
    let wish = Wish::Extend(Some(std::time::Duration::from_secs(60)));
    stage.app.ask(wish, locks.iter().map(LockId::of).collect(), stage.now);
    let effects = stage.app.take_seen(wish, locks, stage.now);
    assert!(effects.is_empty(), "nothing is freed that could be undone: {effects:?}");
    let (label, keys) = asked(&stage);
    assert_eq!((label.as_str(), keys.len()), ("give 2 locks 1m00s", 2));
}

#[test]
fn what_is_left_out_of_an_undo_is_among_the_results() {
    let mut stage = three();
    stage.app.update(Event::Recalled(Err("the last thing that you did here has no undo".into())), stage.now);
    assert!(stage.notice().contains("has no undo"));
    stage.app.confirmed(Vec::new(), vec!["not put back: lock:b has another holder".into()], None);
    stage.app.update(Event::AllPerformed, stage.now);
    let screen = stage.screen();
    assert!(screen.contains("left out: not put back: lock:b has another holder"), "{screen}");
    let effects = stage.press("u");
    assert_eq!(effects, [Effect::Recall], "the box does not swallow the key");
}

#[test]
fn a_long_sentence_is_whole_at_80_columns() {
    let mut stage = three();
    let why = "the last thing that you did here, 12.0s ago, gave lock:b more time: that has no undo; before that \
        lock:a was freed: 'lockscope undo 19a8b7c6d5e-1f2e-1 -u redis://10.0.3.7:6379' puts it back";
    stage.app.update(Event::Recalled(Err(why.into())), stage.now);
    let screen: Vec<String> = stage.screen().lines().map(|line| line.trim().to_string()).collect();
    assert!(screen.join(" ").contains(why), "{}", screen.join("\n"));
}

#[test]
fn each_list_keeps_its_own_selection() {
    let mut stage = three();
    stage.want("lock:c", 3);
    stage.want("lock:b", 2);
    stage.pass(1_000);
    stage.press("g");
    stage.filter("lock:a or lock:b or lock:c");
    while stage.selected().as_deref() != Some("lock:a") {
        stage.press("j");
    }
    stage.press("2");
    assert_eq!(stage.rows(), ["lock:c", "lock:b"]);
    stage.press("j");
    let there = stage.selected();
    stage.press("1");
    assert_eq!((stage.app.page.screen, stage.selected().as_deref()), (Screen::Locks, Some("lock:a")));
    stage.press("enter");
    assert!(stage.screen().contains("lock:a"), "{}", stage.screen());
    stage.press("esc 2");
    assert_eq!(stage.selected(), there);
    stage.press("3 1");
    assert_eq!(stage.selected().as_deref(), Some("lock:a"), "not by way of another screen either");
}

#[test]
fn the_next_lock_is_opened_without_going_back() {
    let mut stage = three();
    let rows = stage.rows();
    stage.press("g enter");
    let opened = |stage: &Stage| stage.app.page.opened.as_ref().map(|id| id.key.to_string());
    assert_eq!(opened(&stage).as_ref(), Some(&rows[0]));
    assert!(stage.screen().contains("1 of 3, n next"), "{}", stage.screen());
    stage.press("N");
    assert_eq!((opened(&stage).as_ref(), stage.notice()), (Some(&rows[0]), "this is the first lock"));
    stage.press("n n");
    assert_eq!(opened(&stage).as_ref(), Some(&rows[2]));
    assert!(stage.screen().contains("3 of 3"), "{}", stage.screen());
    stage.press("n");
    assert_eq!(stage.notice(), "this is the last lock");
    stage.press("N esc");
    assert_eq!(stage.selected().as_ref(), Some(&rows[1]), "the selection went with it");
}

#[test]
fn from_the_timeline_the_next_lock_is_that_of_the_next_entry() {
    let mut stage = three();
    for name in ["lock:a", "lock:b"] {
        stage.pass(1_000);
        stage.take_over(name, "somebody-else", LEASE);
    }
    stage.press("3");
    let entries: Vec<Option<String>> =
        stage.app.scene.timeline.rows.iter().map(|entry| entry.key.as_ref().map(ToString::to_string)).collect();
    let newest = entries.iter().flatten().next().expect("an entry about a lock").clone();
    let other = entries.iter().flatten().find(|key| **key != newest).expect("another lock").clone();
    stage.press("g");
    while stage.app.scene.timeline.selected().and_then(|entry| entry.key.clone()).is_none() {
        stage.press("j");
    }
    stage.press("enter n");
    assert_eq!(stage.app.page.opened.as_ref().map(|id| id.key.to_string()), Some(other));
    stage.press("N");
    assert_eq!(stage.app.page.opened.as_ref().map(|id| id.key.to_string()), Some(newest));
}

#[test]
fn several_locks_are_freed_only_with_the_advice_and_the_waiters_in_sight() {
    let mut stage = Stage::new();
    for key in ["lock:a", "lock:b"] {
        stage.acquire(key, "worker-1", None);
    }
    stage.compose();
    stage.press("W g space j space x tab");
    let (label, _) = asked(&stage);
    assert_eq!(label, "free 2 locks (no: 2)");
    let screen = stage.screen();
    assert!(screen.contains("waiters") && screen.contains("waiters not known (2 locks)"), "{screen}");
}
