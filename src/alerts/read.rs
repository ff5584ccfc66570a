//! Reads one rule from TOML. Every mistake is one sentence with its line and the fix.

use std::time::Duration;

use crate::alerts::{Compare, Condition, NoData, Rule, Severity};
use crate::base::fault::Fault;
use crate::base::nearest;
use crate::base::section::Section;
use crate::base::text;
use crate::base::time;
use crate::filter::Selector;
use crate::metrics::{Kind, METRICS, MetricId};

pub(super) const KEYS: &[&str] = &[
    "name",
    "off",
    "metric",
    "selector",
    "by",
    "above",
    "below",
    "for",
    "keep_firing_for",
    "recover",
    "window",
    "no_data",
    "severity",
    "note",
    "runbook",
];

/// Longer names are not read by anybody.
const LONGEST_NAME: usize = 128;

/// A rule as a file gives it.
pub(super) struct Draft {
    pub(super) name: String,
    /// Switched off.
    pub(super) off: bool,
    pub(super) rule: Rule,
}

/// The name of a rule.
pub(super) fn name(section: &Section<'_>) -> Result<String, Fault> {
    let Some(name) = section.text("name")? else { return Err(section.incomplete("name", "LockHeldTooLong")) };
    let why = match name.as_str() {
        name if name.trim().is_empty() => "a rule needs a name, such as \"LockHeldTooLong\"".to_string(),
        name if name.trim() != name || name.chars().any(text::is_hidden) => {
            "a rule's name is a label of its alerts: write it without control characters and without spaces at its ends"
                .to_string()
        }
        name if name.chars().count() > LONGEST_NAME => format!("a rule's name has at most {LONGEST_NAME} characters"),
        _ => return Ok(name),
    };
    Err(section.wrong("name", &why))
}

impl Draft {
    /// Reads a rule; the keys that it does not have are those of `base`.
    pub(super) fn read(section: &Section<'_>, base: Option<&Draft>) -> Result<Draft, Fault> {
        let name = name(section)?;
        let base = base.map(|draft| &draft.rule);
        let metric = match (section.text_as("metric", metric)?, base) {
            (Some(metric), _) => metric,
            (None, Some(base)) => base.metric,
            (None, None) => return Err(section.incomplete("metric", "lockscope_waiters_max")),
        };
        let selector = match (section.text_as("selector", |text| selector(text, metric))?, base) {
            (Some(selector), _) => selector,
            (None, Some(base)) if base.metric == metric => base.selector.clone(),
            (None, _) => Selector::default(),
        };
        let by = match section.has("by") {
            true => Some(section.texts_as("by", |label| label_of(metric, label))?),
            false => base.filter(|base| base.metric == metric).and_then(|base| base.by.clone()),
        };
        let of_base = |key: &str, value: fn(&Rule) -> Duration| -> Result<Duration, Fault> {
            Ok(section.text_as(key, whole)?.or(base.map(value)).unwrap_or_default())
        };
        let rule = Rule {
            compare: compare(section, base)?,
            hold_for: of_base("for", |rule| rule.hold_for)?,
            keep_firing_for: of_base("keep_firing_for", |rule| rule.keep_firing_for)?,
            recover: section.any_number("recover")?.or(base.and_then(|base| base.recover)),
            window: section.text_as("window", whole)?.or(base.and_then(|base| base.window)),
            no_data: section
                .text_as("no_data", no_data)?
                .or(base.filter(|base| base.metric == metric).map(|base| base.no_data))
                .unwrap_or(NoData::usual(metric)),
            severity: section
                .text_as("severity", severity)?
                .or(base.map(|base| base.severity))
                .unwrap_or(Severity::Ticket),
            note: section.text("note")?.or(base.map(|base| base.note.clone())).unwrap_or_default(),
            runbook: section.text("runbook")?.or(base.map(|base| base.runbook.clone())).unwrap_or_default(),
            name: name.clone(),
            metric,
            selector,
            by,
            of_absence: false,
        };
        check(section, &rule)?;
        Ok(Draft { name, off: section.flag("off")?, rule })
    }
}

fn compare(section: &Section<'_>, base: Option<&Rule>) -> Result<Compare, Fault> {
    match (section.any_number("above")?, section.any_number("below")?, base) {
        (Some(_), Some(_), _) => Err(section.wrong("below", "give either 'above' or 'below', not both")),
        (Some(level), None, _) => Ok(Compare::Above(level)),
        (None, Some(level), _) => Ok(Compare::Below(level)),
        (None, None, Some(base)) => Ok(base.compare),
        (None, None, None) => {
            Err(section.wrong("name", "the rule has no threshold; add above = 0 or below = 1, with your number"))
        }
    }
}

