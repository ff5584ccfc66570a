//! A line that is being typed: the filter or a command, and what is wrong with it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tui_input::{Input, InputRequest};
use unicode_width::UnicodeWidthStr;

use crate::base::text;

#[derive(Debug, Default)]
pub struct Prompt {
    input: Input,
    /// Why the text was refused, and at which column.
    pub refused: Option<(String, usize)>,
}

/// The visible part of a prompt.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    pub right: String,
    /// The rest, from the mistake on.
    pub wrong: String,
    /// The column of the cursor, in cells.
    pub cursor: usize,
}

impl Prompt {
    /// Longer than any filter a person types.
    const MOST: usize = 1_000;

    pub fn new(text: &str) -> Prompt {
        Prompt { input: Input::new(text.to_string()), refused: None }
    }

    pub fn text(&self) -> &str {
        self.input.value()
    }

    /// The part around the cursor that fits into `room` cells.
    pub fn shown(&self, room: usize, ascii: bool) -> Shown {
        let text = self.text();
        let cells: Vec<String> = text.chars().map(|c| Self::cell(c, ascii)).collect();
        let cursor = self.input.cursor().min(cells.len());
        let mut first = cursor;
        let mut before = 0;
        while first > 0 && before + cells[first - 1].width() <= room {
            first -= 1;
            before += cells[first].width();
        }
        let wrong_from = self.refused.as_ref().map_or(usize::MAX, |(_, column)| column.saturating_sub(1));
        let mut shown = Shown { right: String::new(), wrong: String::new(), cursor: before };
        let mut used = 0;
        for (index, cell) in cells.iter().enumerate().skip(first) {
            used += cell.width();
            if used > room {
                break;
            }
            if index < wrong_from { &mut shown.right } else { &mut shown.wrong }.push_str(cell);
        }
        shown
    }

    /// One typed character, made safe to print. A backslash is shown as typed, not escaped.
    fn cell(c: char, ascii: bool) -> String {
        let mut bytes = [0; 4];
        let shown = match c {
            '\\' => "\\".into(),
            ' ' => " ".into(),
            c => text::visible(c.encode_utf8(&mut bytes).as_bytes()),
        };
        if ascii { text::ascii_only(&shown) } else { shown }
    }

    pub fn refuse(&mut self, why: String, column: usize) {
        self.refused = Some((why, column));
    }

    pub fn paste(&mut self, text: &str) {
        for c in text.chars().filter(|c| !c.is_control()) {
            self.insert(c);
        }
    }

    pub fn press(&mut self, key: KeyEvent) {
        let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let request = match key.code {
            KeyCode::Char('a') if ctrl => InputRequest::GoToStart,
            KeyCode::Char('e') if ctrl => InputRequest::GoToEnd,
            KeyCode::Char('w') if ctrl => InputRequest::DeletePrevWord,
            KeyCode::Char('u') if ctrl => InputRequest::DeleteFromStart,
            KeyCode::Char('k') if ctrl => InputRequest::DeleteTillEnd,
            KeyCode::Char(_) if ctrl || alt => return,
            KeyCode::Char(c) => return self.insert(c),
            KeyCode::Backspace => InputRequest::DeletePrevChar,
            KeyCode::Delete => InputRequest::DeleteNextChar,
            KeyCode::Left => InputRequest::GoToPrevChar,
            KeyCode::Right => InputRequest::GoToNextChar,
            KeyCode::Home => InputRequest::GoToStart,
            KeyCode::End => InputRequest::GoToEnd,
            _ => return,
        };
        self.refused = None;
        self.input.handle(request);
    }

    fn insert(&mut self, c: char) {
        if self.input.value().len() < Self::MOST {
            self.refused = None;
            self.input.handle(InputRequest::InsertChar(c));
        }
    }
}
