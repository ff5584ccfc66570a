//! From a guess to a page: a load on a real server is recorded by `serve`, the rule is tuned on it in the console and written
//! back, exported with its test, and then promtool and a real Prometheus fire where the tuner said.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::path::Path;
use std::time::Duration;

use common::promtool::{promtool, run};
use common::{Desk, Prometheus, Server, Serving, binary, process, wait_until};
use lockscope::base::time::Time;
use lockscope::metrics::{MetricId, Series};
use lockscope::store::History;
use terminal::Terminal;

const PATIENCE: Duration = Duration::from_secs(60);
const RULE: &str = "ManyJobs";
const RULES: &str = r#"default_rules = false
[[rules]]
name = "ManyJobs"
metric = "lockscope_locks"
selector = "pattern:lock:job:* state:held"
above = 3 # a guess
severity = "page"
"#;
/// What Prometheus has of the locks that are held.
const HELD: &str = "lockscope_locks{pattern=\"lock:job:*\", state=\"held\"}";
const FIRING: &str = "ALERTS{alertname=\"ManyJobs\", alertstate=\"firing\"}";

/// Holds that many locks from now on.
fn hold(server: &Server, locks: usize) {
    for number in 0..10 {
        let key = format!("lock:job:{number}");
        match number < locks {
            true => server.cli(&["SET", &key, &format!("worker-{number}"), "NX", "PX", "600000"]),
            false => server.cli(&["DEL", &key]),
        };
    }
}

/// Waits until the store has seen that many for longer than an evaluation takes to come.
fn recorded(store: &Path, locks: usize, begun: usize) -> usize {
    let metric = MetricId::named("lockscope_locks").unwrap();
    let wanted =
        |series: &Series| series.label("pattern") == Some("lock:job:*") && series.label("state") == Some("held");
    let seen = || {
        let columns = History::open(store).and_then(|history| history.series(metric, &wanted, Time(0), Time(i64::MAX)));
        let Ok(columns) = columns else { return 0 };
        let points = columns.columns.iter().flat_map(|column| column.points(&columns.times));
        points.filter(|(_, value)| *value == locks as f64).count()
    };
    wait_until(&format!("{locks} locks to be recorded"), PATIENCE, || seen() >= begun + 7);
    seen()
}

/// The numbers of a row, as it is and of the candidate.
fn row(screen: &str, name: &str) -> Vec<String> {
    let line =
        screen.lines().find_map(|line| line.split_once(&format!(" {name} ")).or(line.split_once(&format!("▸{name} "))));
    line.map_or(Vec::new(), |(_, rest)| rest.split_whitespace().map(String::from).collect())
}

/// Moves the threshold from 3 to 5 and writes the rule back; the tuner says that one of two firings is left.
fn tune(server: &Server, store: &Path, rules: &Path) {
    let url = server.url();
    let options = ["-u", &url, "--store", store.to_str().unwrap(), "--rules", rules.to_str().unwrap()];
    let mut terminal = Terminal::start(binary().to_str().unwrap(), &options, &[]);
    terminal.wait_for("the locks", |screen| screen.contains("live"));
    terminal.press("4");
    terminal.wait_for("the rule", |screen| screen.lines().any(|line| line.starts_with('▌') && line.contains(RULE)));
    terminal.press("T");
    let screen = terminal.wait_for("the tuner", |screen| screen.contains("as it is"));
    assert_eq!(row(&screen, "firings"), ["2"], "{screen}");
    terminal.press("\x1b[A\x1b[A");
    let screen = terminal.wait_for("the candidate", |screen| row(screen, "threshold") == [">", "3", ">", "5"]);
    assert_eq!(row(&screen, "firings"), ["2", "1"], "{screen}");
    terminal.press("w");
    terminal.wait_for("the difference", |screen| screen.contains("+ above = 5 # a guess"));
    terminal.press("\r");
    terminal.wait_for("that it was written", |screen| screen.contains("written to"));
    terminal.press("q");
    assert_eq!(terminal.wait_for_end().status.exit_code(), 0);
    assert_eq!(std::fs::read_to_string(rules).unwrap(), RULES.replace("3 #", "5 #"));
}

#[test]
fn a_rule_that_was_tuned_on_a_recorded_load_fires_in_prometheus_where_the_tuner_said() {
    let Some(program) = promtool() else { return };
    let server = Server::notifying(&[]);
    let folder = process::temporary_directory();
    let path = |name: &str| folder.path().join(name);
    let text = |name: &str| path(name).to_str().unwrap().to_string();
    std::fs::write(path("rules.toml"), RULES).unwrap();
    let serving = Serving::start(&server, &["--store", &text("history"), "--rules", &text("rules.toml")]);
    let mut calm = 0;
    for busy in [5, 8] {
        hold(&server, 2);
        calm = recorded(&path("history"), 2, calm);
        hold(&server, busy);
        recorded(&path("history"), busy, 0);
    }
    hold(&server, 2);
    recorded(&path("history"), 2, calm);
    tune(&server, &path("history"), &path("rules.toml"));

    // promtool: the recorded firing that is left fires by the exported rule.
    let ran = Desk::at(&server).run_bare(&[
        "rules",
        "export",
        "--tests",
        "--interval",
        "2s",
        "--store",
        &text("history"),
        "--rules",
        &text("rules.toml"),
        "--out",
        &text("out"),
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let test = std::fs::read_to_string(path("out/lockscope.rules.test.yml")).unwrap();
    assert!(test.contains(&format!("- name: '{RULE} at ")), "{}\n{test}", ran.err);
    let output = run(&program, &path("out"), &["test", "rules", "lockscope.rules.test.yml"]);
    assert!(output.status.success(), "{}\n{test}", String::from_utf8_lossy(&output.stderr));

    // Prometheus: what fired by the guess does not fire any more, and what the tuner left does.
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\n\
         scrape_configs: [{{job_name: lockscope, static_configs: [{{targets: ['{}']}}]}}]\n",
        serving.address()
    );
    let exported = std::fs::read_to_string(path("out/lockscope.rules.yml")).unwrap();
    let Some(prometheus) = Prometheus::start(&config, &exported) else { return };
    hold(&server, 5);
    prometheus.waits_for(&format!("min_over_time({HELD}[5s]) == 5 and count_over_time({HELD}[5s]) >= 4"), true);
    assert!(prometheus.query(&format!("max_over_time({FIRING}[5m])")).is_empty(), "5 is no longer a page");
    hold(&server, 8);
    prometheus.waits_for(FIRING, true);
    hold(&server, 2);
    prometheus.waits_for(FIRING, false);

    // And its own history replays so.
    let ran = Desk::at(&server).run_bare(&["tune", "--prometheus", &prometheus.url(), "--rule", RULE, "--from", "5m"]);
    assert!(ran.out.contains("calibration: reproduces 1 of 1 recorded firings"), "{} {}", ran.out, ran.err);
}
