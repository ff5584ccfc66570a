//! What keys do, without a terminal and without a server.

use std::collections::BTreeMap;

use crossterm::event::KeyModifiers;

use super::feed::FEED;
use super::*;
use crate::settings::keys;
use crate::testkit::stage::Stage;

/// Twelve locks, `lock:00` to `lock:11`, the oldest first.
fn twelve() -> Stage {
    let mut stage = Stage::new();
    for n in 0..12 {
        stage.pass(100);
        stage.acquire(format!("lock:{n:02}"), &format!("worker-{n}"), 60_000);
    }
    stage.compose();
    stage
}

#[test]
fn keys_move_the_selection_and_stop_at_the_ends() {
    let mut stage = twelve();
    stage.resize(80, 13);
    assert_eq!(stage.rows().len(), 6);
    assert_eq!(stage.selected().as_deref(), Some("lock:00"));
    for (keys, selected) in [
        ("j down", "lock:02"),
        ("k", "lock:01"),
        ("up up up", "lock:00"),
        ("pagedown", "lock:06"),
        ("ctrl-f ctrl-f", "lock:11"),
        ("pageup", "lock:05"),
        ("G", "lock:11"),
        ("g", "lock:00"),
        ("end", "lock:11"),
        ("home", "lock:00"),
    ] {
        stage.press(keys);
        assert_eq!(stage.selected().as_deref(), Some(selected), "{keys}");
        assert!(stage.rows().contains(&selected.to_string()), "{keys}");
    }
}

#[test]
fn the_derivation_is_one_step_behind_the_opened_lock() {
    let mut stage = twelve();
    stage.press("i");
    assert!(!stage.app.page.why, "it needs an opened lock");
    stage.press("enter i");
    assert!(stage.screen().contains("Is it held? Yes (certain)."), "{}", stage.screen());
    stage.press("esc");
    assert!(!stage.app.page.why && stage.app.page.opened.is_some());
    stage.press("i i");
    assert!(!stage.app.page.why && stage.app.page.opened.is_some(), "the same key leads back");
    stage.press("i esc esc");
    assert!(stage.app.page.opened.is_none());
    stage.press("enter");
    assert!(!stage.app.page.why, "a lock opens as itself");
}

#[test]
fn a_lock_is_opened_and_left_again() {
    let mut stage = twelve();
    stage.press("j enter");
    assert_eq!(stage.app.page.opened.as_ref().unwrap().key, Key::from("lock:01"));
    assert_eq!(stage.app.scene.lock.as_ref().unwrap().key, Key::from("lock:01"));
    stage.press("esc");
    assert_eq!(stage.app.page.opened, None);
    assert_eq!(stage.selected().as_deref(), Some("lock:01"), "one is where one was");
    stage.press("l h 3 esc");
    assert_eq!(stage.app.page.screen, Screen::Locks, "esc leads back from every screen");
}

#[test]
fn esc_takes_away_one_thing_at_a_time() {
    let mut stage = twelve();
    stage.filter("lock:0");
    stage.press("space 5 esc");
    assert_eq!((stage.app.page.screen, stage.app.list.marked.len()), (Screen::Locks, 1));
    stage.press("esc");
    assert_eq!((stage.app.list.marked.len(), stage.app.list.filter_text.as_str()), (0, "lock:0"));
    stage.press("esc");
    assert_eq!((stage.app.list.filter_text.as_str(), stage.app.scene.listed), ("", 12));
    stage.press("esc");
    assert_eq!(stage.notice(), "nothing to go back to; q quits");
}

#[test]
fn a_filter_shows_what_matches_and_nothing_else() {
    let mut stage = twelve();
    stage.filter("lock:1");
    assert_eq!(stage.rows(), ["lock:10", "lock:11"]);
    assert_eq!(stage.selected().as_deref(), Some("lock:10"));
    assert_eq!((stage.app.scene.listed, stage.app.scene.total), (2, 12));
}

