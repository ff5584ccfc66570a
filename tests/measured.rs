//! What happens on a real server, and the numbers of the moment after it: exactly those, and nothing that is not known.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::engine::follow;
use common::server::field;
use common::{Feed, Listener, Server};
use lockscope::engine::{Engine, Stream};
use lockscope::metrics::{Kind, METRICS, Moment, Part};
use lockscope::sources::pace::Pace;

const PATIENCE: Duration = Duration::from_secs(30);
const ENDED: &str = "lockscope_holds_ended_total";

/// An engine that follows a server, and what it measures.
struct Measuring {
    engine: Engine,
    target: Arc<str>,
}

impl Measuring {
    async fn start(server: &Server, feed: Feed) -> Measuring {
        let engine = follow(server, feed, Pace::Fast).await;
        let mut measuring = Measuring { engine, target: "shop".into() };
        measuring
            .until("the engine to follow", |moment| value(moment, "lockscope_inventory_complete", &[]) == Some(1.0))
            .await;
        measuring
    }

    fn moment(&self) -> Moment {
        self.engine.moment(&self.target)
    }

    /// Runs the engine until the moment is like that.
    async fn until(&mut self, what: &str, like: impl Fn(&Moment) -> bool) -> Moment {
        let began = Instant::now();
        loop {
            let moment = self.moment();
            if like(&moment) {
                return moment;
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}: {}", shown(&moment));
            self.engine.next().await;
        }
    }

    /// Runs the engine until that series has this value.
    async fn until_is(&mut self, metric: &str, labels: &[(&str, &str)], expected: f64) -> Moment {
        let what = format!("{metric} {labels:?} to be {expected}");
        self.until(&what, |moment| value(moment, metric, labels) == Some(expected)).await
    }
}

/// The value of the one series of the metric with these labels; `None`: there is no such series.
fn value(moment: &Moment, metric: &str, labels: &[(&str, &str)]) -> Option<f64> {
    part(moment, metric, Part::Value, labels)
}

fn part(moment: &Moment, metric: &str, part: Part, labels: &[(&str, &str)]) -> Option<f64> {
    assert!(METRICS.iter().any(|known| known.name == metric), "{metric}");
    let mut found = moment.samples.iter().filter(|sample| {
        let series = &sample.series;
        series.metric().name == metric
            && series.part == part
            && labels.iter().all(|(name, value)| series.label(name) == Some(value))
    });
    let first = found.next().map(|sample| sample.value);
    assert!(found.next().is_none(), "{metric} {labels:?} is more than one series");
    first
}

fn shown(moment: &Moment) -> String {
    let series = moment.samples.iter().filter(|sample| sample.value != 0.0);
    series
        .map(|sample| format!("{} {:?} {}\n", sample.series.metric().name, sample.series.labels, sample.value))
        .collect()
}

/// The endings that were seen, and how often.
fn endings(moment: &Moment, pattern: &str) -> Vec<(String, f64)> {
    let of = |sample: &&lockscope::metrics::Sample| {
        sample.series.metric().name == ENDED && sample.series.label("pattern") == Some(pattern)
    };
    let ended = moment.samples.iter().filter(of);
    ended.map(|sample| (sample.series.label("ending").unwrap().to_string(), sample.value)).collect()
}

/// What the daemon adds, beside what the engine knows.
const ADDED: [&str; 6] = [
    "lockscope_build_",
    "lockscope_store_",
    "lockscope_alerts",
    "lockscope_rule_",
    "lockscope_notifications_",
    "process_",
];

#[test]
fn the_engine_measures_every_metric_that_is_not_added_later() {
    let sources = [include_str!("../src/metrics/patterns.rs"), include_str!("../src/engine/moment.rs")];
    let measured = |name: &str| sources.iter().any(|source| source.contains(&format!("MetricId::of(\"{name}\")")));
    let exposed = METRICS.iter().filter(|metric| metric.kind != Kind::Derived).map(|metric| metric.name);
    let owed = exposed.filter(|name| !ADDED.iter().any(|added| name.starts_with(added)));
    assert_eq!(owed.filter(|name| !measured(name)).collect::<Vec<_>>(), [""; 0]);
}

const ORDERS: (&str, &str) = ("pattern", "lock:order:*");

