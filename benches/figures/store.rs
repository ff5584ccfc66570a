//! The store: a week in a simulation that runs faster than the clock, into a real file.
//!
//! Moments have what the engine gives for each pattern: every state and ending, and three histograms. Holds begin and end
//! as in a fleet that is busy: 485 holds and 890 renewals a second over 10,000 locks.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockscope::base::time::Time;
use lockscope::metrics::{Kind, METRICS, MetricId, Moment, Part, Sample, Series};
use lockscope::store::{History, Keep, Recorder, Target, Ticks};

use crate::limit::{Limit, Measured, ratio, whole};
use crate::machine::{Scheduled, thread_sleeps, thread_time};
use crate::report::{Figure, Report};

const START: i64 = 1_763_013_600_000;
const WEEK: i64 = 7 * 86_400;
const STATES: [&str; 13] = [
    "split",
    "lost",
    "no-quorum",
    "orphan",
    "no-ttl",
    "stalled",
    "contended",
    "long",
    "expiring",
    "held",
    "test",
    "done",
    "free",
];
const ENDINGS: [&str; 8] = ["released", "expired", "taken", "forced", "evicted", "flushed", "renamed", "unseen"];
const MIB: f64 = (1 << 20) as f64;

pub fn measure(report: &mut Report, rounds: usize) {
    measure_week(report, rounds);
    measure_worst(report);
}

/// 10,000 locks in 50 patterns for a week, kept as by default; then the same at 1 s throughout, to be read.
fn measure_week(report: &mut Report, rounds: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("week.db");
    let ran = record(&file, &mut Fleet::new(50, 200), WEEK, Keep::default());
    let how = "a week of 10,000 locks in 50 patterns, simulated, into a real file";
    add(
        report,
        "MiB of the store after a week, 10,000 locks in 50 patterns",
        ran.bytes as f64 / MIB,
        512.0,
        whole,
        how,
    );
    let share = ran.writer.as_secs_f64() / WEEK as f64 * 100.0;
    add(
        report,
        "% of a core to record them",
        share,
        1.0,
        ratio,
        "processor time of the writer's thread for each second",
    );
    let longest = ran.longest.as_secs_f64() * 1_000.0;
    add(
        report,
        "longest ms of CPU that handing over a moment took, also while it is packed",
        longest,
        5.0,
        ratio,
        "the thread of the caller: Recorder::moment and Recorder::status",
    );
    report.note(format!(
        "by the clock on the wall the longest hand-over took {:.1} ms, with waits for a processor",
        ran.longest_turn.as_secs_f64() * 1_000.0
    ));
    add(
        report,
        "turns in which the caller waited for the store while it handed over a moment",
        ran.slept as f64,
        0.0,
        whole,
        "voluntary context switches of its thread: no lock and no full channel holds it up",
    );
    let file = folder.path().join("seconds.db");
    let keep = Keep { seconds: Duration::from_secs(8 * 86_400), ..Keep::default() };
    let read = ["lockscope_locks", "lockscope_holds_ended_total"];
    record(&file, &mut Fleet::new(50, 200).only(&read), WEEK, keep);
    let history = History::open(&file).expect("a store");
    for (metric, state) in read.into_iter().zip([Some("held"), None]) {
        let wanted = |series: &Series| state.is_none_or(|state| series.label("state") == Some(state));
        let read = || {
            let began = thread_time();
            let id = MetricId::named(metric).expect("a metric");
            let columns = history.series(id, &wanted, Time(0), Time(i64::MAX)).expect("it is readable");
            assert_eq!(columns.times.len() as i64, WEEK);
            (thread_time() - began).as_secs_f64() * 1_000.0
        };
        report.add(Figure {
            name: format!("ms of CPU to read a week at 1 s of {metric}, 50 patterns"),
            measured: Measured::of((0..rounds).map(|_| read()).collect()),
            limit: Limit::AtMost(300.0),
            show: whole,
            command: "History::series over everything".into(),
        });
    }
}

/// 100,000 locks in 1,000 patterns, with a limit that is reached within hours.
fn measure_worst(report: &mut Report) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worst.db");
    let size_limit = 128 << 20;
    let ran = record(&file, &mut Fleet::new(1_000, 100), 3 * 3_600, Keep { size_limit, ..Keep::default() });
    let how = "three hours of 100,000 locks in 1,000 patterns, simulated, with a limit of 128 MiB";
    let name = "largest MiB of a store with a limit of 128, 100,000 locks in 1,000 patterns";
    add(report, name, ran.largest as f64 / MIB, 128.0, whole, how);
    let history = History::open(&file).expect("a store").summary().expect("it is readable");
    let kept = history.newest.zip(history.oldest).map_or(0, |(newest, oldest)| newest.since(oldest).as_secs());
    let share = ran.writer.as_secs_f64() / (3.0 * 3_600.0) * 100.0;
    report.note(format!(
        "100,000 locks in 1,000 patterns: 128 MiB hold {} min at 1 s; recording takes {share:.1} % of a core",
        kept / 60
    ));
}