#[test]
fn a_wrong_filter_keeps_the_old_one_and_says_where_it_is_wrong() {
    let mut stage = twelve();
    stage.filter("lock:1");
    stage.filter("state:held and ttl<soon");
    let Overlay::Filter(filtering) = &stage.app.overlay else { panic!("the prompt stays open") };
    let prompt = &filtering.prompt;
    assert_eq!(prompt.text(), "state:held and ttl<soon");
    let (why, column) = prompt.refused.as_ref().unwrap();
    assert_eq!(*column, 20);
    assert!(why.contains("column 20"), "{why}");
    assert_eq!((stage.app.list.filter_text.as_str(), stage.rows().len()), ("state:held", 12), "the last good list");
    // The refused text can be corrected in place.
    stage.press("backspace backspace backspace backspace");
    stage.write("90s");
    stage.press("enter");
    assert_eq!((stage.app.list.filter_text.as_str(), stage.rows().len()), ("state:held and ttl<90s", 12));
    stage.filter("lock:1");
    stage.filter("state:nothing");
    stage.press("esc");
    assert_eq!((stage.app.list.filter_text.as_str(), stage.rows().len()), ("lock:1", 2), "esc brings it back");
}

#[test]
fn a_prompt_is_left_without_any_effect() {
    let mut stage = twelve();
    stage.press("/");
    stage.write("lock:1");
    stage.press("esc");
    assert_eq!((stage.app.list.filter_text.as_str(), stage.rows().len()), ("", 12));
    assert_eq!(stage.press("ctrl-c"), [Effect::Quit]);
}

#[test]
fn letters_in_a_prompt_are_letters() {
    let mut stage = twelve();
    stage.press("/");
    stage.write("qps?");
    stage.app.update(Event::Paste("a\u{1b}\nb".into()), stage.now);
    let Overlay::Filter(filtering) = &stage.app.overlay else { panic!("still typing") };
    assert_eq!(filtering.prompt.text(), "qps?ab");
    assert!(!stage.app.display.paused);
}

#[test]
fn the_command_bar_knows_every_name_of_the_key_table() {
    let mut stage = twelve();
    let mut typed = |text: &str| {
        stage.press(":");
        stage.write(text);
        let effects = stage.press("enter");
        let refused = match &stage.app.overlay {
            Overlay::Command(prompt) => prompt.refused.as_ref().map(|(why, _)| why.clone()),
            _ => None,
        };
        let state = (stage.app.list.filter_text.clone(), stage.app.list.order.column);
        stage.app.overlay = Overlay::None;
        (effects, refused, state)
    };
    for name in keys::names() {
        assert_eq!(typed(name).1, None, "{name}");
    }
    assert_eq!(typed("quit").0, [Effect::Quit]);
    assert_eq!(typed("q").0, [Effect::Quit]);
    assert_eq!(typed("rescan").0, [Effect::Rescan]);
    assert_eq!(typed("filter lock:1").2.0, "lock:1");
    assert_eq!(typed("sort ttl").2.1, Column::Ttl);
    assert_eq!(typed("").0, []);
    assert!(typed("resacn").1.unwrap().contains("\"rescan\""));
    assert!(typed("sort size").1.unwrap().contains("renewals"));
    assert!(typed("filter (").1.unwrap().contains("column"));
}

#[test]
fn any_column_is_two_keys_away_and_the_same_again_turns_it_round() {
    let mut stage = twelve();
    let mut letters = std::collections::BTreeSet::new();
    for column in Column::ALL {
        assert!(letters.insert(column.letter()), "{column:?} shares its letter");
        stage.press("s");
        let choice = format!("{} {}", column.letter(), column.name());
        assert!(stage.screen().contains(&choice), "{choice}: {}", stage.screen());
        let was_here = stage.app.list.order.column == column;
        stage.press(&column.letter().to_string());
        assert_eq!((stage.app.list.order.column, stage.app.list.order.reversed), (column, was_here));
    }
    stage.press("s s");
    assert_eq!(stage.notice(), "sorted by state: worst first, then held longest");
    stage.press("s k");
    assert_eq!(stage.rows()[0], "lock:00");
    stage.press("s k");
    assert_eq!((stage.rows()[0].as_str(), stage.notice()), ("lock:11", "sorted by key, turned round"));
    stage.press("S");
    assert_eq!(stage.rows()[0], "lock:00");
    stage.press("s x");
    assert_eq!(stage.notice(), "no column has the letter x; the order stays");
    stage.press("s esc");
    assert_eq!(stage.app.list.order.column, Column::Key);
}

#[test]
fn a_column_can_be_typed_by_its_name_or_its_title() {
    for column in Column::ALL {
        for name in [column.name(), column.title()] {
            let mut stage = twelve();
            stage.press(":");
            stage.write(&format!("sort {name}"));
            stage.press("enter");
            assert_eq!(stage.app.list.order.column, column, "{name}");
        }
    }
}

