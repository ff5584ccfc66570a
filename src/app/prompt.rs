//! A line that is being typed: a filter or a command, what is wrong with it, how it can go on, and the lines before it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tui_input::{Input, InputRequest};
use unicode_width::UnicodeWidthStr;

use crate::base::text;

#[derive(Debug, Default)]
pub struct Prompt {
    input: Input,
    /// Why the text was refused, and at which column.
    pub refused: Option<(String, usize)>,
    /// What may help to finish the text: said softly.
    pub hint: Option<String>,
    /// What was typed before, the newest first.
    past: Vec<String>,
    /// Which of those is shown; `None`: what is typed now.
    recalled: Option<usize>,
    /// What was typed before one of those was shown.
    draft: String,
    offered: Option<Offered>,
}

/// How the text up to the cursor can go on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// The byte from which the words stand instead.
    pub start: usize,
    pub words: Vec<String>,
}

/// Words that `tab` goes through.
#[derive(Debug)]
struct Offered {
    /// The text before and after the word.
    around: (String, String),
    words: Vec<String>,
    /// The word that is shown; `None`: only what they have in common.
    at: Option<usize>,
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
        Prompt { input: Input::new(text.to_string()), ..Prompt::default() }
    }

    /// An empty line, with what was typed before on the up-arrow.
    pub fn with_past(past: Vec<String>) -> Prompt {
        Prompt { past, ..Prompt::default() }
    }

    pub fn text(&self) -> &str {
        self.input.value()
    }

    /// What the up-arrow brings back first.
    pub fn last(&self) -> Option<&str> {
        self.past.first().map(String::as_str)
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
        (self.refused, self.hint) = (Some((why, column)), None);
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
            KeyCode::Char('p') if ctrl => return self.recall(1),
            KeyCode::Char('n') if ctrl => return self.recall(-1),
            KeyCode::Char(_) if ctrl || alt => return,
            KeyCode::Char(c) => return self.insert(c),
            KeyCode::Up => return self.recall(1),
            KeyCode::Down => return self.recall(-1),
            KeyCode::Backspace => InputRequest::DeletePrevChar,
            KeyCode::Delete => InputRequest::DeleteNextChar,
            KeyCode::Left => InputRequest::GoToPrevChar,
            KeyCode::Right => InputRequest::GoToNextChar,
            KeyCode::Home => InputRequest::GoToStart,
            KeyCode::End => InputRequest::GoToEnd,
            _ => return,
        };
        self.changed();
        self.input.handle(request);
    }

    fn insert(&mut self, c: char) {
        if self.input.value().len() < Self::MOST {
            self.changed();
            self.input.handle(InputRequest::InsertChar(c));
        }
    }

    fn changed(&mut self) {
        (self.refused, self.hint, self.recalled, self.offered) = (None, None, None, None);
    }

    /// Goes back by one of the lines before, or forth.
    fn recall(&mut self, by: isize) {
        let at = self.recalled.map_or(-1, |at| at as isize) + by;
        let at = usize::try_from(at).ok();
        if at.is_some_and(|at| at >= self.past.len()) {
            return;
        }
        if self.recalled.is_none() {
            self.draft = self.text().to_string();
        }
        let text = at.map_or(&self.draft, |at| &self.past[at]).clone();
        self.changed();
        self.recalled = at;
        self.input = Input::new(text);
    }

    /// Completes the word before the cursor: first as far as all words agree, then one after the other.
    pub fn complete(&mut self, offer: impl Fn(&str) -> Offer, back: bool) {
        let mut offered = match self.offered.take() {
            Some(offered) => offered,
            None => {
                let text = self.text();
                let cursor = text.char_indices().nth(self.input.cursor()).map_or(text.len(), |(at, _)| at);
                let (before, after) = text.split_at(cursor);
                let Offer { start, words } = offer(before);
                let Some(common) = in_common(&words) else {
                    self.hint = Some("nothing completes this".into());
                    return;
                };
                let around = (before[..start].to_string(), after.to_string());
                let longer = common.len() > before.len() - start;
                let offered = Offered { around, words, at: None };
                if longer || offered.words.len() == 1 {
                    return self.show(offered, &common);
                }
                offered
            }
        };
        let count = offered.words.len();
        let at = match (offered.at, back) {
            (None, false) => 0,
            (None, true) => count - 1,
            (Some(at), false) => (at + 1) % count,
            (Some(at), true) => (at + count - 1) % count,
        };
        offered.at = Some(at);
        let word = offered.words[at].clone();
        self.show(offered, &word);
    }

    fn show(&mut self, offered: Offered, word: &str) {
        let (before, after) = &offered.around;
        let cursor = before.chars().count() + word.chars().count();
        self.changed();
        self.input = Input::new(format!("{before}{word}{after}")).with_cursor(cursor);
        if offered.words.len() > 1 {
            self.hint = Some(offered.words.join("  "));
            self.offered = Some(offered);
        }
    }
}

/// What all words begin with; `None`: there are none.
fn in_common(words: &[String]) -> Option<String> {
    let mut common = words.first()?.clone();
    for word in words {
        while !word.starts_with(&common) {
            common.pop();
        }
    }
    Some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(before: &str) -> Offer {
        let start = before.rfind(' ').map_or(0, |at| at + 1);
        let words = ["contend", "contention", "copy"].map(String::from);
        Offer { start, words: words.into_iter().filter(|word| word.starts_with(&before[start..])).collect() }
    }

    #[test]
    fn tab_goes_as_far_as_all_agree_and_then_from_word_to_word() {
        let mut prompt = Prompt::new("a con");
        let texts: Vec<String> = (0..4)
            .map(|_| {
                prompt.complete(offer, false);
                prompt.text().to_string()
            })
            .collect();
        assert_eq!(texts, ["a conten", "a contend", "a contention", "a contend"]);
        prompt.complete(offer, true);
        assert_eq!(prompt.text(), "a contention");
        assert_eq!(prompt.hint.as_deref(), Some("contend  contention"));
        let mut prompt = Prompt::new("cop");
        prompt.complete(offer, false);
        assert_eq!((prompt.text(), &prompt.hint), ("copy", &None));
        let mut prompt = Prompt::new("x");
        prompt.complete(offer, false);
        assert_eq!((prompt.text(), prompt.hint.as_deref()), ("x", Some("nothing completes this")));
    }

    #[test]
    fn the_up_arrow_brings_back_what_was_typed_and_down_what_was_begun() {
        let mut prompt = Prompt::with_past(vec!["second".into(), "first".into()]);
        prompt.insert('x');
        let mut press = |code| {
            prompt.press(KeyEvent::from(code));
            prompt.text().to_string()
        };
        assert_eq!(press(KeyCode::Up), "second");
        assert_eq!(press(KeyCode::Up), "first");
        assert_eq!(press(KeyCode::Up), "first");
        assert_eq!(press(KeyCode::Down), "second");
        assert_eq!(press(KeyCode::Down), "x");
        assert_eq!(press(KeyCode::Down), "x");
    }
}
