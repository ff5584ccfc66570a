//! The series that follow from the table: those of each pattern, and how many patterns there are.
//!
//! What is not known is left out, and so is what is known no more. Counters and histograms tell what was seen, so they
//! stay as they are while a node is lost. Gauges tell what is: a lock that was not confirmed since events went missing
//! is in none of them but `lockscope_locks_unconfirmed`. Of a pattern that has such locks, a gauge is a lower bound, and a
//! zero is left out; of every pattern while a node does not answer. If no round over the table has ended for long, there are no gauges at all.

use std::sync::Arc;
use std::time::Duration;

use super::series::{Moment, Part, Sample};
use super::table::MetricId;
use crate::base::time::Time;
use crate::model::figures::{Buckets, Counts, HAND_OVER, HOLD, Pattern, RENEWAL, Rates, Tally};
use crate::model::{Ending, State, Table, TriesFrom, findings};

const LOCKS: MetricId = MetricId::of("lockscope_locks");
const UNCONFIRMED: MetricId = MetricId::of("lockscope_locks_unconfirmed");
const FINDINGS: MetricId = MetricId::of("lockscope_findings");
const OLDEST: MetricId = MetricId::of("lockscope_oldest_hold_timestamp_seconds");
const WAITERS: MetricId = MetricId::of("lockscope_waiters");
const UP: MetricId = MetricId::of("lockscope_up");
const WAITERS_MAX: MetricId = MetricId::of("lockscope_waiters_max");
const MISSED: MetricId = MetricId::of("lockscope_missed_renewals_max");
const ATTEMPTS: MetricId = MetricId::of("lockscope_attempts_per_second");
const FAILURES: MetricId = MetricId::of("lockscope_failures_per_second");
const UNKNOWN_AGE: MetricId = MetricId::of("lockscope_holds_of_unknown_age");
const UNKNOWN_FAILURES: MetricId = MetricId::of("lockscope_failures_unknown");
const STARTED: MetricId = MetricId::of("lockscope_holds_started_total");
const RENEWED: MetricId = MetricId::of("lockscope_renewals_total");
const LATE: MetricId = MetricId::of("lockscope_renewals_late_total");
const ENDED: MetricId = MetricId::of("lockscope_holds_ended_total");
const HELD: MetricId = MetricId::of("lockscope_hold_duration_seconds");
const GAPS: MetricId = MetricId::of("lockscope_renewal_interval_seconds");
const HAND_OVERS: MetricId = MetricId::of("lockscope_handover_duration_seconds");
const PATTERNS: MetricId = MetricId::of("lockscope_patterns");
const FOLDED: MetricId = MetricId::of("lockscope_patterns_folded");
const DROPPED: MetricId = MetricId::of("lockscope_locks_dropped_total");

/// A round over a full table takes less than half of this. What an older one saw is not what is.
const OLD: Duration = Duration::from_secs(120);

/// Adds what the table knows.
pub fn of_table(moment: &mut Moment, table: &Table, target: &Arc<str>) {
    let words = Words::new();
    let mut own = 0;
    let up = |sample: &Sample| sample.series.metric == UP;
    let sighted = moment.samples.iter().filter(|sample| up(sample)).all(|sample| sample.value >= 1.0);
    let fresh = table.rounded().is_some_and(|began| moment.at.since(began) <= OLD);
    for pattern in table.patterns() {
        own += usize::from(!pattern.is_other());
        let mut series = Of { moment, words: &words, labels: [target, &pattern.name], sighted };
        series.counts(&pattern.counts);
        if let Some(tally) = pattern.tally.as_ref().filter(|_| fresh) {
            series.gauges(pattern, tally);
        }
    }
    moment.push(PATTERNS, &[target], own as f64);
    moment.push(FOLDED, &[target], table.patterns_folded() as f64);
    moment.push(DROPPED, &[target], table.locks_dropped() as f64);
}

/// A point in time as Prometheus has it.
pub(crate) fn seconds(at: Time) -> f64 {
    at.0 as f64 / 1_000.0
}

/// Values of labels that every pattern shares.
struct Words {
    states: Vec<(State, Arc<str>)>,
    endings: Vec<(Ending, Arc<str>)>,
    findings: Vec<Arc<str>>,
    counted: Arc<str>,
    sampled: Arc<str>,
    held: Vec<Arc<str>>,
    gaps: Vec<Arc<str>>,
    hand_overs: Vec<Arc<str>>,
}

impl Words {
    fn new() -> Words {
        let bounds = |bounds: &[f64]| {
            let bounds = bounds.iter().map(|bound| bound.to_string().into());
            bounds.chain([Arc::from("+Inf")]).collect()
        };
        Words {
            states: State::ALL.iter().map(|state| (*state, state.name().into())).collect(),
            endings: Ending::ALL.iter().map(|ending| (*ending, ending.word().into())).collect(),
            findings: findings::names().map(Arc::from).collect(),
            counted: TriesFrom::Counted.name().into(),
            sampled: TriesFrom::Sampled.name().into(),
            held: bounds(&HOLD),
            gaps: bounds(&RENEWAL),
            hand_overs: bounds(&HAND_OVER),
        }
    }
}

