//! The lab: the test locks of this console, one per row, and below them the details of the selected one.
//!
//! ```text
//!   STATE    KEY              FORM          TTL WATCHDOG  RENEWED CONTEND  FAIL/S
//!  ▌HELD     lock:test        plain       29.1s on              4       3  29.6=c
//!   REFUSED  lock:order       reentrant       - off             0       -       -
//! ```

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::part::{self, fit, fit_key, fit_right, safe};
use super::wrap::{Labelled, wrap};
use crate::app::theme::Theme;
use crate::app::{App, Row};
use crate::base::text::short_duration;
use crate::lab::{Phase, WINDOW};
use crate::settings::keys::Command;

/// At this width or more there is room for all columns.
const WIDE: usize = 110;

/// A title, its width, and whether the cells are right-aligned.
type Column = (&'static str, usize, bool);

const COLUMNS: [Column; 11] = [
    ("STATE", 8, false),
    ("KEY", 0, false),
    ("FORM", 9, false),
    ("TTL", 7, true),
    ("WATCHDOG", 8, false),
    ("RENEWED", 7, true),
    ("CONTEND", 7, true),
    ("FAIL/S", 7, true),
    ("ATTEMPTS", 9, true),
    ("FAILED", 9, true),
    ("OBTAINED", 9, true),
];

/// The columns that fit; the key takes the remaining width.
fn columns(width: usize) -> Vec<Column> {
    let mut columns = COLUMNS[..if width >= WIDE { COLUMNS.len() } else { 8 }].to_vec();
    let taken: usize = 1 + columns.iter().map(|(_, width, _)| width + 1).sum::<usize>();
    columns[1].1 = width.saturating_sub(taken);
    columns
}

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let width = usize::from(area.width);
    let about = about(app, width);
    let height = usize::from(area.height);
    let room = height.saturating_sub(about.len() + 2).max(1);
    let mut lines = vec![heading(width, app.theme)];
    let cursor = app.lab.cursor();
    let first = cursor.map_or(0, |cursor| (cursor + 1).saturating_sub(room));
    for (index, row) in app.lab.rows().iter().enumerate().skip(first).take(room) {
        lines.push(line(app, row, cursor == Some(index), width));
    }
    if app.lab.rows().is_empty() {
        lines.push(Line::raw(""));
        let texts = nothing(app);
        let texts = texts.iter().flat_map(|text| wrap(text, width.saturating_sub(4)));
        lines.extend(texts.map(|text| Line::styled(format!("  {text}"), app.theme.dim())));
    } else {
        lines.push(Line::raw(""));
        lines.extend(about);
    }
    for (index, line) in lines.into_iter().take(height).enumerate() {
        frame.render_widget(line, Rect { y: area.y + index as u16, height: 1, ..area });
    }
}

fn nothing(app: &App) -> Vec<String> {
    let (take, write) = (app.key_of(Command::Acquire), app.key_of(Command::Write));
    let how = match app.writes() {
        true => format!("No test locks. {take} takes one, from any screen."),
        false => format!("No test locks. {write} turns writing on, then {take} takes one, from any screen."),
    };
    vec![how, "A test lock is marked TEST, expires by itself, and is removed when lockscope ends.".into()]
}

fn heading(width: usize, theme: Theme) -> Line<'static> {
    let titles = columns(width).into_iter().map(|(title, width, right)| cell(title, width, right, theme));
    Line::styled(format!(" {}", titles.collect::<String>()), theme.title())
}

fn cell(text: &str, width: usize, right: bool, theme: Theme) -> String {
    let text = if right { fit_right(text, width, theme) } else { fit(text, width, theme) };
    format!("{text} ")
}

