//! Typing a filter: how long a key takes to change the list of a hundred thousand locks.

use std::time::{Duration, Instant};

use crossterm::event::KeyCode;

use crate::common::Server;
use crate::console::{Pressed, key, p99, take_all};
use crate::limit::{Limit, Measured, whole};
use crate::opened::{Console, Selection};
use crate::report::{Figure, Report};

const LOCKS: usize = 100_000;
/// How often the filter is opened; four keys are typed each time.
const TIMES: usize = 60;

pub fn measure(report: &mut Report) {
    let server = Server::notifying(&[]);
    take_all(&mut server.connection());
    let console = Console::open(&server.url());
    console.wait_for(" ago");
    // Until the keys have moved once, the selection follows the worst lock.
    console.forget_selections();
    console.press(KeyCode::Down);
    let mut selected = console.next_selection().key;
    let mut typed = Vec::new();
    for time in 0..TIMES {
        console.press(KeyCode::Char('/'));
        // Whoever types looks at the line first; meanwhile the list is sorted.
        std::thread::sleep(Duration::from_millis(400 + time as u64 * 7 % 90));
        let mut text = String::new();
        let mut now = selected.clone();
        for _ in 0..2 {
            text.push(digit(&text, &now));
            now = press(&console, KeyCode::Char(text.chars().last().expect("a digit")), &mut typed);
            assert!(now.contains(&text), "{now:?} was selected for {text:?}");
        }
        press(&console, KeyCode::Backspace, &mut typed);
        selected = press(&console, KeyCode::Backspace, &mut typed);
        console.press(KeyCode::Esc);
    }
    console.quit();
    let how = format!("{} keys, each until another lock is selected on the screen", typed.len());
    report.add(Figure {
        name: format!("ms from a key in the filter to the new list of {} locks: p99", whole(LOCKS as f64)),
        measured: Measured::once(p99(typed.iter().map(|key| key.wall).collect())),
        limit: Limit::AtMost(50.0),
        show: |ms| format!("{ms:.1}"),
        command: how,
    });
    report.add(Figure {
        name: "the same without waits for a processor: p99".into(),
        measured: Measured::once(p99(typed.iter().map(|key| key.undisturbed).collect())),
        limit: Limit::AtMost(50.0),
        show: |ms| format!("{ms:.1}"),
        command: "less the time in which the console's thread could have run".into(),
    });
}

/// A digit after which the lock that is selected now does not match any more.
fn digit(text: &str, selected: &str) -> char {
    let tells = |digit: &char| !selected.contains(&format!("{text}{digit}"));
    ('0'..='9').find(tells).unwrap_or_else(|| panic!("{} has every digit after {text:?}", key(0)))
}

/// Presses one key; returns the lock that is selected by it.
fn press(console: &Console, code: KeyCode, typed: &mut Vec<Pressed>) -> String {
    std::thread::sleep(Duration::from_millis(120));
    console.forget_selections();
    let (began, before) = (Instant::now(), console.scheduled().waited);
    console.press(code);
    let Selection { at, waited, key } = console.next_selection();
    let wall = at.saturating_duration_since(began);
    let undisturbed = wall.saturating_sub(waited.saturating_sub(before));
    typed.push(Pressed { wall: wall.as_secs_f64() * 1e3, undisturbed: undisturbed.as_secs_f64() * 1e3 });
    key
}
