//! A real Prometheus scrapes `serve` and evaluates our rules: its alerts are those of our evaluator, of the log of the daemon and
//! of its store, of `check` over that store, and of the Alerts screen.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::prometheus::Raw;
use common::promtool::{promtool, run};
use common::{Desk, Prometheus, Server, Serving, binary, process};
use lockscope::alerts::{AlertState, Evaluator, Rules, exported};
use lockscope::base::time::Time;
use lockscope::metrics::{METRICS, MetricId, Moment, Part, Sample, Series};
use lockscope::store::History;
use serde_json::Value;
use terminal::Terminal;

/// One step of both evaluators, in milliseconds, and of a scrape.
const EVALUATION: i64 = 5_000;
const SCRAPE: i64 = 1_000;

const RULES: &str = r#"
default_rules = false
[[rules]]
name = "NoTtl"
metric = "lockscope_locks"
selector = "state:no-ttl"
above = 0
for = "5s"
keep_firing_for = "10s"
severity = "page"
[[rules]]
name = "Many"
metric = "lockscope_locks"
selector = "state:held"
above = 3
recover = 1
severity = "ticket"
[[rules]]
name = "Released"
metric = "lockscope_holds_ended_total"
selector = "ending:released"
window = "20s"
above = 0
severity = "info"
[[rules]]
name = "Blind"
metric = "lockscope_up"
below = 1
for = "5s"
severity = "page"
[[rules]]
name = "Gone"
metric = "lockscope_absent"
above = 0
for = "5s"
severity = "page"
"#;

/// Which alert is in which state: the rule, its labels, the state.
type Alerts = BTreeSet<(String, BTreeMap<String, String>, String)>;

fn config(serving: &Serving) -> String {
    format!(
        "global:\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  evaluation_interval: 5s\nrule_files: [rules.yml]\n\
         scrape_configs:\n  - job_name: lockscope\n    static_configs:\n      - targets: ['{}']\n",
        serving.address()
    )
}

#[test]
fn prometheus_the_log_the_store_check_and_the_screen_tell_the_same_firings() {
    let server = Server::notifying(&[]);
    let directory = process::temporary_directory();
    let file = directory.path().join("rules.toml");
    std::fs::write(&file, RULES).unwrap();
    let store = directory.path().join("history");
    let serving = Serving::start(&server, &["--rules", file.to_str().unwrap(), "--store", store.to_str().unwrap()]);
    let rules = Rules::parse(RULES).unwrap();
    // The times of all evaluations are those of one more rule in the same group.
    let yaml = exported(&rules, "locks") + "      - record: evaluated\n        expr: vector(1)\n";
    let Some(prometheus) = Prometheus::start(&config(&serving), &yaml) else { return };
    let tellers = Tellers::start(&server, &file, &store);
    let told = incident(server, serving, &prometheus, tellers);
    let scraped = Scraped::read(&prometheus);
    let mut evaluator = Evaluator::like(
        rules,
        Duration::from_millis(EVALUATION as u64),
        Duration::from_secs(300),
        prometheus.version(),
    );
    let (mut course, mut wrong) = (Vec::new(), Vec::new());
    for at in &scraped.evaluated {
        scraped.feed(&mut evaluator, course.last().map_or(i64::MIN, |(at, _): &(i64, Alerts)| *at), *at);
        evaluator.evaluate(Time(*at));
        let ours = alerts(&evaluator);
        let theirs = scraped.alerts.get(at).cloned().unwrap_or_default();
        // Of its first two evaluations Prometheus writes no alerts: it waits for them before it restores those of before.
        if ours != theirs && course.len() >= 2 {
            wrong.push(format!("evaluation {} at {at}: ours {ours:?}\n   theirs {theirs:?}", course.len()));
        }
        course.push((*at, ours));
    }
    let fired: BTreeSet<&str> = course.iter().flat_map(|(_, alerts)| alerts).map(|(rule, ..)| rule.as_str()).collect();
    assert_eq!(
        fired,
        BTreeSet::from(["NoTtl", "Many", "Released", "Blind", "Gone"]),
        "each rule has something to tell"
    );
    assert!(wrong.is_empty(), "{} of {} evaluations differ:\n{}", wrong.len(), course.len(), wrong.join("\n"));
    for (who, (late, rules), told) in [
        // A moment is logged within the second after it.
        ("the daemon", (1_000, &["NoTtl", "Many", "Blind"][..]), told.daemon),
        ("the store", (0, &["NoTtl", "Many", "Blind"]), logged(&store)),
        // A process is started for each answer.
        ("check", (PAUSE + 2_000, &["NoTtl", "Many", "Blind"]), told.check),
        // It has a clock and connections of its own: when a server is silent it notices at another time.
        ("the screen", (2_000, &["NoTtl", "Many"]), told.screen),
    ] {
        compare(who, &course, &told, late, rules);
    }
}

