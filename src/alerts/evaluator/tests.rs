//! Rules over moments as they come: series that end, clocks that jump, and what can't be known.

use std::sync::Arc;

use super::*;
use crate::metrics::{Part, Sample, Series};

const SECOND: i64 = 1_000;

fn sample(metric: &str, labels: &[&str], value: f64) -> Sample {
    let metric = MetricId::named(metric).expect("a metric");
    let labels = labels.iter().map(|label| Arc::from(*label)).collect();
    Sample { series: Series { metric, part: Part::Value, labels }, value }
}

fn locks(pattern: &str, state: &str, count: f64) -> Sample {
    sample("lockscope_locks", &["prod", pattern, state], count)
}

fn up(value: f64) -> Sample {
    sample("lockscope_up", &["prod", "a:6379"], value)
}

fn evaluator(rules: &str) -> Evaluator {
    let rules = Rules::parse(&format!("default_rules = false\n{rules}")).unwrap_or_else(|fault| panic!("{fault}"));
    Evaluator::new(rules, Duration::from_secs(5), Duration::from_secs(300))
}

fn at(second: i64, samples: Vec<Sample>) -> Moment {
    Moment { at: Time(second * SECOND), samples }
}

/// `rule: from to` of each change.
fn told(changes: &[AlertChange]) -> Vec<String> {
    changes.iter().map(|change| format!("{}: {:?} {:?}", change.alert.rule, change.from, change.alert.state)).collect()
}

const SPLIT: &str = "[[rules]]\nname = 'Split'\nmetric = 'lockscope_locks'\nselector = 'state:split'\nabove = 0\n";

#[test]
fn an_alert_tells_its_labels_value_and_times() {
    let mut evaluator = evaluator(&format!("{SPLIT}for = '10s'\nseverity = 'page'"));
    evaluator.take(&at(3, vec![locks("lock:*", "split", 2.0), locks("lock:*", "held", 7.0)]));
    assert_eq!(told(&evaluator.evaluate(Time(5_000))), ["Split: Inactive Pending"]);
    assert_eq!(evaluator.evaluate(Time(10_000)), []);
    let fired = evaluator.evaluate(Time(15_000));
    assert_eq!(told(&fired), ["Split: Pending Firing"]);
    let alert = &fired[0].alert;
    assert_eq!((alert.value, alert.threshold), (Some(2.0), 0.0));
    assert_eq!((alert.active_at, alert.fired_at), (Time(5_000), Some(Time(15_000))));
    assert_eq!(alert.labels.get("pattern").map(String::as_str), Some("lock:*"));
    let status = evaluator.status().next().expect("a rule");
    assert_eq!((status.state, status.since, status.alerts.len()), (AlertState::Firing, Some(Time(15_000)), 1));
}

fn state(evaluator: &Evaluator) -> (AlertState, Option<String>) {
    let status = evaluator.status().next().expect("a rule");
    (status.state, status.why)
}

#[test]
fn failures_that_are_known_of_one_pattern_only_are_no_calm() {
    let rule = "[[rules]]\nname = 'F'\nmetric = 'lockscope_failure_ratio'\nabove = 0.1\n";
    let rate = |metric: &str, pattern: &str, value| sample(metric, &["prod", pattern, "sampled"], value);
    let known = |value| {
        let attempts = rate("lockscope_attempts_per_second", "a", 10.0);
        vec![
            up(1.0),
            attempts,
            rate("lockscope_failures_per_second", "a", value),
            rate("lockscope_failures_unknown", "a", 0.0),
        ]
    };
    let mut evaluator = evaluator(rule);
    evaluator.take(&at(1, known(0.0)));
    evaluator.evaluate(Time(5_000));
    assert_eq!(state(&evaluator), (AlertState::Inactive, None));
    let unknown = [rate("lockscope_attempts_per_second", "b", 5.0), rate("lockscope_failures_unknown", "b", 1.0)];
    evaluator.take(&at(6, [known(0.0), unknown.to_vec()].concat()));
    evaluator.evaluate(Time(10_000));
    let (unknown_now, why) = state(&evaluator);
    assert_eq!(unknown_now, AlertState::Unknown);
    assert!(why.as_ref().is_some_and(|why| why.contains("outcome is not known (b)")), "{why:?}");
    evaluator.take(&at(11, [known(9.0), unknown.to_vec()].concat()));
    evaluator.evaluate(Time(15_000));
    assert_eq!(state(&evaluator).0, AlertState::Firing, "what fires, fires");
}

