//! Everything about one lock: the verdict, its lease on a chart, and what is known in words.
//!
//! ```text
//!  lock:order:8841  STALLED                       lock:order:8841  STALLED
//!  the sentence with the numbers                  the sentence with the numbers
//!  whether it is safe to free                     whether it is safe to free
//!        │▇▅▃ ▇▅▃ ▇▅▃·                                 │▇▅▃ ▇▅▃ ▇▅▃·      findings
//!  expected │   │   │                             expected │   │   │      holder
//!  findings, holder                               before                  waiting
//!  waiting, before, freeing, keys, value          value                   freeing, keys
//!
//!  narrow: one column                             wide: two
//! ```

mod chart;
mod sections;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::evidence::sentence;
use super::part;
use super::wrap::{Labelled, wrap};
use crate::app::{App, Screen};
use crate::model::{LockView, Why};
use crate::output::{Sawtooth, tree};
use crate::settings::keys::Command;

/// At this width or more there are two columns.
const WIDE: u16 = 120;
/// Below this height there is little room above the chart.
const SMALL: u16 = 16;

/// The lines of a detail: some over the whole width, then a column, or two.
struct Layout {
    head: Vec<Line<'static>>,
    left: Vec<Line<'static>>,
    right: Vec<Line<'static>>,
}

impl Layout {
    fn of(app: &App, lock: &LockView, area: Rect) -> Layout {
        let mut head = head(app, lock, area);
        let height = (usize::from(area.height) / 6).clamp(3, 8);
        if app.page.why {
            let width = Some(usize::from(area.width.saturating_sub(2)));
            let hide = |text| part::without_holders(app, lock, text);
            let lines = tree::lines(&Why::of(lock), width, app.theme.ascii, &app.monitor(), hide);
            let left = lines.into_iter().map(|line| Line::raw(format!(" {line}"))).collect();
            return Layout { head, left, right: Vec::new() };
        }
        if area.width < WIDE {
            let mut page = Labelled::new(usize::from(area.width), app.theme);
            // On a small screen the chart comes first.
            let below = area.height < SMALL;
            if !below {
                sections::safe(app, lock, &mut page);
            }
            life(app, lock, &mut page, height);
            if below {
                sections::safe(app, lock, &mut page);
            }
            sections::findings(app, lock, &mut page);
            sections::holders(app, lock, &mut page);
            sections::waiters(app, lock, &mut page);
            sections::liveness(app, lock, &mut page);
            sections::freeing(app, lock, &mut page);
            sections::before(app, lock, &mut page);
            sections::keys(app, lock, &mut page);
            sections::value(app, lock, &mut page);
            sections::library(app, lock, &mut page);
            return Layout { head, left: page.lines, right: Vec::new() };
        }
        let mut across = Labelled::new(usize::from(area.width), app.theme);
        sections::safe(app, lock, &mut across);
        head.splice(head.len() - 1..head.len() - 1, across.lines);
        let mut left = Labelled::new(usize::from(left_width(area)), app.theme);
        life(app, lock, &mut left, height);
        sections::before(app, lock, &mut left);
        sections::value(app, lock, &mut left);
        sections::library(app, lock, &mut left);
        let mut right = Labelled::new(usize::from(area.width - left_width(area)), app.theme);
        sections::liveness(app, lock, &mut right);
        sections::findings(app, lock, &mut right);
        sections::holders(app, lock, &mut right);
        sections::waiters(app, lock, &mut right);
        sections::freeing(app, lock, &mut right);
        sections::keys(app, lock, &mut right);
        Layout { head, left: left.lines, right: right.lines }
    }

    /// What needs no question to the server, the most urgent first: for the room below the list.
    fn brief(app: &App, lock: &LockView, area: Rect) -> Layout {
        let mut across = Labelled::new(usize::from(area.width), app.theme);
        sections::safe(app, lock, &mut across);
        let wide = area.width >= WIDE;
        let mut first = Labelled::new(usize::from(if wide { left_width(area) } else { area.width }), app.theme);
        sections::findings(app, lock, &mut first);
        sections::liveness(app, lock, &mut first);
        sections::holders(app, lock, &mut first);
        let mut second = Labelled::new(first.width(), app.theme);
        let room = usize::from(area.height).saturating_sub(across.lines.len());
        let above = if wide { 0 } else { first.lines.len() };
        words(app, lock, &mut second);
        let height = (room / 4).clamp(3, 8);
        let chart = Sawtooth::of(lock, app.scene.at).map(|life| chart::lines(&life, second.width(), height, app.theme));
        let chart = chart.unwrap_or_default();
        // A chart without its axis says nothing; the last line may be needed to say that there is more.
        if above + second.lines.len() + chart.len() < room {
            second.lines.extend(chart);
        }
        sections::before(app, lock, &mut second);
        if wide {
            return Layout { head: across.lines, left: first.lines, right: second.lines };
        }
        first.lines.extend(second.lines);
        Layout { head: across.lines, left: first.lines, right: Vec::new() }
    }

    fn height(&self) -> usize {
        self.head.len() + self.left.len().max(self.right.len())
    }

