//! A recorded hour whose alerts are known: waiters of two patterns, written by the real recorder in simulated time.
//!
//! With `LockManyWaiters` (above 4 for 2m) it fires three times, all of `order:*`, and nearly a fourth time. `stock:*` has a
//! spike of ten seconds. For two minutes nothing was recorded. The alert log has the firings with the numbers 2, 5 and 10.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockscope::alerts::Rules;
use lockscope::base::time::Time;
use lockscope::daemon::Alarm;
use lockscope::metrics::{MetricId, Moment};
use lockscope::store::{Keep, Recorder, Target, Ticks};

/// 2025-11-13T06:00:00Z.
pub const START: i64 = 1_763_013_600_000;
pub const TARGET: &str = "orders";
/// Seconds between two moments.
const STEP: i64 = 2;

/// Waiters of `order:*` in that second.
fn orders(second: i64) -> f64 {
    match second {
        600..780 => 6.0,
        780..900 => 9.0,
        1_500..1_740 => 5.0,
        2_000..2_118 => 6.0,
        2_400..2_760 => 8.0,
        _ => 1.0,
    }
}

fn stock(second: i64) -> f64 {
    if (3_000..3_010).contains(&second) { 12.0 } else { 3.0 }
}

fn moment(second: i64) -> Moment {
    let mut moment = Moment::new(Time(START + second * 1_000));
    let target: Arc<str> = TARGET.into();
    moment.push(MetricId::of("lockscope_build_info"), &[&"1".into(), &"abc".into()], 1.0);
    moment.push(MetricId::of("lockscope_up"), &[&target, &"cache:6379".into()], 1.0);
    for (pattern, waiters) in [("order:*", orders(second)), ("stock:*", stock(second))] {
        moment.push(MetricId::of("lockscope_waiters_max"), &[&target, &pattern.into()], waiters);
    }
    moment
}

/// Records the hour into a new store.
pub fn record(file: &Path) {
    record_as(file, TARGET);
}

/// The same for a target of that name.
pub fn record_as(file: &Path, target: &str) {
    let target = Target { name: target.into(), server: "redis 7.0.15".into() };
    let mut alarm = Alarm::new(Rules::default_rules());
    for seconds in [0..3_300, 3_420..3_600] {
        let mut recorder = Recorder::open(file, &target, Keep::default()).expect("a store");
        for second in seconds.step_by(STEP as usize) {
            let moment = moment(second);
            let passed = Duration::from_secs(86_400 + second as u64);
            let ticks = Ticks { wall: moment.at, awake: passed, asleep: passed };
            let changes = alarm.take(&moment);
            recorder.moment_at(moment, ticks);
            changes.iter().for_each(|change| recorder.alert(change));
            if second % 16 == 0 {
                recorder.settle();
            }
        }
        recorder.settle();
    }
}
