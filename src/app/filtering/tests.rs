//! Typing a filter or a command: what the list shows meanwhile, what is completed, what comes back.

use crate::app::{Overlay, Screen};
use crate::filter::{Filter, Subject};
use crate::testkit::stage::Stage;

fn twelve() -> Stage {
    let mut stage = Stage::new();
    for number in 0..12 {
        stage.acquire(format!("lock:{number:02}"), &format!("worker-{number}"), 60_000);
    }
    stage.compose();
    stage
}

#[test]
fn the_list_changes_with_every_key_that_is_typed_and_esc_brings_the_old_one_back() {
    let mut stage = twelve();
    stage.filter("lock:0");
    stage.press("j");
    let selected = stage.selected();
    stage.press("/");
    assert_eq!(stage.app.scene.listed, 12, "an empty line lists all");
    let lists: Vec<(usize, Option<String>)> = ["l", "1", "1"]
        .into_iter()
        .map(|key| {
            stage.write(key);
            (stage.app.scene.listed, stage.selected())
        })
        .collect();
    assert_eq!(lists, [(12, selected.clone()), (0, None), (0, None)]);
    stage.press("backspace backspace backspace");
    stage.write("lock:1");
    assert_eq!(
        (stage.rows(), stage.selected().as_deref()),
        (vec!["lock:10".into(), "lock:11".into()], Some("lock:10"))
    );
    stage.press("esc");
    assert_eq!((stage.app.list.filter_text.as_str(), stage.app.scene.listed), ("lock:0", 10));
    assert_eq!(stage.selected(), selected, "and what was selected");
}

#[test]
fn an_unfinished_filter_says_softly_what_can_come_and_keeps_the_last_good_list() {
    let mut stage = twelve();
    stage.press("/");
    stage.write("lock:1 state:he");
    assert_eq!(stage.rows(), ["lock:10", "lock:11"], "its last word is left out");
    let screen = stage.screen();
    assert!(screen.contains("state:held; tab completes"), "{screen}");
    stage.press("tab");
    let screen = stage.screen();
    assert!(screen.contains("/ lock:1 state:held") && !screen.contains("tab completes"), "{screen}");
    assert_eq!(stage.rows(), ["lock:10", "lock:11"]);
    stage.write(" ttl<");
    let screen = stage.screen();
    assert!(screen.contains("not read yet, at column 23: expected a duration"), "{screen}");
    let row = stage.draw();
    let style = row[(2, 22)].style();
    assert_ne!(style.fg, stage.app.theme.bad().fg, "not in the colour of a mistake");
    // A parenthesis in the middle: the last good list stays.
    stage.press("ctrl-u");
    stage.write("lock:11 (state:held or state:free");
    assert_eq!(stage.rows(), ["lock:11"]);
    stage.write(")");
    assert_eq!(stage.app.list.filter_text, "lock:11 (state:held or state:free)");
}

#[test]
fn the_last_filters_are_on_the_up_arrow() {
    let mut stage = twelve();
    for text in ["lock:1", "state:held", "lock:1"] {
        stage.filter(text);
    }
    stage.press("/");
    assert!(stage.screen().contains("/  up lock:1  tab completes"), "{}", stage.screen());
    stage.press("up");
    assert_eq!((stage.app.list.filter_text.as_str(), stage.rows().len()), ("lock:1", 2), "it is in force at once");
    stage.press("up up");
    assert_eq!(stage.app.list.filter_text, "state:held", "each once, and no further than the first");
    stage.press("down down");
    assert_eq!((stage.app.list.filter_text.as_str(), stage.rows().len()), ("", 12));
}

#[test]
fn a_wrong_command_is_answered_with_the_right_one_or_none() {
    let mut stage = twelve();
    let mut answer = |text: &str| {
        stage.press(":");
        stage.write(text);
        stage.press("enter");
        let Overlay::Command(prompt) = &stage.app.overlay else { panic!("{text} was done") };
        let why = prompt.refused.clone().expect("a reason").0;
        stage.press("esc");
        why
    };
    assert_eq!(answer("con"), "there is no command \"con\"; did you mean \"contend\" or \"contention\"?");
    assert_eq!(answer("rescn"), "there is no command \"rescn\"; did you mean \"rescan\"?");
    assert_eq!(answer("destroy"), "there is no command \"destroy\"; tab lists them");
    stage.press(":");
    stage.write("conte");
    stage.press("tab tab tab enter");
    assert_eq!(stage.app.page.screen, Screen::Contention);
    stage.press(":");
    stage.write("filter state:hel");
    stage.press("tab enter");
    assert_eq!(stage.app.list.filter_text, "state:held");
    stage.press(": up");
    assert!(stage.screen().contains(": filter state:held"), "{}", stage.screen());
}

#[test]
fn the_table_and_a_view_of_it_answer_every_filter_alike() {
    let mut stage = Stage::new();
    stage.acquire("lock:plain", "worker-7", 60_000);
    stage.acquire("lock:Forever", "2f1c6e9a-7d3b-4c58-9a1e-0b2d4f6a8c13", None);
    stage.acquire("lock:\u{1b}[2J", "w", 1_000);
    stage.acquire_redisson("lock:order", "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57", 30_000);
    for _ in 0..4 {
        stage.pass(10_000);
        stage.renew("lock:order", 30_000);
    }
    stage.want("lock:order", 3);
    stage.acquire("lock:gone", "w", 60_000);
    stage.release("lock:gone");
    stage.pass(15_000);
    let filters = [
        "lock",
        "FOREVER",
        "lock:*",
        "*ord*",
        "[2J",
        "\"u{1b}\"",
        "key:plain",
        "state:held",
        "state:no-ttl",
        "state:free",
        "state:stalled",
        "lib:redisson",
        "lib:plain",
        "holder:worker",
        "holder:57",
        "mode:exclusive",
        "kind:lock",
        "node:10.0",
        "finding:*",
        "ttl<1m",
        "ttl:none",
        "lease>10s",
        "lease<10s",
        "held>1s",
        "held<1h",
        "renewals>0",
        "renewals<9",
        "missed>0",
        "missed<1",
        "fail<1",
        "wait>2",
        "wait<9",
        "not state:held",
        "ttl:none or wait>0",
    ];
    let mut both = 0;
    for text in filters {
        let filter: Filter = text.parse().expect(text);
        for (_, lock) in stage.table.places() {
            let view = stage.table.view(lock, stage.now);
            let kept = Subject::of_kept(&stage.table, lock, stage.now);
            let kept = kept.is_some_and(|kept| filter.matches(&kept.on_node("10.0.3.7:6379")));
            let seen = view.as_ref().is_some_and(|view| filter.matches(&Subject::from(view).on_node("10.0.3.7:6379")));
            assert_eq!(kept, seen, "{text}: {}", lock.key);
            both += usize::from(kept);
        }
    }
    assert!(both > filters.len(), "the filters are no test: {both}");
}
