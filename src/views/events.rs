//! The feed: every single change of a lock, the newest first. It never claims more than it holds.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::part::{self, fit};
use crate::app::App;
use crate::lock::Key;
use crate::model::{Change, Ending, Transition};

const TIME: usize = 13;
const EVENT: usize = 10;
/// A shortened token, and that it was the holder.
const HOLDER: usize = 17;

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let theme = app.theme;
    let room = usize::from(area.height).saturating_sub(above(app));
    let shown = app.feed.changes.iter().rev().filter(|change| app.tells(change)).skip(app.page.scroll).take(room);
    let shown: Vec<&Transition> = shown.collect();
    let names: Vec<Option<&Key>> = shown.iter().map(|change| Some(&change.key)).collect();
    let width = usize::from(area.width).saturating_sub(1 + TIME + EVENT);
    let (key_width, keys) = part::fit_keys_of(&names, width, HOLDER, theme);
    let title = fit(&format!("{} HOLDER", fit("KEY", key_width, theme)), width, theme);
    let title = format!(" {:<TIME$}{:<EVENT$}{title}", "TIME (UTC)", "EVENT");
    let mut lines = vec![Line::styled(title, theme.title())];
    if app.feed.dropped > 0 {
        lines.push(Line::styled(
            format!(" {} changes were not kept: they came too fast", app.feed.dropped),
            theme.bad(),
        ));
    }
    if shown.is_empty() {
        let since = app.fed_since().map(|since| format!(" since {}", part::clock_seconds(since))).unwrap_or_default();
        let why = match app.feed.changes.is_empty() {
            true => format!("Nothing was seen{since}."),
            false => format!("Nothing that matches the filter was seen{since}."),
        };
        lines.push(Line::styled(format!("  {why}"), theme.dim()));
    }
    lines.extend(shown.into_iter().zip(keys).map(|(change, key)| line(app, change, &key.unwrap_or_default())));
    for (index, line) in lines.into_iter().take(usize::from(area.height)).enumerate() {
        frame.render_widget(line, Rect { y: area.y + index as u16, height: 1, ..area });
    }
}

/// The lines above the changes.
fn above(app: &App) -> usize {
    1 + usize::from(app.feed.dropped > 0)
}

pub fn scroll_most(app: &App, area: Rect) -> usize {
    let room = usize::from(area.height).saturating_sub(above(app));
    app.feed.changes.iter().filter(|change| app.tells(change)).count().saturating_sub(room)
}

/// `key`: as it is shown, beside the other keys in sight.
fn line(app: &App, change: &Transition, key: &str) -> Line<'static> {
    let theme = app.theme;
    let style = match change.change {
        Change::Taken | Change::CameBack => theme.bad(),
        Change::Ended(Ending::Expired) => theme.warning(),
        Change::Ended(Ending::Released) => Style::new(),
        Change::Ended(_) => theme.bad(),
        Change::Acquired | Change::PutBack => theme.good(),
        Change::Found | Change::Renewed | Change::Moved => theme.dim(),
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
        Span::styled(format!(" {:<TIME$}", part::clock(change.at)), theme.dim()),
        Span::styled(format!("{:<EVENT$}", change.change.word()), style),
        Span::raw(format!("{key} ")),
        Span::raw(if theme.ascii { crate::base::text::ascii(&who) } else { who }),
    ])
}
