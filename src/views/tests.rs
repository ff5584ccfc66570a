//! What the screens look like: snapshots at common sizes, and what must hold at any size.

mod long_keys;

use std::collections::BTreeMap;

use insta::assert_snapshot;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr;

use crate::app::theme::Theme;
use crate::app::{Overlay, Screen, Writing};
use crate::engine::Stream;
use crate::lock::Key;
use crate::model::Source;
use crate::settings::keys::{BINDINGS, Keys, Where};
use crate::testkit::stage::{Stage, text};
use crate::views::part;

/// A shop at 03:12: a lock without a TTL, one whose renewals stopped, healthy ones, a marker, names in other scripts.
fn shop() -> Stage {
    let mut stage = Stage::new();
    stage.acquire("job-lock:default:nightly", "worker-7", None);
    stage.pass(40_000);
    stage.acquire_redisson("lock:order:8841", "3f2a8c00-1111-4222-8333-444455556666:57", 30_000);
    stage.acquire_redisson("lock:invoice:17", "9c1e7d00-aaaa-4bbb-8ccc-ddddeeee0b0b:12", 30_000);
    for _ in 0..4 {
        stage.pass(10_000);
        stage.renew("lock:order:8841", 30_000);
        stage.renew("lock:invoice:17", 30_000);
    }
    stage.pass(10_000);
    stage.renew("lock:invoice:17", 30_000);
    stage.acquire("lock:cart:991", "7be0c1d2e3f4a5b6c7d8e9f00112233445566744", 10_000);
    stage.acquire("lock:仓库:库存", "工人-1", 60_000);
    stage.acquire("lock:🔒:café", "t-9", 60_000);
    stage.acquire("completed:order:17", "1", 86_400_000);
    stage.node.spent = std::time::Duration::from_millis(400);
    stage.compose();
    stage.pass(12_100);
    stage.node.spent = std::time::Duration::from_millis(412);
    stage.compose();
    stage
}

/// The screens with everything on them, one after the other.
fn tour(stage: &mut Stage) -> Vec<Buffer> {
    let mut buffers = Vec::new();
    for keys in [
        "1",
        "b p",
        "b b 3",
        "v",
        "4",
        "5",
        "?",
        "x 1 enter",
        "esc space P",
        "/ ctrl-u ( enter",
        "esc : x enter",
        "esc t p",
    ] {
        stage.press(keys);
        buffers.push(stage.draw());
    }
    stage.press("p t P");
    stage.lose();
    stage.pass(2_000);
    buffers.push(stage.draw());
    buffers
}

#[test]
fn the_first_line_tells_what_other_targets_forbid_here() {
    let mut stage = shop();
    stage.app.title.protected_by = Some("read-only, prod: target orders-prod has this address".into());
    for (width, part) in [(80, "read-only"), (140, "read-only, prod: target orders-prod has this address")] {
        stage.resize(width, 24);
        let screen = stage.screen();
        assert!(screen.lines().next().unwrap_or_default().contains(part), "{screen}");
    }
}

#[test]
fn locks_at_80x24() {
    assert_snapshot!(shop().screen());
}

#[test]
fn locks_at_140x40() {
    let mut stage = shop();
    stage.resize(140, 40);
    assert_snapshot!(stage.screen());
}

#[test]
fn events_at_80x24() {
    let mut stage = shop();
    stage.release("lock:cart:991");
    stage.press("3 v");
    assert_snapshot!(stage.screen());
}

#[test]
fn events_at_140x40() {
    let mut stage = shop();
    stage.press("3 v");
    stage.resize(140, 40);
    assert_snapshot!(stage.screen());
}

#[test]
fn servers_at_80x24() {
    let mut stage = shop();
    stage.press("5");
    assert_snapshot!(stage.screen());
}

#[test]
fn servers_at_140x40() {
    let mut stage = shop();
    stage.press("5");
    stage.resize(140, 40);
    assert_snapshot!(stage.screen());
}

#[test]
fn help_at_80x24() {
    let mut stage = shop();
    stage.press("?");
    assert_snapshot!(stage.screen());
}

#[test]
fn help_at_140x40() {
    let mut stage = shop();
    stage.press("?");
    stage.resize(140, 40);
    assert_snapshot!(stage.screen());
}

