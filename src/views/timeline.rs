//! The timeline: what mattered, the newest first, and the selected entry as a whole sentence below.
//!
//! ```text
//!  UTC       WHAT                KEY                     WHY
//!  03:12:07  HELD → STALLED      lock:order:8841         renewed every 10.0s until 15.0s before, 1 missed: lost …
//!  ──────────────────────────────────────────────────────────────────────────────── 1 of 12 in the last 5m00s ─
//!  lock:order:8841  the whole sentence
//! ```

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::part::{self, fit};
use super::{evidence, wrap::wrap};
use crate::app::App;
use crate::base::text::{self, short_duration};
use crate::lock::Key;
use crate::model::{Act, Notable, State, What};

const TIME: usize = 10;
const WHAT: usize = 20;
/// The reason has this much, unless the keys need it: the selected entry has all of it below.
const WHY: usize = 12;

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect, below: Rect) {
    let theme = app.theme;
    let room = usize::from(area.width).saturating_sub(1 + TIME + WHAT);
    let scene = &app.scene.timeline;
    let names: Vec<Option<&Key>> = scene.rows.iter().map(|entry| entry.key.as_ref()).collect();
    let (key_width, keys) = part::fit_keys_of(&names, room, WHY, theme);
    let title = fit(&format!("{} WHY", fit("KEY", key_width, theme)), room, theme);
    let title = format!(" {:<TIME$}{:<WHAT$}{title}", "UTC", "WHAT");
    let mut lines = vec![Line::styled(title, theme.title())];
    for (index, (entry, key)) in scene.rows.iter().zip(keys).enumerate() {
        let selected = scene.cursor == Some(scene.first + index);
        let times = scene.times.get(index).copied().unwrap_or(1);
        lines.push(line(app, (entry, times), key, selected, room));
    }
    if scene.rows.is_empty() {
        lines.push(Line::styled(format!("  {}", nothing(app)), theme.dim()));
    }
    for (index, line) in lines.into_iter().take(usize::from(area.height)).enumerate() {
        frame.render_widget(line, Rect { y: area.y + index as u16, height: 1, ..area });
    }
    draw_selected(frame, app, below);
}

/// `in the last 5m00s`; without a span, since when nothing is missing.
fn span(app: &App) -> String {
    let scene = &app.scene.timeline;
    let since = scene.since.map(|since| format!("since {}", part::clock_seconds(since))).unwrap_or_default();
    match app.timeline.since {
        Some(span) => format!("in the last {}", short_duration(span.as_millis() as u64)),
        None if scene.left_out > 0 => format!("{since}; {} older ones were left out", scene.left_out),
        None => since,
    }
}

fn nothing(app: &App) -> String {
    let that = if app.list.filter.is_some() { " and matches the filter" } else { "" };
    format!("Nothing that matters{that} was seen {}.", span(app))
}

/// `key`: as it is shown, beside the other keys in sight. `times`: how often it happened to the lock; the entry is the last.
fn line(
    app: &App,
    (entry, times): (&Notable, usize),
    key: Option<String>,
    selected: bool,
    room: usize,
) -> Line<'static> {
    let theme = app.theme;
    // What concerns a server needs no column for a key.
    let rest = match key {
        Some(key) => format!("{key} {}{}", often(times), sentence(app, entry)),
        None => of_server(app, entry),
    };
    let mark = if selected { theme.sign("▌", ">") } else { " " };
    let mut line = Line::from(vec![
        Span::styled(mark, theme.accent()),
        Span::styled(format!("{:<TIME$}", part::clock_seconds(entry.at)), theme.dim()),
        Span::styled(fit(&headline(app, entry), WHAT, theme), style(app, entry)),
        Span::raw(fit(&rest, room, theme)),
    ]);
    if selected {
        line = line.patch_style(theme.selected());
    }
    line
}

/// `41 times; last: `.
fn often(times: usize) -> String {
    if times > 1 { format!("{times} times; last: ") } else { String::new() }
}

fn headline(app: &App, entry: &Notable) -> String {
    entry.what.headline(app.theme.sign("→", "->"))
}

/// The sentence, with the name of the server if there are several.
fn of_server(app: &App, entry: &Notable) -> String {
    let several = app.scene.nodes.len() > 1;
    let node = app.scene.nodes.iter().find(|node| several && node.id == entry.node);
    let (name, sentence) = (node.map(|node| part::safe(&node.name, app.theme)), sentence(app, entry));
    match name.filter(|name| !sentence.contains(name.as_str())) {
        Some(name) => format!("{name}: {sentence}"),
        None => sentence,
    }
}

fn sentence(app: &App, entry: &Notable) -> String {
    // Evidence names holders and their addresses.
    let hidden = app.display.private && matches!(entry.what, What::State { why: Some(_), .. });
    let sentence = match hidden {
        true => part::HIDDEN.to_string(),
        false => entry.what.sentence(|token| part::token(app, &token.to_string())),
    };
    if app.theme.ascii { text::ascii(&sentence) } else { sentence }
}

fn style(app: &App, entry: &Notable) -> Style {
    let theme = app.theme;
    match &entry.what {
        What::State { to: State::Held | State::Test | State::Done | State::Free, .. } => theme.good(),
        What::State { to, .. } => theme.state(*to),
        What::Lost { cause, .. } if !cause.is_proven() => theme.warning(),
        What::Taken { .. } | What::Lost { .. } | What::Restarted => theme.bad(),
        What::Wrote { write, .. } if matches!(write.act, Act::Free { .. }) => theme.bad(),
        What::Wrote { .. } => theme.accent(),
        What::Failover { .. } | What::Server(_) | What::Away { .. } | What::Back { .. } => theme.warning(),
        What::Missed { .. } | What::Sampling { .. } => theme.warning(),
    }
}

/// The selected entry, with room for all of its sentence.
fn draw_selected(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let scene = &app.scene.timeline;
    let position = scene.cursor.map(|cursor| format!(" {} of {} {} ", cursor + 1, scene.listed, span(app)));
    evidence::rule(frame, app, area, &position.unwrap_or_default());
    let Some(entry) = scene.selected() else { return };
    let width = usize::from(area.width).saturating_sub(2);
    let text = match &entry.key {
        Some(key) => {
            let headline = headline(app, entry);
            let key = part::cut_key(key, width.saturating_sub(headline.width() + 2), app.theme);
            let times = scene.cursor.and_then(|cursor| scene.times.get(cursor.checked_sub(scene.first)?));
            let often = often(times.copied().unwrap_or(1));
            format!("{key}  {headline}  {often}{}", sentence(app, entry))
        }
        None => format!("{}  {}", headline(app, entry), of_server(app, entry)),
    };
    let rows = usize::from(area.height).saturating_sub(1);
    for (index, line) in wrap(&text, width).into_iter().take(rows).enumerate() {
        let place = Rect { x: area.x + 1, y: area.y + 1 + index as u16, width: width as u16, height: 1 };
        frame.render_widget(Line::raw(line), place);
    }
}
