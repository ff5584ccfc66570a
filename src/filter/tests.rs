//! The filter language as people type it, right and wrong.

use proptest::prelude::*;

use super::*;
use crate::lock::{KeyspaceId, NodeId, Token};
use crate::model::{Change, Ending, Finding, LockView, State, Transition, findings};
use crate::testkit::sample;

fn matches(filter: &str, lock: &LockView) -> bool {
    parsed(filter).matches(&Subject::from(lock))
}

fn parsed(filter: &str) -> Filter {
    filter.parse().unwrap_or_else(|bad: BadFilter| panic!("{filter}: {bad}"))
}

fn wrong(filter: &str) -> BadFilter {
    match filter.parse::<Filter>() {
        Ok(understood) => panic!("{filter} was taken for {understood:?}"),
        Err(bad) => bad,
    }
}

#[test]
fn every_question_has_its_answer() {
    let lock = sample::redisson();
    for (filter, expected) in [
        ("", true),
        ("order", true),
        ("ORDER:88", true),
        ("lock:*", true),
        ("order*", false),
        ("*:8841", true),
        ("*ck:*:88*", true),
        ("\"lock:*\"", false),
        ("key:order", true),
        ("state:held", true),
        ("STATE:HELD", true),
        ("state=held", true),
        ("state!=held", false),
        ("state:orphan", false),
        ("mode:exclusive", true),
        ("mode:read", false),
        ("kind:lock", true),
        ("kind:marker", false),
        ("lib:redis*", true),
        ("lib:plain", false),
        ("holder:3f2a", true),
        ("holder:57", true),
        ("holder:10.0.3.7", false),
        ("node:0", true),
        ("node:1", false),
        ("ttl<9s", true),
        ("ttl<8s", false),
        ("ttl >= 8140ms", true),
        ("ttl=8140ms", true),
        ("ttl:none", false),
        ("ttl!=none", true),
        ("held>1m", true),
        ("held>1h", false),
        ("lease=30s", true),
        ("renewals>3", true),
        ("renewals<=3", false),
        ("missed=0", true),
        ("order state:held", true),
        ("order and state:no-ttl", false),
        ("nothing or state:held", true),
        ("not nothing", true),
        ("not (order or cart)", false),
        ("cart or order ttl<5s", false),
        ("(cart or order) ttl<9s", true),
        ("NOT cart AND order", true),
    ] {
        assert_eq!(matches(filter, &lock), expected, "{filter}");
    }
}

#[test]
fn a_lock_without_a_ttl_is_found_by_that() {
    let lock = sample::forever();
    assert!(matches("ttl:none", &lock) && matches("state:no-ttl", &lock));
    assert!(!matches("ttl<5s", &lock) && !matches("ttl>5s", &lock), "there is no time left to compare");
    assert!(matches("holder:10.0.3.7", &lock) && matches("holder:4242", &lock));
    assert!(matches(r"\xff", &lock) && matches(r"holder:\u{1b}", &lock), "bytes are matched as they are shown");
}

#[test]
fn unknown_compares_false_both_ways() {
    let lock = sample::unknown();
    for field in ["held", "lease"] {
        assert!(!matches(&format!("{field}<1s"), &lock) && !matches(&format!("{field}>=0s"), &lock), "{field}");
    }
    for field in ["fail", "wait", "renewals", "missed"] {
        assert!(!matches(&format!("{field}=0"), &lock) && !matches(&format!("{field}>=0"), &lock), "{field}");
        assert!(!matches(&format!("{field}!=0"), &lock), "{field}");
    }
    let rated = Subject::from(&lock).with_rates(Some(4.2), Some(6.0));
    assert!(parsed("fail>1 and wait>5").matches(&rated));
}

#[test]
fn a_change_is_matched_by_what_it_carries() {
    let change = Transition {
        at: crate::base::time::Time(0),
        space: KeyspaceId(3),
        node: NodeId(3),
        key: crate::lock::Key::from("lock:a"),
        change: Change::Ended(Ending::Released),
        holder: None,
        previous: Some(Token::from(&b"abc"[..])),
        proven: false,
        source: crate::model::Source::Scan,
    };
    let subject = Subject::of_change(&change, None).on_node("cache-2");
    for (filter, expected) in [("lock:a", true), ("holder:abc", true), ("node:cache", true), ("state:held", false)] {
        assert_eq!(parsed(filter).matches(&subject), expected, "{filter}");
    }
}

#[test]
fn keys_with_colons_need_no_quotes() {
    let mut lock = sample::redisson();
    for key in
        ["job:42", "mail:queue", "code:lock", "user=5", "a&b", "lock{x}", "sta:x", "o'brien", "order:7", "folder:x"]
    {
        lock.key = crate::lock::Key::from(key);
        assert!(matches(key, &lock), "{key}");
    }
    lock.key = crate::lock::Key::from("f(x) \"y\" node:7");
    assert!(matches("\"f(x) \"\"y\"\" node:7\"", &lock));
    assert!(matches("'f(x) \"y\" node:7'", &lock) && matches("key:'x) '", &lock));
}

