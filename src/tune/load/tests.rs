//! What is loaded from a store against the evaluator over the same store, step by step.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::alerts::{AlertState, Rules};
use crate::daemon::step_by_step;
use crate::metrics::Moment;
use crate::store::{Keep, Recorder, Target, Ticks};

const START: i64 = 1_763_013_600_000;
const PATTERNS: [&str; 3] = ["order:*", "stock:*", "cron"];

/// A number that looks random, the same in every run.
fn noise(seed: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 33
}

fn moment(second: i64) -> Moment {
    let mut moment = Moment::new(Time(START + second * 1_000 + 437));
    let target: Arc<str> = "t".into();
    moment.push(MetricId::of("lockscope_build_info"), &[&"1".into(), &"abc".into()], 1.0);
    for (place, pattern) in PATTERNS.iter().enumerate() {
        // Values stay for a while, and a pattern goes away now and then.
        let phase = noise((second / 23) as u64 * 7 + place as u64);
        if phase.is_multiple_of(5) {
            continue;
        }
        let labels = [&target, &Arc::from(*pattern)];
        moment.push(MetricId::of("lockscope_waiters_max"), &labels, (phase % 9) as f64);
        moment.push(MetricId::of("lockscope_waiters"), &labels, (phase % 5) as f64);
        let since = (START / 1_000 + second / 150 * 150) as f64;
        moment.push(MetricId::of("lockscope_oldest_hold_timestamp_seconds"), &labels, since);
        for (ending, each) in [("expired", 40 + place as i64 * 30), ("released", 7)] {
            let labels = [&target, &Arc::from(*pattern), &Arc::from(ending)];
            moment.push(MetricId::of("lockscope_holds_ended_total"), &labels, (second / each) as f64);
        }
    }
    moment
}

/// Records some seconds; a new recorder leaves a gap behind.
fn record(file: &Path, seconds: std::ops::Range<i64>) {
    let target = Target { name: "t".into(), server: String::new() };
    let mut recorder = Recorder::open(file, &target, Keep::default()).unwrap();
    for second in seconds {
        let moment = moment(second);
        let passed = Duration::from_millis((86_400_000 + second * 1_000) as u64);
        recorder.moment_at(moment.clone(), Ticks { wall: moment.at, awake: passed, asleep: passed });
        if second % 8 == 0 {
            recorder.settle();
        }
    }
    recorder.settle();
}

type Told = Vec<(BTreeMap<String, String>, Time, Option<Time>)>;

fn by_steps(history: &History, rule: &Rule, grid: Grid) -> Told {
    let mut told: Told = Vec::new();
    let to = grid.at(grid.count - 1);
    step_by_step(history, Rules::from(vec![rule.clone()]), Time(START), to, |change| {
        match (change.from, change.alert.state) {
            (_, AlertState::Firing) => told.push((change.alert.labels, change.at, None)),
            (AlertState::Firing, AlertState::Inactive) => {
                let open = told.iter_mut().rfind(|(labels, ..)| *labels == change.alert.labels);
                open.expect("it fired").2 = Some(change.at);
            }
            _ => {}
        }
    })
    .unwrap();
    told.sort();
    told
}

const RULES: &str = r#"
default_rules = false
[[rules]]
name = "Waiters"
metric = "lockscope_waiters_max"
above = 4
recover = 2
for = "20s"
[[rules]]
name = "Kept"
metric = "lockscope_waiters_max"
above = 6
no_data = "keep 90s"
keep_firing_for = "30s"
[[rules]]
name = "All"
metric = "lockscope_waiters"
by = ["target"]
above = 6
[[rules]]
name = "Old"
metric = "lockscope_oldest_hold_age_seconds"
above = 100
[[rules]]
name = "Expired"
metric = "lockscope_holds_expired"
window = "2m"
above = 1
[[rules]]
name = "Absent"
metric = "lockscope_absent"
above = 0
for = "1m"
"#;

#[test]
fn a_store_is_replayed_as_the_evaluator_would_step_through_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history");
    record(&file, 0..1_500);
    record(&file, 1_950..2_600);
    record(&file, 2_640..3_300);
    let history = History::open(&file).unwrap();
    for rule in Rules::parse(RULES).unwrap() {
        let subject = load(&history, &rule, Asked::default(), |_, _| ()).unwrap();
        let tracks = &subject.tracks;
        let expected = by_steps(&history, &rule, tracks.grid);
        let episode = |episode: &crate::alerts::replay::Episode| {
            let labels = tracks.tracks[episode.track].labels.clone();
            (labels, episode.fired, (!episode.lasts).then_some(episode.to))
        };
        let mut found: Told = tracks.replay(subject.condition).fired().map(episode).collect();
        found.sort();
        assert_eq!(found, expected, "{}", rule.name);
        assert!(!found.is_empty(), "{} never fires: that shows nothing", rule.name);
        assert_eq!(subject.coverage.holes.len(), 2);
        assert_eq!(subject.coverage.recorded.as_secs(), 3_299 - 451 - 41, "{:?}", subject.coverage);
    }
}

#[test]
fn a_time_that_the_store_does_not_have_is_told_and_a_part_of_it_is_little_coverage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("history");
    record(&file, 0..120);
    let history = History::open(&file).unwrap();
    let rule = Rules::parse(RULES).unwrap().into_iter().next().unwrap();
    let day = |from: i64, to: i64| Asked { from: Some(Time(START + from)), to: Some(Time(START + to)) };
    let why = load(&history, &rule, day(-9_000_000, -5_000_000), |_, _| ()).unwrap_err();
    assert_eq!(why.exit_code(), 2);
    assert!(why.to_string().contains("ask for a time between them"), "{why}");
    let subject = load(&history, &rule, day(-1_000_000, 120_000), |_, _| ()).unwrap();
    assert!((0.09..0.12).contains(&subject.coverage.share()), "{:?}", subject.coverage);
    assert!(subject.coverage.is_too_little().unwrap().contains("10 % of the time"));
}
