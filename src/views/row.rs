//! One line of a list of locks: the sign in front, and cells in the colours of the selection.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::app::{App, LockId};
use crate::model::{LockView, State};

pub struct Row {
    spans: Vec<Span<'static>>,
    selected: bool,
    base: Style,
}

impl Row {
    pub fn new(app: &App, lock: &LockView, selected: bool) -> Row {
        let theme = app.theme;
        let marked = app.list.marked.contains(&LockId::of(lock));
        let was = app.scene.was(lock);
        let better = was.map(|was| was.is_worse_than(lock));
        let sign = match (selected, marked, better) {
            (_, true, _) => theme.sign("●", "*"),
            (true, false, _) => theme.sign("▌", ">"),
            (false, false, Some(true)) => theme.sign("▽", "-"),
            (false, false, Some(false)) => theme.sign("▲", "+"),
            (false, false, None) => " ",
        };
        let faded = lock.stale || better == Some(true) || lock.verdict.state == State::Free;
        let base = match (selected, faded) {
            (true, _) => theme.selected(),
            (false, true) => theme.dim(),
            (false, false) if better == Some(false) => theme.title(),
            (false, false) => Style::new(),
        };
        let mut row = Row { spans: Vec::new(), selected, base };
        row.spans.push(Span::styled(sign.to_string(), row.over(theme.accent())));
        row
    }

    /// A style as it looks in this row.
    fn over(&self, style: Style) -> Style {
        if self.selected { self.base.patch(style) } else { style.patch(self.base) }
    }

    /// Adds a cell in the colours of the row, unless the text is empty.
    pub fn cell(&mut self, text: String) {
        self.styled(text, Style::new());
    }

    /// The same in a style of its own.
    pub fn styled(&mut self, mut text: String, style: Style) {
        if !text.is_empty() {
            text.push(' ');
            self.spans.push(Span::styled(text, self.over(style)));
        }
    }

    pub fn line(self) -> Line<'static> {
        Line::from(self.spans)
    }
}
