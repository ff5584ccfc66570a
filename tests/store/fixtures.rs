//! What the tests of the store share: a folder with a store in it, and moments whose numbers are known.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lockscope::base::time::Time;
use lockscope::metrics::{MetricId, Moment, Part, Sample, Series};
use lockscope::store::{Columns, History, Keep, Reason, Recorder, Target, Ticks};

/// The beginning of an hour and of six hours.
pub const START: i64 = 1_763_013_600_000;
pub const ALL: (Time, Time) = (Time(i64::MIN), Time(i64::MAX));

/// A store in a folder of its own.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("locks.db")
    }

    pub fn recorder(&self) -> Recorder {
        self.recorder_that(Keep::default())
    }

    pub fn recorder_that(&self, keep: Keep) -> Recorder {
        Recorder::open(&self.file(), &target("cache"), keep).unwrap()
    }

    pub fn history(&self) -> History {
        History::open(&self.file()).unwrap()
    }
}

pub fn target(name: &str) -> Target {
    Target { name: name.into(), server: "redis 7.4.1, run id 81f0".into() }
}

pub fn metric(name: &str) -> MetricId {
    MetricId::named(name).unwrap()
}

pub fn series(name: &str, labels: &[&str]) -> Series {
    let labels = labels.iter().map(|label| Arc::from(*label)).collect();
    Series { metric: metric(name), part: Part::Value, labels }
}

/// Waiters of a pattern.
pub fn waiters(pattern: &str) -> Series {
    series("lockscope_waiters", &["cache", pattern])
}

pub fn moment(at: i64, samples: &[(Series, f64)]) -> Moment {
    let samples = samples.iter().map(|(series, value)| Sample { series: series.clone(), value: *value });
    Moment { at: Time(at), samples: samples.collect() }
}

/// One series that says how many seconds have passed.
pub fn counted(at: i64) -> Moment {
    moment(at, &[(waiters("lock:*"), ((at - START) / 1_000) as f64)])
}

/// Clocks that all go right.
pub fn right(at: i64) -> Ticks {
    let passed = Duration::from_millis((at - START + 86_400_000_000) as u64);
    Ticks { wall: Time(at), awake: passed, asleep: passed }
}

pub trait Feed {
    /// Takes a moment by clocks that go right, and waits until it is written: a simulation is faster than the writer.
    fn feed(&mut self, moment: Moment) -> Option<Reason> {
        let ticks = right(moment.at.0);
        self.feed_at(moment, ticks)
    }

    fn feed_at(&mut self, moment: Moment, ticks: Ticks) -> Option<Reason>;
}

impl Feed for Recorder {
    fn feed_at(&mut self, moment: Moment, ticks: Ticks) -> Option<Reason> {
        let told = self.moment_at(moment, ticks);
        self.settle();
        told
    }
}

/// All there is of a metric.
pub fn all(history: &History, name: &str) -> Columns {
    history.series(metric(name), &|_| true, ALL.0, ALL.1).unwrap()
}

/// The points of the one series that `counted` makes.
pub fn counts(history: &History) -> Vec<(i64, f64)> {
    let columns = all(history, "lockscope_waiters");
    match columns.columns.as_slice() {
        [] => Vec::new(),
        [one] => one.points(&columns.times).map(|(at, value)| (at.0, value)).collect(),
        more => panic!("{} series instead of one", more.len()),
    }
}

/// What [`counts`] gives for these times.
pub fn expected(times: impl IntoIterator<Item = i64>) -> Vec<(i64, f64)> {
    times.into_iter().map(|at| (at, ((at - START) / 1_000) as f64)).collect()
}
