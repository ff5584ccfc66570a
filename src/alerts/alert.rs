//! An alert: one rule with one set of labels, and what became of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::time::Time;

/// How urgent an alert is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Wakes somebody.
    Page,
    /// Can wait for the morning.
    Ticket,
    Info,
}

impl Severity {
    /// The severity of that name.
    pub fn named(name: &str) -> Option<Severity> {
        [Severity::Page, Severity::Ticket, Severity::Info].into_iter().find(|severity| severity.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Severity::Page => "page",
            Severity::Ticket => "ticket",
            Severity::Info => "info",
        }
    }
}

/// The state of an alert, as `check --json` names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertState {
    Firing,
    /// The condition holds, but not yet for as long as the rule asks.
    Pending,
    Inactive,
    /// It can't be known: what the rule needs was not measured.
    Unknown,
}

/// An alert at one moment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Alert {
    pub rule: String,
    pub severity: Severity,
    pub state: AlertState,
    /// The labels of its series, such as `target` and `pattern`.
    pub labels: BTreeMap<String, String>,
    /// Of the last evaluation in which the condition held.
    pub value: Option<f64>,
    pub threshold: f64,
    /// The first evaluation of this alert in which the condition held.
    pub active_at: Time,
    pub fired_at: Option<Time>,
    /// Since when it only stays, because its target is out of sight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_since: Option<Time>,
}

/// A change of an alert's state, as the store's log keeps it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AlertChange {
    /// The time of the evaluation.
    pub at: Time,
    pub from: AlertState,
    /// As it is after the change; its state is [`AlertState::Inactive`] once it is resolved.
    pub alert: Alert,
}