#[test]
fn space_marks_and_moves_on() {
    let mut stage = twelve();
    stage.press("space space");
    assert_eq!(stage.app.list.marked.len(), 2);
    assert_eq!(stage.selected().as_deref(), Some("lock:02"));
    stage.press("k space");
    let marked: Vec<String> = stage.app.list.marked.iter().map(|id| id.key.to_string()).collect();
    assert_eq!(marked, ["lock:00"]);
}

#[test]
fn a_paused_screen_stands_still_and_catches_up() {
    let mut stage = twelve();
    stage.press("p");
    let before = stage.screen();
    stage.release("lock:00");
    stage.acquire("lock:new", "t", 5_000);
    stage.pass(3_000);
    assert_eq!(stage.screen(), before);
    stage.press("3 v");
    assert!(!stage.screen().contains("lock:new"), "the feed stands still too");
    stage.press("1 p");
    let after = stage.screen();
    assert!(after.contains("lock:new") && !after.contains("PAUSED"), "{after}");
    stage.press("3");
    assert!(stage.screen().contains("lock:new"));
}

#[test]
fn a_paused_screen_can_be_searched() {
    let mut stage = twelve();
    stage.press("p");
    stage.flush();
    stage.pass(2_000);
    stage.filter("lock:1");
    assert_eq!(stage.rows(), ["lock:10", "lock:11"]);
    stage.press("esc s k S");
    assert_eq!((stage.rows().len(), stage.rows()[0].as_str()), (12, "lock:11"));
    stage.press("g enter");
    assert_eq!(stage.app.scene.lock.as_ref().unwrap().verdict.state, crate::model::State::Held);
}

#[test]
fn a_key_that_does_nothing_says_why() {
    let mut stage = twelve();
    stage.press("Z");
    assert_eq!(stage.notice(), "Z does nothing here; ? lists the keys");
    stage.press("insert");
    assert!(stage.notice().contains("does nothing here"));
    stage.press("5");
    for (key, name) in [("enter", "open"), ("space", "mark"), ("s", "sort"), ("S", "reverse"), ("y", "copy")] {
        assert_eq!(stage.press(key), []);
        assert_eq!(stage.notice(), format!("{name} works in the list of locks; 1 shows it"));
    }
    let mut empty = Stage::new();
    for (key, why) in [("enter", "no lock to open"), ("space", "no lock to mark"), ("y", "no lock to copy")] {
        assert_eq!(empty.press(key), []);
        assert!(empty.notice().contains(why), "{key}: {}", empty.notice());
    }
}

#[test]
fn a_notice_goes_away_by_itself() {
    let mut stage = twelve();
    stage.press("Z");
    stage.pass(3_900);
    assert!(stage.app.notice.is_some());
    stage.pass(100);
    assert_eq!(stage.app.notice, None);
}

#[test]
fn a_rebound_key_works_and_is_told_everywhere() {
    let mut stage = twelve();
    let keys = [("quit", "x"), ("help", "h"), ("locks", "f1")];
    let keys: BTreeMap<_, _> = keys.map(|(name, key)| (name.to_string(), vec![key.to_string()])).into();
    stage.app.keys = Keys::bound(&keys).unwrap();
    stage.press("q");
    assert_eq!(stage.notice(), "q does nothing here; h lists the keys");
    stage.pass(5_000);
    let screen = stage.screen();
    assert!(screen.contains("x quit") && screen.contains("f1 Locks"), "{screen}");
    assert_eq!(stage.press("x"), [Effect::Quit]);
    stage.press("h end");
    let told = |line: &str| line.split_whitespace().skip(1).take(2).eq(["x", "quit"]);
    assert!(stage.screen().lines().any(told), "{}", stage.screen());
}

#[test]
fn y_copies_what_is_looked_at() {
    let mut stage = twelve();
    assert_eq!(stage.press("j y"), [Effect::Copy("lock:01".into())]);
    assert_eq!(stage.notice(), "copied the key");
    stage.press("enter");
    assert_eq!(stage.press("y"), [Effect::Copy("worker-1".into())]);
    assert_eq!(stage.notice(), "copied the holder's token");
    stage.acquire(b"lock:\x1b\n", "t", None);
    stage.pass(2_000);
    stage.compose();
    assert_eq!(stage.press("esc g y"), [Effect::Copy("lock:\\u{1b}\\n".into())], "no control character leaves");
}

