//! Handing an incident over: by text, by JSON, without what must not be seen.

use super::*;
use crate::app::Title;
use crate::lock::Token;
use crate::model::{Act, OwnWrite};
use crate::settings::cli::Environment;
use crate::testkit::stage::Stage;

const TOKEN: &str = "3f2a8c00-1111-4222-8333-444455556666:57";

/// A lock whose watchdog went silent, and three wait for it.
fn orphan() -> Stage {
    let mut stage = Stage::new();
    stage.app.title = Title {
        environment: Some(Environment::Dev),
        again: " -u redis://10.0.3.7:6379".into(),
        ..stage.app.title.clone()
    };
    stage.acquire_redisson("lock:order", TOKEN, 300_000);
    for _ in 0..4 {
        stage.pass(10_000);
        stage.renew("lock:order", 300_000);
    }
    stage.pass(100_000);
    stage.want("lock:order", 3);
    stage.compose();
    stage
}

fn copied(effects: &[Effect]) -> String {
    match effects {
        [Effect::Copy(text)] => text.clone(),
        other => panic!("nothing was copied: {other:?}"),
    }
}

#[test]
fn the_incident_is_copied_with_one_key_and_shown() {
    let mut stage = orphan();
    let text = copied(&stage.press("Y"));
    let parts = [
        "lock:order on orders-redis at 10.0.3.7:6379 (dev): orphan (",
        "why: ",
        "held by 3f2a8c00…6:57 for ",
        "waiters: ",
        "free it? yes",
        "HELD → ORPHAN: ",
        "done from here: nothing",
        "look: lockscope show lock:order --observe 15s -u redis://10.0.3.7:6379",
    ];
    for part in parts {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(!text.contains(TOKEN) && text.lines().count() < 16, "{text}");
    let screen = stage.screen();
    for part in ["lock:order on orders-redis", "done from here: nothing", "esc closes"] {
        assert!(screen.contains(part), "{part}:\n{screen}");
    }
    stage.press("j x");
    assert!(matches!(stage.app.overlay, Overlay::None), "any key closes it, and does nothing else");
    stage.press("t");
    assert!(copied(&stage.press("Y")).contains(TOKEN), "whole tokens, as the screen shows them");
}

#[test]
fn it_tells_what_was_done_from_here() {
    let mut stage = orphan();
    let write = |act| OwnWrite {
        act,
        holders: vec![Token::from(TOKEN.as_bytes())],
        by: "anna".into(),
        reason: Some("worker-7 is gone".into()),
    };
    stage.press("g");
    stage.write_ourselves("lock:order", write(Act::Free { whole: true }));
    stage.pass(1_000);
    stage.compose();
    let text = copied(&stage.press("Y"));
    assert!(text.contains("): free (") && text.contains("FREED: by anna, because \"worker-7 is gone\""), "{text}");
    assert!(!text.contains("done from here: nothing"), "{text}");
}

#[test]
fn a_private_screen_hands_over_no_holder() {
    let mut stage = orphan();
    stage.press("P");
    let text = copied(&stage.press("Y"));
    assert!(text.contains("held by (hidden)") && !text.contains("3f2a8c00"), "{text}");
    stage.press("esc :");
    stage.write("incident json");
    assert_eq!(stage.press("enter"), []);
    assert!(stage.notice().contains("P shows them"), "{}", stage.notice());
}

#[test]
fn the_page_is_written_without_tokens_unless_the_screen_shows_them() {
    let mut stage = orphan();
    stage.press("enter");
    let effects = stage.press("B");
    let [Effect::Bundle(bundle, key, None, false)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(key.to_string(), "lock:order");
    let document = bundle.clone().document(false);
    assert_eq!(
        (&document["lock"]["state"], &document["lock"]["holders"][0]["token"]),
        (&"orphan".into(), &"holder-1".into())
    );
    assert!(
        document["lease"]["due"].as_array().unwrap().iter().any(|due| due["missed"] == true),
        "{}",
        document["lease"]
    );
    assert!(document["headline"].as_str().unwrap().starts_with("lock:order on orders-redis"), "{document}");
    assert!(!document.to_string().contains("3f2a8c00"), "{document}");
    stage.press("t :");
    stage.write("bundle /tmp/here");
    let effects = stage.press("enter");
    assert!(
        matches!(effects.as_slice(), [Effect::Bundle(_, _, Some(folder), true)] if folder.ends_with("here")),
        "{effects:?}"
    );
    stage.app.update(crate::app::Event::Bundled(Ok("/tmp/here/incident.html".into())), stage.now);
    assert!(stage.notice().contains("/tmp/here/incident.html"), "{}", stage.notice());
    stage.press("P");
    assert_eq!(stage.press("B"), [], "a private screen names nobody");
}

#[test]
fn json_comes_by_the_command_bar() {
    let mut stage = orphan();
    stage.press("enter :");
    stage.write("incident j");
    stage.press("tab");
    let text = copied(&stage.press("enter"));
    let incident: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
    assert_eq!(incident["schema"], "lockscope/1");
    assert_eq!((&incident["lock"]["key"], &incident["lock"]["state"]), (&"lock:order".into(), &"orphan".into()));
    assert_eq!(incident["lock"]["holders"][0]["token"], TOKEN);
    assert!(incident["timeline"].as_array().is_some_and(|story| !story.is_empty()), "{text}");
    assert_eq!(incident["server"]["target"], "orders-redis");
    stage.press("esc esc :");
    stage.write("incident xml");
    stage.press("enter");
    assert!(stage.screen().contains("write :incident, or :incident json"), "{}", stage.screen());
}
