//! Wraps texts to a known width, so that the number of lines is known before drawing.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::part::{LABEL, labelled};
use crate::app::theme::Theme;
use crate::base::text;

/// The text in lines of at most `width` cells: broken at spaces, and inside a word that is too long for a line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        let gap = usize::from(!line.is_empty());
        if line.width() + gap + word.width() <= width {
            line.push_str(&" ".repeat(gap));
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(String::new());
        }
        for c in word.chars() {
            let full = lines.last().is_some_and(|line| line.width() + c.width().unwrap_or(0) > width);
            if full {
                lines.push(String::new());
            }
            lines.last_mut().expect("there is always a line").push(c);
        }
    }
    lines
}

/// Lines with labels in front of them, each wrapped behind its label.
pub struct Labelled {
    pub lines: Vec<Line<'static>>,
    width: usize,
    theme: Theme,
    last: String,
}

impl Labelled {
    pub fn new(width: usize, theme: Theme) -> Labelled {
        Labelled { lines: Vec::new(), width, theme, last: String::new() }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Adds a text. The same label is not repeated on the next text.
    pub fn say(&mut self, label: &str, text: &str, style: Style) {
        let text = if self.theme.ascii { text::ascii(text) } else { text.to_string() };
        let mut label = if self.last == label { "" } else { label };
        if !label.is_empty() {
            self.last = label.into();
        }
        for line in wrap(&text, self.width.saturating_sub(LABEL + 1)) {
            self.lines.push(Line::from(labelled(label, line, style, self.theme)));
            label = "";
        }
    }

    /// The same with a mark in front of the text, such as a number; wrapped lines are indented past it.
    pub fn item(&mut self, label: &str, mark: &str, text: &str, style: Style) {
        let before = self.lines.len();
        let width = self.width;
        self.width = width.saturating_sub(mark.width() + 1);
        self.say(label, text, style);
        self.width = width;
        for (index, line) in self.lines[before..].iter_mut().enumerate() {
            let mark = if index == 0 { format!("{mark} ") } else { " ".repeat(mark.width() + 1) };
            line.spans.insert(1, Span::styled(mark, self.theme.dim()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(wrap("a lock nobody holds", 8), ["a lock", "nobody", "holds"]);
        assert_eq!(wrap("see redisson_lock_queue:{a}", 10), ["see", "redisson_l", "ock_queue:", "{a}"]);
        assert_eq!(wrap("锁锁锁锁", 5), ["锁锁", "锁锁"]);
        assert_eq!(wrap("", 5), [""]);
        assert!(wrap("锁 锁", 0).len() <= 2, "no room, no loop without an end");
    }

    #[test]
    fn a_label_stands_once_for_all_that_follows() {
        let mut text = Labelled::new(LABEL + 1 + 10, Theme::default());
        text.say("keys", "one two three", Style::new());
        text.item("keys", "2", "four five", Style::new());
        let lines: Vec<String> = text.lines.iter().map(|line| line.to_string()).collect();
        let pad = " ".repeat(LABEL);
        assert_eq!(
            lines,
            [
                " keys         one two".to_string(),
                format!("{pad}three"),
                format!("{pad}2 four"),
                format!("{pad}  five")
            ]
        );
    }
}
