//! What happened, beside the series: gaps by node, the timeline, alerts, actions, and a count of what was too much.

use lockscope::alerts::{Alert, AlertChange, AlertState, Severity};
use lockscope::base::time::Time;
use lockscope::lock::{Key, KeyspaceId, NodeId, Token};
use lockscope::model::{Ending, Notable, State, What};
use lockscope::store::{Gap, Reason};
use serde_json::json;

use crate::fixtures::*;

fn notable(at: i64, key: &[u8]) -> Notable {
    let what = What::State {
        from: State::Held,
        to: State::Free,
        holder: Some(Token::from(&b"\xff token"[..])),
        ending: Some(Ending::Expired),
        why: Some("it expired \u{1b}[31m".into()),
    };
    Notable { at: Time(at), space: KeyspaceId::FIRST, node: NodeId(3), key: Some(Key::from(key)), what }
}

#[test]
fn a_node_that_is_lost_or_stale_is_a_gap_of_that_node() {
    let place = Place::new();
    let mut recorder = place.recorder();
    let up = |node: &str| series("lockscope_up", &["cache", node]);
    let stale = |node: &str| series("lockscope_data_stale", &["cache", node]);
    let states = [(1.0, 1.0, 0.0), (1.0, 0.0, 0.0), (1.0, 0.0, 1.0), (1.0, 1.0, 1.0), (1.0, 1.0, 0.0), (0.0, 1.0, 0.0)];
    for (second, (one, other, behind)) in (0..).zip(states) {
        let samples = [(up("a:1"), one), (up("b:1"), other), (stale("b:1"), behind)];
        recorder.feed(moment(START + second * 1_000, &samples));
    }
    recorder.settle();
    let gap = |from: i64, to: Option<i64>, reason, node: &str| Gap {
        from: Time(START + from * 1_000),
        to: to.map(|to| Time(START + to * 1_000)),
        reason,
        node: Some(node.into()),
    };
    let history = place.history();
    let mut gaps = vec![
        gap(1, Some(3), Reason::NotConnected, "b:1"),
        gap(2, Some(4), Reason::Stale, "b:1"),
        gap(5, None, Reason::NotConnected, "a:1"),
    ];
    assert_eq!(history.gaps(ALL.0, ALL.1).unwrap(), gaps);
    assert_eq!(history.gaps(Time(START + 3_500), Time(START + 3_600)).unwrap(), gaps[1..2]);
    recorder.close().unwrap();
    gaps[2].to = Some(Time(START + 5_000));
    assert_eq!(place.history().gaps(ALL.0, ALL.1).unwrap(), gaps, "a recorder that ends ends them");
}

#[test]
fn a_gap_begins_with_the_last_answer_and_not_before_its_run() {
    let place = Place::new();
    let mut recorder = place.recorder();
    let up = || series("lockscope_up", &["cache", "a:1"]);
    let since = || series("lockscope_blind_since_timestamp_seconds", &["cache", "a:1"]);
    let told = |at: i64| (START + at * 1_000) as f64 / 1_000.0;
    recorder.feed(moment(START, &[(up(), 0.0), (since(), told(-60))]));
    for second in 1..=4 {
        recorder.feed(moment(START + second * 1_000, &[(up(), 1.0)]));
    }
    recorder.feed(moment(START + 5_000, &[(up(), 0.0), (since(), told(2))]));
    recorder.feed(moment(START + 6_000, &[(up(), 1.0)]));
    recorder.close().unwrap();
    let gaps = place.history().gaps(ALL.0, ALL.1).unwrap();
    let times: Vec<(i64, Option<i64>)> =
        gaps.iter().map(|gap| (gap.from.0 - START, gap.to.map(|to| to.0 - START))).collect();
    assert_eq!(times, [(0, Some(1_000)), (2_000, Some(6_000))]);
}

