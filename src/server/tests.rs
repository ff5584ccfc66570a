//! INFO texts never become facts that the server did not state, and never cause a panic.

use proptest::prelude::*;

use super::*;

fn unknown<T>() -> Fact<T> {
    Fact::Unknown("not asked".into())
}

fn facts(info: Fact<String>) -> ServerFacts {
    let settings = Settings::from_answers([unknown(), unknown(), unknown(), unknown(), unknown()]);
    ServerFacts::read(&info, 0, unknown(), settings, unknown())
}

#[test]
fn a_user_without_info_learns_nothing_false() {
    let facts = facts(Fact::Unknown("this user may not run INFO".into()));
    assert_eq!(facts.product.why(), Some("this user may not run INFO"));
    assert_eq!(facts.keys.known(), None, "not known is not zero");
    assert_eq!(facts.readiness.known(), None);
}

#[test]
fn a_partial_info_leaves_the_rest_unknown() {
    let facts = facts(Fact::Known("redis_version:7.4.0\r\nused_memory:10\r\n".into()));
    assert!(facts.product.known().is_some());
    assert_eq!(facts.memory.why(), Some("INFO does not contain maxmemory_policy"));
    assert_eq!(facts.keys.known(), None);
}

#[test]
fn an_empty_database_has_no_keys_and_a_loading_server_says_how_long() {
    let facts = facts(Fact::Known("loading:1\r\nloading_eta_seconds:12\r\n# Keyspace\r\ndb1:keys=4\r\n".into()));
    assert_eq!(facts.keys, Fact::Known(0));
    assert_eq!(facts.readiness, Fact::Known(Readiness::Loading { left: Some(Duration::from_secs(12)) }));
}

proptest! {
    #[test]
    fn no_info_text_panics(lines in prop::collection::vec(("[a-z_0-9]{0,20}|role|connected_slaves|slave0|db0|loading|maxmemory|used_memory", "\\PC{0,20}|[0-9]{0,25}|slave|master"), 0..20)) {
        let text: String = lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        let _ = facts(Fact::Known(text));
    }
}
