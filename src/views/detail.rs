//! Everything about one lock: the verdict, its lease on a chart, and what is known in words.
//!
//! ```text
//!  lock:order:8841  STALLED                       lock:order:8841  STALLED
//!  the sentence with the numbers                  the sentence with the numbers
//!        │▇▅▃ ▇▅▃ ▇▅▃·                                 │▇▅▃ ▇▅▃ ▇▅▃·      findings
//!  expected │   │   │                             expected │   │   │      holder
//!  findings, holder                               before                  waiting
//!  waiting, before, freeing, keys, value          value                   freeing, keys
//!
//!  narrow: one column                             wide: two
//! ```

mod chart;
mod sections;
mod timeline;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::evidence::sentence;
use super::part;
use super::wrap::{Labelled, wrap};
use crate::app::App;
use crate::model::LockView;
use timeline::Timeline;

/// At this width or more there are two columns.
const WIDE: u16 = 120;

/// The lines of a detail: some over the whole width, then a column, or two.
struct Layout {
    head: Vec<Line<'static>>,
    left: Vec<Line<'static>>,
    right: Vec<Line<'static>>,
}

impl Layout {
    fn of(app: &App, lock: &LockView, area: Rect) -> Layout {
        let head = head(app, lock, area);
        let height = (usize::from(area.height) / 5).clamp(3, 8);
        if area.width < WIDE {
            let mut page = Labelled::new(usize::from(area.width), app.theme);
            life(app, lock, &mut page, height);
            sections::findings(app, lock, &mut page);
            sections::holders(app, lock, &mut page);
            sections::waiters(app, lock, &mut page);
            sections::freeing(app, lock, &mut page);
            sections::before(app, lock, &mut page);
            sections::keys(app, lock, &mut page);
            sections::value(app, lock, &mut page);
            sections::library(app, lock, &mut page);
            return Layout { head, left: page.lines, right: Vec::new() };
        }
        let mut left = Labelled::new(usize::from(left_width(area)), app.theme);
        life(app, lock, &mut left, height);
        sections::before(app, lock, &mut left);
        sections::value(app, lock, &mut left);
        sections::library(app, lock, &mut left);
        let mut right = Labelled::new(usize::from(area.width - left_width(area)), app.theme);
        sections::findings(app, lock, &mut right);
        sections::holders(app, lock, &mut right);
        sections::waiters(app, lock, &mut right);
        sections::freeing(app, lock, &mut right);
        sections::keys(app, lock, &mut right);
        Layout { head, left: left.lines, right: right.lines }
    }

    fn height(&self) -> usize {
        self.head.len() + self.left.len().max(self.right.len())
    }
}

fn left_width(area: Rect) -> u16 {
    area.width / 2
}

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(lock) = &app.scene.lock else { return };
    let layout = Layout::of(app, lock, area);
    let most = layout.height().saturating_sub(usize::from(area.height));
    // The head does not scroll, so that the lock's name stays in sight.
    let head = (layout.head.len() as u16).min(area.height);
    let body = Rect { y: area.y + head, height: area.height - head, ..area };
    frame.render_widget(Paragraph::new(layout.head), Rect { height: head, ..area });
    if most > 0 {
        let place = match most.saturating_sub(app.page.scroll) {
            0 => "the end ".into(),
            below => format!("{below} more lines below "),
        };
        let line = Rect { y: area.y + head.saturating_sub(1), height: 1, ..area };
        frame.render_widget(Line::styled(place, app.theme.dim()).right_aligned(), line);
    }
    let column =
        |lines: Vec<Line<'static>>| Paragraph::new(lines.into_iter().skip(app.page.scroll).collect::<Vec<_>>());
    if layout.right.is_empty() {
        return frame.render_widget(column(layout.left), body);
    }
    let left = left_width(area);
    frame.render_widget(column(layout.left), Rect { width: left, ..body });
    frame.render_widget(column(layout.right), Rect { x: body.x + left, width: body.width - left, ..body });
}

/// How far the detail can be scrolled.
pub fn scroll_most(app: &App, area: Rect) -> usize {
    let Some(lock) = &app.scene.lock else { return 0 };
    Layout::of(app, lock, area).height().saturating_sub(usize::from(area.height))
}

/// How many lines a page down moves: all lines below the head but one.
pub fn page(app: &App, area: Rect) -> usize {
    let head = app.scene.lock.as_ref().map_or(0, |lock| head(app, lock, area).len());
    usize::from(area.height).saturating_sub(head + 1)
}

/// Its name, its state, and the sentence with the numbers; long texts are cut to a few lines.
fn head(app: &App, lock: &LockView, area: Rect) -> Vec<Line<'static>> {
    let theme = app.theme;
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let state = lock.verdict.state;
    let names = at_most(
        (height / 6).max(1),
        wrap(&part::key(&lock.key, theme), width.saturating_sub(state.label().len() + 6)),
        app,
    );
    let mut lines: Vec<Line> =
        names.into_iter().map(|name| Line::from(Span::styled(format!(" {name}"), theme.title()))).collect();
    if let Some(first) = lines.first_mut() {
        first.push_span(Span::raw("  "));
        first.push_span(Span::styled(format!(" {} ", state.label()), theme.state(state)));
    }
    let sentence = at_most((height / 5).max(2), wrap(&sentence(app, lock), width.saturating_sub(2)), app);
    lines.extend(sentence.into_iter().map(|line| Line::raw(format!(" {line}"))));
    lines.push(Line::raw(""));
    lines
}

/// The first `most` lines, with a mark if there were more.
fn at_most(most: usize, mut lines: Vec<String>, app: &App) -> Vec<String> {
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            last.pop();
            last.push_str(app.theme.sign("…", "~"));
        }
    }
    lines
}

/// What is left of its lease, as a chart and in words.
fn life(app: &App, lock: &LockView, page: &mut Labelled, height: usize) {
    let (theme, plain) = (app.theme, Style::new());
    page.say("ttl", &sections::ttl(app, lock), plain);
    match Timeline::of(lock, app.scene.at) {
        Ok(timeline) => page.lines.extend(chart::lines(&timeline, page.width(), height, theme)),
        Err(why) => page.say("ttl", &format!("no chart: {why}"), theme.dim()),
    }
    page.say("renewals", &sections::renewals(lock), plain);
}

#[cfg(test)]
mod tests;
