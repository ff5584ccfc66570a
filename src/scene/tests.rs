//! The list under changing locks: the selection is a lock, the order waits for the hand, and nothing stale looks live.

use proptest::prelude::*;

use super::*;
use crate::app::Event;
use crate::model::Limits;
use crate::stage::Stage;

fn three() -> Stage {
    let mut stage = Stage::new();
    for key in ["lock:a", "lock:b", "lock:c"] {
        stage.acquire(key, "t", 60_000);
        stage.pass(100);
    }
    stage.compose();
    stage
}

/// Long enough for the order to be worked out anew.
fn wait(stage: &mut Stage) {
    stage.pass(2_000);
    stage.compose();
}

#[test]
fn the_worst_is_first_whenever_it_came() {
    let mut stage = three();
    stage.acquire("lock:forever", "t", None);
    wait(&mut stage);
    assert_eq!(stage.rows(), ["lock:forever", "lock:a", "lock:b", "lock:c"]);
}

#[test]
fn the_selection_sticks_to_the_lock_when_the_order_changes() {
    let mut stage = three();
    stage.press("j");
    stage.acquire("lock:forever", "t", None);
    wait(&mut stage);
    assert_eq!(stage.selected().as_deref(), Some("lock:b"));
    assert_eq!(stage.app.scene.cursor, Some(2));
    stage.press("s S");
    assert_eq!(stage.selected().as_deref(), Some("lock:b"));
}

#[test]
fn the_order_does_not_move_under_a_finger() {
    let mut stage = three();
    stage.pass(5_000);
    stage.press("j");
    stage.acquire("lock:forever", "t", None);
    for _ in 0..14 {
        stage.pass(100);
        stage.compose();
        assert_eq!(stage.rows(), ["lock:a", "lock:b", "lock:c"]);
    }
    stage.pass(100);
    stage.compose();
    assert_eq!(stage.rows()[0], "lock:forever");
}

#[test]
fn a_lock_freed_under_the_cursor_stays_until_one_moves_on() {
    let mut stage = three();
    stage.press("j");
    stage.release("lock:b");
    wait(&mut stage);
    assert_eq!(stage.selected().as_deref(), Some("lock:b"));
    let row = stage.app.scene.rows.iter().find(|lock| lock.key.to_string() == "lock:b").unwrap();
    assert_eq!(row.verdict.state, State::Free);
    let screen = stage.screen();
    let row = screen.lines().find(|line| line.contains("FREE")).unwrap_or_else(|| panic!("{screen}"));
    assert!(!row.contains("never"), "what is gone has no TTL: {row}");
    // Looking at it, ordering, pausing and other screens are no moving on.
    stage.press("enter esc 3 1 s p p");
    assert_eq!(stage.selected().as_deref(), Some("lock:b"));
    stage.press("g");
    wait(&mut stage);
    assert_eq!(stage.rows(), ["lock:a", "lock:c"]);
}

#[test]
fn a_freed_lock_does_not_outlast_a_filter_that_hides_it() {
    let mut stage = three();
    stage.press("j");
    stage.release("lock:b");
    wait(&mut stage);
    stage.filter("state:held");
    assert_eq!(stage.rows(), ["lock:a", "lock:c"]);
    assert_eq!(stage.selected().as_deref(), Some("lock:c"), "its neighbour");
}

#[test]
fn marks_of_locks_that_are_gone_go_too() {
    let mut stage = three();
    stage.press("space space");
    stage.release("lock:a");
    wait(&mut stage);
    let marked: Vec<String> = stage.app.marked.iter().map(|id| id.key.to_string()).collect();
    assert_eq!(marked, ["lock:b"]);
}

#[test]
fn a_filter_moves_the_selection_to_a_lock_that_is_shown() {
    let mut stage = three();
    stage.press("G");
    stage.filter("lock:a");
    assert_eq!(stage.selected().as_deref(), Some("lock:a"));
    stage.filter("nothing-like-this");
    assert_eq!((stage.selected(), stage.rows().len()), (None, 0));
    stage.press("esc");
    assert!(stage.selected().is_some());
}

#[test]
fn a_filter_without_a_match_is_not_worked_out_for_every_frame() {
    let mut stage = three();
    stage.filter("nothing-like-this");
    let ordered = stage.app.scene.ordered_at;
    stage.pass(100);
    stage.compose();
    assert_eq!(stage.app.scene.ordered_at, ordered);
}

#[test]
fn rows_are_stale_from_the_gap_until_the_next_walk() {
    let mut stage = three();
    assert!(stage.app.scene.rows.iter().all(|lock| !lock.stale));
    stage.lose();
    stage.pass(1_000);
    let screen = stage.screen();
    assert!(stage.app.scene.rows.iter().all(|lock| lock.stale));
    assert_eq!(screen.matches("stale ").count(), 3 + 1, "each row, and the header: {screen}");
    assert!(screen.lines().skip(3).take(3).all(|row| !row.contains("HELD")), "{screen}");
    stage.come_back();
    wait(&mut stage);
    assert!(stage.app.scene.rows.iter().all(|lock| !lock.stale));
    assert!(!stage.screen().contains("stale"));
}