fn line(app: &App, row: &Row, selected: bool, width: usize) -> Line<'static> {
    let (theme, report) = (app.theme, &row.report);
    let (state, style) = state(&report.phase, theme);
    let columns = columns(width);
    let contended = report.contenders > 0 || report.counts.attempts() > 0;
    let number = |count: u64| if contended { count.to_string() } else { "-".into() };
    let texts = [
        state.to_string(),
        fit_key(&report.key, columns[1].1, theme),
        report.form.name().to_string(),
        ttl(app, row),
        if report.watchdog { "on" } else { "off" }.to_string(),
        report.renewals.to_string(),
        if contended { report.contenders.to_string() } else { "-".into() },
        rate(row),
        number(report.counts.attempts()),
        number(report.counts.failures),
        number(report.counts.obtained),
    ];
    let base = if selected { theme.selected() } else { Style::new() };
    let mut spans = vec![Span::styled(if selected { theme.sign("▌", ">") } else { " " }.to_string(), base)];
    for (index, ((_, width, right), text)) in columns.into_iter().zip(texts).enumerate() {
        let style = if index == 0 { base.patch(style) } else { base };
        spans.push(Span::styled(cell(&text, width, right, theme), style));
    }
    Line::from(spans)
}

fn state(phase: &Phase, theme: Theme) -> (&'static str, Style) {
    match phase {
        Phase::Taking => ("TAKING", theme.dim()),
        Phase::Held => ("HELD", theme.accent()),
        Phase::Refused(_) => ("REFUSED", theme.warning()),
        Phase::Lost(_) => ("LOST", theme.bad()),
        Phase::Released => ("RELEASED", theme.dim()),
        Phase::Unknown(_) => ("UNKNOWN", theme.bad()),
    }
}

/// How long our hold surely lasts.
fn ttl(app: &App, row: &Row) -> String {
    match (&row.report.phase, row.ends) {
        (Phase::Held, Some(ends)) => short_duration(ends.since(app.scene.at).as_millis() as u64),
        _ => "-".into(),
    }
}

/// The failure rate that the contenders count themselves; `?` until it was measured.
fn rate(row: &Row) -> String {
    match (row.report.contenders, row.report.failures_per_s) {
        (0, _) => "-".into(),
        (_, None) => "?".into(),
        (_, Some(rate)) => format!("{rate:.1}=c"),
    }
}

/// The details of the selected test lock.
fn about(app: &App, width: usize) -> Vec<Line<'static>> {
    let Some(row) = app.lab.cursor().map(|at| &app.lab.rows()[at]) else { return Vec::new() };
    let (theme, report) = (app.theme, &row.report);
    let mut page = Labelled::new(width, theme);
    let (word, style) = state(&report.phase, theme);
    page.lines.push(Line::from(vec![
        Span::styled(format!(" {}  ", fit_key(&report.key, width.saturating_sub(12), theme).trim_end()), theme.title()),
        Span::styled(word, style),
    ]));
    let mut say = |label: &str, text: String, style: Style| page.say(label, &safe(&text, theme), style);
    match &report.phase {
        // The reason may name the holder.
        Phase::Refused(_) | Phase::Lost(_) if app.display.private => say("why", part::HIDDEN.into(), style),
        Phase::Refused(why) | Phase::Lost(why) | Phase::Unknown(why) => say("why", why.clone(), style),
        Phase::Taking | Phase::Held | Phase::Released => {}
    }
    if let Some(trouble) = &report.trouble {
        say("trouble", trouble.clone(), theme.warning());
    }
    let token = report.token.as_ref().map_or("-".into(), |token| part::token(app, &token.to_string()));
    let lease = short_duration(report.ttl.as_millis() as u64);
    let renewal = match report.watchdog {
        true => "renewed every third of it",
        false => "not renewed",
    };
    say("token", token, Style::new());
    say("lease", format!("{lease}, {renewal}"), Style::new());
    let counts = &report.counts;
    if report.contenders > 0 || counts.attempts() > 0 {
        let there = crate::base::text::counted(report.contenders as u64, "contender");
        let (attempts, failures, obtained) = (counts.attempts(), counts.failures, counts.obtained);
        let troubles = match counts.troubles {
            0 => String::new(),
            troubles => format!(", {troubles} without an answer"),
        };
        let text = format!("{there}: {attempts} attempts, {failures} failed, {obtained} got it{troubles}");
        say("contention", text, Style::new());
        if let (1.., Some(rate)) = (report.contenders, report.failures_per_s) {
            let window = WINDOW.as_secs();
            say("", format!("{rate:.1} failures a second over the last {window}s, counted"), Style::new());
        }
    }
    if !app.writes() && report.phase == Phase::Held {
        let write = app.key_of(Command::Write);
        say("read-only", format!("this lock is kept, and no other is taken; {write} turns writing on"), theme.dim());
    }
    page.lines
}
