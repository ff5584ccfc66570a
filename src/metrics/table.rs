//! The one table of metrics.

use crate::model::figures::{HAND_OVER, HOLD, RENEWAL};

/// What kind of number it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Gauge,
    Counter,
    /// Cumulative buckets with these upper bounds, in seconds; `+Inf` follows them.
    Histogram(&'static [f64]),
    /// Computed from others by rules, never exposed.
    Derived,
}

/// One metric.
#[derive(PartialEq, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
    /// What it is in PromQL: the selector goes into each `{}`, the window of a rule into each `[w]`. A metric that is
    /// exposed is its own name and selector.
    pub promql: &'static str,
}

/// The place of a metric in [`METRICS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MetricId(pub u16);

impl MetricId {
    pub fn metric(self) -> &'static Metric {
        &METRICS[usize::from(self.0)]
    }

    /// The metric of that name, which must exist: checked when it is compiled.
    pub const fn of(name: &str) -> MetricId {
        let mut at = 0;
        while at < METRICS.len() {
            if is_same(METRICS[at].name.as_bytes(), name.as_bytes()) {
                return MetricId(at as u16);
            }
            at += 1;
        }
        panic!("there is no metric of that name")
    }

    /// The metric at that place of the table.
    pub fn of_index(index: usize) -> MetricId {
        MetricId(index as u16)
    }

    /// The metric of that name.
    pub fn named(name: &str) -> Option<MetricId> {
        METRICS.iter().position(|metric| metric.name == name).map(|at| MetricId(at as u16))
    }

    /// Whether its value is a moment in time, in seconds since 1970.
    pub fn is_time(self) -> bool {
        let name = self.metric().name;
        name.ends_with("_timestamp_seconds") || name == "process_start_time_seconds"
    }

    /// Whether it says something only over a length of time.
    pub fn needs_window(self) -> bool {
        self.metric().kind == Kind::Counter || self.metric().promql.contains("[w]")
    }
}

/// Comparing texts is not const yet.
const fn is_same(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

const TARGET: &[&str] = &["target"];
const NODE: &[&str] = &["target", "node"];
const PATTERN: &[&str] = &["target", "pattern"];

const fn exposed(name: &'static str, kind: Kind, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind, labels, help, promql: "" }
}

const fn derived(
    name: &'static str,
    labels: &'static [&'static str],
    promql: &'static str,
    help: &'static str,
) -> Metric {
    Metric { name, kind: Kind::Derived, labels, help, promql }
}

use Kind::{Counter, Gauge, Histogram};

