//! The two top lines: the target, how current the screen is, and the counts of locks.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::part;
use crate::app::scene::NodeScene;
use crate::app::{App, Screen};
use crate::engine::Stream;
use crate::model::{Source, State};

/// A piece of a line.
struct Part {
    text: String,
    style: Style,
    /// The part with the largest value is dropped first when room is short; [`KEEP`] is never dropped.
    gives_way: u8,
}

const KEEP: u8 = 0;

fn part(text: impl Into<String>, style: Style) -> Part {
    Part { text: text.into(), style, gives_way: KEEP }
}

impl Part {
    fn gives_way(self, gives_way: u8) -> Part {
        Part { gives_way, ..self }
    }
}

pub fn draw(frame: &mut Frame<'_>, app: &App, header: Rect, tabs: Rect) {
    draw_both(frame, app, header, place(app), truth(app));
    draw_both(frame, app, tabs, tab_parts(app), filter_parts(app, tabs.width));
}

fn width(parts: &[Part]) -> usize {
    parts.iter().map(|part| part.text.width()).sum()
}

/// One line with parts at either end. Parts are dropped until it fits; if it is still too long, the left end is cut.
fn draw_both(frame: &mut Frame<'_>, app: &App, area: Rect, mut left: Vec<Part>, mut right: Vec<Part>) {
    while width(&left) + width(&right) > usize::from(area.width) {
        let first = left.iter().chain(&right).map(|part| part.gives_way).max().unwrap_or(KEEP);
        if first == KEEP {
            break;
        }
        left.retain(|part| part.gives_way < first);
        right.retain(|part| part.gives_way < first);
    }
    let right_width = (width(&right) as u16).min(area.width);
    let left_width = area.width - right_width;
    if width(&left) > usize::from(left_width)
        && let Some(last) = left.pop()
    {
        let room = usize::from(left_width).saturating_sub(width(&left));
        left.push(Part { text: part::fit(&last.text, room, app.theme), ..last });
    }
    let line = |parts: Vec<Part>| {
        Line::from(parts.into_iter().map(|part| Span::styled(part.text, part.style)).collect::<Vec<_>>())
    };
    frame.render_widget(line(left), Rect { width: left_width, ..area });
    frame.render_widget(line(right), Rect { x: area.x + left_width, width: right_width, ..area });
}

/// The target. If room is short the last part left is cut, so the name comes after the other parts that are kept.
fn place(app: &App) -> Vec<Part> {
    let theme = app.theme;
    let mut parts = vec![part(" lockscope ", theme.title()).gives_way(2)];
    if let Some(environment) = app.title.environment {
        parts.push(part(format!(" {} ", environment.name().to_uppercase()), theme.environment(environment)));
    }
    parts.push(part(format!(" {} ", part::safe(&app.title.target, theme)), theme.accent()));
    // With several nodes, the servers screen shows this for each.
    if let [node] = app.scene.nodes.as_slice() {
        if let Some(product) = node.facts.product.known() {
            let product = format!(" {} {}", product.flavor.name(), product.version);
            parts.push(part(part::safe(&product, theme), Style::new()).gives_way(5));
        }
        if let Some(part) = node.facts.part() {
            parts.push(super::header::part(format!(" {} ", part.name()), theme.bad()));
        } else if let Some(mode) = node.facts.mode.known() {
            let mode = format!(" {} {} ", theme.sign("·", "-"), mode.name());
            parts.push(part(mode, theme.dim()).gives_way(6));
        }
    }
    // This is longer than the name and is kept, so it comes last and is cut instead.
    if let Some(told) = &app.title.protected_by {
        parts.push(part(format!(" {} ", part::safe(told, theme)), theme.warning()));
    }
    parts
}

