//! The tuner as it is drawn.

use insta::assert_snapshot;

use crate::alerts::Rules;
use crate::app::{Event, Past, Reply};
use crate::lock::{Key, KeyspaceId, NodeId, Token};
use crate::model::{Notable, State, What};
use crate::testkit::stage::Stage;
use crate::testkit::tuned::{RULE, START, trial};

fn opened() -> Stage {
    let mut stage = Stage::new();
    stage.app.watch_rules(Rules::default_rules());
    let past = Past { store: "/tmp/locks.history".into(), ..Past::default() };
    stage.app.update(Event::Past(Box::new(past)), stage.now);
    stage.press("4");
    while stage.app.alerting.selected().unwrap().id.rule != RULE {
        stage.press("j");
    }
    stage.press("T");
    stage.app.update(Event::Tuned(Box::new(Reply::Loaded(RULE.into(), Ok(Box::new(trial()))))), stage.now);
    stage
}

#[test]
fn the_tuner_at_80x24_and_140x40() {
    let mut stage = opened();
    stage.press("up");
    assert_snapshot!("tuner_at_80x24", stage.screen());
    stage.resize(140, 40);
    assert_snapshot!("tuner_at_140x40", stage.screen());
}

#[test]
fn in_ascii_and_in_a_small_window_nothing_is_lost_but_detail() {
    let mut stage = opened();
    stage.app.theme.ascii = true;
    let screen = stage.screen();
    assert!(screen.is_ascii(), "{screen}");
    assert!(screen.contains("#") && screen.contains("----") && screen.contains("^"), "{screen}");
    for (width, height) in [(60, 12), (60, 24), (80, 13), (200, 60), (1, 1)] {
        stage.resize(width, height);
        let screen = stage.screen();
        assert!(width < 60 || screen.contains("covered, 1 gap"), "{width}x{height}: {screen}");
    }
}

#[test]
fn an_episode_tells_which_locks_and_who_held_them() {
    let mut stage = opened();
    stage.press("enter");
    let at = crate::base::time::Time(START + 2_500_000);
    let entry = |key: &str| Notable {
        at,
        space: KeyspaceId::FIRST,
        node: NodeId(0),
        key: Some(Key::from(key.as_bytes().to_vec())),
        what: What::Taken {
            holder: Some(Token::from(&b"worker-9"[..])),
            previous: Some(Token::from(&b"worker-7"[..])),
        },
    };
    let from = stage.app.tuner.as_ref().unwrap().episode().unwrap().episode.from;
    let story = vec![
        entry("order:17"),
        entry("unrelated:1"),
        Notable {
            what: What::State { from: State::Held, to: State::Contended, holder: None, ending: None, why: None },
            ..entry("order:18")
        },
    ];
    stage.app.update(Event::Tuned(Box::new(Reply::Read(from, Ok(story)))), stage.now);
    let screen = stage.screen();
    assert!(screen.contains("order:17") && screen.contains("worker-9") && screen.contains("order:18"), "{screen}");
    assert!(!screen.contains("unrelated"), "of another pattern: {screen}");
    stage.press("P");
    assert!(!stage.screen().contains("worker-9"), "{}", stage.screen());
    stage.press("esc");
    assert!(stage.screen().contains("candidate"), "{}", stage.screen());
}
