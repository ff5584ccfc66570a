//! The filter while it is typed: the list changes with every key, and `esc` brings back what was there before.
//!
//! A filter that is not finished yet is no mistake: the longest beginning of it that can be read is in force, and what
//! is missing is said softly. Only `enter` refuses.

use super::prompt::{Offer, Prompt};
use super::{App, LockId, Overlay};
use crate::filter::{self, BadFilter, Filter};

/// At most this many filters and commands are kept to be typed again.
const PAST: usize = 50;
/// At most this many words are listed while one is typed.
const LISTED: usize = 12;

/// The filter that is being typed.
#[derive(Debug)]
pub struct Filtering {
    pub prompt: Prompt,
    pub before: Before,
}

/// What was in force before anything was typed.
#[derive(Debug)]
pub struct Before {
    text: String,
    filter: Option<Filter>,
    pub selected: Option<LockId>,
}

impl App {
    /// Opens an empty line. All locks are listed until something is typed.
    pub(super) fn ask_filter(&mut self) {
        let before = Before {
            text: std::mem::take(&mut self.list.filter_text),
            filter: self.list.filter.take(),
            selected: self.list.selected.clone(),
        };
        self.refilter();
        // What is typed is looked for in a list that is up to date.
        self.scene.outdated = true;
        let prompt = Prompt::with_past(self.list.past.clone());
        self.overlay = Overlay::Filter(Box::new(Filtering { prompt, before }));
    }

    /// Filters by what is typed so far.
    pub(super) fn filter_typed(&mut self) {
        let Overlay::Filter(filtering) = &mut self.overlay else { return };
        let text = filtering.prompt.text().to_string();
        match text.parse::<Filter>() {
            Ok(filter) => {
                filtering.prompt.hint = None;
                self.try_filter(&text, filter);
            }
            Err(bad) => {
                filtering.prompt.hint = Some(unfinished(&text, &bad));
                let mut rest = text.trim_end();
                while let Some(at) = rest.rfind(char::is_whitespace).or((!rest.is_empty()).then_some(0)) {
                    rest = rest[..at].trim_end();
                    if let Ok(filter) = rest.parse() {
                        return self.try_filter(rest, filter);
                    }
                }
            }
        }
    }

    fn try_filter(&mut self, text: &str, filter: Filter) {
        if self.list.filter_text != text.trim() {
            self.set_filter(text, filter);
        }
    }

    /// `esc`: the list is as it was before.
    pub(super) fn leave_filter(&mut self) {
        if let Overlay::Filter(filtering) = std::mem::replace(&mut self.overlay, Overlay::None) {
            let Before { text, filter, selected } = filtering.before;
            (self.list.filter_text, self.list.filter, self.list.wanted) = (text, filter, selected);
            self.refilter();
        }
    }

    /// Another filter is in force.
    pub(super) fn filter_by(&mut self, text: &str, filter: Filter) {
        self.set_filter(text, filter);
        self.scene.outdated = true;
        remember(&mut self.list.past, text);
    }

    pub(super) fn clear_filter(&mut self) {
        self.list.filter = None;
        self.list.filter_text.clear();
        self.refilter();
    }

    fn set_filter(&mut self, text: &str, filter: Filter) {
        self.list.filter_text = text.trim().to_string();
        self.list.filter = Some(filter).filter(|filter| !filter.is_empty());
        self.refilter();
    }

    fn refilter(&mut self) {
        self.page.scroll = 0;
        self.scene.refilter = true;
        self.timeline.match_anew();
    }
}

/// What `tab` offers in a filter.
pub(super) fn offer(before: &str) -> Offer {
    let filter::Completion { start, words } = filter::complete(before);
    Offer { start, words }
}

/// Keeps what was typed, the newest first, each once.
pub(super) fn remember(past: &mut Vec<String>, text: &str) {
    let text = text.trim();
    if text.is_empty() {
        return;
    }
    past.retain(|old| old != text);
    past.insert(0, text.to_string());
    past.truncate(PAST);
}

/// What is missing, in soft words: the words that can stand there, or what was expected.
fn unfinished(text: &str, bad: &BadFilter) -> String {
    let words = filter::complete(text).words;
    match words.len() {
        0 => format!("not read yet, at column {}: {}", bad.column, bad.why),
        count => {
            let shown: Vec<&str> = words.iter().take(LISTED).map(String::as_str).collect();
            let more = if count > LISTED { format!(" and {} more", count - LISTED) } else { String::new() };
            format!("{}{more}; tab completes", shown.join("  "))
        }
    }
}

#[cfg(test)]
mod tests;