#[tokio::test]
async fn a_hold_is_counted_from_its_beginning_to_its_end() {
    let server = Server::notifying(&[]);
    let mut measuring = Measuring::start(&server, Feed::Notifications).await;
    server.cli(&["SET", "lock:order:1", "anna", "NX", "PX", "60000"]);
    let taken = measuring.until_is("lockscope_locks", &[ORDERS, ("state", "held")], 1.0).await;
    assert_eq!(value(&taken, "lockscope_holds_started_total", &[ORDERS]), Some(1.0));
    let all = [
        "released",
        "expired",
        "evicted",
        "flushed",
        "renamed",
        "failover",
        "restart",
        "slot-taken",
        "unseen",
        "taken",
        "forced",
    ];
    assert_eq!(
        endings(&taken, ORDERS.1),
        all.map(|ending| (ending.to_string(), 0.0)),
        "each is there before it happens"
    );
    let states = taken.samples.iter().filter(|sample| sample.series.metric().name == "lockscope_locks").count();
    assert_eq!(states, 12, "every state is there, also at 0");
    let oldest = value(&taken, "lockscope_oldest_hold_timestamp_seconds", &[ORDERS]).unwrap();
    assert!((taken.at.0 as f64 / 1_000.0 - oldest).abs() < 10.0, "{oldest}");
    // Nobody runs the engine meanwhile, so all three may be heard of in the same moment.
    for _ in 0..3 {
        server.cli(&["PEXPIRE", "lock:order:1", "60000"]);
    }
    measuring.until_is("lockscope_renewals_total", &[ORDERS], 3.0).await;
    server.cli(&["DEL", "lock:order:1"]);
    let over = measuring.until_is(ENDED, &[ORDERS, ("ending", "released")], 1.0).await;
    assert_eq!(value(&over, "lockscope_renewals_total", &[ORDERS]), Some(3.0));
    assert_eq!(part(&over, "lockscope_hold_duration_seconds", Part::Count, &[ORDERS]), Some(1.0));
    assert_eq!(part(&over, "lockscope_renewal_interval_seconds", Part::Count, &[ORDERS]), Some(3.0));
    assert_eq!(part(&over, "lockscope_handover_duration_seconds", Part::Count, &[ORDERS]), Some(0.0));
    server.cli(&["SET", "lock:order:1", "otto", "NX", "PX", "60000"]);
    let again = measuring.until_is("lockscope_holds_started_total", &[ORDERS], 2.0).await;
    let bucket = [ORDERS, ("le", "10")];
    assert_eq!(part(&again, "lockscope_handover_duration_seconds", Part::Bucket, &bucket), Some(1.0));
    server.cli(&["DEL", "lock:order:1"]);
    let free = measuring.until_is("lockscope_locks", &[ORDERS, ("state", "held")], 0.0).await;
    assert_eq!(value(&free, "lockscope_oldest_hold_timestamp_seconds", &[ORDERS]), None, "there is none");
}

#[tokio::test]
async fn each_way_to_lose_a_lock_is_counted_apart() {
    let server = Server::notifying(&["--maxmemory-policy", "volatile-ttl"]);
    let mut measuring = Measuring::start(&server, Feed::Notifications).await;
    let held = [ORDERS, ("state", "held")];
    server.cli(&["SET", "lock:order:1", "anna", "NX", "PX", "50"]);
    measuring.until_is(ENDED, &[ORDERS, ("ending", "expired")], 1.0).await;

    server.cli(&["SET", "lock:order:2", "anna", "NX", "PX", "60000"]);
    measuring.until_is("lockscope_holds_started_total", &[ORDERS], 2.0).await;
    server.cli(&["SET", "lock:order:2", "otto", "PX", "60000"]);
    measuring.until_is(ENDED, &[ORDERS, ("ending", "taken")], 1.0).await;

    server.cli(&["RENAME", "lock:order:2", "elsewhere"]);
    measuring.until_is(ENDED, &[ORDERS, ("ending", "renamed")], 1.0).await;
    server.cli(&["DEL", "elsewhere"]);

    server.cli(&["SET", "lock:order:3", "anna", "NX", "PX", "60000"]);
    measuring.until_is("lockscope_holds_started_total", &[ORDERS], 4.0).await;
    let memory: String = server.ask(&["INFO", "memory"]);
    let used: u64 = field(&memory, "used_memory").unwrap().parse().unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", &(used + 1_000_000).to_string()]);
    for number in 0..100 {
        // The last ones find no room.
        let _ = server.try_ask::<(), _>(&["SET", &format!("other:{number}"), &"x".repeat(20_000)]);
    }
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    measuring.until_is(ENDED, &[ORDERS, ("ending", "evicted")], 1.0).await;

    for number in 4..7 {
        server.cli(&["SET", &format!("lock:order:{number}"), "anna", "NX", "PX", "60000"]);
    }
    measuring.until_is("lockscope_locks", &held, 3.0).await;
    server.cli(&["FLUSHALL"]);
    measuring.until_is(ENDED, &[ORDERS, ("ending", "flushed")], 3.0).await;
    let moment = measuring.until_is("lockscope_locks", &held, 0.0).await;
    let seen: Vec<(String, f64)> = endings(&moment, ORDERS.1).into_iter().filter(|(_, count)| *count > 0.0).collect();
    let expected = [("expired", 1.0), ("evicted", 1.0), ("flushed", 3.0), ("renamed", 1.0), ("taken", 1.0)];
    assert_eq!(seen, expected.map(|(ending, count)| (ending.to_string(), count)));
    assert_eq!(value(&moment, "lockscope_holds_started_total", &[ORDERS]), Some(7.0));
}

