use std::time::Duration;

use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::app::theme::Theme;
use crate::app::{App, Effect, Event, LockId, Title};
use crate::base::time::{Time, Ttl};
use crate::lock::Token;
use crate::model::{
    Address, Finding, Life, Liveness, LockView, Notice, Presence, RenewalView, RenewedBy, Sign, State, Verdict,
};
use crate::settings::keys::Keys;
use crate::testkit::sample;
use crate::views;

const NOW: Time = Time(1_790_000_900_000);

/// A fair lock whose renewals have stopped 14 s ago, with a dead waiter at the head of its queue.
fn stalled() -> LockView {
    LockView {
        ttl: Ttl::In(Duration::from_secs(16)),
        held_ms: Some(64_000),
        beats: [54, 44, 34, 24, 14].map(|seconds| NOW - Duration::from_secs(seconds)).to_vec(),
        renewals: Some(RenewalView {
            count: 5,
            last_ms: Some(14_000),
            period_ms: Some(9_000),
            expected_ms: Some(10_000),
            missed: Some(1),
            jitter_ms: Some(200),
            due_in_ms: Some(-5_000),
        }),
        liveness: Some(Liveness {
            is: Life::Suspected,
            confidence: Some(0.6),
            signs: vec![Sign::Silent {
                for_ms: 14_000,
                period_ms: 9_000,
                renewed: RenewedBy::Seen,
                lease_of_others: false,
            }],
            settle: Some("watch it for 9.0s, until renewed or late".into()),
            watch_ms: Some(9_000),
        }),
        ..sample::redisson()
    }
}

/// A console in which this lock is open and was inspected.
fn opened(lock: LockView, theme: Theme) -> App {
    let mut app = App::new(Title::default(), Keys::default(), theme);
    let id = LockId { space: lock.space, key: lock.key.clone() };
    app.page.opened = Some(id.clone());
    app.scene.at = NOW;
    app.scene.lock = Some(lock);
    assert_eq!(app.update(Event::Changes(Vec::new(), 0), NOW), [Effect::Inspect(id.clone())]);
    app.update(Event::Inspected(id, Box::new(sample::inspection())), NOW);
    app
}

fn screen(app: &mut App, width: u16, height: u16) -> Vec<String> {
    app.update(Event::Resize(width, height), NOW);
    app.scene.scroll_most = views::scroll_most(app);
    app.page.scroll = app.page.scroll.min(app.scene.scroll_most);
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| {
            views::draw(frame, app);
        })
        .unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_string();
    (0..height).map(line).collect()
}

#[track_caller]
fn shows(lines: &[String], texts: &[&str]) {
    for text in texts {
        assert!(lines.iter().any(|line| line.contains(text)), "{text:?} is missing in\n{}", lines.join("\n"));
    }
}

/// The whole scrollable content, as one long screen.
fn whole(app: &mut App, width: u16) -> Vec<String> {
    let height = 24 + {
        screen(app, width, 24);
        app.scene.scroll_most as u16
    };
    screen(app, width, height + 10)
}

#[test]
fn detail_at_80x24() {
    assert_snapshot!(screen(&mut opened(stalled(), Theme::default()), 80, 24).join("\n"));
}

#[test]
fn detail_at_140x40() {
    assert_snapshot!(screen(&mut opened(stalled(), Theme::default()), 140, 40).join("\n"));
}

#[test]
fn detail_in_ascii() {
    let theme = Theme { ascii: true, ..Theme::default() };
    assert_snapshot!(screen(&mut opened(stalled(), theme), 80, 24).join("\n"));
}

#[test]
fn the_derivation_at_80x24() {
    let mut app = opened(stalled(), Theme::default());
    app.page.why = true;
    assert_snapshot!(screen(&mut app, 80, 24).join("\n"));
}

#[test]
fn the_derivation_scrolls_names_nobody_in_a_picture_and_has_no_other_signs_in_ascii() {
    let mut lock = stalled();
    let address = Address::parse("10.0.3.7:51322").unwrap();
    let connection = crate::model::Connection::new(address, lock.at);
    lock.presence = vec![Presence::Closed { connection, like_it: None }];
    let mut app = opened(lock, Theme { ascii: true, ..Theme::default() });
    app.page.why = true;
    let lines = whole(&mut app, 80);
    shows(&lines, &["Does its holder live? Not known.", "10.0.3.7:51322", "`- Is its library known? Yes (certain)."]);
    assert!(lines.iter().all(|line| line.is_ascii()), "{}", lines.join("\n"));
    app.display.private = true;
    let lines = whole(&mut app, 80);
    assert!(!lines.iter().any(|line| line.contains("10.0.3.7")), "{}", lines.join("\n"));
}

