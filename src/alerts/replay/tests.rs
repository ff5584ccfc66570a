//! The replay against the evaluator step by step, on random histories and rules; and the numbers on a story.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::*;
use crate::alerts::machine::Condition;
use crate::alerts::mutation::{Mutation, mutate};
use crate::alerts::{AlertState, Compare, Evaluator, Point, Prometheus, Rule, Rules, Watched};
use crate::base::time::Time;
use crate::metrics::{MetricId, Moment, Part, Sample, Series};

const EVERY: Duration = Duration::from_secs(5);
const LOOKBACK: Duration = Duration::from_secs(300);

fn condition(compare: Compare, hold_for: i64, keep_firing_for: i64) -> Condition {
    Condition { compare, recover: None, hold_for: hold_for * 1_000, keep_firing_for: keep_firing_for * 1_000 }
}

/// One alert with these values, one every five seconds; negative: none.
fn tracks(values: &[f64]) -> Tracks {
    let grid = Grid::new(Time(0), EVERY, values.len() as u32);
    let numbers = values.iter().map(|value| Some(*value).filter(|value| *value >= 0.0));
    Tracks::new(grid, vec![Track::new(BTreeMap::new(), Shape::Level, grid, numbers)])
}

#[test]
fn an_episode_has_its_breach_its_firing_its_end_and_its_peak() {
    let (tracks, above) = (tracks(&[0.0, 3.0, 7.0, 5.0, 1.0, 0.0, 0.0]), Compare::Above(2.0));
    let outcome = tracks.replay(condition(above, 10, 0));
    let episode = outcome.episodes[0];
    assert_eq!((episode.from, episode.fired, episode.to), (Time(5_000), Time(15_000), Time(20_000)));
    assert_eq!((tracks.peak(&episode, above), episode.lasts, episode.kind), (7.0, false, Kind::Fired));
    assert_eq!((outcome.firings, outcome.firing_time), (1, Duration::from_secs(5)));
    assert_eq!(outcome.delay, Some(Delay { median: Duration::from_secs(10), longest: Duration::from_secs(10) }));
}

#[test]
fn what_fires_again_within_ten_minutes_flaps() {
    let mut values = vec![9.0, 0.0, 9.0, 0.0];
    values.extend(vec![0.0; 130]);
    values.push(9.0);
    let outcome = tracks(&values).replay(condition(Compare::Above(2.0), 0, 0));
    assert_eq!((outcome.firings, outcome.flaps), (3, 1));
    assert!(outcome.episodes[2].lasts);
}

#[test]
fn a_near_miss_was_nearly_high_or_nearly_long_enough_and_counts_once() {
    let high = tracks(&[0.0, 9.5, 9.2, 0.0, 8.9, 0.0, 11.0, 9.5, 0.0]);
    let outcome = high.replay(condition(Compare::Above(10.0), 0, 0));
    // The second is too low, and beside the third it did fire.
    assert_eq!((outcome.firings, outcome.near_misses), (1, 1));
    assert_eq!(outcome.episodes[0].kind, Kind::NearlyFarEnough);
    assert_eq!(high.peak(&outcome.episodes[0], Compare::Above(10.0)), 9.5);
    let mut long = vec![0.0];
    long.extend([11.0; 20]);
    long.push(0.0);
    let outcome = tracks(&long).replay(condition(Compare::Above(10.0), 105, 0));
    assert_eq!((outcome.firings, outcome.near_misses), (0, 1));
    assert_eq!(outcome.episodes[0].kind, Kind::NearlyLongEnough);
    assert_eq!(tracks(&long).replay(condition(Compare::Above(10.0), 150, 0)).near_misses, 0);
    let zero = tracks(&[0.0, 0.0, 1.0, 0.0]).replay(condition(Compare::Above(0.0), 0, 0));
    assert_eq!((zero.firings, zero.near_misses), (1, 0));
}

#[test]
fn only_every_third_evaluation_misses_what_lies_between() {
    let spike = tracks(&[0.0, 9.0, 0.0, 0.0, 0.0, 0.0, 9.0, 9.0]);
    assert_eq!(spike.replay(condition(Compare::Above(2.0), 0, 0)).firings, 2);
    let thin = spike.every(3);
    assert_eq!(thin.grid.times().collect::<Vec<_>>(), [0, 15_000, 30_000].map(Time));
    assert_eq!(thin.replay(condition(Compare::Above(2.0), 0, 0)).firings, 1);
}

