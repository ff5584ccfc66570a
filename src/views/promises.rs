//! Promises of the console to an operator that no snapshot shows.

use clap::CommandFactory;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

use crate::app::Screen;
use crate::lock::Key;
use crate::model::Column;
use crate::model::Observation;
use crate::settings::cli::Cli;
use crate::testkit::stage::{NODE, Stage, text};

/// The colours of a word on the screen.
fn colours_of(buffer: &Buffer, word: &str) -> Vec<Color> {
    let cells = &buffer.content;
    let letters: Vec<String> = word.chars().map(String::from).collect();
    let at = cells.windows(letters.len()).position(|cells| cells.iter().map(|cell| cell.symbol()).eq(letters.iter()));
    let at = at.unwrap_or_else(|| panic!("{word} is not on\n{}", text(buffer)));
    let mut colours: Vec<Color> = cells[at..at + letters.len()].iter().map(|cell| cell.fg).collect();
    colours.dedup();
    colours
}

#[test]
fn a_healthy_system_shows_a_calm_screen() {
    let mut stage = Stage::new();
    stage.app.title.environment = None;
    stage.resize(140, 40);
    for key in ["lock:order:1", "lock:order:2"] {
        stage.acquire_redisson(key, "3f2a8c00-1111-4222-8333-444455556666:57", 30_000);
    }
    for _ in 0..3 {
        stage.pass(10_000);
        stage.renew("lock:order:1", 30_000);
        stage.renew("lock:order:2", 30_000);
        stage.compose();
    }
    for screen in ["1", "3", "v", "4", "5", "6"] {
        stage.press(screen);
        let buffer = stage.draw();
        let loud = buffer.content.iter().filter(|cell| matches!(cell.fg, Color::Red | Color::Yellow | Color::Magenta));
        assert_eq!(loud.count(), 0, "{}", text(&buffer));
    }
}

#[test]
fn each_verdict_is_a_word_and_a_sentence_with_its_numbers() {
    let mut stage = Stage::new();
    stage.acquire_redisson("lock:order:8841", "3f2a8c00-1111-4222-8333-444455556666:57", 30_000);
    for _ in 0..3 {
        stage.pass(10_000);
        stage.renew("lock:order:8841", 30_000);
    }
    stage.pass(22_000);
    let screen = stage.screen();
    let sentence = screen.lines().skip_while(|line| !line.starts_with('─')).skip(1).take(2).collect::<Vec<_>>();
    let sentence = format!("{}{}", sentence[0], sentence[1]);
    assert!(sentence.contains("lock:order:8841  STALLED"), "{sentence}");
    for number in ["every 10.0s", "22.0s ago", "2 missed", "8.0s"] {
        assert!(sentence.contains(number), "{number} in {sentence}");
    }
}

#[test]
fn what_is_not_known_is_never_a_zero() {
    let mut stage = Stage::unscanned();
    stage.resize(140, 40);
    let screen = stage.screen();
    assert!(screen.contains("? locks") && !screen.contains(" 0"), "nothing was counted yet: {screen}");
    stage.press("5");
    let servers = stage.screen();
    assert!(servers.contains("not known yet") && servers.contains("not yet"), "{servers}");
    stage.press("1");
    stage.scan();
    assert!(stage.screen().contains(" 0 locks"), "and now it was");

    // For a lock older than our watch, neither its age nor its renewals are known.
    let mut lock = crate::testkit::sample::redisson();
    (lock.held_ms, lock.held_is, lock.renewals) = (None, None, None);
    assert_eq!(super::part::held(&lock, stage.app.theme), "?");
    assert_eq!(super::part::heartbeat(&lock, 20, stage.app.theme), ("?".into(), None));
}

#[test]
fn our_cost_is_never_told_as_less_than_it_is() {
    let mut stage = Stage::new();
    stage.resize(140, 40);
    stage.compose();
    stage.pass(10_000);
    stage.node.spent = std::time::Duration::from_micros(100);
    assert!(stage.screen().contains("cost ≤0.1%"), "{}", stage.screen());
}