#[test]
fn a_refused_filter_and_the_one_in_force() {
    let mut stage = shop();
    stage.filter("lock:");
    stage.filter("state:held and ttl<soon or lib:redisson");
    assert_snapshot!(stage.screen());
    let buffer = stage.draw();
    let last = buffer.area.height - 1;
    let marked: String = (0..80)
        .filter(|x| buffer[(*x, last)].modifier.contains(Modifier::UNDERLINED))
        .map(|x| buffer[(x, last)].symbol().to_string())
        .collect();
    assert_eq!(marked, "soon or lib:redisson", "it is marked from where it is wrong");
}

#[test]
fn a_refused_command() {
    let mut stage = shop();
    stage.press(":");
    stage.write("sort size");
    stage.press("enter");
    assert_snapshot!(stage.screen());
}

#[test]
fn marked_and_private() {
    let mut stage = shop();
    stage.press("space space P");
    assert_snapshot!(stage.screen());
}

#[test]
fn paused() {
    let mut stage = shop();
    stage.press("p");
    assert_snapshot!(stage.screen());
}

#[test]
fn reconnecting_with_stale_rows() {
    let mut stage = shop();
    stage.lose();
    stage.pass(2_000);
    assert_snapshot!(stage.screen());
}

#[test]
fn before_the_first_scan_is_done() {
    let mut stage = Stage::unscanned();
    stage.node.under_way = true;
    stage.node.progress.walked.store(80, std::sync::atomic::Ordering::Relaxed);
    assert_snapshot!(stage.screen());
}

#[test]
fn no_locks_at_all() {
    assert_snapshot!(Stage::new().screen());
}

#[test]
fn no_lock_that_matches() {
    let mut stage = shop();
    stage.filter("lib:huey");
    assert_snapshot!(stage.screen());
    stage.press("3 v");
    assert!(stage.screen().contains("Nothing that matches the filter"), "{}", stage.screen());
}

#[test]
fn nothing_has_happened() {
    let mut stage = Stage::new();
    stage.press("3");
    assert_snapshot!(stage.screen());
}

#[test]
fn the_first_line_tells_how_changes_are_learnt() {
    let mut stage = shop();
    let mut lines = Vec::new();
    let streams = [
        Stream::Live(Source::Notification),
        Stream::Live(Source::Tracking),
        Stream::Live(Source::Scan),
        Stream::Reconnecting { why: "refused".into(), since: stage.now },
        Stream::Starting,
    ];
    for (width, target) in [(80, "orders-redis"), (80, "redis://cache-7.internal.example.com:6379/3"), (140, "orders")]
    {
        stage.resize(width, 24);
        stage.app.title.target = target.into();
        for stream in &streams {
            stage.node.stream = stream.clone();
            lines.extend(stage.screen().lines().next().map(String::from));
        }
        stage.press("p");
        lines.extend(stage.screen().lines().next().map(String::from));
        stage.press("p");
    }
    for line in &lines[..6] {
        assert!(line.contains("PROD  orders-redis") && line.contains("READ-ONLY"), "{line}");
    }
    assert_snapshot!(lines.join("\n"));
}

#[test]
fn lost_events_and_partial_knowledge_are_told_at_80_columns() {
    let mut stage = shop();
    stage.node.lost = Some(1_204);
    stage.table.apply(crate::model::Observation::Gap { node: crate::testkit::stage::NODE, at: stage.now });
    stage.pass(2_000);
    stage.filter("lock:");
    let screen = stage.screen();
    let top: Vec<&str> = screen.lines().take(3).collect();
    let events = " lockscope  PROD  orders-redis  live · 1204 events lost · scan 1m44s  READ-ONLY";
    let tabs = " 1 Locks  2 Contention  3 Events  4 Alerts  5 Servers  6 Lab";
    let locks = " 5 locks  1 no-ttl  1 done  partial                           / lock: (5 shown)";
    assert_eq!(top, [events, tabs, locks]);
    let rows = screen.lines().skip(4).take_while(|line| !line.is_empty());
    let states: Vec<&str> = rows.filter_map(|row| row.trim_start_matches('▌').split_whitespace().next()).collect();
    assert_eq!(states, ["stale"; 5], "{screen}");
}