/// All metrics: what is exposed first, then what is derived from it.
pub const METRICS: &[Metric] = &[
    exposed("lockscope_build_info", Gauge, &["version", "revision"], "Always 1"),
    exposed("lockscope_up", Gauge, NODE, "1 while the node answers and changes are learnt"),
    exposed(
        "lockscope_stream",
        Gauge,
        &["target", "node", "mode"],
        "1 for how changes are learnt: notifications, tracking or polling; absent while they are not",
    ),
    exposed(
        "lockscope_data_stale",
        Gauge,
        NODE,
        "1 while locks that are shown were not confirmed since events went missing",
    ),
    exposed(
        "lockscope_inventory_complete",
        Gauge,
        TARGET,
        "1 when the whole keyspace was walked, nothing was dropped and every node answers",
    ),
    exposed(
        "lockscope_blind_since_timestamp_seconds",
        Gauge,
        NODE,
        "The last moment of which everything is known, while the node does not answer or locks were not confirmed; absent in sight",
    ),
    exposed(
        "lockscope_role_changes_total",
        Counter,
        TARGET,
        "Times that another server took over as a master, or that a server on its own became a master or a replica",
    ),
    exposed("lockscope_last_scan_timestamp_seconds", Gauge, NODE, "When the last walk of the keyspace ended"),
    exposed("lockscope_locks", Gauge, &["target", "pattern", "state"], "Locks by state; every state, also 0"),
    exposed(
        "lockscope_locks_unconfirmed",
        Gauge,
        PATTERN,
        "Locks that were not confirmed since events went missing; no other gauge counts them",
    ),
    exposed(
        "lockscope_findings",
        Gauge,
        &["target", "pattern", "finding"],
        "Locks with that finding; once seen, kept at 0",
    ),
    exposed(
        "lockscope_oldest_hold_timestamp_seconds",
        Gauge,
        PATTERN,
        "When the oldest current hold began, or was first seen; absent when there is none",
    ),
    exposed(
        "lockscope_holds_of_unknown_age",
        Gauge,
        PATTERN,
        "Locks that were held before anybody watched: their age is only a lower bound",
    ),
    exposed("lockscope_waiters", Gauge, PATTERN, "Waiters of all locks; absent unless counted lately"),
    exposed(
        "lockscope_waiters_max",
        Gauge,
        PATTERN,
        "Waiters of the most waited-for lock; absent unless counted lately",
    ),
    exposed("lockscope_missed_renewals_max", Gauge, PATTERN, "Most renewals that one lock has missed"),
    exposed(
        "lockscope_attempts_per_second",
        Gauge,
        &["target", "pattern", "source"],
        "Attempts to take a lock, counted or sampled; absent when unknown",
    ),
    exposed(
        "lockscope_failures_per_second",
        Gauge,
        &["target", "pattern", "source"],
        "Attempts that failed, counted or sampled; absent when unknown",
    ),
    exposed(
        "lockscope_failures_unknown",
        Gauge,
        &["target", "pattern", "source"],
        "1 while attempts are seen whose outcome is not known, so that failures can't be told",
    ),
    exposed("lockscope_sampling_coverage_ratio", Gauge, NODE, "Share of the time that MONITOR was read"),
    exposed(
        "lockscope_holds_started_total",
        Counter,
        PATTERN,
        "Holds that were seen to begin, or were put back by an undo",
    ),
    exposed("lockscope_renewals_total", Counter, PATTERN, "Renewals that were seen"),
    exposed("lockscope_renewals_late_total", Counter, PATTERN, "Renewals that the rhythm before them expected earlier"),
    exposed(
        "lockscope_holds_ended_total",
        Counter,
        &["target", "pattern", "ending"],
        "Holds that ended: released, expired, evicted, flushed, renamed, failover, restart, slot-taken, unseen, taken or forced",
    ),
    exposed("lockscope_hold_duration_seconds", Histogram(&HOLD), PATTERN, "Holds that were seen from beginning to end"),
    exposed(
        "lockscope_renewal_interval_seconds",
        Histogram(&RENEWAL),
        PATTERN,
        "Time from when a lease was given to its next renewal",
    ),
    exposed(
        "lockscope_handover_duration_seconds",
        Histogram(&HAND_OVER),
        PATTERN,
        "Time from the end of a hold to the next acquire",
    ),
    exposed("lockscope_patterns", Gauge, TARGET, "Patterns with series of their own"),
    exposed("lockscope_patterns_folded", Gauge, TARGET, "Patterns counted under the pattern \"other\""),
    exposed("lockscope_locks_dropped_total", Counter, TARGET, "Locks beyond the limit of the table"),
    exposed("lockscope_events_total", Counter, NODE, "Events of the server that were read"),
    exposed("lockscope_events_lost_total", Counter, NODE, "Events that were dropped; absent when nobody counted them"),
    exposed("lockscope_reconnects_total", Counter, NODE, "Lost connections to the server that were made again"),
    exposed("lockscope_server_busy_seconds_total", Counter, NODE, "Time of the server that lockscope used"),
    exposed("lockscope_store_size_bytes", Gauge, &[], "Size of the store's file"),
    exposed("lockscope_store_last_write_timestamp_seconds", Gauge, &[], "When the store was last written"),
    exposed("lockscope_store_errors_total", Counter, &[], "Writes to the store that failed"),
    exposed("lockscope_alerts", Gauge, &["rule", "severity", "state"], "Pending and firing alerts"),
    exposed("lockscope_rule_evaluations_total", Counter, &["rule"], "Evaluations of each rule"),
    exposed(
        "lockscope_notifications_total",
        Counter,
        &["receiver", "outcome"],
        "Notifications of the pager: sent, retried, failed or dropped",
    ),
    exposed("process_cpu_seconds_total", Counter, &[], "Processor time of lockscope"),
    exposed("process_resident_memory_bytes", Gauge, &[], "Resident memory of lockscope"),
    exposed("process_start_time_seconds", Gauge, &[], "When lockscope was started"),
    exposed("process_open_fds", Gauge, &[], "Open file descriptors of lockscope"),
    exposed("process_max_fds", Gauge, &[], "Most file descriptors that lockscope may open"),
    derived(
        "lockscope_oldest_hold_age_seconds",
        PATTERN,
        "time() - min by (target, pattern) (lockscope_oldest_hold_timestamp_seconds{})",
        "For how long the oldest current hold has lasted",
    ),
    derived(
        "lockscope_failure_ratio",
        &["target", "pattern", "source"],
        "lockscope_failures_per_second{} / lockscope_attempts_per_second{}",
        "Share of the attempts that failed",
    ),
    derived(
        "lockscope_holds_expired",
        PATTERN,
        "sum by (target, pattern) (increase(lockscope_holds_ended_total{ending=\"expired\"}[w])) \
         and on (target, pattern) (lockscope_holds_ended_total{ending=\"released\"} > 0)",
        "Holds that expired within the window, of patterns that are also released",
    ),
    derived(
        "lockscope_holds_expired_ratio",
        PATTERN,
        "sum by (target, pattern) (increase(lockscope_holds_ended_total{ending=\"expired\"}[w])) \
         / (sum by (target, pattern) (increase(lockscope_holds_ended_total{ending=\"expired\"}[w])) \
         + sum by (target, pattern) (increase(lockscope_holds_ended_total{ending=\"released\"}[w]))) \
         and on (target, pattern) (lockscope_holds_ended_total{ending=\"released\"} > 0)",
        "Share of the holds within the window that expired, of patterns that are also released",
    ),
    derived(
        "lockscope_blind",
        NODE,
        "(lockscope_up{} < bool 1) > 0 or lockscope_data_stale{} or lockscope_up{} < bool 1",
        "1 while the node does not answer, or what is shown of it was not confirmed",
    ),
    derived("lockscope_absent", &[], "absent(lockscope_build_info{})", "1 while nothing is measured at all"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_stands_once_and_is_one_that_prometheus_takes() {
        let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), METRICS.len());
        for metric in METRICS {
            let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(plain(metric.name) && metric.labels.iter().all(|label| plain(label)), "{}", metric.name);
            assert_eq!(metric.kind == Counter, metric.name.ends_with("_total"), "{}", metric.name);
            assert_eq!(metric.kind == Kind::Derived, !metric.promql.is_empty(), "{}", metric.name);
        }
    }

    #[test]
    fn a_metric_is_found_by_its_name() {
        for (at, metric) in METRICS.iter().enumerate() {
            assert_eq!(MetricId::named(metric.name), Some(MetricId(at as u16)));
        }
        assert_eq!(MetricId::named("lockscope_lock"), None);
    }
}
