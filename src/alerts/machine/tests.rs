//! The state machine of Prometheus, line by line.

use super::*;
use AlertState::{Firing, Inactive, Pending};

fn condition(compare: Compare) -> Condition {
    Condition { compare, recover: None, hold_for: 0, keep_firing_for: 0 }
}

/// The state after each of these values, one evaluation every 15 seconds.
fn states(condition: Condition, values: &[Option<f64>]) -> Vec<AlertState> {
    let mut machine = Machine::new(condition);
    let step = |(index, value): (usize, &Option<f64>)| {
        machine.step(Time(index as i64 * 15_000), *value, None);
        machine.state()
    };
    values.iter().enumerate().map(step).collect()
}

const HIGH: Option<f64> = Some(9.0);
const LOW: Option<f64> = Some(1.0);

#[test]
fn without_for_it_fires_at_once_and_ends_at_once() {
    let above = condition(Compare::Above(5.0));
    assert_eq!(states(above, &[LOW, HIGH, LOW, HIGH]), [Inactive, Firing, Inactive, Firing]);
    assert_eq!(states(condition(Compare::Below(5.0)), &[LOW, HIGH]), [Firing, Inactive]);
    assert_eq!(states(above, &[Some(5.0)]), [Inactive], "the threshold itself is not beyond it");
}

#[test]
fn for_counts_from_the_first_true_evaluation_and_is_reached_not_passed() {
    let held = Condition { hold_for: 30_000, ..condition(Compare::Above(5.0)) };
    assert_eq!(states(held, &[HIGH, HIGH, HIGH, HIGH]), [Pending, Pending, Firing, Firing]);
    let longer = Condition { hold_for: 30_001, ..held };
    assert_eq!(states(longer, &[HIGH, HIGH, HIGH, HIGH]), [Pending, Pending, Pending, Firing]);
}

#[test]
fn one_false_or_absent_evaluation_starts_for_anew() {
    let held = Condition { hold_for: 30_000, ..condition(Compare::Above(5.0)) };
    for gap in [LOW, None] {
        assert_eq!(
            states(held, &[HIGH, HIGH, gap, HIGH, HIGH, HIGH]),
            [Pending, Pending, Inactive, Pending, Pending, Firing]
        );
    }
}

#[test]
fn a_kept_alert_fires_on_and_the_same_alert_returns() {
    let kept = Condition { keep_firing_for: 30_000, ..condition(Compare::Above(5.0)) };
    assert_eq!(states(kept, &[HIGH, LOW, LOW, LOW]), [Firing, Firing, Firing, Inactive]);
    assert_eq!(states(kept, &[HIGH, LOW, LOW, HIGH, LOW, None, LOW]), [[Firing; 6].as_slice(), &[Inactive]].concat());
    let mut machine = Machine::new(kept);
    for (second, value) in [(0, HIGH), (15, LOW), (30, Some(7.0)), (45, LOW)] {
        machine.step(Time(second * 1_000), value, None);
    }
    assert_eq!(machine.active_at(), Some(Time(0)), "it never ended");
    assert_eq!(machine.value(), Some(7.0), "of the last evaluation that was true");
}

#[test]
fn a_pending_alert_is_not_kept() {
    let both = Condition { hold_for: 30_000, keep_firing_for: 600_000, ..condition(Compare::Above(5.0)) };
    assert_eq!(states(both, &[HIGH, HIGH, LOW]), [Pending, Pending, Inactive]);
}

#[test]
fn the_recovery_level_counts_only_while_it_fires() {
    let recovering = Condition { recover: Some(3.0), ..condition(Compare::Above(5.0)) };
    let between = Some(4.0);
    assert_eq!(
        states(recovering, &[between, HIGH, between, LOW, between]),
        [Inactive, Firing, Firing, Inactive, Inactive]
    );
    let held = Condition { hold_for: 30_000, ..recovering };
    assert_eq!(states(held, &[HIGH, between, HIGH]), [Pending, Inactive, Pending], "pending is not firing");
    let kept = Condition { keep_firing_for: 30_000, ..recovering };
    assert_eq!(states(kept, &[HIGH, LOW, between, LOW, LOW]), [Firing; 5], "a kept alert is a firing one");
    let below = Condition { recover: Some(7.0), ..condition(Compare::Below(5.0)) };
    assert_eq!(states(below, &[Some(6.0), LOW, Some(6.0), HIGH]), [Inactive, Firing, Firing, Inactive]);
}

#[test]
fn what_is_not_a_number_is_beyond_nothing_and_infinity_is_beyond_all() {
    for compare in [Compare::Above(5.0), Compare::Below(5.0)] {
        assert_eq!(states(condition(compare), &[Some(f64::NAN)]), [Inactive]);
    }
    assert_eq!(states(condition(Compare::Above(5.0)), &[Some(f64::INFINITY)]), [Firing]);
}

#[test]
fn a_change_tells_the_alert_that_ended_and_a_new_one_begins_anew() {
    let mut machine = Machine::new(condition(Compare::Above(5.0)));
    let step = |machine: &mut Machine, second: i64, value| machine.step(Time(second * 1_000), value, None);
    let fired = step(&mut machine, 15, HIGH).expect("a change");
    assert_eq!((fired.from, fired.to, fired.fired_at), (Inactive, Firing, Some(Time(15_000))));
    assert_eq!(step(&mut machine, 30, HIGH), None);
    let resolved = step(&mut machine, 45, LOW).expect("a change");
    assert_eq!((resolved.from, resolved.to, resolved.active_at), (Firing, Inactive, Time(15_000)));
    let again = step(&mut machine, 60, HIGH).expect("a change");
    assert_eq!(again.active_at, Time(60_000));
}