/// Makes trouble until every rule has fired, and all but the last have ended. Returns what was told of it.
fn incident(server: Server, mut serving: Serving, prometheus: &Prometheus, tellers: Tellers) -> Told {
    let firing = |rule: &str| format!("ALERTS{{alertname=\"{rule}\", alertstate=\"firing\"}}");
    prometheus.waits_for("count_over_time(evaluated[1m]) > 2 and on() lockscope_up == 1", true);
    server.cli(&["SET", "lock:forever", "holder"]);
    for lock in 1..=5 {
        server.cli(&["SET", &format!("lock:order:{lock}"), "holder", "PX", "600000"]);
    }
    prometheus.waits_for(&firing("NoTtl"), true);
    prometheus.waits_for(&firing("Many"), true);
    // Above the level at which it recovers, and then below.
    server.cli(&["DEL", "lock:order:1", "lock:order:2", "lock:order:3"]);
    prometheus.waits_for(&firing("Released"), true);
    prometheus.waits_for("sum(lockscope_locks{state=\"held\"}) == 2 and on() ALERTS{alertname=\"Many\"}", true);
    server.cli(&["DEL", "lock:order:4", "lock:forever"]);
    prometheus.waits_for(&firing("Many"), false);
    prometheus.waits_for(&firing("NoTtl"), false);
    seen_by_all(prometheus);
    // What fires when the server stops answering is not over.
    server.cli(&["SET", "lock:forever", "holder"]);
    prometheus.waits_for(&firing("NoTtl"), true);
    seen_by_all(prometheus);
    server.pause();
    prometheus.waits_for("lockscope_up == 0 unless on () lockscope_locks{state=\"no-ttl\"}", true);
    prometheus.waits_for(&firing("Blind"), true);
    // Trouble that ends as soon as one of two sees it need not be seen by the other.
    serving.says("fires: value 0, threshold 1");
    prometheus.waits_for(&firing("NoTtl"), true);
    server.resume();
    prometheus.waits_for(&firing("Blind"), false);
    prometheus.waits_for(&firing("NoTtl"), true);
    server.cli(&["DEL", "lock:forever"]);
    prometheus.waits_for(&firing("NoTtl"), false);
    serving.says("is over: value 0, threshold 1");
    seen_by_all(prometheus);
    // What fires when lockscope itself is gone is not over either.
    server.cli(&["SET", "lock:forever", "holder"]);
    prometheus.waits_for(&firing("NoTtl"), true);
    seen_by_all(prometheus);
    let (check, screen) = tellers.end();
    let lines = serving.lines();
    let said = lines.iter().filter_map(|(at, line)| {
        let over = line.contains(" is over: ");
        let rule = line.split(' ').nth(1).filter(|_| over || line.contains(" fires: "))?;
        Some((*at, rule.to_string(), !over))
    });
    let daemon = said.collect();
    drop(serving);
    prometheus.waits_for(&firing("Gone"), true);
    seen_by_all(prometheus);
    prometheus.waits_for(&format!("{} and on () {}", firing("NoTtl"), firing("Gone")), true);
    Told { daemon, check, screen }
}

/// Everybody evaluates at times of their own: waits until each has done so once more.
fn seen_by_all(prometheus: &Prometheus) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs();
    let long = (EVALUATION + 2 * SCRAPE) as u64 / 1_000;
    prometheus.waits_for(&format!("timestamp(evaluated) > {}", now + long), true);
}

/// When a rule fired, and when it was over: the time, the rule, whether it fires.
type Changes = Vec<(i64, String, bool)>;

struct Told {
    daemon: Changes,
    check: Changes,
    screen: Changes,
}

/// Time between two questions to `check`, in milliseconds.
const PAUSE: i64 = 500;

/// Those who are asked again and again while it happens.
struct Tellers {
    over: Arc<AtomicBool>,
    check: JoinHandle<Changes>,
    screen: JoinHandle<Changes>,
}

