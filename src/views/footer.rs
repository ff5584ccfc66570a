//! The last line: what is being typed, a notice, or the keys.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use unicode_width::UnicodeWidthStr;

use super::part;
use super::wrap::wrap;
use crate::app::prompt::Prompt;
use crate::app::{App, Overlay};
use crate::settings::keys::{BINDINGS, Command};

/// Returns the position of the cursor while something is typed.
pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) -> Option<Position> {
    match &app.overlay {
        Overlay::Filter(prompt) => return Some(draw_prompt(frame, app, area, "/ ", prompt)),
        Overlay::Command(prompt) => return Some(draw_prompt(frame, app, area, ": ", prompt)),
        Overlay::Acquire(prompt) => return Some(draw_prompt(frame, app, area, "take ", prompt)),
        Overlay::Leave => {
            let (left, asked) = app.undone().unwrap_or_default();
            let are = if left == 1 { "is" } else { "are" };
            let text = format!(" {left} of {asked} {are} not done yet; leave? y leaves, any other key stays");
            frame.render_widget(Line::styled(text, app.theme.warning()), area);
            return None;
        }
        Overlay::None | Overlay::Help { .. } | Overlay::Dialog(_) | Overlay::Results { .. } => {}
    }
    if let Some(notice) = &app.notice {
        let text = format!(" {}", part::safe(&notice.text, app.theme));
        frame.render_widget(Line::styled(text, app.theme.warning()), area);
        return None;
    }
    let mut shown: Vec<(Command, String, &str)> = Vec::new();
    for binding in BINDINGS {
        // The lab's own keys need the room.
        let aside = app.in_lab() && matches!(binding.command, Command::Filter | Command::Pause);
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
    frame.render_widget(Line::from(spans), area);
    None
}

/// What is typed, marked from the mistake on; the error message is on the line above.
fn draw_prompt(frame: &mut Frame<'_>, app: &App, area: Rect, sign: &'static str, prompt: &Prompt) -> Position {
    let theme = app.theme;
    let typed = prompt.shown(usize::from(area.width).saturating_sub(sign.len() + 1), theme.ascii);
    let mut spans = vec![Span::styled(sign, theme.accent()), Span::raw(typed.right)];
    if !typed.wrong.is_empty() {
        spans.push(Span::styled(typed.wrong, theme.bad().underlined()));
    }
    frame.render_widget(Line::from(spans), area);
    if let Some((why, _)) = &prompt.refused {
        let why = wrap(&part::safe(why, theme), usize::from(area.width).saturating_sub(2));
        let height = (why.len() as u16).min(area.y);
        let above = Rect { y: area.y - height, height, ..area };
        frame.render_widget(Clear, above);
        let lines: Vec<Line> = why.into_iter().map(|line| Line::styled(format!(" {line}"), theme.bad())).collect();
        frame.render_widget(Paragraph::new(lines), above);
    }
    let column = (sign.len() + typed.cursor) as u16;
    Position::new(area.x + column.min(area.width.saturating_sub(1)), area.y)
}
