//! The last line: what is being typed, what there is to say, or the keys.

use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use crate::app::{App, Overlay};
use crate::keys::{BINDINGS, Command};
use crate::prompt::Prompt;
use crate::text::visible;

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect) {
    match &app.overlay {
        Overlay::Filter(prompt) => return draw_prompt(frame, app, area, "/ ", prompt),
        Overlay::Command(prompt) => return draw_prompt(frame, app, area, ": ", prompt),
        Overlay::None | Overlay::Help { .. } => {}
    }
    if let Some(notice) = &app.notice {
        return frame
            .render_widget(Line::styled(format!(" {}", visible(notice.text.as_bytes())), app.theme.warning()), area);
    }
    let mut shown: Vec<(Command, String, &str)> = Vec::new();
    for binding in BINDINGS {
        if let (Some(word), Some(key)) = (binding.footer, app.keys.of(binding.command).next()) {
            shown.push((binding.command, key.to_string(), word));
        }
    }
    // Where there is no room for all, help and quit stay.
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
        spans.push(Span::styled(key, app.theme.accent()));
        spans.push(Span::styled(format!(" {word}  "), app.theme.dim()));
    }
    frame.render_widget(Line::from(spans), area);
}

fn draw_prompt(frame: &mut Frame<'_>, app: &App, area: Rect, sign: &'static str, prompt: &Prompt) {
    let refused = prompt.refused.as_ref().map(|(why, _)| format!("  {why}")).unwrap_or_default();
    // What is wrong takes the right half at most; what is typed must stay readable.
    let room = usize::from(area.width).saturating_sub(sign.len() + 1);
    let typed = if refused.is_empty() { room } else { room / 2 };
    let scroll = prompt.scroll(typed);
    let text: String = visible(prompt.text().as_bytes()).replace("\\\\", "\\").chars().skip(scroll).collect();
    let line = Line::from(vec![
        Span::styled(sign, app.theme.accent()),
        Span::raw(text),
        Span::styled(visible(refused.as_bytes()), app.theme.bad()),
    ]);
    frame.render_widget(line, area);
    let column = sign.len() + prompt.cursor().saturating_sub(scroll);
    frame.set_cursor_position(Position::new(area.x + (column as u16).min(area.width.saturating_sub(1)), area.y));
}
