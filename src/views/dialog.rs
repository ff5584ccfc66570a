//! The question before anything is written, and the list of results.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use super::{help, part, wrap};
use unicode_width::UnicodeWidthStr;

use crate::actions::{Plan, safe_to_free};
use crate::app::{App, Dialog, Ended, Sight};
use crate::base::text::short_duration;
use crate::base::time::Ttl;
use crate::lock::Key;
use crate::output::FREE_IT;
use crate::settings::keys::Command;

const WIDEST: u16 = 120;
const BORDER: u16 = 2;
/// The label in front of a line.
const LABEL: usize = 9;
/// At most this many locks are listed.
const LISTED: usize = 500;
/// At most this many different hazards are listed.
const HAZARDS: usize = 20;

/// The question, laid out.
struct Layout {
    lines: Vec<Line<'static>>,
    /// So many of the lines have to be shown before the question can be answered.
    warnings: usize,
    asked: Vec<Line<'static>>,
    over: Rect,
    scroll: usize,
    room: usize,
}

impl Layout {
    /// Warnings come before the commands, so that they are in sight first.
    fn new(app: &App, area: Rect, dialog: &Dialog) -> Layout {
        // The line on top says that writing is on, all the while.
        let area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        let width = area.width.min(WIDEST);
        let inner = usize::from(width.saturating_sub(BORDER + 2));
        let (mut lines, plans) = (Vec::new(), dialog.choice().plans.as_slice());
        match plans {
            [one] => warn_of_one(app, dialog, one, inner, &mut lines),
            many => warn_of_many(app, dialog, many, inner, &mut lines),
        }
        if !dialog.choice().hidden.is_empty() {
            let names: Vec<String> = dialog.choice().hidden.iter().map(|key| part::key(key, app.theme)).collect();
            let text = format!("marked, and the filter does not show it: {}", names.join(", "));
            say(app, "hidden", &text, app.theme.warning(), inner, &mut lines);
        }
        for why in &dialog.choice().left_out {
            say(app, "left out", why, app.theme.warning(), inner, &mut lines);
        }
        let warnings = lines.len();
        match plans {
            [one] => what_runs(app, one, inner, &mut lines),
            many => list(app, many, inner, &mut lines),
        }
        let asked = question(app, dialog, inner);
        // The border, the question, and the line that is typed into.
        let around = BORDER + asked.len() as u16 + 1;
        let height = (lines.len() as u16 + around).min(area.height.saturating_sub(1)).max(around + 1);
        let room = usize::from(height - around);
        let over = Rect {
            x: area.x + (area.width - width) / 2,
            y: area.y + area.height.saturating_sub(1).saturating_sub(height) / 2,
            width,
            height,
        };
        let scroll = dialog.scroll.min(lines.len().saturating_sub(room));
        Layout { lines, warnings, asked, over, scroll, room }
    }
}

/// What of the question is in sight.
pub fn sight(app: &App, area: Rect, dialog: &Dialog) -> Sight {
    let Layout { warnings, over, scroll, room, .. } = Layout::new(app, area, dialog);
    Sight { first: scroll, end: scroll + room, warnings, width: over.width }
}

/// Says where the cursor belongs. There is room for it: smaller screens show nothing but a notice.
pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect, dialog: &Dialog) -> Position {
    let Layout { lines, warnings, asked, over, scroll, room } = Layout::new(app, area, dialog);
    let more = match scroll + room {
        end if end < warnings => " more to read first: down ",
        end if end < lines.len() => " more below: down ",
        _ => "",
    };
    let block = Block::bordered()
        .border_set(help::border(app.theme))
        .border_style(app.theme.bad())
        .title(title(app, dialog))
        .title_bottom(more);
    frame.render_widget(Clear, over);
    frame.render_widget(block, over);
    let inside = Rect { x: over.x + 2, y: over.y + 1, width: over.width.saturating_sub(4), height: room as u16 };
    frame.render_widget(Paragraph::new(lines.into_iter().skip(scroll).take(room).collect::<Vec<_>>()), inside);
    let below = Rect { y: inside.y + inside.height, height: asked.len() as u16, ..inside };
    frame.render_widget(Paragraph::new(asked), below);
    let line = Rect { y: below.y + below.height, height: 1, ..inside };
    let typed = dialog.prompt.shown(usize::from(line.width).saturating_sub(3), app.theme.ascii);
    let mut spans = vec![Span::styled("> ", app.theme.accent()), Span::raw(typed.right)];
    spans.push(Span::styled(typed.wrong, app.theme.bad()));
    frame.render_widget(Line::from(spans), line);
    Position::new(line.x + (2 + typed.cursor as u16).min(line.width.saturating_sub(1)), line.y)
}

fn title(app: &App, dialog: &Dialog) -> String {
    let (at, of) = dialog.place();
    let other = if of > 1 { format!(" ({at} of {of}: tab for the next)") } else { String::new() };
    format!(" {}{other} ", part::safe(&dialog.choice().label, app.theme))
}