#[test]
fn what_fires_when_sight_is_lost_stays_and_is_marked_until_its_time_is_over() {
    let mut evaluator = evaluator(&format!("{SPLIT}no_data = 'stay 20s'"));
    let blind = |since: f64| sample("lockscope_blind_since_timestamp_seconds", &["prod", "a:6379"], since);
    evaluator.take(&at(1, vec![up(1.0), locks("a", "split", 1.0), locks("b", "split", 0.0)]));
    assert_eq!(told(&evaluator.evaluate(Time(5_000))), ["Split: Inactive Firing"]);
    evaluator.take(&at(8, vec![up(0.0), blind(6.0)]));
    assert_eq!(evaluator.evaluate(Time(10_000)), []);
    let alert = evaluator.status().next().unwrap().alerts[0].clone();
    assert_eq!((alert.state, alert.unknown_since, alert.value), (AlertState::Firing, Some(Time(6_000)), Some(1.0)));
    evaluator.take(&at(12, vec![up(1.0), locks("a", "split", 2.0)]));
    assert_eq!(evaluator.evaluate(Time(15_000)), []);
    assert_eq!(evaluator.status().next().unwrap().alerts[0].unknown_since, None, "it is known again");
    evaluator.take(&at(17, vec![up(0.0), blind(16.0)]));
    assert_eq!(evaluator.evaluate(Time(35_000)), []);
    let given_up = evaluator.evaluate(Time(40_000));
    assert_eq!(told(&given_up), ["Split: Firing Inactive"]);
    assert_eq!(given_up[0].alert.unknown_since, Some(Time(16_000)), "nobody knows whether it is over");
}

#[test]
fn a_pattern_that_vanishes_ends_its_alert_and_where_nothing_is_measured_it_stays_for_an_hour() {
    let mut evaluator = evaluator(SPLIT);
    evaluator.take(&at(1, vec![up(1.0), locks("a", "split", 1.0), locks("b", "split", 1.0)]));
    assert_eq!(evaluator.evaluate(Time(5_000)).len(), 2);
    evaluator.take(&at(6, vec![up(1.0), locks("b", "split", 1.0)]));
    let ended = evaluator.evaluate(Time(10_000));
    assert_eq!(told(&ended), ["Split: Firing Inactive"]);
    assert_eq!(ended[0].alert.labels["pattern"], "a");
    assert_eq!((ended[0].alert.active_at, ended[0].alert.fired_at), (Time(5_000), Some(Time(5_000))));
    evaluator.gap(Time(11_000));
    assert_eq!(evaluator.evaluate(Time(15_000)), []);
    let status = evaluator.status().next().expect("a rule");
    assert_eq!(status.alerts[0].unknown_since, Some(Time(6_000)), "since it was last measured");
    assert_eq!(evaluator.evaluate(Time(3_605_000)), []);
    assert_eq!(told(&evaluator.evaluate(Time(3_610_000))), ["Split: Firing Inactive"]);
    let status = evaluator.status().next().expect("a rule");
    assert_eq!(status.state, AlertState::Unknown);
    assert!(status.why.expect("a reason").contains("since 1970-01-01T00:00:11.000Z"));
}

#[test]
fn silence_without_coverage_or_sight_is_unknown_and_not_calm() {
    let ratio = "[[rules]]\nname = 'Ratio'\nmetric = 'lockscope_failure_ratio'\nabove = 0.1\n";
    let mut evaluator = evaluator(&format!("{SPLIT}{ratio}"));
    let states = |evaluator: &Evaluator| evaluator.status().map(|rule| rule.state).collect::<Vec<_>>();
    let whys = |evaluator: &Evaluator| evaluator.status().map(|rule| rule.why.unwrap_or_default()).collect::<Vec<_>>();
    assert_eq!(states(&evaluator), [AlertState::Unknown; 2]);
    assert_eq!(whys(&evaluator), ["nothing was measured yet"; 2]);
    evaluator.take(&at(1, vec![up(1.0), locks("a", "split", 0.0)]));
    evaluator.evaluate(Time(5_000));
    assert_eq!(states(&evaluator), [AlertState::Inactive, AlertState::Unknown]);
    assert_eq!(whys(&evaluator)[1], "no coverage: failure rates need MONITOR or counted attempts");
    evaluator.take(&at(6, vec![up(0.0)]));
    evaluator.evaluate(Time(10_000));
    assert_eq!(states(&evaluator), [AlertState::Unknown; 2]);
    assert_eq!(whys(&evaluator)[0], "no sight: none of 1 node answers");
    // What was known before the node was lost says nothing of now.
    evaluator.take(&at(10, vec![up(0.0), locks("emptied", "split", 0.0)]));
    evaluator.evaluate(Time(14_000));
    assert_eq!(states(&evaluator)[0], AlertState::Unknown);
    let rates = ["lockscope_failures_per_second", "lockscope_attempts_per_second"];
    let rates = rates.map(|metric| sample(metric, &["prod", "a", "counted"], 4.0));
    evaluator.take(&at(11, rates.to_vec()));
    evaluator.evaluate(Time(15_000));
    assert_eq!(states(&evaluator)[1], AlertState::Firing);
}