/// What only shows when the whole rule is known.
fn check(section: &Section<'_>, rule: &Rule) -> Result<(), Fault> {
    let metric = rule.metric.metric();
    match (rule.window.is_some(), rule.metric.needs_window()) {
        (true, false) => {
            let why = format!("{} is not counted over time and takes no window; remove it", metric.name);
            return Err(section.wrong("window", &why));
        }
        (false, true) => {
            let why = format!("{} is counted over time; add window = \"5m\"", metric.name);
            return Err(section.wrong("metric", &why));
        }
        _ => {}
    }
    if let Some(why) = Condition::from(rule).wrong_recovery() {
        return Err(section.wrong("recover", &why));
    }
    if matches!(rule.no_data, NoData::Keep(_)) && rule.window.is_some() {
        let why = "a window looks back by itself and has nothing to keep; make the window longer instead";
        return Err(section.wrong("no_data", why));
    }
    if matches!(rule.no_data, NoData::Stay(_)) && !metric.labels.contains(&"target") {
        let why = format!("{} is not about a server that could be out of sight; write \"ok\"", metric.name);
        return Err(section.wrong("no_data", &why));
    }
    if rule.no_data != NoData::Ok && rule.metric.metric().name == "lockscope_absent" {
        return Err(section.wrong("no_data", "lockscope_absent is itself about missing data; remove no_data"));
    }
    Ok(())
}

fn metric(name: &str) -> Result<MetricId, String> {
    match MetricId::named(name) {
        Some(id) if matches!(id.metric().kind, Kind::Histogram(_)) => {
            Err(format!("{name} is a histogram; a rule compares gauges, counters and derived metrics"))
        }
        Some(id) => Ok(id),
        None => {
            let names = METRICS.iter().map(|metric| metric.name);
            // Also without what all of them begin with.
            let short = names.clone().filter_map(|name| name.strip_prefix("lockscope_"));
            let hint = match (nearest::hint(name, names), nearest::meant(name, short).as_slice()) {
                (none, [one, ..]) if none.is_empty() => format!("; did you mean \"lockscope_{one}\"?"),
                (none, []) if none.is_empty() => "; docs/alerts.md lists the metrics".into(),
                (hint, _) => hint,
            };
            Err(format!("there is no metric {name:?}{hint}"))
        }
    }
}

fn selector(text: &str, metric: MetricId) -> Result<Selector, String> {
    let selector = Selector::parse(text)?;
    let unknown = selector.labels().find(|label| !metric.metric().labels.contains(label));
    match unknown {
        Some(label) => Err(format!("{}; take {label:?} out of the selector", no_label(metric, label))),
        None => Ok(selector),
    }
}

fn label_of(metric: MetricId, label: &str) -> Result<&'static str, String> {
    let labels = metric.metric().labels;
    labels.iter().find(|known| **known == label).copied().ok_or_else(|| {
        let hint = nearest::hint(label, labels.iter().copied());
        format!("{}{hint}", no_label(metric, label))
    })
}

fn no_label(metric: MetricId, label: &str) -> String {
    let metric = metric.metric();
    match metric.labels {
        [] => format!("{} has no labels", metric.name),
        labels => format!("{} has no label {label:?}, only {}", metric.name, labels.join(", ")),
    }
}

fn severity(text: &str) -> Result<Severity, String> {
    Severity::named(text).ok_or_else(|| {
        let hint = nearest::hint(text, ["page", "ticket", "info"]);
        format!("a severity is page, ticket or info, not {text:?}{hint}")
    })
}

fn no_data(text: &str) -> Result<NoData, String> {
    match text.split_once(' ') {
        None if text == "ok" => Ok(NoData::Ok),
        None if text == "alert" => Ok(NoData::Alert),
        Some(("keep", longest)) => match whole(longest.trim())? {
            Duration::ZERO => Err("keep for 0s keeps nothing; write \"ok\"".into()),
            longest => Ok(NoData::Keep(longest)),
        },
        Some(("stay", longest)) => match whole(longest.trim())? {
            Duration::ZERO => Err("stay for 0s is no time; write \"ok\"".into()),
            longest => Ok(NoData::Stay(longest)),
        },
        _ => Err(format!("no_data is \"ok\", \"stay 1h\", \"keep 10m\" or \"alert\", not {text:?}")),
    }
}

/// A duration of whole milliseconds: what Prometheus can write.
fn whole(text: &str) -> Result<Duration, String> {
    let duration = time::duration(text)?;
    match duration.subsec_nanos() % 1_000_000 {
        0 => Ok(duration),
        _ => Err("a duration of a rule has whole milliseconds".into()),
    }
}

/// A duration as Prometheus writes it, which is also how a rule does: the largest unit that it is a whole number of.
pub fn written(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    match units.iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None if millis == 0 => "0s".into(),
        None => format!("{millis}ms"),
    }
}
