//! Another target is chosen by name, opened while nothing else can be begun, and the old one stays if that fails.

use super::*;
use crate::app::Event;
use crate::settings::cli::Environment;
use crate::testkit::stage::Stage;

fn stage() -> Stage {
    let mut stage = Stage::new();
    let target = |name: &str, environment, read_only| Offered { name: name.into(), environment, read_only };
    stage.app.title.targets = vec![
        target("billing", Some(Environment::Staging), true),
        target("billing-eu", None, false),
        target("orders-redis", Some(Environment::Prod), false),
    ];
    stage
}

fn command(stage: &mut Stage, text: &str) -> Vec<Effect> {
    stage.press(":");
    stage.write(text);
    stage.press("enter")
}

#[test]
fn the_targets_are_listed_and_completed() {
    let mut stage = stage();
    assert_eq!(command(&mut stage, "target"), []);
    let screen = stage.screen();
    assert!(screen.contains("billing (staging, read-only)  billing-eu  orders-redis (here, prod)"), "{screen}");
    stage.write("b");
    stage.press("tab");
    stage.press("tab");
    stage.press("tab");
    assert_eq!(stage.press("enter"), [Effect::Go("billing-eu".into())]);
    let mut none = Stage::new();
    command(&mut none, "target");
    assert!(none.notice().contains("config template"), "{}", none.notice());
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    let mut stage = stage();
    assert_eq!(command(&mut stage, "target biling"), []);
    let screen = stage.screen();
    assert!(screen.contains("there is no target \"biling\"; did you mean \"billing\"?"), "{screen}");
    stage.press("esc");
    assert_eq!(command(&mut stage, "target nope"), []);
    let screen = stage.screen();
    assert!(screen.contains("there is no target \"nope\"; there are billing, billing-eu, orders-redis"), "{screen}");
    stage.press("esc");
    assert_eq!(command(&mut stage, "target orders-redis"), []);
    assert!(stage.notice().contains("this is orders-redis already"), "{}", stage.notice());
}

#[test]
fn while_it_is_opened_no_key_does_anything_but_stay() {
    let mut stage = stage();
    stage.acquire("lock:a", "worker-1", 60_000);
    assert_eq!(command(&mut stage, "target billing"), [Effect::Go("billing".into())]);
    assert!(stage.screen().contains("connecting to billing"), "{}", stage.screen());
    for key in ["x", "W", "2", "enter", "q"] {
        assert_eq!(stage.press(key), [], "{key}");
    }
    assert!(!stage.app.writes() && stage.screen().contains("connecting to billing"));
    assert_eq!(stage.press("esc"), [Effect::Stay]);
    assert!(stage.notice().contains("still at orders-redis"), "{}", stage.notice());
    assert_eq!(
        stage.app.update(Event::Opened(Ok(())), stage.now),
        [Effect::Stay],
        "the operator has changed their mind"
    );
}

#[test]
fn a_target_that_can_not_be_opened_leaves_everything_as_it_was() {
    let mut stage = stage();
    stage.acquire("lock:a", "worker-1", 60_000);
    command(&mut stage, "filter lock:a");
    command(&mut stage, "target billing");
    let effects = stage.app.update(Event::Opened(Err("could not connect to redis://b:1".into())), stage.now);
    assert_eq!(effects, []);
    stage.compose();
    let notice = stage.notice();
    assert!(
        notice.contains("could not go to billing, still at orders-redis: could not connect to redis://b:1"),
        "{notice}"
    );
    assert_eq!(stage.app.list.filter_text, "lock:a");
    command(&mut stage, "target billing");
    assert_eq!(stage.app.update(Event::Opened(Ok(())), stage.now), [Effect::Quit], "this app ends");
}