/// How current and complete the screen is.
fn truth(app: &App) -> Vec<Part> {
    let theme = app.theme;
    let dot = theme.sign("·", "-");
    let mut parts = Vec::new();
    for node in &app.scene.nodes {
        let (state, style) = stream(app, node);
        parts.push(part(format!(" {state}"), style));
        match &node.stream {
            Stream::Live(Source::Notification | Source::Tracking) => {
                if let Some(rate) = node.events_per_s {
                    parts.push(part(format!(" {rate:.0} ev/s"), style).gives_way(3));
                }
            }
            Stream::Reconnecting { .. } => parts.push(part(", rows are stale", style).gives_way(1)),
            _ => {}
        }
        if let Some((word, _)) = &node.sampling {
            parts.push(part(format!(" {dot} {word}"), theme.warning()).gives_way(2));
        }
        if node.lost > 0 {
            parts.push(part(format!(" {dot} {} events lost", node.lost), theme.bad()));
        }
        // While the server is lost, it matters more that the rows are stale than how old the scan is.
        let scan = if matches!(node.stream, Stream::Reconnecting { .. }) { 3 } else { 1 };
        match (node.scanning, node.scanned_ago) {
            (Some(share), None) => {
                parts.push(part(format!(" {dot} first scan {:.0}%", share * 100.0), theme.warning()))
            }
            (None, None) => parts.push(part(format!(" {dot} not scanned yet"), theme.warning())),
            (Some(share), Some(_)) => {
                parts.push(part(format!(" {dot} scan {:.0}%", share * 100.0), Style::new()).gives_way(scan))
            }
            (None, Some(ago)) => {
                parts.push(part(format!(" {dot} scan {}", part::whole_seconds(ago)), Style::new()).gives_way(scan));
                parts.push(part(" ago", Style::new()).gives_way(7));
            }
        }
        if let Some(cost) = node.cost {
            // Rounded up, because it is an upper bound.
            let cost = format!(" {dot} cost {}{:.1}%", theme.sign("≤", "<="), (cost * 1_000.0).ceil() / 10.0);
            parts.push(part(cost, Style::new()).gives_way(4));
        }
    }
    if app.display.paused {
        parts.push(part("  ", Style::new()));
        parts.push(part(" PAUSED ", theme.selected()));
    }
    match app.writes() {
        true => {
            parts.push(part(" ", Style::new()));
            parts.push(part(" WRITING ", theme.bad().add_modifier(Modifier::REVERSED)));
        }
        false => parts.push(part("  READ-ONLY ", theme.good())),
    }
    parts
}

fn stream(app: &App, node: &NodeScene) -> (&'static str, Style) {
    let theme = app.theme;
    match &node.stream {
        Stream::Live(Source::Notification) => ("live", theme.good()),
        Stream::Live(Source::Tracking) => ("tracking", theme.warning()),
        Stream::Live(_) => ("polling", theme.warning()),
        Stream::Reconnecting { .. } => ("RECONNECTING", theme.bad()),
        Stream::Starting => ("connecting", theme.warning()),
        Stream::Off => ("not watched", theme.warning()),
    }
}

fn tab_parts(app: &App) -> Vec<Part> {
    let theme = app.theme;
    let mut parts = vec![part(" ", Style::new())];
    for (index, (screen, command, name)) in Screen::TABS.into_iter().enumerate() {
        let here = screen == app.page.screen && app.page.opened.is_none();
        let style = if here { theme.heading() } else { theme.dim() };
        let name = match app.keys.presses(command, app.place()).next() {
            None => part(name, style),
            Some(press) => {
                parts.push(part(part::safe(&press.to_string(), theme), style));
                // If room is short, only the key of a screen is shown, starting with the last screens.
                part(format!(" {name}"), style).gives_way(if here { KEEP } else { 2 + index as u8 })
            }
        };
        parts.push(name);
        parts.push(part("  ", Style::new()));
    }
    let scene = &app.scene;
    // Before the first scan is done, no locks found means unknown, not zero.
    let unknown = scene.total == 0 && scene.nodes.iter().any(|node| node.scanned_ago.is_none());
    let total = if unknown { "? locks".into() } else { counted(scene.total, "lock") };
    parts.push(part(format!(" {total}"), theme.title()));
    for (state, count) in scene.counts.iter().filter(|(state, count)| *count > 0 && *state != State::Held) {
        parts.push(part(format!("  {count} {}", state.name()), theme.state(*state)));
    }
    if !app.list.marked.is_empty() {
        parts.push(part(format!("  {} marked", app.list.marked.len()), theme.accent()));
    }
    if scene.nodes.iter().any(|node| node.scanned_ago.is_some()) && !scene.complete {
        parts.push(part("  partial", theme.bad()));
    }
    parts
}

fn filter_parts(app: &App, width: u16) -> Vec<Part> {
    if app.list.filter_text.is_empty() {
        return Vec::new();
    }
    let text = part::safe(&app.list.filter_text, app.theme);
    let shown = format!(" ({} shown) ", app.scene.listed);
    let room = (usize::from(width) / 2).saturating_sub(shown.width() + 3);
    let text = if text.width() > room { part::fit(&text, room, app.theme) } else { text };
    vec![part(format!(" / {text}"), app.theme.accent()), part(shown, app.theme.accent()).gives_way(1)]
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
