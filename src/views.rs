//! Draws everything: one file per screen, plus the few parts they share. Drawing takes `&App` and changes nothing.
//!
//! ```text
//!  header    target, environment, server, how it is watched, what it costs
//!  tabs      the screens
//!  counts    locks by state, the filter in force; in a low window on the line of the tabs
//!  losses    locks that the server took, until it is dismissed
//!  body      the screen, or the opened lock
//!  evidence  the sentence on the selected lock (on the locks screen), and more of it where the list leaves room
//!  footer    keys, or what is being typed, or a notice
//! ```

mod alerts;
mod contention;
mod detail;
mod dialog;
mod events;
mod evidence;
mod footer;
mod groups;
mod header;
mod help;
mod lab;
mod locks;
mod paint;
mod part;
mod row;
mod servers;
mod shorten;
mod timeline;
mod tuner;
mod wrap;

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::widgets::{Paragraph, Wrap};

use crate::app::{App, Overlay, Screen, Sight};

/// A smaller terminal shows only a notice.
const LEAST: (u16, u16) = (60, 12);
const EVIDENCE: u16 = 3;
/// A window this high has a line for the counts, unless a lock is opened.
const HIGH: u16 = 20;
/// A short list gets a multiple of so many rows, so that the line below it does not move with every lock.
const STEP: usize = 4;

struct Areas {
    header: Rect,
    tabs: Rect,
    counts: Rect,
    losses: Rect,
    body: Rect,
    evidence: Rect,
    footer: Rect,
}

/// The areas as they are drawn: rows that the list does not need go to the evidence.
fn areas(app: &App, area: Rect) -> Areas {
    let mut areas = least(app, area);
    let told = app.scene.lock.is_some() || app.scene.groups.worst.is_some();
    let is_list = matches!(app.page.screen, Screen::Locks | Screen::Contention) && app.in_list();
    if is_list && told {
        let rows = app.scene.listed.max(1).next_multiple_of(STEP) + 1;
        let spare = usize::from(areas.body.height).saturating_sub(rows) as u16;
        areas.body.height -= spare;
        (areas.evidence.y, areas.evidence.height) = (areas.evidence.y - spare, areas.evidence.height + spare);
    }
    areas
}

/// The same with as little evidence as there always is. Plain sums: this runs several times per key press, and ratatui's
/// constraint solver would dominate the cost.
fn least(app: &App, area: Rect) -> Areas {
    let evidence = match app.page.screen {
        _ if app.in_timeline() => EVIDENCE,
        _ if app.in_tuner() => 0,
        _ if app.in_alerts() => alerts::below(area.height),
        _ if !app.in_list() => 0,
        Screen::Contention => contention::below(area.height),
        _ => EVIDENCE,
    };
    let mut rest = area;
    let from_top = |rows: u16, rest: &mut Rect| {
        let height = rows.min(rest.height);
        let taken = Rect { height, ..*rest };
        (rest.y, rest.height) = (rest.y + height, rest.height - height);
        taken
    };
    let header = from_top(1, &mut rest);
    let tabs = from_top(1, &mut rest);
    let counts = from_top(u16::from(area.height >= HIGH && app.page.opened.is_none()), &mut rest);
    let losses = from_top(u16::from(app.timeline.losses().is_some()), &mut rest);
    let below = (evidence + 1).min(rest.height);
    let body = from_top(rest.height - below, &mut rest);
    let evidence = from_top(evidence.min(below.saturating_sub(1)), &mut rest);
    Areas { header, tabs, counts, losses, body, evidence, footer: rest }
}

/// How many locks fit into the list, or lines into the detail.
pub fn list_rows(app: &App) -> usize {
    let body = least(app, whole(app)).body;
    if app.page.opened.is_some() {
        return detail::page(app, body);
    }
    usize::from(body.height.saturating_sub(1))
}

/// How far the screen can be scrolled.
pub fn scroll_most(app: &App) -> usize {
    let body = areas(app, whole(app)).body;
    match (&app.page.opened, app.page.screen) {
        (Some(_), _) => detail::scroll_most(app, body),
        (None, Screen::Locks | Screen::Contention) => 0,
        (None, Screen::Events) if app.in_timeline() => 0,
        (None, Screen::Events) => events::scroll_most(app, body),
        (None, Screen::Alerts) => 0,
        (None, Screen::Servers) => servers::scroll_most(app, body),
        (None, Screen::Lab) => 0,
    }
}

/// What of the question is in sight, if one is asked and there is room for it.
pub fn question(app: &App) -> Option<Sight> {
    let area = whole(app);
    match &app.overlay {
        Overlay::Dialog(dialog) if has_room(area) => Some(dialog::sight(app, area, dialog)),
        _ => None,
    }
}

/// How far the help can be scrolled.
pub fn help_most(app: &App) -> usize {
    help::scroll_most(whole(app))
}

fn whole(app: &App) -> Rect {
    Rect::new(0, 0, app.display.size.0, app.display.size.1)
}

/// Draws the whole screen. Returns the position of the cursor, if it is shown.
pub fn draw(frame: &mut Frame<'_>, app: &App) -> Option<Position> {
    let area = frame.area();
    if !has_room(area) {
        draw_too_small(frame, area);
        return None;
    }
    let areas = areas(app, area);
    header::draw(frame, app, areas.header, areas.tabs, areas.counts);
    header::draw_losses(frame, app, areas.losses);
    match (&app.page.opened, app.page.screen) {
        (Some(_), _) => detail::draw(frame, app, areas.body),
        (None, Screen::Locks) if app.groups_by().is_some() => groups::draw(frame, app, areas.body, areas.evidence),
        (None, Screen::Locks) => {
            locks::draw(frame, app, areas.body);
            evidence::draw(frame, app, areas.evidence);
        }
        (None, Screen::Contention) => contention::draw(frame, app, areas.body, areas.evidence),
        (None, Screen::Events) if app.in_timeline() => timeline::draw(frame, app, areas.body, areas.evidence),
        (None, Screen::Events) => events::draw(frame, app, areas.body),
        (None, Screen::Alerts) if app.in_tuner() => tuner::draw(frame, app, areas.body),
        (None, Screen::Alerts) => alerts::draw(frame, app, areas.body, areas.evidence),
        (None, Screen::Servers) => servers::draw(frame, app, areas.body),
        (None, Screen::Lab) => lab::draw(frame, app, areas.body),
    }
    let below = footer::draw(frame, app, areas.footer);
    match &app.overlay {
        Overlay::Help { scroll } => help::draw(frame, app, area, *scroll),
        Overlay::Results { scroll } => dialog::draw_results(frame, app, area, *scroll),
        Overlay::Incident { text, scroll } => dialog::draw_incident(frame, app, area, text, *scroll),
        Overlay::Dialog(dialog) => return Some(dialog::draw(frame, app, area, dialog)),
        Overlay::None
        | Overlay::Filter(_)
        | Overlay::Command(_)
        | Overlay::Acquire(_)
        | Overlay::Sort
        | Overlay::Group
        | Overlay::Leave
        | Overlay::Going(_)
        | Overlay::Asking(_) => {}
    }
    below
}

fn has_room(area: Rect) -> bool {
    area.width >= LEAST.0 && area.height >= LEAST.1
}

fn draw_too_small(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = LEAST;
    let text = format!("too small: lockscope needs {width}x{height}, this is {}x{}", area.width, area.height);
    frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
}

#[cfg(test)]
mod promises;
#[cfg(test)]
mod tests;
