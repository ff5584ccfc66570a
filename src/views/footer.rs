//! The last line: what is being typed, a notice, or the keys.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use super::wrap::wrap;
use super::{paint, part};
use crate::app::prompt::Prompt;
use crate::app::{App, Overlay};
use crate::base::text::visible;
use crate::model::{Column, GroupBy};
use crate::settings::keys::{BINDINGS, Command};

/// Returns the position of the cursor while something is typed.
pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) -> Option<Position> {
    match &app.overlay {
        Overlay::Filter(filtering) => return Some(draw_prompt(frame, app, area, "/ ", &filtering.prompt)),
        Overlay::Command(prompt) => return Some(draw_prompt(frame, app, area, ": ", prompt)),
        Overlay::Acquire(prompt) => return Some(draw_prompt(frame, app, area, "take ", prompt)),
        Overlay::Sort => {
            let (order, theme) = (app.list.order, app.theme);
            let choice = |column: Column| Choice {
                letter: column.letter().to_string(),
                word: column.name(),
                sign: if order.column == column { theme.order(order.reversed) } else { "" },
                here: order.column == column,
            };
            let columns = app.sortable().iter().map(|column| choice(*column));
            draw_choices(frame, app, area, "sort by", columns.collect());
            return None;
        }
        Overlay::Group => {
            let choice = |by: GroupBy| Choice {
                letter: by.letter().to_string(),
                word: by.name(),
                sign: "",
                here: app.list.grouped.by == Some(by),
            };
            let mut choices: Vec<Choice> = GroupBy::ALL.map(choice).into();
            let (letter, here) = (app.key_of(Command::Group), app.list.grouped.by.is_none());
            choices.push(Choice { letter, word: "nothing", sign: "", here });
            draw_choices(frame, app, area, "group by", choices);
            return None;
        }
        Overlay::Leave => {
            let (left, asked) = app.undone().unwrap_or_default();
            let are = if left == 1 { "is" } else { "are" };
            let text = format!(" {left} of {asked} {are} not done yet. Leave? y leaves, any other key stays");
            frame.render_widget(Line::styled(text, app.theme.warning()), area);
            return None;
        }
        Overlay::Going(name) => {
            let text = format!(
                " connecting to {} {} esc stays here",
                part::safe(&visible(name.as_bytes()), app.theme),
                app.theme.sign("·", "-")
            );
            paint::line(frame, &Line::styled(text, app.theme.warning()), area);
            return None;
        }
        Overlay::Asking(asking) => {
            let about = part::safe(&visible(asking.about.as_bytes()), app.theme);
            let text = format!(" asking {about} {} esc cancels", app.theme.sign("·", "-"));
            paint::line(frame, &Line::styled(text, app.theme.warning()), area);
            return None;
        }
        Overlay::None
        | Overlay::Help { .. }
        | Overlay::Incident { .. }
        | Overlay::Dialog(_)
        | Overlay::Results { .. } => {}
    }
    if let Some(notice) = &app.notice {
        // A long one takes lines from the screen: what it says at its end is what to do.
        let below = Rect { y: area.y + 1, ..area };
        above(frame, app, below, &notice.text, app.theme.warning());
        return None;
    }
    let mut shown: Vec<(Command, String, &str)> = Vec::new();
    for binding in BINDINGS {
        // The lab's own keys need the room.
        let aside = app.in_lab() && matches!(binding.command, Command::Filter | Command::Pause);
        let aside = aside || app.in_alerts() && binding.command == Command::Filter;
        let aside = aside || app.in_tuner() && matches!(binding.command, Command::Pause | Command::Acquire);
        // Raw events are not selected.
        let aside = aside || app.timeline.raw && binding.command == Command::Open && app.can(Command::Raw);
        // Test locks of our own may be given back even when writing is off.
        let ours = binding.command == Command::GiveBack && !app.lab.rows().is_empty();
        let allowed = app.writes() || !binding.command.writes() || ours;
        let useful = !aside && allowed && app.can(binding.command);
        let word = binding.footer.filter(|_| useful);
        if let (Some(word), Some(key)) = (word, app.keys.presses(binding.command, app.place()).next()) {
            shown.push((binding.command, key.to_string(), word));
        }
    }
    // If there is not enough room, help and quit stay.
    let width = |shown: &[(Command, String, &str)]| {
        1 + shown.iter().map(|(_, key, word)| key.width() + word.width() + 3).sum::<usize>()
    };
    while width(&shown) > usize::from(area.width)
        && let Some(last) = shown.iter().rposition(|(command, ..)| !matches!(command, Command::Help | Command::Quit))
    {
        shown.remove(last);
    }
    let mut spans = vec![Span::raw(" ")];
    for (_, key, word) in shown {
        spans.push(Span::styled(part::safe(&key, app.theme), app.theme.accent()));
        spans.push(Span::styled(format!(" {word}  "), app.theme.dim()));
    }
    paint::line(frame, &Line::from(spans), area);
    None
}