fn question(app: &App, dialog: &Dialog, width: usize) -> Vec<Line<'static>> {
    let text = match &dialog.prompt.refused {
        Some((why, _)) => why.clone(),
        None => format!(
            "Type {} (a reason may follow) and press enter to {}. Esc cancels",
            dialog.word(),
            dialog.choice().label
        ),
    };
    let style = if dialog.prompt.refused.is_some() { app.theme.bad() } else { app.theme.title() };
    wrap::wrap(&part::safe(&text, app.theme), width).into_iter().map(|line| Line::styled(line, style)).collect()
}

/// What lock it is about, and what to know before.
fn warn_of_one(app: &App, dialog: &Dialog, plan: &Plan, width: usize, lines: &mut Vec<Line<'static>>) {
    let theme = app.theme;
    let staying = plan.staying.names();
    let mut put = |label: &str, text: &str, style| say(app, label, text, style, width, lines);
    put("lock", &format!("{}   {}", part::key(&plan.key, theme), plan.library()), theme.title());
    if let Some(permits) = plan.permits_words() {
        put("permits", &permits, Style::new());
    } else if plan.staying.is_nobody() {
        put("held by", &holders(app, plan), Style::new());
    } else {
        put("loses it", &holders(app, plan), Style::new());
        put("keeps it", if app.display.private { part::HIDDEN } else { &staying }, Style::new());
    }
    put("TTL", &ttl(plan), if plan.ttl == Ttl::Never { theme.warning() } else { Style::new() });
    if let Some(waiters) = &dialog.waiters {
        put("waiters", waiters, Style::new());
    }
    if let Some(safe) = plan.safe.as_ref().filter(|_| dialog.is_to_free()) {
        let style = if safe.advice.answer() == "yes" { theme.good() } else { theme.warning() };
        put(FREE_IT, &safe.sentence(), style);
    }
    for hazard in &plan.hazards {
        put("beware", &hidden(app, plan, hazard.clone()), theme.warning());
    }
    match plan.undoing() {
        Some(Ok(may)) => put("undo", &may, theme.dim()),
        Some(Err(why)) => put("undo", &format!("not possible: {why}"), theme.warning()),
        None => {}
    }
}

fn what_runs(app: &App, plan: &Plan, width: usize, lines: &mut Vec<Line<'static>>) {
    let mut put = |label: &str, text: String, style| say(app, label, &hidden(app, plan, text), style, width, lines);
    put("only if", plan.conditions(), app.theme.dim());
    for (index, command) in plan.commands().into_iter().enumerate() {
        put(if index == 0 { "runs" } else { "" }, command, app.theme.accent());
    }
}

fn list(app: &App, plans: &[Plan], width: usize, lines: &mut Vec<Line<'static>>) {
    let names: Vec<Option<&Key>> = plans.iter().take(LISTED).map(|plan| Some(&plan.key)).collect();
    let (key, names) = part::fit_keys_of(&names, width, width / 2, app.theme);
    for (plan, name) in plans.iter().zip(names) {
        let name = name.unwrap_or_default();
        let rest = format!(" {:<12} {:<10} ", plan.library(), short_ttl(plan));
        let room = width.saturating_sub(key + rest.width());
        let whole = Some(holders(app, plan)).filter(|whole| whole.width() <= room);
        let rest = rest + &whole.unwrap_or_else(|| holders_in_short(app, plan));
        let rest = part::fit(&rest, width.saturating_sub(key), app.theme);
        lines.push(Line::from(vec![Span::styled(name, app.theme.title()), Span::raw(rest)]));
    }
    if plans.len() > LISTED {
        lines.push(Line::raw(format!("and {} more", plans.len() - LISTED)));
    }
}

/// Each warning once, with how many locks it is about. What there is no room for is counted.
fn warn_of_many(app: &App, dialog: &Dialog, plans: &[Plan], width: usize, lines: &mut Vec<Line<'static>>) {
    let mut put = |label: &str, text: &str| say(app, label, text, app.theme.warning(), width, lines);
    if let Some(waiters) = &dialog.waiters {
        put("waiters", waiters);
    }
    for (index, line) in safe_to_free(plans).into_iter().enumerate() {
        put(if index == 0 { FREE_IT } else { "" }, &line);
    }
    let (mut hazards, mut more): (Vec<(&String, usize)>, usize) = (Vec::new(), 0);
    for hazard in plans.iter().flat_map(|plan| &plan.hazards) {
        match hazards.iter().position(|(known, _)| *known == hazard) {
            Some(at) => hazards[at].1 += 1,
            None if hazards.len() < HAZARDS => hazards.push((hazard, 1)),
            None => more += 1,
        }
    }
    for (hazard, count) in hazards {
        let of = match count {
            count if count == plans.len() => String::new(),
            1 => "1 lock: ".into(),
            count => format!("{count} locks: "),
        };
        put("beware", &format!("{of}{hazard}"));
    }
    if more > 0 {
        put("beware", &format!("{more} more warnings; open a lock to read its own"));
    }
    let for_good: Vec<(&Plan, &String)> =
        plans.iter().filter_map(|plan| Some((plan, plan.undo.as_ref()?.as_ref().err()?))).collect();
    for (plan, why) in for_good.iter().take(HAZARDS) {
        put("no undo", &format!("{}: {why}", part::key(&plan.key, app.theme)));
    }
    if for_good.len() > HAZARDS {
        put("no undo", &format!("{} more can't be undone", for_good.len() - HAZARDS));
    }
}

