//! The list as groups, and what is told of the selected one below it.
//!
//! ```text
//!   WORST   LOCKS PATTERN         ODD ONES OUT                        OLDEST  WAIT  FAIL/S  5 MIN
//!  ▌NO-TTL     64 stock:bucket:*  63 held, 1 NO-TTL: stock:bucket:17  14m02s     ?       ?  ▁▁▃▅▇▇▇▇▇▇
//! ```

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::part::{self, fit, fit_right};
use super::wrap::wrap;
use super::{detail, evidence};
use crate::app::App;
use crate::app::scene::CELLS;
use crate::lock::Key;
use crate::model::{Column, Group, GroupBy, GroupName};
use crate::output::groups as cells;
use crate::settings::keys::Command;

const WORST: usize = 9;
const LOCKS: usize = 5;
const OLDEST: usize = 8;
const WAIT: usize = 5;
const FAIL: usize = 7;
/// The odd ones get this much before anything that can be done without: enough for both ends of a key.
const ODD: usize = 18;
/// A name gets at least this much, and a longer one this much before anything that can be done without.
const NAME: usize = 14;
const LEAST: usize = 20;

/// The widths of the columns. A column of width 0 is left out.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Widths {
    name: usize,
    odd: usize,
    wait: usize,
    fail: usize,
    trend: usize,
}

/// Makes a column this wide, if there is room.
fn give(column: &mut usize, to: usize, room: &mut usize) {
    if to < *room {
        (*column, *room) = (to, *room - to - 1);
    }
}

impl Widths {
    fn of(app: &App, groups: &[Group], width: usize) -> Widths {
        let any = |known: fn(&Group) -> String| groups.iter().any(|group| known(group) != "?");
        let odd = groups.iter().map(|group| odd_ones(app, group).width()).max().unwrap_or(0);
        let name = groups.iter().map(|group| name(app, &group.name).width()).max().unwrap_or(0).max(NAME);
        let mut widths = Widths { name: 0, odd: 0, wait: 0, fail: 0, trend: 0 };
        // The names of the group and of the odd one out come first, then what is known, then the rest.
        let least = name.min(LEAST) + if odd > 0 { odd.min(ODD) + 1 } else { 0 };
        let mut room = width.saturating_sub(widths.taken() + least);
        if any(cells::waiters) {
            give(&mut widths.wait, WAIT, &mut room);
        }
        if any(cells::failures) {
            give(&mut widths.fail, FAIL, &mut room);
        }
        give(&mut widths.trend, CELLS, &mut room);
        // That nothing is known is told only where the names are whole.
        room = room.saturating_sub(odd.saturating_sub(ODD));
        if widths.wait == 0 {
            give(&mut widths.wait, WAIT, &mut room);
        }
        if widths.fail == 0 {
            give(&mut widths.fail, FAIL, &mut room);
        }
        let room = width.saturating_sub(widths.taken());
        if odd > 0 {
            // What the names do not need is for the odd ones.
            widths.name = name.min(room.saturating_sub(odd + 1)).max(name.min(room / 2));
            widths.odd = room.saturating_sub(widths.name + 1);
        } else {
            widths.name = room;
        }
        widths
    }

    /// What all columns but the two names take, each with the space behind it, and the sign in front.
    fn taken(&self) -> usize {
        let others = [WORST, LOCKS, OLDEST, self.wait, self.fail, self.trend];
        1 + others.iter().map(|width| width + usize::from(*width > 0)).sum::<usize>()
    }
}

pub fn draw(frame: &mut Frame<'_>, app: &App, list: Rect, below: Rect) {
    let (scene, width) = (&app.scene, usize::from(list.width));
    let by = app.groups_by().unwrap_or(GroupBy::Pattern);
    let all = &scene.groups.all;
    let shown = &all[scene.first.min(all.len())..(scene.first + scene.page).min(all.len())];
    let widths = Widths::of(app, shown, width);
    let mut lines = vec![heading(app, by, &widths)];
    if shown.is_empty() {
        lines.push(Line::raw(""));
        lines.push(Line::styled(format!("  {}", nothing(app)), app.theme.dim()));
    }
    for (index, group) in shown.iter().enumerate() {
        lines.push(row(app, group, scene.cursor == Some(scene.first + index), &widths));
    }
    for (index, line) in lines.into_iter().take(usize::from(list.height)).enumerate() {
        frame.render_widget(line, Rect { y: list.y + index as u16, height: 1, ..list });
    }
    tell(frame, app, below);
}

