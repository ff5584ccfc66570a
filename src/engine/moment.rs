//! Everything that the engine knows at one time, as samples of the metrics.
//!
//! The daemon adds what is its own: the store, the rules, the process. A node that is lost keeps its counters, which tell
//! what was seen, and says so by `lockscope_up`; how it is watched is left out then, and what is known of its locks is
//! told by [`metrics::of_table`]. A node that left has no series at all.

use std::sync::Arc;

use super::{Engine, NodeStatus, Sampling, Stream};
use crate::base::text::visible;
use crate::metrics::{self, MetricId, Moment};

const UP: MetricId = MetricId::of("lockscope_up");
const STREAM: MetricId = MetricId::of("lockscope_stream");
const STALE: MetricId = MetricId::of("lockscope_data_stale");
const BLIND_SINCE: MetricId = MetricId::of("lockscope_blind_since_timestamp_seconds");
const COMPLETE: MetricId = MetricId::of("lockscope_inventory_complete");
const ROLE_CHANGES: MetricId = MetricId::of("lockscope_role_changes_total");
const LAST_SCAN: MetricId = MetricId::of("lockscope_last_scan_timestamp_seconds");
const COVERAGE: MetricId = MetricId::of("lockscope_sampling_coverage_ratio");
const EVENTS: MetricId = MetricId::of("lockscope_events_total");
const LOST: MetricId = MetricId::of("lockscope_events_lost_total");
const RECONNECTS: MetricId = MetricId::of("lockscope_reconnects_total");
const BUSY: MetricId = MetricId::of("lockscope_server_busy_seconds_total");

impl Engine {
    /// The value of every series that is known now, for the target of that name.
    pub fn moment(&self, target: &Arc<str>) -> Moment {
        let mut moment = Moment::new(self.clock.now());
        // What a node has now is not known while it does not answer.
        let whole = self.incomplete().is_none() && self.nodes().all(|node| matches!(node.stream, Stream::Live(_)));
        moment.push(COMPLETE, &[target], f64::from(u8::from(whole)));
        moment.push(ROLE_CHANGES, &[target], self.role_changes as f64);
        for node in self.nodes() {
            self.add_node(&mut moment, target, node);
        }
        metrics::of_table(&mut moment, &self.table, target);
        moment
    }

    fn add_node(&self, moment: &mut Moment, target: &Arc<str>, node: &NodeStatus) {
        let name: Arc<str> = visible(node.name.as_bytes()).into();
        let labels = [target, &name];
        let live = matches!(node.stream, Stream::Live(_));
        let at = moment.at;
        let mut push = |metric, value: f64| moment.push(metric, &labels, value);
        push(UP, f64::from(u8::from(live)));
        let stale = self.table.has_stale(node.id);
        push(STALE, f64::from(u8::from(stale)));
        if !live || stale {
            push(BLIND_SINCE, metrics::seconds(node.blind_since.unwrap_or(at)));
        }
        if let Some(scan) = node.scan.as_ref().filter(|scan| scan.failed.is_none()) {
            push(LAST_SCAN, metrics::seconds(scan.finished));
        }
        if live {
            push(COVERAGE, coverage(node));
        }
        push(EVENTS, node.events as f64);
        if let Some(lost) = node.lost {
            push(LOST, lost as f64);
        }
        push(RECONNECTS, node.reconnects as f64);
        push(BUSY, node.spent.as_secs_f64());
        if live {
            moment.push(STREAM, &[target, &name, &node.stream.name().into()], 1.0);
        }
    }
}

/// The share of the time that MONITOR was read: none while it is off, refused or not over for the first time.
fn coverage(node: &NodeStatus) -> f64 {
    match &node.sampling {
        Some(Sampling::On(sampled)) => sampled.coverage,
        Some(Sampling::Starting | Sampling::Refused(_) | Sampling::Failed(_)) | None => 0.0,
    }
}