/// A label and a wrapped text beside it.
fn say(app: &App, label: &str, text: &str, style: Style, width: usize, lines: &mut Vec<Line<'static>>) {
    let text = part::safe(text, app.theme);
    for (index, line) in wrap::wrap(&text, width.saturating_sub(LABEL + 1)).into_iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        lines.push(Line::from(vec![
            Span::styled(format!("{label:<LABEL$} "), app.theme.dim()),
            Span::styled(line, style),
        ]));
    }
}

/// Whole tokens: the operator must see whose lock is freed.
fn holders(app: &App, plan: &Plan) -> String {
    if app.display.private {
        return part::HIDDEN.into();
    }
    let tokens: Vec<String> = plan.holders.iter().map(|token| token.to_string()).collect();
    if tokens.is_empty() { "not known".into() } else { tokens.join(", ") }
}

/// One of many locks has a line only: how many others lose it is said before anything is cut.
fn holders_in_short(app: &App, plan: &Plan) -> String {
    let more = plan.holders.len().saturating_sub(1);
    let first = plan.holders.first().map_or("not known".into(), |token| part::token(app, &token.to_string()));
    if more > 0 { format!("+{more} {first}") } else { first }
}

fn hidden(app: &App, plan: &Plan, text: String) -> String {
    let names = plan.holders.iter().chain(&plan.dropped).chain(&plan.staying.holders).map(|token| token.to_string());
    part::without(app, names.collect(), text)
}

fn ttl(plan: &Plan) -> String {
    match plan.ttl {
        Ttl::Never => "none: it never expires".into(),
        Ttl::In(left) => format!("{} left when you asked", short_duration(left.as_millis() as u64)),
    }
}

fn short_ttl(plan: &Plan) -> String {
    plan.ttl.remaining().map_or("never".into(), |left| short_duration(left.as_millis() as u64))
}

/// The result of each write.
pub fn draw_results(frame: &mut Frame<'_>, app: &App, area: Rect, scroll: usize) {
    let width = area.width.min(WIDEST);
    let inner = usize::from(width.saturating_sub(BORDER + 2));
    let mut lines = Vec::new();
    for came in &app.writing.results {
        let style = match came.ended {
            Ended::Done => app.theme.good(),
            Ended::Unknown => app.theme.bad(),
            Ended::NotDone => app.theme.warning(),
        };
        let text = part::safe(&came.line, app.theme);
        lines.extend(wrap::wrap(&text, inner).into_iter().map(|line| Line::styled(line, style)));
    }
    let again = match app.writing.can_look_again() {
        true => format!("; {} looks again", app.key_of(Command::LookAgain)),
        false => String::new(),
    };
    let undo = match app.writing.results.iter().any(|came| came.undoes) {
        true => format!("; {} puts back", app.key_of(Command::Undo)),
        false => String::new(),
    };
    draw_box(frame, app, area, lines, scroll, format!(" Result{again}{undo}; esc closes "));
}

/// What was copied to be handed over.
pub fn draw_incident(frame: &mut Frame<'_>, app: &App, area: Rect, text: &str, scroll: usize) {
    let inner = usize::from(area.width.min(WIDEST).saturating_sub(BORDER + 2));
    let lines = text.lines().flat_map(|line| wrap::wrap(&part::safe(line, app.theme), inner));
    let title = " Copied, if your terminal allows it; esc closes ".to_string();
    draw_box(frame, app, area, lines.map(Line::raw).collect(), scroll, title);
}

/// A box with lines over the screen, as large as it has to be.
fn draw_box(frame: &mut Frame<'_>, app: &App, area: Rect, lines: Vec<Line<'_>>, scroll: usize, title: String) {
    let width = area.width.min(WIDEST);
    let height = (lines.len() as u16 + BORDER).min(area.height.saturating_sub(1));
    let room = usize::from(height.saturating_sub(BORDER));
    let scroll = scroll.min(lines.len().saturating_sub(room));
    let more = if lines.len() > scroll + room { " more below " } else { "" };
    let over = Rect { x: area.x + (area.width - width) / 2, y: area.y + 2.min(area.height - height), width, height };
    let block = Block::bordered().border_set(help::border(app.theme)).title(title).title_bottom(more);
    frame.render_widget(Clear, over);
    frame.render_widget(block, over);
    let inside = Rect { x: over.x + 2, y: over.y + 1, width: width.saturating_sub(4), height: room as u16 };
    frame.render_widget(Paragraph::new(lines.into_iter().skip(scroll).take(room).collect::<Vec<_>>()), inside);
}
