//! A series is a metric with the values of its labels; a moment is the value of every known series at one time.

use std::sync::Arc;

use super::table::{Metric, MetricId};
use crate::base::time::Time;

/// Which number of a metric. Gauges and counters have one, histograms have several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Part {
    Value,
    /// Its last label is `le`.
    Bucket,
    Sum,
    Count,
}

/// One series. Label values are text that was made visible: no control characters, valid UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Series {
    pub metric: MetricId,
    pub part: Part,
    /// In the order of [`Metric::labels`], and then `le` of a bucket.
    pub labels: Box<[Arc<str>]>,
}

impl Series {
    pub fn metric(&self) -> &'static Metric {
        self.metric.metric()
    }

    /// The value of the label of that name.
    pub fn label(&self, name: &str) -> Option<&str> {
        if name == "le" && self.part == Part::Bucket {
            return self.labels.last().map(|value| &**value);
        }
        let at = self.metric().labels.iter().position(|label| *label == name)?;
        self.labels.get(at).map(|value| &**value)
    }
}

/// The value of a series at the moment.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    pub series: Series,
    pub value: f64,
}

/// Everything that is known at one time. A series that is not here is not known then, or does not exist.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Moment {
    pub at: Time,
    pub samples: Vec<Sample>,
}

impl Moment {
    pub fn new(at: Time) -> Moment {
        Moment { at, samples: Vec::new() }
    }

    /// Adds the value of a gauge or a counter; the labels are in the order of [`Metric::labels`].
    pub fn push(&mut self, metric: MetricId, labels: &[&Arc<str>], value: f64) {
        self.push_part(metric, Part::Value, labels, value);
    }

    /// The same for one number of a histogram; the last label of a bucket is `le`.
    pub fn push_part(&mut self, metric: MetricId, part: Part, labels: &[&Arc<str>], value: f64) {
        debug_assert_eq!(labels.len(), metric.metric().labels.len() + usize::from(part == Part::Bucket));
        let labels = labels.iter().map(|label| Arc::clone(label)).collect();
        self.samples.push(Sample { series: Series { metric, part, labels }, value });
    }
}
