//! The top lines: the target and how current the screen is, the screens, and the counts of locks with the filter.
//!
//! Where the window is low, the counts share the line of the screens.

mod several;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::{groups, paint, part};
use crate::alerts::AlertState;
use crate::app::scene::{NodeScene, shows_free};
use crate::app::{App, Recording, Screen};
use crate::base::text;
use crate::engine::Stream;
use crate::model::{Source, State};
use crate::server::Mode;
use crate::server::health::Status;
use crate::settings::keys::Command;

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

/// At this width the names of all screens stay, whatever else has to go.
const NAMED: u16 = 80;

/// `counts` may be empty.
pub fn draw(frame: &mut Frame<'_>, app: &App, header: Rect, tabs: Rect, counts: Rect) {
    draw_both(frame, app, header, place(app), truth(app));
    let (mut left, filter) = (tab_parts(app, tabs.width), filter_parts(app, tabs.width));
    if counts.height > 0 {
        draw_both(frame, app, tabs, left, Vec::new());
        return draw_both(frame, app, counts, count_parts(app), filter);
    }
    left.extend(count_parts(app));
    draw_both(frame, app, tabs, left, filter);
}

/// The locks that the server took, until the operator dismisses it.
pub fn draw_losses(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(losses) = app.timeline.losses() else { return };
    let causes: Vec<&str> = losses.causes.iter().map(|cause| cause.name()).collect();
    let when = if losses.goes_on { "since" } else { "at" };
    let lost = text::counted(losses.locks, "lock");
    let text = format!(" {lost} lost {when} {} ({})", part::clock_seconds(losses.at), causes.join(", "));
    let keys = (app.key_of(Command::Events), app.key_of(Command::Dismiss));
    let hint = format!("  {} shows what happened, {} dismisses this", keys.0, keys.1);
    let theme = app.theme;
    let parts = vec![part(text, theme.bad()), part(part::safe(&hint, theme), theme.dim()).gives_way(1)];
    draw_both(frame, app, area, parts, Vec::new());
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
    paint::line(frame, &line(left), Rect { width: left_width, ..area });
    paint::line(frame, &line(right), Rect { x: area.x + left_width, width: right_width, ..area });
}

/// The target. If room is short the last part left is cut, so the name comes after the other parts that are kept.
fn place(app: &App) -> Vec<Part> {
    let theme = app.theme;
    let mut parts = vec![part(" lockscope ", theme.title()).gives_way(2)];
    if let Some(environment) = app.title.environment {
        parts.push(part(format!(" {} ", environment.name().to_uppercase()), theme.environment(environment)));
    }
    parts.extend(badge(app));
    parts.push(part(format!(" {} ", part::safe(&app.title.target, theme)), theme.accent()));
    // With several nodes, the servers screen shows this for each.
    if let [node] = app.scene.nodes.as_slice() {
        if let Some(product) = node.facts.product.known() {
            let product = format!(" {} {}", product.flavor.name(), product.version);
            parts.push(part(part::safe(&product, theme), Style::new()).gives_way(5));
        }
        if let Some(part) = node.part() {
            parts.push(super::header::part(format!(" {} ", part.name()), theme.bad()));
        } else if let Some(mode) = node.facts.mode.known() {
            // A server that takes turns with others has sentinels that watch it.
            let mode = if node.in_cluster && *mode == Mode::Standalone { Mode::Sentinel } else { *mode };
            let mode = format!(" {} {} ", theme.sign("·", "-"), mode.name());
            parts.push(part(mode, theme.dim()).gives_way(6));
        }
    }
    if app.scene.nodes.len() > 1 && app.scene.nodes.iter().all(|node| node.in_cluster) {
        parts.push(part(format!(" {} cluster ", theme.sign("·", "-")), theme.dim()).gives_way(6));
    }
    // This is longer than the name and is kept, so it comes last and is cut instead.
    if let Some(why) = &app.title.protected_by {
        parts.push(part(format!(" {} ", part::safe(why, theme)), theme.warning()));
    }
    parts
}

/// How many alerts fire, else how many soon may.
fn badge(app: &App) -> Option<Part> {
    let (firing, pending) = (app.alerting.count(AlertState::Firing), app.alerting.count(AlertState::Pending));
    match (firing, pending) {
        (0, 0) => None,
        (0, pending) => Some(part(format!(" {pending} pending "), app.theme.warning()).gives_way(1)),
        (firing, _) => Some(part(format!(" {firing} firing "), app.theme.bad().add_modifier(Modifier::REVERSED))),
    }
}

