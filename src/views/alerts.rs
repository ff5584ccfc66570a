//! The alert rules: what fires, since when and by how much, then what is not known, then what is calm; below them what the
//! selected one means and what to press.
//!
//! ```text
//!   STATE    FOR    RULE             ABOUT                       VALUE     LEVEL
//!  ▌FIRING   2m10s  LockOrphan       pattern stock-lock:*            1       > 0
//!   UNKNOWN  41s    LockFailureRatio no coverage: failure rates…     ?     > 0.1
//! ```

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::evidence;
use super::part::{self, fit, fit_right};
use super::wrap::wrap;
use crate::alerts::AlertState;
use crate::app::{AlertRow, App, DAY};
use crate::base::text::{short_duration, visible};
use crate::settings::keys::Command;
use crate::store::End;

const STATE: usize = 8;
const FOR: usize = 7;
const SEVERITY: usize = 6;
const VALUE: usize = 8;
const LEVEL: usize = 8;
/// The longest default name.
const RULE: usize = 18;
const WIDEST_RULE: usize = 30;
/// A terminal this wide has room for the severity.
const WIDE: usize = 100;

/// Nobody writes the store if its newest moment is older than this.
const SILENT: Duration = Duration::from_secs(30);

/// The rows below the list, with the line above them.
pub fn below(height: u16) -> u16 {
    (height / 3).clamp(4, 12)
}

pub fn draw(frame: &mut Frame<'_>, app: &App, list: Rect, below: Rect) {
    let (rows, page) = (app.alerting.rows(), usize::from(list.height.saturating_sub(1)).max(1));
    let cursor = app.alerting.cursor().unwrap_or(0);
    let first = cursor.saturating_sub(page - 1);
    let shown = &rows[first.min(rows.len())..(first + page).min(rows.len())];
    let width = usize::from(list.width);
    let rule = shown.iter().map(|row| row.id.rule.width()).max().unwrap_or(0).clamp(RULE, WIDEST_RULE);
    let mut lines = vec![heading(app, width, rule)];
    if rows.is_empty() {
        lines.push(Line::raw(""));
        lines.push(Line::styled("  No rules apply: the config or --rules leaves all of them out.", app.theme.dim()));
    }
    for (index, row) in shown.iter().enumerate() {
        lines.push(line(app, row, first + index == cursor, width, rule));
    }
    for (index, line) in lines.into_iter().take(usize::from(list.height)).enumerate() {
        frame.render_widget(line, Rect { y: list.y + index as u16, height: 1, ..list });
    }
    tell(frame, app, below, cursor);
}

/// What is left for the labels, or the reason.
fn about_width(width: usize, rule: usize) -> usize {
    let severity = if width >= WIDE { SEVERITY + 1 } else { 0 };
    width.saturating_sub(1 + STATE + 1 + FOR + 1 + severity + rule + 1 + 1 + VALUE + 1 + LEVEL)
}

fn heading(app: &App, width: usize, rule: usize) -> Line<'static> {
    let theme = app.theme;
    let severity = if width >= WIDE { format!("{} ", fit("SEV", SEVERITY, theme)) } else { String::new() };
    let text = format!(
        " {} {} {severity}{} {} {} {}",
        fit("STATE", STATE, theme),
        fit_right("FOR", FOR, theme),
        fit("RULE", rule, theme),
        fit("ABOUT", about_width(width, rule), theme),
        fit_right("VALUE", VALUE, theme),
        fit_right("LEVEL", LEVEL, theme),
    );
    Line::styled(text, theme.title())
}

fn line(app: &App, row: &AlertRow, selected: bool, width: usize, rule: usize) -> Line<'static> {
    let theme = app.theme;
    let base = match (selected, row.state) {
        (true, _) => theme.selected(),
        (false, AlertState::Inactive) => theme.dim(),
        (false, _) => Style::new(),
    };
    let sign = if selected { theme.sign("▌", ">") } else { " " };
    let mut spans = vec![Span::styled(sign.to_string(), base.patch(theme.accent()))];
    let mut cell = |text: String, style: Style| spans.push(Span::styled(format!("{text} "), base.patch(style)));
    cell(fit(word(row.state), STATE, theme), style(app, row.state));
    cell(fit_right(&lasted(app, row), FOR, theme), Style::new());
    if width >= WIDE {
        cell(fit(row.severity.name(), SEVERITY, theme), Style::new());
    }
    cell(fit(&part::safe(&row.id.rule, theme), rule, theme), Style::new());
    cell(fit(&part::safe(&about(row), theme), about_width(width, rule), theme), Style::new());
    cell(fit_right(&value(row), VALUE, theme), Style::new());
    spans.push(Span::styled(fit_right(&level(row), LEVEL, theme), base));
    Line::from(spans)
}

