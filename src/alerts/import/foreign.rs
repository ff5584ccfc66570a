//! A rule as a file of Prometheus has it.

use std::time::Duration;

use crate::alerts::Severity;
use crate::alerts::promql::{Exported, duration};
use crate::alerts::read::written;
use crate::base::yaml::{Node, Tree};

pub struct Foreign {
    pub line: usize,
    pub name: String,
    pub expr: String,
    pub hold_for: Duration,
    pub keep_firing_for: Duration,
    labels: Vec<(String, String)>,
    annotations: Vec<(String, String)>,
}

/// All rules of a file, in order; with a reason where one can't be taken at all.
pub fn groups(document: &Node) -> Result<Vec<(Foreign, Option<String>)>, String> {
    // In Kubernetes the same is the spec of a resource.
    let groups = document.get("groups").or_else(|| document.get("spec")?.get("groups"));
    let Some(groups) = groups else {
        return Err("it has no groups of rules: is it a rules file of Prometheus?".into());
    };
    let mut all = Vec::new();
    for group in groups.list() {
        let odd = ["limit", "query_offset", "labels"].iter().find(|key| group.get(key).is_some());
        let rules = group.get("rules").map(Node::list).unwrap_or_default();
        for node in rules {
            let (foreign, why) = read(node);
            let why = why.or_else(|| odd.map(|key| format!("its group has {key:?}, which has no counterpart here")));
            all.push((foreign, why));
        }
    }
    Ok(all)
}

fn read(node: &Node) -> (Foreign, Option<String>) {
    let mut why = None;
    let mut refuse = |told: String| {
        why.get_or_insert(told);
    };
    let text = |key: &str| node.get(key).and_then(Node::text);
    if let Some(record) = text("record") {
        refuse("it records a series, and fires nothing".into());
        let foreign = Foreign { name: record.into(), ..empty(node.line) };
        return (foreign, why);
    }
    let mut lasts = |key: &str| -> Duration {
        let Some(text) = text(key) else { return Duration::ZERO };
        // A bare zero is a duration too.
        let millis = if text == "0" { Some(0) } else { duration(text) };
        match millis {
            Some(millis) => Duration::from_millis(millis),
            None => {
                refuse(format!("{key}: {text:?} is no duration"));
                Duration::ZERO
            }
        }
    };
    let (hold_for, keep_firing_for) = (lasts("for"), lasts("keep_firing_for"));
    let pairs = |key: &str| -> Vec<(String, String)> {
        let texts = node.get(key).into_iter().flat_map(Node::texts);
        texts.map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let foreign = Foreign {
        line: node.line,
        name: text("alert").unwrap_or_default().into(),
        expr: text("expr").unwrap_or_default().into(),
        hold_for,
        keep_firing_for,
        labels: pairs("labels"),
        annotations: pairs("annotations"),
    };
    if foreign.name.is_empty() || foreign.expr.is_empty() {
        refuse("it has no 'alert' or no 'expr'".into());
    }
    if let Tree::Table(table) = &node.value {
        const KNOWN: [&str; 6] = ["alert", "expr", "for", "keep_firing_for", "labels", "annotations"];
        if let Some(key) = table.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            refuse(format!("its key {key:?} has no counterpart here"));
        }
    }
    (foreign, why)
}

fn empty(line: usize) -> Foreign {
    Foreign {
        line,
        name: String::new(),
        expr: String::new(),
        hold_for: Duration::ZERO,
        keep_firing_for: Duration::ZERO,
        labels: Vec::new(),
        annotations: Vec::new(),
    }
}

impl Foreign {
    fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.iter().find(|(key, _)| key == name).map(|(_, text)| text.as_str())
    }

    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, _)| key == name).map(|(_, text)| text.as_str())
    }

    /// The text for the on-call; our export writes it as a template that gives it as it is.
    pub fn note(&self) -> String {
        let text = self.annotation("description").or(self.annotation("summary")).unwrap_or_default();
        text.replace("{{ \"{{\" }}", "{{")
    }

    pub fn runbook(&self) -> String {
        self.annotation("runbook_url").or(self.annotation("runbook")).unwrap_or_default().replace("{{ \"{{\" }}", "{{")
    }

    pub fn severity(&self) -> Severity {
        match self.label("severity") {
            Some("page" | "critical") => Severity::Page,
            Some("info" | "none") => Severity::Info,
            _ => Severity::Ticket,
        }
    }

    /// What is not the same in our rule.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let severity = match self.label("severity") {
            Some("page" | "ticket" | "info") => None,
            Some(other) => Some(format!("its severity {other:?} is {:?} here", self.severity().name())),
            None => Some(format!("it has no severity, and is {:?} here", self.severity().name())),
        };
        let labels = self.labels.iter().filter(|(name, _)| name != "severity");
        let labels = labels.map(|(name, value)| format!("its label {name}: {value:?} is left out"));
        let kept = ["description", "runbook_url", "runbook"];
        let has_description = self.annotation("description").is_some();
        let left = self
            .annotations
            .iter()
            .filter(move |(name, _)| !kept.contains(&name.as_str()) && (name != "summary" || has_description));
        let left = left.map(|(name, _)| format!("its annotation {name:?} is left out"));
        let template =
            self.note().contains("{{") && !self.annotations.iter().any(|(_, text)| text.contains("{{ \"{{\" }}"));
        let template = template.then(|| "the template in its note is kept as text".to_string());
        severity.into_iter().chain(labels).chain(left).chain(template)
    }

    /// Whether everything but the expression is as our export writes it.
    pub fn is(&self, told: &Exported) -> bool {
        let same = |ours: &[(&'static str, String)], theirs: &[(String, String)]| {
            ours.len() == theirs.len()
                && ours.iter().all(|(name, value)| theirs.iter().any(|(key, text)| key == name && text == value))
        };
        self.name == told.alert
            && written(self.hold_for) == told.hold_for
            && written(self.keep_firing_for) == told.keep_firing_for
            && same(&told.labels, &self.labels)
            && same(&told.annotations, &self.annotations)
    }
}
