//! The list while locks change: the selection is a lock, rows wait for the user, and nothing stale looks live.

use std::cmp::Ordering;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;

use super::*;
use crate::app::{Event, Order, Wish};
use crate::lock::KeyspaceId;
use crate::model::Column;
use crate::model::Limits;
use crate::testkit::stage::Stage;

fn three() -> Stage {
    let mut stage = Stage::new();
    for key in ["lock:a", "lock:b", "lock:c"] {
        stage.acquire(key, "t", 60_000);
        stage.pass(100);
    }
    stage.compose();
    stage
}

/// Waits long enough for the next sort.
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
    stage.press("s k S");
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
fn the_key_to_the_top_selects_the_lock_that_is_the_worst_then() {
    let mut stage = three();
    stage.pass(5_000);
    stage.press("j");
    stage.acquire("lock:forever", "t", None);
    stage.pass(100);
    stage.press("g");
    assert_eq!((stage.selected().as_deref(), stage.rows()[0].as_str()), (Some("lock:forever"), "lock:forever"));
    // Where sorting takes a while, the selection is that of the new order, and the next key waits for it.
    let mut stage = in_slices();
    settle(&mut stage);
    let worst = stage.rows()[0].clone();
    stage.press("G");
    stage.release(&worst);
    stage.press("g");
    assert!(stage.app.awaits_order());
    settle(&mut stage);
    assert_eq!(stage.selected(), stage.rows().first().cloned());
    assert_ne!(stage.selected(), Some(worst), "it is free");
    stage.press("j");
    stage.pass(2_000);
    settle(&mut stage);
    assert_eq!(stage.selected(), stage.rows().get(1).cloned(), "once, and no longer");
}

#[test]
fn a_lock_freed_under_the_cursor_stays_for_a_moment_and_then_leaves() {
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
    // Each key gives it another moment.
    stage.pass(2_000);
    stage.press("enter esc 3 1 s k p p");
    wait(&mut stage);
    wait(&mut stage);
    assert_eq!(stage.selected().as_deref(), Some("lock:b"));
    wait(&mut stage);
    assert_eq!(stage.rows(), ["lock:a", "lock:c"]);
    assert_eq!(stage.notice(), "lock:b is free, and has left the list");
    assert_eq!(stage.selected().as_deref(), Some("lock:c"), "its neighbour");
}

#[test]
fn a_freed_lock_that_is_opened_is_still_selected_afterwards() {
    let mut stage = three();
    stage.press("j enter");
    stage.release("lock:b");
    for _ in 0..10 {
        wait(&mut stage);
    }
    stage.press("esc");
    wait(&mut stage);
    assert_eq!(stage.selected().as_deref(), Some("lock:b"));
}

/// A lock whose renewals stopped, among three that are well.
fn stalled() -> Stage {
    let mut stage = Stage::new();
    for key in ["lock:a", "lock:b", "lock:c"] {
        stage.acquire(key, "t", 600_000);
        stage.pass(100);
    }
    stage.acquire_redisson("lock:order", "3f2a8c00-1111-4222-8333-444455556666:57", 30_000);
    for _ in 0..3 {
        stage.pass(10_000);
        stage.renew("lock:order", 30_000);
        stage.compose();
    }
    assert_eq!(stage.rows().last().map(String::as_str), Some("lock:order"), "held for the shortest time");
    for _ in 0..15 {
        stage.pass(1_000);
        stage.compose();
    }
    stage
}

/// The row of the lock, as it is drawn.
fn row_of(stage: &mut Stage, key: &str) -> (String, Vec<ratatui::buffer::Cell>) {
    let buffer = stage.draw();
    let screen = crate::testkit::stage::text(&buffer);
    let y = screen.lines().position(|line| line.contains(key)).unwrap_or_else(|| panic!("{key} is not in\n{screen}"));
    let cells = (0..buffer.area.width).map(|x| buffer[(x, y as u16)].clone()).collect();
    (screen.lines().nth(y).unwrap_or_default().to_string(), cells)
}