/// Firing and pending stand out; what is not known is no calm.
fn word(state: AlertState) -> &'static str {
    match state {
        AlertState::Firing => "FIRING",
        AlertState::Pending => "PENDING",
        AlertState::Unknown => "UNKNOWN",
        AlertState::Inactive => "inactive",
    }
}

fn style(app: &App, state: AlertState) -> Style {
    match state {
        AlertState::Firing => app.theme.bad(),
        AlertState::Pending => app.theme.warning(),
        AlertState::Unknown => app.theme.accent(),
        AlertState::Inactive => Style::new(),
    }
}

fn lasted(app: &App, row: &AlertRow) -> String {
    row.since.map_or("-".into(), |since| part::whole_seconds(app.scene.at.since(since)))
}

/// Its labels, or why nothing is known.
fn about(row: &AlertRow) -> String {
    // The target is the same for all, and the name of the rule says what it selects.
    let told = |name: &str, value: &str| name == "target" || row.selector == format!("{name}:{value}");
    let labels = row.id.labels.iter().filter(|(name, value)| !told(name, value));
    let labels: Vec<String> = labels.map(|(name, value)| format!("{name} {value}")).collect();
    match (labels.is_empty(), &row.why) {
        (true, Some(why)) => why.clone(),
        (true, None) => row.selector.clone(),
        (false, _) => labels.join(", "),
    }
}

/// As the unit of its metric is read.
fn number(row: &AlertRow, value: f64) -> String {
    match row.metric.ends_with("_seconds") {
        true => short_duration((value.max(0.0) * 1_000.0) as u64),
        false => format!("{}", (value * 1_000.0).round() / 1_000.0),
    }
}

fn value(row: &AlertRow) -> String {
    match (row.value, row.state) {
        (Some(value), _) => number(row, value),
        (None, AlertState::Inactive) => "-".into(),
        (None, _) => "?".into(),
    }
}

fn level(row: &AlertRow) -> String {
    format!("{} {}", row.compare.sign(), number(row, row.compare.threshold()))
}

/// What the selected one says and means, and what to press.
fn tell(frame: &mut Frame<'_>, app: &App, area: Rect, cursor: usize) {
    let theme = app.theme;
    let left_out = match app.alerting.left_out {
        0 => String::new(),
        more => format!(" ({more} more are not listed)"),
    };
    let all = app.alerting.rows().len();
    evidence::rule(
        frame,
        app,
        area,
        &if all > 0 { format!(" {} of {all}{left_out} ", cursor + 1) } else { String::new() },
    );
    let Some(row) = app.alerting.selected() else { return };
    let width = usize::from(area.width).saturating_sub(2);
    let head = format!("{}  {}  {}", part::safe(&row.id.rule, theme), word(row.state), sentence(app, row));
    let keys = keys(app, row);
    let mut texts = vec![(head, theme.title())];
    texts.push((row.note.clone(), Style::new()));
    texts.extend(keys.map(|keys| (keys, theme.accent())));
    texts.extend(names(app, row).map(|names| (names, Style::new())));
    texts.extend(recorded(app, row).map(|recorded| (recorded, Style::new())));
    if !row.runbook.is_empty() {
        texts.push((format!("runbook: {}", row.runbook), theme.dim()));
    }
    let lines = texts.iter().filter(|(text, _)| !text.is_empty()).flat_map(|(text, style)| {
        wrap(&part::safe(text, theme), width).into_iter().map(|line| Line::styled(format!(" {line}"), *style))
    });
    for (index, line) in lines.take(usize::from(area.height).saturating_sub(1)).enumerate() {
        frame.render_widget(line, Rect { y: area.y + 1 + index as u16, height: 1, ..area });
    }
}