#[test]
fn a_selector_that_matches_nothing_is_a_warning() {
    let mut evaluator = evaluator(&SPLIT.replace("state:split", "pattern:ordres:* state:split"));
    evaluator.take(&at(1, vec![up(1.0), locks("orders:*", "split", 1.0)]));
    evaluator.evaluate(Time(5_000));
    let status = evaluator.status().next().expect("a rule");
    assert_eq!(status.state, AlertState::Inactive);
    assert!(status.warning.expect("a warning").contains("no series of lockscope_locks matches \"pattern:ordres:*"));
}

#[test]
fn no_data_keeps_the_last_value_or_makes_an_alert_of_its_own() {
    let keep = SPLIT.replace("Split", "Keep") + "no_data = 'keep 20s'\n";
    let alert = SPLIT.replace("Split", "Loud") + "no_data = 'alert'\n";
    let mut evaluator = evaluator(&format!("{keep}{alert}"));
    evaluator.take(&at(1, vec![locks("a", "split", 1.0)]));
    assert_eq!(evaluator.evaluate(Time(5_000)).len(), 2);
    evaluator.gap(Time(6_000));
    let changes = evaluator.evaluate(Time(10_000));
    assert_eq!(told(&changes), ["Loud: Firing Inactive", "LoudNoData: Inactive Firing"]);
    assert_eq!(changes[1].alert.labels.get("state").map(String::as_str), Some("split"), "as absent() has it");
    assert_eq!(evaluator.evaluate(Time(20_000)), []);
    assert_eq!(told(&evaluator.evaluate(Time(25_000))), ["Keep: Firing Inactive"]);
}

#[test]
fn the_grid_is_the_multiples_of_the_interval() {
    let evaluator = evaluator(SPLIT);
    assert_eq!([0, 4_999, 5_000, 5_001].map(|now| evaluator.next(Time(now)).0), [5_000, 5_000, 10_000, 10_000]);
    assert_eq!(evaluator.next(Time(-1)), Time(0));
}

#[test]
fn a_clock_that_goes_back_does_not_silence_the_rules() {
    let mut evaluator = evaluator(SPLIT);
    evaluator.take(&at(10_000, vec![locks("a", "split", 0.0)]));
    assert_eq!(evaluator.evaluate(Time(10_005_000)), []);
    evaluator.take(&at(1, vec![locks("a", "split", 1.0)]));
    assert_eq!(told(&evaluator.evaluate(Time(5_000))), ["Split: Inactive Firing"]);
    assert_eq!(evaluator.evaluate(Time(5_000)), [], "the same time again changes nothing");
}

#[test]
fn memory_does_not_grow_with_time() {
    let taken = "[[rules]]\nname = 'Taken'\nmetric = 'lockscope_holds_ended_total'\nwindow = '1m'\nabove = 0\n";
    let mut evaluator = evaluator(&format!("{SPLIT}{taken}"));
    let points = |evaluator: &Evaluator| evaluator.rules.iter().map(|rule| rule.watched.points()).sum::<usize>();
    let mut most = 0;
    for second in 0..5_000_i64 {
        let pattern = format!("p{}", second / 100);
        let ended = sample("lockscope_holds_ended_total", &["prod", "a", "taken"], second as f64);
        evaluator.take(&at(second, vec![locks(&pattern, "split", 0.0), locks("a", "held", 1.0), ended]));
        if second % 5 == 0 {
            evaluator.evaluate(Time(second * SECOND));
        }
        most = most.max(points(&evaluator));
    }
    assert!(most < 150, "{most} points are kept: a window of a minute, and the patterns of the last minutes");
}