impl Tellers {
    fn start(server: &Server, rules: &Path, store: &Path) -> Tellers {
        let over = Arc::new(AtomicBool::new(false));
        let (rules, store) = (rules.to_str().unwrap().to_string(), store.to_str().unwrap().to_string());
        let (url, desk) = (server.url(), Desk::at(server));
        let arguments = [url.clone(), rules.clone()];
        let checking = move || -> BTreeSet<String> {
            let ran = desk.run_bare(&["check", "--store", &store, "--rules", &rules, "--json"]);
            let document: Value = serde_json::from_str(&ran.out).unwrap_or_else(|why| panic!("{why}: {}", ran.err));
            let alerts = document["alerts"].as_array().expect("a list").clone();
            let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
            firing.map(|alert| alert["rule"].as_str().unwrap().to_string()).collect()
        };
        let (ends, pause) = (over.clone(), Duration::from_millis(PAUSE as u64));
        let check = std::thread::spawn(move || follow(&ends, pause, checking));
        let ends = over.clone();
        let screen = std::thread::spawn(move || {
            let arguments = ["-u", &arguments[0], "--rules", &arguments[1]];
            let mut terminal = Terminal::start(binary().to_str().unwrap(), &arguments, &[]);
            terminal.wait_for("the console", |screen| screen.contains("READ-ONLY"));
            terminal.press("4");
            terminal.wait_for("the rules", |screen| screen.contains("inactive"));
            let firing = || {
                let text = terminal.screen().contents();
                let rows =
                    text.lines().map(|line| line.trim_start_matches('\u{258c}').split_whitespace().collect::<Vec<_>>());
                rows.filter(|words| words.first() == Some(&"FIRING")).map(|words| words[2].to_string()).collect()
            };
            let changes = follow(&ends, Duration::from_millis(100), firing);
            terminal.press("q");
            terminal.wait_for_end();
            changes
        });
        Tellers { over, check, screen }
    }

    fn end(self) -> (Changes, Changes) {
        self.over.store(true, Ordering::Relaxed);
        (self.check.join().unwrap(), self.screen.join().unwrap())
    }
}

/// Asks what fires until it is over.
fn follow(over: &AtomicBool, pause: Duration, mut firing: impl FnMut() -> BTreeSet<String>) -> Changes {
    let (mut changes, mut before) = (Changes::new(), BTreeSet::new());
    loop {
        // A change in the last moment is told, too.
        let last = over.load(Ordering::Relaxed);
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        let now = firing();
        changes.extend(before.symmetric_difference(&now).map(|rule: &String| (at, rule.clone(), now.contains(rule))));
        before = now;
        if last {
            return changes;
        }
        std::thread::sleep(pause);
    }
}

/// The log in the store.
fn logged(store: &Path) -> Changes {
    let changes = History::open(store).unwrap().alerts(Time(0), Time(i64::MAX)).unwrap();
    let firing = |state: AlertState| state == AlertState::Firing;
    let told = changes.into_iter().filter(|change| firing(change.from) != firing(change.alert.state));
    told.map(|change| (change.at.0, change.alert.rule, firing(change.alert.state))).collect()
}

/// What Prometheus has: every scrape, every evaluation, and the alerts after each.
struct Scraped {
    /// The samples of a scrape; `None` where it failed.
    scrapes: BTreeMap<i64, Option<Vec<Sample>>>,
    evaluated: Vec<i64>,
    alerts: BTreeMap<i64, Alerts>,
}

impl Scraped {
    fn read(prometheus: &Prometheus) -> Scraped {
        let up = prometheus.query("up[10m]");
        let mut scrapes: BTreeMap<i64, Option<Vec<Sample>>> =
            up[0].samples.iter().map(|(at, up)| (*at, (*up > 0.0).then(Vec::new))).collect();
        for (index, metric) in METRICS.iter().enumerate() {
            for raw in prometheus.query(&format!("{}[10m]", metric.name)) {
                let labels = metric.labels.iter().map(|name| raw.labels[*name].as_str().into()).collect();
                let series = Series { metric: MetricId(index as u16), part: Part::Value, labels };
                for (at, value) in raw.samples {
                    let scrape = scrapes.get_mut(&at).and_then(Option::as_mut).expect("a sample of a good scrape");
                    scrape.push(Sample { series: series.clone(), value });
                }
            }
        }
        let evaluated = prometheus.query("evaluated[10m]")[0].samples.iter().map(|(at, _)| *at).collect();
        let mut alerts: BTreeMap<i64, Alerts> = BTreeMap::new();
        for raw in prometheus.query("ALERTS[10m]") {
            for (at, _) in &raw.samples {
                alerts.entry(*at).or_default().insert(alert(&raw));
            }
        }
        Scraped { scrapes, evaluated, alerts }
    }

