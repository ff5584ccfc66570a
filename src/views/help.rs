//! The help: every key and what it does, from the key table. A key that works only on another screen names that screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::symbols::border;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::app::App;
use crate::app::theme::Theme;
use crate::settings::keys::{BINDINGS, Where};

/// The frame around it.
const BORDER: u16 = 2;
const WIDEST: u16 = 108;
/// A border for ASCII-only terminals.
const ASCII: border::Set<'static> = border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

pub fn border(theme: Theme) -> border::Set<'static> {
    if theme.ascii { ASCII } else { border::PLAIN }
}

/// Leaves the footer uncovered.
fn place(area: Rect) -> Rect {
    let room = area.height.saturating_sub(1);
    let height = (BINDINGS.len() as u16 + BORDER).min(room);
    let width = area.width.min(WIDEST);
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (room - height) / 2, width, height }
}

pub fn scroll_most(area: Rect) -> usize {
    BINDINGS.len().saturating_sub(usize::from(place(area).height.saturating_sub(BORDER)))
}

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect, scroll: usize) {
    let over = place(area);
    let lines: Vec<Line> = BINDINGS
        .iter()
        .skip(scroll)
        .map(|binding| {
            let keys: Vec<String> =
                app.keys.presses(binding.command, app.place()).map(|press| press.to_string()).collect();
            let (key, about) = match binding.at {
                Where::Only { name, .. } if !app.can(binding.command) => {
                    (app.theme.dim(), Span::styled(format!("{name}: {}", binding.about), app.theme.dim()))
                }
                _ => (app.theme.accent(), Span::raw(binding.about)),
            };
            Line::from(vec![
                Span::styled(format!(" {:<16}", keys.join(" ")), key),
                Span::styled(format!(" {:<11}", binding.name), app.theme.dim()),
                about,
            ])
        })
        .collect();
    let more = if scroll < scroll_most(area) { " more below " } else { "" };
    let block = Block::bordered()
        .border_set(border(app.theme))
        .title(" Keys; : takes the names as commands; any other key closes this ")
        .title_bottom(more);
    // A wide character may reach into the frame from the left.
    frame.render_widget(Clear, Rect { x: over.x.saturating_sub(1), width: over.width + over.x.min(1), ..over });
    frame.render_widget(Paragraph::new(lines).block(block), over);
}
