//! The alert rules while the console runs: fed with a moment each second, evaluated on the daemon's grid, and listed.
//!
//! A row is a firing or pending alert, or a rule that has none. The worst comes first. Selection is the rule with its
//! labels, never a row number. `enter` goes to the locks behind an alert, and `esc` comes back.

mod behind;

use std::collections::BTreeMap;
use std::time::Duration;

use super::{App, Past, RuleFile, Screen};
use crate::alerts::{Alert, AlertChange, AlertState, Compare, Rule, RuleStatus, Rules, Severity};
use crate::base::time::Time;
use crate::daemon::Alarm;
use crate::filter::Filter;
use crate::metrics::Moment;

pub use behind::Behind;

/// At most this many rows are listed.
const MOST: usize = 1_000;

/// What identifies a row: the rule, and the labels of its alert.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AlertId {
    pub rule: String,
    pub labels: BTreeMap<String, String>,
}

/// One row.
#[derive(Clone, PartialEq, Debug)]
pub struct AlertRow {
    pub id: AlertId,
    pub state: AlertState,
    pub severity: Severity,
    /// Since when it has been so; `None` before the first evaluation.
    pub since: Option<Time>,
    /// Since when it only stays, because the server is out of sight.
    pub unknown_since: Option<Time>,
    pub value: Option<f64>,
    pub compare: Compare,
    /// The metric that is compared.
    pub metric: &'static str,
    pub selector: String,
    pub hold_for: Duration,
    /// Why it is unknown, or why its silence says little.
    pub why: Option<String>,
    pub note: String,
    pub runbook: String,
    pub behind: Behind,
}

#[derive(Default)]
pub struct Alerting {
    /// `None`: no rules.
    alarm: Option<Alarm>,
    rows: Vec<AlertRow>,
    /// Rows that are not listed.
    pub left_out: usize,
    selected: Option<AlertId>,
    /// What the last moment changed.
    changes: Vec<AlertChange>,
    /// The file that the rules come from, if there is one.
    pub file: Option<RuleFile>,
    /// What a store has, if there is one.
    pub past: Option<Past>,
}

impl Alerting {
    pub fn new(rules: Rules) -> Alerting {
        let alarm = (!rules.is_empty()).then(|| Alarm::new(rules));
        let mut alerting = Alerting { alarm, ..Alerting::default() };
        alerting.list();
        alerting
    }

    /// The rows, the worst first.
    pub fn rows(&self) -> &[AlertRow] {
        &self.rows
    }

    /// The selected row; the first until one is selected.
    pub fn cursor(&self) -> Option<usize> {
        let last = self.rows.len().checked_sub(1)?;
        let selected = self.selected.as_ref().and_then(|id| self.rows.iter().position(|row| row.id == *id));
        Some(selected.unwrap_or(0).min(last))
    }

    pub fn selected(&self) -> Option<&AlertRow> {
        self.rows.get(self.cursor()?)
    }

    /// The rule of that name.
    pub fn rule(&self, name: &str) -> Option<Rule> {
        let mut all = self.alarm.iter().flat_map(|alarm| alarm.status());
        all.find(|status| status.rule.name == name).map(|status| status.rule.clone())
    }

    /// How many alerts are in that state.
    pub fn count(&self, state: AlertState) -> usize {
        self.rows.iter().filter(|row| row.state == state).count()
    }

    pub(super) fn step(&mut self, by: isize) {
        let Some(cursor) = self.cursor() else { return };
        let to = cursor.saturating_add_signed(by).min(self.rows.len() - 1);
        self.selected = Some(self.rows[to].id.clone());
    }

    fn take(&mut self, moment: &Moment) {
        if let Some(alarm) = &mut self.alarm {
            self.changes = alarm.take(moment);
        }
    }

    /// What the last moment changed, for the log of a store.
    pub fn changes(&self) -> &[AlertChange] {
        &self.changes
    }

    /// Adds the series of the last evaluation.
    pub fn add(&self, moment: &mut Moment) {
        if let Some(alarm) = &self.alarm {
            alarm.add(moment);
        }
    }

    fn list(&mut self) {
        let Some(alarm) = &self.alarm else { return };
        let mut rows: Vec<AlertRow> = alarm.status().flat_map(|status| rows(&status)).collect();
        let rank = |state: AlertState| match state {
            AlertState::Firing => 0,
            AlertState::Pending => 1,
            AlertState::Unknown => 2,
            AlertState::Inactive => 3,
        };
        // Of those that fire, the oldest come first; the others stay in the order of the rules.
        let since = |row: &AlertRow| row.since.filter(|_| rank(row.state) < 2);
        rows.sort_by_key(|row| (rank(row.state), row.severity, since(row)));
        self.left_out = rows.len().saturating_sub(MOST);
        rows.truncate(MOST);
        self.rows = rows;
    }
}

fn rows(status: &RuleStatus<'_>) -> Vec<AlertRow> {
    let rule = status.rule;
    let row = |labels: &BTreeMap<String, String>| AlertRow {
        id: AlertId { rule: rule.name.clone(), labels: labels.clone() },
        state: status.state,
        severity: rule.severity,
        since: status.since,
        unknown_since: None,
        value: None,
        compare: rule.compare,
        metric: rule.metric.metric().name,
        selector: rule.selector.as_str().to_string(),
        hold_for: rule.hold_for,
        why: status.why.clone().or_else(|| status.warning.clone()),
        note: rule.note.clone(),
        runbook: rule.runbook.clone(),
        behind: Behind::of(rule, labels),
    };
    if status.alerts.is_empty() {
        return vec![row(&BTreeMap::new())];
    }
    let alert = |alert: &Alert| AlertRow {
        state: alert.state,
        since: Some(alert.fired_at.unwrap_or(alert.active_at)),
        unknown_since: alert.unknown_since,
        value: alert.value,
        ..row(&alert.labels)
    };
    status.alerts.iter().map(alert).collect()
}

impl App {
    /// The rules apply from now on.
    pub fn watch_rules(&mut self, rules: Rules) {
        self.alerting = Alerting::new(rules);
    }

    /// What was measured now. The list stands still on a paused screen, and while keys are pressed.
    pub(super) fn take_moment(&mut self, moment: &Moment, now: Time) {
        self.alerting.take(moment);
        let on_screen = self.page.screen == Screen::Alerts && self.page.opened.is_none();
        if !(self.display.paused || on_screen && self.stands_still(now)) {
            self.alerting.list();
        }
    }

    pub fn in_alerts(&self) -> bool {
        self.page.screen == Screen::Alerts && self.page.opened.is_none()
    }

    /// Goes to the locks behind the selected alert.
    pub(super) fn open_alert(&mut self, now: Time) {
        let Some(row) = self.alerting.selected() else { return self.say("there is no rule here".into(), now) };
        let behind = row.behind.clone();
        let text = behind.filter_text();
        match text.parse::<Filter>() {
            Ok(filter) => self.go_to(behind.group, Some((text, Some(filter).filter(|filter| !filter.is_empty())))),
            Err(why) => self.say(why.to_string(), now),
        }
    }
}

#[cfg(test)]
mod tests;