#[test]
fn more_episodes_than_are_kept_are_counted() {
    let flapping: Vec<f64> = (0..90_000).map(|index| f64::from(index % 2)).collect();
    let outcome = tracks(&flapping).replay(condition(Compare::Above(0.0), 0, 0));
    assert_eq!((outcome.firings, outcome.episodes.len()), (45_000, MOST_EPISODES));
    assert_eq!(outcome.left_out, 25_000);
    assert_eq!(outcome.episodes[0].from, Time(5_000 * (2 * 25_000 + 1)), "the newest are kept");
}

/// What was measured at one time; `None`: nothing could be.
type Step = Option<Vec<(usize, f64)>>;

const PATTERNS: [&str; 3] = ["a", "b", "c"];

/// A metric, the rest of its rule, and what its values look like.
const RULES: [&str; 7] = [
    "metric = 'lockscope_waiters_max'\n",
    "metric = 'lockscope_waiters_max'\nno_data = 'keep 40s'\n",
    "metric = 'lockscope_waiters'\nby = ['target']\nno_data = 'stay 20s'\n",
    "metric = 'lockscope_oldest_hold_age_seconds'\n",
    "metric = 'lockscope_oldest_hold_age_seconds'\nby = ['target']\n",
    "metric = 'lockscope_holds_started_total'\nwindow = '30s'\n",
    "metric = 'lockscope_absent'\n",
];

fn metric_of(rule: usize) -> &'static str {
    match rule {
        0 | 1 => "lockscope_waiters_max",
        2 => "lockscope_waiters",
        3 | 4 => "lockscope_oldest_hold_timestamp_seconds",
        5 => "lockscope_holds_started_total",
        _ => "lockscope_build_info",
    }
}

fn parsed(rule: usize, rest: &str) -> Rule {
    let text = format!("default_rules = false\n[[rules]]\nname = 'R'\n{}{rest}", RULES[rule]);
    Rules::parse(&text).unwrap_or_else(|fault| panic!("{fault}: {text}")).into_iter().next().unwrap()
}

fn moments(rule: usize, steps: &[Step]) -> Vec<Result<Moment, Time>> {
    let metric = MetricId::named(metric_of(rule)).unwrap();
    let (blind, up) = (MetricId::of("lockscope_blind_since_timestamp_seconds"), MetricId::of("lockscope_up"));
    let (mut counted, mut since) = ([0.0; PATTERNS.len()], None);
    let moment = |(second, step): (usize, &Step)| {
        let at = Time(second as i64 * 1_000 + 300);
        let Some(step) = step else { return Err(at) };
        let mut moment = Moment::new(at);
        // What is not known of the first pattern is out of sight.
        since = match step.iter().any(|(pattern, _)| *pattern == 0) {
            true => None,
            false => since.or(Some(second as f64 - 1.5)),
        };
        let node: Box<[Arc<str>]> = ["t", "n"].into_iter().map(Arc::from).collect();
        let unseen = since.map(|value| (blind, value));
        for (metric, value) in [(up, 1.0)].into_iter().chain(unseen) {
            moment.samples.push(Sample { series: Series { metric, part: Part::Value, labels: node.clone() }, value });
        }
        for (pattern, value) in step {
            // Now and then a counter begins again.
            counted[*pattern] = if *value == 11.0 { 0.0 } else { counted[*pattern] + value };
            let value = match rule {
                3 | 4 => (second as f64 - value * 20.0).floor(),
                5 => counted[*pattern],
                _ => *value,
            };
            let labels: Box<[Arc<str>]> = ["t", PATTERNS[*pattern]].into_iter().map(Arc::from).collect();
            moment.samples.push(Sample { series: Series { metric, part: Part::Value, labels }, value });
        }
        Ok(moment)
    };
    steps.iter().enumerate().map(moment).collect()
}

/// Fired, ended, and with which labels; an alert that lasts has no end.
type Told = Vec<(BTreeMap<String, String>, Time, Option<Time>)>;

fn by_steps(rule: &Rule, moments: &[Result<Moment, Time>], grid: Grid) -> Told {
    let rules = Rules::from(vec![rule.clone()]);
    let mut evaluator = Evaluator::new(rules, EVERY, LOOKBACK);
    let (mut told, mut next): (Told, _) = (Vec::new(), 0);
    let mut take = |change: crate::alerts::AlertChange| match (change.from, change.alert.state) {
        (_, AlertState::Firing) => told.push((change.alert.labels, change.at, None)),
        (AlertState::Firing, AlertState::Inactive) => {
            let open = told.iter_mut().rfind(|(labels, _, _)| *labels == change.alert.labels);
            open.expect("it fired").2 = Some(change.at);
        }
        _ => {}
    };
    for at in grid.times() {
        while let Some(moment) = moments.get(next) {
            let time = moment.as_ref().map_or_else(|at| *at, |moment| moment.at);
            if time > at {
                break;
            }
            match moment {
                Ok(moment) => evaluator.take(moment),
                Err(at) => evaluator.gap(*at),
            }
            next += 1;
        }
        evaluator.evaluate(at).into_iter().for_each(&mut take);
    }
    told.sort();
    told
}