#[test]
fn a_lock_that_got_worse_rises_within_a_second_and_is_marked() {
    let mut stage = stalled();
    assert_eq!(stage.rows()[0], "lock:order");
    stage.press("j");
    let (row, cells) = row_of(&mut stage, "lock:order");
    assert!(row.starts_with("▲STALLED"), "{row}");
    assert!(row.contains("3f2a8c0"), "who holds it matters most now: {row}");
    let key = row.find("lock:order").map(|at| row[..at].chars().count()).unwrap();
    assert!(cells[key].modifier.contains(ratatui::style::Modifier::BOLD), "also without colours");
    stage.press("k");
    let screen = stage.screen();
    assert!(screen.contains("was HELD until"), "{screen}");
    for _ in 0..12 {
        stage.pass(1_000);
        stage.compose();
    }
    stage.press("j");
    let (row, _) = row_of(&mut stage, "lock:order");
    assert!(row.starts_with(' '), "after a while it is not new any more: {row}");
}

#[test]
fn a_lock_that_got_better_leaves_the_top_within_seconds_dimmed_and_with_what_it_was() {
    for free in [false, true] {
        let mut stage = stalled();
        stage.press("G");
        stage.pass(2_000);
        match free {
            true => stage.release("lock:order"),
            false => stage.renew("lock:order", 30_000),
        }
        for _ in 0..3 {
            stage.pass(1_000);
            stage.compose();
        }
        assert_eq!(stage.rows()[0], "lock:order", "it does not vanish under the eye");
        let (row, cells) = row_of(&mut stage, "lock:order");
        let state = if free { "▽FREE" } else { "▽HELD" };
        assert!(row.starts_with(state) && row.contains("<STALLED"), "{row}");
        stage.resize(100, 24);
        let (wide, _) = row_of(&mut stage, "lock:order");
        assert!(wide.contains("was STALLED"), "{wide}");
        assert!(cells[1].modifier.contains(ratatui::style::Modifier::DIM), "{row}");
        for _ in 0..4 {
            stage.pass(1_000);
            stage.compose();
        }
        match free {
            true => assert_eq!(stage.rows(), ["lock:a", "lock:b", "lock:c"]),
            false => assert_eq!(stage.rows(), ["lock:a", "lock:b", "lock:c", "lock:order"]),
        }
    }
}

#[test]
fn what_got_better_stays_below_what_is_as_bad_as_it_was() {
    let mut stage = Stage::new();
    let locks = ["lock:older", "lock:stuck"];
    for (thread, key) in (57..).zip(locks) {
        stage.acquire_redisson(key, &format!("3f2a8c00-1111-4222-8333-444455556666:{thread}"), 30_000);
        stage.pass(100);
    }
    for _ in 0..3 {
        stage.pass(10_000);
        locks.iter().for_each(|key| stage.renew(key, 30_000));
        stage.compose();
    }
    for _ in 0..17 {
        stage.pass(1_000);
        stage.compose();
    }
    assert_eq!(stage.rows(), locks, "both are stalled, and the first is held for longer");
    stage.renew("lock:older", 30_000);
    for _ in 0..2 {
        stage.pass(1_000);
        stage.compose();
    }
    let (row, _) = row_of(&mut stage, "lock:older");
    assert!(row.starts_with("▽HELD") && row.contains("was STALLED"), "{row}");
    assert_eq!(stage.rows(), ["lock:stuck", "lock:older"]);
}

#[test]
fn what_got_better_does_not_move_under_a_finger() {
    let mut stage = stalled();
    stage.press("g");
    stage.release("lock:order");
    for _ in 0..8 {
        stage.pass(1_000);
        stage.press("j k");
        stage.compose();
        assert_eq!((stage.rows()[0].as_str(), stage.selected().as_deref()), ("lock:order", Some("lock:order")));
    }
    for _ in 0..6 {
        stage.pass(1_000);
        stage.compose();
    }
    assert_eq!(stage.rows(), ["lock:a", "lock:b", "lock:c"]);
}

#[test]
fn free_locks_are_hidden_and_counted_unless_asked_for() {
    let mut stage = three();
    stage.acquire("lock:stock.writer", "web_9_f3a9c07be15d28466cb1709e5ad2488f_WRITERWAITING", 30_000);
    wait(&mut stage);
    let screen = stage.screen();
    assert_eq!(stage.rows(), ["lock:a", "lock:b", "lock:c"], "{screen}");
    assert!(screen.contains("4 locks  1 free hidden"), "{screen}");
    stage.filter("lock:");
    assert_eq!(stage.rows(), ["lock:a", "lock:b", "lock:c"]);
    stage.press("p");
    stage.filter("lock");
    assert_eq!(stage.rows(), ["lock:a", "lock:b", "lock:c"], "paused too");
    stage.press("p");
    for filter in ["state:free", "lock: and (state:free or ttl<0s)", "state:fr*"] {
        stage.filter(filter);
        let screen = stage.screen();
        assert_eq!(stage.rows(), ["lock:stock.writer"], "{filter}: {screen}");
        assert!(screen.contains("1 free") && !screen.contains("hidden"), "{screen}");
    }
}