fn add(report: &mut Report, name: &str, value: f64, limit: f64, show: fn(f64) -> String, command: &str) {
    let (name, command) = (name.to_string(), command.to_string());
    report.add(Figure { name, measured: Measured::once(value), limit: Limit::AtMost(limit), show, command });
}

struct Ran {
    /// Of the file when it was closed, and the largest at any moment.
    bytes: u64,
    largest: u64,
    /// Processor time of the writer.
    writer: Duration,
    longest: Duration,
    /// By the clock on the wall: also while others had the processor.
    longest_turn: Duration,
    /// In how many turns the caller slept while it handed over.
    slept: u64,
}

/// Records a fleet for that many seconds.
fn record(file: &Path, fleet: &mut Fleet, seconds: i64, keep: Keep) -> Ran {
    let target = Target { name: "bench".into(), server: String::new() };
    let mut recorder = Recorder::open(file, &target, keep).expect("a new store");
    let mut ran = Ran {
        bytes: 0,
        largest: 0,
        writer: Duration::ZERO,
        longest: Duration::ZERO,
        longest_turn: Duration::ZERO,
        slept: 0,
    };
    for second in 0..seconds {
        let at = Time(START + second * 1_000);
        let moment = fleet.moment(at);
        let passed = Duration::from_secs(1_000_000 + second as u64);
        let (began, slept) = (thread_time(), thread_sleeps());
        let turn = Instant::now();
        recorder.moment_at(moment, Ticks { wall: at, awake: passed, asleep: passed });
        // All that the loop does with the store in a turn.
        black_box(recorder.status());
        ran.longest_turn = ran.longest_turn.max(turn.elapsed());
        ran.longest = ran.longest.max(thread_time() - began);
        ran.slept += u64::from(thread_sleeps() > slept);
        // A simulated second is shorter than a real one: let it be written.
        if second % 4 == 3 {
            recorder.settle();
        }
        if second % 60 == 0 {
            ran.largest = ran.largest.max(length(file));
        }
    }
    recorder.settle();
    ran.writer = writer_time();
    let status = recorder.close().expect("it was written");
    assert_eq!((status.errors, status.omitted), (0, 0));
    ran.bytes = length(file);
    ran.largest = ran.largest.max(ran.bytes);
    ran
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |about| about.len())
}

/// The processor time of the writer's thread.
fn writer_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let is_writer = |task: &Path| std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "store");
    let tasks = tasks.map(|task| task.path()).filter(|task| is_writer(task));
    let id = |task: &Path| task.file_name().and_then(|name| name.to_str()?.parse().ok()).unwrap_or(0);
    tasks.map(|task| Scheduled::of(id(&task)).ran).sum()
}

/// The series of some patterns, and how their numbers go on.
struct Fleet {
    samples: Vec<Sample>,
    /// Where each pattern begins in `samples`.
    patterns: Vec<Pattern>,
    /// Locks of each.
    locks: u64,
    /// Metrics that are told; empty: all.
    only: Vec<MetricId>,
    random: u64,
}

struct Pattern {
    locks: usize,
    ended: usize,
    started: usize,
    renewed: usize,
    histograms: [usize; 3],
    oldest: usize,
    waiters: usize,
    held: u64,
}

impl Fleet {
    fn new(patterns: usize, locks: u64) -> Fleet {
        let random = 0x9e37_79b9_7f4a_7c15;
        let mut fleet = Fleet { samples: Vec::new(), patterns: Vec::new(), locks, only: Vec::new(), random };
        fleet.push("lockscope_up", Part::Value, &["bench", "10.0.0.1:6379"]);
        for number in 0..patterns {
            let name = format!("service{number}:lock:*");
            let at = |fleet: &Fleet| fleet.samples.len();
            let locks = at(&fleet);
            STATES.iter().for_each(|state| fleet.push("lockscope_locks", Part::Value, &["bench", &name, state]));
            let ended = at(&fleet);
            ENDINGS
                .iter()
                .for_each(|end| fleet.push("lockscope_holds_ended_total", Part::Value, &["bench", &name, end]));
            let plain = ["lockscope_holds_started_total", "lockscope_renewals_total", "lockscope_renewals_late_total"];
            let started = at(&fleet);
            plain.iter().for_each(|metric| fleet.push(metric, Part::Value, &["bench", &name]));
            let oldest = at(&fleet);
            fleet.push("lockscope_oldest_hold_timestamp_seconds", Part::Value, &["bench", &name]);
            let waiters = at(&fleet);
            let gauges = ["lockscope_waiters", "lockscope_waiters_max", "lockscope_missed_renewals_max"];
            gauges.iter().for_each(|metric| fleet.push(metric, Part::Value, &["bench", &name]));
            let names = ["hold_duration", "renewal_interval", "handover_duration"];
            let histograms = names.map(|metric| fleet.push_histogram(&format!("lockscope_{metric}_seconds"), &name));
            let (renewed, locks_held) = (started + 1, fleet.locks / 2);
            fleet.patterns.push(Pattern {
                locks,
                ended,
                started,
                renewed,
                histograms,
                oldest,
                waiters,
                held: locks_held,
            });
        }
        fleet
    }