#[test]
fn what_was_notable_is_read_back_as_it_was_and_too_many_are_counted() {
    let place = Place::new();
    let mut recorder = place.recorder();
    let keys: [&[u8]; 3] = [b"lock:a", b"\xff\x00\n", "ключ".as_bytes()];
    let told: Vec<Notable> = (0..).zip(keys).map(|(second, key)| notable(START + second * 1_000, key)).collect();
    told.iter().for_each(|notable| recorder.notable(notable));
    recorder.settle();
    assert_eq!(place.history().notables(ALL.0, ALL.1).unwrap(), told);
    assert_eq!(place.history().notables(Time(START + 1), Time(START + 1_000)).unwrap(), told[1..2]);
    // A storm within one minute, and an entry with a name that has no end.
    for number in 0..1_000 {
        recorder.notable(&notable(START + 60_000 + number, b"lock:storm"));
        recorder.settle();
    }
    recorder.notable(&notable(START + 120_000, &vec![b'x'; 1 << 20]));
    recorder.settle();
    let history = place.history();
    let kept = history.notables(Time(START + 60_000), ALL.1).unwrap().len() as u64;
    let omitted: u64 = history.omitted(ALL.0, ALL.1).unwrap().iter().map(|omission| omission.count).sum();
    assert_eq!((kept, kept + omitted), (600, 1_001));
    assert_eq!((recorder.status().omitted, history.summary().unwrap().omitted), (401, 401));
}

#[test]
fn the_log_of_alerts_has_every_number_as_it_was() {
    let place = Place::new();
    let mut recorder = place.recorder();
    let values = [Some(0.1 + 0.2), None, Some(f64::INFINITY), Some(1e300), Some(-0.0)];
    let change = |(at, value): (i64, Option<f64>)| AlertChange {
        at: Time(START + at),
        from: AlertState::Pending,
        alert: Alert {
            rule: "LockHeldTooLong".into(),
            severity: Severity::Ticket,
            state: AlertState::Firing,
            labels: [("pattern".to_string(), "lock:*".to_string())].into(),
            value,
            threshold: 900.1,
            active_at: Time(START - 60_000),
            fired_at: Some(Time(START + at)),
            unknown_since: None,
        },
    };
    let changes: Vec<AlertChange> = (0..).zip(values).map(change).collect();
    changes.iter().for_each(|change| recorder.alert(change));
    recorder.settle();
    assert_eq!(place.history().alerts(ALL.0, ALL.1).unwrap(), changes);
    assert_eq!(place.history().alerts(Time(START + 1), Time(START + 2)).unwrap(), changes[1..3]);
}

#[test]
fn an_action_that_is_told_twice_is_there_once() {
    let place = Place::new();
    let mut recorder = place.recorder();
    let (freed, outcome) = (json!({ "action": "free", "key": "lock:a" }), json!({ "outcome": "done" }));
    for (at, entry) in [(0, &freed), (0, &freed), (5, &outcome), (0, &freed)] {
        recorder.action(Time(START + at), entry);
    }
    recorder.settle();
    assert_eq!(place.history().actions(ALL.0, ALL.1).unwrap(), [freed, outcome]);
}

#[test]
fn the_summary_says_what_there_is() {
    let place = Place::new();
    let mut recorder = place.recorder();
    for second in 0..700 {
        let samples = [(waiters("a:*"), 1.0), (waiters("b:*"), 2.0), (series("lockscope_up", &["cache", "a:1"]), 1.0)];
        recorder.feed(moment(START + second * 1_000, &samples));
    }
    recorder.notable(&notable(START, b"lock:a"));
    recorder.settle();
    let summary = place.history().summary().unwrap();
    assert_eq!(summary.target, "cache");
    assert_eq!((summary.runs, summary.series, summary.patterns, summary.notables), (1, 3, 2, 1));
    assert_eq!(summary.recorder, Some(std::process::id()));
    assert_eq!(summary.covered, std::time::Duration::from_secs(699));
    assert_eq!(summary.steps.len(), 1);
    assert!(summary.size > 10_000 && summary.size == recorder.status().size, "{summary:?}");
    assert_eq!(recorder.status().last_write, Some(Time(START + 699_000)));
    recorder.close().unwrap();
    assert_eq!(place.history().summary().unwrap().recorder, None);
    let run = &place.history().runs().unwrap()[0];
    assert_eq!((run.from, run.to, run.moments), (Time(START), Time(START + 699_000), 700));
    assert_eq!((run.version.as_str(), &run.target), (env!("CARGO_PKG_VERSION"), &target("cache")));
}
