//! A recorded night for the tuner: written by the real recorder in simulated time, and loaded as the console loads it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lockscope::alerts::Rules;
use lockscope::base::fault::Fault;
use lockscope::base::time::Time;
use lockscope::metrics::{MetricId, Moment, Part, Sample, Series};
use lockscope::store::{History, Keep, Recorder, Target, Ticks};
use lockscope::tune::{Asked, Trial, load};

pub const RULE: &str = "LockManyWaiters";
/// 20:00 on a day of November, for twelve hours.
const BEGIN: i64 = 1_763_064_000_000;
const SECONDS: i64 = 12 * 3_600;
/// The times in which lockscope did not run.
const GAP: std::ops::Range<i64> = 31_000..32_500;

/// How many wait for the locks of orders: few, a wave each hour, and two real queues.
fn orders(second: i64) -> i64 {
    let wave = if second % 3_600 < 240 { 5 } else { 1 + second / 40 % 3 };
    match second {
        12_000..12_900 => 9 + second / 60 % 5,
        36_500..37_100 => 14,
        _ => wave,
    }
}

/// Records the night and loads it for the rule.
pub fn trial(file: &Path) -> Result<Trial, Fault> {
    let target = Target { name: "demo".into(), server: String::new() };
    let mut recorder = Recorder::open(file, &target, Keep::default())?;
    let metric = MetricId::named("lockscope_waiters_max").expect("a metric of the table");
    for second in (0..SECONDS).filter(|second| !GAP.contains(second)) {
        let sample = |(pattern, value): (&str, i64)| {
            let labels = ["demo", pattern].into_iter().map(Arc::from).collect();
            Sample { series: Series { metric, part: Part::Value, labels }, value: value as f64 }
        };
        let samples = [("lock:orders:*", orders(second)), ("lock:stock:*", second / 300 % 3)].map(sample).to_vec();
        let at = Time(BEGIN + second * 1_000);
        let passed = Duration::from_secs(1_000_000 + second as u64);
        recorder.moment_at(Moment { at, samples }, Ticks { wall: at, awake: passed, asleep: passed });
        if second % 100 == 0 {
            recorder.settle();
        }
    }
    recorder.close()?;
    let rules = Rules::default_rules();
    let rule = rules.named(RULE).expect("a default rule");
    Ok(Trial::new(load(&History::open(file)?, rule, Asked::default(), |_, _| ())?))
}
