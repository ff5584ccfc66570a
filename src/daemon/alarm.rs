//! The rules at work: evaluated on a grid of times over the moments, and told when an alert fires or ends.
//!
//! The grid is finer than the 15 seconds that are usual for Prometheus, because a lease of 30 seconds leaves no time: an
//! alert comes at most one step later than its `for`.

use std::sync::Arc;
use std::time::Duration;

use crate::alerts::{Alert, AlertChange, AlertState, Evaluator, RuleStatus, Rules, Severity};
use crate::base::text::{figure, visible};
use crate::base::time::Time;
use crate::metrics::{MetricId, Moment};

/// How often the daemon evaluates the rules.
pub const EVERY: Duration = Duration::from_secs(5);
/// How old the newest value of a series may be, as for Prometheus.
pub const LOOKBACK: Duration = Duration::from_secs(300);

const ALERTS: MetricId = MetricId::of("lockscope_alerts");
const EVALUATIONS: MetricId = MetricId::of("lockscope_rule_evaluations_total");

pub struct Alarm {
    evaluator: Evaluator,
    /// The next time of the grid; `None` before the first moment.
    due: Option<Time>,
    evaluations: u64,
    /// Alerts that fired when the history ended, and go on.
    going_on: Vec<Alert>,
    names: Names,
}

/// Values of labels that stay the same.
struct Names {
    rules: Vec<Arc<str>>,
    severities: [(Severity, Arc<str>); 3],
    states: [(AlertState, Arc<str>); 2],
}

impl Alarm {
    pub fn new(rules: Rules) -> Alarm {
        Alarm::resumed(Evaluator::new(rules, EVERY, LOOKBACK))
    }

    /// Goes on where a history ended.
    pub fn resumed(evaluator: Evaluator) -> Alarm {
        let alerts = evaluator.status().flat_map(|status| status.alerts);
        let going_on = alerts.filter(|alert| alert.state == AlertState::Firing).collect();
        let names = Names {
            rules: evaluator.status().map(|status| Arc::from(visible(status.rule.name.as_bytes()))).collect(),
            severities: [Severity::Page, Severity::Ticket, Severity::Info].map(|one| (one, one.name().into())),
            states: [(AlertState::Firing, "firing".into()), (AlertState::Pending, "pending".into())],
        };
        Alarm { evaluator, due: None, evaluations: 0, going_on, names }
    }

    /// Takes a moment, and evaluates if a time of the grid has come. A time that was missed is skipped. What goes on firing
    /// from the history is told with the first.
    pub fn take(&mut self, moment: &Moment) -> Vec<AlertChange> {
        let goes_on = |alert| AlertChange { at: moment.at, from: AlertState::Firing, alert };
        let mut changes: Vec<AlertChange> = std::mem::take(&mut self.going_on).into_iter().map(goes_on).collect();
        self.evaluator.take(moment);
        let due = *self.due.get_or_insert_with(|| self.evaluator.next(moment.at));
        let next = self.evaluator.next(moment.at);
        // After a clock was set back, its old time may be far ahead.
        if moment.at < due && next == due {
            return changes;
        }
        self.due = Some(next);
        self.evaluations += 1;
        changes.extend(self.evaluator.evaluate(next - EVERY));
        changes
    }

    /// Every rule, as it was at the last evaluation.
    pub fn status(&self) -> impl Iterator<Item = RuleStatus<'_>> {
        self.evaluator.status()
    }

    /// Nothing was measured at this time.
    pub fn gap(&mut self, at: Time) {
        self.evaluator.gap(at);
        self.due = None;
    }

    /// Adds the series of the last evaluation.
    pub fn add(&self, moment: &mut Moment) {
        for (status, rule) in self.evaluator.status().zip(&self.names.rules) {
            let severity = self.names.severities.iter().find(|(severity, _)| *severity == status.rule.severity);
            let Some((_, severity)) = severity else { continue };
            for (state, name) in &self.names.states {
                let count = status.alerts.iter().filter(|alert| alert.state == *state).count();
                moment.push(ALERTS, &[rule, severity, name], count as f64);
            }
            moment.push(EVALUATIONS, &[rule], self.evaluations as f64);
        }
    }
}

