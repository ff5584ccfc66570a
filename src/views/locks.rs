//! The list of locks.
//!
//! ```text
//!   STATE   KEY                    LIBRARY    HOLDER           HELD    TTL             RENEWALS
//!  ▌NO-TTL  job:nightly            redis-py   worker-7         3d04h   never           -
//!   HELD    lock:invoice:17        redisson   9c1e…0b          41s     █████░░ 19.7s   │││││·  1 missed
//! ```

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::part::{self, fit, fit_key, fit_right};
use super::row::Row;
use super::wrap::wrap;
use crate::app::App;
use crate::model::Column;
use crate::model::LockView;
use crate::output::columns;
use crate::settings::keys::Command;

/// The widths of the columns for a width of the terminal. A column of width 0 is left out.
struct Widths {
    key: usize,
    library: usize,
    holder: usize,
    bar: usize,
    renewals: usize,
    fail: usize,
    wait: usize,
}

const STATE: usize = 9;
const HELD: usize = 8;
const TTL: usize = 7;

impl Widths {
    fn of(width: usize) -> Widths {
        let (library, holder, bar, renewals, fail, wait) = match width {
            0..80 => (0, 13, 0, 0, 0, 0),
            80..100 => (9, 13, 0, 10, 0, 0),
            100..130 => (12, 17, 7, 14, 0, 4),
            _ => (17, 20, 7, 17, 7, 4),
        };
        let others = [STATE, library, holder, HELD, bar, TTL, renewals, fail, wait];
        let taken = 1 + others.iter().map(|width| width + usize::from(*width > 0)).sum::<usize>();
        Widths { key: width.saturating_sub(taken), library, holder, bar, renewals, fail, wait }
    }
}

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let widths = Widths::of(usize::from(area.width));
    let mut lines = vec![heading(app, &widths)];
    if app.scene.rows.is_empty() {
        lines.push(Line::raw(""));
        let why = nothing(app);
        let why = why.iter().flat_map(|text| wrap(text, usize::from(area.width).saturating_sub(4)));
        lines.extend(why.map(|text| Line::styled(format!("  {text}"), app.theme.dim())));
    }
    for (index, lock) in app.scene.rows.iter().enumerate() {
        let selected = app.scene.cursor == Some(app.scene.first + index);
        lines.push(row(app, lock, selected, &widths));
    }
    for (index, line) in lines.into_iter().take(usize::from(area.height)).enumerate() {
        frame.render_widget(line, Rect { y: area.y + index as u16, height: 1, ..area });
    }
}

/// Why the list is empty, and what to do about it.
fn nothing(app: &App) -> Vec<String> {
    let scene = &app.scene;
    if scene.total > 0 {
        return vec![format!("No lock matches the filter; {} clears it.", app.key_of(Command::Back))];
    }
    if app.is_ordering() || scene.nodes.iter().any(|node| node.scanned_ago.is_none()) {
        return vec!["Looking for locks.".into()];
    }
    vec![
        "No locks here right now. They appear as soon as somebody takes one.".into(),
        "If there should be some: 'lockscope discover' looks for keyspaces that could be locks.".into(),
    ]
}

fn heading(app: &App, widths: &Widths) -> Line<'static> {
    let theme = app.theme;
    let mut text = String::new();
    let mut title = |column: Column, width: usize, right: bool| {
        let arrow = match (app.list.order.column == column, app.list.order.reversed) {
            (false, _) => "",
            (true, false) => theme.sign("▾", "v"),
            (true, true) => theme.sign("▴", "^"),
        };
        let title = format!("{}{arrow}", column.title());
        if width > 0 {
            text.push(' ');
            text.push_str(&if right { fit_right(&title, width, theme) } else { fit(&title, width, theme) });
        }
    };
    title(Column::State, STATE, false);
    title(Column::Key, widths.key, false);
    title(Column::Library, widths.library, false);
    title(Column::Holder, widths.holder, false);
    title(Column::Held, HELD, true);
    title(Column::Ttl, TTL + widths.bar + usize::from(widths.bar > 0), true);
    title(Column::Renewals, widths.renewals, false);
    title(Column::Fail, widths.fail, true);
    title(Column::Wait, widths.wait, true);
    Line::styled(text, theme.title())
}

fn row(app: &App, lock: &LockView, selected: bool, widths: &Widths) -> Line<'static> {
    let theme = app.theme;
    let mut row = Row::new(app, lock, selected);
    let state = if lock.stale { "stale" } else { lock.verdict.state.label() };
    row.styled(fit(state, STATE, theme), theme.state(lock.verdict.state));
    row.cell(fit_key(&lock.key, widths.key, theme));
    row.cell(fit(&columns::library(lock), widths.library, theme));
    row.cell(part::fit_holders(app, lock, widths.holder));
    row.cell(fit_right(&part::held(lock, theme), HELD, theme));
    let share = part::share_left(lock);
    let low = share.is_some_and(|share| share < 0.25);
    let bar = share.map_or(" ".repeat(widths.bar), |share| theme.bar(share, widths.bar));
    row.styled(bar, if low { theme.warning() } else { Style::new() });
    row.cell(fit_right(&columns::ttl(lock), TTL, theme));
    let (strip, missed) = part::heartbeat(lock, widths.renewals, theme);
    row.styled(fit(&strip, widths.renewals, theme), if missed.is_some() { theme.warning() } else { Style::new() });
    if widths.fail > 0 {
        let failing = lock.tries.is_some_and(|tries| tries.failures > 0);
        let style = if failing { theme.warning() } else { Style::new() };
        row.styled(fit_right(&columns::fail(lock), widths.fail, theme), style);
    }
    if widths.wait > 0 {
        let many = lock.waits.is_some_and(|waits| waits.count > 0);
        let text = part::safe(&columns::wait(lock), theme);
        row.styled(fit_right(&text, widths.wait, theme), if many { theme.warning() } else { Style::new() });
    }
    row.line()
}
