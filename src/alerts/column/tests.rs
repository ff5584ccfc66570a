//! What PromQL reads from the points of a series.

use super::*;

/// Points at these seconds; what is not a number is a stale marker.
fn points(values: &[(i64, f64)]) -> Vec<Point> {
    let point = |(second, value): &(i64, f64)| match value.is_nan() {
        true => Point::stale(Time(second * 1_000)),
        false => Point::new(Time(second * 1_000), *value),
    };
    values.iter().map(point).collect()
}

fn at(reading: Reading, version: Prometheus, values: &[(i64, f64)], second: i64) -> Option<f64> {
    Cursor::new(reading, version).at(&points(values), Time(second * 1_000))
}

const END: f64 = f64::NAN;

#[test]
fn an_instant_is_the_newest_point_within_the_lookback() {
    let instant = Reading::Instant(300_000);
    let read = |second| at(instant, Prometheus::Since3, &[(10, 4.0), (20, 5.0)], second);
    assert_eq!([9, 10, 19, 20, 319, 320].map(read), [None, Some(4.0), Some(4.0), Some(5.0), Some(5.0), None]);
    assert_eq!(at(instant, Prometheus::Before3, &[(20, 5.0)], 320), Some(5.0), "2.x counts the border");
}

#[test]
fn a_series_that_ended_has_no_value_at_once() {
    let ended = [(10, 4.0), (25, END)];
    assert_eq!(at(Reading::Instant(300_000), Prometheus::Since3, &ended, 30), None);
    assert_eq!(at(Reading::Last(60_000), Prometheus::Since3, &ended, 30), Some(4.0), "unless it is kept");
    assert_eq!(at(Reading::Last(60_000), Prometheus::Since3, &ended, 70), None, "for so long");
}

#[test]
fn an_increase_is_extrapolated_to_the_borders_of_the_window() {
    let read = |version, values: &[(i64, f64)]| at(Reading::Increase(60_000), version, values, 60);
    // Three points 20 s apart, 5 s and 15 s from the borders: 4 in 40 s, extended by 20 s.
    assert_eq!(read(Prometheus::Since3, &[(5, 10.0), (25, 12.0), (45, 14.0)]), Some(6.0));
    // Further than 1.1 of the distance: half a distance instead.
    assert_eq!(read(Prometheus::Since3, &[(35, 10.0), (45, 12.0), (55, 14.0)]), Some(4.0 * 30.0 / 20.0));
    // A counter was not below zero: the start is near where it was zero.
    assert_eq!(read(Prometheus::Since3, &[(15, 1.0), (35, 2.0), (55, 5.0)]), Some(4.0 * (40.0 + 10.0 + 5.0) / 40.0));
    assert_eq!(read(Prometheus::Since3, &[(45, 1.0)]), None, "one point is no increase");
    assert_eq!(read(Prometheus::Since3, &[]), None);
}

#[test]
fn before_2_51_the_way_to_zero_was_looked_at_first() {
    // 30 s from the border, 10 s apart, and 20 s from zero: half a distance then, and the same now.
    let values = [(30, 2.0), (40, 3.0), (50, 4.0)];
    let read = |version, values: &[(i64, f64)]| at(Reading::Increase(60_000), version, values, 55).unwrap();
    assert_eq!(read(Prometheus::Before2_51, &values), read(Prometheus::Before3, &values));
    // 30 s from the border, and 2 s from zero.
    let values = [(30, 0.2), (40, 1.2), (50, 2.2)];
    assert_eq!(read(Prometheus::Before2_51, &values), read(Prometheus::Before3, &values));
    // 30 s from the border, 10.5 s from zero: then it counted in full, now half a distance.
    let values = [(30, 1.05), (40, 2.05), (50, 3.05)];
    let (then, now) = (read(Prometheus::Before2_51, &values), read(Prometheus::Before3, &values));
    assert!(then > now, "{then} {now}");
}

#[test]
fn a_counter_that_falls_began_at_zero_again_and_an_end_is_no_fall() {
    let read = |values: &[(i64, f64)]| at(Reading::Increase(60_000), Prometheus::Since3, values, 60).unwrap();
    let whole = |rise: f64| rise * (40.0 + 10.0 + 10.0) / 40.0;
    assert_eq!(read(&[(10, 90.0), (30, 95.0), (50, 2.0)]), whole(7.0));
    assert_eq!(read(&[(10, 90.0), (20, END), (30, 91.0), (50, 92.0)]), whole(2.0));
}

#[test]
fn a_cursor_that_moves_reads_the_same_as_a_new_one_also_after_points_were_forgotten() {
    let mut value = 0.0;
    let mut all = Vec::new();
    for index in 0..400_i64 {
        value = if index % 37 == 0 { 1.0 } else { value + (index % 3) as f64 };
        all.push((index * 7 + 1, if index % 23 == 5 { END } else { value }));
    }
    let points = points(&all);
    for reading in [Reading::Instant(20_000), Reading::Last(40_000), Reading::Increase(100_000)] {
        let mut moving = Cursor::new(reading, Prometheus::Since3);
        let mut left = points.clone();
        for second in (0..2_900).step_by(15) {
            let now = Time(second * 1_000);
            let fresh = Cursor::new(reading, Prometheus::Since3).at(&points, now);
            assert_eq!(moving.at(&left, now), fresh, "{reading:?} at {second}");
            let gone = left.partition_point(|point| point.at.0 < now.0 - reading.reach());
            let gone = gone.min(left.len().saturating_sub(1));
            // A prune that comes before the evaluation.
            let gone = if second % 4 == 0 { gone } else { 0 };
            left.drain(..gone);
            moving.forget(gone);
        }
    }
}
