//! Growing old in a simulation that runs faster than the clock: coarser steps, then nothing, and never beyond the limit.

use std::time::Duration;

use lockscope::base::time::Time;
use lockscope::store::{Columns, Keep};

use crate::fixtures::*;

const STEP: i64 = 2_000;
const HOUR: i64 = 3_600_000;

fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3_600)
}

/// The value at a time: a saw with a spike of one moment in every ten minutes.
fn value(at: i64) -> f64 {
    let second = (at - START) / 1_000;
    if second % 600 == 302 { 1_000.0 } else { (second % 100) as f64 }
}

/// The largest value in each step of a span, from the moments that it is made of.
fn largest(columns: &Columns, range: std::ops::Range<usize>, step: i64, first: i64) -> Vec<f64> {
    let steps = columns.times[range].iter().map(|at| at.0.div_euclid(step) * step);
    let in_step = |begin: i64| (begin.max(first)..begin + step).step_by(STEP as usize).map(value);
    steps.map(|begin| in_step(begin).fold(f64::MIN, f64::max)).collect()
}

#[test]
fn what_grows_old_becomes_coarser_and_then_goes() {
    let place = Place::new();
    let keep = Keep { seconds: hours(2), ten_seconds: hours(8), minutes: hours(20), ..Keep::default() };
    let mut recorder = place.recorder_that(keep);
    let end = START + 34 * HOUR;
    for at in (START..end).step_by(STEP as usize) {
        recorder.moment_at(moment(at, &[(waiters("lock:*"), value(at))]), right(at));
        if at % (200 * STEP) == 0 {
            recorder.settle();
        }
    }
    recorder.settle();
    let history = place.history();
    let columns = all(&history, "lockscope_waiters");
    let spans: Vec<(u64, i64, i64)> = columns
        .spans
        .iter()
        .map(|span| {
            let (first, last) = (columns.times[span.range.start], columns.times[span.range.end - 1]);
            (span.step.as_secs(), (first.0 - START) / HOUR, (last.0 - START) / HOUR)
        })
        .collect();
    // Whole hours of seconds, whole quarters of a day of ten seconds; from the last packing on.
    assert_eq!(spans, [(60, 12, 23), (10, 24, 30), (1, 31, 33)]);
    assert!(columns.times.windows(2).all(|pair| pair[0] < pair[1]));
    let [column] = columns.columns.as_slice() else { panic!("one series") };
    let lasts: Vec<f64> = column.points(&columns.times).map(|(_, value)| value).collect();
    assert_eq!(lasts, columns.times.iter().map(|at| value(at.0)).collect::<Vec<_>>(), "the last of each step");
    let mut peaks = vec![f64::NAN; columns.times.len()];
    for (range, value) in column.peaks(&columns.times) {
        peaks[range].fill(value.unwrap());
    }
    for span in &columns.spans {
        let step = (span.step.as_millis() as i64).max(STEP);
        assert_eq!(
            peaks[span.range.clone()],
            largest(&columns, span.range.clone(), step, START),
            "the largest of each"
        );
    }
    let summary = history.summary().unwrap();
    assert_eq!(summary.steps.len(), 3);
    assert_eq!(summary.covered, Time(end - STEP).since(summary.oldest.unwrap()), "coarser is not a gap");
    assert!(history.runs().unwrap()[0].moments > 15 * 3_600 / 2, "moments are counted as they were");
}

#[test]
fn a_pattern_that_is_gone_for_good_is_forgotten_with_its_names() {
    let place = Place::new();
    let keep = Keep { seconds: hours(1), ten_seconds: hours(1), minutes: hours(1), ..Keep::default() };
    let mut recorder = place.recorder_that(keep);
    // A pattern of its own for each of the first three hours; then four days.
    for number in 0..3 * 60 {
        let pattern = format!("hour {}", number / 60);
        recorder.feed(moment(START + number * 60_000, &[(waiters(&pattern), 1.0)]));
    }
    for number in 0..4 * 24 * 6 {
        recorder.feed(moment(START + 4 * HOUR + number * 600_000, &[(waiters("stays"), 1.0)]));
    }
    let summary = place.history().summary().unwrap();
    assert_eq!((summary.patterns, summary.series), (1, 1));
    assert!(summary.newest.unwrap().since(summary.oldest.unwrap()) <= hours(8));
}

#[test]
fn the_file_never_grows_beyond_its_limit_and_the_oldest_go_first() {
    let place = Place::new();
    let limit = 4 << 20;
    let mut recorder = place.recorder_that(Keep { size_limit: limit, ..Keep::default() });
    let mut noise = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        f64::from_bits(noise >> 12 | 0x3ff0_0000_0000_0000)
    };
    let patterns: Vec<_> = (0..300).map(|number| waiters(&format!("p{number}:*"))).collect();
    let mut largest = 0;
    let count = 3_000;
    for second in 0..count {
        let samples: Vec<_> = patterns.iter().map(|series| (series.clone(), random())).collect();
        recorder.feed(moment(START + second * 1_000, &samples));
        largest = largest.max(std::fs::metadata(place.file()).unwrap().len());
    }
    assert!(largest <= limit && largest > limit / 2, "{largest} bytes");
    let status = recorder.status();
    assert_eq!((status.omitted, status.trouble), (0, None));
    let history = place.history();
    let wanted = |series: &lockscope::metrics::Series| series.label("pattern") == Some("p7:*");
    let columns = history.series(metric("lockscope_waiters"), &wanted, ALL.0, ALL.1).unwrap();
    let (first, last) = (columns.times[0], columns.times[columns.times.len() - 1]);
    assert_eq!(last, Time(START + (count - 1) * 1_000));
    assert!(first > Time(START) && columns.times.len() >= 300, "{} moments are left", columns.times.len());
    assert_eq!(last.since(first).as_secs() as usize + 1, columns.times.len(), "only the oldest went");
}
