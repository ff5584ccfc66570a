use crossterm::event::{KeyCode, KeyModifiers};

use super::table::row;
use super::*;

const LOCKS: Place = Place::On(Screen::Locks);
const LAB: Place = Place::On(Screen::Lab);

fn press(key: &str) -> KeyEvent {
    let code = match key {
        "left" => KeyCode::Left,
        key => KeyCode::Char(key.chars().next().expect("a key")),
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}

fn rebound(keys: &[(&str, &str)]) -> Result<Keys, Fault> {
    Keys::bound(&keys.iter().map(|(name, key)| (name.to_string(), vec![key.to_string()])).collect())
}

#[test]
fn a_key_bound_twice_on_one_screen_is_refused() {
    let both = |first, second| rebound(&[(first, "z"), (second, "z")]).map_err(|why| why.to_string());
    let why = both("mark", "free").unwrap_err();
    assert!(why.contains("the key z is bound to both mark and free"), "{why}");
    assert!(both("help", "quit").is_err());
    // Sorting works only in the list of locks; freeing works there and elsewhere.
    assert!(both("sort", "free").is_err());
    let table = [
        row(Command::Sort, Where::Only { name: "locks", places: &[LOCKS] }, "sort", &["z"], "", None),
        row(Command::Copy, Where::Only { name: "some", places: &[LAB, LOCKS] }, "copy", &["z"], "", None),
    ];
    assert!(Keys::of_table(&table, &BTreeMap::new()).is_err(), "the table itself is held to it too");
}

#[test]
fn one_key_means_two_things_on_two_screens() {
    let keys = rebound(&[("give-back", "x"), ("watchdog", "left")]).unwrap();
    assert_eq!(keys.command(press("x"), LOCKS), Some(Command::Free));
    assert_eq!(keys.command(press("x"), Place::Opened), Some(Command::Free));
    assert_eq!(keys.command(press("x"), LAB), Some(Command::GiveBack));
    // A screen's own binding overrides the one for all screens.
    assert_eq!(keys.command(press("left"), LOCKS), Some(Command::Back));
    assert_eq!(keys.command(press("left"), LAB), Some(Command::Watchdog));
    let told = |command, here| keys.presses(command, here).map(|press| press.to_string()).collect::<Vec<_>>();
    assert_eq!(told(Command::Back, LOCKS), ["esc", "h", "left"]);
    assert_eq!(told(Command::Back, LAB), ["esc", "h"]);
    assert_eq!(told(Command::GiveBack, LOCKS), ["x"], "where it works");
}

#[test]
fn a_key_for_all_screens_is_taken_from_each_of_them() {
    let keys = rebound(&[("quit", "w")]).unwrap();
    for here in [LOCKS, LAB, Place::Opened] {
        assert_eq!(keys.command(press("w"), here), Some(Command::Quit));
    }
    assert_eq!(keys.presses(Command::Watchdog, LAB).next(), None);
}

#[test]
fn the_usual_keys_do_the_usual() {
    use Command::*;
    let usual = [
        ("up k", Up),
        ("down j", Down),
        ("left h esc", Back),
        ("right l enter", Open),
        ("g", Top),
        ("G", Bottom),
        ("pageup", PageUp),
        ("pagedown", PageDown),
        ("/", Filter),
        (":", CommandBar),
        ("space", Mark),
        ("s", Sort),
        ("p", Pause),
        ("y", Copy),
        ("r", Rescan),
        ("?", Help),
        ("q", Quit),
        ("1", Locks),
        ("3", Events),
        ("5", Servers),
        ("a", Acquire),
        ("6", Lab),
    ];
    let keys = Keys::default();
    for (written, command) in usual {
        for key in written.split(' ') {
            assert_eq!(keys.meaning(key.parse().unwrap(), LOCKS), Some(command), "{key}");
        }
    }
}

#[test]
fn every_key_prints_as_it_is_written() {
    for key in BINDINGS.iter().flat_map(|binding| binding.keys) {
        assert_eq!(key.parse::<Press>().unwrap().to_string(), *key);
    }
}

#[test]
fn a_rebound_key_is_taken_from_its_old_command() {
    let keys = rebound(&[("mark", "q")]).unwrap();
    assert_eq!(keys.command(press("q"), LOCKS), Some(Command::Mark));
    assert_eq!(keys.command(press(" "), LOCKS), None);
    assert_eq!(keys.presses(Command::Quit, LOCKS).next().unwrap().to_string(), "ctrl-c");
    // On a screen without marks the key still quits.
    assert_eq!(keys.command(press("q"), LAB), Some(Command::Quit));
}

#[test]
fn a_wrong_binding_says_what_is_wrong() {
    assert!(rebound(&[("quti", "q")]).unwrap_err().to_string().contains("\"quit\""));
    assert!(rebound(&[("quit", "hyper-q")]).unwrap_err().to_string().contains("is no key"));
}