fn nothing(app: &App) -> String {
    match &app.list.filter {
        _ if app.is_ordering() => "Grouping the locks.".into(),
        Some(_) => format!("No lock matches the filter; {} clears it.", app.key_of(Command::Back)),
        None => "No locks here right now. They appear as soon as somebody takes one.".into(),
    }
}

fn heading(app: &App, by: GroupBy, widths: &Widths) -> Line<'static> {
    let theme = app.theme;
    let order = app.list.order;
    let sorted = if app.sortable().contains(&order.column) { order.column } else { Column::State };
    let mut text = String::new();
    let mut title = |column: Option<Column>, title: &str, width: usize, right: bool| {
        let arrow = if column == Some(sorted) { theme.order(order.reversed) } else { "" };
        let title = format!("{title}{arrow}");
        if width > 0 {
            text.push(' ');
            text.push_str(&if right { fit_right(&title, width, theme) } else { fit(&title, width, theme) });
        }
    };
    title(Some(Column::State), "WORST", WORST, false);
    title(None, "LOCKS", LOCKS, true);
    title(Some(Column::Key), by.title(), widths.name, false);
    title(None, "ODD ONES OUT", widths.odd, false);
    title(Some(Column::Held), "OLDEST", OLDEST, true);
    title(Some(Column::Wait), "WAIT", widths.wait, true);
    title(Some(Column::Fail), "FAIL/S", widths.fail, true);
    title(None, "5 MIN", widths.trend, false);
    Line::styled(text, theme.title())
}

fn row(app: &App, group: &Group, selected: bool, widths: &Widths) -> Line<'static> {
    let theme = app.theme;
    let base = if selected { theme.selected() } else { Style::new() };
    let sign = if selected { theme.sign("▌", ">") } else { " " };
    let mut spans = vec![Span::styled(sign.to_string(), base.patch(theme.accent()))];
    let mut cell = |text: String, style: Style| {
        if !text.is_empty() {
            spans.push(Span::styled(format!("{text} "), if selected { base.patch(style) } else { style }));
        }
    };
    let right = |text: String, width: usize| fit_right(&part::safe(&text, theme), width, theme);
    let warned = |loud: bool| if loud { theme.warning() } else { Style::new() };
    let known = |sum: &crate::model::grouping::Sum| sum.exact().or(sum.at_least()).is_some_and(|sum| sum > 0.0);
    cell(fit(&group.worst.label(), WORST, theme), theme.state(group.worst.state));
    cell(right(group.locks.to_string(), LOCKS), Style::new());
    cell(fit_name(app, &group.name, widths.name), Style::new());
    if widths.odd > 0 {
        cell(fit_odd(app, group, widths.odd), Style::new());
    }
    cell(right(cells::oldest(group), OLDEST), Style::new());
    if widths.wait > 0 {
        cell(right(cells::waiters(group), widths.wait), warned(known(&group.waiters)));
    }
    if widths.fail > 0 {
        cell(right(cells::failures(group), widths.fail), warned(known(&group.failures_per_s)));
    }
    if widths.trend > 0 {
        cell(app.theme.trend(&app.scene.groups.trends.of(&group.name, app.scene.at)), theme.dim());
    }
    Line::from(spans)
}

/// The whole name, as it may be shown now.
fn name(app: &App, name: &GroupName) -> String {
    if name.by() == GroupBy::Holder && *name != GroupName::Nobody && app.display.private {
        return part::HIDDEN.into();
    }
    let node = |id| app.scene.nodes.iter().find(|node| node.id == id).map(|node| part::safe(&node.name, app.theme));
    match name.token() {
        Some(token) => part::token(app, &token.to_string()),
        None => name.text(|id| node(id).unwrap_or_else(|| id.0.to_string())).unwrap_or_else(|| cells::NOBODY.into()),
    }
}