    /// The columns below the head, from this line on.
    fn draw_columns(self, frame: &mut Frame<'_>, area: Rect, from: usize) {
        let column = |lines: Vec<Line<'static>>| Paragraph::new(lines.into_iter().skip(from).collect::<Vec<_>>());
        if self.right.is_empty() {
            return frame.render_widget(column(self.left), area);
        }
        let left = left_width(area);
        frame.render_widget(column(self.left), Rect { width: left, ..area });
        frame.render_widget(column(self.right), Rect { x: area.x + left, width: area.width - left, ..area });
    }
}

fn left_width(area: Rect) -> u16 {
    area.width / 2
}

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let Some(lock) = &app.scene.lock else { return };
    let mut layout = Layout::of(app, lock, area);
    let most = layout.height().saturating_sub(usize::from(area.height));
    // The head does not scroll, so that the lock's name stays in sight.
    let head = (layout.head.len() as u16).min(area.height);
    let body = Rect { y: area.y + head, height: area.height - head, ..area };
    frame.render_widget(Paragraph::new(std::mem::take(&mut layout.head)), Rect { height: head, ..area });
    let place = [place(app), (most > 0).then(|| below(most.saturating_sub(app.page.scroll)))];
    let place: Vec<String> = place.into_iter().flatten().collect();
    let line = Rect { y: area.y + head.saturating_sub(1), height: 1, ..area };
    let place = format!("{} ", place.join(app.theme.sign(" · ", " - ")));
    frame.render_widget(Line::styled(place, app.theme.dim()).right_aligned(), line);
    layout.draw_columns(frame, body, app.page.scroll);
}

/// What fits below the list.
pub fn draw_brief(frame: &mut Frame<'_>, app: &App, lock: &LockView, area: Rect) {
    let mut layout = Layout::brief(app, lock, area);
    let mut area = area;
    let over = layout.height().saturating_sub(usize::from(area.height));
    if over > 0 && area.height > 2 {
        area.height -= 1;
        let next = match app.groups_by() {
            Some(_) => format!("{} lists the locks", app.key_of(Command::OpenGroup)),
            None => format!("{} shows all", app.key_of(Command::Open)),
        };
        let more = format!("{} more lines; {next} ", over + 1);
        let last = Rect { y: area.y + area.height, height: 1, ..area };
        frame.render_widget(Line::styled(more, app.theme.dim()).right_aligned(), last);
    }
    let head = (layout.head.len() as u16).min(area.height);
    frame.render_widget(Paragraph::new(std::mem::take(&mut layout.head)), Rect { height: head, ..area });
    layout.draw_columns(frame, Rect { y: area.y + head, height: area.height - head, ..area }, 0);
}

/// Which lock of the list it is.
fn place(app: &App) -> Option<String> {
    let (key, listed) = (app.key_of(Command::Next), app.scene.listed);
    let is_listed = app.list.selected.is_some() && app.list.selected == app.page.opened;
    let at = app.scene.cursor.filter(|_| is_listed && listed > 1 && app.page.screen != Screen::Events)? + 1;
    Some(if at < listed { format!("{at} of {listed}, {key} next") } else { format!("{at} of {listed}") })
}

fn below(lines: usize) -> String {
    match lines {
        0 => "the end".into(),
        1 => "1 more line below".into(),
        lines => format!("{lines} more lines below"),
    }
}

/// How far the detail can be scrolled.
pub fn scroll_most(app: &App, area: Rect) -> usize {
    let Some(lock) = &app.scene.lock else { return 0 };
    Layout::of(app, lock, area).height().saturating_sub(usize::from(area.height))
}

/// How many lines a page down moves: all lines below the head but one.
pub fn page(app: &App, area: Rect) -> usize {
    let head = app.scene.lock.as_ref().map_or(0, |lock| Layout::of(app, lock, area).head.len());
    usize::from(area.height).saturating_sub(head + 1)
}

/// Its name, its state, and the sentence with the numbers; long texts are cut to a few lines.
fn head(app: &App, lock: &LockView, area: Rect) -> Vec<Line<'static>> {
    let theme = app.theme;
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let (state, label) = (lock.verdict.state, lock.state_label());
    let names =
        at_most((height / 6).max(1), wrap(&part::key(&lock.key, theme), width.saturating_sub(label.len() + 6)), app);
    let mut lines: Vec<Line> =
        names.into_iter().map(|name| Line::from(Span::styled(format!(" {name}"), theme.title()))).collect();
    if let Some(first) = lines.first_mut() {
        first.push_span(Span::raw("  "));
        first.push_span(Span::styled(format!(" {label} "), theme.state(state)));
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
    match Sawtooth::of(lock, app.scene.at) {
        Ok(timeline) => page.lines.extend(chart::lines(&timeline, page.width(), height, theme)),
        Err(why) => page.say("ttl", &format!("no chart: {why}"), theme.dim()),
    }
    page.say("renewals", &sections::renewals(lock), plain);
}

/// The same in words alone.
fn words(app: &App, lock: &LockView, page: &mut Labelled) {
    page.say("ttl", &sections::ttl(app, lock), Style::new());
    page.say("renewals", &sections::renewals(lock), Style::new());
}

#[cfg(test)]
mod tests;