fn by_tracks(rule: &Rule, loaded: &Rule, moments: &[Result<Moment, Time>], grid: Grid) -> Told {
    let mut watched = Watched::new(loaded.clone(), LOOKBACK, Prometheus::default());
    for moment in moments {
        match moment {
            Ok(moment) => {
                for sample in &moment.samples {
                    watched.add(&sample.series, &[Point::new(moment.at, sample.value)]);
                }
                watched.end_others(moment.at);
            }
            Err(at) => watched.end_others(*at),
        }
    }
    let mut tracks = Tracks::new(grid, watched.tracks(grid));
    let outcome = tracks.replay(Condition::from(rule));
    tracks.prepare(Condition::from(rule));
    assert_eq!(tracks.replay(Condition::from(rule)), outcome, "prepared or not, it is the same");
    let told = |episode: &Episode| {
        let end = (!episode.lasts).then_some(episode.to);
        (tracks.tracks[episode.track].labels.clone(), episode.fired, end)
    };
    let mut told: Told = outcome.fired().map(told).collect();
    told.sort();
    told
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![3 => 0_u8..4, 1 => 0_u8..12].prop_map(f64::from);
    let samples = prop::collection::btree_map(0_usize..PATTERNS.len(), value, 0..=PATTERNS.len());
    prop_oneof![30 => samples.prop_map(|samples| Some(samples.into_iter().collect())), 1 => Just(None)]
}

/// Each stretch repeats one step.
fn history() -> impl Strategy<Value = Vec<Step>> {
    let stretch = (step(), prop_oneof![6 => 1_usize..12, 1 => 10_usize..400]);
    prop::collection::vec(stretch, 1..40).prop_map(|stretches| {
        stretches.into_iter().flat_map(|(step, length)| std::iter::repeat_n(step, length)).collect()
    })
}

/// Threshold, recovery, for, keep: the rest of a rule.
fn rest() -> impl Strategy<Value = String> {
    let durations = (prop_oneof![Just(0_u32), 1_u32..60], prop_oneof![2 => Just(0_u32), 1 => 1_u32..60]);
    (any::<bool>(), 0_i32..60, prop::option::of(1_i32..20), durations).prop_map(
        |(above, level, recover, (hold_for, keep))| {
            let (side, sign) = if above { ("above", -1) } else { ("below", 1) };
            let level = f64::from(level) / 4.0;
            let recover = recover.map_or(String::new(), |by| format!("recover = {:?}\n", level + f64::from(sign * by)));
            format!("{side} = {level:?}\n{recover}for = '{hold_for}s'\nkeep_firing_for = '{keep}s'\n")
        },
    )
}

/// Whether the two ways differ.
fn differs(rule: usize, rest: &str, loaded: &str, steps: &[Step], wrong: Option<Mutation>) -> bool {
    let moments = moments(rule, steps);
    let grid = Grid::over(Time(0), Time(steps.len() as i64 * 1_000), EVERY);
    let (rest, loaded) = (parsed(rule, rest), parsed(rule, loaded));
    let expected = by_steps(&rest, &moments, grid);
    mutate(wrong);
    let found = by_tracks(&rest, &loaded, &moments, grid);
    mutate(None);
    expected != found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    /// The tracks are loaded for one threshold and replayed with another, as somebody who moves it does.
    #[test]
    fn a_replay_fires_and_ends_as_the_evaluator_does(
        rule in 0..RULES.len(), rest in rest(), loaded in rest(), steps in history()
    ) {
        prop_assume!(rest.starts_with("above") == loaded.starts_with("above"));
        prop_assert!(!differs(rule, &rest, &loaded, &steps, None));
    }
}

#[test]
fn a_wrong_replay_is_noticed() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mutations = Mutation::ALL.into_iter().chain([Mutation::Passing]);
    let mut noticed = vec![0; mutations.clone().count()];
    for _ in 0..250 {
        let input = (0..RULES.len(), rest(), history()).new_tree(&mut runner).unwrap().current();
        for (count, wrong) in noticed.iter_mut().zip(mutations.clone()).filter(|(count, _)| **count == 0) {
            *count += usize::from(differs(input.0, &input.1, &input.1, &input.2, Some(wrong)));
        }
    }
    assert!(noticed.iter().all(|count| *count > 0), "{noticed:?}");
}