/// Since when, and what is compared with what.
fn sentence(app: &App, row: &AlertRow) -> String {
    let lasted = lasted(app, row);
    let at = row.since.map(|since| format!(" (since {})", part::clock_seconds(since))).unwrap_or_default();
    let what = match row.selector.as_str() {
        "" => row.metric.to_string(),
        selector => format!("{} of {selector}", row.metric),
    };
    let level = level(row);
    match row.state {
        AlertState::Firing => {
            let unknown = row.unknown_since.map_or(String::new(), |since| {
                format!("; not known since {}, it stays while the server is out of sight", part::clock_seconds(since))
            });
            format!("{} for {lasted}{at}: {what} is {}, the level is {level}{unknown}", row.severity.name(), value(row))
        }
        AlertState::Pending => format!(
            "for {lasted} of {}{at}: {what} is {}, the level is {level}; then it fires as {}",
            part::whole_seconds(row.hold_for),
            value(row),
            row.severity.name()
        ),
        AlertState::Unknown => {
            let why = row.why.clone().unwrap_or_else(|| "it can't be known".into());
            format!("{why}: whether {what} is {level} is not known")
        }
        AlertState::Inactive => match &row.why {
            Some(why) => why.clone(),
            None => format!("{what} is not {level}"),
        },
    }
}

/// What to press.
fn keys(app: &App, row: &AlertRow) -> Option<String> {
    let key = |command| app.key_of(command);
    match row.state {
        AlertState::Firing | AlertState::Pending => Some(format!(
            "{} lists the locks behind it, {} shows what happened",
            key(Command::OpenAlert),
            key(Command::Events)
        )),
        AlertState::Unknown if row.why.as_ref().is_some_and(|why| why.contains("MONITOR")) => {
            Some(format!("{} samples attempts with MONITOR", key(Command::Sample)))
        }
        AlertState::Unknown | AlertState::Inactive => None,
    }
}

/// What the store has of it.
fn recorded(app: &App, row: &AlertRow) -> Option<String> {
    let past = app.alerting.past.as_ref()?;
    let store = past.store.file_name().unwrap_or(past.store.as_os_str()).as_encoded_bytes();
    let store = visible(store);
    if let Some(trouble) = &past.trouble {
        return Some(format!("store: {trouble}"));
    }
    let reach = past.oldest.map_or(Duration::ZERO, |oldest| app.scene.at.since(oldest));
    let reach = if reach >= DAY { "24h".into() } else { part::whole_seconds(reach) };
    let mut firings = past.of(&row.id).rev();
    let told = match firings.next() {
        None => format!("did not fire in the last {reach}"),
        Some(last) => {
            let (from, to) = (part::clock_seconds(last.from), part::clock_seconds(last.end.at()));
            let last = match last.end {
                End::Over(at) => format!("{from} to {to} ({})", part::whole_seconds(at.since(last.from))),
                End::NotSeen(_) => format!("since {from}, until the recording broke off at {to}"),
                End::Still(_) => format!("since {from}"),
            };
            match 1 + firings.count() {
                1 => format!("fired once in the last {reach}: {last}"),
                count => format!("fired {count} times in the last {reach}, the last time {last}"),
            }
        }
    };
    let silent = match past.newest {
        None => Some("nothing is recorded yet".to_string()),
        Some(newest) if app.scene.at.since(newest) > SILENT => {
            Some(format!("nothing is recorded since {}", part::clock_seconds(newest)))
        }
        Some(_) => None,
    };
    let silent = silent.map(|silent| format!("; {silent}")).unwrap_or_default();
    Some(format!("recorded in {store}: {told}{silent}"))
}

/// The first of the locks behind it.
fn names(app: &App, row: &AlertRow) -> Option<String> {
    let behind = app.scene.behind.as_ref().filter(|behind| behind.of == row.id)?;
    let names: Vec<String> = behind.keys.iter().map(|key| part::key(key, app.theme)).collect();
    (!names.is_empty())
        .then(|| format!("behind it: {}{}", names.join(", "), if behind.more { " and more" } else { "" }))
}

#[cfg(test)]
mod tests;