#[tokio::test]
async fn what_was_not_counted_is_not_nought() {
    let server = Server::notifying(&[]);
    let mut measuring = Measuring::start(&server, Feed::Notifications).await;
    server.cli(&["SET", "lock:order:1", "anna", "NX", "PX", "60000"]);
    let moment = measuring.until_is("lockscope_locks", &[ORDERS, ("state", "held")], 1.0).await;
    for metric in ["waiters", "waiters_max", "missed_renewals_max", "attempts_per_second", "failures_per_second"] {
        assert_eq!(value(&moment, &format!("lockscope_{metric}"), &[]), None, "{metric}");
    }
    assert_eq!(value(&moment, "lockscope_sampling_coverage_ratio", &[]), Some(0.0), "nobody asked for MONITOR");

    // A lock of Redisson is waited for at a channel, so its waiters can be counted.
    let thread = "2f1c6e9a-0a7b-4c7d-9d5e-1f2a3b4c5d6e:57";
    let _waiter = Listener::on(&server, "SUBSCRIBE", "redisson_lock__channel:{lock:cart}");
    server.cli(&["HSET", "lock:cart", thread, "1"]);
    server.cli(&["PEXPIRE", "lock:cart", "30000"]);
    let carts = ("pattern", "lock:cart");
    let moment = measuring.until_is("lockscope_waiters", &[carts], 1.0).await;
    assert_eq!(value(&moment, "lockscope_waiters_max", &[carts]), Some(1.0));
    assert_eq!(value(&moment, "lockscope_waiters", &[ORDERS]), None, "a plain lock has no queue");

    measuring.engine.sample(true);
    let moment = measuring.until("a burst of MONITOR", |moment| {
        value(moment, "lockscope_failures_per_second", &[ORDERS, ("source", "sampled")]).is_some()
    });
    let moment = moment.await;
    assert_eq!(value(&moment, "lockscope_failures_per_second", &[ORDERS]), Some(0.0), "that is known now");
    assert!(value(&moment, "lockscope_sampling_coverage_ratio", &[]).unwrap() > 0.0);
}

#[tokio::test]
async fn of_a_server_that_is_lost_nothing_is_told_but_what_was_counted() {
    let mut server = Server::notifying(&[]);
    let mut measuring = Measuring::start(&server, Feed::Notifications).await;
    server.cli(&["SET", "lock:order:1", "anna", "NX", "PX", "600000"]);
    let moment = measuring.until_is("lockscope_locks", &[ORDERS, ("state", "held")], 1.0).await;
    assert_eq!(value(&moment, "lockscope_up", &[]), Some(1.0));
    assert_eq!(value(&moment, "lockscope_stream", &[("mode", "notifications")]), Some(1.0));
    assert_eq!(value(&moment, "lockscope_data_stale", &[]), Some(0.0));
    assert!(value(&moment, "lockscope_events_total", &[]).unwrap() >= 2.0);
    assert_eq!(value(&moment, "lockscope_events_lost_total", &[]), Some(0.0));
    assert_eq!(value(&moment, "lockscope_reconnects_total", &[]), Some(0.0));
    assert!(value(&moment, "lockscope_server_busy_seconds_total", &[]).unwrap() > 0.0);
    server.kill();
    let lost = measuring.until("the locks to be dropped", |moment| {
        value(moment, "lockscope_up", &[]) == Some(0.0)
            && moment.samples.iter().all(|sample| sample.series.metric().name != "lockscope_locks")
    });
    let lost = lost.await;
    for metric in ["stream", "sampling_coverage_ratio", "oldest_hold_timestamp_seconds"] {
        assert_eq!(value(&lost, &format!("lockscope_{metric}"), &[]), None, "{metric}");
    }
    assert_eq!(value(&lost, "lockscope_data_stale", &[]), Some(1.0));
    assert_eq!(value(&lost, "lockscope_locks_unconfirmed", &[ORDERS]), Some(1.0));
    assert_eq!(value(&lost, "lockscope_inventory_complete", &[]), Some(0.0));
    assert_eq!(value(&lost, "lockscope_holds_started_total", &[ORDERS]), Some(1.0), "that has happened");
    server.restart();
    let back = measuring.until_is(ENDED, &[ORDERS, ("ending", "restart")], 1.0).await;
    assert_eq!(value(&back, "lockscope_up", &[]), Some(1.0));
    let calm = measuring.until_is("lockscope_locks", &[ORDERS, ("state", "held")], 0.0).await;
    assert_eq!(value(&calm, "lockscope_data_stale", &[]), Some(0.0));
    assert!(value(&calm, "lockscope_reconnects_total", &[]).unwrap() >= 1.0);
}

#[tokio::test]
async fn where_nothing_tells_of_changes_polling_is_told_and_counts_on() {
    let server = Feed::Polling.server();
    let mut measuring = Measuring::start(&server, Feed::Polling).await;
    assert!(matches!(measuring.engine.nodes().next().unwrap().stream, Stream::Live(_)));
    assert_eq!(value(&measuring.moment(), "lockscope_stream", &[("mode", "polling")]), Some(1.0));
    server.cli(&["SET", "lock:order:1", "anna", "NX", "PX", "600000"]);
    measuring.engine.scan();
    measuring.until_is("lockscope_locks", &[ORDERS, ("state", "held")], 1.0).await;
    server.cli(&["DEL", "lock:order:1"]);
    measuring.until_is(ENDED, &[ORDERS, ("ending", "released")], 1.0).await;
}