/// How current and complete the screen is.
fn truth(app: &App) -> Vec<Part> {
    let theme = app.theme;
    let dot = theme.sign("·", "-");
    let mut parts = Vec::new();
    if app.scene.nodes.len() > 1 {
        parts = several::truth(app);
    }
    for node in app.scene.nodes.iter().filter(|_| app.scene.nodes.len() == 1) {
        let (state, style) = stream(app, node);
        parts.push(part(format!(" {state}"), style));
        match &node.stream {
            Stream::Live(Source::Notification | Source::Tracking) => {
                if let Some(rate) = node.events_per_s {
                    parts.push(part(format!(" {rate:.0} ev/s"), style).gives_way(3));
                }
            }
            Stream::Silent { .. } | Stream::Refusing { .. } | Stream::Reconnecting { .. } => {
                parts.push(part(", rows are stale", style).gives_way(1));
            }
            _ => {}
        }
        if let Some((word, _)) = &node.sampling {
            parts.push(part(format!(" {dot} {word}"), theme.warning()).gives_way(2));
        }
        if node.lost != Some(0) {
            let lost = node.lost.map(|lost| format!("{lost} ")).unwrap_or_default();
            parts.push(part(format!(" {dot} {lost}events lost"), theme.bad()));
        }
        // While the server is lost, it matters more that the rows are stale than how old the scan is.
        let scan = if node.is_away() { 3 } else { 1 };
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
    parts.extend(sentinels(app));
    match &app.recording {
        Recording::Off | Recording::Changing => {}
        Recording::On { trouble: None, .. } => parts.push(part("  REC", theme.warning())),
        Recording::On { trouble: Some(_), .. } => parts.push(part("  REC FAILS", theme.bad())),
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

/// Too few sentinels answer: a master that fails is not replaced, and nothing is written.
fn sentinels(app: &App) -> Option<Part> {
    let council = app.scene.others.council.as_ref()?;
    let few = app.scene.others.sentinels().is_some_and(|check| check.status == Status::Bad);
    let dot = app.theme.sign("·", "-");
    let text = format!(" {dot} {} of {} sentinels: NO FAILOVER", council.answering(), council.sentinels.len());
    few.then(|| part(text, app.theme.bad()))
}

fn stream(app: &App, node: &NodeScene) -> (&'static str, Style) {
    let theme = app.theme;
    match &node.stream {
        Stream::Live(Source::Notification) => ("live", theme.good()),
        Stream::Live(Source::Tracking) => ("tracking", theme.warning()),
        Stream::Live(_) => ("polling", theme.warning()),
        Stream::Silent { .. } => ("NO ANSWER", theme.bad()),
        Stream::Refusing { .. } => ("CLUSTER DOWN", theme.bad()),
        Stream::Reconnecting { .. } => ("RECONNECTING", theme.bad()),
        Stream::Starting => ("connecting", theme.warning()),
        Stream::Off => ("not watched", theme.warning()),
    }
}

fn tab_parts(app: &App, width: u16) -> Vec<Part> {
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
                let gives_way = if width < NAMED { COUNTS + State::ALL.len() as u8 } else { 2 };
                part(format!(" {name}"), style).gives_way(if here { KEEP } else { gives_way + index as u8 })
            }
        };
        parts.push(name);
        parts.push(part("  ", Style::new()));
    }
    parts
}

/// The first of the counts to give way is the calmest state, this plus its place among the states.
const COUNTS: u8 = 10;

fn count_parts(app: &App) -> Vec<Part> {
    let (theme, scene) = (app.theme, &app.scene);
    // Before the first scan is done, no locks found means unknown, not zero.
    let unknown = scene.total == 0 && scene.nodes.iter().any(|node| node.scanned_ago.is_none());
    // A marker is no lock: it is counted as done.
    let markers = scene.counts.iter().find(|(state, _)| *state == State::Done).map_or(0, |(_, count)| *count);
    let locks = scene.total.saturating_sub(markers) as u64;
    let total = if unknown { "? locks".into() } else { text::counted(locks, "lock") };
    // Where only walks find new locks, the count can but fall between them.
    let polled = |node: &NodeScene| node.stream == Stream::Live(Source::Scan) && node.scanned_ago.is_some();
    let least = if !unknown && scene.nodes.iter().any(polled) { theme.sign("≥", ">=") } else { "" };
    let mut parts = vec![part(format!(" {least}{total}"), theme.title())];
    for (state, count) in scene.counts.iter().filter(|(state, count)| *count > 0 && *state != State::Held) {
        let hidden = *state == State::Free && !shows_free(app.list.filter.as_ref());
        let hidden = if hidden { " hidden" } else { "" };
        let beyond = match scene.lost_beyond {
            more @ 1.. if *state == State::Lost => format!(" +{more} not listed"),
            _ => String::new(),
        };
        let part = part(format!("  {count} {}{hidden}{beyond}", state.name()), theme.state(*state));
        parts.push(part.gives_way(COUNTS + *state as u8));
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
    let mut parts = Vec::new();
    if let Some(name) = app.open_group() {
        let shown = groups::fit_name(app, name, usize::from(width) / 3);
        parts.push(part(format!(" {}: {} ", name.by().name(), shown.trim_end()), app.theme.accent()));
    }
    if app.list.filter_text.is_empty() {
        return parts;
    }
    let text = part::safe(&app.list.filter_text, app.theme);
    let listed = if app.in_timeline() { app.scene.timeline.listed } else { app.scene.listed };
    let shown = format!(" ({listed} shown) ");
    let room = (usize::from(width) / 2).saturating_sub(shown.width() + 3);
    let text = if text.width() > room { part::fit(&text, room, app.theme) } else { text };
    parts.push(part(format!(" / {text}"), app.theme.accent()));
    parts.push(part(shown, app.theme.accent()).gives_way(1));
    parts
}
