//! What the figures of 200 patterns cost at 100,000 locks: a turn of the patrol that counts them, and a scrape.

use std::hint::black_box;
use std::sync::Arc;

use lockscope::base::time::Time;
use lockscope::metrics::{self, Moment, exposition};
use lockscope::model::Table;

use crate::limit::{Limit, Measured, ratio};
use crate::machine::thread_time;
use crate::report::{Figure, Report};
use crate::verdicts::{self, LOCKS};

const PATTERNS: usize = 200;
/// As the engine does with each tick.
const SLICE: usize = 10_000;
const TICK_MS: i64 = 250;
/// The most that one turn of the loop may take.
const TURN_MS: f64 = 5.0;
const SCRAPE_MS: f64 = 50.0;
const SCRAPE_MIB: f64 = 2.0;

pub fn measure(report: &mut Report, rounds: usize) {
    let mut table = verdicts::table(PATTERNS);
    let mut now = Time(200_000);
    // The timeline hears of every lock at first.
    (0..2).for_each(|_| drop(round(&mut table, &mut now)));
    let turns: Vec<f64> = (0..rounds.max(5)).flat_map(|_| round(&mut table, &mut now)).collect();
    report.add(Figure {
        name: "ms of a turn that judges and counts 10,000 of 100,000 locks, and looks for findings at 1,000".into(),
        measured: Measured::of(turns),
        limit: Limit::AtMost(TURN_MS),
        show: ratio,
        command: "Table::patrol, CPU time".into(),
    });
    let target: Arc<str> = "shop".into();
    let make = || {
        let mut moment = Moment::new(now);
        metrics::of_table(&mut moment, &table, &target);
        moment
    };
    let series = make().samples.len();
    assert!(series > 60 * PATTERNS, "{series}");
    report.add(Figure {
        name: format!("ms to make a moment: {series} series of {PATTERNS} patterns"),
        measured: Measured::of((0..rounds.max(20)).map(|_| ms(|| drop(black_box(make())))).collect()),
        limit: Limit::AtMost(TURN_MS),
        show: ratio,
        command: "metrics::of_table, CPU time".into(),
    });
    let scrape = || exposition::text(&make());
    report.add(Figure {
        name: "ms to make it and write it as a scrape".into(),
        measured: Measured::of((0..rounds.max(20)).map(|_| ms(|| drop(black_box(scrape())))).collect()),
        limit: Limit::AtMost(SCRAPE_MS),
        show: ratio,
        command: "metrics::exposition::text, CPU time".into(),
    });
    report.add(Figure {
        name: "MiB of the scrape".into(),
        measured: Measured::once(scrape().len() as f64 / (1024.0 * 1024.0)),
        limit: Limit::AtMost(SCRAPE_MIB),
        show: ratio,
        command: "without compression".into(),
    });
}

/// The processor time of this, in milliseconds: others may use the machine too.
fn ms(work: impl FnOnce()) -> f64 {
    let begun = thread_time();
    work();
    (thread_time() - begun).as_secs_f64() * 1_000.0
}

/// The time of each turn of a round over the whole table.
fn round(table: &mut Table, now: &mut Time) -> Vec<f64> {
    *now = Time(now.0 + 1_000);
    let turn = |_| {
        *now = Time(now.0 + TICK_MS);
        ms(|| {
            black_box(table.patrol(SLICE, *now));
        })
    };
    (0..LOCKS / SLICE).map(turn).collect()
}