/// One word of a choice, with its letter.
struct Choice {
    letter: String,
    word: &'static str,
    sign: &'static str,
    /// It is in force.
    here: bool,
}

/// The words with their letters; the one in force is marked.
fn draw_choices(frame: &mut Frame<'_>, app: &App, area: Rect, what: &str, choices: Vec<Choice>) {
    let theme = app.theme;
    let mut lines = vec![Line::styled(format!(" {what} "), theme.title())];
    for Choice { letter, word, sign, here } in choices {
        let (key, word) = (part::safe(&letter, theme), format!(" {word}{sign}  "));
        let style = if here { theme.title() } else { theme.dim() };
        let room = usize::from(area.width);
        if lines.last().is_some_and(|line| line.width() + key.width() + word.width() > room) {
            lines.push(Line::raw(" "));
        }
        if let Some(line) = lines.last_mut() {
            line.push_span(Span::styled(key, theme.accent()));
            line.push_span(Span::styled(word, style));
        }
    }
    let height = (lines.len() as u16).min(area.y + 1);
    let above = Rect { y: area.y + 1 - height, height, ..area };
    frame.render_widget(Clear, above);
    frame.render_widget(Paragraph::new(lines), above);
}

/// What is typed, marked from the mistake on; the error message is on the line above.
fn draw_prompt(frame: &mut Frame<'_>, app: &App, area: Rect, sign: &'static str, prompt: &Prompt) -> Position {
    let theme = app.theme;
    let typed = prompt.shown(usize::from(area.width).saturating_sub(sign.len() + 1), theme.ascii);
    let mut spans = vec![Span::styled(sign, theme.accent()), Span::raw(typed.right)];
    if !typed.wrong.is_empty() {
        spans.push(Span::styled(typed.wrong, theme.bad().underlined()));
    }
    if prompt.text().is_empty() {
        let last = prompt.last().map_or(String::new(), |last| format!("up {}  ", part::safe(last, theme)));
        let help = format!(" {last}tab completes  esc leaves it as it was");
        let help = part::fit(&help, usize::from(area.width).saturating_sub(sign.len()), theme);
        spans.push(Span::styled(help, theme.dim()));
    }
    paint::line(frame, &Line::from(spans), area);
    match (&prompt.refused, &prompt.hint) {
        (Some((why, _)), _) => above(frame, app, area, why, theme.bad()),
        (None, Some(hint)) => above(frame, app, area, hint, theme.dim()),
        (None, None) => {}
    }
    let column = (sign.len() + typed.cursor) as u16;
    Position::new(area.x + column.min(area.width.saturating_sub(1)), area.y)
}

/// Lines over the last one, as many as the text needs.
fn above(frame: &mut Frame<'_>, app: &App, area: Rect, text: &str, style: Style) {
    let text = wrap(&part::safe(text, app.theme), usize::from(area.width).saturating_sub(2));
    let height = (text.len() as u16).min(area.y);
    let above = Rect { y: area.y - height, height, ..area };
    frame.render_widget(Clear, above);
    let lines: Vec<Line> = text.into_iter().map(|line| Line::styled(format!(" {line}"), style)).collect();
    frame.render_widget(Paragraph::new(lines), above);
}
