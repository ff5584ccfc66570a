//! The feed: what happened to locks, the newest first.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::part::{self, fit, fit_key};
use crate::app::App;
use crate::model::{Change, Ending, Transition};

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let theme = app.theme;
    let width = usize::from(area.width);
    let key_width = (width / 2).saturating_sub(14).max(16);
    let mut lines = vec![Line::styled(
        format!(" {:<13}{:<10}{} {}", "TIME (UTC)", "EVENT", fit("KEY", key_width, theme), "HOLDER"),
        theme.title(),
    )];
    if app.feed.dropped > 0 {
        lines.push(Line::styled(format!(" {} changes came too fast to be kept", app.feed.dropped), theme.bad()));
    }
    let room = usize::from(area.height).saturating_sub(lines.len());
    let shown = app.feed.changes.iter().rev().filter(|change| app.tells(change)).skip(app.page.scroll).take(room);
    let before = lines.len();
    lines.extend(shown.map(|change| line(app, change, key_width)));
    if lines.len() == before {
        let why = if app.feed.changes.is_empty() {
            "Nothing has happened since lockscope started."
        } else {
            "Nothing that matches the filter has happened since lockscope started."
        };
        lines.push(Line::styled(format!("  {why}"), theme.dim()));
    }
    for (index, line) in lines.into_iter().take(usize::from(area.height)).enumerate() {
        frame.render_widget(line, Rect { y: area.y + index as u16, height: 1, ..area });
    }
}

pub fn scroll_most(app: &App, area: Rect) -> usize {
    let above = 1 + usize::from(app.feed.dropped > 0);
    let room = usize::from(area.height).saturating_sub(above);
    app.feed.changes.iter().filter(|change| app.tells(change)).count().saturating_sub(room)
}

fn line(app: &App, change: &Transition, key_width: usize) -> Line<'static> {
    let theme = app.theme;
    let style = match change.change {
        Change::Taken => theme.bad(),
        Change::Ended(Ending::Expired) => theme.warning(),
        Change::Ended(Ending::Released) => Style::new(),
        Change::Ended(_) => theme.bad(),
        Change::Acquired | Change::PutBack => theme.good(),
        Change::Found | Change::Renewed => theme.dim(),
    };
    let token = |token: &crate::lock::Token| part::token(app, &token.to_string());
    let how = match change.change {
        Change::Ended(Ending::Released | Ending::Expired | Ending::Forced) => None,
        Change::Ended(ending) => Some(ending.name()),
        _ => None,
    };
    let who = match (&change.holder, &change.previous, how) {
        (Some(holder), Some(previous), _) => format!("{} took it from {}", token(holder), token(previous)),
        (Some(holder), None, _) => token(holder),
        (None, Some(previous), Some(how)) => format!("was {}, {how}", token(previous)),
        (None, Some(previous), None) => format!("was {}", token(previous)),
        (None, None, Some(how)) => how.into(),
        (None, None, None) => "-".into(),
    };
    Line::from(vec![
        Span::styled(format!(" {:<13}", part::clock(change.at)), theme.dim()),
        Span::styled(format!("{:<10}", change.change.word()), style),
        Span::raw(format!("{} ", fit_key(&change.key, key_width, theme))),
        Span::raw(if theme.ascii { crate::base::text::ascii(&who) } else { who }),
    ])
}