#[test]
fn one_key_shows_only_locks_with_findings() {
    let mut stage = Stage::new();
    stage.acquire("lock:calm", "worker-1", 60_000);
    stage.acquire("lock:endless", "worker-2", None);
    stage.pass(2_000);
    assert!(stage.screen().contains("NO-TTL !1"), "{}", stage.screen());
    stage.press("!");
    let shown = stage.screen();
    assert!(shown.contains("lock:endless") && !shown.contains("lock:calm"), "{shown}");
    stage.press("!");
    assert!(stage.screen().contains("lock:calm"));
}

#[test]
fn tokens_are_short_until_there_is_room_or_they_are_revealed_and_hidden_when_private() {
    let mut stage = Stage::new();
    let holder = "0123456789abcdefghijklmnopqrstuvwxyghij";
    stage.acquire("lock:a", holder, 60_000);
    stage.resize(170, 40);
    assert!(stage.screen().contains(holder), "{}", stage.screen());
    stage.press("P");
    assert!(stage.screen().contains("(hidden)") && !stage.screen().contains("ghij"), "{}", stage.screen());
    stage.press("P");
    stage.resize(80, 24);
    assert!(!stage.screen().contains(holder) && stage.screen().contains("01234567…ghij"));
    stage.press("3 v t");
    assert!(stage.screen().contains("0123456789abc"), "{}", stage.screen());
    stage.press("v");
    for screen in ["1", "3 v"] {
        stage.press(screen);
        stage.press("P");
        let private = stage.screen();
        assert!(private.contains("(hidden)") && !private.contains("ghij"), "{private}");
        stage.press("P t");
        assert!(stage.screen().contains("01234567…ghij"));
        stage.press("t");
    }
}

#[test]
fn the_help_scrolls_no_further_than_it_is_long() {
    let mut stage = twelve();
    stage.press("?");
    assert!(!stage.screen().contains("quit\n"));
    stage.press("G j j j");
    let end = stage.screen();
    assert!(end.contains("ctrl-c"), "{end}");
    stage.press("k");
    assert_ne!(stage.screen(), end, "up moves at once");
    stage.press("x");
    assert!(matches!(stage.app.overlay, Overlay::None));
}

#[test]
fn the_feed_scrolls_and_stays_where_it_was_scrolled_to() {
    let mut stage = Stage::new();
    for n in 0..40 {
        stage.pass(10);
        stage.acquire(format!("lock:{n:02}"), "t", 60_000);
    }
    stage.press("3 v j j");
    let row = |screen: &str, n: usize| screen.lines().nth(n).unwrap_or_default().to_string();
    let top = row(&stage.screen(), 4);
    assert!(top.contains("lock:37"), "{top}");
    stage.acquire("lock:new", "t", 60_000);
    assert_eq!(row(&stage.screen(), 4), top);
    stage.press("G k");
    assert!(stage.app.page.scroll < 40, "the end is the end");
    stage.press("g");
    assert!(row(&stage.screen(), 4).contains("lock:new"));
}

#[test]
fn a_feed_keeps_the_newest_and_counts_the_rest() {
    let mut stage = Stage::new();
    let change = |n: usize| Transition {
        at: stage.now,
        space: KeyspaceId::FIRST,
        node: crate::lock::NodeId(0),
        key: Key::from(format!("lock:{n}").into_bytes()),
        change: crate::model::Change::Acquired,
        holder: None,
        previous: None,
        proven: false,
        source: crate::model::Source::Notification,
    };
    let changes: Vec<Transition> = (0..FEED + 5).map(change).collect();
    stage.app.update(Event::Changes(changes.clone(), 7), stage.now);
    assert_eq!((stage.app.feed.changes.len(), stage.app.feed.changes[0].key.to_string().as_str()), (FEED, "lock:5"));
    stage.press("p");
    stage.app.update(Event::Changes(changes, 0), stage.now);
    stage.press("p 3 v");
    assert_eq!(stage.app.feed.changes.len(), FEED);
    assert!(stage.screen().contains("7 changes were not kept: they came too fast"));
}

#[test]
fn the_mouse_is_off_until_asked_for() {
    let mut stage = twelve();
    assert!(!stage.app.display.mouse);
    assert_eq!(stage.press("m"), [Effect::Mouse(true)]);
    assert_eq!(stage.press("m"), [Effect::Mouse(false)]);
    let wheel = |kind| MouseEvent { kind, column: 0, row: 0, modifiers: KeyModifiers::NONE };
    stage.app.update(Event::Mouse(wheel(MouseEventKind::ScrollDown)), stage.now);
    stage.app.update(Event::Mouse(wheel(MouseEventKind::Moved)), stage.now);
    stage.compose();
    assert_eq!(stage.selected().as_deref(), Some("lock:01"));
}
