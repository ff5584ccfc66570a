//! The user's own Prometheus: a week of a rule with 20 series is read and replayed.
//!
//! The week is made with promtool, as blocks of a real Prometheus, which then answers. It lies behind the last three hours,
//! where blocks are not read.

use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockscope::base::time::Time;
use lockscope::prometheus::Prometheus;
use lockscope::settings::cli::OwnTune;

use crate::common::Prometheus as Server;
use crate::limit::{Limit, Measured, whole};
use crate::report::{Figure, Report};

const STEP: u64 = 15;
const WEEK: u64 = 7 * 86_400;
const SERIES: usize = 20;
const RULE: &str = "Deep";
const CONFIG: &str = "global: {evaluation_interval: 15s}\nrule_files: [rules.yml]\n";
const RULES: &str =
    "groups:\n  - name: queues\n    rules:\n      - alert: Deep\n        expr: queue_depth > 90\n        for: 2m\n";

pub fn measure(report: &mut Report, rounds: usize) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let to = (now - 3 * 3_600) / STEP * STEP;
    let Some(server) = Server::with_history(CONFIG, RULES, &history(to - WEEK, to)) else {
        report.note("there is no Prometheus here: what it takes to read a week of one was not measured".into());
        return;
    };
    let at = |seconds: u64| Time(seconds as i64 * 1_000).rfc3339();
    let typed = format!("--prometheus {} --rule {RULE} --from {} --to {}", server.url(), at(to - WEEK), at(to - 1));
    let asked = OwnTune::parse(&typed).expect("options of tune");
    let (global, options) = asked.options().expect("options of tune");
    let prometheus = Prometheus::of(&global, &options, &server.url()).expect("an address");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let read = || {
        let began = Instant::now();
        let trial = runtime.block_on(async {
            let rules = prometheus.some_rules().await?;
            prometheus.trial(prometheus.named(&rules, RULE)?, &options, Time(now as i64 * 1_000), |_, _| ()).await
        });
        let took = began.elapsed();
        let trial = trial.unwrap_or_else(|why| panic!("{why}"));
        let tracks = &trial.subject.tracks;
        assert_eq!((tracks.tracks.len(), u64::from(tracks.grid.count) * STEP), (SERIES, WEEK));
        assert!(trial.current.outcome.firings > 0, "a rule that never fires shows nothing");
        took.as_secs_f64() * 1_000.0
    };
    report.add(Figure {
        name: format!("ms to read and replay a week at 15 s of {SERIES} series from a Prometheus"),
        measured: Measured::of((0..rounds).map(|_| read()).collect()),
        limit: Limit::AtMost(Duration::from_secs(2).as_secs_f64() * 1_000.0),
        show: whole,
        command: "prometheus::trial, with what the Prometheus itself takes to answer".into(),
    });
}

/// A week of random walks, as OpenMetrics.
fn history(from: u64, to: u64) -> String {
    let mut text = String::from("# TYPE queue_depth gauge\n");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for series in 0..SERIES {
        let mut depth = 50_i64;
        for at in (from..to).step_by(STEP as usize) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            depth = (depth + (random >> 33) as i64 % 11 - 5).clamp(0, 120);
            let _ = writeln!(text, "queue_depth{{queue=\"q{series}\"}} {depth} {at}");
        }
    }
    text + "# EOF\n"
}