/// The series of one pattern.
struct Of<'a> {
    moment: &'a mut Moment,
    words: &'a Words,
    /// The target and the pattern.
    labels: [&'a Arc<str>; 2],
    /// Every node answers.
    sighted: bool,
}

impl Of<'_> {
    fn push(&mut self, metric: MetricId, value: f64) {
        self.moment.push(metric, &self.labels, value);
    }

    fn push_word(&mut self, metric: MetricId, word: &Arc<str>, value: f64) {
        let [target, pattern] = self.labels;
        self.moment.push(metric, &[target, pattern, word], value);
    }

    /// Each from the first moment on, also at 0: what is born at 1 was never seen to rise.
    fn counts(&mut self, counts: &Counts) {
        let words = self.words;
        self.push(STARTED, counts.started as f64);
        self.push(RENEWED, counts.renewed as f64);
        self.push(LATE, counts.late as f64);
        for (ending, word) in &words.endings {
            self.push_word(ENDED, word, counts.ended(*ending) as f64);
        }
        self.histogram(HELD, &words.held, &counts.held);
        self.histogram(GAPS, &words.gaps, &counts.gaps);
        self.histogram(HAND_OVERS, &words.hand_overs, &counts.hand_overs);
    }

    fn histogram<const N: usize>(&mut self, metric: MetricId, bounds: &[Arc<str>], buckets: &Buckets<N>) {
        let [target, pattern] = self.labels;
        for (bound, count) in bounds.iter().zip(buckets.cumulative().chain([buckets.count()])) {
            self.moment.push_part(metric, Part::Bucket, &[target, pattern, bound], count as f64);
        }
        self.moment.push_part(metric, Part::Sum, &self.labels, buckets.sum_s());
        self.moment.push_part(metric, Part::Count, &self.labels, buckets.count() as f64);
    }

    fn gauges(&mut self, pattern: &Pattern, tally: &Tally) {
        let words = self.words;
        self.push(UNCONFIRMED, f64::from(tally.unconfirmed));
        for (state, word) in &words.states {
            self.sure(LOCKS, word, tally, tally.locks(*state));
        }
        for (word, count) in words.findings.iter().zip(pattern.findings) {
            count.into_iter().for_each(|count| self.sure(FINDINGS, word, tally, count));
        }
        if let Some(at) = tally.oldest {
            self.push(OLDEST, seconds(at));
        }
        self.push(UNKNOWN_AGE, f64::from(tally.unknown_age));
        if let Some((sum, most)) = tally.waiters {
            self.push(WAITERS, sum as f64);
            self.push(WAITERS_MAX, f64::from(most));
        }
        if let Some(missed) = tally.missed {
            self.push(MISSED, missed as f64);
        }
        self.rates(tally.counted, &words.counted);
        self.rates(tally.sampled, &words.sampled);
    }

    /// A number of locks. While a node does not answer, or with locks that were not confirmed, a zero is not sure, and
    /// nothing is if there are no others.
    fn sure(&mut self, metric: MetricId, word: &Arc<str>, tally: &Tally, count: u32) {
        if tally.unconfirmed == 0 && self.sighted || count > 0 && tally.all() > 0 {
            self.push_word(metric, word, f64::from(count));
        }
    }

    fn rates(&mut self, rates: Option<Rates>, source: &Arc<str>) {
        let Some(Rates { attempts, failures }) = rates else { return };
        self.push_word(UNKNOWN_FAILURES, source, f64::from(u8::from(failures.is_none())));
        attempts.into_iter().for_each(|rate| self.push_word(ATTEMPTS, source, rate));
        failures.into_iter().for_each(|rate| self.push_word(FAILURES, source, rate));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::base::time::Ttl;
    use crate::lock::RawValue;
    use crate::metrics::{METRICS, Series};
    use crate::model::{KeyEvent, Limits, Observation, Seen};
    use crate::testkit::pretend::{NODE, recogniser, settle, table, tell};

    fn take(table: &mut Table, at: i64, key: &str) {
        tell(table, Time(at), &[(key, KeyEvent::New), (key, KeyEvent::Set), (key, KeyEvent::Expire)]);
        let ttl = Ttl::In(Duration::from_secs(600));
        settle(table, Time(at), |_| Seen::Present { value: RawValue::string(b"anna"), ttl });
    }

    fn moment(table: &Table) -> Moment {
        let mut moment = Moment::new(Time(10_000));
        of_table(&mut moment, table, &"shop".into());
        moment
    }

    /// What is known of the locks, by state.
    fn locks(table: &Table) -> Vec<(String, f64)> {
        let moment = moment(table);
        let samples = moment.samples.iter().filter(|sample| sample.series.metric == LOCKS);
        samples.map(|sample| (sample.series.label("state").unwrap().to_string(), sample.value)).collect()
    }

    #[test]
    fn each_series_is_told_once_with_all_its_labels() {
        let mut table = table(recogniser("*"), Limits::default());
        for key in ["lock:a:1", "lock\n\"b\":1", "other", "\u{202e}c"] {
            take(&mut table, 1_000, key);
        }
        table.patrol(100, Time(2_000));
        let moment = moment(&table);
        let series: BTreeSet<&Series> = moment.samples.iter().map(|sample| &sample.series).collect();
        assert_eq!(series.len(), moment.samples.len());
        for series in series {
            let wanted = METRICS[usize::from(series.metric.0)].labels.len() + usize::from(series.part == Part::Bucket);
            assert_eq!(series.labels.len(), wanted, "{series:?}");
            assert!(series.labels.iter().all(|label| !label.is_empty() && !label.contains(char::is_control)));
        }
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_all() {
        let mut table = table(recogniser("lock:*"), Limits::default());
        take(&mut table, 1_000, "lock:a");
        tell(&mut table, Time(1_400), &[("lock:a", KeyEvent::Del)]);
        settle(&mut table, Time(1_400), |_| Seen::Absent);
        let moment = moment(&table);
        let held = moment.samples.iter().filter(|sample| sample.series.metric == HELD);
        let told: Vec<String> =
            held.map(|sample| format!("{}={}", sample.series.label("le").unwrap_or("-"), sample.value)).collect();
        let expected = "0.01=0 0.1=0 0.5=1 1=1 5=1 15=1 60=1 300=1 1800=1 7200=1 +Inf=1 -=0.4 -=1";
        assert_eq!(told.join(" "), expected);
    }

    #[test]
    fn locks_that_were_not_confirmed_leave_only_what_is_sure() {
        let mut table = table(recogniser("lock:*"), Limits::default());
        assert_eq!(locks(&table), []);
        take(&mut table, 1_000, "lock:a:1");
        take(&mut table, 1_000, "lock:a:2");
        assert_eq!(locks(&table), [], "they were not counted yet");
        table.patrol(100, Time(2_000));
        let states = locks(&table);
        assert_eq!((states.len(), states.iter().map(|(_, count)| count).sum::<f64>()), (State::ALL.len(), 2.0));
        table.apply(Observation::Gap { node: NODE, at: Time(3_000) });
        table.patrol(100, Time(4_000));
        assert_eq!(locks(&table), []);
        let (moment, gauges) = (moment(&table), [OLDEST, WAITERS, MISSED, FINDINGS]);
        assert!(moment.samples.iter().all(|sample| !gauges.contains(&sample.series.metric)));
        let started = moment.samples.iter().find(|sample| sample.series.metric == STARTED);
        assert_eq!(started.map(|sample| sample.value), Some(2.0), "what was counted has happened");
        tell(&mut table, Time(5_000), &[("lock:a:1", KeyEvent::Expire)]);
        let ttl = Ttl::In(Duration::from_secs(600));
        settle(&mut table, Time(5_000), |_| Seen::Present { value: RawValue::string(b"anna"), ttl });
        table.patrol(100, Time(6_000));
        assert_eq!(locks(&table), [("held".to_string(), 1.0)], "at least one, and no zero is sure");
    }

    #[test]
    fn without_sight_of_a_node_no_zero_is_told() {
        let mut table = table(recogniser("lock:*"), Limits::default());
        take(&mut table, 1_000, "lock:a:1");
        tell(&mut table, Time(1_400), &[("lock:a:1", KeyEvent::Del)]);
        settle(&mut table, Time(1_400), |_| Seen::Absent);
        table.patrol(100, Time(2_000));
        let zeros = |up: f64| {
            let mut moment = Moment::new(Time(10_000));
            moment.push(UP, &[&"shop".into(), &"cache:6379".into()], up);
            of_table(&mut moment, &table, &"shop".into());
            moment.samples.iter().filter(|sample| sample.series.metric == LOCKS).count()
        };
        assert_eq!((zeros(1.0), zeros(0.0)), (State::ALL.len(), 0));
    }

    #[test]
    fn what_was_seen_long_ago_is_not_told_as_if_it_were_so_now() {
        let mut table = table(recogniser("lock:*"), Limits::default());
        take(&mut table, 1_000, "lock:a:1");
        table.patrol(100, Time(2_000));
        let gauges = |at: i64| {
            let mut moment = Moment::new(Time(at));
            of_table(&mut moment, &table, &"shop".into());
            moment.samples.iter().filter(|sample| [LOCKS, OLDEST, UNCONFIRMED].contains(&sample.series.metric)).count()
        };
        assert_eq!((gauges(122_000), gauges(122_001)), (State::ALL.len() + 2, 0));
    }
}