    /// Hands over what was scraped after one evaluation and up to the next.
    fn feed(&self, evaluator: &mut Evaluator, after: i64, until: i64) {
        for (at, scrape) in self.scrapes.range(after.saturating_add(1)..=until) {
            match scrape {
                Some(samples) => evaluator.take(&Moment { at: Time(*at), samples: samples.clone() }),
                None => evaluator.gap(Time(*at)),
            }
        }
    }
}

/// Without what the scrape and the rule add to the series' own labels.
fn alert(raw: &Raw) -> (String, BTreeMap<String, String>, String) {
    let mut labels = raw.labels.clone();
    ["__name__", "instance", "job", "severity"].iter().for_each(|name| drop(labels.remove(*name)));
    let mut take = |name: &str| labels.remove(name).expect("every alert has it");
    let (rule, state) = (take("alertname"), take("alertstate"));
    (rule, labels, state)
}

fn alerts(evaluator: &Evaluator) -> Alerts {
    let state = |state| if state == AlertState::Firing { "firing" } else { "pending" };
    let all = evaluator.status().flat_map(|status| status.alerts);
    all.map(|alert| (alert.rule, alert.labels, state(alert.state).to_string())).collect()
}

/// They saw every second what Prometheus scraped, and evaluated at other times of the same length.
fn compare(who: &str, course: &[(i64, Alerts)], told: &Changes, late: i64, rules: &[&str]) {
    let mut compared = 0;
    for rule in rules {
        let is_firing = |alerts: &Alerts| alerts.iter().any(|(name, _, state)| name == rule && state == "firing");
        let mut before = false;
        let changes = course.iter().filter_map(|(at, alerts)| {
            let now = is_firing(alerts);
            (std::mem::replace(&mut before, now) != now).then_some((*at, now))
        });
        let said = told.iter().filter(|(_, name, _)| name == rule).map(|(at, _, fires)| (*at, *fires));
        let changes: Vec<(i64, bool)> = changes.collect();
        let said: Vec<(i64, bool)> = said.collect();
        assert_eq!(
            changes.iter().map(|(_, fires)| fires).collect::<Vec<_>>(),
            said.iter().map(|(_, fires)| fires).collect::<Vec<_>>(),
            "{who}, {rule}: {changes:?} {said:?}\n{told:?}"
        );
        for ((theirs, _), (ours, _)) in changes.iter().zip(&said) {
            let apart = (theirs - ours).abs();
            assert!(apart <= EVALUATION + SCRAPE + late, "{who}, {rule}: {apart} ms apart");
            compared += 1;
        }
    }
    assert!(compared >= 2 * rules.len(), "{who}: only {compared} changes were compared");
}

#[test]
fn promtool_finds_nothing_wrong_with_any_series() {
    let Some(promtool) = promtool() else { return };
    let server = Server::notifying(&["--maxmemory-policy", "allkeys-lru"]);
    let names: [&[u8]; 4] = [b"lock:a\"b", b"lock:a\\b", b"lock:\xff\n", "lock:锁".as_bytes()];
    for name in names {
        server.cli(&[&b"SET"[..], name, b"holder", b"PX", b"600000"]);
    }
    let serving = Serving::start(&server, &["--monitor"]);
    serving.shows("lockscope_patterns", &[], Some(4.0));
    // A hold from its beginning to its end, a renewal, and a hand-over: every histogram has something in it.
    for _ in 0..3 {
        server.cli(&["SET", "lock:run", "holder", "NX", "PX", "60000"]);
        server.cli(&["SET", "lock:run", "other", "NX", "PX", "60000"]);
        server.cli(&["PEXPIRE", "lock:run", "60000"]);
        serving.shows("lockscope_locks", &["lock:run", "\"held\""], Some(1.0));
        server.cli(&["DEL", "lock:run"]);
        serving.shows("lockscope_locks", &["lock:run", "\"held\""], Some(0.0));
    }
    let directory = process::temporary_directory();
    let text = serving.metrics();
    std::fs::write(directory.path().join("metrics"), &text).unwrap();
    let script = format!("'{}' check metrics < metrics", promtool.display());
    let output = run(std::path::Path::new("sh"), directory.path(), &["-c", &script]);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}\n{text}");
    let series: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(series.iter().collect::<BTreeSet<_>>().len(), series.len(), "no series stands there twice");
}
