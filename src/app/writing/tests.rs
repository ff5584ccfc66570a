//! What the writing keys do, without a terminal and without a server.

use insta::assert_snapshot;

use super::*;
use crate::actions::{Action, Freeing, plan};
use crate::app::{Event, Title};
use crate::lock::{Holder, Key, Mode, RawValue};
use crate::testkit::sample;
use crate::testkit::stage::Stage;

const FENCE: u64 = 60_000;

fn two() -> Stage {
    let mut stage = Stage::new();
    stage.acquire_redisson("lock:order", "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57", FENCE);
    stage.pass(1_000);
    stage.acquire("lock:stock", "worker-7", FENCE);
    stage.compose();
    stage
}

fn writing() -> Stage {
    let mut stage = two();
    stage.app.title = Title { environment: Some(Environment::Dev), ..stage.app.title.clone() };
    stage.press("W");
    stage
}

fn plans(effects: &[Effect]) -> Vec<Plan> {
    match effects {
        [Effect::Perform(plans, _)] => plans.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_is_written_before_somebody_turns_writing_on() {
    let mut stage = two();
    for key in ["x", "e", "u"] {
        assert_eq!(stage.press(key), []);
        assert!(stage.notice().contains(":write turns writing on"), "{key}: {}", stage.notice());
    }
    stage.app.writing = Writing::new(Some("this is read-only, by --read-only".into()), true, stage.now);
    stage.press("W x");
    assert!(stage.notice().contains("this is read-only, by --read-only"), "{}", stage.notice());
    assert!(!stage.app.writes());
}

#[test]
fn writing_goes_off_by_itself_and_takes_the_question_with_it() {
    let mut stage = writing();
    stage.pass(IDLE.as_millis() as u64 - 1);
    stage.press("j");
    stage.pass(IDLE.as_millis() as u64 - 1);
    assert!(stage.app.writes(), "a key keeps it on");
    stage.acquire("lock:new", "w", 10_000_000);
    stage.compose();
    stage.press("g x");
    assert!(matches!(stage.app.overlay, Overlay::Dialog(_)));
    stage.pass(IDLE.as_millis() as u64);
    stage.app.update(Event::Changes(Vec::new(), 0), stage.now);
    assert!(!stage.app.writes() && matches!(stage.app.overlay, Overlay::None));
    assert!(stage.notice().contains("read-only again"));
}

#[test]
fn what_is_done_is_what_was_shown() {
    let mut stage = writing();
    stage.acquire("lock:unique", "2f1c6e9a-7d3b-4c58-9a1e-0b2d4f6a8c13", FENCE);
    stage.filter("lock:unique");
    stage.compose();
    stage.press("x");
    let Overlay::Dialog(dialog) = &stage.app.overlay else { panic!("no question") };
    let shown = dialog.choice().plans[0].clone();
    assert_eq!((&shown.action, shown.key.to_string().as_str()), (&Action::Free, "lock:unique"));
    // Another lock comes to where it was in the list.
    stage.acquire("lock:unique-2", "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d", FENCE);
    stage.compose();
    stage.write("y gone");
    let effects = stage.press("enter");
    assert_eq!(effects, [Effect::Perform(vec![shown], Some("gone".into()))]);
}

#[test]
fn a_lock_that_changed_hands_under_the_question_is_not_sent() {
    let mut stage = writing();
    stage.acquire("lock:unique", "2f1c6e9a-7d3b-4c58-9a1e-0b2d4f6a8c13", FENCE);
    stage.filter("lock:unique");
    stage.compose();
    stage.press("x");
    stage.acquire("lock:unique", "9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d", FENCE);
    stage.compose();
    stage.write("y");
    assert_eq!(stage.press("enter"), []);
    let Overlay::Dialog(dialog) = &stage.app.overlay else { panic!("the question is gone") };
    assert!(dialog.prompt.refused.as_ref().is_some_and(|(why, _)| why.contains("was freed or taken over meanwhile")));
}

#[test]
fn esc_leaves_the_lock_alone_and_only_the_word_does_it() {
    let mut stage = writing();
    stage.press("x");
    for text in ["", "n", "yes", "Y", "free"] {
        stage.press("ctrl-u");
        stage.write(text);
        assert_eq!(stage.press("enter"), [], "{text}");
        assert!(matches!(stage.app.overlay, Overlay::Dialog(_)), "{text}");
    }
    assert_eq!(stage.press("esc"), []);
    assert!(matches!(stage.app.overlay, Overlay::None));
}

#[test]
fn all_that_is_marked_is_freed_and_nothing_else() {
    let mut stage = writing();
    stage.acquire("lock:third", "w", FENCE);
    stage.compose();
    stage.press("g space space x");
    stage.write("y");
    let keys: Vec<String> = plans(&stage.press("enter")).iter().map(|plan| plan.key.to_string()).collect();
    assert_eq!(keys, ["lock:order", "lock:stock"]);
}

#[test]
fn all_that_the_filter_lets_through_can_be_marked() {
    let mut stage = writing();
    stage.acquire("job:third", "w", FENCE);
    stage.filter("lock:");
    stage.press("*");
    stage.compose();
    assert_eq!(stage.app.list.marked.len(), 2);
    stage.press("x");
    stage.write("y");
    let keys: Vec<String> = plans(&stage.press("enter")).iter().map(|plan| plan.key.to_string()).collect();
    assert_eq!(keys, ["lock:order", "lock:stock"]);
    stage.app.update(Event::AllPerformed, stage.now);
    stage.press("esc *");
    assert!(stage.app.list.marked.is_empty(), "a second time takes the marks off");
}

#[test]
fn on_production_many_are_counted_out_loud() {
    let mut stage = two();
    stage.press("W space space x");
    stage.write("y");
    assert_eq!(stage.press("enter"), []);
    stage.press("ctrl-u");
    stage.write("2");
    assert_eq!(plans(&stage.press("enter")).len(), 2);
}

#[test]
fn a_time_can_be_typed() {
    let mut stage = writing();
    stage.press(":");
    stage.write("extend 45m");
    stage.press("enter");
    stage.write("y");
    assert_eq!(plans(&stage.press("enter"))[0].action, Action::Extend(Duration::from_secs(2_700)));
    stage.app.update(Event::AllPerformed, stage.now);
    stage.press("esc :");
    stage.write("extend soon");
    stage.press("enter");
    assert!(stage.screen().contains("write :extend 5m"), "{}", stage.screen());
}

#[test]
fn while_something_is_done_esc_stops_it_and_nothing_new_begins() {
    let mut stage = writing();
    stage.press("space space x");
    stage.write("y");
    stage.press("enter");
    assert_eq!(stage.press("x"), []);
    assert_eq!(stage.press("esc"), [Effect::Stop]);
    stage.app.update(Event::AllPerformed, stage.now);
    let results: Vec<&str> = stage.app.writing.results.iter().map(|came| came.line.as_str()).collect();
    assert_eq!(results, ["stopped: 2 of 2 not touched"]);
    assert!(matches!(stage.app.overlay, Overlay::Results { .. }));
}

#[test]
fn a_library_that_must_not_be_freed_says_so() {
    let mut stage = Stage::new();
    stage.acquire("bull:mail:1:lock", "97bfff9b-5e2f-4a3b-8c6d-7e8f9a0b1c2d:0", 30_000);
    stage.compose();
    stage.press("W x");
    assert!(stage.notice().contains("runs twice"), "{}", stage.notice());
}

#[test]
fn the_question_on_a_small_screen() {
    let mut stage = writing();
    stage.press("x");
    assert_snapshot!(stage.screen());
}

#[test]
fn the_question_about_many_on_production() {
    let mut stage = two();
    stage.resize(140, 40);
    stage.press("W space space x");
    assert_snapshot!(stage.screen());
}

#[test]
fn a_private_screen_hides_whose_lock_it_is() {
    let mut stage = writing();
    stage.press("P x");
    let screen = stage.screen();
    assert!(screen.contains("(hidden)") && !screen.contains("2f1c6e9a"), "{screen}");
}

/// Asks to free `lock:a`, which is released and taken again meanwhile, and answers yes.
fn is_not_freed(take: impl Fn(&mut Stage)) {
    let mut stage = writing();
    take(&mut stage);
    stage.filter("lock:a");
    stage.compose();
    stage.press("x");
    let free = |stage: &Stage| match &stage.app.overlay {
        Overlay::Dialog(dialog) => dialog.choice().label == "free it",
        _ => panic!("no question"),
    };
    while !free(&stage) {
        stage.press("tab");
    }
    // The next hold looks the same on the server.
    stage.pass(1_000);
    stage.release("lock:a");
    stage.pass(1_000);
    take(&mut stage);
    stage.compose();
    stage.write("y");
    assert_eq!(stage.press("enter"), []);
    let Overlay::Dialog(dialog) = &stage.app.overlay else { panic!("the question is gone") };
    let (why, _) = dialog.prompt.refused.clone().expect("a reason");
    assert!(why.contains("lock:a was freed or taken over meanwhile; ctrl-r looks again"), "{why}");
    stage.press("ctrl-r");
    let Overlay::Dialog(dialog) = &stage.app.overlay else { panic!("no question about what is there now") };
    assert_eq!((&dialog.prompt.refused, dialog.prompt.text()), (&None, ""), "it asks again");
    while !free(&stage) {
        stage.press("tab");
    }
    stage.write("y");
    assert_eq!(plans(&stage.press("enter")).len(), 1);
}

#[test]
fn a_lock_that_others_hold_is_not_told_as_released() {
    const READERS: [&[u8]; 2] = [b"2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57", b"9b8d0c11-5e2f-4a3b-8c6d-7e8f9a0b1c2d:9"];
    let lock = LockView {
        key: Key::from("lock:rw"),
        mode: Mode::Read,
        value: RawValue::hash([(&b"mode"[..], &b"read"[..]), (READERS[0], b"1"), (READERS[1], b"1")]),
        holders: READERS.map(|token| Holder { count: Some(1), ..Holder::new(token) }).to_vec(),
        ..sample::redisson()
    };
    let asked = Freeing { holder: Some(READERS[0]), ..Freeing::default() };
    let plan = plan::free(&lock, asked, lock.at).expect("a plan");
    let line = |emptied, named| {
        let refused = Performed::refused("1".into(), Refusal::NotSo(String::new()));
        result_line(
            &plan,
            &Performed { outcome: Outcome::Done { woken: 0, silent: None }, emptied, ..refused },
            named,
            "u",
        )
    };
    let shared = "freed 2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57's share of lock:rw; 1 other still holds it";
    assert!(line(false, true).starts_with(shared), "{}", line(false, true));
    let private = line(false, false);
    assert!(private.starts_with("freed one share of lock:rw; 1 other still holds it"), "{private}");
    assert!(line(true, true).starts_with("freed lock:rw;"), "the other has left meanwhile");
}

/// What the server says when a lock was renewed under the question.
fn refused(stage: &mut Stage, plan: Plan) {
    let why = Refusal::AnotherLease("it has another lease now".into());
    let performed = Performed::refused("1".into(), why);
    stage.app.update(Event::Performed(Box::new(plan), Box::new(performed)), stage.now);
    stage.app.update(Event::AllPerformed, stage.now);
}

#[test]
fn what_was_refused_since_it_moved_is_looked_at_again_with_one_key() {
    for (ask, action) in [("x", Action::Free), ("e", Action::Extend(Duration::from_secs(300)))] {
        let mut stage = writing();
        stage.press(ask);
        let chosen = |stage: &Stage| match &stage.app.overlay {
            Overlay::Dialog(dialog) => dialog.choice().plans[0].clone(),
            other => panic!("no question: {other:?}"),
        };
        while chosen(&stage).action != action {
            stage.press("tab");
        }
        stage.write("y");
        let plan = plans(&stage.press("enter")).remove(0);
        stage.pass(2_000);
        refused(&mut stage, plan.clone());
        assert!(stage.screen().contains("ctrl-r looks again"), "{}", stage.screen());
        stage.press("ctrl-r");
        let asked = chosen(&stage);
        assert_eq!((&asked.key, &asked.action), (&plan.key, &action), "the same, by what is there now");
        assert_ne!(asked.ttl, plan.ttl, "not what was shown before");
        assert_eq!(stage.press("enter"), [], "it asks again");
    }
}

#[test]
fn a_key_on_what_came_of_a_write_does_what_it_does_elsewhere() {
    let mut stage = writing();
    stage.press("x");
    stage.write("y");
    let plan = plans(&stage.press("enter")).remove(0);
    refused(&mut stage, plan);
    stage.press("e");
    let Overlay::Dialog(dialog) = &stage.app.overlay else { panic!("the key was swallowed") };
    assert!(matches!(dialog.choice().plans[0].action, Action::Extend(_)));
    stage.press("esc esc");
    assert!(matches!(stage.app.overlay, Overlay::None));
}

#[test]
fn a_hold_without_an_end_that_was_given_back_under_the_question_is_not_freed() {
    is_not_freed(|stage| stage.acquire("lock:a", "1", None));
}

#[test]
fn the_next_hold_of_the_same_thread_is_not_freed_in_place_of_the_one_that_was_seen() {
    is_not_freed(|stage| stage.acquire_redisson("lock:a", "3f2a8c00-1111-4222-8333-444455556666:57", 30_000));
}

#[test]
fn the_next_hold_by_a_random_token_that_an_object_uses_again_is_not_freed_either() {
    is_not_freed(|stage| stage.acquire("lock:a", "0f8e7d6c-1111-4222-8333-444455556666", 30_000));
}

/// Presses enter until something is done; what was on the screen before each time.
fn insist(stage: &mut Stage) -> (Vec<String>, Vec<Effect>) {
    let mut screens = Vec::new();
    for _ in 0..20 {
        screens.push(stage.screen());
        let effects = stage.press("enter");
        if !effects.is_empty() {
            return (screens, effects);
        }
    }
    panic!("nothing was done:\n{}", screens.join("\n"));
}

#[test]
fn no_warning_below_the_fold_is_confirmed_unread() {
    let mut stage = writing();
    for (width, height) in [(60, 12), (80, 14), (80, 24)] {
        stage.resize(width, height);
        stage.press("g x");
        let Overlay::Dialog(dialog) = &stage.app.overlay else { panic!("no question") };
        let plan = &dialog.choice().plans[0];
        let hazards: Vec<String> =
            plan.hazards.iter().cloned().chain(plan.safe.as_ref().map(|safe| safe.sentence())).collect();
        assert!(hazards.len() > 1, "{hazards:?}");
        stage.write("y");
        let (screens, effects) = insist(&mut stage);
        assert_eq!(plans(&effects).len(), 1, "{width}x{height}");
        let words: Vec<&str> = screens.iter().flat_map(|screen| screen.split_whitespace()).collect();
        for word in hazards.iter().flat_map(|hazard| hazard.split_whitespace()) {
            assert!(words.contains(&word), "{width}x{height}: {word} of {hazards:?} in\n{}", screens.join("\n"));
        }
        assert_eq!(screens.len() == 1, height == 24, "{width}x{height}: {}", screens.join("\n"));
        stage.app.update(Event::AllPerformed, stage.now);
        stage.press("esc");
    }
}

#[test]
fn a_question_that_was_not_drawn_yet_is_not_answered() {
    let mut stage = writing();
    stage.press("g x");
    let Overlay::Dialog(dialog) = &mut stage.app.overlay else { panic!("no question") };
    // What was asked beside the question has come: there is more to read than was drawn.
    let mut foreseen = dialog.choice().plans.clone();
    foreseen[0].undo = Some(Err("it is too large".into()));
    stage.app.update(Event::Foreseen(foreseen), stage.now);
    let key = |code| Event::Key(crossterm::event::KeyEvent::from(code));
    stage.app.update(key(crossterm::event::KeyCode::Char('y')), stage.now);
    assert_eq!(stage.app.update(key(crossterm::event::KeyCode::Enter), stage.now), []);
    assert!(stage.screen().contains("not possible: it is too large"), "{}", stage.screen());
    assert_eq!(plans(&stage.press("enter")).len(), 1);
}

#[test]
fn lines_that_were_skipped_are_not_read() {
    let mut stage = writing();
    stage.resize(60, 12);
    stage.press("g x pagedown");
    let skipped = stage.screen();
    assert!(!skipped.contains("held by"), "{skipped}");
    stage.write("y");
    assert_eq!(stage.press("enter"), []);
    assert!(stage.screen().contains("There is more to read first"), "{}", stage.screen());
}
