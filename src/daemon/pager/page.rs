//! What a receiver is told about one alert.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::alerts::{Alert, AlertChange, AlertState, Rule, Rules, runbook_key};
use crate::base::text::figure;
use crate::base::time::Time;

/// One alert that fires, or has ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Page {
    alert: Alert,
    note: String,
    runbook: String,
    metric: &'static str,
    sign: &'static str,
    pub starts: Time,
    pub ends: Option<Time>,
}

/// What says which alert it is.
pub type Identity = (String, BTreeMap<String, String>);

impl Page {
    /// What a change is to somebody who is paged: that it fires, or that it is over.
    pub fn of(change: &AlertChange, rules: &Rules) -> Option<Page> {
        let ends = match (change.from, change.alert.state) {
            (_, AlertState::Firing) => None,
            (AlertState::Firing, AlertState::Inactive) => Some(change.at),
            _ => return None,
        };
        let named = |rule: &Rule| rule.name == change.alert.rule;
        let rule = rules.iter().find(|rule| named(rule) || rule.companion().as_ref().is_some_and(named))?;
        let starts = change.alert.fired_at.unwrap_or(change.at);
        Some(Page { ends, ..Page::new(rule, change.alert.clone(), starts) })
    }

    /// A test of the way to the on-call: it ends by itself.
    pub fn test(rule: &Rule, now: Time) -> Page {
        let alert = Alert {
            rule: rule.name.clone(),
            severity: rule.severity,
            state: AlertState::Firing,
            labels: [("target".to_string(), "test".to_string()), ("test".to_string(), "true".to_string())].into(),
            value: None,
            threshold: rule.compare.threshold(),
            active_at: now,
            fired_at: Some(now),
            unknown_since: None,
        };
        let mut page = Page::new(rule, alert, now);
        page.note = format!("This is a test: nothing is wrong. {}", page.note).trim_end().to_string();
        page
    }

    fn new(rule: &Rule, alert: Alert, starts: Time) -> Page {
        Page {
            alert,
            note: rule.note.clone(),
            runbook: rule.runbook.clone(),
            metric: rule.metric.metric().name,
            sign: rule.compare.sign(),
            starts,
            ends: None,
        }
    }

    pub fn identity(&self) -> Identity {
        (self.alert.rule.clone(), self.alert.labels.clone())
    }

    pub fn severity(&self) -> crate::alerts::Severity {
        self.alert.severity
    }

    fn summary(&self) -> String {
        let value = self.alert.value.map_or("not known".to_string(), figure);
        format!("{} is {value} ({} {})", self.metric, self.sign, figure(self.alert.threshold))
    }

    /// For the API of Alertmanager. Annotations are sent with the end as well, or the message about it has none.
    /// Without news it believes for four times of sending again that the alert goes on, as with Prometheus.
    pub fn alertmanager(&self, now: Time, resend: Duration) -> Value {
        let labels = self.alert.labels.iter().filter(|(_, value)| !value.is_empty());
        let mut labels: BTreeMap<&str, &str> = labels.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        labels.insert("alertname", &self.alert.rule);
        labels.insert("severity", self.alert.severity.name());
        let texts = [
            ("summary", self.summary()),
            ("description", self.note.clone()),
            (runbook_key(&self.runbook), self.runbook.clone()),
        ];
        let annotations: BTreeMap<&str, String> = texts.into_iter().filter(|(_, text)| !text.is_empty()).collect();
        // An end before its beginning is refused.
        let ends = self.ends.map_or(now + resend * 4, |ends| ends.max(self.starts + Duration::from_millis(1)));
        json!({ "labels": labels, "annotations": annotations, "startsAt": self.starts.rfc3339(), "endsAt": ends.rfc3339() })
    }

    /// For a command, on its stdin.
    pub fn json(&self) -> Value {
        json!({
            "schema": "lockscope/1",
            "status": if self.ends.is_some() { "resolved" } else { "firing" },
            "rule": self.alert.rule,
            "severity": self.alert.severity,
            "labels": self.alert.labels,
            "value": self.alert.value.filter(|value| value.is_finite()),
            "threshold": self.alert.threshold,
            "summary": self.summary(),
            "note": self.note,
            "runbook": self.runbook,
            "starts_at": self.starts.rfc3339(),
            "ends_at": self.ends.map(Time::rfc3339),
        })
    }
}