/// What the log says of a change; `None` where nobody needs to know.
pub fn sentence(change: &AlertChange) -> Option<String> {
    let what = match (change.from, change.alert.state) {
        (AlertState::Firing, AlertState::Firing) => "still fires",
        (_, AlertState::Firing) => "fires",
        // Nobody knows whether it is.
        (AlertState::Firing, AlertState::Inactive) if change.alert.unknown_since.is_some() => "is given up",
        (AlertState::Firing, AlertState::Inactive) => "is over",
        _ => return None,
    };
    let unknown =
        change.alert.unknown_since.map_or(String::new(), |since| format!(", not known since {}", since.rfc3339()));
    Some(format!("{} {what}: {}{unknown}", subject(&change.alert), value(&change.alert)))
}

fn subject(alert: &Alert) -> String {
    // The target is the same for all that this process watches.
    let labels = alert.labels.iter().filter(|(name, _)| *name != "target");
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value}")).collect();
    let labels = if labels.is_empty() { String::new() } else { format!(" ({})", labels.join(", ")) };
    format!("{} {}{labels}", alert.severity.name(), alert.rule)
}

fn value(alert: &Alert) -> String {
    let value = alert.value.map_or("not known".to_string(), figure);
    format!("value {value}, threshold {}", figure(alert.threshold))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: MetricId = MetricId::of("lockscope_up");

    fn moment(seconds: i64, up: f64) -> Moment {
        let mut moment = Moment::new(Time(seconds * 1_000));
        moment.push(UP, &[&"t".into(), &"n".into()], up);
        moment
    }

    fn alarm() -> Alarm {
        let rules = "default_rules = false\n[[rules]]\nname = \"Down\"\nmetric = \"lockscope_up\"\nbelow = 1\nfor = \"10s\"\nseverity = \"page\"\n";
        Alarm::new(Rules::parse(rules).unwrap())
    }

    fn value(alarm: &Alarm, label: &str) -> f64 {
        let mut moment = Moment::new(Time(0));
        alarm.add(&mut moment);
        let found = moment.samples.iter().find(|sample| sample.series.labels.iter().any(|value| **value == *label));
        found.unwrap().value
    }

    #[test]
    fn an_alert_fires_on_the_grid_and_is_logged_once() {
        let mut alarm = alarm();
        let said: Vec<String> = (1_001..1_040)
            .flat_map(|second| alarm.take(&moment(second, f64::from(u8::from(second > 1_030)))))
            .filter_map(|change| Some(format!("{}: {}", change.at.0 / 1_000, sentence(&change)?)))
            .collect();
        assert_eq!(
            said,
            [
                "1015: page Down (node=n) fires: value 0, threshold 1",
                "1035: page Down (node=n) is over: value 0, threshold 1"
            ]
        );
        assert_eq!((value(&alarm, "firing"), value(&alarm, "Down")), (0.0, 0.0));
    }

    #[test]
    fn what_fires_and_how_often_was_asked_is_in_the_metrics() {
        let mut alarm = alarm();
        (1_001..1_022).for_each(|second| drop(alarm.take(&moment(second, 0.0))));
        assert_eq!((value(&alarm, "firing"), value(&alarm, "pending")), (1.0, 0.0));
        assert_eq!(alarm.evaluations, 4);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_stop_the_evaluation() {
        let mut alarm = alarm();
        (5_001..5_010).for_each(|second| drop(alarm.take(&moment(second, 1.0))));
        let before = alarm.evaluations;
        (1_001..1_020).for_each(|second| drop(alarm.take(&moment(second, 1.0))));
        assert!(alarm.evaluations > before);
    }
}