#[test]
fn where_all_locks_are_free_the_list_says_so() {
    let mut stage = Stage::new();
    stage.acquire("lock:stock.writer", "web_9_f3a9c07be15d28466cb1709e5ad2488f_WRITERWAITING", 30_000);
    let screen = stage.screen();
    assert!(screen.contains("Nobody holds any of them right now; '/' and state:free lists them."), "{screen}");
}

#[test]
fn the_unknown_is_last_in_every_column_and_either_way() {
    let mut stage = three();
    // Two of which nobody knows for how long they were held, how often renewed and by whom wanted.
    stage.hold_unseen("lock:old-1", "t");
    stage.hold_unseen("lock:old-2", "t");
    stage.scan();
    stage.want("lock:b", 2);
    stage.compose();
    for (letter, column) in [("r", Column::Renewals), ("w", Column::Wait), ("e", Column::Lease), ("f", Column::Fail)] {
        for keys in [format!("s {letter}"), "S".to_string()] {
            stage.press(&keys);
            let order = stage.app.list.order;
            let keys: Vec<_> = stage.app.scene.rows.iter().map(|lock| column.sort_key(lock)).collect();
            let unknown = |key: &crate::model::order::SortKey| *key == crate::model::order::SortKey::Most(None);
            let first = keys.iter().position(unknown).unwrap_or(keys.len());
            assert!(keys[first..].iter().all(unknown), "{order:?}: {keys:?}");
            assert!(first < keys.len(), "{order:?}: {keys:?}");
        }
    }
}

#[test]
fn a_freed_lock_does_not_outlast_a_filter_that_hides_it() {
    let mut stage = three();
    stage.press("j");
    stage.release("lock:b");
    wait(&mut stage);
    stage.filter("state:held");
    assert_eq!(stage.rows(), ["lock:a", "lock:c"]);
    assert_eq!(stage.selected().as_deref(), Some("lock:a"), "the first that it finds");
}