#[test]
fn a_wrong_filter_says_where_and_what_was_expected() {
    for (filter, column, part) in [
        ("state:orphn", 7, "did you mean \"orphan\"?"),
        ("sate:orphan", 1, "did you mean \"state\"?"),
        ("a tll<5s", 3, "did you mean \"ttl\"?"),
        ("tll:none", 1, "did you mean \"ttl\"?"),
        ("not library:redisson", 5, "did you mean \"lib\"?"),
        ("dialect:huey", 1, "did you mean \"lib\"?"),
        ("lib:rediss0n-x", 5, "there is no library"),
        ("mode:reed", 6, "\"read\""),
        ("ttl<5", 5, "a duration such as 5s"),
        ("ttl<none", 1, "ttl:none"),
        ("held>soon", 6, "500ms, 30s, 5m or 2h"),
        ("fail>many", 6, "a number"),
        ("fail>inf", 6, "a number"),
        ("ttl<", 5, "a duration"),
        ("ttl<\"5s\"", 5, "without quotes"),
        ("state:", 7, "a state"),
        ("state<held", 1, "state:"),
        ("(a or b", 1, "never closed"),
        ("a)", 2, "without its '('"),
        ("()", 2, "expected a word"),
        ("a or", 5, "expected a word"),
        ("or a", 1, "before \"or\""),
        ("a and and b", 7, "before \"and\""),
        ("not", 4, "expected a word"),
        ("a && b", 3, "\"and\""),
        ("<5s", 1, "a field before"),
        ("key:\"abc", 5, "never closed"),
        ("\"\"", 1, "between the quotes"),
        ("锁 state:x", 9, "there is no state"),
    ] {
        let bad = wrong(filter);
        assert_eq!(bad.column, column, "{filter}: {bad}");
        assert!(bad.to_string().contains(part), "{filter}: {bad}");
    }
    assert!(wrong(&"(".repeat(100_000)).to_string().contains("deep"));
    assert!(wrong(&"not ".repeat(100_000)).to_string().contains("deep"));
}

#[test]
fn the_caret_stands_under_the_place() {
    assert_eq!(wrong("锁 state:x").caret(), "  锁 state:x\n           ^");
    let fault = Fault::from(wrong("ttl<5"));
    assert_eq!(fault.exit_code(), 2);
}

#[test]
fn every_state_and_finding_there_is_can_be_asked_for() {
    for state in State::ALL {
        parsed(&format!("state:{}", state.name()));
    }
    let finding = |name| Finding { name, sentence: String::new(), confidence: 1.0, settle: None };
    for name in findings::names() {
        let lock = LockView { findings: vec![finding(name)], ..sample::redisson() };
        assert!(parsed(&format!("finding:{name}")).matches(&Subject::from(&lock)), "{name}");
        assert!(!parsed(&format!("finding:{name}")).matches(&Subject::from(&sample::redisson())));
    }
    assert!(wrong("finding:starvin").to_string().contains("did you mean \"starving\"?"));
}

#[test]
fn a_filter_prints_as_it_is_understood() {
    for (text, printed) in [
        ("a  b", "a and b"),
        ("a or (b or c)", "a or b or c"),
        ("(a or b) c", "(a or b) and c"),
        ("not (a b)", "not (a and b)"),
        ("held>90s", "held>1m30s"),
        ("state!=held", "not state:held"),
        ("'and'", "key:and"),
        ("'a b'", "key:\"a b\""),
        ("'l*'", "key:\"l*\""),
    ] {
        assert_eq!(parsed(text).to_string(), printed);
        assert_eq!(parsed(printed), parsed(text));
    }
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "and",
            "or",
            "not",
            "(",
            ")",
            "state:held",
            "state:no-ttl",
            "lib:plain",
            "ttl<5s",
            "ttl:none",
            "held>=1h",
            "fail>0.5",
            "wait!=3",
            "holder:a*b",
            "'x y'",
            "\"a\"\"b\"",
            "lock:*",
            "key:a<b",
            "key:and",
            "mode:read",
            "!",
            "=",
            "ttl",
            ":",
            "'"
        ])
        .prop_map(String::from),
        "[a-zA-Z:<>=!*'\"() 锁\\\\]{0,8}",
        (any::<u32>()).prop_map(|ms| format!("held>{ms}ms")),
        (0u32..1_000_000).prop_map(|n| format!("renewals<{}", f64::from(n) / 7.0)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_typed_can_break_it(pieces in prop::collection::vec(piece(), 0..8), any in any::<String>()) {
        for text in [pieces.concat(), pieces.join(" "), any] {
            match text.parse::<Filter>() {
                Ok(filter) => {
                    filter.matches(&Subject::from(&sample::forever()));
                    let printed = filter.to_string();
                    prop_assert_eq!(printed.parse::<Filter>(), Ok(filter), "{} printed as {}", text, printed);
                }
                Err(bad) => prop_assert!(!bad.caret().is_empty() && bad.column <= text.chars().count() + 1),
            }
        }
    }
}