#[test]
fn locks_that_the_table_forgets_leave_the_list_and_the_others_stay() {
    let mut stage = Stage::with(Limits { gone: 0, ..Limits::default() });
    for key in ["lock:a", "lock:b", "lock:c", "lock:d"] {
        stage.acquire(key, "t", 60_000);
        stage.pass(100);
    }
    stage.compose();
    stage.press("j j");
    stage.release("lock:a");
    stage.compose();
    assert_eq!(stage.rows(), ["lock:b", "lock:c", "lock:d"]);
    assert_eq!(stage.selected().as_deref(), Some("lock:c"));
    stage.release("lock:c");
    stage.compose();
    assert_eq!(stage.selected().as_deref(), Some("lock:d"), "its neighbour");
    stage.release("lock:d");
    stage.compose();
    assert_eq!(stage.selected().as_deref(), Some("lock:b"));
    stage.release("lock:b");
    stage.compose();
    assert_eq!(stage.selected(), None);
}

#[test]
fn equal_locks_on_two_nodes_keep_their_order() {
    let mut views = [crate::sample::redisson(), crate::sample::redisson()];
    views[1].node = NodeId(1);
    let order = Order { column: Column::State, reversed: true };
    let ranked: Vec<_> = views.iter().enumerate().map(|(at, view)| Ranked::frozen(at, view, order, Time(0))).collect();
    assert_eq!(ranked[0].compare(&ranked[1], order), Ordering::Less);
}

/// What can happen to a console.
#[derive(Clone, Debug)]
enum Deed {
    Press(&'static str),
    Write(&'static str),
    Paste(String),
    Resize(u16, u16),
    Acquire(u8, Option<u16>),
    Renew(u8),
    Release(u8),
    Flush,
    Lose,
    ComeBack,
    Pass(u16),
}

const KEYS: [&str; 30] = [
    "j",
    "k",
    "G",
    "g",
    "pagedown",
    "pageup",
    "enter",
    "esc",
    "/",
    ":",
    "s",
    "S",
    "space",
    "p",
    "y",
    "r",
    "t",
    "P",
    "m",
    "1",
    "3",
    "5",
    "?",
    "ctrl-l",
    "ctrl-z",
    "Z",
    "left",
    "right",
    "backspace",
    "ctrl-u",
];
const TEXTS: [&str; 8] = ["lock:1", "state:held", "ttl<5s", "(", "sort key", "state:free or lock:3", "锁", "no such"];
const SIZES: [(u16, u16); 9] = [(1, 1), (2, 2), (10, 3), (59, 11), (60, 12), (61, 13), (80, 24), (140, 40), (250, 9)];

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let key = || 0..8u8;
    let deed = prop_oneof![
        8 => prop::sample::select(&KEYS).prop_map(Deed::Press),
        2 => prop::sample::select(&TEXTS).prop_map(Deed::Write),
        1 => "\\PC{0,6}".prop_map(Deed::Paste),
        1 => prop::sample::select(&SIZES).prop_map(|(width, height)| Deed::Resize(width, height)),
        5 => (key(), prop::option::of(1..20_000u16)).prop_map(|(n, ttl)| Deed::Acquire(n, ttl)),
        2 => key().prop_map(Deed::Renew),
        4 => key().prop_map(Deed::Release),
        1 => Just(Deed::Flush),
        1 => Just(Deed::Lose),
        1 => Just(Deed::ComeBack),
        4 => (0..3_000u16).prop_map(Deed::Pass),
    ];
    prop::collection::vec(deed, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn nothing_that_happens_panics_or_leaves_the_selection_out_of_sight(deeds in deeds(), gone in 0..4usize) {
        let mut stage = Stage::with(Limits { locks: 64, gone, transitions: 50 });
        for deed in deeds {
            let key = |n: u8| format!("lock:{n}:锁");
            match deed.clone() {
                Deed::Press(key) => drop(stage.press(key)),
                Deed::Write(text) => stage.write(text),
                Deed::Paste(text) => drop(stage.app.update(Event::Paste(text), stage.now)),
                Deed::Resize(width, height) => stage.resize(width, height),
                Deed::Acquire(n, ttl) => stage.acquire(key(n), "t", ttl.map(u64::from)),
                Deed::Renew(n) => stage.renew(&key(n), 5_000),
                Deed::Release(n) => stage.release(key(n)),
                Deed::Flush => stage.flush(),
                Deed::Lose => stage.lose(),
                Deed::ComeBack => stage.come_back(),
                Deed::Pass(ms) => stage.pass(u64::from(ms)),
            }
            stage.draw();
            let scene = &stage.app.scene;
            match &stage.app.selected {
                None => prop_assert!(scene.rows.is_empty(), "rows without a selection after {deed:?}"),
                Some(id) => {
                    let row = scene.cursor.and_then(|cursor| scene.rows.get(cursor.checked_sub(scene.first)?));
                    prop_assert!(row.is_some_and(|row| id.is(row)), "{id:?} is not the row shown after {deed:?}");
                    prop_assert!(scene.rows.len() <= scene.page && scene.cursor < Some(scene.listed));
                }
            }
        }
    }
}