#[test]
fn marks_of_locks_that_are_gone_go_too() {
    let mut stage = three();
    stage.press("space space");
    stage.release("lock:a");
    wait(&mut stage);
    let marked: Vec<String> = stage.app.list.marked.iter().map(|id| id.key.to_string()).collect();
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
    assert!(screen.lines().skip(4).take(3).all(|row| !row.contains("HELD")), "{screen}");
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
fn equal_locks_in_two_keyspaces_keep_their_order() {
    let mut views = [crate::testkit::sample::redisson(), crate::testkit::sample::redisson()];
    views[1].space = KeyspaceId(1);
    let order = Order { column: Column::State, reversed: true };
    let ranked: Vec<_> = views.iter().enumerate().map(|(at, view)| Rank::frozen(at, view, order)).collect();
    let name = |at: &usize| Some((&views[*at].key, views[*at].space));
    assert_eq!(ranked[0].compare(&ranked[1], order, name), Ordering::Less);
}

/// Slices so small that every table needs many.
fn tiny(size: usize) -> Portion {
    Portion { at_once: 0, judged: size, decoded: size, run: size + 1, merged: size }
}

/// Many locks of different lives, `lock:00` and so on, and an order that takes many slices.
fn in_slices() -> Stage {
    let mut stage = Stage::new();
    for n in 0..40u64 {
        stage.pass(10);
        let ttl = (n % 7 > 0).then_some(20_000 + n * 37 % 11 * 1_000);
        stage.acquire(format!("lock:{n:02}"), &format!("t{}", n * 13 % 40), ttl);
    }
    stage.app.scene.portion = tiny(3);
    stage
}

/// Composes and sorts, as the idle loop does.
fn settle(stage: &mut Stage) {
    stage.compose();
    for _ in 0..1_000 {
        if stage.app.is_ordering() && !stage.app.order_on(&stage.table, stage.now) {
            continue;
        }
        return stage.compose();
    }
    panic!("the order is never there");
}

#[test]
fn an_order_in_slices_is_the_same_as_one_at_once() {
    let mut sliced = in_slices();
    let mut whole = in_slices();
    whole.app.scene.portion = Portion::default();
    for stage in [&mut sliced, &mut whole] {
        stage.resize(140, 60);
        settle(stage);
    }
    for keys in [
        "G", "s k", "S", "s l", "S", "s o", "S", "s h", "S", "s t", "S", "s e", "S", "s r", "S", "s w", "S", "s s", "S",
    ] {
        for stage in [&mut sliced, &mut whole] {
            stage.press(keys);
            settle(stage);
        }
        let scene = &sliced.app.scene;
        assert_eq!(
            (sliced.rows(), &scene.counts),
            (whole.rows(), &whole.app.scene.counts),
            "{:?}",
            sliced.app.list.order
        );
        assert_eq!((sliced.rows().len(), scene.total), (40, 40));
        assert_eq!(sliced.selected(), whole.selected());
    }
}

#[test]
fn a_lock_that_goes_while_the_order_is_worked_out_is_not_in_it() {
    for slices in 0..40 {
        let mut stage = in_slices();
        settle(&mut stage);
        stage.pass(2_000);
        stage.compose();
        for _ in 0..slices {
            stage.app.order_on(&stage.table, stage.now);
        }
        let under_way = stage.app.is_ordering();
        stage.release("lock:05");
        stage.release("lock:06");
        stage.acquire("lock:06", "another", 500);
        settle(&mut stage);
        stage.resize(140, 60);
        let rows = stage.rows();
        let distinct: BTreeSet<&String> = rows.iter().collect();
        assert_eq!(distinct.len(), rows.len(), "{slices}: {rows:?}");
        let gone = stage.app.scene.rows.iter().filter(|lock| lock.verdict.state == State::Free).count();
        assert!(!under_way || gone <= 1, "{slices}: what was merged before stays for a moment, no more: {rows:?}");
    }
}

#[test]
fn a_key_puts_off_an_order_that_is_under_way_unless_it_asks_for_one() {
    let mut stage = in_slices();
    settle(&mut stage);
    stage.pass(2_000);
    stage.compose();
    assert!(stage.app.is_ordering());
    let before = stage.rows();
    stage.press("j");
    assert!(!stage.app.order_on(&stage.table, stage.now) && !stage.app.is_ordering());
    assert_eq!(stage.rows(), before);
    stage.press("s k");
    assert!(stage.app.is_ordering());
    stage.press("j");
    settle(&mut stage);
    assert_ne!(stage.rows(), before);
}

#[test]
fn keys_for_rows_that_are_not_there_yet_are_known() {
    let mut stage = in_slices();
    settle(&mut stage);
    stage.pass(2_000);
    stage.compose();
    assert!(stage.app.is_ordering() && !stage.app.awaits_order(), "nobody waits for an order that is due");
    stage.filter("lock:07");
    assert!(stage.app.awaits_order());
    let on_rows = |stage: &Stage, c| stage.app.acts_on_rows(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
    assert!("jkgGly ".chars().all(|c| on_rows(&stage, c)));
    assert!(!"qsS/:?p135".chars().any(|c| on_rows(&stage, c)));
    stage.press("/");
    assert!(!on_rows(&stage, 'j'), "a letter of a filter");
    stage.press("esc");
    settle(&mut stage);
    assert!(!stage.app.awaits_order());
}

#[test]
fn what_was_asked_for_before_a_pause_is_shown_in_it() {
    let mut stage = in_slices();
    settle(&mut stage);
    stage.filter("lock:07 or lock:08");
    assert!(stage.app.is_ordering());
    stage.press("p");
    assert!(!stage.app.is_ordering(), "a paused screen has nothing to work on");
    assert_eq!(stage.rows(), ["lock:07", "lock:08"]);
    stage.press("p");
    settle(&mut stage);
    assert_eq!(stage.rows(), ["lock:07", "lock:08"]);
}

#[test]
fn a_selected_lock_that_was_free_for_a_moment_stays_selected() {
    let mut stage = in_slices();
    settle(&mut stage);
    stage.press("g");
    assert_eq!(stage.selected().as_deref(), Some("lock:00"));
    stage.pass(2_000);
    stage.release("lock:00");
    stage.compose();
    assert!(!stage.app.order_on(&stage.table, stage.now), "it was judged, and found free");
    stage.acquire("lock:00", "another", 60_000);
    settle(&mut stage);
    assert_eq!(stage.selected().as_deref(), Some("lock:00"));
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
    /// Sort for this many slices.
    Order(u8),
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
        4 => (0..12u8).prop_map(Deed::Order),
    ];
    prop::collection::vec(deed, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn nothing_that_happens_panics_or_leaves_the_selection_out_of_sight(
        deeds in deeds(),
        gone in 0..4usize,
        slices in prop::option::of(1..4usize),
    ) {
        let mut stage = Stage::with(Limits { locks: 64, gone, lost: gone, transitions: 50 });
        stage.app.scene.portion = slices.map_or(Portion::default(), tiny);
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
                Deed::Order(slices) => {
                    for _ in 0..slices {
                        stage.app.order_on(&stage.table, stage.now);
                    }
                }
            }
            stage.draw();
            let scene = &stage.app.scene;
            let distinct: BTreeSet<_> = scene.rows.iter().map(|lock| &lock.key).collect();
            prop_assert_eq!(distinct.len(), scene.rows.len(), "a lock is shown twice after {:?}", deed);
            match &stage.app.list.selected {
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

#[test]
fn a_lost_lock_keeps_its_row_counts_as_none_and_can_not_be_freed() {
    let mut stage = three();
    stage.evict("lock:b");
    wait(&mut stage);
    let screen = stage.screen();
    let row = screen.lines().find(|line| line.contains("lock:b")).unwrap_or_else(|| panic!("{screen}"));
    assert!(row.contains("LOST") && row.contains("was "), "{screen}");
    assert!(!row.contains("never") && !row.contains('█'), "nobody holds it: {row}");
    assert!(screen.contains("2 locks") && screen.contains("1 lost"), "{screen}");
    assert_eq!(stage.rows()[0], "lock:b", "the worst first: {screen}");
    stage.press("g W x");
    assert!(stage.notice().starts_with("lock:b: it is not on the server any more"), "{}", stage.notice());
    assert!(matches!(stage.app.overlay, Overlay::None));
    stage.filter("state:lost");
    assert_eq!(stage.rows(), ["lock:b"]);
    stage.filter("ttl:none");
    assert!(!stage.rows().contains(&"lock:b".to_string()), "it has no TTL to speak of");
    stage.filter("");
    // Its holder has it again.
    stage.acquire("lock:b", "t", 60_000);
    wait(&mut stage);
    assert!(stage.screen().contains("3 locks"), "{}", stage.screen());
}

#[test]
fn an_answer_that_nobody_waits_for_opens_nothing() {
    let mut stage = three();
    stage.press("W");
    let lock = stage.app.scene.lock.clone().expect("it is selected");
    let effects = stage.app.update(Event::Seen(Wish::Free, vec![lock.clone()]), stage.now);
    assert!(effects.is_empty() && matches!(stage.app.overlay, Overlay::None));
    // Nor does the answer to what was given up.
    let id = LockId::of(&lock);
    stage.app.update(Event::Key(KeyEvent::from(KeyCode::Char('x'))), stage.now);
    let Overlay::Asking(asking) = &stage.app.overlay else { panic!("{:?}", stage.app.overlay) };
    assert!(asking.about.ends_with(&format!(" about {}", id.key)), "{asking:?}");
    assert!(stage.screen().contains("esc cancels"));
    stage.app.update(Event::Key(KeyEvent::from(KeyCode::Esc)), stage.now);
    assert_eq!(stage.notice(), "not asked any more; nothing was changed");
    stage.app.update(Event::Seen(Wish::Free, vec![lock.clone()]), stage.now);
    assert!(matches!(stage.app.overlay, Overlay::None));
    // A server that does not answer does not hold up the console for ever.
    stage.app.update(Event::Key(KeyEvent::from(KeyCode::Char('x'))), stage.now);
    let later = stage.now + std::time::Duration::from_secs(10);
    stage.app.update(Event::Seen(Wish::Free, vec![lock]), later);
    assert!(matches!(stage.app.overlay, Overlay::None));
    let said = stage.notice();
    assert!(
        said.starts_with("asked ") && said.ends_with(" for 10.0s, without an answer; nothing was changed"),
        "{said}"
    );
}
