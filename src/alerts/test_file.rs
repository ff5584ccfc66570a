//! A file for `promtool test rules`: recorded episodes with the alerts that they must give. Pure.
//!
//! The expected alerts are those of our evaluator over the same samples. Readings are whole seconds off the grid of evaluations,
//! where all versions of Prometheus agree; a step at which they do not is left out.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::alerts::promql::{one, quoted, runbook_key, yaml};
use crate::alerts::read::written;
use crate::alerts::{AlertState, Point, Prometheus, Rule, Watched};
use crate::base::time::Time;
use crate::metrics::Series;

/// As Prometheus looks back.
const LOOKBACK: Duration = Duration::from_secs(300);

/// Series around one alert of a rule. Their times begin at zero, and are whole seconds.
#[derive(Clone, Debug)]
pub struct Excerpt {
    pub rule: Rule,
    pub name: String,
    pub series: Vec<(Series, Vec<Point>)>,
    pub length: Duration,
}

/// The alerts that fire at one step, by their labels.
type Firing = Vec<BTreeMap<String, String>>;

impl Excerpt {
    /// What fires after each step; `None` where the versions of Prometheus differ.
    fn course(&self, interval: Duration) -> Vec<Option<Firing>> {
        let [oldest, middle, newest] = [Prometheus::Before2_51, Prometheus::Before3, Prometheus::Since3]
            .map(|version| self.fires(interval, version));
        let steps = oldest.into_iter().zip(middle).zip(newest);
        steps.map(|((one, two), three)| (one == two && two == three).then_some(three)).collect()
    }

    fn fires(&self, interval: Duration, version: Prometheus) -> Vec<Firing> {
        let mut watched = Watched::new(self.rule.clone(), LOOKBACK, version);
        for (series, points) in &self.series {
            watched.add(series, points);
        }
        let mut course = Vec::new();
        let mut at = Time(0);
        while at.0 <= self.length.as_millis() as i64 {
            watched.step(at, |_| ());
            let firing = watched.alerts().filter(|alert| alert.state == AlertState::Firing);
            course.push(firing.map(|alert| alert.labels).collect());
            at = at + interval;
        }
        course
    }

    /// The steps that are checked: those at which what fires changes, the ones before, and the last.
    fn checks(&self, interval: Duration) -> Vec<(Duration, Firing)> {
        let course = self.course(interval);
        let changes = |at: usize| at > 0 && course.get(at).is_some_and(|now| *now != course[at - 1]);
        let wanted = (0..course.len()).filter(|at| changes(*at) || changes(*at + 1) || *at + 1 == course.len());
        wanted.filter_map(|at| Some((interval * at as u32, course[at].clone()?))).collect()
    }

    /// Whether anything fires in it, in every version of Prometheus.
    pub fn fires_at(&self, interval: Duration) -> bool {
        self.checks(interval).iter().any(|(_, firing)| !firing.is_empty())
    }
}

/// The file, for rules in the file of that name that are evaluated each `interval`.
pub fn test_file(rules: &str, interval: Duration, episodes: &[Excerpt]) -> String {
    let mut out = format!("rule_files: [{}]\nevaluation_interval: {}\ntests:", yaml(rules), written(interval));
    out += if episodes.is_empty() { " []\n" } else { "\n" };
    for episode in episodes {
        write_episode(&mut out, episode, interval);
    }
    out
}

fn write_episode(out: &mut String, episode: &Excerpt, interval: Duration) {
    let _ = writeln!(out, "  - name: {}\n    interval: 1s\n    input_series:", yaml(&episode.name));
    if episode.series.is_empty() {
        out.truncate(out.len() - 1);
        out.push_str(" []\n");
    }
    for (series, points) in &episode.series {
        let _ = writeln!(out, "      - series: {}\n        values: '{}'", yaml(&selector(series)), values(points));
    }
    let exported = one(&episode.rule);
    let _ = writeln!(out, "    alert_rule_test:");
    for (at, firing) in episode.checks(interval) {
        let _ = writeln!(out, "      - eval_time: {}\n        alertname: {}", written(at), yaml(&exported.alert));
        let _ = writeln!(out, "        exp_alerts:{}", if firing.is_empty() { " []" } else { "" });
        for labels in firing {
            let known = labels.iter().filter(|(_, value)| !value.is_empty());
            let labels = exported.labels.iter().map(|(name, value)| (*name, value.as_str()));
            let labels = labels.chain(known.map(|(name, value)| (name.as_str(), value.as_str())));
            let labels: Vec<String> = labels.map(|(name, value)| format!("{name}: {}", yaml(value))).collect();
            let _ = writeln!(out, "          - exp_labels: {{{}}}", labels.join(", "));
            // The templates of the rule come out as the text that was written.
            let texts =
                [("description", &episode.rule.note), (runbook_key(&episode.rule.runbook), &episode.rule.runbook)];
            let texts = texts.iter().filter(|(_, text)| !text.is_empty());
            let texts: Vec<String> = texts.map(|(name, text)| format!("{name}: {}", yaml(text))).collect();
            if !texts.is_empty() {
                let _ = writeln!(out, "            exp_annotations: {{{}}}", texts.join(", "));
            }
        }
    }
}

/// A series as PromQL selects it.
pub fn selector(series: &Series) -> String {
    let labels = series.metric().labels.iter().zip(&series.labels).filter(|(_, value)| !value.is_empty());
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    format!("{}{{{}}}", series.metric().name, labels.join(","))
}

/// Points in promtool's notation: a value for each second from zero on, `_` for none.
pub fn values(points: &[Point]) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut next = 0;
    for point in points {
        let second = point.at.0 / 1_000;
        if second > next {
            out.push(format!("_x{}", second - next));
        }
        out.push(match point.value {
            _ if point.is_stale() => "stale".into(),
            value if value.is_nan() => "NaN".into(),
            f64::INFINITY => "Inf".into(),
            f64::NEG_INFINITY => "-Inf".into(),
            value => value.to_string(),
        });
        next = second + 1;
    }
    if out.is_empty() { "_".into() } else { out.join(" ") }
}
