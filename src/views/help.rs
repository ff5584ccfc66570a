//! The help: every key and what it does, straight from the key table.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::app::App;
use crate::keys::BINDINGS;

pub fn draw(frame: &mut Frame<'_>, app: &App, area: Rect, scroll: u16) {
    let lines: Vec<Line> = BINDINGS
        .iter()
        .map(|binding| {
            let keys: Vec<String> = app.keys.of(binding.command).map(|press| press.to_string()).collect();
            Line::from(vec![
                Span::styled(format!(" {:<18}", keys.join(" ")), app.theme.accent()),
                Span::styled(format!("{:<10}", binding.name), app.theme.dim()),
                Span::raw(binding.about),
            ])
        })
        .collect();
    let height = (lines.len() as u16 + 2).min(area.height);
    let width = area.width.min(108);
    let over = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let most = (lines.len() as u16 + 2).saturating_sub(height);
    frame.render_widget(Clear, over);
    let block = Block::bordered().title(" Keys; : takes the names as commands; any other key closes this ");
    frame.render_widget(Paragraph::new(lines).scroll((scroll.min(most), 0)).block(block), over);
}