#[test]
fn a_count_that_can_only_fall_between_walks_is_marked() {
    let mut stage = shop();
    assert!(stage.screen().contains(" 5 locks "), "{}", stage.screen());
    stage.node.stream = Stream::Live(Source::Scan);
    stage.pass(1_000);
    assert!(stage.screen().contains(" ≥5 locks "), "{}", stage.screen());
}

#[test]
fn ascii_mode_has_nothing_but_ascii() {
    for (width, height) in [(80, 24), (140, 40), (60, 12), (20, 5)] {
        let mut stage = shop();
        stage.app.theme = Theme { color: true, ascii: true };
        stage.app.title.target = "bücher-redis".into();
        stage.filter("lock or käse or complet or job");
        stage.resize(width, height);
        // The detail has its own file and tests.
        for buffer in tour(&mut stage) {
            let screen = text(&buffer);
            let odd: Vec<char> = screen.chars().filter(|c| !c.is_ascii()).collect();
            assert!(odd.is_empty(), "{odd:?} in\n{screen}");
        }
    }
    let mut stage = shop();
    stage.app.theme = Theme { color: true, ascii: true };
    assert_snapshot!(stage.screen());
}

#[test]
fn without_colours_none_is_used_and_the_words_are_the_same() {
    let mut plain = shop();
    plain.app.theme = Theme::default();
    for (without, with) in tour(&mut plain).iter().zip(tour(&mut shop())) {
        let colours = without.content.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
        assert_eq!(colours.count(), 0, "{}", text(without));
        assert_eq!(text(without), text(&with));
        assert!(with.content.iter().any(|cell| cell.fg != Color::Reset));
    }
}

#[test]
fn only_the_sixteen_colours_are_used_and_never_a_background() {
    for buffer in tour(&mut shop()) {
        for cell in &buffer.content {
            assert!(!matches!(cell.fg, Color::Rgb(..) | Color::Indexed(_) | Color::White | Color::Black), "{cell:?}");
            assert_eq!(cell.bg, Color::Reset);
        }
    }
}

#[test]
fn a_screen_that_is_too_small_says_so_and_never_panics() {
    for (width, height) in [(1, 1), (2, 2), (10, 3), (59, 11), (80, 11), (59, 24), (200, 1), (1, 100)] {
        let mut stage = shop();
        stage.resize(width, height);
        let screens: Vec<String> = tour(&mut stage).iter().map(text).collect();
        let words: Vec<&str> = screens[0].split_whitespace().collect();
        let size = format!("{width}x{height}");
        let whole = ["too", "small:", "lockscope", "needs", "60x12,", "this", "is", &size];
        match (width, height) {
            (59.., _) => assert_eq!(words, whole, "{}", screens[0]),
            (10, 3) => assert_eq!(words, whole[..4], "{}", screens[0]),
            // Too small for words.
            _ => assert!(!words.is_empty() && !screens[0].contains("Locks"), "{}", screens[0]),
        }
    }
    let mut stage = shop();
    stage.resize(60, 12);
    assert_snapshot!(stage.screen());
}

#[test]
fn every_line_of_the_help_is_whole_at_80_columns_on_every_screen() {
    for screen in ["1", "1 b p", "6", "1 enter"] {
        let mut stage = shop();
        stage.press(screen);
        let place = stage.app.place();
        stage.press("?");
        let pages: Vec<String> = ["home", "pagedown", "pagedown", "pagedown"]
            .map(|key| {
                stage.press(key);
                stage.screen()
            })
            .to_vec();
        for binding in BINDINGS {
            let told = match binding.at {
                Where::Only { name, .. } if !binding.at.includes(place) => format!(" {name}: {}", binding.about),
                _ => format!(" {}", binding.about),
            };
            assert!(pages.iter().any(|screen| screen.contains(&told)), "{screen}: {told}");
        }
    }
}