/// The name in exactly `width` cells, with its middle cut out if it is too long.
pub fn fit_name(app: &App, of: &GroupName, width: usize) -> String {
    let name = part::safe(&name(app, of), app.theme);
    let (mut fitted, _) = part::fit_keys(&[name], width, app.theme);
    fitted.pop().unwrap_or_default()
}

fn odd_ones(app: &App, group: &Group) -> String {
    cells::odd_ones(group, |key| part::key(key, app.theme))
}

/// How many are in which state with the odd ones by name, or the odd ones alone if that is too long.
fn fit_odd(app: &App, group: &Group, width: usize) -> String {
    if !group.has_odd_ones() {
        return " ".repeat(width);
    }
    let (theme, whole) = (app.theme, |key: &Key| part::key(key, app.theme));
    let wishes = [cells::states(group, whole), odd_ones(app, group)];
    if let Some(text) = wishes.into_iter().find(|text| text.width() <= width) {
        return fit(&text, width, theme);
    }
    // Both ends of the first name tell more than the beginnings of several.
    let count = format!("{} {}: ", group.as_bad, group.worst.label());
    let more = if group.as_bad > 1 { format!(" +{}", group.as_bad - 1) } else { String::new() };
    let room = width.saturating_sub(count.width() + more.width());
    let first = group.worst_keys().next().map(|key| part::cut_key(key, room, theme)).unwrap_or_default();
    fit(&format!("{count}{first}{more}"), width, theme)
}

/// The selected group in a sentence, and its worst lock.
fn tell(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let (theme, scene) = (app.theme, &app.scene);
    let left_out = match scene.groups.left_out {
        0 => String::new(),
        locks => format!(" ({locks} locks are in more groups, not listed) "),
    };
    let position = scene.cursor.map(|cursor| format!(" {} of {}{left_out} ", cursor + 1, scene.listed));
    evidence::rule(frame, app, area, &position.unwrap_or_default());
    let Some(group) = scene.cursor.and_then(|cursor| scene.groups.all.get(cursor)) else { return };
    let width = usize::from(area.width).saturating_sub(2);
    let mut lines: Vec<Line<'static>> = Vec::new();
    let head = fit_name(app, &group.name, width / 2);
    let label = format!(" {} ", group.worst.label());
    let states = cells::states(group, |key: &Key| part::key(key, theme));
    let text = wrap(&format!("{} {label} {states}", head.trim_end()), width);
    for (index, line) in text.into_iter().take(2).enumerate() {
        lines.push(match line.strip_prefix(&format!("{} {label}", head.trim_end())) {
            Some(rest) if index == 0 => Line::from(vec![
                Span::styled(format!(" {} ", head.trim_end()), theme.title()),
                Span::styled(label.clone(), theme.state(group.worst.state)),
                Span::raw(rest.to_string()),
            ]),
            _ => Line::raw(format!(" {line}")),
        });
    }
    let worst = scene.groups.worst.as_ref();
    if let Some(lock) = worst {
        let sentence = format!("{}: {}", part::key(&lock.key, theme), evidence::sentence(app, lock));
        let most = usize::from(area.height).saturating_sub(1 + lines.len()).min(3);
        let mut text = wrap(&sentence, width);
        if text.len() > most && most > 0 {
            let over = text[most].clone();
            text.truncate(most);
            let last = &mut text[most - 1];
            *last = fit(&format!("{last} {over}"), width, theme);
        }
        lines.extend(text.into_iter().map(|line| Line::raw(format!(" {line}"))));
    }
    let rows = usize::from(area.height).saturating_sub(1);
    let height = lines.len().min(rows) as u16;
    for (index, line) in lines.into_iter().take(rows).enumerate() {
        frame.render_widget(line, Rect { y: area.y + 1 + index as u16, height: 1, ..area });
    }
    let below = Rect { y: area.y + 1 + height, height: area.height.saturating_sub(1 + height), ..area };
    if let Some(lock) = worst.filter(|_| area.height > super::EVIDENCE && below.height > 0) {
        detail::draw_brief(frame, app, lock, below);
    }
}

#[cfg(test)]
mod tests;
