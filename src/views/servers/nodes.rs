//! The table of the nodes, one line each: whole at 80 columns.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::others;
use crate::app::App;
use crate::app::scene::NodeScene;
use crate::app::theme::Theme;
use crate::base::text::short_duration;
use crate::engine::Stream;
use crate::model::Source;
use crate::server::{ClockOffset, Role};
use crate::views::part::{fit, fit_right, safe, whole_seconds};

/// The titles of the columns behind the node's name, and how wide they are.
const COLUMNS: [(&str, usize); 8] =
    [("ROLE", 8), ("SLOTS", 5), ("LAG", 5), ("CLOCK", 8), ("WATCHED", 12), ("EV/S", 5), ("COST", 6), ("SINCE", 6)];
/// These are words; the others are numbers.
const WORDS: [&str; 2] = ["ROLE", "WATCHED"];
const NAME: usize = 28;

pub(super) fn table(app: &App, width: usize) -> Vec<Line<'static>> {
    let theme = app.theme;
    let rest: usize = COLUMNS.iter().map(|(_, width)| width + 1).sum();
    let name = width.saturating_sub(rest + 1).min(NAME);
    let cell = |(title, width): (&'static str, usize), text: &str| {
        let text = if WORDS.contains(&title) { fit(text, width, theme) } else { fit_right(text, width, theme) };
        format!(" {text}")
    };
    let head: String = COLUMNS.iter().map(|column| cell(*column, column.0)).collect();
    let mut lines = vec![Line::styled(format!(" {}{head}", fit("NODE", name, theme)), theme.heading())];
    for node in &app.scene.nodes {
        let mut spans = vec![Span::raw(format!(" {}", fit(&safe(&node.name, theme), name, theme)))];
        for (column, (text, style)) in COLUMNS.into_iter().zip(cells(app, node)) {
            spans.push(Span::styled(cell(column, &safe(&text, theme)), style));
        }
        lines.push(Line::from(spans));
    }
    for node in &app.scene.others.nodes {
        let mut spans = vec![Span::raw(format!(" {}", fit(&safe(&node.name, theme), name, theme)))];
        for (column, (text, style)) in COLUMNS.into_iter().zip(others::cells(app, node)) {
            spans.push(Span::styled(cell(column, &safe(&text, theme)), style));
        }
        lines.push(Line::from(spans));
    }
    lines
}

/// How far a clock is from ours.
pub(super) fn clock_of(clock: ClockOffset, theme: Theme) -> (String, Style) {
    let style = if clock.certain_us() > 500_000 { theme.warning() } else { Style::new() };
    (offset(clock.offset_us), style)
}

/// The cells in the order of the columns. What is not known is `?`, what does not apply is a dash.
fn cells(app: &App, node: &NodeScene) -> [(String, Style); 8] {
    let (theme, plain) = (app.theme, Style::new());
    let (dash, unknown) = (|| (theme.sign("—", "-").to_string(), theme.dim()), || ("?".to_string(), theme.dim()));
    let role = node.facts.role.known();
    let lag = match role {
        Some(Role::Master { replicas }) if replicas.is_empty() => dash(),
        Some(Role::Master { replicas }) if replicas.iter().any(|replica| !replica.online) => {
            ("down".into(), theme.bad())
        }
        Some(Role::Master { replicas }) => match replicas.iter().filter_map(|replica| replica.lag_s).max() {
            Some(lag) => (format!("{lag}s"), if lag > 1 { theme.warning() } else { plain }),
            None => unknown(),
        },
        Some(Role::Replica(upstream)) => upstream.silent_s.map_or_else(unknown, |lag| (format!("{lag}s"), plain)),
        Some(Role::Sentinel) => dash(),
        None => unknown(),
    };
    let clock = match (node.facts.drift, node.facts.clock.known()) {
        (Some(_), _) => ("JUMPED".into(), theme.bad()),
        (None, Some(known)) => clock_of(*known, theme),
        (None, None) => unknown(),
    };
    [
        role.map_or_else(unknown, |role| (role.name().to_string(), plain)),
        // A master of a service has everything.
        node.slots.filter(|_| app.scene.others.council.is_none()).map_or_else(dash, |slots| (slots.to_string(), plain)),
        lag,
        clock,
        watched(app, node),
        node.events_per_s.map_or_else(unknown, |rate| (format!("{rate:.0}"), plain)),
        node.cost.map_or_else(unknown, |cost| (format!("{:.1}%", (cost * 1_000.0).ceil() / 10.0), plain)),
        node.watched_for.map_or_else(dash, |long| (whole_seconds(long), plain)),
    ]
}

/// `+0.1ms`, `-3.0s`.
fn offset(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "+" };
    match us.unsigned_abs() {
        us @ ..1_000_000 => format!("{sign}{:.1}ms", us as f64 / 1_000.0),
        us => format!("{sign}{}", short_duration(us / 1_000)),
    }
}

fn watched(app: &App, node: &NodeScene) -> (String, Style) {
    let theme = app.theme;
    match &node.stream {
        Stream::Live(Source::Notification) => ("live".into(), theme.good()),
        Stream::Live(Source::Tracking) => ("tracking".into(), theme.warning()),
        Stream::Live(_) => ("polling".into(), theme.warning()),
        Stream::Silent { .. } => ("NO ANSWER".into(), theme.bad()),
        Stream::Refusing { .. } => ("REFUSES KEYS".into(), theme.bad()),
        Stream::Reconnecting { .. } => ("RECONNECTING".into(), theme.bad()),
        Stream::Starting => ("connecting".into(), theme.warning()),
        Stream::Off => ("no".into(), theme.dim()),
    }
}