#[test]
fn a_key_with_two_meanings_is_told_as_what_it_means_here() {
    let mut stage = shop();
    let keys = BTreeMap::from([("give-back".to_string(), vec!["x".to_string()])]);
    stage.app.keys = Keys::bound(&keys).unwrap();
    stage.app.writing = Writing::new(None, true, stage.now);
    stage.resize(140, 40);
    let footer = |stage: &mut Stage| stage.screen().lines().last().unwrap_or_default().to_string();
    let list = footer(&mut stage);
    assert!(list.contains("x free") && !list.contains("give back"), "{list}");
    stage.press("6");
    let lab = footer(&mut stage);
    assert!(lab.contains("x give back") && !lab.contains("x free"), "{lab}");
}

#[test]
fn the_footer_names_only_keys_that_do_something_here() {
    let mut stage = shop();
    let footer = |stage: &mut Stage| stage.screen().lines().last().unwrap_or_default().to_string();
    assert!(footer(&mut stage).contains("s sort"));
    for screen in ["3", "5"] {
        stage.press(screen);
        let footer = footer(&mut stage);
        assert!(!footer.contains("s sort") && !footer.contains("copy") && footer.contains("q quit"), "{footer}");
    }
}

/// The column at which a word begins, in cells.
fn column_of(line: &str, word: &str) -> usize {
    line[..line.find(word).unwrap_or_else(|| panic!("{word} in {line}"))].width()
}

#[test]
fn wide_names_keep_the_columns_in_line() {
    for size in [(80, 24), (140, 40)] {
        let mut stage = Stage::new();
        for name in [
            "ascii",
            "锁",
            "锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁锁",
            "🔒🔑",
            "e\u{301}té",
            "👩\u{200d}💻",
            "ﾛｯｸ",
        ] {
            stage.acquire(format!("lock:{name}"), "holder", 60_000);
        }
        stage.resize(size.0, size.1);
        let screen = stage.screen();
        let lines: Vec<&str> = screen.lines().collect();
        let column = column_of(lines[3], "HOLDER");
        for line in &lines[4..11] {
            assert_eq!(column_of(line, "holder"), column, "{screen}");
        }
    }
}

#[test]
fn names_that_differ_look_different_and_drive_nothing() {
    let names: [&[u8]; 16] = [
        b"lock:a",
        b"lock:a\n",
        b"lock:a\\n",
        b"lock:a ",
        b"lock:a\x1b[2J",
        b"lock:a\\u{1b}[2J",
        b"lock:a\x00",
        b"lock:a\xff",
        b"lock:a\\xff",
        b"lock:a\t",
        "lock:a…".as_bytes(),
        b"lock:a..",
        "lock:\u{202e}a".as_bytes(),
        "lock:\u{200b}a".as_bytes(),
        "lock:a\u{e9}".as_bytes(),
        b"lock:a\\u{e9}",
    ];
    for ascii in [false, true] {
        let theme = Theme { color: false, ascii };
        let mut shown: Vec<String> = names.iter().map(|name| part::key(&Key::from(*name), theme)).collect();
        assert!(shown.iter().all(|name| name.chars().all(|c| !c.is_control())), "{shown:?}");
        shown.sort();
        shown.dedup();
        assert_eq!(shown.len(), names.len(), "{shown:?}");
        let mut stage = Stage::new();
        stage.app.theme = theme;
        for name in names {
            stage.acquire(name, "\x1b]52;c;aGk=\x07", 60_000);
        }
        for keys in ["1", "3", "v", "1 enter"] {
            stage.press(keys);
            let buffer = stage.draw();
            for cell in &buffer.content {
                assert!(cell.symbol().chars().all(|c| !c.is_control()), "{cell:?}");
            }
            let screen = text(&buffer);
            if keys == "1" {
                let rows: std::collections::BTreeSet<&str> = screen.lines().skip(4).take(names.len()).collect();
                assert_eq!(rows.len(), names.len(), "{screen}");
            }
        }
    }
}

#[test]
fn a_long_name_keeps_both_its_ends() {
    let mut stage = Stage::new();
    let name = format!("lock:tenant-17:{}:invoice:8841", "x".repeat(300));
    stage.acquire(&name, "t", 60_000);
    let screen = stage.screen();
    let row = screen.lines().nth(4).unwrap();
    assert!(row.contains("lock:t") && row.contains("8841"), "{row}");
    assert!(screen.contains("held by t;"), "the sentence has room beside the name: {screen}");
}