#[test]
fn the_first_screen_answers_at_80x24() {
    let lines = screen(&mut opened(stalled(), Theme::default()), 80, 24);
    shows(
        &lines,
        &[
            " lock:order:8841   HELD",
            "16.0s left of 30.0s, held for 1m04s",
            "free it?     not known; watch it for 9.0s, until renewed or late.",
            "30.0s│",
            " expected     │",
            " seen         │",
            "now",
            "+16.0s",
            "3f2a8c00…6:57",
            "2 in the queue",
            "not listening: dead head, blocks all for 3m00s",
        ],
    );
}

#[test]
fn more_time_than_the_lease_is_not_called_a_part_of_it() {
    let mut lock = stalled();
    (lock.ttl, lock.lease_ms) = (Ttl::In(Duration::from_millis(59_200)), Some(6_000));
    let lines = screen(&mut opened(lock, Theme::default()), 80, 24);
    shows(&lines, &["59.2s left, more than its lease of 6.0s"]);
}

#[test]
fn everything_else_is_below() {
    let mut app = opened(stalled(), Theme::default());
    let lines = whole(&mut app, 80);
    shows(
        &lines,
        &[
            "14:13:25.000 released after 5.0s, older:1",
            "DEL lock:order:8841",
            "beware",
            "redisson_lock_queue:{lock:order:8841} list, 2 elements, no TTL",
            "not read: NOPERM",
            "3f2a8c00…6:57 = 2",
            "t shows it whole",
            "A watchdog renews it after 33 % of the lease",
        ],
    );
}

#[test]
fn a_wide_screen_has_two_columns_and_all_of_it() {
    let mut app = opened(stalled(), Theme::default());
    let lines = screen(&mut app, 140, 40);
    assert_eq!(app.scene.scroll_most, 0, "{}", lines.join("\n"));
    let holder = lines.iter().position(|line| line.contains(" holder ")).unwrap();
    let chart = lines.iter().position(|line| line.contains("30.0s│")).unwrap();
    assert!(holder <= chart, "side by side:\n{}", lines.join("\n"));
    shows(&lines, &["before", "freeing", "keys", "value", "library", "dead head"]);
}

#[test]
fn the_last_line_can_be_scrolled_to_and_no_further() {
    let mut app = opened(stalled(), Theme::default());
    let all = whole(&mut app, 80);
    let last = all.iter().rfind(|line| line.contains("confirmed")).unwrap().clone();
    app.page.scroll = usize::MAX;
    let lines = screen(&mut app, 80, 24);
    assert_eq!(lines[22], last, "the last line of the body\n{}", lines.join("\n"));
    assert!(lines[2].starts_with(" lock:order:8841"), "its name stays in sight");
    assert!(lines[5].ends_with("the end"), "{}", lines.join("\n"));
}

#[test]
fn a_page_down_leaves_no_line_out() {
    let mut app = opened(stalled(), Theme::default());
    let before = screen(&mut app, 80, 24);
    let last = before[22].clone();
    assert!(!last.is_empty());
    app.page.scroll = views::list_rows(&app);
    let after = screen(&mut app, 80, 24);
    let first = after.iter().position(|line| *line == last);
    assert_eq!(first, Some(6), "the last line is the first now\n{}", after.join("\n"));
}

#[test]
fn a_very_long_name_leaves_room_for_the_rest() {
    let mut lock = stalled();
    lock.key = crate::lock::Key::from("k".repeat(5_000).as_str());
    let lines = screen(&mut opened(lock, Theme::default()), 60, 12);
    shows(&lines, &["kkk…", "30.0s│"]);
}

#[test]
fn a_lock_that_was_freed_is_not_to_be_freed() {
    let mut lock = stalled();
    lock.verdict.state = State::Free;
    lock.holders.clear();
    let lines = whole(&mut opened(lock, Theme::default()), 80);
    shows(&lines, &["no chart: nobody holds it", " holder       nobody"]);
    assert!(!lines.iter().any(|line| line.contains("freeing")), "{}", lines.join("\n"));
}

