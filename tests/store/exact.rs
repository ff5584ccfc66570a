//! What is read back is what was recorded, bit for bit, from the tail as from packed columns.

use std::collections::BTreeMap;

use lockscope::base::time::Time;
use lockscope::metrics::{METRICS, MetricId, Moment, Part, Series};
use lockscope::store::{History, Recorder};
use proptest::prelude::*;

use crate::fixtures::*;

/// Value of a series by time, as bits.
type Points = BTreeMap<(Series, i64), u64>;

fn some_series() -> Vec<Series> {
    let bucket = |le: &str| Series {
        metric: metric("lockscope_hold_duration_seconds"),
        part: Part::Bucket,
        labels: ["cache", "lock:*", le].map(Into::into).into(),
    };
    let sum = Series { part: Part::Sum, labels: ["cache", "lock:*"].map(Into::into).into(), ..bucket("1") };
    vec![
        waiters("lock:*"),
        waiters("a \"quoted\" \\ pattern"),
        waiters(""),
        series("lockscope_locks", &["cache", "lock:*", "held"]),
        series("lockscope_locks", &["cache", "lock:*", "a state of tomorrow"]),
        series("lockscope_locks", &["cache", "ünï:*", "orphan"]),
        series("lockscope_up", &["cache", "10.0.0.1:6379"]),
        series("lockscope_store_size_bytes", &[]),
        bucket("1"),
        bucket("+Inf"),
        sum.clone(),
        Series { part: Part::Count, ..sum },
    ]
}

fn any_value() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        3 => Just(None),
        4 => (0_i64..5).prop_map(|whole| Some(whole as f64)),
        2 => (-1_000_000_000_000_i64..2_000_000_000_000).prop_map(|thousandths| Some(thousandths as f64 / 1_000.0)),
        2 => any::<f64>().prop_filter("never not a number", |value| !value.is_nan()).prop_map(Some),
        1 => prop_oneof![Just(f64::INFINITY), Just(f64::MIN), Just(f64::MAX), Just(-0.0)].prop_map(Some),
    ]
}

/// Moments: how long after the one before, and what each series is.
fn any_moments() -> impl Strategy<Value = Vec<(i64, Vec<Option<f64>>)>> {
    let step = prop_oneof![6 => 900_i64..1_100, 2 => 1_i64..100, 1 => 100_000_i64..400_000];
    prop::collection::vec((step, prop::collection::vec(any_value(), some_series().len())), 1..60)
}

fn read_by_series(history: &History) -> Points {
    let mut points = Points::new();
    for id in 0..METRICS.len() {
        let columns = history.series(MetricId(id as u16), &|_| true, ALL.0, ALL.1).unwrap();
        for column in &columns.columns {
            for (at, value) in column.points(&columns.times) {
                assert_eq!(points.insert((column.series.clone(), at.0), value.to_bits()), None, "twice");
            }
        }
    }
    points
}

fn read_by_moments(history: &History) -> (Points, Vec<Time>) {
    let (mut points, mut times) = (Points::new(), Vec::new());
    let metrics: Vec<MetricId> = (0..METRICS.len()).map(|id| MetricId(id as u16)).collect();
    for found in history.moments(&metrics, ALL.0, ALL.1) {
        let Moment { at, samples } = found.unwrap();
        times.push(at);
        for sample in samples {
            assert_eq!(points.insert((sample.series, at.0), sample.value.to_bits()), None, "twice");
        }
    }
    (points, times)
}

fn record(recorder: &mut Recorder, moments: &[(i64, Vec<Option<f64>>)]) -> (Points, Vec<Time>) {
    let (mut points, mut times, mut at) = (Points::new(), Vec::new(), START);
    for (step, values) in moments {
        at += step;
        let mut samples: Vec<(Series, f64)> = Vec::new();
        for (series, value) in some_series().into_iter().zip(values) {
            match value {
                Some(value) => {
                    points.insert((series.clone(), at), value.to_bits());
                    samples.push((series, *value));
                }
                // What is not a number is not known: the same as absent.
                None if at % 2 == 0 => samples.push((series, f64::NAN)),
                None => {}
            }
        }
        recorder.feed(moment(at, &samples));
        times.push(Time(at));
    }
    recorder.settle();
    (points, times)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_read_back_is_what_was_recorded(before in any_moments(), after in any_moments()) {
        let place = Place::new();
        let mut recorder = place.recorder();
        let (points, times) = record(&mut recorder, &before);
        prop_assert_eq!(&read_by_series(&place.history()), &points, "while it is recorded");
        prop_assert_eq!(read_by_moments(&place.history()), (points.clone(), times.clone()));
        recorder.close().unwrap();
        prop_assert_eq!(&read_by_series(&place.history()), &points, "after it was closed");
        // The next recorder packs what this one left, and records an earlier and then a later time: another run.
        let mut recorder = place.recorder();
        prop_assert_eq!(&read_by_series(&place.history()), &points, "when all of it is packed");
        prop_assert_eq!(read_by_moments(&place.history()), (points.clone(), times.clone()));
        let last = times.last().unwrap().0;
        let later: Vec<_> = after.iter().enumerate().map(|(n, (step, values))| {
            (step + if n == 0 { last - START } else { 0 }, values.clone())
        }).collect();
        let (more, _) = record(&mut recorder, &later);
        let both: Points = points.into_iter().chain(more).collect();
        prop_assert_eq!(&read_by_series(&place.history()), &both, "of two runs");
    }
}

#[test]
fn a_part_of_the_time_is_read_as_it_was() {
    let place = Place::new();
    let mut recorder = place.recorder();
    let seconds = |range: std::ops::Range<i64>| range.map(|second| START + second * 1_000);
    seconds(0..1_500).for_each(|at| {
        recorder.feed(counted(at));
    });
    recorder.settle();
    let history = place.history();
    for (from, to) in [(0, 10), (595, 605), (1_190, 1_210), (1_400, 3_000), (-50, 0), (2_000, 3_000)] {
        let (from_at, to_at) = (Time(START + from * 1_000), Time(START + to * 1_000));
        let columns = history.series(metric("lockscope_waiters"), &|_| true, from_at, to_at).unwrap();
        let points: Vec<(i64, f64)> =
            columns.columns.iter().flat_map(|column| column.points(&columns.times)).map(|(at, v)| (at.0, v)).collect();
        assert_eq!(points, expected(seconds(from.max(0)..(to + 1).min(1_500))), "{from} to {to}");
        let moments = history.moments(&[metric("lockscope_waiters")], from_at, to_at);
        assert_eq!(moments.count(), points.len());
    }
}

#[test]
fn only_the_series_that_are_wanted_are_read() {
    let place = Place::new();
    let mut recorder = place.recorder();
    for second in 0..700 {
        let patterns = (0..30).map(|number| (waiters(&format!("p{number}:*")), f64::from(number)));
        recorder.feed(moment(START + second * 1_000, &patterns.collect::<Vec<_>>()));
    }
    recorder.settle();
    let history = place.history();
    let wanted = |series: &Series| series.label("pattern") == Some("p7:*");
    let columns = history.series(metric("lockscope_waiters"), &wanted, ALL.0, ALL.1).unwrap();
    assert_eq!(columns.columns.len(), 1);
    let stretches: Vec<_> = columns.columns[0].stretches(&columns.times).collect();
    assert_eq!(stretches, [(0..700, Some(7.0))]);
    assert_eq!(all(&history, "lockscope_waiters").columns.len(), 30);
    assert_eq!(all(&history, "lockscope_waiters_max").columns.len(), 0, "nobody counted that");
}