    fn only(mut self, metrics: &[&str]) -> Fleet {
        self.only = metrics.iter().filter_map(|metric| MetricId::named(metric)).collect();
        self
    }

    fn push(&mut self, metric: &str, part: Part, labels: &[&str]) {
        let metric = MetricId::named(metric).expect("a metric of the table");
        let labels = labels.iter().map(|label| Arc::from(*label)).collect();
        self.samples.push(Sample { series: Series { metric, part, labels }, value: 0.0 });
    }

    /// Returns where it begins.
    fn push_histogram(&mut self, metric: &str, pattern: &str) -> usize {
        let begin = self.samples.len();
        let bounds = bounds(metric);
        for bound in bounds.iter().map(f64::to_string).chain(["+Inf".to_string()]) {
            self.push(metric, Part::Bucket, &["bench", pattern, &bound]);
        }
        self.push(metric, Part::Sum, &["bench", pattern]);
        self.push(metric, Part::Count, &["bench", pattern]);
        begin
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % end.max(1)
    }

    /// The next second: about 9.5 holds and 17.5 renewals in each pattern of 200 locks.
    fn moment(&mut self, at: Time) -> Moment {
        for number in 0..self.patterns.len() {
            let (holds, renewals) = (self.below(self.locks / 10), self.below(self.locks * 18 / 100));
            let Pattern { locks, ended, started, renewed, histograms, oldest, waiters, held } = self.patterns[number];
            self.samples[started].value += holds as f64;
            self.samples[renewed].value += renewals as f64;
            self.samples[ended].value += holds as f64;
            // Now and then one expires, is late, waits.
            if self.below(200) == 0 {
                self.samples[ended + 1].value += 1.0;
                self.samples[started + 2].value += 1.0;
            }
            let held = (held + self.below(5)).saturating_sub(self.below(5)).clamp(self.locks / 10, self.locks * 9 / 10);
            self.patterns[number].held = held;
            let expiring = self.below(4);
            self.samples[locks + 9].value = (held - expiring) as f64;
            self.samples[locks + 8].value = expiring as f64;
            self.samples[locks + 12].value = (self.locks - held) as f64;
            if self.below(30) == 0 {
                self.samples[oldest].value = (at.0 - self.below(60_000) as i64) as f64 / 1_000.0;
                self.samples[waiters].value = self.below(8) as f64;
                self.samples[waiters + 1].value = self.below(4) as f64;
            }
            for (histogram, count) in histograms.into_iter().zip([holds, renewals, holds]) {
                for _ in 0..count {
                    let ms = 1 << self.below(14);
                    self.observe(histogram, ms);
                }
            }
        }
        let told = |sample: &&Sample| self.only.is_empty() || self.only.contains(&sample.series.metric);
        Moment { at, samples: self.samples.iter().filter(told).cloned().collect() }
    }

    fn observe(&mut self, histogram: usize, ms: u64) {
        let bounds = bounds(self.samples[histogram].series.metric().name);
        for (at, bound) in bounds.iter().enumerate().rev() {
            if ms as f64 / 1_000.0 > *bound {
                break;
            }
            self.samples[histogram + at].value += 1.0;
        }
        let end = histogram + bounds.len();
        self.samples[end].value += 1.0;
        self.samples[end + 2].value += 1.0;
        let sum = (self.samples[end + 1].value * 1_000.0).round() + ms as f64;
        self.samples[end + 1].value = sum / 1_000.0;
    }
}

fn bounds(metric: &str) -> &'static [f64] {
    match METRICS.iter().find(|known| known.name == metric).map(|known| known.kind) {
        Some(Kind::Histogram(bounds)) => bounds,
        _ => panic!("{metric} is no histogram"),
    }
}
