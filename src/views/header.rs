//! The two lines on top: where we are, whether what is shown is the truth, and what there is.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::part;
use crate::app::{App, Screen};
use crate::model::{Source, State};
use crate::monitor::Stream;
use crate::scene::NodeScene;
use crate::text::{short_duration, visible};

/// From this width on there is room for whole words.
const WIDE: u16 = 100;

type Parts = Vec<(String, Style)>;

pub fn draw(frame: &mut Frame<'_>, app: &App, header: Rect, tabs: Rect) {
    let mut truth = truth(app, header.width < WIDE);
    let mut left = place(app);
    // Whole words give way, from the end: first what kind of server it is, then what watching costs.
    let fits = |left: &Parts, right: &Parts| width(left) + width(right) < usize::from(header.width);
    let least = 2 + usize::from(app.title.environment.is_some());
    while left.len() > least && !fits(&left, &truth) {
        left.pop();
    }
    while truth.len() > 2 && !fits(&left, &truth) {
        truth.remove(truth.len() - 2);
    }
    draw_both(frame, header, left, truth);
    draw_both(frame, tabs, tab_parts(app), filter_parts(app, tabs.width));
}

fn width(parts: &Parts) -> usize {
    parts.iter().map(|(text, _)| text.width()).sum()
}

fn draw_both(frame: &mut Frame<'_>, area: Rect, left: Parts, right: Parts) {
    let spans =
        |parts: Parts| Line::from(parts.into_iter().map(|(text, style)| Span::styled(text, style)).collect::<Vec<_>>());
    let right_width = (width(&right) as u16).min(area.width);
    let right_area = Rect { x: area.x + area.width - right_width, width: right_width, ..area };
    let left_area = Rect { width: area.width - right_width, ..area };
    frame.render_widget(spans(left), left_area);
    frame.render_widget(spans(right), right_area);
}

fn place(app: &App) -> Parts {
    let theme = app.theme;
    let mut parts = vec![(" lockscope ".to_string(), theme.title())];
    if let Some(environment) = app.title.environment {
        parts.push((format!(" {} ", environment.to_uppercase()), theme.environment(environment)));
    }
    parts.push((format!(" {}", visible(app.title.target.as_bytes())), theme.accent()));
    if let Some(node) = app.scene.nodes.first() {
        if let Some(product) = node.facts.product.known() {
            parts.push((format!("  {} {}", product.flavor.name(), product.version), Style::new()));
        }
        if let Some(mode) = node.facts.mode.known() {
            parts.push((format!(" {} {}", theme.sign("·", "-"), mode.name()), theme.dim()));
        }
    }
    parts
}

/// How well what is shown can be trusted.
fn truth(app: &App, narrow: bool) -> Parts {
    let theme = app.theme;
    let mut parts = Parts::new();
    for node in &app.scene.nodes {
        parts.push(stream(app, node));
        if node.lost > 0 {
            parts.push((format!(" {} events lost", node.lost), theme.bad()));
        }
        match (node.scanning, node.scanned_ago) {
            (Some(share), None) => {
                parts.push((format!(" {} first scan {:.0}%", theme.sign("·", "-"), share * 100.0), theme.warning()))
            }
            (Some(share), Some(_)) => {
                parts.push((format!(" {} scan {:.0}%", theme.sign("·", "-"), share * 100.0), Style::new()))
            }
            (None, Some(ago)) => {
                let ago = match ago.as_secs() {
                    seconds @ 0..60 => format!("{seconds}s"),
                    seconds => short_duration(seconds * 1_000),
                };
                let word = if narrow { "" } else { " ago" };
                parts.push((format!(" {} scan {ago}{word}", theme.sign("·", "-")), Style::new()));
            }
            (None, None) => parts.push((format!(" {} not scanned yet", theme.sign("·", "-")), theme.warning())),
        }
        if let Some(cost) = node.cost {
            parts.push((
                format!(" {} cost {}{:.1}%", theme.sign("·", "-"), theme.sign("≤", "<="), cost * 100.0),
                Style::new(),
            ));
        }
    }
    if app.paused {
        parts.push((" PAUSED ".into(), theme.selected()));
    }
    parts.push(("  READ-ONLY ".into(), theme.good()));
    parts
}

fn stream(app: &App, node: &NodeScene) -> (String, Style) {
    let theme = app.theme;
    let rate = node.events_per_s.map(|rate| format!(" {rate:.0} ev/s")).unwrap_or_default();
    match &node.stream {
        Stream::Live(Source::Notification) => (format!("live{rate}"), theme.good()),
        Stream::Live(Source::Tracking) => (format!("tracking{rate}"), theme.warning()),
        Stream::Live(_) => ("polling".into(), theme.warning()),
        Stream::Reconnecting { .. } => ("RECONNECTING, rows are stale".into(), theme.bad()),
        Stream::Starting => ("connecting".into(), theme.warning()),
        Stream::Off => ("not watched".into(), theme.warning()),
    }
}

fn tab_parts(app: &App) -> Parts {
    let theme = app.theme;
    let mut parts = vec![(" ".to_string(), Style::new())];
    for (screen, command, name) in Screen::TABS {
        let key = app.keys.of(command).next().map(|press| press.to_string()).unwrap_or_default();
        let here = screen == app.screen && app.opened.is_none();
        parts.push((format!("{key} {name}"), if here { theme.heading() } else { theme.dim() }));
        parts.push(("  ".into(), Style::new()));
    }
    let scene = &app.scene;
    parts.push((format!(" {}", counted(scene.total, "lock")), theme.title()));
    for (state, count) in scene.counts.iter().filter(|(state, count)| *count > 0 && *state != State::Held) {
        parts.push((format!("  {count} {}", state.name()), theme.state(*state)));
    }
    if !app.marked.is_empty() {
        parts.push((format!("  {} marked", app.marked.len()), theme.accent()));
    }
    if scene.nodes.iter().any(|node| node.scanned_ago.is_some()) && !scene.complete {
        parts.push(("  partial".into(), theme.bad()));
    }
    parts
}

fn filter_parts(app: &App, width: u16) -> Parts {
    if app.filter_text.is_empty() {
        return Parts::new();
    }
    let text = format!("/ {} ({} shown) ", app.filter_text, app.scene.listed);
    vec![(
        part::fit(&visible(text.as_bytes()), text.width().min(usize::from(width) / 2), app.theme),
        app.theme.accent(),
    )]
}

/// `1,204 locks`
pub fn counted(count: usize, thing: &str) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    format!("{out} {thing}{}", if count == 1 { "" } else { "s" })
}
