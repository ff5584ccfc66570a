//! A line that is being typed: the filter or a command, and what is wrong with it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tui_input::{Input, InputRequest};

#[derive(Debug, Default)]
pub struct Prompt {
    input: Input,
    /// Why the text was refused, and at which column.
    pub refused: Option<(String, usize)>,
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

    /// The column of the cursor, in terminal cells.
    pub fn cursor(&self) -> usize {
        self.input.visual_cursor()
    }

    /// How many cells are scrolled out to the left when there is room for `width`.
    pub fn scroll(&self, width: usize) -> usize {
        self.input.visual_scroll(width)
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
