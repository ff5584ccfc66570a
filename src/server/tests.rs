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

#[test]
fn children_that_ran_are_told_with_what_is_not_known_of_them() {
    let forks = |text: &str| {
        let text = format!("rdb_bgsave_in_progress:0\r\naof_rewrite_in_progress:0\r\n{text}");
        facts(Fact::Known(text)).forks.known().cloned().unwrap()
    };
    let never =
        forks("rdb_last_save_time:1790000000\r\nrdb_last_bgsave_time_sec:-1\r\naof_last_rewrite_time_sec:-1\r\n");
    assert_eq!(never, Forks { running: false, saved_at_s: None, undated: Duration::ZERO }, "it only started then");
    let saved = "rdb_last_save_time:1790000000\r\nrdb_last_bgsave_time_sec:3\r\n";
    let saves = Forks { running: false, saved_at_s: Some(1_790_000_000), undated: Duration::ZERO };
    assert_eq!(forks(saved), saves);
    let undated = |more: &str| forks(&format!("{saved}{more}")).undated.as_secs();
    assert_eq!(undated("aof_last_rewrite_time_sec:7\r\n"), 8, "nothing says when a rewrite was");
    assert_eq!(undated("sync_full:2\r\n"), 4, "nor a snapshot for a replica");
    assert_eq!(undated("rdb_last_bgsave_status:err\r\n"), 4, "nor one that failed");
    assert!(forks("aof_rewrite_in_progress:1\r\n").running);
    assert_eq!(facts(Fact::Known("redis_version:7.0.0\r\n".into())).children(Time(0)), None, "not known is not never");
}

proptest! {
    #[test]
    fn no_info_text_panics(lines in prop::collection::vec(("[a-z_0-9]{0,20}|role|connected_slaves|slave0|db0|loading|maxmemory|used_memory", "\\PC{0,20}|[0-9]{0,25}|slave|master"), 0..20)) {
        let text: String = lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        let _ = facts(Fact::Known(text));
    }
}