#[test]
fn how_many_hold_a_lock_is_never_cut_off() {
    let mut stage = Stage::new();
    let mut lock = crate::testkit::sample::redisson();
    lock.holders.extend([lock.holders[0].clone(), lock.holders[0].clone()]);
    for width in [6, 13, 22] {
        let cell = part::fit_holders(&stage.app, &lock, width);
        assert!(cell.trim_end().ends_with(" +2") && cell.width() == width, "{cell:?}");
    }
    stage.app.display.private = true;
    assert_eq!(part::fit_holders(&stage.app, &lock, 13), "(hidden) +2  ");
}

#[test]
fn the_prompt_keeps_its_cursor_in_sight() {
    let mut stage = shop();
    stage.press("/");
    stage.write(&"锁".repeat(60));
    for (keys, column) in [("left", 77), ("home", 2), ("right", 4), ("end", 79)] {
        stage.press(keys);
        let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(80, 24)).unwrap();
        let mut cursor = None;
        terminal.draw(|frame| cursor = super::draw(frame, &stage.app)).unwrap();
        let at = cursor.expect("a cursor");
        assert_eq!(at.y, 23);
        assert!(at.x.abs_diff(column) <= 2, "{keys}: {at:?}");
    }
    stage.app.overlay = Overlay::None;
    let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(80, 24)).unwrap();
    terminal.draw(|frame| assert_eq!(super::draw(frame, &stage.app), None)).unwrap();
}

#[test]
fn every_tab_says_its_name_at_80_columns_and_more() {
    for (width, height) in [(80, 12), (80, 19), (80, 20), (80, 24), (100, 30), (140, 40)] {
        for (keys, filter) in [("1", ""), ("2", "lock:"), ("5", "state:held and ttl<20s or lib:redisson")] {
            let mut stage = shop();
            stage.resize(width, height);
            stage.filter(filter);
            stage.press(keys);
            let screen = stage.screen();
            let tabs = screen.lines().nth(1).unwrap_or_default();
            for (_, command, name) in Screen::TABS {
                let name = format!("{} {name}", stage.app.key_of(command));
                assert!(tabs.contains(&name) || height < 20 && !filter.is_empty(), "{width}x{height}: {tabs}");
            }
            assert!(screen.lines().take(3).any(|line| line.contains("5 locks")), "{screen}");
        }
    }
}

#[test]
fn a_screen_with_room_shows_more_of_the_selected_lock() {
    let mut stage = shop();
    let small = stage.screen();
    assert!(small.contains("free it?") && small.contains("findings"), "{small}");
    stage.resize(140, 40);
    stage.press("j");
    let large = stage.screen();
    for part in
        ["free it?", "findings", "liveness", "holder", "client", "ttl", "renewals", "before", "expected", "seen"]
    {
        assert!(large.contains(&format!(" {part} ")), "{part}: {large}");
    }
    // A long list needs the room itself.
    for n in 0..40 {
        stage.acquire(format!("lock:more:{n:02}"), "t", 60_000);
    }
    stage.pass(2_000);
    let full = stage.screen();
    assert!(!full.contains("free it?"), "{full}");
    assert_eq!(stage.app.scene.rows.len(), stage.app.scene.page);
    let rows = full.lines().filter(|line| line.contains("lock:")).count();
    assert!(rows >= stage.app.scene.page, "{full}");
}

#[test]
fn the_gauge_has_the_colour_of_what_is_left_of_the_lease() {
    let mut stage = Stage::new();
    stage.resize(140, 24);
    stage.acquire("lock:a", "t", 100_000);
    for (pass, left, color) in [
        (0, "100s", Color::Green),
        (70_000, "30s", Color::Green),
        (10_000, "20s", Color::Yellow),
        (12_000, "8s", Color::Red),
    ] {
        stage.pass(pass);
        let buffer = stage.draw();
        let cell = buffer.content.iter().find(|cell| matches!(cell.symbol(), "█" | "░")).expect("a gauge");
        assert_eq!(cell.fg, color, "{left} left: {}", text(&buffer));
    }
}