#[test]
fn lost_and_partial_data_are_told_in_red() {
    let mut stage = Stage::new();
    stage.app.title.environment = None;
    stage.acquire("lock:a", "t", 60_000);
    stage.pass(10);
    stage.node.lost = Some(7);
    stage.table.apply(Observation::Gap { node: NODE, at: stage.now });
    stage.pass(2_000);
    let buffer = stage.draw();
    assert_eq!(colours_of(&buffer, "7 events lost"), [Color::Red]);
    stage.node.lost = None;
    let uncounted = stage.draw();
    assert_eq!(colours_of(&uncounted, "· events lost"), [Color::Red], "an unknown number is not a zero");
    assert_eq!(colours_of(&buffer, "partial"), [Color::Red]);
    stage.lose();
    stage.pass(2_000);
    assert_eq!(colours_of(&stage.draw(), "RECONNECTING"), [Color::Red]);
}

#[test]
fn the_feed_shows_what_matches_the_filter() {
    let mut stage = Stage::new();
    for key in ["lock:order:1", "lock:cart:1", "lock:order:2"] {
        stage.acquire(key, "t", 60_000);
    }
    stage.filter("order");
    stage.press("3 v");
    let screen = stage.screen();
    assert!(screen.contains("lock:order:1") && screen.contains("lock:order:2") && !screen.contains("cart"), "{screen}");
    stage.press("1 esc 3");
    assert!(stage.screen().contains("lock:cart:1"));
}

#[test]
fn a_server_that_may_drop_locks_is_told_with_the_fix() {
    let mut stage = Stage::new();
    stage.inform(&["maxmemory:2097152", "maxmemory_policy:allkeys-lru"]);
    stage.resize(100, 40);
    stage.press("5");
    let screen = stage.screen();
    assert!(screen.contains("allkeys-lru") && screen.contains("fix: "), "{screen}");
    let colours = colours_of(&stage.draw(), "allkeys-lru");
    assert!(matches!(colours[..], [Color::Red] | [Color::Yellow]), "{colours:?}");
}

#[test]
fn the_role_and_the_lag_of_a_replica_are_on_the_servers_screen() {
    let mut stage = Stage::new();
    stage.inform(&["role:slave\r\nmaster_host:10.0.3.8\r\nmaster_port:6379\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:3"]);
    stage.resize(100, 40);
    stage.press("5");
    let screen = stage.screen();
    assert!(screen.contains("role         replica") && screen.contains("10.0.3.8"), "{screen}");
}

#[test]
fn whatever_is_on_a_screen_is_also_a_command() {
    let commands: Vec<String> = Cli::command().get_subcommands().map(|command| command.get_name().into()).collect();
    for (screen, _, _) in Screen::TABS {
        let command = match screen {
            Screen::Locks => "ls",
            Screen::Contention => "contention",
            Screen::Events => "watch",
            Screen::Alerts => "check",
            Screen::Servers => "doctor",
            Screen::Lab => "acquire",
        };
        assert!(commands.iter().any(|name| name == command), "{screen:?}: {commands:?}");
    }
    assert!(commands.iter().any(|name| name == "show"), "the opened lock");
    let mut stage = Stage::new();
    stage.acquire("lock:a", "t", 60_000);
    stage.resize(140, 40);
    let screen = stage.screen();
    let titles = screen.lines().nth(3).unwrap().split_whitespace().map(|title| title.trim_end_matches('▾'));
    for title in titles {
        assert!(Column::ALL.iter().any(|column| column.title() == title), "{title} is no column of ls");
    }
}

#[test]
fn a_mark_is_a_sign_and_the_selection_too() {
    let mut stage = Stage::new();
    for key in ["lock:a", "lock:b"] {
        stage.acquire(key, "t", 60_000);
        stage.pass(10);
    }
    stage.compose();
    stage.press("space");
    let screen = stage.screen();
    let row = |key: &str| screen.lines().find(|line| line.contains(key)).unwrap_or_default().to_string();
    assert!(row("lock:a").starts_with('●') && row("lock:b").starts_with('▌'), "{screen}");
    assert_eq!(stage.app.list.selected.as_ref().map(|id| &id.key), Some(&Key::from("lock:b")));
}
