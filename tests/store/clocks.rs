//! Clocks that are set, machines that sleep, and what a reader sees of them.

use std::time::Duration;

use lockscope::base::time::Time;
use lockscope::store::{Gap, Reason, Ticks};

use crate::fixtures::*;

const HOUR: i64 = 3_600_000;

/// The clocks when the wall clock is off by that much, and the machine has slept for that long.
fn off(at: i64, wall_ms: i64, slept_ms: i64) -> Ticks {
    let right = right(at);
    let asleep = right.asleep + Duration::from_millis(slept_ms as u64);
    Ticks { wall: Time(right.wall.0 + wall_ms), asleep, ..right }
}

fn gap(from: i64, to: i64, reason: Reason) -> Gap {
    Gap { from: Time(from), to: Some(Time(to)), reason, node: None }
}

#[test]
fn a_clock_that_is_set_ahead_begins_a_run_after_a_gap_and_deletes_nothing() {
    let place = Place::new();
    let mut recorder = place.recorder();
    for second in 0..5 {
        assert_eq!(recorder.feed(counted(START + second * 1_000)), None);
    }
    // The engine counts on from where it began; only the wall clock says ten years more.
    let years = 10 * 365 * 24 * HOUR;
    for second in 5..1_300 {
        let at = START + second * 1_000;
        let told = recorder.feed_at(counted(at), off(at, years, 0));
        assert_eq!(told, (second == 5).then_some(Reason::ClockJumped));
    }
    let history = place.history();
    let times: Vec<i64> = counts(&history).iter().map(|(at, _)| *at).collect();
    let (before, after) = (0..5, 5..1_300);
    let seconds = before.map(|s| START + s * 1_000).chain(after.map(|s| START + s * 1_000 + years));
    assert!(times == seconds.collect::<Vec<_>>(), "what is old by a doubtful clock is kept");
    assert_eq!(history.gaps(ALL.0, ALL.1).unwrap(), [gap(START + 4_000, START + 5_000 + years, Reason::ClockJumped)]);
    assert_eq!(
        history.runs().unwrap().iter().map(|run| run.after).collect::<Vec<_>>(),
        [Reason::NotRunning, Reason::ClockJumped]
    );
}

#[test]
fn a_clock_that_is_set_back_records_on_and_each_time_is_read_once() {
    let place = Place::new();
    let mut recorder = place.recorder();
    for second in 0..3_000 {
        recorder.feed(counted(START + second * 1_000));
    }
    // An hour too late until now: set right, and goes on for a quarter of an hour.
    for second in 3_000..3_900 {
        let at = START + second * 1_000;
        recorder.feed_at(counted(at), off(at, -HOUR / 2, 0));
    }
    let history = place.history();
    let found = counts(&history);
    assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "times go on, and none is there twice");
    // From 1,200 to 2,099 seconds the new run counts, whose values are half an hour further.
    let value = |second: i64| match second {
        1_200..2_100 => (second + 1_800) as f64,
        _ => second as f64,
    };
    let whole: Vec<(i64, f64)> = (0..3_000).map(|second| (START + second * 1_000, value(second))).collect();
    assert!(found == whole);
    let doubtful = gap(START + 1_200_000, START + 2_999_000, Reason::ClockJumped);
    assert_eq!(history.gaps(ALL.0, ALL.1).unwrap(), [doubtful]);
    assert_eq!(history.runs().unwrap().iter().map(|run| run.moments).collect::<Vec<_>>(), [3_000, 900]);
}

#[test]
fn a_machine_that_slept_leaves_a_gap_with_that_reason() {
    let place = Place::new();
    let mut recorder = place.recorder();
    recorder.feed(counted(START));
    let at = START + 1_000;
    assert_eq!(recorder.feed_at(counted(at), off(at, HOUR, HOUR)), Some(Reason::Suspended));
    recorder.close().unwrap();
    assert_eq!(place.history().gaps(ALL.0, ALL.1).unwrap(), [gap(START, at + HOUR, Reason::Suspended)]);
}

#[test]
fn the_time_without_a_recorder_is_a_gap() {
    let place = Place::new();
    for begin in [0, HOUR] {
        let mut recorder = place.recorder();
        recorder.feed(counted(START + begin));
        recorder.feed(counted(START + begin + 1_000));
        recorder.close().unwrap();
    }
    let summary = place.history().summary().unwrap();
    assert_eq!(place.history().gaps(ALL.0, ALL.1).unwrap(), [gap(START + 1_000, START + HOUR, Reason::NotRunning)]);
    assert_eq!((summary.runs, summary.gaps, summary.covered), (2, 1, Duration::from_secs(2)));
    assert_eq!((summary.oldest, summary.newest), (Some(Time(START)), Some(Time(START + HOUR + 1_000))));
}

#[test]
fn moments_that_did_not_come_are_a_gap_and_a_moment_that_comes_again_is_counted() {
    let place = Place::new();
    let mut recorder = place.recorder();
    for second in [0, 1, 9, 9, 10] {
        recorder.feed(counted(START + second * 1_000));
    }
    assert_eq!(counts(&place.history()), expected([0, 1, 9, 10].map(|second| START + second * 1_000)));
    assert_eq!(place.history().gaps(ALL.0, ALL.1).unwrap(), [gap(START + 1_000, START + 9_000, Reason::Overload)]);
    assert_eq!(recorder.status().omitted, 1);
}

#[test]
fn the_clocks_of_this_machine_go_together() {
    let place = Place::new();
    let mut recorder = place.recorder();
    let clock = lockscope::base::clock::Clock::start();
    for _ in 0..3 {
        let mut moment = counted(START);
        moment.at = clock.now();
        assert_eq!(recorder.moment(moment), None);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(recorder.close().unwrap().omitted, 0);
}