#[test]
fn a_picture_to_send_names_nobody() {
    let mut app = opened(stalled(), Theme::default());
    app.display.private = true;
    app.display.reveal = true;
    let lines = whole(&mut app, 100);
    for name in ["3f2a8c00", "9b8d0c11", "older:1", "= 2"] {
        assert!(!lines.iter().any(|line| line.contains(name)), "{name} in\n{}", lines.join("\n"));
    }
    shows(&lines, &["value        (hidden)"]);
}

#[test]
fn what_is_not_known_is_called_so() {
    let mut app = opened(sample::forever(), Theme::default());
    app.page.closer.found = None;
    shows(
        &whole(&mut app, 80),
        &["never expires", "no chart: it never expires", "asking the server", "no earlier hold"],
    );
    let mut app = opened(sample::unknown(), Theme::default());
    shows(
        &whole(&mut app, 80),
        &[
            "the full lease is not known",
            "not known: the library does not store it",
            "not known yet: it was not watched",
        ],
    );
}

#[test]
fn ascii_mode_has_nothing_else() {
    let theme = Theme { ascii: true, ..Theme::default() };
    for lock in [stalled(), sample::forever(), sample::unknown()] {
        for width in [80, 140] {
            let lines = whole(&mut opened(lock.clone(), theme), width);
            assert!(lines.iter().all(|line| line.is_ascii()), "{}", lines.join("\n"));
        }
    }
}

#[test]
fn no_size_panics() {
    for lock in [stalled(), sample::forever(), sample::unknown()] {
        let mut app = opened(lock, Theme::default());
        for width in (1..20).chain([60, 61, 80, 119, 120, 121, 300]) {
            for height in [1, 2, 5, 12, 13, 24, 80] {
                screen(&mut app, width, height);
            }
        }
    }
}

#[test]
fn the_closer_look_is_taken_again_while_the_lock_stays_open() {
    let mut app = opened(stalled(), Theme::default());
    let id = app.page.opened.clone().unwrap();
    let tick = |app: &mut App, ms: u64| app.update(Event::Changes(Vec::new(), 0), NOW + Duration::from_millis(ms));
    assert_eq!(tick(&mut app, 1_900), []);
    assert_eq!(tick(&mut app, 2_000), [Effect::Inspect(id.clone())]);
    app.display.paused = true;
    assert_eq!(tick(&mut app, 9_000), [], "a paused screen asks for nothing");
    app.display.paused = false;
    assert_eq!(tick(&mut app, 9_100), [Effect::Inspect(id)]);
    app.page.opened = None;
    assert_eq!(tick(&mut app, 20_000), []);
    assert!(app.page.closer.found.is_none());
}

#[test]
fn a_late_answer_about_another_lock_is_dropped() {
    let mut app = opened(stalled(), Theme::default());
    let first = app.page.opened.clone().unwrap();
    let other = LockId { space: first.space, key: crate::lock::Key::from("lock:other") };
    app.page.opened = Some(other.clone());
    assert_eq!(app.update(Event::Changes(Vec::new(), 0), NOW), [Effect::Inspect(other)], "at once");
    app.update(Event::Inspected(first, Box::new(sample::inspection())), NOW);
    assert!(app.page.closer.found.is_none());
}

#[test]
fn findings_are_told_and_name_nobody_in_private() {
    let former = Token::from(&b"11112222-3333-4444-5555-666677778888:9"[..]);
    let address = Address::parse("10.0.3.7:51322").unwrap();
    let sentence = format!("{} at {address} tried to renew it", crate::base::text::short_token(&former.to_string()));
    let late = Notice::Late { token: former, address: Some(address), renewal: true };
    let lock = LockView {
        verdict: Verdict { state: State::Split, evidence: vec![sentence.clone()], confidence: 0.95 },
        notices: vec![(NOW, late)],
        findings: vec![Finding {
            name: "outlived",
            sentence,
            confidence: 0.95,
            settle: Some("a burst would show it".into()),
        }],
        ..sample::redisson()
    };
    let mut app = opened(lock, Theme::default());
    let told =
        ["findings", "outlived: 11112222…88:9 at 10.0.3.7:51322", "to settle it: a burst would show it", "SPLIT"];
    shows(&whole(&mut app, 140), &told);
    app.display.private = true;
    for width in [80, 140] {
        let lines = whole(&mut app, width);
        shows(&lines, &["outlived: (hidden) at (hidden) tried"]);
        assert!(!lines.iter().any(|line| line.contains("10.0.3.7") || line.contains("1111")), "{lines:?}");
    }
}
